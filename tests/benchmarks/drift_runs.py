"""Run the monitor on one stream of the drift benchmark, and keep what came out.

Results are lines of JSON, one stream each, so that a run can go on where it was interrupted. They
are recognised by the stream and the settings, not by the version of the library: start a new file
after a change of the library.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from driftbn.drift.outcome import DriftDecision, DriftLevel
from tests.benchmarks.drift_scenarios import WINDOW_ROWS, Codes, columns, make_scenario, windows
from tests.benchmarks.drift_scores import Naming, Overlap, StreamScore, score_stream

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

R = TypeVar("R", bound="DataclassInstance")


class Timings(Protocol):
    @property
    def learn(self) -> float:
        """Learning the structure of the window."""

    @property
    def decide(self) -> float:
        """All that comes after it."""


class Report(Protocol):
    """What the benchmark reads of a window's report."""

    @property
    def index(self) -> int:
        """Number of the window, from 0."""

    @property
    def decision(self) -> DriftDecision:
        """What is scored."""

    @property
    def twins(self) -> Sequence[tuple[str, str]]:
        """Fields that say the same as another one, with that other one."""

    @property
    def timings(self) -> Timings:
        """What is compared with one relearn."""


class Monitor(Protocol):
    """What the benchmark needs of a monitor."""

    def update(self, batch: Mapping[str, Codes]) -> Iterable[Report]:
        """Take rows in and report on the windows that they complete."""


@dataclass(frozen=True)
class Settings:
    """What the monitor is told; ``None`` leaves its default."""

    alpha: float | None = None
    windows_between_false_alarms: float | None = None
    warm: str | None = None


@dataclass(frozen=True)
class Task:
    """One stream to run the monitor on."""

    network: str
    cell: str
    bursts: str
    seed: int
    settings: Settings = Settings()


@dataclass(frozen=True)
class Result:
    """One stream: how it was scored, and what it cost."""

    task: Task
    score: StreamScore | None = None
    learn_seconds: tuple[float, ...] = ()
    decide_seconds: tuple[float, ...] = ()


def make_monitor(settings: Settings) -> Monitor:
    """Return the monitor under test: defaults, but for what the settings say."""
    library: Any = importlib.import_module("driftbn")
    chosen = {name: value for name, value in asdict(settings).items() if value is not None}
    warm = chosen.pop("warm", None)
    if warm is not None:
        chosen["learner"] = library.LearnerConfig(warm=warm)
    monitor: Monitor = library.DriftMonitor(
        library.MonitorConfig(window=WINDOW_ROWS, **chosen),
    )
    return monitor


def run_task(task: Task) -> Result:
    """Run a monitor of its own on one stream."""
    return run_monitor(task, make_monitor(task.settings))


def run_monitor(task: Task, monitor: Monitor) -> Result:
    """Run a monitor on one stream and score it."""
    scenario = make_scenario(task.network, task.cell, task.bursts, task.seed)
    if scenario is None:
        return Result(task)
    reports = [
        report for codes in windows(scenario) for report in monitor.update(columns(scenario, codes))
    ]
    ordinary = [r.timings for r in reports if r.decision.level is DriftLevel.STABLE]
    return Result(
        task,
        score_stream(
            scenario, [(report.index, report.decision) for report in reports], _twins(reports)
        ),
        tuple(timings.learn for timings in ordinary),
        tuple(timings.decide for timings in ordinary),
    )


def _twins(reports: Sequence[Report]) -> dict[str, str]:
    """Return the fields that were equal to another one in every window."""
    found = dict(reports[0].twins)
    for report in reports:
        now = dict(report.twins)
        found = {name: other for name, other in found.items() if now.get(name) == other}
    return found


def result_from(line: str) -> Result:
    """Read a line of a file of results."""
    data = json.loads(line)
    task = Task(**{**data["task"], "settings": Settings(**data["task"]["settings"])})
    score = None if data["score"] is None else _score(data["score"])
    return Result(task, score, tuple(data["learn_seconds"]), tuple(data["decide_seconds"]))


def _score(data: dict[str, Any]) -> StreamScore:
    naming = data["naming"]
    score = StreamScore(**{**data, "naming": None})
    if naming is None:
        return score
    parts = {name: Overlap(**naming[name]) for name in ("edges", "nodes")}
    return replace(score, naming=Naming(**{**naming, **parts}))


@dataclass(frozen=True)
class ResultFile(Generic[R]):
    """A file of results, a line of JSON each."""

    path: Path
    parse: Callable[[str], R]

    def read(self) -> list[R]:
        """Return what is there, and cut off a last line that an interruption left unfinished."""
        if not self.path.exists():
            return []
        text = self.path.read_text("utf-8")
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            self.path.write_text(whole, "utf-8")
        return [self.parse(line) for line in whole.splitlines()]

    def append(self, result: R) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(result)) + "\n")
