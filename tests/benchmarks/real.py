"""Measure the monitor on real streams: how often it alarms, and whether it names what breaks.

Run ``python -m tests.benchmarks.real --streams DIR`` with a folder of Parquet files in event order.
Each stream is run in its real order, with its rows and with blocks of 50 and 500 rows shuffled, and
with nine faults at eight places. Constants of the method may be chosen on the *design* streams
only; the others are reported. Everything follows from ``--seed``.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from driftbn import DriftLevel, DriftMonitor, Edge, WindowReport
from tests.benchmarks.drift_text import Table
from tests.benchmarks.environment import THREAD_VARIABLES
from tests.benchmarks.faults import KINDS, Fault, Fields, draw, hash_of

T = TypeVar("T")
R = TypeVar("R")

PLACES = 8
FIRST_PLACE = 12  # windows before the first fault, or half of a short stream
SOME_WINDOWS = 3  # every other fault lasts so long; the others to the end
AFTER = 2  # windows run after the first fully broken one
FULL_REFERENCE = 8
AFTER_ALARM = 2  # faults of each kind that begin in the window after an alarm
BLOCKS = {"rows": 1, "blocks of 50": 50, "blocks of 500": 500}
ORDERS = ("real", *BLOCKS)

_log = logging.getLogger(__name__)


# --- Streams ---


@dataclass(frozen=True)
class Source:
    """How the table of a stream is to be read.

    ``time``: the column with event times. ``left_out``: columns that are labels of the stream, not
    fields of it. ``design``: whether constants may be chosen on it. The rest: see `Fields`.
    """

    window: int = 1000
    time: str | None = None
    left_out: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    clock: str | None = None
    group: str | None = None
    design: bool = False


_BIKE_CALENDAR = ("season", "yr", "mnth", "holiday", "weekday", "workingday")
SOURCES = {
    "nycflights": Source(5000, "time_hour", clock="hour", group="origin", design=True),
    "elec": Source(1000, clock="period", group="class", design=True),
    "bike": Source(1000, "time", given=_BIKE_CALENDAR, clock="hr", group="workingday", design=True),
    "beijing": Source(1000, "time", clock="hour", group="cbwd"),
    "nml_carloan": Source(5000, "timestamp", group="salary_range"),
    "skab": Source(1000, "datetime", ("source", "anomaly", "changepoint")),
}


@dataclass(frozen=True)
class Stream:
    """A table in event order."""

    name: str
    source: Source
    table: pd.DataFrame = field(repr=False)

    @property
    def n_windows(self) -> int:
        return len(self.table) // self.source.window

    @cached_property
    def about(self) -> Fields:
        """What may be broken."""
        source = self.source
        given = (*source.given, *([source.time] if source.time else []))
        return Fields(source.window, given, source.clock, source.group)

    def monitor(self) -> DriftMonitor:
        """Return a monitor with default settings that measures CPU time."""
        source = self.source
        return DriftMonitor(window=source.window, time_column=source.time, clock=time.process_time)


def read_stream(path: Path, max_windows: int | None) -> Stream:
    source = SOURCES.get(path.stem, Source())
    table = pd.read_parquet(path).drop(columns=list(source.left_out))
    if source.time:
        table[source.time] = pd.to_datetime(table[source.time])
    n_windows = min(len(table) // source.window, max_windows or len(table))
    return Stream(path.stem, source, table.iloc[: n_windows * source.window])


def shuffled(stream: Stream, block: int, seed: int) -> Stream:
    """Return the stream with its blocks of rows in random order; event times stay in place."""
    n_rows = len(stream.table)
    starts = np.arange(0, n_rows, block)
    np.random.default_rng(hash_of(seed, stream.name, block)).shuffle(starts)
    order = np.concatenate([np.arange(start, min(start + block, n_rows)) for start in starts])
    table = stream.table.iloc[order].reset_index(drop=True)
    if stream.source.time:
        table[stream.source.time] = stream.table[stream.source.time].to_numpy()
    return replace(stream, table=table)


# --- Running ---


class Verdict(NamedTuple):
    """What was said of one window: ``names`` are the fields of an alarm, the headline's first."""

    alarm: bool
    judged: bool
    first: str | None = None
    names: tuple[str, ...] = ()
    edges: tuple[Edge, ...] = ()
    full: bool = False
    learn: float = 0.0
    decide: float = 0.0


