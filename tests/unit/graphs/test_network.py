from __future__ import annotations

import dataclasses
import sys
from typing import Any

import networkx as nx
import numpy as np
import pytest

from driftbn.datasets import asia, random_network
from driftbn.errors import GraphError, MissingExtraError, UnknownVariableError
from tests.networks import BayesianNetwork

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


@pytest.mark.parametrize("field", ["states", "parents", "cpts"])
def test_fields_of_other_length_are_refused(field: str) -> None:
    with pytest.raises(GraphError, match=f"{field} has 2 entries for 3 nodes"):
        rain(**{field: getattr(rain(), field)[:2]})


def test_doubled_node_is_refused() -> None:
    with pytest.raises(GraphError, match="'rain' is named twice"):
        rain(nodes=["wet", "rain", "rain"])


def test_unknown_and_doubled_parents_are_refused() -> None:
    with pytest.raises(UnknownVariableError):
        rain(parents=[["rain", "snow"], [], []])
    with pytest.raises(GraphError, match="two edges"):
        rain(parents=[["rain", "rain"], [], []])


def test_cycle_is_refused() -> None:
    table = [[0.5, 0.5]] * 2
    with pytest.raises(GraphError, match="cycle"):
        BayesianNetwork("abc", [STATES] * 3, [["b"], ["c"], ["a"]], [table] * 3)


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
