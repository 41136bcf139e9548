from __future__ import annotations

import copy
import dataclasses
import pickle
import sys
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pytest

from driftbn.datasets import asia, random_network
from driftbn.errors import GraphError, MissingExtraError, UnknownVariableError
from driftbn.graphs.network import BayesianNetwork

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


def test_equal_networks_are_equal_and_hash_alike() -> None:
    assert rain() == rain()
    assert hash(rain()) == hash(rain())
    assert rain() != rain(cpts=[rain().cpts[0], [[0.7, 0.3]], rain().cpts[2]])
    assert rain() != rain(states=[STATES, ("dry", "wet"), ["off", "half", "on"]])
    assert rain() != "rain"


def test_copies_are_equal() -> None:
    network = rain()
    assert copy.deepcopy(network) == network
    assert pickle.loads(pickle.dumps(network)) == network


@pytest.mark.parametrize("third", [0.333333, 0.3333333])
def test_short_digits_are_normalised(third: float) -> None:
    network = BayesianNetwork(["a"], [["x", "y", "z"]], [[]], [[[third] * 3]])
    assert network.cpts[0].sum() == pytest.approx(1, abs=1e-15)


def test_normalising_twice_changes_nothing() -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        row = np.round(rng.dirichlet([0.5] * 7, size=1), 7)
        once = BayesianNetwork(["a"], ["abcdefg"], [[]], [row])
        assert BayesianNetwork(["a"], ["abcdefg"], [[]], once.cpts) == once


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


def test_doubled_state_is_refused() -> None:
    with pytest.raises(GraphError, match="'rain' has the state 'no' twice"):
        rain(states=[STATES, ("no", "no"), ["off", "half", "on"]])


def test_node_without_states_is_refused() -> None:
    with pytest.raises(GraphError, match="'rain' has no states"):
        rain(states=[STATES, (), ["off", "half", "on"]])


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


class FakePgmpyModel:
    """Notes what a pgmpy model is given."""

    def __init__(self) -> None:
        self.nodes: list[str] = []
        self.edges: list[tuple[str, str]] = []
        self.cpds: dict[str, dict[str, Any]] = {}
        self.add_nodes_from = self.nodes.extend
        self.add_edges_from = self.edges.extend

    def add_cpds(self, cpd: dict[str, Any]) -> None:
        self.cpds[cpd["variable"]] = cpd


def test_pgmpy_tables_have_the_states_as_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    models = SimpleNamespace(DiscreteBayesianNetwork=FakePgmpyModel)
    monkeypatch.setitem(sys.modules, "pgmpy", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "pgmpy.models", models)
    monkeypatch.setitem(sys.modules, "pgmpy.factors", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "pgmpy.factors.discrete", SimpleNamespace(TabularCPD=dict))
    model = rain().to_pgmpy()
    assert model.nodes == ["wet", "rain", "tap"]
    assert model.edges == [("rain", "wet"), ("tap", "wet")]
    wet = model.cpds["wet"]
    assert wet["values"].tolist() == rain().cpt("wet").T.tolist()
    assert (wet["variable_card"], wet["evidence_card"]) == (2, [2, 3])
    assert wet["evidence"] == ["rain", "tap"]
    assert wet["state_names"]["tap"] == ["off", "half", "on"]


class FakePyagrumTable:
    """A table whose axes are its variables in reverse, as pyAgrum has them."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.array = np.empty(0)

    def __setitem__(self, _: slice, array: np.ndarray) -> None:
        assert array.flags.c_contiguous
        self.array = array


class FakePyagrumModel:
    """Notes what a pyAgrum network is given; parents stand in the order of the arcs."""

    def __init__(self) -> None:
        self.tables: dict[str, FakePyagrumTable] = {}

    def add(self, variable: tuple[str, str, list[str]]) -> None:
        self.tables[variable[0]] = FakePyagrumTable([variable[0]])

    def addArc(self, parent: str, child: str) -> None:  # noqa: N802
        self.tables[child].names.append(parent)

    def cpt(self, node: str) -> FakePyagrumTable:
        return self.tables[node]


@pytest.mark.parametrize("parents", [("rain", "tap"), ("tap", "rain")])
def test_pyagrum_tables_have_the_variables_as_axes(
    parents: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = SimpleNamespace(BayesNet=FakePyagrumModel, LabelizedVariable=lambda *parts: parts)
    monkeypatch.setitem(sys.modules, "pyagrum", fake)
    network = rain(parents=[parents, [], []])
    cards = [network.cards[network.index(parent)] for parent in parents]
    expected = network.cpt("wet").reshape(*cards, 2)
    table = network.to_pyagrum().cpt("wet")
    assert table.names == ["wet", "rain", "tap"]
    for wet, dry, tap in np.ndindex(2, 2, 3):
        states = {"rain": dry, "tap": tap}
        assert table.array[tap, dry, wet] == expected[(*(states[p] for p in parents), wet)]


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