def verdict_on(report: WindowReport) -> Verdict:
    decision = report.decision
    rest = {
        "full": decision.reference_windows >= FULL_REFERENCE,
        "learn": report.timings.learn,
        "decide": report.timings.decide,
    }
    if not getattr(report, "drift", decision.drift):
        calm = decision.level in (DriftLevel.STABLE, DriftLevel.NEGLIGIBLE)
        return Verdict(alarm=False, judged=calm, **rest)
    told = headline_fields(report)
    facts = [str(fact.field) for fact in getattr(report, "facts", ())]
    edges = tuple((edge.source, edge.target) for edge in decision.edges)
    ends = [name for edge in edges for name in edge]
    events = [event.column for event in report.events]
    names = tuple(dict.fromkeys([*told, *facts, *ends, *decision.nodes, *events]))
    first = told[0] if told else None
    return Verdict(alarm=True, judged=True, first=first, names=names, edges=edges, **rest)


def headline_fields(report: WindowReport) -> list[str]:
    """Return the fields that the headline has in quotes, in its order."""
    headline = report.explain().headline
    columns = {*report.graph.nodes, *(event.column for event in report.events)}
    places = {name: headline.find(f"'{name}'") for name in columns}
    return sorted((name for name in columns if places[name] >= 0), key=places.__getitem__)


@dataclass
class CleanRun:
    """A stream without faults: what was said, and the monitor before each window."""

    stream: Stream
    verdicts: list[Verdict] = field(default_factory=list)
    snapshots: list[bytes] = field(default_factory=list)

    def run(self, *, snapshots: bool) -> CleanRun:
        monitor, window = self.stream.monitor(), self.stream.source.window
        for begin in range(0, self.stream.n_windows * window, window):
            if snapshots:
                self.snapshots.append(monitor.snapshot())
            self.verdicts += _told(monitor, self.stream.table.iloc[begin : begin + window])
        return self

    def run_broken(self, fault: Fault) -> list[Verdict]:
        """Return what is said from the window of the fault to ``AFTER`` full ones, or the end."""
        window = self.stream.source.window
        first, last = fault.start // window, first_full_window(fault, window) + AFTER
        monitor = DriftMonitor.restore(self.snapshots[first], clock=time.process_time)
        told: list[Verdict] = []
        for begin in range(first * window, min(last + 1, self.stream.n_windows) * window, window):
            about = self.stream.about
            told += _told(monitor, fault.rows(self.stream.table, about, begin, begin + window))
        return told


def _told(monitor: DriftMonitor, rows: pd.DataFrame) -> Iterator[Verdict]:
    return map(verdict_on, monitor.update(rows))


