"""Streams with a known change, from records to the named change."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pandas as pd
import pytest

from driftbn import (
    ChangeType,
    DriftKind,
    DriftLevel,
    DriftMonitor,
    LearnerConfig,
    MonitorConfig,
    WindowConfig,
    WindowReport,
)
from driftbn.datasets import (
    Change,
    add_edge,
    asia,
    change_root_marginal,
    change_table,
    random_network,
    remove_edge,
    reverse_edge,
    sample,
)
from tests.drift_streams import Abrupt, DriftStream, Gradual, Recurring, Repeats, Sessions
from tests.reports import EpisodeEvent

pytestmark = pytest.mark.slow

ROWS = 2000
AT = 6  # the window with which a change begins
SEEDS = (1, 2, 3)


def removed() -> Change:
    return remove_edge(asia(), "smoke", "bronc")


def added() -> Change:
    return add_edge(asia(), "bronc", "xray", 0.035, np.random.default_rng(1))


def table_changed() -> Change:
    return change_table(asia(), "dysp", 0.03, np.random.default_rng(2))


def marginal_changed() -> Change:
    return change_root_marginal(asia(), "asia", 0.03, np.random.default_rng(3))


CHANGES: dict[str, Callable[[], Change]] = {
    "removed": removed,
    "added": added,
    "table": table_changed,
    "marginal": marginal_changed,
}


def frames(stream: DriftStream, n_windows: int, n_rows: int = ROWS) -> list[pd.DataFrame]:
    network = stream.before
    batches = stream.batches(n_rows)
    found = []
    for _ in range(n_windows):
        codes = next(batches)
        found.append(pd.DataFrame({name: codes[i] for i, name in enumerate(network.nodes)}))
    return found


def run(
    stream: DriftStream, n_windows: int, config: MonitorConfig | None = None, n_rows: int = ROWS
) -> list[WindowReport]:
    monitor = DriftMonitor(config or MonitorConfig(window=n_rows))
    return [r for frame in frames(stream, n_windows, n_rows) for r in monitor.update(frame)]


@cache
def reports(change: str, seed: int) -> list[WindowReport]:
    after = CHANGES[change]().network
    return run(DriftStream(asia(), after, Abrupt(AT * ROWS), seed=seed), AT + 6)


def alarms(found: list[WindowReport]) -> list[int]:
    return [report.index for report in found if report.decision.drift]


def episodes(found: list[WindowReport]) -> list[tuple[int, EpisodeEvent]]:
    return [
        (report.index, report.decision.episode_event)
        for report in found
        if report.decision.episode_event is not None
    ]


each_change = pytest.mark.parametrize("change", CHANGES)
each_seed = pytest.mark.parametrize("seed", SEEDS)


@each_change
@each_seed
def test_a_change_is_one_alarm_in_its_window_and_one_episode(change: str, seed: int) -> None:
    found = reports(change, seed)
    assert alarms(found) == [AT]
    assert episodes(found) == [
        (AT, EpisodeEvent.STARTED),
        (AT + 1, EpisodeEvent.UPDATED),
        (AT + 5, EpisodeEvent.ENDED),
    ]
    assert {r.decision.since for r in found if r.decision.episode is not None} == {AT}
    assert found[AT + 1].decision.settling
    assert [report.decision.regime for report in found] == [0] * (AT + 1) + [1] * 5


@each_seed
@pytest.mark.parametrize("at", [AT, AT + 1])
def test_a_removed_edge_is_named_and_no_other(seed: int, at: int) -> None:
    decision = reports("removed", seed)[at].decision
    assert decision.kind is DriftKind.STRUCTURAL
    (edge,) = decision.edges
    assert (edge.pair, edge.change) == (("bronc", "smoke"), ChangeType.REMOVED)
    assert edge.before.nats > 0.03
    assert edge.after.nats < 0.005
    assert decision.confirmed_hamming == 1


@each_seed
@pytest.mark.parametrize("at", [AT, AT + 1])
def test_an_added_edge_is_named_and_no_other(seed: int, at: int) -> None:
    decision = reports("added", seed)[at].decision
    assert decision.kind is DriftKind.STRUCTURAL
    (edge,) = decision.edges
    assert (edge.pair, edge.change) == (("bronc", "xray"), ChangeType.ADDED)
    assert edge.before.nats < 0.005
    assert edge.after.nats > 0.02


@each_seed
def test_a_changed_table_is_a_mechanism_with_its_node(seed: int) -> None:
    decision = reports("table", seed)[AT].decision
    assert decision.kind is DriftKind.MECHANISM
    assert decision.nodes == ("dysp",)
    assert decision.edges == ()


@each_seed
def test_a_changed_root_is_a_marginal_with_its_node(seed: int) -> None:
    decision = reports("marginal", seed)[AT].decision
    assert decision.kind is DriftKind.MARGINAL
    assert decision.nodes == ("asia",)
    assert decision.edges == ()


def test_a_turned_edge_is_a_structural_change_at_its_ends() -> None:
    change = reverse_edge(asia(), "bronc", "dysp")
    found = run(DriftStream(asia(), change.network, Abrupt(AT * ROWS), seed=1), AT + 3)
    assert alarms(found)[:1] == [AT]
    decision = found[AT].decision
    assert {"bronc", "dysp"} & {*decision.nodes, *(v for e in decision.edges for v in e.pair)}


@each_change
def test_a_change_is_explained_in_words(change: str) -> None:
    words = str(reports(change, 1)[AT].explain())
    named = {"removed": "smoke", "added": "xray", "table": "dysp", "marginal": "asia"}[change]
    assert named in words


def test_a_change_within_a_window_is_seen_by_the_next_one_at_the_latest() -> None:
    stream = DriftStream(asia(), removed().network, Abrupt(AT * ROWS + ROWS // 2), seed=4)
    found = run(stream, AT + 6)
    assert len(alarms(found)) == 1
    assert alarms(found)[0] in (AT, AT + 1)
    named = {edge.pair for report in found for edge in report.decision.edges}
    assert named == {("bronc", "smoke")}


def test_a_slow_change_is_seen_although_each_step_is_small() -> None:
    schedule = Gradual(AT * ROWS, 10 * ROWS)
    found = run(DriftStream(asia(), removed().network, schedule, seed=2), AT + 12)
    assert alarms(found)
    assert min(alarms(found)) > AT


@each_seed
def test_a_slow_change_is_one_episode(seed: int) -> None:
    after = change_table(asia(), "dysp", 0.12, np.random.default_rng(2)).network
    found = run(DriftStream(asia(), after, Gradual(AT * ROWS, 5 * ROWS), seed=seed), AT + 9)
    assert len(alarms(found)) > 1
    assert {report.decision.episode for report in found} == {None, 0}


def test_what_comes_back_is_recognised() -> None:
    stream = DriftStream(asia(), removed().network, Recurring(5 * ROWS, 5 * ROWS), seed=1)
    found = run(stream, 20)
    assert alarms(found) == [5, 10, 15]
    settled = [report.decision for report in found if report.decision.settling]
    assert [(d.regime, d.recurring) for d in settled] == [(1, False), (0, True), (1, True)]
    assert [d.episode for d in settled] == [0, 1, 2]
    returned = found[10].decision.edges[0]
    assert (returned.pair, returned.change) == (("bronc", "smoke"), ChangeType.ADDED)


def test_day_and_night_alarm_once_where_returns_are_quiet() -> None:
    """Windows as long as a quarter of a day, by event time, and a change in the last night."""
    night = removed().network
    worse = remove_edge(night, "either", "dysp").network
    config = MonitorConfig(
        window=WindowConfig(seconds=6 * 3600),
        quiet_returns=True,
        time_column="at",
    )
    monitor, found, seed = DriftMonitor(config), [], 0
    nights = [night] * 5 + [worse]
    for day, other in enumerate(nights):
        for half, network in enumerate((asia(), other)):
            for quarter in range(2):
                seed += 1
                rows = sample(network, ROWS, seed)
                start = day * 86_400 + half * 43_200 + quarter * 21_600
                rows["at"] = start + np.linspace(0.0, 21_599.0, ROWS)
                found += monitor.update(rows)
    found += monitor.finish()
    assert len(found) == 4 * len(nights)
    assert alarms(found) == [2, 22]
    assert [edge.pair for edge in found[22].decision.edges] == [("dysp", "either")]
    back = [report.index for report in found if report.decision.recurring]
    assert back == list(range(4, 22, 2))


@each_seed
def test_stationary_windows_are_seldom_called_drift(seed: int) -> None:
    assert len(alarms(run(DriftStream(asia(), seed=seed), 40))) <= 1


def test_stationary_windows_of_other_networks_are_seldom_called_drift() -> None:
    n_alarms = 0
    for seed in range(4):
        network = random_network(10, 14, cardinality=(2, 4), seed=seed)
        n_alarms += len(alarms(run(DriftStream(network, seed=seed), 25)))
    assert n_alarms <= 3


@pytest.mark.parametrize("bursts", [Sessions(5), Repeats(5)], ids=["sessions", "repeats"])
def test_bursty_rows_are_no_drift(bursts: Sessions | Repeats) -> None:
    stream = DriftStream(asia(), bursts=bursts, seed=1)
    assert len(alarms(run(stream, 30, n_rows=2500))) <= 2
    naive = MonitorConfig(window=2500, dependent_rows=False, reference_windows=1)
    assert len(alarms(run(stream, 30, naive, n_rows=2500))) >= 5


def test_rows_that_become_burstier_are_no_drift() -> None:
    """Each row follows the network as before; only neighbours are more alike.

    One seed for both halves: it draws which fields stay fixed in a session.
    """
    rises = ((None, Sessions(5)), (Sessions(2), Sessions(10)), (None, Repeats(3)))
    found = []
    for before, after in rises:
        for seed in SEEDS:
            monitor = DriftMonitor(window=5000)
            calm = frames(DriftStream(asia(), bursts=before, seed=seed), 8, 5000)
            bursty = [*frames(DriftStream(asia(), bursts=after, seed=seed), 16, 5000)][8:]
            found += [report for part in (*calm, *bursty) for report in monitor.update(part)]
    assert max(report.decision.design_effect for report in found) > 10.0
    assert len(alarms(found)) <= 3  # of 144 windows


def test_a_strong_change_is_seen_in_bursty_rows() -> None:
    schedule = Abrupt(AT * 3000)
    for bursts in (Sessions(5), Repeats(3)):
        stream = DriftStream(asia(), removed().network, schedule, bursts, seed=2)
        found = run(stream, AT + 5, n_rows=3000)
        assert alarms(found)
        assert AT <= alarms(found)[0] <= AT + 3
        named = {edge.pair for report in found for edge in report.decision.edges}
        assert named == {("bronc", "smoke")}


def test_a_change_below_the_smallest_effect_is_negligible() -> None:
    config = MonitorConfig(window=ROWS, min_effect=0.1)
    stream = DriftStream(asia(), removed().network, Abrupt(AT * ROWS), seed=1)
    found = run(stream, AT + 2, config)
    assert alarms(found) == episodes(found) == []
    decision = found[AT].decision
    assert decision.level is DriftLevel.NEGLIGIBLE
    assert decision.p_value <= decision.alpha
    assert [edge.pair for edge in decision.edges] == [("bronc", "smoke")]


def test_a_smaller_alpha_lets_less_through() -> None:
    change = change_table(asia(), "dysp", 0.0025, np.random.default_rng(2)).network
    stream = DriftStream(asia(), change, Abrupt(AT * ROWS), seed=3)
    usual = run(stream, AT + 1, MonitorConfig(window=ROWS, alpha=0.2))
    strict = run(stream, AT + 1, MonitorConfig(window=ROWS, alpha=1e-12))
    assert alarms(usual) == [AT]
    assert alarms(strict) == []
    assert strict[AT].decision.p_value == pytest.approx(usual[AT].decision.p_value)


def test_accepting_takes_the_present_as_normal() -> None:
    stream = DriftStream(asia(), removed().network, Abrupt(AT * ROWS), seed=1)
    monitor = DriftMonitor(window=ROWS)
    found = []
    for index, frame in enumerate(frames(stream, AT + 4)):
        if index == AT:
            monitor.accept()
        found += monitor.update(frame)
    assert alarms(found) == []
    assert found[AT].decision.level is DriftLevel.LEARNING
    assert [report.decision.regime for report in found[AT + 1 :]] == [1] * 3


def test_resetting_forgets_everything() -> None:
    parts = frames(DriftStream(asia(), seed=1), 3)
    monitor = DriftMonitor(window=ROWS)
    fresh = monitor.snapshot()
    first = [r.to_dict() for part in parts for r in monitor.update(part)]
    monitor.reset()
    assert monitor.snapshot() == fresh
    assert [r.to_dict() for part in parts for r in monitor.update(part)] == first


@pytest.mark.parametrize("warm", ["none", "tallies"])
@each_change
def test_a_cold_start_decides_alike(change: str, warm: str) -> None:
    config = MonitorConfig(window=ROWS, learner=LearnerConfig(warm=warm))
    after = CHANGES[change]().network
    cold = run(DriftStream(asia(), after, Abrupt(AT * ROWS), seed=1), AT + 6, config)
    assert [report.decision for report in cold] == [
        report.decision for report in reports(change, 1)
    ]


def test_a_warm_start_costs_less() -> None:
    config = MonitorConfig(window=ROWS, learner=LearnerConfig(warm="none"))
    cold = run(DriftStream(asia(), seed=1), 8, config)
    warm = run(DriftStream(asia(), seed=1), 8)
    assert not any(report.cost.warm for report in cold)
    assert all(report.cost.warm for report in warm[1:])
    assert sum(r.cost.weighted for r in warm) < sum(r.cost.weighted for r in cold)


def test_an_audit_says_how_far_warm_and_cold_differ() -> None:
    config = MonitorConfig(window=ROWS, audit_share=0.25)
    found = run(DriftStream(asia(), seed=1), 12, config)
    audited = [report for report in found if report.audit is not None]
    assert [report.index for report in audited] == [3, 7, 11]
    assert all(r.audit and r.audit.disagreement <= 3 and not r.audit.cost.warm for r in audited)


def test_a_target_has_its_blanket_and_its_changes() -> None:
    config = MonitorConfig(window=ROWS, target="dysp")
    found = run(DriftStream(asia(), seed=1), 5, config)
    for report in found:
        assert report.target == "dysp"
        assert report.blanket == tuple(sorted(report.dag.markov_blanket("dysp")))
    assert "bronc" in found[-1].blanket
    assert all(report.blanket == () for report in reports("removed", 1))


# --- other rules --------------------------------------------------------------------------------


def test_a_field_that_leaves_forty_correlated_ones_is_named() -> None:
    """With 39 parents of four levels a field has more configurations than 64 bits count."""
    names = [f"c{i:02}" for i in range(40)]
    config = MonitorConfig(window=ROWS, learner=LearnerConfig(max_conditioning=1))
    monitor, found = DriftMonitor(config), []
    for window in range(5):
        rng = np.random.default_rng(window)
        factor = rng.normal(size=ROWS)
        table = {name: factor + 0.5 * rng.normal(size=ROWS) for name in names}
        if window >= 3:
            table["c07"] = rng.normal(size=ROWS)
        found += monitor.update(table)
    assert [report.decision.level.value for report in found] == [
        "learning",
        "stable",
        "stable",
        "drift",
        "settling",
    ]
    for report in found[3:]:
        assert report.decision.edges
        assert all("c07" in edge.pair for edge in report.decision.edges)
        assert report.decision.nodes == ("c07",)
    assert all(np.isfinite(change.nats) for change in monitor.calibration().visible)
