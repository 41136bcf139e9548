from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from driftbn import Dag, Edge
from driftbn.config import Algorithm, ColliderRule, Knowledge, LearnerConfig
from driftbn.datasets import random_dag, sample
from driftbn.errors import ConfigError, KnowledgeError
from driftbn.learning import IndependenceTest, LearnedStructure, StructureLearner, learn_structure
from driftbn.testing import DSeparationOracle
from tests.networks import load

ALGORITHMS = list(Algorithm)
TRIANGLE = Dag("abc", [("a", "b"), ("b", "c"), ("a", "c")])


class Spy(DSeparationOracle):
    """An oracle that remembers which pairs it was asked about."""

    def __init__(self, dag: Dag) -> None:
        super().__init__(dag)
        self.pairs: set[Edge] = set()

    def first_separator(self, x: int, y: int, sets: Any) -> int | None:
        self.pairs.add((self.names[min(x, y)], self.names[max(x, y)]))
        return super().first_separator(x, y, sets)


def learn(
    test: IndependenceTest,
    algorithm: Algorithm = Algorithm.SSBN,
    rule: ColliderRule = ColliderRule.CONTRAST,
    **knowledge: Any,
) -> LearnedStructure:
    config = LearnerConfig(algorithm=algorithm, collider_rule=rule)
    return StructureLearner(config, Knowledge(**knowledge), max_sets=None).learn_from(test)


@pytest.mark.slow
@pytest.mark.parametrize("rule", list(ColliderRule), ids=lambda rule: rule.value)
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.value)
def test_pair_that_is_required_or_forbidden_both_ways_is_never_tested(
    algorithm: Algorithm, rule: ColliderRule
) -> None:
    for seed in range(8):
        spy = Spy(random_dag(9, 14, seed=seed))
        a, b, c, d, e, *_ = spy.names
        learned = learn(
            spy,
            algorithm,
            rule,
            required=[(a, b), (b, c)],
            forbidden=[(d, e), (e, d), (d, a), (a, d)],
        )
        assert not spy.pairs & {(a, b), (b, c), (d, e), (a, d)}
        assert len(spy.pairs) == 36 - 4
        assert {(a, b), (b, c)} <= set(learned.graph.directed_edges)
        assert not {(d, e), (a, d)} & learned.graph.skeleton
        assert not {(a, b), (b, c), (d, e), (a, d)} & set(learned.separators)


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.value)
def test_knowledge_holds_on_data(algorithm: Algorithm) -> None:
    """Also where the data say the opposite."""
    knowledge = Knowledge(
        required=[("xray", "asia"), ("dysp", "bronc")],
        forbidden=[("lung", "smoke"), ("tub", "either"), ("either", "tub")],
        tiers=[["xray"], ["smoke", "lung", "bronc"]],
    )
    table = sample(load("asia"), 3000, 3)
    learned = learn_structure(table, algorithm, knowledge=knowledge)
    arrows = set(learned.graph.directed_edges)
    assert {("xray", "asia"), ("dysp", "bronc")} <= arrows
    for graph in (arrows, set(learned.dag.edges)):
        assert ("lung", "smoke") not in graph
        assert not {("tub", "either"), ("either", "tub")} & graph
        for later in ("smoke", "lung", "bronc"):
            assert (later, "xray") not in graph
    assert ("smoke", "lung") in arrows  # adjacent in the data, and the other way is forbidden


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.value)
def test_tiers_direct_what_crosses_them(algorithm: Algorithm) -> None:
    for seed in range(15):
        dag = random_dag(10, 16, max_parents=3, seed=seed)
        order = dag.topological_order()
        tiers = [order[:3], order[3:4], order[6:]]
        level = {name: i for i, tier in enumerate(tiers) for name in tier}
        learned = learn(DSeparationOracle(dag), algorithm, tiers=tiers)
        assert learned.graph.skeleton == dag.to_pdag().skeleton
        assert set(learned.graph.directed_edges) <= set(dag.edges)
        for u, v in dag.edges:
            if u in level and v in level and level[u] != level[v]:
                assert (u, v) in learned.graph.directed_edges
        assert {*dag.cpdag().directed_edges} <= {*learned.graph.directed_edges}


def test_true_directions_as_knowledge_only_add_arrows() -> None:
    for seed in range(20):
        dag = random_dag(10, 15, max_parents=3, seed=seed)
        rng = np.random.default_rng(seed)
        some = [dag.edges[i] for i in rng.choice(len(dag.edges), size=4, replace=False)]
        forbidden = [(v, u) for u, v in some[2:]]
        learned = learn(DSeparationOracle(dag), required=some[:2], forbidden=forbidden)
        assert learned.graph.skeleton == dag.to_pdag().skeleton
        arrows = set(learned.graph.directed_edges)
        assert {*some, *dag.cpdag().directed_edges} <= arrows <= set(dag.edges)


def test_required_edge_wins_over_a_collider() -> None:
    collider = Dag("abc", [("a", "c"), ("b", "c")])
    learned = learn(DSeparationOracle(collider), required=[("c", "a")])
    assert ("c", "a") in learned.graph.directed_edges
    assert learned.graph.skeleton == {("a", "c"), ("b", "c")}


@pytest.mark.parametrize(
    "knowledge",
    [
        {"forbidden": [("b", "a"), ("c", "b"), ("a", "c")]},
        {"required": [("a", "b"), ("b", "c")], "forbidden": [("a", "c")]},
        {"tiers": [["a"], ["b"]], "forbidden": [("c", "b"), ("a", "c")]},
    ],
    ids=["forbidden", "required", "tiers"],
)
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.value)
def test_forbidden_directions_never_close_a_cycle(
    algorithm: Algorithm, knowledge: dict[str, Any]
) -> None:
    """Each knowledge may be true, if only the data would not connect all three."""
    try:
        learned = learn(DSeparationOracle(TRIANGLE), algorithm, **knowledge)
    except KnowledgeError:
        return
    graph = nx.DiGraph(learned.graph.directed_edges)
    assert nx.is_directed_acyclic_graph(graph)
    assert set(knowledge.get("required", ())) <= set(learned.dag.edges)


@pytest.mark.parametrize(
    ("knowledge", "field"),
    [
        ({"required": [("a", "b"), ("b", "a")]}, "required"),
        ({"required": [("a", "b"), ("b", "c"), ("c", "a")]}, "required"),
        ({"required": [("a", "b")], "forbidden": [("a", "b")]}, "required"),
        ({"required": [("b", "a")], "tiers": [["a"], ["b"]]}, "required"),
        ({"required": [("a", "z")]}, "required"),
        ({"forbidden": [("z", "a")]}, "forbidden"),
        ({"tiers": [["a"], ["z"]]}, "tiers"),
        ({"tiers": [["a", "b"], ["b"]]}, "tiers"),
        ({"tiers": [["a", "a"]]}, "tiers"),
        ({"required": [("a", "a")]}, "required"),
        ({"forbidden": [("c", "c")]}, "forbidden"),
    ],
    ids=str,
)
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.value)
def test_contradiction_is_an_error_that_names_the_field(
    algorithm: Algorithm, knowledge: dict[str, Any], field: str
) -> None:
    spy = Spy(TRIANGLE)
    with pytest.raises(KnowledgeError) as caught:
        learn(spy, algorithm, **knowledge)
    assert caught.value.field == field
    assert isinstance(caught.value, ConfigError)
    assert spy.pairs == set()
