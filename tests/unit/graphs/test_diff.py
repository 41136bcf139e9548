from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbn import Dag, Pdag, StructureDiff, compare, shd
from tests import reference


@st.composite
def pdags(draw: st.DrawFn, alphabet: str = "abcdef") -> Pdag:
    nodes = draw(st.lists(st.sampled_from(alphabet), unique=True))
    directed, undirected = [], []
    for i, u in enumerate(nodes):
        for v in nodes[i + 1 :]:
            mark = draw(st.sampled_from(" <>-"))
            if mark == "-":
                undirected.append((u, v))
            elif mark != " ":
                directed.append((u, v) if mark == ">" else (v, u))
    return Pdag(nodes, directed, undirected)


@st.composite
def dags(draw: st.DrawFn) -> Dag:
    order = draw(st.permutations("abcde"))
    pairs = [(u, v) for i, u in enumerate(order) for v in order[i + 1 :]]
    return Dag(order, draw(st.lists(st.sampled_from(pairs), unique=True)))


@pytest.mark.slow
@given(pdags(), pdags())
@settings(max_examples=200)
def test_distance_is_the_number_of_pairs_that_are_not_alike(a: Pdag, b: Pdag) -> None:
    assert compare(a, b).hamming == reference.shd(a, b)
    assert shd(a, b) == reference.shd(a, b)


@pytest.mark.slow
@given(pdags(), pdags())
@settings(max_examples=100)
def test_the_way_back_is_the_same_with_parts_exchanged(a: Pdag, b: Pdag) -> None:
    there, back = compare(a, b), compare(b, a)
    assert there.hamming == back.hamming
    assert there.skeleton == back.skeleton
    assert there.contradictions == back.contradictions
    assert there.added == back.removed
    assert there.removed == back.added
    assert there.reversed == tuple(sorted((v, u) for u, v in back.reversed))
    assert {frozenset(e) for e in there.directed} == {frozenset(e) for e in back.undirected}
    assert there.nodes_added == back.nodes_removed


@pytest.mark.slow
@given(pdags(), pdags())
@settings(max_examples=100)
def test_every_change_is_told_as_the_later_graph_has_it(a: Pdag, b: Pdag) -> None:
    diff = compare(a, b)
    now = {*b.directed_edges, *b.undirected_edges}
    assert {*diff.added, *diff.reversed, *diff.directed, *diff.undirected} <= now
    assert {*diff.reversed, *diff.directed} <= set(b.directed_edges)
    assert set(diff.undirected) <= set(b.undirected_edges)
    assert set(diff.removed) <= {*a.directed_edges, *a.undirected_edges}
    assert {(v, u) for u, v in diff.reversed} <= set(a.directed_edges)
    for edges in (diff.added, diff.removed, diff.reversed, diff.directed, diff.undirected):
        assert list(edges) == sorted(edges)


@pytest.mark.slow
@given(dags(), dags())
@settings(max_examples=100)
def test_distance_of_dags_is_that_of_their_classes(a: Dag, b: Dag) -> None:
    assert shd(a, b) == reference.shd(a.cpdag(), b.cpdag())
    assert shd(a, b.cpdag()) == shd(a, b)


def test_direction_gained_or_lost_counts_once_and_contradicts_nothing() -> None:
    line, arrow = Pdag("ab", [], [("a", "b")]), Pdag("ab", [("b", "a")])
    assert compare(line, arrow) == StructureDiff(directed=(("b", "a"),))
    assert compare(arrow, line) == StructureDiff(undirected=(("a", "b"),))
    assert compare(line, arrow).hamming == 1
    assert compare(line, arrow).contradictions == 0


def test_nodes_that_only_one_graph_has_bring_their_edges_but_count_for_nothing_alone() -> None:
    diff = compare(Dag("abx", [("a", "x")]), Dag("abyz", [("y", "b")]))
    assert diff.nodes_added == ("y", "z")
    assert diff.nodes_removed == ("x",)
    assert diff.added == (("y", "b"),)
    assert diff.removed == (("a", "x"),)
    assert diff.hamming == 2
    assert compare(Dag("a"), Dag("ab")).hamming == 0


@pytest.mark.parametrize("previous", [Dag(()), Pdag(())])
def test_from_an_empty_graph_everything_is_added(previous: Dag | Pdag) -> None:
    graph = Pdag("abc", [("a", "b")], [("c", "b")])
    assert compare(previous, graph).added == (("a", "b"), ("b", "c"))
    assert shd(previous, graph) == 2
