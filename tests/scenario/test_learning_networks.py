"""Every algorithm finds the true class when its questions are answered by the truth."""

from __future__ import annotations

from functools import cache

import pytest

from driftbn import Algorithm, ColliderRule, Dag, LearnerConfig, Pdag, datasets, shd
from driftbn.datasets import random_dag
from driftbn.learning import StructureLearner, learn_structure
from driftbn.testing import DSeparationOracle
from tests.networks import NAMES, load

pytestmark = pytest.mark.slow

ALGORITHMS = list(Algorithm)
# Nodes, arcs and largest number of parents; 32 graphs of each.
SHAPES = [
    (5, 4, None),
    (5, 8, None),
    (7, 12, None),
    (8, 16, 4),
    (10, 10, None),
    (12, 20, 3),
    (15, 22, 3),
    (20, 18, None),
    (25, 30, 3),
    (30, 36, 3),
]
SEEDS = range(32)


def most_parents(dag: Dag) -> int:
    return max(len(dag.parents(node)) for node in dag.nodes)


@cache
def truth(n_nodes: int, n_arcs: int, max_parents: int | None, seed: int) -> tuple[Dag, Pdag]:
    dag = random_dag(n_nodes, n_arcs, max_parents=max_parents, seed=seed)
    return dag, dag.cpdag()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.value)
def test_truth_leads_to_the_true_class_of_random_graphs(
    algorithm: Algorithm, shape: tuple[int, int, int | None]
) -> None:
    for seed in SEEDS:
        dag, cpdag = truth(*shape, seed)
        config = LearnerConfig(
            algorithm=algorithm,
            max_conditioning=max(most_parents(dag), 1),
        )
        learned = StructureLearner(config, max_sets=None).learn_from(DSeparationOracle(dag))
        assert learned.graph == cpdag
        assert learned.conflicts == ()
        assert learned.overrun is None


@pytest.mark.parametrize("rule", list(ColliderRule), ids=lambda rule: rule.value)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_collider_rule_tells_the_truth_of_random_graphs(
    shape: tuple[int, int, int | None], rule: ColliderRule
) -> None:
    for seed in SEEDS:
        dag, cpdag = truth(*shape, seed)
        size = max(most_parents(dag), 1)
        config = LearnerConfig(max_conditioning=size, collider_rule=rule)
        learner = StructureLearner(config, max_sets=None, census_size=size)
        assert learner.learn_from(DSeparationOracle(dag)).graph == cpdag


@pytest.mark.parametrize("rule", list(ColliderRule), ids=lambda rule: rule.value)
def test_separators_larger_than_the_census_are_not_forgotten(rule: ColliderRule) -> None:
    for seed in SEEDS:
        dag, cpdag = truth(8, 16, 4, seed)
        config = LearnerConfig(max_conditioning=most_parents(dag), collider_rule=rule)
        learner = StructureLearner(config, max_sets=None, census_size=1)
        assert learner.learn_from(DSeparationOracle(dag)).graph == cpdag


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.value)
def test_truth_leads_to_the_true_class_of_known_networks(algorithm: Algorithm, name: str) -> None:
    dag = load(name).dag
    config = LearnerConfig(algorithm=algorithm, max_conditioning=most_parents(dag), max_tests=None)
    learner = StructureLearner(config, max_sets=None, census_size=1)
    learned = learner.learn_from(DSeparationOracle(dag))
    assert learned.graph == dag.cpdag()


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.value)
def test_warm_start_from_another_truth_still_finds_this_one(algorithm: Algorithm) -> None:
    for seed in range(12):
        before = random_dag(14, 18, max_parents=3, seed=seed)
        now = random_dag(14, 20, max_parents=3, seed=seed + 100)
        learner = StructureLearner(LearnerConfig(algorithm=algorithm), max_sets=None)
        previous = learner.learn_from(DSeparationOracle(before))
        learned = learner.learn_from(DSeparationOracle(now), previous)
        assert learned.graph.skeleton == now.to_pdag().skeleton
        assert learned.graph == now.cpdag()


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.value)
def test_warm_start_from_the_same_truth_needs_no_more_tests(algorithm: Algorithm) -> None:
    oracle = DSeparationOracle(load("alarm").dag)
    learner = StructureLearner(LearnerConfig(algorithm=algorithm), max_sets=None)
    cold = learner.learn_from(oracle)
    warm = learner.learn_from(oracle, cold)
    assert warm.graph == cold.graph
    assert warm.cost.weighted < cold.cost.weighted
    assert not cold.cost.warm
    assert warm.cost.warm


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.value)
def test_many_rows_of_alarm_give_nearly_its_true_class(algorithm: Algorithm) -> None:
    network = datasets.alarm()
    learned = learn_structure(datasets.sample(network, 20_000, 7), algorithm)
    assert shd(learned.graph, network.dag) <= 14
    skeleton = network.dag.to_pdag().skeleton
    assert len(learned.graph.skeleton ^ skeleton) <= 8


def test_smart_search_asks_less_than_fast_search_and_both_less_than_pc() -> None:
    table = datasets.sample(datasets.alarm(), 5000, 3)
    weighted = {
        algorithm: learn_structure(table, algorithm).cost.weighted for algorithm in ALGORITHMS
    }
    assert weighted[Algorithm.SSBN] < weighted[Algorithm.PC]
    assert weighted[Algorithm.FSBN] < weighted[Algorithm.PC]
