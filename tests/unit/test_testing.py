from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbn.datasets import random_dag
from driftbn.errors import ConfigError, GraphError
from driftbn.graphs.graph import Dag
from driftbn.testing import DSeparationOracle
from tests import reference
from tests.networks import load

COLLIDER = Dag("abcd", [("a", "c"), ("b", "c"), ("c", "d")])


@given(st.integers(2, 8), st.integers(0, 2**32 - 1), st.data())
@settings(max_examples=60)
def test_oracle_agrees_with_the_moral_graph(n_nodes: int, seed: int, data: st.DataObject) -> None:
    n_arcs = data.draw(st.integers(0, n_nodes * (n_nodes - 1) // 2))
    dag = random_dag(n_nodes, n_arcs, seed=seed)
    oracle = DSeparationOracle(dag)
    for x, y in combinations(range(n_nodes), 2):
        others = [i for i in range(n_nodes) if i not in (x, y)]
        size = data.draw(st.integers(0, min(3, len(others))))
        sets = list(combinations(others, size))
        separating = [
            reference.is_d_separated(
                dag, dag.nodes[x], dag.nodes[y], [dag.nodes[i] for i in members]
            )
            for members in sets
        ]
        expected = separating.index(True) if any(separating) else None
        assert oracle.first_separator(x, y, sets) == expected
        assert oracle.first_separator(y, x, np.array(sets).reshape(len(sets), size)) == expected


@pytest.mark.parametrize("name", ["alarm", "pigs"])
def test_oracle_agrees_with_the_moral_graph_on_large_networks(name: str) -> None:
    dag = load(name).dag
    oracle = DSeparationOracle(dag)
    rng = np.random.default_rng(3)
    for _ in range(150):
        x, y, *members = map(int, rng.choice(len(dag.nodes), size=5, replace=False))
        adjacent = [dag.nodes.index(p) for p in dag.parents(dag.nodes[x])]
        members = [i for i in {*members, *adjacent} if i not in (x, y)]
        expected = reference.is_d_separated(
            dag, dag.nodes[x], dag.nodes[y], [dag.nodes[i] for i in members]
        )
        assert (oracle.first_separator(x, y, [members]) == 0) is expected


@pytest.mark.parametrize("name", ["asia", "alarm", "insurance"])
def test_parents_separate_a_node_from_its_non_descendants(name: str) -> None:
    dag = load(name).dag
    oracle = DSeparationOracle(dag)
    order = dag.topological_order()
    for i, node in enumerate(order):
        parents = [dag.nodes.index(p) for p in dag.parents(node)]
        for other in set(order[:i]) - set(dag.parents(node)):
            x, y = dag.nodes.index(node), dag.nodes.index(other)
            assert oracle.first_separator(x, y, [parents]) == 0


@pytest.mark.parametrize("seed", range(5))
def test_answers_obey_the_semigraphoid_rules(seed: int) -> None:
    dag = random_dag(8, 11, seed=seed)
    oracle = DSeparationOracle(dag)

    def separated(x: int, y: int, *given: int) -> bool:
        return oracle.first_separator(x, y, [given]) == 0

    for x, y, w, z in permutations(range(8), 4):
        assert separated(x, y, z) == separated(y, x, z)
        contracted = separated(x, y, z) and separated(x, w, y, z)
        union = separated(x, w, z) and separated(x, y, w, z)
        # Contraction gives the joint statement; decomposition and weak union take it apart.
        assert contracted == union


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_equivalent_dags_give_the_same_answers(seed: int) -> None:
    dag = random_dag(5, 6, seed=seed)
    oracles = [DSeparationOracle(other) for other in reference.equivalent_dags(dag)]
    for x, y in combinations(range(5), 2):
        others = [i for i in range(5) if i not in (x, y)]
        for size in range(4):
            sets = list(combinations(others, size))
            assert len({oracle.first_separator(x, y, sets) for oracle in oracles}) == 1


@pytest.mark.parametrize("name", ["asia", "alarm"])
def test_pairs_without_a_separator_among_parents_are_adjacent(name: str) -> None:
    dag = load(name).dag
    oracle = DSeparationOracle(dag)
    parents = [[dag.nodes.index(p) for p in dag.parents(node)] for node in dag.nodes]
    skeleton = dag.to_pdag().skeleton
    for x, y in combinations(range(len(dag.nodes)), 2):
        sets = [[i for i in parents[node] if i not in (x, y)] for node in (x, y)]
        found = oracle.first_separator(x, y, sets)
        assert (found is None) == ((dag.nodes[x], dag.nodes[y]) in skeleton)


def test_order_zero_is_having_no_common_ancestor() -> None:
    dag = load("pigs").dag
    oracle = DSeparationOracle(dag)
    graph = dag.to_networkx()
    rng = np.random.default_rng(1)
    for _ in range(200):
        x, y = map(int, rng.choice(len(dag.nodes), size=2, replace=False))
        above = [nx.ancestors(graph, dag.nodes[i]) | {dag.nodes[i]} for i in (x, y)]
        assert (oracle.first_separator(x, y, [()]) == 0) is above[0].isdisjoint(above[1])


def test_names_are_the_sorted_nodes() -> None:
    assert DSeparationOracle(COLLIDER).names == COLLIDER.nodes


def test_collider_and_its_descendants_open_the_path() -> None:
    oracle = DSeparationOracle(COLLIDER)
    assert oracle.first_separator(0, 1, [(2,), (3,), (2, 3), ()]) == 3


def test_adjacent_nodes_are_never_separated() -> None:
    oracle = DSeparationOracle(COLLIDER)
    assert oracle.first_separator(0, 2, [(), (1,), (3,), (1, 3)]) is None
    assert oracle.first_separator(2, 0, [()]) is None


def test_first_of_several_separators_is_returned() -> None:
    oracle = DSeparationOracle(Dag("abcd", [("a", "b"), ("b", "c")]))
    assert oracle.first_separator(0, 2, np.array([[3], [1], [1]])) == 1


def test_matrix_without_columns_is_the_empty_set() -> None:
    oracle = DSeparationOracle(COLLIDER)
    assert oracle.first_separator(0, 1, np.empty((1, 0), dtype=np.int64)) == 0


def test_no_sets_separate_nothing() -> None:
    oracle = DSeparationOracle(COLLIDER)
    assert oracle.first_separator(0, 1, []) is None
    assert oracle.first_separator(0, 1, np.empty((0, 2), dtype=np.int64)) is None


def test_numpy_positions_are_accepted() -> None:
    oracle = DSeparationOracle(load("pigs").dag)
    x: Any = np.int64(439)
    y: Any = np.int32(440)
    members = np.array([[70, 80]], dtype=np.uint16)
    expected = oracle.first_separator(439, 440, [(70, 80)])
    assert oracle.first_separator(x, y, members) == expected
    assert oracle.first_separator(x, y, list(members)) == expected


@pytest.mark.parametrize(("x", "y"), [(0, 4), (-1, 2)])
def test_unknown_position_is_an_error(x: int, y: int) -> None:
    with pytest.raises(ConfigError, match="from 0 to 3"):
        DSeparationOracle(COLLIDER).first_separator(x, y, [()])


def test_unknown_position_in_a_set_is_an_error() -> None:
    with pytest.raises(ConfigError, match="sets = 9"):
        DSeparationOracle(COLLIDER).first_separator(0, 1, [(9,)])


def test_node_in_its_own_separator_is_an_error() -> None:
    oracle = DSeparationOracle(COLLIDER)
    for members in ((0,), (1,), (0, 2)):
        with pytest.raises(GraphError, match="own separator"):
            oracle.first_separator(0, 1, [members])


def test_node_is_not_separated_from_itself() -> None:
    with pytest.raises(GraphError, match="same node 'a'"):
        DSeparationOracle(COLLIDER).first_separator(0, 0, [()])
