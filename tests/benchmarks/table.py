"""The benchmark's table: what each learner needed and how far it was from the truth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

COLUMNS = (
    "network",
    "rows",
    "learner",
    "time",
    "from DataFrame",
    "SHD",
    "skeleton HD",
    "weighted tests",
    "fastest peer / time",
)
_TEXT_COLUMNS = 3


@dataclass(frozen=True)
class Run:
    """One learner on one sample; ``note`` says why there is no result."""

    seconds: float | None = None
    frame_seconds: float | None = None
    structural_distance: int | None = None
    skeleton_distance: int | None = None
    weighted_tests: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Entry:
    """One learner on one network and number of rows, over all seeds."""

    learner: str
    is_peer: bool
    runs: tuple[Run, ...]

    @property
    def note(self) -> str:
        """The first reason for which a run has no result, else nothing."""
        return next((run.note for run in self.runs if run.note), "")

    @property
    def seconds(self) -> float | None:
        """Mean time, or None if a run has no result."""
        return None if self.note else _mean(run.seconds for run in self.runs)


@dataclass(frozen=True)
class Result:
    """All learners on one network and number of rows."""

    network: str
    n_rows: int
    entries: tuple[Entry, ...]

    @property
    def cells(self) -> list[tuple[str, ...]]:
        times = [e.seconds for e in self.entries if e.is_peer and e.seconds is not None]
        fastest = min(times, default=None)
        return [(self.network, str(self.n_rows), *_cells(e, fastest)) for e in self.entries]


def _cells(entry: Entry, fastest: float | None) -> tuple[str, ...]:
    seconds = entry.seconds
    if seconds is None:
        return (entry.learner, entry.note, "", "", "", "", "")
    return (
        entry.learner,
        _duration(seconds),
        _duration(_mean(run.frame_seconds for run in entry.runs) or seconds),
        _number(_mean(run.structural_distance for run in entry.runs), 1),
        _number(_mean(run.skeleton_distance for run in entry.runs), 1),
        _number(_mean(run.weighted_tests for run in entry.runs), 0),
        "" if fastest is None else f"{fastest / seconds:.3g}",
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def render(results: Sequence[Result], *, markdown: bool) -> str:
    """Return the table as text: aligned columns, or Markdown."""
    rows = [row for result in results for row in result.cells]
    if markdown:
        rule = ("---",) * _TEXT_COLUMNS + ("--:",) * (len(COLUMNS) - _TEXT_COLUMNS)
        return "".join(f"| {' | '.join(row)} |\n" for row in (COLUMNS, rule, *rows))
    widths = [max(map(len, column)) for column in zip(COLUMNS, *rows, strict=True)]
    return "".join(_aligned(row, widths) for row in (COLUMNS, *rows))


def render_distances(results: Sequence[Result]) -> str:
    """Return a Markdown table of the SHD of every learner, with its time in brackets."""
    learners = [entry.learner for entry in results[0].entries]
    lines = [
        ("network", "rows", *learners),
        ("---", "--:", *("--:" for _ in learners)),
        *(
            (result.network, str(result.n_rows), *map(_distance, result.entries))
            for result in results
        ),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _distance(entry: Entry) -> str:
    if entry.seconds is None:
        return entry.note
    shd = _number(_mean(run.structural_distance for run in entry.runs), 1)
    return f"{shd} ({_duration(entry.seconds)})"


def _aligned(row: tuple[str, ...], widths: list[int]) -> str:
    cells = [
        cell.ljust(width) if i < _TEXT_COLUMNS else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip() + "\n"
