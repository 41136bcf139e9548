from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbn import Dag, Edge, Pdag
from driftbn.config import Algorithm, ColliderRule, LearnerConfig
from driftbn.datasets import random_dag, sample
from driftbn.errors import GraphError, VariableMismatchError
from driftbn.kernels.orientation import close_directions
from driftbn.learning import (
    IndependenceTest,
    StructureLearner,
    extend_to_dag,
    learn_structure,
)
from driftbn.learning.orientation import _make_arrows, _matrix
from tests import reference
from tests.networks import load

RULES = list(ColliderRule)


class Statements(IndependenceTest):
    """Holds given pairs independent given a set if a function says so."""

    def __init__(self, names: str, separates: Callable[[str, str, set[str]], bool]) -> None:
        self.names = tuple(sorted(names))
        self._separates = separates

    def first_separator(self, x: int, y: int, sets: Any) -> int | None:
        u, v = sorted((self.names[x], self.names[y]))
        for k, members in enumerate(sets):
            if self._separates(u, v, {self.names[int(z)] for z in members}):
                return k
        return None


def is_acyclic(graph: Pdag) -> bool:
    return nx.is_directed_acyclic_graph(nx.DiGraph(graph.directed_edges))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.value)
def test_colliders_in_a_ring_leave_no_directed_cycle(rule: ColliderRule) -> None:
    """In the ring a - b - c - d with tails, each of the four is pointed to by the one before."""
    ring = dict(zip("abcd", "bcda", strict=True))
    tails = dict(zip("abcd", "efgh", strict=True))
    edges = {frozenset(e) for e in (*ring.items(), *tails.items())}

    def separates(u: str, v: str, given: set[str]) -> bool:
        if frozenset((u, v)) in edges:
            return False
        for before, middle in ring.items():
            if {u, v} == {before, tails[middle]}:
                return middle not in given  # before -> middle <- tail
        return True

    learner = StructureLearner(LearnerConfig(collider_rule=rule), max_sets=None)
    learned = learner.learn_from(Statements("abcdefgh", separates))
    assert learned.graph.skeleton == {tuple(sorted(edge)) for edge in edges}
    assert learned.conflicts == (("a", "b"), ("a", "d"), ("b", "c"), ("c", "d"))
    assert is_acyclic(learned.graph)
    assert learned.dag.to_pdag().skeleton == learned.graph.skeleton


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.value)
@pytest.mark.parametrize("algorithm", list(Algorithm), ids=lambda a: a.value)
def test_few_rows_never_give_a_directed_cycle(algorithm: Algorithm, rule: ColliderRule) -> None:
    for seed in range(6):
        table = sample(load("alarm"), 150, seed)
        config = LearnerConfig(algorithm=algorithm, collider_rule=rule, alpha=0.2)
        learned = learn_structure(table, config=config)
        assert is_acyclic(learned.graph)
        assert learned.dag.to_pdag().skeleton == learned.graph.skeleton
        assert set(learned.graph.directed_edges) <= set(learned.dag.edges)
        assert set(learned.conflicts) <= set(learned.graph.undirected_edges)


@st.composite
def acyclic_pdags(draw: st.DrawFn, max_nodes: int = 7) -> Pdag:
    order = draw(st.permutations("abcdefg"[: draw(st.integers(0, max_nodes))]))
    directed, undirected = [], []
    for u, v in combinations(order, 2):
        mark = draw(st.sampled_from("  >-"))
        if mark == ">":
            directed.append((u, v))
        elif mark == "-":
            undirected.append((u, v))
    return Pdag(order, directed, undirected)


@pytest.mark.slow
@given(acyclic_pdags(), acyclic_pdags())
@settings(max_examples=200)
def test_any_graph_without_a_directed_cycle_has_an_acyclic_extension(
    graph: Pdag, anchor: Pdag
) -> None:
    anchors = [None, anchor] if set(anchor.nodes) & set(graph.nodes) else [None]
    for chosen in anchors:
        dag = extend_to_dag(graph, chosen)
        assert dag.to_pdag().skeleton == graph.skeleton
        assert set(graph.directed_edges) <= set(dag.edges)


def colliders(edges: set[Edge], skeleton: frozenset[Edge]) -> set[tuple[str, str, str]]:
    return {
        (a, z, b)
        for (a, z), (b, other) in product(edges, repeat=2)
        if z == other and a < b and (a, b) not in skeleton
    }


@given(acyclic_pdags(max_nodes=5))
@settings(max_examples=120)
def test_extension_has_no_new_collider_if_that_is_possible(graph: Pdag) -> None:
    given_colliders = colliders(set(graph.directed_edges), graph.skeleton)
    possible = False
    for turned in product((False, True), repeat=len(graph.undirected_edges)):
        edges = {
            (v, u) if turn else (u, v)
            for (u, v), turn in zip(graph.undirected_edges, turned, strict=True)
        } | set(graph.directed_edges)
        if nx.is_directed_acyclic_graph(nx.DiGraph(sorted(edges))):
            possible = possible or colliders(edges, graph.skeleton) == given_colliders
    dag = extend_to_dag(graph)
    if possible:
        assert colliders(set(dag.edges), graph.skeleton) == given_colliders


@pytest.mark.parametrize("seed", range(30))
def test_extension_of_a_class_belongs_to_it(seed: int) -> None:
    dag = random_dag(5 + seed, 5 + 2 * seed, seed=seed)
    cpdag = dag.cpdag()
    extended = extend_to_dag(cpdag)
    assert extended.cpdag() == cpdag
    assert reference.v_structures(extended) == reference.v_structures(dag)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_anchor_is_kept_wherever_no_other_kept_direction_forbids_it(seed: int) -> None:
    cpdag = random_dag(7, 9, seed=seed).cpdag()
    anchor = random_dag(7, 12, seed=seed + 50)
    extended = extend_to_dag(cpdag, anchor)
    assert extended.cpdag() == cpdag
    kept = set(anchor.edges) & set(extended.edges)
    members = [set(other.edges) for other in reference.equivalent_dags(extended)]
    for u, v in anchor.edges:
        if (v, u) in extended.edges:
            assert not any({*kept, (u, v)} <= edges for edges in members)


def test_anchor_without_a_common_variable_is_an_error() -> None:
    with pytest.raises(VariableMismatchError):
        extend_to_dag(Pdag("ab", [], [("a", "b")]), Dag("xy"))


def test_directed_cycle_has_no_extension() -> None:
    with pytest.raises(GraphError, match="cycle"):
        extend_to_dag(Pdag("abc", [("a", "b"), ("b", "c"), ("c", "a")]))


@pytest.mark.slow
@given(acyclic_pdags())
@settings(max_examples=200)
def test_closure_is_that_of_the_rules_applied_one_by_one(graph: Pdag) -> None:
    place = {name: i for i, name in enumerate(graph.nodes)}
    arrow = _matrix(place, graph.directed_edges)
    free = _matrix(place, graph.undirected_edges)
    arrows = _make_arrows(arrow | arrow.T | free | free.T, arrow, arrow & False)
    close_directions(arrows)
    found = {(int(x), int(y)) for x, y in zip(*arrows.arrow.nonzero(), strict=True)}
    adjacent = {frozenset((place[u], place[v])) for u, v in graph.skeleton}
    directed = [(place[u], place[v]) for u, v in graph.directed_edges]
    assert found == reference.close_directions(adjacent, directed)
