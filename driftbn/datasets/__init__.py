"""Networks with known truth, rows drawn from them, and exactly known changes."""

from __future__ import annotations

import importlib
import json
import lzma
import math
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from driftbn.datasets.changes import (
    Change,
    add_edge,
    change_root_marginal,
    change_table,
    remove_edge,
    reverse_edge,
)
from driftbn.errors import ConfigError, DataError
from driftbn.graphs.files import read_bif
from driftbn.graphs.graph import Dag
from driftbn.graphs.network import MAX_CELLS, BayesianNetwork, FloatArray

if TYPE_CHECKING:
    import pandas as pd


__all__ = [
    "Change",
    "add_edge",
    "alarm",
    "asia",
    "change_root_marginal",
    "change_table",
    "load",
    "random_dag",
    "random_network",
    "remove_edge",
    "reverse_edge",
    "sample",
    "sample_codes",
]


# Networks to draw from, the bundled ones and random ones, and forward sampling from them.

_GENERATED_FILE = "generated.json.xz"
_GENERATED = ("100_130", "100_200", "100_300", "100_400", "200_250")
NAMES = ("alarm", "asia", *_GENERATED)
"""What `load` knows."""


@cache
def load(name: str) -> BayesianNetwork:
    """Return a bundled network by name.

    ``name``: ``"asia"`` (8 nodes, Lauritzen and Spiegelhalter 1988), ``"alarm"`` (37 nodes,
    Beinlich and others 1989), or nodes and arcs of a binary network that Weka 3.9.7 generated:
    ``"100_130"``, ``"100_200"``, ``"100_300"``, ``"100_400"``, ``"200_250"``.

    Raises ConfigError if there is no such network.

    >>> load("asia")
    <BayesianNetwork: 8 nodes, 8 arcs>
    """
    if name not in NAMES:
        raise ConfigError("name", name, f"one of {', '.join(NAMES)}")
    folder = resources.files("driftbn.datasets")
    if name in _GENERATED:
        return _generated(
            **json.loads(lzma.decompress((folder / _GENERATED_FILE).read_bytes()))[name]
        )
    return read_bif((folder / f"{name}.bif").read_text("utf-8"))


def _generated(parents: list[list[int]], chances: list[list[int]]) -> BayesianNetwork:
    """Return a network of Weka's: a chance k of the first state stands for (k + 1/2) / 1001."""
    nodes = [f"Node{i + 1}" for i in range(len(parents))]
    tables = [[[(k + 0.5) / 1001, (1000.5 - k) / 1001] for k in column] for column in chances]
    named = [[nodes[i] for i in listed] for listed in parents]
    return BayesianNetwork(nodes, [["Value1", "Value2"]] * len(nodes), named, tables)


def asia() -> BayesianNetwork:
    """Return the Asia network: 8 binary nodes, 8 arcs.

    >>> asia().dag.parents("dysp")
    ('bronc', 'either')
    """
    return load("asia")


def alarm() -> BayesianNetwork:
    """Return the Alarm network: 37 nodes with 2 to 4 states, 46 arcs.

    >>> alarm()
    <BayesianNetwork: 37 nodes, 46 arcs>
    """
    return load("alarm")


# Random networks whose arcs can be seen in data.

_ROOT_CONCENTRATION = 5.0  # roots with every state common: a parent that never varies shows nothing
_CANDIDATES = 8  # draws per table, of which the one with the clearest arcs is kept