def first_full_window(fault: Fault, window: int) -> int:
    return -(-fault.start // window)


def places(n_windows: int, n_places: int) -> list[float]:
    """Return where faults begin, in windows: at a boundary and inside a window in turn."""
    spread = np.linspace(min(FIRST_PLACE, n_windows // 2), n_windows - 3, n_places)
    return [int(place) + (0.4 if i % 2 else 0.0) for i, place in enumerate(spread)]


def drawn_faults(stream: Stream, begins: Sequence[float], seed: int) -> Iterator[Fault]:
    """Yield a fault of each kind at each place, where the stream can have it."""
    window = stream.source.window
    for kind in KINDS:
        for turn, begin in enumerate(begins):
            start = int(begin * window)
            full = -(-start // window)
            lasts = full + SOME_WINDOWS if turn % 4 < 2 else stream.n_windows
            stop = min(lasts, stream.n_windows) * window
            fault = draw(stream.table, stream.about, kind, start, stop, seed, turn)
            if fault is not None:
                yield fault


def after_alarms(clean: CleanRun, seed: int) -> Iterator[Fault]:
    """Yield faults of each kind that begin with the window after an alarm of the clean stream."""
    last = clean.stream.n_windows - 1
    alarms = [i + 1 for i, told in enumerate(clean.verdicts[:last]) if told.alarm and i >= 3]
    rng = np.random.default_rng([seed, 1])
    for kind in KINDS:
        begins = sorted(rng.permutation(alarms)[:AFTER_ALARM].tolist())
        yield from (
            fault for fault in drawn_faults(clean.stream, begins, seed) if fault.kind == kind
        )


@dataclass(frozen=True)
class FaultScore:
    """Whether a fault was seen up to its first fully broken window, and its field named.

    ``clean_alarm``: whether the stream without the fault has an alarm in the same windows.
    ``new``: named, and not by the stream without the fault; ``new_soon``: the same within three
    windows. ``first``: the headline's first field.
    """

    stream: str
    kind: str
    fields: tuple[str, ...]
    window: float
    seen: bool
    clean_alarm: bool
    named: bool
    new: bool
    new_soon: bool
    first: bool
    after_alarm: bool = False


def score(clean: CleanRun, fault: Fault, told: Sequence[Verdict]) -> FaultScore:
    window = clean.stream.source.window
    first = fault.start // window
    n_scored = first_full_window(fault, window) - first + 1
    now, before = told[:n_scored], clean.verdicts[first : first + n_scored]
    fields, soon = set(fault.fields), clean.verdicts[first : first + len(told)]
    return FaultScore(
        clean.stream.name,
        fault.kind,
        fault.fields,
        fault.start / window,
        seen=any(verdict.alarm for verdict in now),
        clean_alarm=any(verdict.alarm for verdict in before),
        named=bool(fields & _names(now)),
        new=bool(fields & _names(now) - _names(before)),
        new_soon=bool(fields & _names(told) - _names(soon)),
        first=any(verdict.first in fault.fields for verdict in now),
    )


def _names(verdicts: Iterable[Verdict]) -> set[str]:
    return {name for verdict in verdicts for name in verdict.names}


@dataclass(frozen=True)
class Task:
    """One order of one stream, with faults if it is the real one."""

    path: Path
    order: str
    seed: int
    max_windows: int | None
    n_places: int


@dataclass(frozen=True)
class Result:
    stream: str
    order: str
    design: bool
    verdicts: list[Verdict]
    faults: list[FaultScore]

    def judged(self, after: int) -> list[Verdict]:
        """Return the judged windows after the first ones."""
        return [verdict for verdict in self.verdicts[after:] if verdict.judged]


def run_task(task: Task) -> Result:
    stream = read_stream(task.path, task.max_windows)
    real = task.order == "real"
    if not real:
        stream = shuffled(stream, BLOCKS[task.order], task.seed)
    clean = CleanRun(stream).run(snapshots=real)
    scores = []
    if real and task.n_places:
        for fault in drawn_faults(stream, places(stream.n_windows, task.n_places), task.seed):
            scores.append(score(clean, fault, clean.run_broken(fault)))
        for fault in after_alarms(clean, task.seed):
            found = score(clean, fault, clean.run_broken(fault))
            scores.append(replace(found, after_alarm=True))
    _log.info(
        "%s, %s: %d windows, %d faults", stream.name, task.order, stream.n_windows, len(scores)
    )
    return Result(stream.name, task.order, stream.source.design, clean.verdicts, scores)


# --- Tables ---


def alarms_text(judged: Sequence[Verdict]) -> str:
    """Return alarms of judged windows."""
    return f"{sum(verdict.alarm for verdict in judged)}/{len(judged)}" if judged else "-"


def alarms_of(results: Iterable[Result], after: int) -> str:
    return alarms_text([verdict for result in results for verdict in result.judged(after)])


def tables(results: Sequence[Result]) -> list[Table]:
    groups = [(name, [r for r in results if r.stream == name]) for name in _streams(results)]
    groups += [
        ("design streams", [r for r in results if r.design]),
        ("reported streams", [r for r in results if not r.design]),
        ("all", list(results)),
    ]
    groups = [(name, found) for name, found in groups if found]
    return [
        _alarm_table(groups),
        *_fault_tables(groups),
        _kind_table(results, after_alarm=False),
        _kind_table(results, after_alarm=True),
    ]


def _streams(results: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(result.stream for result in results))


def _alarm_table(groups: Sequence[tuple[str, list[Result]]]) -> Table:
    rows = []
    for name, found in groups:
        cells = [
            alarms_of([result for result in found if result.order == order], after)
            for order in ORDERS
            for after in (10, 20)
        ]
        calm = [
            v for r in found if r.order == "real" for v in r.verdicts if v.judged and not v.alarm
        ]
        cost = [
            f"{1000 * _median([getattr(v, part) for v in calm]):.1f}"
            for part in ("learn", "decide")
        ]
        rows.append((name, *cells, *cost))
    header = ("stream", *(f"{order}, after {after}" for order in ORDERS for after in (10, 20)))
    return Table(
        "Alarms of judged windows; CPU of a calm window, ms",
        (*header, "learn", "decide"),
        tuple(rows),
    )


def _median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else float("nan")


_MEASURES: dict[str, Callable[[FaultScore], bool]] = {
    "clean alarms": lambda s: s.clean_alarm,
    "seen": lambda s: s.seen,
    "named": lambda s: s.named,
    "named and new": lambda s: s.new,
    "first": lambda s: s.first,
    "new within three": lambda s: s.new_soon,
}


def _fault_cells(scores: Sequence[FaultScore]) -> tuple[str, ...]:
    return (str(len(scores)), *(str(sum(map(of, scores))) for of in _MEASURES.values()))


def _fault_tables(groups: Sequence[tuple[str, list[Result]]]) -> Iterator[Table]:
    for after_alarm, title in ((False, "Faults by stream"), (True, "Faults after an alarm")):
        rows = []
        for name, found in groups:
            scores = [s for r in found for s in r.faults if s.after_alarm == after_alarm]
            rows.append((name, *_fault_cells(scores)))
        yield Table(title, ("stream", "faults", *_MEASURES), tuple(rows))


def _kind_table(results: Sequence[Result], *, after_alarm: bool) -> Table:
    scores = [s for r in results for s in r.faults if s.after_alarm == after_alarm]
    rows = [(kind, *_fault_cells([s for s in scores if s.kind == kind])) for kind in KINDS]
    title = "Faults by kind" + (", begun in the window after an alarm" if after_alarm else "")
    return Table(title, ("kind", "faults", *_MEASURES), tuple(rows))


# --- Command line ---


def run_all(run: Callable[[T], R], tasks: Sequence[T], jobs: int) -> list[R]:
    """Return the results in the order of the tasks, several run at a time."""
    if jobs == 1:
        return [_logged(i, len(tasks), run(task)) for i, task in enumerate(tasks, start=1)]
    # Spawned, so that the limits on threads hold when the numerical libraries are loaded.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        found = pool.map(run, tasks)
        return [_logged(i, len(tasks), result) for i, result in enumerate(found, start=1)]


def _logged(number: int, n_tasks: int, result: R) -> R:
    _log.info("%d of %d", number, n_tasks)
    return result


def usual_parser(program: str) -> argparse.ArgumentParser:
    """Return a parser with the options that both benchmarks have, and settle threads and log."""
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    parser = argparse.ArgumentParser(prog=program)
    add = parser.add_argument
    add("--windows", type=int, help="most windows of a stream")
    add("--seed", type=int, default=1)
    add("--quick", action="store_true", help="a few streams and windows, for a first look")
    add("--jobs", type=int, default=1, help="streams at a time; 1 for measuring CPU")
    add("--json", type=Path, help="write all verdicts and scores there")
    add("--markdown", type=Path, help="write the tables there as Markdown, too")
    return parser


def write(
    arguments: argparse.Namespace, printed: Sequence[Table], results: Sequence[Any], about: str
) -> None:
    """Print the tables, and write what the options ask for; the command stands beside them."""
    sys.stdout.write("".join(table.render(markdown=False) for table in printed))
    if arguments.markdown is not None:
        module = f"tests.benchmarks.{Path(sys.argv[0]).stem}"
        command = f"`python -m {module} {' '.join(sys.argv[1:])}`, {about}\n\n"
        text = command + "".join(table.render(markdown=True) for table in printed)
        arguments.markdown.write_text(text, "utf-8")
    if arguments.json is not None:
        document = [asdict(result) for result in results]
        arguments.json.write_text(json.dumps(document, indent=1), "utf-8")


def main() -> None:
    """Parse the command line, run, print the tables."""
    parser = usual_parser("python -m tests.benchmarks.real")
    add = parser.add_argument
    add("--streams", type=Path, help="folder of Parquet files in event order")
    add("--only", nargs="+", metavar="STREAM", help="; ".join(SOURCES))
    add("--orders", nargs="+", choices=ORDERS, default=ORDERS)
    add("--places", type=int, default=PLACES, help="of each fault; 0 for no faults")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.orders, arguments.places = ("real",), 2
        arguments.windows = min(arguments.windows or 30, 30)
    paths = sorted(arguments.streams.glob("*.parquet"))
    tasks = [
        Task(path, order, arguments.seed, arguments.windows, arguments.places)
        for path in paths
        for order in arguments.orders
        if arguments.only is None or path.stem in arguments.only
    ]
    results = run_all(run_task, tasks, arguments.jobs)
    write(arguments, tables(results), results, f"seed {arguments.seed}")


if __name__ == "__main__":
    main()
