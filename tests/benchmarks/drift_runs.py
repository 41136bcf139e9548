"""Run the monitor on one stream of the drift benchmark, and keep what came out.

Results are lines of JSON, one stream each, so that a run can go on where it was interrupted. They
are recognised by the stream and the settings, not by the version of the library: start a new file
after a change of the library.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Generic, TypeVar

from driftbn import DriftMonitor, LearnerConfig, MonitorConfig, WindowReport
from driftbn.config import DriftKind
from driftbn.datasets import Change
from driftbn.drift.outcome import ChangeType, DriftDecision, DriftLevel
from driftbn.graphs.graph import Edge
from tests.benchmarks.drift_scenarios import (
    WINDOW_ROWS,
    Scenario,
    columns,
    make_scenario,
    windows,
)
from tests.benchmarks.drift_text import Rate

# How well the decisions on one stream fit its known change, and sums over many streams.

Decisions = Sequence[tuple[int, DriftDecision]]

N_SOON = 3  # full windows after the change in which an alarm still counts as seen soon

_TESTED = (DriftLevel.STABLE, DriftLevel.NEGLIGIBLE, DriftLevel.NOTICE, DriftLevel.DRIFT)


@dataclass(frozen=True)
class Overlap:
    """What was named against what is true, as numbers."""

    hits: int
    named: int
    true: int

    @classmethod
    def of(cls, named: set[Edge] | set[str], true: set[Edge] | set[str]) -> Overlap:
        return cls(len(named & true), len(named), len(true))


@dataclass(frozen=True)
class Naming:
    """What an alarm says of a change, against what it is."""

    edges: Overlap
    touching: int
    nodes: Overlap
    kind: str
    expected_kind: str
    reversal: bool | None = None


@dataclass(frozen=True)
class StreamScore:
    """The decisions on one stream against its known change."""

    n_quiet: int
    n_false_alarms: int
    seen_first: bool | None = None
    seen_soon: bool | None = None
    delay: int | None = None
    n_episodes: int = 0
    naming: Naming | None = None
    return_seen: bool | None = None
    return_called: bool | None = None
    wrongly_called: bool = False


def score_stream(
    scenario: Scenario, decisions: Decisions, twins: Mapping[str, str] | None = None
) -> StreamScore:
    """Compare the decisions, with the numbers of their windows, with the known change.

    Fields that say the same before and after the change cannot be told apart by any method: with
    ``twins`` a field counts as the one that it is always equal to.
    """
    begin, back = scenario.change_window, scenario.return_window
    quiet = [decision for _, decision in _between(decisions, 0, begin)]
    n_quiet = sum(decision.level in _TESTED for decision in quiet)
    n_false_alarms = sum(decision.drift for decision in quiet)
    end = scenario.n_windows if back is None else back
    if scenario.change is None:
        return StreamScore(n_quiet, n_false_alarms)
    alarm = _first_alarm(decisions, begin, end)
    full = scenario.first_full_window
    return_alarm = None if back is None else _first_alarm(decisions, back, back + N_SOON)
    return StreamScore(
        n_quiet=n_quiet,
        n_false_alarms=n_false_alarms,
        seen_first=alarm is not None and alarm <= full,
        seen_soon=alarm is not None and alarm < full + N_SOON,
        delay=None if alarm is None else alarm - begin,
        n_episodes=_episodes_started(decisions, begin, end),
        naming=None if alarm is None else _naming(scenario.change, decisions, alarm, twins or {}),
        return_seen=None if back is None else return_alarm is not None,
        return_called=None if back is None else _called_recurring(decisions, return_alarm),
        wrongly_called=any(d.recurring for _, d in _between(decisions, begin, end)),
    )


def _between(decisions: Decisions, start: int, end: int) -> list[tuple[int, DriftDecision]]:
    return [(index, decision) for index, decision in decisions if start <= index < end]


def _first_alarm(decisions: Decisions, start: int, end: int) -> int | None:
    alarms = (index for index, decision in _between(decisions, start, end) if decision.drift)
    return min(alarms, default=None)


def _episodes_started(decisions: Decisions, start: int, end: int) -> int:
    before = {decision.episode for _, decision in _between(decisions, 0, start)}
    alarms = {decision.episode for _, decision in _between(decisions, start, end) if decision.drift}
    return len(alarms - (before - {None}))


def _called_recurring(decisions: Decisions, alarm: int | None) -> bool:
    if alarm is None:
        return False
    return any(decision.recurring for _, decision in _between(decisions, alarm, alarm + 2))


def _naming(change: Change, decisions: Decisions, alarm: int, twins: Mapping[str, str]) -> Naming:
    def same(edge: Edge) -> Edge:
        return _unordered((twins.get(edge[0], edge[0]), twins.get(edge[1], edge[1])))

    by_index = dict(decisions)
    decision = _naming_decision(by_index[alarm], by_index.get(alarm + 1))
    pairs = {same(edge) for edge in _changed_edges(change)}
    named = {same(edge.pair) for edge in decision.edges}
    nodes = {twins.get(name, name) for name in change.nodes}
    concerned = nodes.union(*pairs)
    turned = {same(edge.pair) for edge in decision.edges if edge.change is ChangeType.REVERSED}
    reversals = {same(edge) for edge in change.edges_reversed}
    kind = decision.kind or by_index[alarm].kind
    return Naming(
        edges=Overlap.of(named, pairs),
        touching=sum(not concerned.isdisjoint(pair) for pair in named),
        nodes=Overlap.of({twins.get(name, name) for name in decision.nodes}, nodes),
        kind="none" if kind is None else kind.value,
        expected_kind=_expected_kind(change).value,
        reversal=reversals <= turned if reversals else None,
    )


def _expected_kind(change: Change) -> DriftKind:
    if change.edges_added or change.edges_removed or change.edges_reversed:
        return DriftKind.STRUCTURAL
    has_parents = change.network.parents[change.network.index(change.nodes[0])]
    return DriftKind.MECHANISM if has_parents else DriftKind.MARGINAL


def _naming_decision(alarm: DriftDecision, following: DriftDecision | None) -> DriftDecision:
    """Return the decision of the settling window if it names as much, else that of the alarm."""
    if following is None or not following.settling:
        return alarm
    if following.edges or (following.node_changes and not alarm.edges):
        return following
    return alarm


def _changed_edges(change: Change) -> tuple[Edge, ...]:
    return change.edges_added + change.edges_removed + change.edges_reversed


def _unordered(edge: Edge) -> Edge:
    return min(edge), max(edge)


@dataclass(frozen=True)
class Summary:
    """The scores of many streams together; naming is over the streams with an alarm."""

    scores: tuple[StreamScore, ...]

    def rate(self, answer: Callable[[StreamScore], bool | None]) -> Rate:
        """Count one answer over the streams that have it."""
        return Rate.of(answer(score) for score in self.scores)

    @property
    def namings(self) -> tuple[Naming, ...]:
        """Those of the streams that raised an alarm after the change."""
        return tuple(score.naming for score in self.scores if score.naming is not None)

    @property
    def false_alarms(self) -> Rate:
        """Alarms among the windows tested before the change."""
        return Rate(sum(s.n_false_alarms for s in self.scores), sum(s.n_quiet for s in self.scores))

    @property
    def mean_delay(self) -> float:
        """Mean of the streams that raised an alarm after the change."""
        delays = [score.delay for score in self.scores if score.delay is not None]
        return fmean(delays) if delays else math.nan

    def precision(self, part: Callable[[Naming], Overlap]) -> Rate:
        """Return the share of what was named that is true."""
        parts = [part(naming) for naming in self.namings]
        return Rate(sum(p.hits for p in parts), sum(p.named for p in parts))

    def recall(self, part: Callable[[Naming], Overlap]) -> Rate:
        """Return the share of what is true that was named."""
        parts = [part(naming) for naming in self.namings]
        return Rate(sum(p.hits for p in parts), sum(p.true for p in parts))


# One stream, and the file of what came out.

R = TypeVar("R")


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


def make_monitor(settings: Settings) -> DriftMonitor:
    """Return the monitor under test: defaults, but for what the settings say."""
    chosen = {name: value for name, value in asdict(settings).items() if value is not None}
    warm = chosen.pop("warm", None)
    if warm is not None:
        chosen["learner"] = LearnerConfig(warm=warm)
    return DriftMonitor(MonitorConfig(window=WINDOW_ROWS, **chosen))


def run_task(task: Task) -> Result:
    """Run a monitor of its own on one stream and score it."""
    monitor = make_monitor(task.settings)
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


def _twins(reports: Sequence[WindowReport]) -> dict[str, str]:
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
