"""The drift benchmark's own parts: streams, scores, results, tables."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from driftbn.datasets import Change, ChangeKind, asia, remove_edge, reverse_edge
from driftbn.decision.outcome import (
    Association,
    ChangeType,
    DriftDecision,
    DriftKind,
    DriftLevel,
    EdgeChange,
    NodeChange,
)
from driftbn.graphs.network import joint
from tests.benchmarks.drift_peer_runs import PeerAnswer, PeerResult, score_answer
from tests.benchmarks.drift_peer_table import peer_tables
from tests.benchmarks.drift_runs import (
    Result,
    ResultFile,
    Settings,
    Task,
    result_from,
    run_monitor,
)
from tests.benchmarks.drift_scenarios import (
    BURSTS,
    CELLS,
    N_AWAY,
    N_BEFORE,
    N_RAMP,
    N_STATIONARY,
    WINDOW_ROWS,
    Codes,
    Scenario,
    columns,
    make_scenario,
    windows,
)
from tests.benchmarks.drift_scores import (
    Decisions,
    Overlap,
    Rate,
    StreamScore,
    Summary,
    score_stream,
)
from tests.benchmarks.drift_table import false_alarm_table, scored, tables
from tests.drift_streams import Abrupt, DriftStream

LEARNING = DriftDecision(DriftLevel.LEARNING, 0.01)
STABLE = DriftDecision(DriftLevel.STABLE, 0.01)
DRIFT = DriftDecision(DriftLevel.DRIFT, 0.01, kind=DriftKind.STRUCTURAL, episode=0)
SETTLING = DriftDecision(DriftLevel.SETTLING, 0.01, episode=0)
SOME = Association(0.05, 0.04, 0.06)
MISSING_CHANGES = {"asia": {"added3-strong", "removed3-medium", "removed-weak", "removed3-weak"}}


def edge(source: str, target: str, change: ChangeType = ChangeType.REMOVED) -> EdgeChange:
    return EdgeChange(source, target, change, 0.001, SOME, SOME)


def node(name: str) -> NodeChange:
    return NodeChange(name, (), 0.001, 0.02)


def removal() -> Change:
    return remove_edge(asia(), "smoke", "bronc")


def scenario(change: Change | None, n_windows: int = 12, *, full: int = 8) -> Scenario:
    """Return a stream whose change, if any, begins in window 8."""
    if change is None:
        stream = DriftStream(asia())
        return Scenario("asia", "x", "none", 0, stream, None, n_windows, n_windows, n_windows)
    stream = DriftStream(asia(), change.network, Abrupt(8 * WINDOW_ROWS))
    return Scenario("asia", "x", "none", 0, stream, change, 8, n_windows, full)


def decisions(at: Mapping[int, DriftDecision], n_windows: int = 12) -> Decisions:
    """Return one decision a window: learning, then stable but for those given."""
    usual = {0: LEARNING}
    return [(i, at.get(i, usual.get(i, STABLE))) for i in range(n_windows)]


class TestScores:
    def test_windows_without_a_reference_are_not_counted_as_quiet(self) -> None:
        score = score_stream(scenario(None), decisions({4: DRIFT, 5: SETTLING}))
        assert (score.n_quiet, score.n_false_alarms) == (10, 1)
        assert score.seen_first is None

    def test_alarm_before_the_change_is_false_and_not_a_detection(self) -> None:
        score = score_stream(scenario(removal()), decisions({7: DRIFT, 8: SETTLING}))
        assert (score.n_quiet, score.n_false_alarms) == (7, 1)
        assert (score.seen_first, score.seen_soon, score.delay) == (False, False, None)
        assert score.n_episodes == 0

    @pytest.mark.parametrize(
        ("window", "expected"),
        [
            (8, (True, True, 0)),
            (9, (False, True, 1)),
            (10, (False, True, 2)),
            (11, (False, False, 3)),
        ],
    )
    def test_delay_counts_from_the_change(
        self, window: int, expected: tuple[bool, bool, int]
    ) -> None:
        score = score_stream(scenario(removal()), decisions({window: DRIFT}))
        assert (score.seen_first, score.seen_soon, score.delay) == expected
        assert score.n_false_alarms == 0

    @pytest.mark.parametrize(("window", "first"), [(8, True), (9, True), (10, False)])
    def test_alarm_in_a_straddling_window_counts_as_seen(self, window: int, first: bool) -> None:
        score = score_stream(scenario(removal(), full=9), decisions({window: DRIFT}))
        assert score.seen_first is first
        assert score.seen_soon
        assert score.delay == window - 8

    def test_each_started_episode_counts_once(self) -> None:
        again = replace(DRIFT, episode=1)
        once = score_stream(scenario(removal()), decisions({8: DRIFT, 9: DRIFT}))
        twice = score_stream(scenario(removal()), decisions({8: DRIFT, 9: SETTLING, 10: again}))
        assert (once.n_episodes, twice.n_episodes) == (1, 2)

    def test_episode_from_before_the_change_is_not_started_after_it(self) -> None:
        later = replace(DRIFT, episode=3)
        score = score_stream(scenario(removal()), decisions({7: DRIFT, 8: DRIFT, 10: later}))
        assert score.n_episodes == 1


class TestNaming:
    def test_pairs_are_compared_without_direction(self) -> None:
        named = replace(DRIFT, edges=(edge("bronc", "smoke"), edge("asia", "xray")))
        naming = score_stream(scenario(removal()), decisions({8: named})).naming
        assert naming is not None
        assert naming.edges == Overlap(hits=1, named=2, true=1)

    def test_edge_at_an_end_of_the_changed_one_is_touching(self) -> None:
        edges = (edge("smoke", "lung"), edge("bronc", "dysp"), edge("asia", "xray"))
        naming = score_stream(
            scenario(removal()), decisions({8: replace(DRIFT, edges=edges)})
        ).naming
        assert naming is not None
        assert (naming.edges.hits, naming.touching) == (0, 2)

    def test_settling_window_refines_what_the_alarm_said(self) -> None:
        alarm = replace(DRIFT, edges=(edge("asia", "xray"),))
        after = replace(SETTLING, edges=(edge("smoke", "bronc"),), kind=DriftKind.STRUCTURAL)
        naming = score_stream(scenario(removal()), decisions({8: alarm, 9: after})).naming
        assert naming is not None
        assert naming.edges == Overlap(1, 1, 1)

    @pytest.mark.parametrize("after", [SETTLING, STABLE, replace(SETTLING, node_changes=())])
    def test_alarm_is_read_if_the_next_window_names_nothing(self, after: DriftDecision) -> None:
        alarm = replace(DRIFT, edges=(edge("smoke", "bronc"),))
        naming = score_stream(scenario(removal()), decisions({8: alarm, 9: after})).naming
        assert naming is not None
        assert naming.edges.hits == 1
        assert naming.kind == naming.expected_kind == "structural"

    def test_kind_is_the_alarms_if_the_settling_window_has_none(self) -> None:
        after = replace(SETTLING, edges=(edge("smoke", "bronc"),))
        naming = score_stream(scenario(removal()), decisions({8: DRIFT, 9: after})).naming
        assert naming is not None
        assert naming.kind == "structural"

    def test_nodes_are_those_whose_tables_changed(self) -> None:
        named = replace(DRIFT, node_changes=(node("bronc"), node("smoke")))
        naming = score_stream(scenario(removal()), decisions({8: named})).naming
        assert naming is not None
        assert naming.nodes == Overlap(hits=1, named=2, true=1)

    @pytest.mark.parametrize(
        ("kind", "expected"),
        [
            (ChangeKind.ADDED, "structural"),
            (ChangeKind.TABLE, "mechanism"),
            (ChangeKind.ROOT_MARGINAL, "marginal"),
        ],
    )
    def test_every_change_has_its_kind(self, kind: ChangeKind, expected: str) -> None:
        change = replace(removal(), kind=kind)
        naming = score_stream(scenario(change), decisions({8: DRIFT})).naming
        assert naming is not None
        assert naming.expected_kind == expected

    @pytest.mark.parametrize(
        ("called", "expected"), [(ChangeType.REVERSED, True), (ChangeType.ADDED, False)]
    )
    def test_reversal_must_be_called_one(self, called: ChangeType, expected: bool) -> None:
        named = replace(DRIFT, edges=(edge("dysp", "bronc", called),))
        turned = reverse_edge(asia(), "bronc", "dysp")
        naming = score_stream(scenario(turned), decisions({8: named})).naming
        assert naming is not None
        assert naming.edges.hits == 1
        assert naming.reversal is expected

    def test_no_alarm_no_naming(self) -> None:
        assert score_stream(scenario(removal()), decisions({})).naming is None


class TestReturn:
    def stream(self) -> Scenario:
        return replace(scenario(removal(), 18), return_window=14)

    def test_return_is_called_in_the_window_after_its_alarm(self) -> None:
        back = replace(SETTLING, recurring=True, episode=1)
        alarm = replace(DRIFT, episode=1)
        score = score_stream(
            self.stream(), decisions({8: DRIFT, 9: SETTLING, 14: alarm, 15: back}, 18)
        )
        assert (score.return_seen, score.return_called, score.wrongly_called) == (True, True, False)
        assert score.n_episodes == 1

    def test_return_that_is_seen_late_is_missed(self) -> None:
        score = score_stream(self.stream(), decisions({8: DRIFT, 17: DRIFT}, 18))
        assert (score.return_seen, score.return_called) == (False, False)

    def test_change_called_a_return_is_wrong(self) -> None:
        wrong = replace(SETTLING, recurring=True)
        score = score_stream(self.stream(), decisions({8: DRIFT, 9: wrong, 14: DRIFT}, 18))
        assert (score.return_seen, score.return_called, score.wrongly_called) == (True, False, True)


class TestSums:
    def test_wilson_interval_is_the_published_one(self) -> None:
        # Newcombe 1998, Table I: 81 of 263 and 0 of 20, method 3.
        assert Rate(81, 263).interval == pytest.approx((0.2553, 0.3662), abs=1e-4)
        assert Rate(0, 20).interval == pytest.approx((0.0, 0.1611), abs=1e-4)

    def test_false_alarms_are_per_window_not_per_stream(self) -> None:
        summary = Summary((StreamScore(10, 1), StreamScore(90, 0)))
        assert summary.false_alarms == Rate(1, 100)

    def test_streams_without_an_alarm_have_no_delay(self) -> None:
        seen = StreamScore(7, 0, seen_first=False, seen_soon=True, delay=2, n_episodes=1)
        unseen = StreamScore(7, 0, seen_first=False, seen_soon=False)
        summary = Summary((seen, unseen))
        assert summary.mean_delay == 2
        assert summary.rate(lambda score: score.seen_soon) == Rate(1, 2)


class TestPeers:
    def test_first_answer_is_on_the_window_of_the_change(self) -> None:
        result = score_answer(scenario(removal()), PeerAnswer("p", [False, True, False]))
        assert (result.n_quiet, result.seen_first, result.seen_soon) == (0, False, True)

    def test_straddling_window_counts(self) -> None:
        stream = scenario(removal(), full=9)
        assert score_answer(stream, PeerAnswer("p", [False, True, False, False])).seen_first
        assert not score_answer(stream, PeerAnswer("p", [False, False, True, False])).seen_first

    def test_stationary_alarms_are_false(self) -> None:
        result = score_answer(scenario(None), PeerAnswer("p", [False, True, False, True]))
        assert (result.n_quiet, result.n_false_alarms, result.seen_first) == (4, 2, None)

    def test_failure_is_said_in_the_table(self) -> None:
        failed = PeerResult("asia", "x", "none", 0, "adwin", note="it broke")
        legend = peer_tables([], [failed], ["alibi-mmd"])[0].render(markdown=False)
        assert "it broke" in legend
        assert "cannot be installed" in legend
        assert "chi-square" not in legend.replace("Pearson's chi-square", "")


class TestScenarios:
    @pytest.mark.parametrize("cell", CELLS)
    def test_every_cell_changes_what_it_says(self, cell: str) -> None:
        made = make_scenario("asia", cell, "none", 0)
        assert (made is None) == (cell in MISSING_CHANGES["asia"])
        if made is None:
            return
        assert (made.change is None) == (cell == "stationary")
        assert made.n_windows == (N_STATIONARY if cell == "stationary" else made.n_windows)
        assert made.first_full_window + 3 <= made.n_windows or made.change is None

    @pytest.mark.parametrize(
        ("cell", "full", "n_windows"),
        [
            ("added-strong", 8, 12),
            ("midwindow-strong", 9, 13),
            ("gradual-strong", 8 + N_RAMP, 16),
            ("recurring", 8, 18),
        ],
    )
    def test_first_full_window_is_the_first_that_is_all_changed(
        self, cell: str, full: int, n_windows: int
    ) -> None:
        made = make_scenario("asia", cell, "none", 0)
        assert made is not None
        assert (made.first_full_window, made.n_windows) == (full, n_windows)
        records = np.arange(made.n_windows * WINDOW_ROWS)
        share = made.stream.schedule.share_changed(records).reshape(-1, WINDOW_ROWS)
        begin = int(np.flatnonzero(share.any(axis=1))[0])
        whole = int(np.flatnonzero((share > 0.999).all(axis=1))[0])
        assert (begin, whole) == (N_BEFORE, full)

    def test_recurring_change_is_back_after_its_stay(self) -> None:
        made = make_scenario("asia", "recurring", "none", 0)
        assert made is not None
        assert made.return_window == N_BEFORE + N_AWAY
        records = np.array([made.return_window * WINDOW_ROWS - 1, made.return_window * WINDOW_ROWS])
        assert made.stream.schedule.share_changed(records).tolist() == [1, 0]

    def test_kept_changes_keep_every_marginal(self) -> None:
        for seed in range(5):
            made = make_scenario("alarm", "kept-strong", "none", seed)
            assert made is not None
            assert made.change is not None
            for name in made.stream.before.nodes:
                before, after = (
                    joint(n, (name,)) for n in (made.stream.before, made.change.network)
                )
                assert after == pytest.approx(before, abs=1e-9)

    def test_same_names_and_seed_give_the_same_rows(self) -> None:
        first, again = (make_scenario("asia", "added-weak", "sessions-5", 3) for _ in range(2))
        other = make_scenario("asia", "added-weak", "sessions-5", 4)
        assert first is not None
        assert again is not None
        assert other is not None
        rows, same, different = (next(windows(made)) for made in (first, again, other))
        assert (rows == same).all()
        assert (rows != different).any()
        assert set(columns(first, rows)) == set(asia().nodes)

    def test_missing_change_is_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.WARNING):
            assert make_scenario("asia", "removed-weak", "none", 0) is None
        assert "asia, removed-weak" in caplog.text

    @pytest.mark.parametrize("bursts", BURSTS)
    def test_bursts_repeat_rows_as_often_as_they_say(self, bursts: str) -> None:
        made = make_scenario("asia", "stationary", bursts, 0)
        assert made is not None
        rows = next(islice(windows(made), 1))
        held = [made.stream.before.index(name) for name in made.stream.held]
        same = (rows[held, 1:] == rows[held, :-1]).all(axis=0).mean()
        expected = {"none": 1.0, "sessions-2": 0.5, "sessions-5": 0.8, "sessions-20": 0.95}
        assert same >= expected.get(bursts, 0.8) - 0.05


@dataclass(frozen=True)
class FakeTimings:
    learn: float = 0.010
    decide: float = 0.025


@dataclass(frozen=True)
class FakeReport:
    index: int
    decision: DriftDecision
    timings: FakeTimings = FakeTimings()
    twins: tuple[tuple[str, str], ...] = ()


class FakeMonitor:
    """Raises an alarm in window 8 and counts the rows that it was given."""

    def __init__(self) -> None:
        self.n_rows: list[int] = []

    def update(self, batch: Mapping[str, Codes]) -> Iterator[FakeReport]:
        index = len(self.n_rows)
        self.n_rows.append(len(batch["smoke"]))
        yield FakeReport(index, dict(decisions({8: DRIFT, 9: SETTLING})).get(index, STABLE))


def results(cells: Iterable[str]) -> list[Result]:
    tasks = [Task("asia", cell, "none", 0, Settings(alpha=0.001)) for cell in cells]
    return [run_monitor(task, FakeMonitor()) for task in tasks]


class TestRuns:
    def test_monitor_gets_every_window_once(self) -> None:
        monitor = FakeMonitor()
        result = run_monitor(Task("asia", "removed-strong", "none", 0), monitor)
        assert monitor.n_rows == [WINDOW_ROWS] * 12
        assert result.score is not None
        assert result.score.seen_first
        # 12 windows but the first, which learns, the alarm, and the one that settles.
        assert len(result.learn_seconds) == len(result.decide_seconds) == 9

    def test_results_come_back_from_their_file(self, tmp_path: Path) -> None:
        file = ResultFile(tmp_path / "results.jsonl", result_from)
        assert file.read() == []
        kept = results(["stationary", "removed-strong", "removed-weak"])
        for result in kept:
            file.append(result)
        assert file.read() == kept

    def test_interrupted_line_is_run_again(self, tmp_path: Path) -> None:
        file = ResultFile(tmp_path / "results.jsonl", result_from)
        first, second = results(["removed-strong", "table"])
        file.append(first)
        with file.path.open("a", encoding="utf-8") as half:
            half.write('{"task": {"netw')
        assert file.read() == [first]
        file.append(second)
        assert file.read() == [first, second]


class TestTables:
    def test_false_alarms_of_stationary_streams_and_before_changes_are_apart(self) -> None:
        table = false_alarm_table(scored(results(["stationary", "removed-strong"])))
        rows = {row[0]: row[1] for row in table.rows}
        # Of 40 windows the first has no reference and one settles.
        assert rows["asia"] == rows["all"] == "2.6 (0.47-13) of 38"
        assert rows["before changes"].endswith("of 7")

    def test_tables_leave_out_what_does_not_exist(self) -> None:
        text = "".join(
            table.render(markdown=True)
            for table in tables(results(["stationary", "removed-strong", "removed-weak"]))
        )
        assert "removed-strong" in text
        assert "removed-weak" not in text

    def test_cost_is_the_decision_against_one_relearn(self) -> None:
        cost = tables(results(["stationary"]))[-1]
        assert cost.rows == (("asia", "10", "25", "2.5", "2.5"),)

    def test_monitor_stands_beside_the_peers_on_the_same_streams_only(self) -> None:
        own = results(["removed-strong", "table"])
        peer = PeerResult("asia", "table", "none", 0, "adwin", 0, 0, False, True)
        detection = peer_tables(own, [peer], [])[-1]
        assert detection.header == ("bursts", "cell", "driftbn", "adwin")
        assert detection.rows == (("none", "table", "100 / 100", "0 / 100"),)
