from __future__ import annotations

import dataclasses
import math
import sys
from itertools import combinations, product
from typing import Any

import networkx as nx
import numpy as np
import pytest

from driftbn import Dag
from driftbn.datasets import asia, random_network, sample_codes
from driftbn.errors import (
    ConfigError,
    DataError,
    GraphError,
    MissingExtraError,
    UnknownVariableError,
)
from tests.changed_networks import EXACT, SEEDS, marginal, small
from tests.networks import BayesianNetwork, fit_parameters, joint, load

STATES = ("no", "yes")


def rain(**changes: Any) -> BayesianNetwork:
    fields: dict[str, Any] = {
        "nodes": ["wet", "rain", "tap"],
        "states": [STATES, STATES, ["off", "half", "on"]],
        "parents": [["rain", "tap"], [], []],
        "cpts": [
            [[1.0, 0.0], [0.6, 0.4], [0.1, 0.9], [0.3, 0.7], [0.2, 0.8], [0.0, 1.0]],
            [[0.8, 0.2]],
            [[0.5, 0.3, 0.2]],
        ],
    }
    return BayesianNetwork(**(fields | changes))


def test_nodes_and_parents_keep_their_order() -> None:
    network = rain()
    assert network.nodes == ("wet", "rain", "tap")
    assert network.parents[0] == ("rain", "tap")
    assert network.cards == (2, 2, 3)
    assert network.dag.nodes == ("rain", "tap", "wet")
    assert network.dag.edges == (("rain", "wet"), ("tap", "wet"))


def test_first_parent_is_the_most_significant_digit() -> None:
    assert rain().cpt("wet")[1 * 3 + 0].tolist() == [0.3, 0.7]
    assert rain().n_configurations("wet") == 6
    assert rain().n_configurations("tap") == 1


def test_tables_are_copies_and_read_only() -> None:
    given = np.array([[0.8, 0.2]])
    network = BayesianNetwork(["rain"], [STATES], [[]], [given])
    given[0] = 0.5
    assert network.cpt("rain").tolist() == [[0.8, 0.2]]
    with pytest.raises(ValueError, match="read-only"):
        network.cpt("rain")[0, 0] = 0.1
    with pytest.raises(dataclasses.FrozenInstanceError):
        network.nodes = ()  # type: ignore[misc]


@pytest.mark.parametrize("third", [0.333333, 0.3333333])
def test_short_digits_are_normalised(third: float) -> None:
    network = BayesianNetwork(["a"], [["x", "y", "z"]], [[]], [[[third] * 3]])
    assert network.cpts[0].sum() == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ([[0.5, 0.4]], r"row 0 of the table of 'rain' is \[0.5, 0.4\] \(sum 0.9\)"),
        ([[1.5, -0.5]], "must be non-negative"),
        ([[float("nan"), 1.0]], "row 0"),
        ([[float("inf"), 0.0]], "row 0"),
        ([0.5, 0.5], r"shape \(2,\); it must be \(1, 2\)"),
        ([[0.5, 0.5], [0.5, 0.5]], r"shape \(2, 2\)"),
        ([["x", "y"]], "no array of numbers"),
        ([[0.5, 0.5], [1.0]], "no array of numbers"),
    ],
)
def test_bad_table_is_refused(table: Any, problem: str) -> None:
    with pytest.raises(GraphError, match=problem):
        rain(cpts=[rain().cpts[0], table, rain().cpts[2]])


@pytest.mark.parametrize(
    ("changes", "error", "problem"),
    [
        *(
            ({field: getattr(rain(), field)[:2]}, GraphError, f"{field} has 2 entries for 3 nodes")
            for field in ("states", "parents", "cpts")
        ),
        ({"nodes": ["wet", "rain", "rain"]}, GraphError, "'rain' is named twice"),
        ({"parents": [["rain", "snow"], [], []]}, UnknownVariableError, "snow"),
        ({"parents": [["rain", "rain"], [], []]}, GraphError, "two edges"),
        ({"parents": [["rain"], ["tap"], ["wet"]]}, GraphError, "cycle"),
    ],
)
def test_unsound_network_is_refused(changes, error, problem) -> None:
    with pytest.raises(error, match=problem):
        rain(**changes)


def test_unknown_node_is_an_error() -> None:
    for ask in (rain().cpt, rain().index, rain().n_configurations):
        with pytest.raises(UnknownVariableError, match="snow"):
            ask("snow")


