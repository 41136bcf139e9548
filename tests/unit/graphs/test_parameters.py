from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from driftbn import Dag
from driftbn.datasets import asia, random_network, sample_codes
from driftbn.errors import ConfigError, DataError
from tests.networks import BayesianNetwork, fit_parameters

STATES = (("no", "yes"), ("no", "yes"))
CHAIN = Dag("ab", [("a", "b")])


def fitted(network: BayesianNetwork, n_rows: int, prior: float | None) -> BayesianNetwork:
    codes = sample_codes(network, n_rows, np.random.default_rng(2))
    return fit_parameters(network.dag, codes, network.nodes, network.states, prior)


@pytest.mark.parametrize("prior", [None, 3.0])
def test_tables_agree_with_counting_by_hand(prior: float | None) -> None:
    network = random_network(5, 6, cardinality=(2, 3), seed=4)
    codes = sample_codes(network, 40, np.random.default_rng(2))
    found = fit_parameters(network.dag, codes, network.nodes, network.states, prior)
    for i, node in enumerate(network.nodes):
        parents = [network.index(parent) for parent in network.dag.parents(node)]
        choices = product(*(range(network.cards[p]) for p in parents))
        for row, choice in enumerate(choices):
            here = np.all([codes[p] == s for p, s in zip(parents, choice, strict=True)], axis=0)
            counts = [np.sum(here & (codes[i] == s)) for s in range(network.cards[i])]
            cells = [count + (prior or 0.0) / found.cpt(node).size for count in counts]
            expected = [c / sum(cells) if sum(cells) else 1 / len(cells) for c in cells]
            assert found.cpt(node)[row] == pytest.approx(expected)


def test_states_without_rows_keep_their_place() -> None:
    codes = np.array([[2, 2, 0]], dtype=np.uint8)
    found = fit_parameters(Dag("a"), codes, "a", [("x", "y", "z", "w")])
    assert found.states == (("x", "y", "z", "w"),)
    assert found.cpts[0].tolist() == [[pytest.approx(1 / 3), 0, pytest.approx(2 / 3), 0]]


@pytest.mark.parametrize("prior", [None, 1.0])
def test_no_rows_give_uniform_tables(prior: float | None) -> None:
    found = fitted(asia(), 0, prior)
    assert all(np.all(cpt == 0.5) for cpt in found.cpts)


def test_too_large_a_table_is_refused() -> None:
    names = [f"p{i:02d}" for i in range(40)]
    dag = Dag([*names, "x"], [(name, "x") for name in names])
    codes = np.zeros((41, 5), dtype=np.uint8)
    with pytest.raises(DataError, match=f"'x': 40 parents make a table of {2**41} cells") as caught:
        fit_parameters(dag, codes, [*names, "x"], [("no", "yes")] * 41)
    assert caught.value.column == "x"


def test_table_of_the_largest_size_is_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = np.zeros((2, 5), dtype=np.uint8)
    monkeypatch.setattr("driftbn.graphs.network.MAX_CELLS", 4)
    fit_parameters(CHAIN, codes, "ab", STATES)
    monkeypatch.setattr("driftbn.graphs.network.MAX_CELLS", 3)
    with pytest.raises(DataError, match="4 cells; at most 3"):
        fit_parameters(CHAIN, codes, "ab", STATES)


@pytest.mark.parametrize("size", [0.0, -2.0, math.inf, math.nan])
def test_sample_size_must_be_positive(size: float) -> None:
    codes = np.zeros((2, 3), dtype=np.uint8)
    with pytest.raises(ConfigError, match="a positive number") as caught:
        fit_parameters(CHAIN, codes, "ab", STATES, size)
    assert caught.value.field == "equivalent_sample_size"