def random_dag(
    n_nodes: int, n_arcs: int, *, max_parents: int | None = None, seed: int | np.random.Generator
) -> Dag:
    """Draw a directed acyclic graph with a given number of arcs.

    The order of the nodes is a random permutation; the arcs are drawn without replacement among
    the pairs that follow it, passing over children that already have ``max_parents``.

    ``n_nodes``, ``n_arcs``: size of the graph. Nodes are called ``x0``, ``x1``, … with leading
    zeros, so that they sort by number. ``max_parents``: most parents that a node may have; without
    a bound if ``None``. ``seed``: a number, for the same graph every time, or a generator.

    Raises ConfigError if a number is negative or so many arcs do not fit.

    >>> dag = random_dag(20, 30, max_parents=3, seed=1)
    >>> len(dag.nodes), len(dag.edges)
    (20, 30)
    >>> max(len(dag.parents(node)) for node in dag.nodes) <= 3
    True
    """
    if n_nodes < 0:
        raise ConfigError("n_nodes", n_nodes, "0 or more")
    if max_parents is not None and max_parents < 0:
        raise ConfigError("max_parents", max_parents, "0 or more, or None")
    bound = n_nodes if max_parents is None else max_parents
    room = sum(min(position, bound) for position in range(n_nodes))
    if not 0 <= n_arcs <= room:
        raise ConfigError("n_arcs", n_arcs, f"from 0 to {room} for {n_nodes} nodes")
    rng = np.random.default_rng(seed)
    width = len(str(max(n_nodes - 1, 0)))
    names = [f"x{i:0{width}d}" for i in rng.permutation(n_nodes)]
    first, second = np.triu_indices(n_nodes, k=1)
    n_parents = [0] * n_nodes
    arcs: list[tuple[str, str]] = []
    for pair in rng.permutation(len(first)):
        if len(arcs) == n_arcs:
            break
        if n_parents[second[pair]] < bound:
            n_parents[second[pair]] += 1
            arcs.append((names[first[pair]], names[second[pair]]))
    return Dag(names, arcs)


def random_network(  # noqa: PLR0913 - options of one drawing, all with defaults
    n_nodes: int,
    n_arcs: int,
    *,
    cardinality: int | tuple[int, int] = 2,
    max_parents: int | None = 4,
    strength: float = 2.0,
    seed: int | np.random.Generator = 0,
) -> BayesianNetwork:
    """Draw a network: a random graph with random probabilities.

    Each row of a table is drawn from a symmetric Dirichlet distribution. Of eight tables the one
    is kept in which the weakest parent moves the child the most, so that arcs can be seen in data.

    ``cardinality``: number of states, or its smallest and largest value. States are called ``s0``,
    ``s1``, … ``strength``: the Dirichlet concentration is ``1 / strength``: below 1 the rows are
    alike and arcs weak, at 1 all distributions are equally likely, above 1 they are sharp and arcs
    strong. Nodes without parents are drawn with a concentration of 5. ``seed``: a number, for the
    same network every time, or a generator.

    Raises ConfigError if a number is out of range, or a table would have more than ten million
    cells.

    >>> network = random_network(10, 12, cardinality=(2, 4), seed=7)
    >>> network
    <BayesianNetwork: 10 nodes, 12 arcs>
    >>> network == random_network(10, 12, cardinality=(2, 4), seed=7)
    True
    """
    low, high = (cardinality, cardinality) if isinstance(cardinality, int) else cardinality
    if not 2 <= low <= high:
        raise ConfigError("cardinality", cardinality, "2 or more, the smaller bound first")
    if not (strength > 0 and math.isfinite(strength)):
        raise ConfigError("strength", strength, "a positive number")
    rng = np.random.default_rng(seed)
    dag = random_dag(n_nodes, n_arcs, max_parents=max_parents, seed=rng)
    cards = {node: int(rng.integers(low, high + 1)) for node in dag.nodes}
    shapes = [[*(cards[parent] for parent in dag.parents(n)), cards[n]] for n in dag.nodes]
    if max(map(math.prod, shapes), default=0) > MAX_CELLS:
        raise ConfigError("max_parents", max_parents, f"such that tables have <= {MAX_CELLS} cells")
    tables = [_drawn_table(shape, strength, rng) for shape in shapes]
    states = [[f"s{i}" for i in range(cards[node])] for node in dag.nodes]
    return BayesianNetwork(dag.nodes, states, [dag.parents(node) for node in dag.nodes], tables)


def _drawn_table(shape: list[int], strength: float, rng: np.random.Generator) -> FloatArray:
    """Draw one table ``[configurations, states]``; ``shape`` is that of parents and child."""
    *parent_cards, card = shape
    if not parent_cards:
        return rng.dirichlet([_ROOT_CONCENTRATION] * card, size=1)
    n_rows = math.prod(parent_cards)
    draws = [rng.dirichlet([1 / strength] * card, size=n_rows) for _ in range(_CANDIDATES)]
    return max(draws, key=lambda table: _weakest_effect(table.reshape(shape)))


