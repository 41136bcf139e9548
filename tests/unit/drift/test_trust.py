"""What a window of some size can show."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, chi2, ncx2

from driftbn import DecisionConfig, DriftMonitor, MonitorConfig
from driftbn.datasets import asia, random_dag, remove_edge, sample, sample_codes
from driftbn.drift.comparison import Comparison, PooledWindows
from driftbn.drift.decider import CountDecider
from driftbn.drift.plan import LevelMap, make_plan
from driftbn.drift.plan import TestPlan as Plan
from driftbn.drift.reference import LearnedWindow, Regime
from driftbn.drift.scatter import Scatter, Spread
from driftbn.drift.trust import (
    MAX_UNDECIDED,
    MIN_SHADOW_REFERENCE,
    POWERLESS,
    CalibrationReport,
    Shadow,
    VisibleChange,
    undecided_pairs,
    visible_changes,
    visible_pairs,
    visible_statistic,
    wilson_interval,
)
from driftbn.errors import ConfigError
from driftbn.graphs.graph import Dag
from driftbn.learning import PackedTable, StructureLearner
from tests.drift_streams import DriftStream, Repeats


@pytest.mark.parametrize("level", [0.05, 1e-3, 1e-6])
@pytest.mark.parametrize("dof", [1, 2, 5, 20, 100, 400])
def test_a_shifted_statistic_is_seen_in_nine_of_ten_cases(dof: int, level: float) -> None:
    (shift,) = visible_statistic(np.array([float(dof)]), level)
    assert ncx2.sf(chi2.isf(level, dof), dof, shift) == pytest.approx(0.9, abs=0.005)
    for wrong in (0.97 * shift, 1.03 * shift):
        seen = ncx2.sf(chi2.isf(level, dof), dof, wrong)
        assert (seen < 0.9) == (wrong < shift)


def test_a_test_without_freedom_sees_nothing() -> None:
    found = visible_statistic(np.array([0.0, 1.0, -1.0]), 0.05)
    assert found[0] == found[2] == math.inf
    assert math.isfinite(found[1])
    assert visible_statistic(np.zeros(0), 0.05).shape == (0,)


def group_of(plan: Plan, codes: np.ndarray) -> PooledWindows:
    test = PackedTable(codes, plan.names)
    return PooledWindows(plan, plan.count(test, codes, LevelMap.identity(len(codes))), [codes])


def asia_comparison(n_a: int, n_b: int) -> Comparison:
    network = asia()
    order = [network.index(name) for name in network.dag.nodes]
    plan = make_plan(network.dag, np.full(8, 2), n_b)
    groups = [
        group_of(plan, sample_codes(network, n, np.random.default_rng(n))[order])
        for n in (n_a, n_b)
    ]
    return Comparison(*groups)


def test_a_change_is_a_share_of_the_rows_of_both_groups() -> None:
    compared = asia_comparison(8000, 2000)
    expected = visible_statistic(compared.pair_statistics[1], 1e-4) * 10_000 / (2 * 8000 * 2000)
    np.testing.assert_allclose(visible_changes(compared, 1e-4), expected)


def test_where_windows_lie_apart_more_must_change() -> None:
    still = asia_comparison(8000, 2000)
    n_tests = len(still.plan.tables.child)
    spread = Spread(*(np.full(n_tests, value) for value in (700.0, 7.0, 1.0)))
    moving = Scatter(still.plan.n_nodes, spread)
    compared = Comparison(still.older, still.newer, scatter=moving)
    tested = still.pair_statistics[1] >= 1.0
    least = 50.0 * visible_changes(still, 1e-4)[tested]
    assert np.all(visible_changes(compared, 1e-4)[tested] > least)


def test_every_pair_is_there_once_with_its_best_test() -> None:
    compared = asia_comparison(4000, 1000)
    pairs, n_pairs = visible_pairs(compared, 1e-3)
    assert n_pairs == len(pairs) == 28
    assert len({(pair.source, pair.target) for pair in pairs}) == 28
    changes = visible_changes(compared, 1e-3)
    names = list(compared.plan.names)
    for pair in pairs:
        ties = compared.plan.tests_of_pair(names.index(pair.source), names.index(pair.target))
        assert pair.source < pair.target
        assert pair.visible_change == min(changes[tie] for tie in ties)
    worst_first = [pair.visible_change for pair in pairs]
    assert worst_first == sorted(worst_first, reverse=True)


def test_large_windows_leave_no_pair_undecided() -> None:
    assert undecided_pairs(asia_comparison(20_000, 20_000), 1e-3) == ((), 0)


def test_small_windows_leave_pairs_undecided_with_what_they_could_have_shown() -> None:
    pairs, n_pairs = undecided_pairs(asia_comparison(400, 60), 1e-3)
    assert n_pairs == len(pairs) > 5
    assert all(pair.visible_change > POWERLESS for pair in pairs)


def test_constant_fields_are_undecided_without_end() -> None:
    plan = make_plan(Dag("abc"), np.array([1, 2, 2]), 500)
    rng = np.random.default_rng(1)
    groups = [
        group_of(plan, np.vstack([np.zeros(n), rng.integers(0, 2, (2, n))]).astype(np.uint8))
        for n in (3000, 1000)
    ]
    pairs, n_pairs = undecided_pairs(Comparison(*groups), 0.01)
    assert [(pair.source, pair.target, pair.visible_change) for pair in pairs] == [
        ("a", "b", math.inf),
        ("a", "c", math.inf),
    ]
    assert n_pairs == 2


def test_of_many_undecided_pairs_the_first_are_listed_and_all_are_counted() -> None:
    dag = random_dag(14, 10, seed=1)
    plan = make_plan(dag, np.full(14, 3), 30)
    rng = np.random.default_rng(2)
    groups = [group_of(plan, rng.integers(0, 3, (14, n)).astype(np.uint8)) for n in (60, 30)]
    pairs, n_pairs = undecided_pairs(Comparison(*groups), 1e-4)
    assert len(pairs) == MAX_UNDECIDED
    assert n_pairs == 14 * 13 // 2


# Shadow windows, in which nothing can have changed.

NAMES = sorted(asia().nodes)
LEARNER = StructureLearner()


def windows_of(stream: DriftStream, n_windows: int, n_rows: int) -> list[LearnedWindow]:
    order = [stream.before.index(name) for name in NAMES]
    batches = stream.batches(n_rows)
    return [LEARNER.learn_window(next(batches)[order], NAMES) for _ in range(n_windows)]


def regime_of(windows: list[LearnedWindow], config: DecisionConfig | None = None) -> Regime:
    regime = Regime(0, config or DecisionConfig(), LEARNER, windows[0])
    for window in windows[1:]:
        regime.absorb(regime.counted(window))
    return regime


SMALL = windows_of(DriftStream(asia(), seed=1), 7, 500)


@pytest.mark.parametrize(("share", "n_due"), [(0.0, 0), (0.05, 5), (0.3, 30), (1.0, 100)])
def test_a_share_of_the_windows_has_a_shadow(share: float, n_due: int) -> None:
    regime = regime_of(SMALL[:4])
    shadow = Shadow(share)
    assert sum(shadow.is_due(index, regime) for index in range(100)) == n_due


def test_a_small_reference_has_no_shadow() -> None:
    for n_windows in range(1, 6):
        regime = regime_of(SMALL[:n_windows])
        assert Shadow(1.0).is_due(3, regime) == (n_windows >= MIN_SHADOW_REFERENCE)


def looked_at(shadow: Shadow, regime: Regime, answers: list[bool]) -> list[Comparison]:
    seen: list[Comparison] = []

    def is_drift(comparison: Comparison, scale: int) -> bool:
        assert comparison.newer.n_rows == 500 * scale
        seen.append(comparison)
        return answers[len(seen) - 1]

    shadow.judge(5, regime, regime.counted(SMALL[6]), is_drift)
    return seen


def test_every_scale_is_judged_until_one_is_drift() -> None:
    regime = regime_of(SMALL[:6])
    shadow = Shadow(1.0)
    assert len(looked_at(shadow, regime, [False] * 3)) == 3
    assert (shadow.n_windows, shadow.n_alarms) == (1, 0)
    assert len(looked_at(shadow, regime, [False, True, False])) == 2
    assert (shadow.n_windows, shadow.n_alarms) == (2, 1)


def test_all_rows_are_permuted_once() -> None:
    regime = regime_of(SMALL[:6])
    group = regime.counted(SMALL[6])
    for compared in looked_at(Shadow(1.0), regime, [False] * 3):
        rows = np.hstack([*compared.older.windows, *compared.newer.windows])
        held = np.hstack([*regime.windows, *group.windows])
        assert rows.shape == held.shape
        assert sorted(map(bytes, rows.T)) == sorted(map(bytes, held.T))
        np.testing.assert_array_equal(
            compared.older.counts + compared.newer.counts, regime.pool.counts + group.counts
        )
        assert compared.newer.counts[:2].sum() == compared.newer.n_rows


def test_a_window_is_permuted_the_same_way_every_time() -> None:
    regime = regime_of(SMALL[:6])
    one, other = (looked_at(Shadow(1.0), regime, [False] * 3) for _ in range(2))
    for first, second in zip(one, other, strict=True):
        np.testing.assert_array_equal(first.newer.counts, second.newer.counts)


def rate(stream: DriftStream, n_rows: int, *, dependent_rows: bool = True) -> float:
    config = DecisionConfig(shadow_share=1.0, dependent_rows=dependent_rows)
    decider = CountDecider(config, LEARNER)
    for index, window in enumerate(windows_of(stream, 40, n_rows)):
        decider.decide(index, window)
    assert decider.shadow.n_windows > 10
    return decider.shadow.n_alarms / decider.shadow.n_windows


def test_independent_rows_are_seldom_called_drift() -> None:
    assert rate(DriftStream(asia(), seed=2), 1000) <= 0.06


def test_bursty_rows_corrected_for_dispersion_are_seldom_called_drift() -> None:
    assert rate(DriftStream(asia(), bursts=Repeats(5), seed=3), 1500) <= 0.06


def test_permuted_rows_of_two_regimes_are_no_drift() -> None:
    """Whatever the stream does, the shadow knows nothing of it."""
    after = remove_edge(asia(), "smoke", "bronc").network
    first = windows_of(DriftStream(asia(), seed=4), 6, 1000)
    (last,) = windows_of(DriftStream(after, seed=5), 1, 1000)
    regime = regime_of(first)
    group = regime.counted(last)
    decider = CountDecider(DecisionConfig(), LEARNER)
    assert decider.judge(regime, group).p_value < 1e-3
    shadow = Shadow(1.0)
    for index in range(20):
        shadow.judge(
            index, regime, group, lambda c, _: bool(np.min(c.node_p_values) * 8 * 3 < 0.0025)
        )
    assert shadow.n_windows == 20
    assert shadow.n_alarms <= 2


# Intervals of shares.


@given(data=st.data(), n=st.integers(1, 5000))
def test_limits_are_those_of_wilsons_rule(data: st.DataObject, n: int) -> None:
    n_hits = data.draw(st.integers(0, n))
    expected = binomtest(n_hits, n).proportion_ci(0.95, method="wilson")
    assert wilson_interval(n_hits, n) == pytest.approx((expected.low, expected.high), abs=1e-6)


# How far a monitor can be trusted.

PAIRS = tuple(VisibleChange("a", f"b{i:02}", i / 1000) for i in range(20, 0, -1))
PLAIN = CalibrationReport(
    window_rows=2000,
    reference_windows=8,
    alpha=0.01,
    design_effects=(("a", 1.0), ("b", 1.4)),
    shadow_windows=200,
    shadow_alarms=2,
    visible=PAIRS,
    wanted=0.02,
)


def test_the_false_alarm_rate_is_that_of_the_shadow_windows() -> None:
    assert PLAIN.false_alarm_rate == 0.01
    assert PLAIN.false_alarm_interval == wilson_interval(2, 200)
    unknown = replace(PLAIN, shadow_windows=0, shadow_alarms=0)
    assert unknown.false_alarm_rate is None
    assert unknown.false_alarm_interval == (0.0, 1.0)


@pytest.mark.parametrize(("share", "nats"), [(0.05, 0.001), (0.5, 0.01), (0.9, 0.018), (1.0, 0.02)])
def test_a_share_of_the_pairs_shows_changes_from_a_size_on(share: float, nats: float) -> None:
    assert PLAIN.visible_to(share) == nats
    assert np.mean([pair.nats <= nats for pair in PAIRS]) >= share


def test_no_pairs_show_nothing() -> None:
    assert replace(PLAIN, visible=()).visible_to(0.5) == math.inf
    assert replace(PLAIN, visible=()).recommended_rows() is None


def test_half_the_wanted_change_needs_twice_the_rows() -> None:
    assert PLAIN.recommended_rows() == 1800
    assert replace(PLAIN, wanted=0.01).recommended_rows() == 3600
    assert replace(PLAIN, wanted=0.02).recommended_rows(share=0.5) == 1000


def test_pairs_that_no_window_shows_need_endless_rows() -> None:
    hopeless = tuple(replace(pair, nats=math.inf) for pair in PAIRS[:5]) + PAIRS[5:]
    report = replace(PLAIN, visible=hopeless)
    assert report.recommended_rows() is None
    assert report.recommended_rows(share=0.5) is not None
    assert report.advice == ("Some pairs of fields cannot be tested at any window size.",)


def test_a_monitor_that_can_be_trusted_needs_no_advice() -> None:
    assert PLAIN.advice == ()


def test_advice_names_what_is_wrong() -> None:
    bursty = replace(PLAIN, design_effects=(("a", 31.0),)).advice
    assert len(bursty) == 1
    assert "31 times" in bursty[0]
    assert "larger windows" in bursty[0]
    jumpy = replace(PLAIN, shadow_alarms=20).advice
    assert len(jumpy) == 1
    assert "0.01" in jumpy[0]
    blind = replace(PLAIN, wanted=0.001).advice
    assert len(blind) == 1
    assert "36000 records" in blind[0]


def test_few_shadow_alarms_by_chance_are_no_reason_for_advice() -> None:
    assert replace(PLAIN, shadow_windows=20, shadow_alarms=1).advice == ()


def test_a_monitor_without_records_has_nothing_to_say() -> None:
    report = DriftMonitor(window=300).calibration()
    assert (report.window_rows, report.reference_windows) == (0, 0)
    assert report.advice == report.visible == report.design_effects == ()


def test_a_monitor_says_what_its_windows_show() -> None:
    monitor = DriftMonitor(window=500, alpha=0.02)
    for seed in range(5):
        monitor.update(sample(asia(), 500, seed))
    report = monitor.calibration(wanted=0.03)
    assert (report.window_rows, report.reference_windows) == (500, 5)
    assert (report.alpha, report.wanted) == (0.02, 0.03)
    assert len(report.visible) == 8 * 7 // 2
    changes = [pair.nats for pair in report.visible]
    assert changes == sorted(changes, reverse=True)
    assert all(pair.source < pair.target for pair in report.visible)
    assert [name for name, _ in report.design_effects] == sorted(asia().nodes)


def test_larger_windows_show_smaller_changes() -> None:
    shown = []
    for n_rows in (500, 2000):
        monitor = DriftMonitor(window=n_rows)
        for seed in range(3):
            monitor.update(sample(asia(), n_rows, seed))
        shown.append(monitor.calibration().visible_to(0.5))
    assert shown[0] / 5 < shown[1] < shown[0] / 3


def test_design_effects_are_those_of_the_stream() -> None:
    network = asia()
    monitor = DriftMonitor(window=2000)
    batches = DriftStream(network, bursts=Repeats(5), seed=1).batches(2000)
    for _ in range(2):
        codes = next(batches)
        monitor.update({name: codes[i] for i, name in enumerate(network.nodes)})
    effects = dict(monitor.calibration().design_effects)
    assert 4 < effects["smoke"] < 18  # geometric bursts of mean 5 make it 9


def test_every_window_may_have_a_shadow() -> None:
    config = MonitorConfig(window=300, shadow_share=1.0)
    monitor = DriftMonitor(config)
    for seed in range(10):
        monitor.update(sample(asia(), 300, seed))
    report = monitor.calibration()
    assert report.shadow_windows == 6  # from the fifth on, the reference has four
    assert report.shadow_alarms == 0


@pytest.mark.parametrize("wanted", [0, -1.0, math.nan, math.inf, "a"])
def test_a_wanted_change_is_a_number_above_0(wanted: object) -> None:
    with pytest.raises(ConfigError, match="wanted"):
        DriftMonitor(window=300).calibration(wanted)  # type: ignore[arg-type]