def test_networkx_graph_carries_states_and_tables() -> None:
    graph = rain().to_networkx()
    assert nx.is_directed_acyclic_graph(graph)
    assert set(graph.edges) == set(rain().dag.edges)
    assert graph.nodes["tap"]["states"] == ("off", "half", "on")
    assert graph.nodes["wet"]["parents"] == ("rain", "tap")
    assert np.array_equal(graph.nodes["wet"]["cpt"], rain().cpt("wet"))


@pytest.mark.parametrize(
    ("module", "method"), [("pgmpy.models", "to_pgmpy"), ("pyagrum", "to_pyagrum")]
)
def test_missing_package_is_named(
    module: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=f"BayesianNetwork.{method} needs the extra"):
        getattr(asia(), method)()


@pytest.mark.filterwarnings("ignore")
def test_pgmpy_model_has_the_same_probabilities() -> None:
    pytest.importorskip("pgmpy")
    network = rain()
    model = network.to_pgmpy()
    assert model.check_model()
    cpd = model.get_cpds("wet")
    assert cpd.get_value(wet="yes", rain="yes", tap="off") == pytest.approx(0.7)
    assert cpd.get_value(wet="yes", rain="no", tap="on") == pytest.approx(0.9)


@pytest.mark.parametrize("seed", range(3))
def test_pyagrum_model_has_the_same_probabilities(seed: int) -> None:
    pytest.importorskip("pyagrum")
    network = random_network(6, 9, cardinality=(2, 4), seed=seed)
    model = network.to_pyagrum()
    for node, parents in zip(network.nodes, network.parents, strict=True):
        for row, expected in enumerate(network.cpt(node)):
            states: dict[str, int] = {}
            rest = row
            for parent in reversed(parents):
                rest, states[parent] = divmod(rest, network.cards[network.index(parent)])
            table = model.cpt(node)
            found = table[states] if states else table[:]
            assert found == pytest.approx(expected)


# Fitting tables.

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
    fit_parameters(CHAIN, codes, "ab", [STATES] * 2)
    monkeypatch.setattr("driftbn.graphs.network.MAX_CELLS", 3)
    with pytest.raises(DataError, match="4 cells; at most 3"):
        fit_parameters(CHAIN, codes, "ab", [STATES] * 2)


@pytest.mark.parametrize("size", [0.0, -2.0, math.inf, math.nan])
def test_sample_size_must_be_positive(size: float) -> None:
    codes = np.zeros((2, 3), dtype=np.uint8)
    with pytest.raises(ConfigError, match="a positive number") as caught:
        fit_parameters(CHAIN, codes, "ab", [STATES] * 2, size)
    assert caught.value.field == "equivalent_sample_size"


# Exact inference.


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_joint_is_that_of_the_full_table(seed: int) -> None:
    network = small(seed)
    for size in (1, 2, 3):
        for names in combinations(network.nodes, size):
            np.testing.assert_allclose(joint(network, names), marginal(network, names), atol=EXACT)


LARGE = ("asia", "alarm", "insurance", "hailfinder", "win95pts", "100_130", "200_250")


@pytest.mark.parametrize("name", LARGE)
def test_joint_of_every_family_of_large_networks_can_be_had(name: str) -> None:
    network = load(name)
    for i, node in enumerate(network.nodes):
        family = (*network.parents[i], node)
        cards = [network.cards[network.index(name)] for name in family]
        above = joint(network, family[:-1])[..., np.newaxis]
        expected = above * network.cpt(node).reshape(cards)
        np.testing.assert_allclose(joint(network, family), expected, atol=EXACT)


@pytest.mark.parametrize(
    ("names", "error", "problem"),
    [
        (("lung", "lung"), GraphError, "twice"),
        (("nobody",), UnknownVariableError, "nobody"),
    ],
)
def test_joint_of_what_is_no_set_of_nodes_is_refused(names, error, problem) -> None:
    with pytest.raises(error, match=problem):
        joint(asia(), names)


def test_joint_that_does_not_fit_is_refused() -> None:
    roots = [f"x{i}" for i in range(25)]
    network = BayesianNetwork(roots, [STATES] * 25, [()] * 25, [[[0.5, 0.5]]] * 25)
    with pytest.raises(GraphError, match="33554432 cells"):
        joint(network, roots)
