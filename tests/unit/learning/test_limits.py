from __future__ import annotations

from dataclasses import replace

import pytest

from driftbn import datasets
from driftbn.config import Algorithm, ColliderRule, LearnerConfig
from driftbn.learning import (
    ChiSquareTest,
    LearnedStructure,
    Overrun,
    StructureLearner,
)
from driftbn.learning.search import TESTS_PER_LOOK
from driftbn.testing import DSeparationOracle
from tests.encoded import EncodedTable, infer_and_encode
from tests.networks import load

ALGORITHMS = list(Algorithm)
SETS_PER_QUESTION = 16  # how far a budget may be overdrawn


class Clock:
    """Gives the next of some readings, then the last one for ever."""

    def __init__(self, *readings: float) -> None:
        self.readings = list(readings)

    def __call__(self) -> float:
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]


@pytest.fixture(scope="module")
def alarm() -> EncodedTable:
    return infer_and_encode(datasets.sample(datasets.alarm(), 2000, 5))


def check_same(a: LearnedStructure, b: LearnedStructure) -> None:
    assert a.graph == b.graph
    assert dict(a.separators) == dict(b.separators)
    assert a.tallies.units.tobytes() == b.tallies.units.tobytes()
    assert a.cost.tests == b.cost.tests
    assert a.cost.orientation_tests == b.cost.orientation_tests
    assert a.conflicts == b.conflicts
    assert a.overrun is b.overrun


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.value)
def test_generous_limits_change_nothing(alarm: EncodedTable, algorithm: Algorithm) -> None:
    config = LearnerConfig(algorithm=algorithm)
    free = StructureLearner(config).learn(alarm)
    limited = replace(config, max_tests=10**9, deadline_seconds=1e6)
    check_same(StructureLearner(limited).learn(alarm), free)
    # One look at the limits after every few tests instead of every few thousand.
    exact = replace(config, max_tests=free.cost.n_tests + SETS_PER_QUESTION)
    check_same(StructureLearner(exact).learn(alarm), free)
    assert free.overrun is None


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.value)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
def test_spent_budget_leaves_the_skeleton_so_far_without_directions(
    alarm: EncodedTable, algorithm: Algorithm, share: float
) -> None:
    config = LearnerConfig(algorithm=algorithm, collider_rule=ColliderRule.STANDARD, repair=False)
    free = StructureLearner(config).learn(alarm)
    n_pairs = 37 * 36 // 2
    budget = max(1, int(share * (free.cost.n_tests - n_pairs)))
    stopped = StructureLearner(replace(config, max_tests=budget)).learn(alarm)
    assert stopped.overrun is Overrun.TESTS
    assert stopped.graph.directed_edges == ()
    assert stopped.conflicts == ()
    assert stopped.graph.skeleton > free.graph.skeleton
    assert budget <= stopped.cost.n_tests - n_pairs < budget + SETS_PER_QUESTION
    assert sum(stopped.cost.orientation_tests) == 0
    # What was found so far is what the whole search had found by then.
    assert dict(stopped.separators).items() <= dict(free.separators).items()
    assert len(stopped.separators) + len(stopped.graph.skeleton) == n_pairs
    stopped.dag  # noqa: B018 - still has an extension