def _weakest_effect(table: FloatArray) -> float:
    """Return the smallest mean total variation that any one parent causes."""
    effects = []
    for axis in range(table.ndim - 1):
        spread = abs(table - table.mean(axis=axis, keepdims=True)).sum(axis=-1)
        effects.append(float(spread.mean()))
    return min(effects)


MAX_STATES = 256
"""Codes are single bytes."""


def sample(network: BayesianNetwork, n_rows: int, seed: int | np.random.Generator) -> pd.DataFrame:
    """Draw independent rows as a table of categorical columns.

    There is one column per node in the order of ``network.nodes``; the categories are the node's
    states in their order, also those that were not drawn.

    ``seed``: a number, for the same rows every time, or a generator, to go on drawing from it.

    Raises ConfigError if ``n_rows`` is negative. Raises DataError if a node has more than 256
    states.

    >>> from driftbn.datasets import asia
    >>> table = sample(asia(), 1000, seed=1)
    >>> table.shape
    (1000, 8)
    >>> list(table["smoke"].cat.categories)
    ['yes', 'no']
    """
    return labelled(network, sample_codes(network, n_rows, np.random.default_rng(seed)))


def labelled(network: BayesianNetwork, codes: npt.NDArray[np.uint8]) -> pd.DataFrame:
    """Return state numbers ``[variables, rows]`` as a table of categorical columns."""
    pandas = importlib.import_module("pandas")
    columns = {
        node: pandas.Categorical.from_codes(row.astype(np.int16), categories=list(names))
        for node, names, row in zip(network.nodes, network.states, codes, strict=True)
    }
    frame: pd.DataFrame = pandas.DataFrame(columns, index=range(codes.shape[1]))
    return frame


def sample_codes(
    network: BayesianNetwork, n_rows: int, rng: np.random.Generator
) -> npt.NDArray[np.uint8]:
    """Draw independent rows as state numbers.

    Nodes are drawn parents first, ties by name, so the numbers drawn for a node do not depend on
    the order of ``network.nodes``.

    Returns ``[variables, rows]``, the variables in the order of ``network.nodes``.

    ``rng``: source of randomness; it is advanced by ``n_rows`` uniform numbers per node.

    Raises ConfigError if ``n_rows`` is negative. Raises DataError if a node has more than 256
    states.

    >>> from driftbn.datasets import asia
    >>> sample_codes(asia(), 1000, np.random.default_rng(1)).shape
    (8, 1000)
    """
    if n_rows < 0:
        raise ConfigError("n_rows", n_rows, "0 or more")
    for node, card in zip(network.nodes, network.cards, strict=True):
        if card > MAX_STATES:
            raise DataError(f"{card} states; at most {MAX_STATES} can be coded", column=node)
    codes = np.zeros((len(network.nodes), n_rows), dtype=np.uint8)
    for node in network.dag.topological_order():
        i = network.index(node)
        configuration = configurations(network, codes, i)
        codes[i] = drawn(network.cpts[i], configuration, rng.random(n_rows))
    return codes


def configurations(
    network: BayesianNetwork, codes: npt.NDArray[np.uint8], child: int
) -> npt.NDArray[np.int64]:
    """Return for each row the number of the table row that applies to ``child``."""
    number = np.zeros(codes.shape[1], dtype=np.int64)
    for parent in map(network.index, network.parents[child]):
        number *= network.cards[parent]
        number += codes[parent]
    return number


def drawn(
    cpt: FloatArray, configuration: npt.NDArray[np.int64], uniform: FloatArray
) -> npt.NDArray[np.uint8]:
    """Invert the cumulative distribution of each row's configuration."""
    upper = np.cumsum(cpt, axis=1)
    # From the last possible state on the bound is exactly 1, which a uniform number never reaches:
    # a state of probability 0 is never drawn.
    upper /= upper[:, -1:]
    drawn = np.zeros(len(uniform), dtype=np.uint8)
    for state in range(cpt.shape[1] - 1):
        drawn += uniform >= upper[configuration, state]
    return drawn
