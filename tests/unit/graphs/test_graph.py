from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbn import Dag, Pdag
from driftbn.datasets import random_dag
from driftbn.errors import GraphError, UnknownVariableError
from tests import reference
from tests.networks import NAMES, load


@st.composite
def dags(draw: st.DrawFn, max_nodes: int = 6) -> Dag:
    names = draw(st.permutations("abcdef"[: draw(st.integers(1, max_nodes))]))
    pairs = [(u, v) for i, u in enumerate(names) for v in names[i + 1 :]]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=9)) if pairs else []
    return Dag(names, chosen)


@st.composite
def pdags(draw: st.DrawFn) -> Pdag:
    dag = draw(dags())
    turned = [draw(st.booleans()) for _ in dag.edges]
    both = [draw(st.booleans()) for _ in dag.edges]
    edges = [(v, u) if t else (u, v) for (u, v), t in zip(dag.edges, turned, strict=True)]
    return Pdag(
        dag.nodes,
        [e for e, undirected in zip(edges, both, strict=True) if not undirected],
        [e for e, undirected in zip(edges, both, strict=True) if undirected],
    )


@pytest.mark.slow
@given(dags())
@settings(max_examples=150)
def test_cpdag_directs_what_every_equivalent_dag_directs(dag: Dag) -> None:
    assert dag.cpdag() == reference.cpdag(dag)


@pytest.mark.parametrize("name", NAMES)
def test_cpdag_of_a_known_network_is_its_v_structures_closed_by_rules(name: str) -> None:
    dag = load(name).dag
    assert dag.cpdag() == reference.pattern(dag)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("n_arcs", [20, 60, 150, 300])
def test_cpdag_of_a_larger_random_dag_is_its_v_structures_closed_by_rules(
    n_arcs: int, seed: int
) -> None:
    dag = random_dag(25, n_arcs, seed=seed)
    assert dag.cpdag() == reference.pattern(dag)


@given(dags())
def test_dag_survives_networkx(dag: Dag) -> None:
    assert Dag.from_networkx(dag.to_networkx()) == dag


@given(pdags())
def test_pdag_survives_networkx(graph: Pdag) -> None:
    assert Pdag.from_networkx(graph.to_networkx()) == graph


def test_networkx_graph_with_a_loop_is_refused() -> None:
    graph = nx.DiGraph([("a", "a"), ("a", "b")])
    for kind in (Dag, Pdag):
        with pytest.raises(GraphError, match="loop"):
            kind.from_networkx(graph)


def test_order_of_nodes_and_edges_does_not_matter() -> None:
    one = Pdag("abc", [("b", "c")], [("b", "a")])
    two = Pdag("cba", [("b", "c")], [("a", "b")])
    assert one == two
    assert hash(one) == hash(two)
    assert Dag("abc", [("b", "c"), ("a", "b")]) == Dag("cab", [("a", "b"), ("b", "c")])


def test_cycle_is_refused_and_named() -> None:
    with pytest.raises(GraphError, match=r"\('a', 'b', 'c'\)"):
        Dag("abcd", [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])


@pytest.mark.parametrize("kind", [Dag, Pdag])
@pytest.mark.parametrize(
    ("nodes", "edges", "problem"),
    [
        ("aba", [], "'a' is named twice"),
        ("ab", [("a", "a")], "'a' - 'a' is a loop"),
        ("ab", [("a", "b"), ("a", "b")], "two edges"),
    ],
)
def test_unsound_graph_is_refused(kind, nodes, edges, problem) -> None:
    with pytest.raises(GraphError, match=problem):
        kind(nodes, edges)


@pytest.mark.parametrize("kind", [Dag, Pdag])
def test_edge_to_an_unknown_node_is_refused(kind: type[Dag] | type[Pdag]) -> None:
    with pytest.raises(UnknownVariableError, match="no variable 'z'") as caught:
        kind("ab", [("a", "z")])
    assert caught.value.name == "z"
    assert caught.value.known == ("a", "b")


def test_directed_and_undirected_edge_of_one_pair_are_refused() -> None:
    with pytest.raises(GraphError, match="two edges"):
        Pdag("ab", [("a", "b")], [("b", "a")])


def test_question_about_an_unknown_node_is_an_error() -> None:
    dag = Dag("ab", [("a", "b")])
    for ask in (dag.parents, dag.children, dag.markov_blanket, dag.to_pdag().neighbours):
        with pytest.raises(UnknownVariableError):
            ask("z")


def test_markov_blanket_has_parents_children_and_spouses() -> None:
    dag = Dag("abcdef", [("a", "b"), ("b", "c"), ("d", "c"), ("c", "e"), ("f", "a")])
    assert dag.markov_blanket("b") == {"a", "c", "d"}
    assert dag.markov_blanket("f") == {"a"}


@given(dags())
@settings(max_examples=60)
def test_markov_blanket_separates_from_the_rest(dag: Dag) -> None:
    for node in dag.nodes:
        blanket = dag.markov_blanket(node)
        for other in set(dag.nodes) - blanket - {node}:
            assert reference.is_d_separated(dag, node, other, blanket)


@given(dags())
def test_topological_order_has_parents_first(dag: Dag) -> None:
    order = dag.topological_order()
    assert sorted(order) == list(dag.nodes)
    assert all(order.index(u) < order.index(v) for u, v in dag.edges)