@pytest.mark.parametrize("rule", list(ColliderRule), ids=lambda rule: rule.value)
def test_budget_spent_while_directing_leaves_the_skeleton_without_directions(
    alarm: EncodedTable, rule: ColliderRule
) -> None:
    config = LearnerConfig(collider_rule=rule, repair=False)
    free = StructureLearner(config).learn(alarm)
    n_search = sum(free.cost.tests[1:])
    if not sum(free.cost.orientation_tests):
        pytest.skip("this rule asks no tests")
    stopped = StructureLearner(replace(config, max_tests=n_search + 20)).learn(alarm)
    assert stopped.overrun is Overrun.TESTS
    assert stopped.graph.directed_edges == ()
    assert stopped.graph.skeleton == free.graph.skeleton
    assert dict(stopped.separators) == dict(free.separators)
    assert stopped.cost.n_tests - free.cost.tests[0] < n_search + 20 + SETS_PER_QUESTION


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.value)
def test_deadline_passed_before_the_search_leaves_order_zero(
    alarm: EncodedTable, algorithm: Algorithm
) -> None:
    config = LearnerConfig(algorithm=algorithm, deadline_seconds=1.0)
    stopped = StructureLearner(config, clock=Clock(0.0, 2.0)).learn(alarm)
    assert stopped.overrun is Overrun.DEADLINE
    assert stopped.graph.directed_edges == ()
    assert sum(stopped.cost.tests[1:]) == 0
    assert stopped.cost.seconds == 2.0
    assert set(dict(stopped.separators).values()) == {()}


@pytest.mark.slow
def test_deadline_is_seen_within_one_look() -> None:
    """Pigs asks millions of questions without a cap; the second look is late."""
    oracle = DSeparationOracle(load("pigs").dag)
    config = LearnerConfig(algorithm=Algorithm.PC, deadline_seconds=10.0)
    stopped = StructureLearner(config, clock=Clock(0.0, 1.0, 11.0)).learn_from(oracle)
    assert stopped.overrun is Overrun.DEADLINE
    assert 0 < sum(stopped.cost.tests[1:]) < TESTS_PER_LOOK + SETS_PER_QUESTION
    assert stopped.cost.seconds == 11.0
    assert stopped.graph.skeleton > load("pigs").dag.to_pdag().skeleton


@pytest.mark.parametrize("rule", list(ColliderRule), ids=lambda rule: rule.value)
def test_deadline_holds_while_directing(
    monkeypatch: pytest.MonkeyPatch, alarm: EncodedTable, rule: ColliderRule
) -> None:
    if rule is ColliderRule.STANDARD:
        pytest.skip("this rule asks no tests")
    monkeypatch.setattr("driftbn.learning.search.TESTS_PER_LOOK", 100)
    config = LearnerConfig(collider_rule=rule, repair=False)
    free = StructureLearner(config).learn(alarm)
    test = ChiSquareTest(alarm.codes, alarm.schema.names).ordered_by_data()
    n_search = sum(free.cost.tests)

    def clock() -> float:
        return 0.0 if test.tests[:, 0].sum() <= n_search else 5.0

    limited = replace(config, deadline_seconds=1.0)
    stopped = StructureLearner(limited, clock=clock).learn_from(test)
    assert stopped.overrun is Overrun.DEADLINE
    assert stopped.graph.directed_edges == ()
    assert stopped.graph.skeleton == free.graph.skeleton


def test_deadline_holds_while_repairing(
    monkeypatch: pytest.MonkeyPatch, alarm: EncodedTable
) -> None:
    monkeypatch.setattr("driftbn.learning.orientation.TABLES_PER_LOOK", 1)
    free = StructureLearner().learn(alarm)
    n_looks = 2 + free.cost.n_tests // TESTS_PER_LOOK  # the last readings in time are a repair's
    clock = Clock(*[0.0] * (n_looks + 5), 2.0)
    stopped = StructureLearner(LearnerConfig(deadline_seconds=1.0), clock=clock).learn(alarm)
    assert stopped.overrun is Overrun.DEADLINE
    assert stopped.graph.directed_edges == ()
    assert 0 < stopped.cost.repair_tables < free.cost.repair_tables
    assert stopped.cost.tests == free.cost.tests


def test_stopped_search_can_be_the_start_of_the_next(alarm: EncodedTable) -> None:
    stopped = StructureLearner(LearnerConfig(max_tests=800)).learn(alarm)
    learned = StructureLearner().learn(alarm, stopped)
    assert learned.overrun is None
    assert learned.cost.warm
    assert len(learned.separators) + len(learned.graph.skeleton) == 37 * 36 // 2
