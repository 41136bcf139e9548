from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbn import Dag
from driftbn.datasets import random_dag
from driftbn.errors import ConfigError, GraphError
from driftbn.testing import DSeparationOracle
from tests import reference
from tests.networks import load

COLLIDER = Dag("abcd", [("a", "c"), ("b", "c"), ("c", "d")])


@pytest.mark.slow
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


def test_node_in_its_own_separator_is_an_error() -> None:
    oracle = DSeparationOracle(COLLIDER)
    for members in ((0,), (1,), (0, 2)):
        with pytest.raises(GraphError, match="own separator"):
            oracle.first_separator(0, 1, [members])
