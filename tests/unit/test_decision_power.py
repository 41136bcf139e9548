"""What a window of some size can show."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2, ncx2

from driftbn.datasets import asia, random_dag
from driftbn.datasets.sampling import sample_codes
from driftbn.decision.comparison import Comparison
from driftbn.decision.group import Group
from driftbn.decision.levels import LevelMap
from driftbn.decision.plan import TestPlan as Plan
from driftbn.decision.plan import make_plan
from driftbn.decision.power import (
    MAX_UNDECIDED,
    POWERLESS,
    undecided_pairs,
    visible_changes,
    visible_pairs,
    visible_statistic,
)
from driftbn.graphs.graph import Dag
from driftbn.learning import ChiSquareTest


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


def group_of(plan: Plan, codes: np.ndarray) -> Group:
    test = ChiSquareTest(codes, plan.names)
    return Group(plan, plan.count(test, codes, LevelMap.natural(len(codes))), [codes])


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
    expected = visible_statistic(compared.tie_statistics[1], 1e-4) * 10_000 / (2 * 8000 * 2000)
    np.testing.assert_allclose(visible_changes(compared, 1e-4), expected)


def test_every_pair_is_there_once_with_its_best_test() -> None:
    compared = asia_comparison(4000, 1000)
    pairs, n_pairs = visible_pairs(compared, 1e-3)
    assert n_pairs == len(pairs) == 28
    assert len({(pair.source, pair.target) for pair in pairs}) == 28
    changes = visible_changes(compared, 1e-3)
    names = list(compared.plan.names)
    for pair in pairs:
        ties = compared.plan.ties_of(names.index(pair.source), names.index(pair.target))
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
