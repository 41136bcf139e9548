from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbn import Dag, Edge, Pdag
from driftbn.config import Algorithm, ColliderRule, Knowledge, LearnerConfig
from driftbn.datasets import random_dag, sample
from driftbn.errors import GraphError, VariableMismatchError
from driftbn.kernels.orientation import close_directions
from driftbn.learning import (
    IndependenceTest,
    LearnedStructure,
    StructureLearner,
    extend_to_dag,
    learn_structure,
)
from driftbn.learning.orientation import _make_arrows, _matrix
from driftbn.testing import DSeparationOracle
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


def learn(test: IndependenceTest, rule: ColliderRule) -> LearnedStructure:
    config = LearnerConfig(collider_rule=rule)
    return StructureLearner(config, max_sets=None).learn_from(test)


def is_acyclic(graph: Pdag) -> bool:
    return nx.is_directed_acyclic_graph(nx.DiGraph(graph.directed_edges))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.value)
@pytest.mark.parametrize(
    ("dag", "directed", "undirected"),
    [
        (Dag("abc", [("a", "b"), ("b", "c")]), [], ["ab", "bc"]),
        (Dag("abc", [("b", "a"), ("b", "c")]), [], ["ab", "bc"]),
        (Dag("abc", [("a", "b"), ("c", "b")]), ["ab", "cb"], []),
        (Dag("abcd", [("a", "b"), ("c", "b"), ("b", "d")]), ["ab", "bd", "cb"], []),
        (Dag("abcd", [("a", "b"), ("b", "c"), ("c", "d")]), [], ["ab", "bc", "cd"]),
        (
            Dag("abcd", [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]),
            ["bd", "cd"],
            ["ab", "ac"],
        ),
        (
            Dag("abcd", [("a", "b"), ("a", "c"), ("a", "d"), ("b", "d"), ("c", "d")]),
            ["ad", "bd", "cd"],  # the first by rule 3
            ["ab", "ac"],
        ),
        (Dag("ab"), [], []),
    ],
    ids=["chain", "fork", "collider", "rule 1", "long chain", "diamond", "kite", "no edge"],
)
def test_small_graph_is_directed_as_far_as_it_can_be(
    dag: Dag, directed: list[str], undirected: list[str], rule: ColliderRule
) -> None:
    learned = learn(DSeparationOracle(dag), rule)
    pairs = [[(e[0], e[1]) for e in edges] for edges in (directed, undirected)]
    assert learned.graph == Pdag(dag.nodes, *pairs)
    assert learned.conflicts == ()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.value)
def test_edge_that_two_colliders_want_both_ways_is_undirected_and_reported(
    rule: ColliderRule,
) -> None:
    """In a - b - c - d both b and c are to be colliders, as if b and c had a hidden cause."""

    def separates(u: str, v: str, given: set[str]) -> bool:
        pair = u + v
        return (
            (pair == "ac" and "b" not in given)
            or (pair == "bd" and "c" not in given)
            or (pair == "ad" and not given & {"b", "c"})
        )

    learned = learn(Statements("abcd", separates), rule)
    assert learned.graph == Pdag("abcd", [("a", "b"), ("d", "c")], [("b", "c")])
    assert learned.conflicts == (("b", "c"),)
    assert nx.is_directed_acyclic_graph(learned.dag.to_networkx())


CENSUS_RULES = [ColliderRule.CONTRAST, ColliderRule.MAJORITY]


@pytest.mark.parametrize("rule", CENSUS_RULES, ids=lambda rule: rule.value)
@pytest.mark.parametrize("names", ["abcde", "edcba", "badce"])
def test_weaker_of_two_colliders_that_contradict_each_other_is_left_out(
    names: str, rule: ColliderRule
) -> None:
    """In a - b - c - d - e, b is a collider by every set, but c only by sets with e."""
    a, b, c, d, e = list(names)
    edges = {frozenset(edge) for edge in ((a, b), (b, c), (c, d), (d, e))}

    def separates(u: str, v: str, given: set[str]) -> bool:
        pair = {u, v}
        if pair == {a, c}:
            return b not in given
        if pair == {b, d}:
            return c not in given and e in given
        return frozenset(pair) not in edges

    learned = learn(Statements(names, separates), rule)
    assert set(learned.graph.directed_edges) == {(a, b), (c, b)}
    assert learned.graph.skeleton == {tuple(sorted(edge)) for edge in edges}
    assert learned.conflicts == ()


def test_collider_against_knowledge_is_left_out() -> None:
    collider = DSeparationOracle(Dag("abc", [("a", "c"), ("b", "c")]))
    knowledge = Knowledge(required=[("c", "a")])
    learned = StructureLearner(knowledge=knowledge).learn_from(collider)
    assert learned.graph == Pdag("abc", [("c", "a")], [("b", "c")])
    assert learned.conflicts == ()


class LastResort(IndependenceTest):
    """Separates x and y by three of their four neighbours only, with a given p-value."""

    def __init__(self, p_value: float) -> None:
        self.names = tuple("pqrxyz")
        self._p_value = p_value

    def first_separator(self, x: int, y: int, sets: Any) -> int | None:
        found = (k for k, members in enumerate(sets) if sorted(members) == [0, 1, 2])
        return next(found, None) if {x, y} == {3, 4} else None

    def p_value(self, x: int, y: int, members: Sequence[int]) -> float:
        return self._p_value if self.first_separator(x, y, [members]) is not None else 0.0


@pytest.mark.parametrize("rule", CENSUS_RULES, ids=lambda rule: rule.value)
@pytest.mark.parametrize(("p_value", "parents"), [(0.49, ""), (0.5, "pqrxy")])
def test_pair_that_the_census_never_separates_needs_a_clear_separator(
    rule: ColliderRule, p_value: float, parents: str
) -> None:
    learned = learn(LastResort(p_value), rule)
    assert learned.graph.directed_edges == tuple((parent, "z") for parent in parents)
    assert learned.cost.orientation_tests[3] == 1


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

    learned = learn(Statements("abcdefgh", separates), rule)
    assert learned.graph.skeleton == {tuple(sorted(edge)) for edge in edges}
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
    assert found == reference.close_directions(len(place), adjacent, directed)
