"""How far windows lie apart by themselves, and what that leaves of a change."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from scipy import stats

from driftbn import DriftMonitor
from driftbn.config import DecisionConfig
from driftbn.datasets import asia, remove_edge, sample
from driftbn.drift.comparison import PooledWindows, bursts
from driftbn.drift.plan import TestPlan, make_plan
from driftbn.drift.reference import Regime
from driftbn.drift.scatter import (
    CARRIED_JUMPS,
    Carried,
    LaterWindows,
    Scatter,
    Spread,
    fitted_weights,
    poisson_excess,
)
from driftbn.graphs.graph import Dag
from driftbn.graphs.network import BayesianNetwork
from driftbn.learning import StructureLearner
from driftbn.learning.independence import PackedTable, design_effects
from tests import reference_decision as naive
from tests.drift_streams import DriftStream, Sessions
from tests.networks import load

N_TESTS = 400


def drawn_spread(
    rng: np.random.Generator, n: int, dof: float, extra: float, n_wandering: int
) -> tuple[Spread, np.ndarray]:
    """Draw sums of squares of tests of which some wander in one direction, and the next value."""

    def draw(size: tuple[int, ...]) -> np.ndarray:
        value = rng.chisquare(dof, size)
        value[:n_wandering] += extra * rng.chisquare(1.0, (n_wandering, *size[1:]))
        return value

    sums = draw((N_TESTS, n)).sum(axis=1)
    all_dof, all_n = np.full(N_TESTS, dof), np.full(N_TESTS, float(n))
    return Spread(sums - n * dof, all_n, all_dof), draw((N_TESTS,))


def next_p_values(seed: int, *, n: int = 7, extra: float, n_wandering: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    spread, value = drawn_spread(rng, n, 3.0, extra, n_wandering)
    return Scatter(N_TESTS, spread).p_values(np.arange(N_TESTS), value, spread.dof, 1.0)


@pytest.mark.parametrize("share", [1.0, 0.5, 1 / 8])
@pytest.mark.parametrize("count", [1, 7, 40, 300])
def test_the_mean_of_chance_is_that_of_poisson_counts(share: float, count: int) -> None:
    mean = share * count
    x = np.arange(1.0, 20.0 * (mean + 10.0))
    expected = np.sum(stats.poisson.pmf(x, mean) * 2.0 * x * np.log(x / mean))
    table = poisson_excess(share, 1000)
    assert table[0] == 0.0
    assert table[count] == pytest.approx(expected, rel=2e-4)


@pytest.mark.parametrize("n", [3, 7, 20])
@pytest.mark.parametrize(("extra", "n_wandering"), [(0, 0), (3, 20), (30, 20), (30, N_TESTS)])
def test_a_family_rejects_hardly_more_often_than_it_should(
    n: int, extra: float, n_wandering: int
) -> None:
    """Most tests reject as they should; the strongest of all of them, corrected, hardly ever."""
    p = [next_p_values(seed, n=n, extra=extra, n_wandering=n_wandering) for seed in range(60)]
    assert np.mean(np.array(p) <= 0.05) <= (0.1 if n == 3 else 0.075)
    assert np.count_nonzero(np.min(p, axis=1) <= 0.01 / N_TESTS) <= 3


def test_a_test_that_keeps_still_loses_next_to_nothing_by_one_that_wanders() -> None:
    rng = np.random.default_rng(1)
    spread, value = drawn_spread(rng, 7, 3.0, 100.0, n_wandering=10)
    value[-1] = 60.0
    p = Scatter(N_TESTS, spread).p_values(np.arange(N_TESTS), value, spread.dof, 1.0)
    assert p[-1] < 0.01 / N_TESTS
    assert p[:10].min() > 1e-3


@pytest.mark.parametrize(("n", "dof"), [(1, 3.0), (7, 1.0), (22, 0.7), (22, 40.0)])
@pytest.mark.parametrize("strength", [1.0, 3.86])
def test_scatter_is_that_of_its_formulas(n: int, dof: float, strength: float) -> None:
    spread, value = drawn_spread(np.random.default_rng(6), n, dof, 20.0, n_wandering=40)
    scatter = Scatter(N_TESTS, spread)
    densities = np.array([naive.scatter_densities(*of) for of in zip(*spread, strict=True)])
    weights = naive.scatter_weights(densities, n)
    assert scatter.weights[0] == pytest.approx(weights, rel=1e-9)
    found = scatter.p_values(np.arange(N_TESTS), value, spread.dof, strength)
    expected = [
        naive.scatter_p_value(weights * density, at, dof, strength)
        for density, at in zip(densities, value.tolist(), strict=True)
    ]
    assert found == pytest.approx(expected, rel=1e-8)


def test_few_windows_say_little() -> None:
    spread = Spread(np.full(50, 30.0), np.full(50, 1.0), np.full(50, 1.0))
    few, many = (
        fitted_weights(spread._replace(n=np.full(50, n), excess=np.full(50, 30.0 * n)))
        for n in (1.0, 20.0)
    )
    assert few[0] > many[0]


def test_pooled_windows_are_one_draw_of_what_wanders() -> None:
    rng = np.random.default_rng(3)
    spread, _ = drawn_spread(rng, 7, 3.0, 30.0, N_TESTS)
    value, tests = np.full(N_TESTS, 100.0), np.arange(N_TESTS)
    alone, pooled = (
        Scatter(N_TESTS, spread).p_values(tests, value, spread.dof, strength)
        for strength in (1.0, 3.86)
    )
    assert np.all(pooled > alone)


def plan_of(*edges: tuple[str, str], names: str = "abc") -> TestPlan:
    return make_plan(Dag(tuple(names), edges), np.full(len(names), 2), 1000)


def test_what_is_carried_is_known_by_the_names_of_fields() -> None:
    old, new = plan_of(("a", "b"), ("c", "b")), plan_of(("d", "a"), ("c", "a"), names="abcd")
    n_tests = len(old.tables.child)
    spread = Spread(np.arange(1.0, n_tests + 1.0), np.ones(n_tests), np.ones(n_tests))
    found = Carried.of(old, spread).onto(new).spread.excess
    known = dict(zip(ends_of(old), spread.excess.tolist(), strict=True))
    for ends, value in zip(ends_of(new), found.tolist(), strict=True):
        assert value == known.get(ends, known.get(ends[::-1], 0.0))
    assert np.count_nonzero(found) >= len("abc") + 3


def ends_of(plan: TestPlan) -> list[tuple[str, str]]:
    names = (*plan.names, "")
    tables = plan.tables
    return [(names[x], names[y]) for x, y in zip(tables.source, tables.child, strict=True)]


def test_the_largest_jump_of_a_test_says_nothing() -> None:
    plan = plan_of()
    zero = np.zeros(len(plan.tables.child))
    spread = Spread(zero, zero, zero + 1.0)
    once, twice = (
        Carried.of(plan, spread, tuple(zero + jump for jump in jumps)).jumped
        for jumps in ((50.0,), (50.0, 20.0))
    )
    assert (once.excess[0], once.n[0]) == (0.0, 0.0)
    assert (twice.excess[0], twice.n[0]) == (20.0, 1.0)
    many = Carried.of(plan, spread, tuple(zero + jump for jump in range(20)))
    assert len(many.jumps) == CARRIED_JUMPS


def test_a_test_that_has_jumped_may_jump_again_as_often_and_as_far() -> None:
    tests, dof = np.arange(2), np.full(2, 3.0)
    calm = Spread(np.zeros(2), np.full(2, 16.0), dof)
    jumps = Scatter(2, Spread(np.array([90.0, 0.0]), np.full(2, 2.0), dof))
    for value, least in ((40.0, 0.02), (3000.0, 0.0)):
        before = Scatter(2, calm).p_values(tests, dof + value, dof, 1.0)
        jumping, still = Scatter(2, calm, jumps=jumps).p_values(tests, dof + value, dof, 1.0)
        assert before.max() < 0.002
        assert least <= jumping <= 2.0 / 18.0
        assert still < 0.002


def test_what_some_tests_of_a_family_jump_does_not_hide_a_change_of_another() -> None:
    n_pairs = 600
    jumped = np.zeros(n_pairs)
    jumped[:10] = 2000.0
    calm = Spread(np.zeros(n_pairs), np.full(n_pairs, 7.0), np.ones(n_pairs))
    jumps = Scatter(0, Spread(jumped, np.ones(n_pairs), np.ones(n_pairs)))
    tests = np.array([0, n_pairs - 1])
    value = np.full(2, 1500.0)
    known, new = Scatter(0, calm, jumps=jumps).p_values(tests, value, np.ones(2), 1.0)
    assert known > 0.01
    assert new == Scatter(0, calm).p_values(tests, value, np.ones(2), 1.0)[1]


def test_regular_windows_are_no_credit_for_one_that_moves() -> None:
    dof = np.full(N_TESTS, 20.0)
    regular = Spread(np.full(N_TESTS, -130.0), np.full(N_TESTS, 7.0), dof)
    moved = Spread(np.full(N_TESTS, 160.0), np.full(N_TESTS, 2.0), dof)
    assert np.all(regular.plus(moved).excess > 100.0)
    unknown = Spread(*np.zeros((3, N_TESTS)))
    ordinary = Spread(np.full(N_TESTS, -10.0), np.full(N_TESTS, 7.0), dof)
    np.testing.assert_array_equal(ordinary.plus(unknown).excess, ordinary.excess)


def test_later_windows_are_held_back_and_fade() -> None:
    later = LaterWindows(np.zeros(1))
    for _ in range(5):
        later = later.with_window(np.ones(1), n_held=5)
    assert (later.n, later.n_taken) == (0.0, 0)
    for _ in range(200):
        later = later.with_window(np.ones(1), n_held=5)
    assert later.n_taken == 200
    assert later.n < 20.0
    assert later.excess[0] == pytest.approx(later.n)


def test_windows_of_one_network_lie_no_further_apart_than_by_chance() -> None:
    """The mean of each sum of squares is its degrees of freedom, also in sparse tables."""
    network, rng = asia(), np.random.default_rng(5)
    plan = make_plan(network.dag, np.array(network.cards), 1000)
    means = []
    for _ in range(40):
        codes = [rows_of(network, 1000, rng) for _ in range(4)]
        alone = [PooledWindows(plan, plan.count_rows(window), [window]) for window in codes]
        counts = np.add.reduce([window.counts for window in alone], dtype=np.int32)
        parts = [window.part for window in alone]
        spread = PooledWindows(plan, counts, codes, parts=parts).spread
        means.append(spread.excess / np.maximum(spread.n * spread.dof, 1.0))
    tested = spread.dof > 1.0
    assert abs(np.mean(np.array(means)[:, tested])) < 0.1


@pytest.mark.parametrize("mean_length", [5, 20])
def test_what_sessions_explain_is_no_scatter(mean_length: int) -> None:
    """Windows of sessions lie apart as the dispersion inside them lets expect, and no further."""
    network, far = asia(), []
    plan = make_plan(network.dag, np.array(network.cards), 2000)
    for seed in range(10):
        stream = DriftStream(network, bursts=Sessions(mean_length), seed=seed)
        codes = list(islice(stream.batches(2000), 8))
        tables = [PackedTable(window, network.dag.nodes) for window in codes]
        effects = np.mean([design_effects(table) for table in tables], axis=0)
        alone = [PooledWindows(plan, plan.count_rows(window), [window]) for window in codes]
        counts = np.add.reduce([window.counts for window in alone], dtype=np.int32)
        spread = PooledWindows(plan, counts, codes, parts=[one.part for one in alone]).spread
        held = [network.index(name) for name in stream.held]
        chosen = np.isin(plan.tables.child, held) & (plan.tables.source < 0) & (spread.dof > 0.0)
        left = spread.beyond(1.0 + bursts(plan, effects))
        far.append([np.mean(of.excess[chosen] / (of.n * of.dof)[chosen]) for of in (spread, left)])
    whole, left = np.mean(far, axis=0)
    assert whole > 0.5 * (mean_length - 1)
    assert abs(left) < 0.3


def test_a_pair_that_keeps_still_does_not_pay_for_sessions_of_others() -> None:
    learner, stream = StructureLearner(), DriftStream(load("insurance"), bursts=Sessions(5), seed=3)
    names = sorted(stream.before.nodes)
    order = [stream.before.index(name) for name in names]
    first, *others = (
        learner.learn_window(codes[order], names) for codes in islice(stream.batches(5000), 8)
    )
    regime = Regime(0, DecisionConfig(), learner, first)
    for window in others:
        regime.absorb(regime.counted(window))
    tables, n_nodes = regime.plan.tables, regime.plan.n_nodes
    held = np.array([name in stream.held for name in names])
    pairs = np.flatnonzero(~held[tables.source[n_nodes:]] & ~held[tables.child[n_nodes:]]) + n_nodes
    one, scatter = np.ones(len(pairs)), regime.scatter(regime.pool)
    p = scatter.p_values(pairs, 40.0 * one, one, 1.0, effects=one)
    blind = Scatter(n_nodes, scatter.spread).p_values(pairs, 40.0 * one, one, 1.0)
    assert np.median(p) < 0.1 * np.median(blind)
    assert np.median(p) < 1e-6


def rows_of(network: BayesianNetwork, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    frame = sample(network, n_rows, seed=int(rng.integers(1 << 30)))
    codes = [
        np.searchsorted(sorted(network.states[network.index(v)]), frame[v].to_numpy(str))
        for v in network.dag.nodes
    ]
    return np.array(codes, np.uint8)


def wandering(network: BayesianNetwork, n_windows: int, seed: int, size: float) -> list[str]:
    """Return the levels on a stream whose roots take new marginals in each window."""
    rng = np.random.default_rng(seed)
    monitor, found = DriftMonitor(window=2000), []
    for _ in range(n_windows):
        tables = [table.copy() for table in network.cpts]
        for name in ("asia", "smoke"):
            table = tables[network.index(name)]
            shifted = table * np.exp(size * rng.normal(size=table.shape))
            tables[network.index(name)] = shifted / shifted.sum(axis=-1, keepdims=True)
        moved = BayesianNetwork(network.nodes, network.states, network.parents, tables)
        batch = sample(moved, 2000, seed=int(rng.integers(1 << 30)))
        found += [report.decision.level.value for report in monitor.update(batch)]
    return found


def test_a_stream_that_wanders_by_itself_is_calm() -> None:
    levels = [level for seed in range(3) for level in wandering(asia(), 40, seed, size=0.15)]
    assert levels.count("drift") <= 2


def test_a_change_is_seen_in_a_stream_that_wanders_in_other_fields() -> None:
    changed = remove_edge(asia(), "smoke", "bronc").network
    monitor = DriftMonitor(window=2000)
    rng = np.random.default_rng(2)
    for network in [asia()] * 12 + [changed]:
        tables = [table.copy() for table in network.cpts]
        table = tables[network.index("tub")]
        shifted = table * np.exp(0.2 * rng.normal(size=table.shape[-1]))
        tables[network.index("tub")] = shifted / shifted.sum(axis=-1, keepdims=True)
        moved = BayesianNetwork(network.nodes, network.states, network.parents, tables)
        (report,) = monitor.update(sample(moved, 2000, seed=int(rng.integers(1 << 30))))
    assert report.decision.drift
    assert [edge.pair for edge in report.decision.edges] == [("bronc", "smoke")]


def test_no_reference_of_one_window_has_scatter() -> None:
    assert DecisionConfig(reference_windows=1).scales == (1,)
    plan = plan_of()
    rows = np.zeros((3, 10), np.uint8)
    one = PooledWindows(plan, plan.count_rows(rows), [rows])
    alone = PooledWindows(plan, one.counts, [rows], parts=[one.part])
    assert not np.any((alone.spread.n > 0.0) & (alone.spread.dof > 0.0))


def test_what_varies_less_than_by_chance_is_no_sign_of_wandering() -> None:
    spread, _ = drawn_spread(np.random.default_rng(4), 7, 3.0, 30.0, n_wandering=40)
    spread.excess[-1] = -spread.n[-1] * spread.dof[-1]  # as of a clock
    assert Scatter(N_TESTS, spread).factors[-1] < 1.1
