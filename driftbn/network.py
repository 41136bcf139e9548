"""Bayesian networks as values: structure, states and probability tables."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import networkx as nx
import numpy as np
import numpy.typing as npt

from driftbn.errors import GraphError, MissingExtraError, UnknownVariableError
from driftbn.graph import Dag, Pdag

FloatArray = npt.NDArray[np.float64]

MAX_CELLS = 10_000_000
"""Largest probability table that is read or fitted: 80 MB of float64."""

ROW_SUM_TOLERANCE = 1e-6
"""How far from 1 a row may sum, per state: six digits of 1/3 leave a row of three 1e-6 short."""

# Rows this close to 1 are left alone, so that normalising twice is the same as once: text written
# from a network reads back as the very same numbers.
_ALREADY_NORMALISED = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class BayesianNetwork:
    """A discrete Bayesian network.

    Two networks are equal if nodes, states, parents and tables are, all in the same order.

    Parameters
    ----------
    nodes
        Names of the variables; their order is kept.
    states
        For each node the names of its states.
    parents
        For each node the names of its parents; their order sets the order of the table's rows.
    cpts
        For each node the probabilities, ``[parent configurations, states]``. Configurations are
        counted in mixed radix with the first parent as the most significant digit. Rows must sum
        to 1 within 1e-6 per state and are normalised; the arrays are copied and made read-only.

    Raises
    ------
    GraphError
        If names stand twice, the fields differ in length, the parents form a cycle, or a table
        has the wrong shape, negative or non-finite entries or rows that do not sum to 1.
    UnknownVariableError
        If a parent is not a node.

    Examples
    --------
    >>> network = BayesianNetwork(
    ...     nodes=["rain", "wet"],
    ...     states=[["no", "yes"], ["no", "yes"]],
    ...     parents=[[], ["rain"]],
    ...     cpts=[[[0.8, 0.2]], [[0.9, 0.1], [0.2, 0.8]]],
    ... )
    >>> network
    <BayesianNetwork: 2 nodes, 1 arcs>
    >>> network.dag.edges
    (('rain', 'wet'),)
    >>> float(network.cpt("wet")[1, 0])
    0.2
    """

    nodes: tuple[str, ...]
    states: tuple[tuple[str, ...], ...]
    parents: tuple[tuple[str, ...], ...]
    cpts: tuple[FloatArray, ...]

    def __init__(
        self,
        nodes: Iterable[str],
        states: Iterable[Iterable[str]],
        parents: Iterable[Iterable[str]],
        cpts: Iterable[npt.ArrayLike],
    ) -> None:
        tables = tuple(cpts)
        object.__setattr__(self, "nodes", tuple(nodes))
        object.__setattr__(self, "states", tuple(tuple(names) for names in states))
        object.__setattr__(self, "parents", tuple(tuple(names) for names in parents))
        for field, values in (
            ("states", self.states),
            ("parents", self.parents),
            ("cpts", tables),
        ):
            if len(values) != len(self.nodes):
                raise GraphError(f"{field} has {len(values)} entries for {len(self.nodes)} nodes")
        _ = self.dag  # refuses doubled nodes, unknown parents, loops and cycles
        for node, names in zip(self.nodes, self.states, strict=True):
            _check_states(node, names)
        checked = (
            checked_cpt(node, table, (self.n_configurations(node), len(names)))
            for node, names, table in zip(self.nodes, self.states, tables, strict=True)
        )
        object.__setattr__(self, "cpts", tuple(checked))

    @cached_property
    def dag(self) -> Dag:
        """The structure alone, with nodes sorted by name."""
        arcs = (
            (parent, node)
            for node, parents in zip(self.nodes, self.parents, strict=True)
            for parent in parents
        )
        return Dag(self.nodes, arcs)

    @cached_property
    def cards(self) -> tuple[int, ...]:
        """Number of states of each node."""
        return tuple(len(names) for names in self.states)

    @cached_property
    def _position(self) -> dict[str, int]:
        return {node: i for i, node in enumerate(self.nodes)}

    def index(self, node: str) -> int:
        """Return the position of ``node`` in ``nodes``."""
        if node not in self._position:
            raise UnknownVariableError(node, self.nodes)
        return self._position[node]

    def cpt(self, node: str) -> FloatArray:
        """Return the table of ``node``, ``[parent configurations, states]``."""
        return self.cpts[self.index(node)]

    def n_configurations(self, node: str) -> int:
        """Return how many combinations of states the parents of ``node`` have."""
        return math.prod(self.cards[self.index(p)] for p in self.parents[self.index(node)])

    def cpdag(self) -> Pdag:
        """Return what data alone could tell of the structure; see `Dag.cpdag`."""
        return self.dag.cpdag()

    def to_networkx(self) -> nx.DiGraph:
        """Return a networkx graph whose nodes have ``states``, ``parents`` and ``cpt``."""
        graph = self.dag.to_networkx()
        for i, node in enumerate(self.nodes):
            graph.nodes[node].update(
                states=self.states[i], parents=self.parents[i], cpt=self.cpts[i]
            )
        return graph

    def to_pgmpy(self) -> Any:
        """Return a pgmpy ``DiscreteBayesianNetwork``, ready for its inference classes.

        Raises
        ------
        MissingExtraError
            If pgmpy is not installed.
        """
        models = _imported("pgmpy.models", "BayesianNetwork.to_pgmpy", "pgmpy")
        factors = _imported("pgmpy.factors.discrete", "BayesianNetwork.to_pgmpy", "pgmpy")
        model = models.DiscreteBayesianNetwork()
        model.add_nodes_from(self.nodes)
        model.add_edges_from(self.dag.edges)
        for node in self.nodes:
            model.add_cpds(self._pgmpy_cpd(factors, node))
        return model

    def _pgmpy_cpd(self, factors: Any, node: str) -> Any:
        i = self.index(node)
        family = (node, *self.parents[i])
        return factors.TabularCPD(
            variable=node,
            variable_card=self.cards[i],
            values=self.cpts[i].T,
            evidence=list(self.parents[i]),
            evidence_card=[self.cards[self.index(parent)] for parent in self.parents[i]],
            state_names={name: list(self.states[self.index(name)]) for name in family},
        )

    def to_pyagrum(self) -> Any:
        """Return a pyAgrum ``BayesNet``, ready for its inference engines.

        Raises
        ------
        MissingExtraError
            If pyAgrum is not installed.
        """
        gum = _imported("pyagrum", "BayesianNetwork.to_pyagrum", "pyagrum")
        model = gum.BayesNet()
        for node, names in zip(self.nodes, self.states, strict=True):
            model.add(gum.LabelizedVariable(node, node, list(names)))
        for parent, child in self.dag.edges:
            model.addArc(parent, child)
        for i, node in enumerate(self.nodes):
            family = (*self.parents[i], node)
            shape = [self.cards[self.index(name)] for name in family]
            # pyAgrum's arrays have the table's variables as axes in reverse order.
            axes = [family.index(name) for name in reversed(model.cpt(node).names)]
            table = self.cpts[i].reshape(shape).transpose(axes)
            model.cpt(node)[:] = np.ascontiguousarray(table)
        return model

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BayesianNetwork):
            return NotImplemented
        return (self.nodes, self.states, self.parents) == (
            other.nodes,
            other.states,
            other.parents,
        ) and all(np.array_equal(a, b) for a, b in zip(self.cpts, other.cpts, strict=True))

    def __hash__(self) -> int:
        return hash((self.nodes, self.states, self.parents))

    def __repr__(self) -> str:
        return f"<BayesianNetwork: {len(self.nodes)} nodes, {len(self.dag.edges)} arcs>"


def checked_cpt(node: str, table: npt.ArrayLike, shape: tuple[int, int]) -> FloatArray:
    """Return a read-only, normalised copy of a probability table.

    Raises
    ------
    GraphError
        If the table has not this shape, or a row is not a distribution.

    Examples
    --------
    >>> checked_cpt("a", [[0.5000001, 0.5]], (1, 2)).sum()
    np.float64(1.0)
    """
    try:
        cpt = np.array(table, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise GraphError(f"the table of {node!r} is no array of numbers: {error}") from error
    if cpt.shape != shape:
        raise GraphError(f"the table of {node!r} has shape {cpt.shape}; it must be {shape}")
    with np.errstate(invalid="ignore"):
        sums = cpt.sum(axis=1)
        off = ~(abs(sums - 1) <= ROW_SUM_TOLERANCE * shape[1])
    bad = off | ~(np.isfinite(cpt) & (cpt >= 0)).all(axis=1)
    if bad.any():
        row = int(bad.argmax())
        raise GraphError(
            f"row {row} of the table of {node!r} is {_shown(cpt[row])}; it must be"
            " non-negative and sum to 1"
        )
    loose = abs(sums - 1) > _ALREADY_NORMALISED
    cpt[loose] /= sums[loose, np.newaxis]
    cpt.setflags(write=False)
    return cpt


def _check_states(node: str, names: Sequence[str]) -> None:
    if not names:
        raise GraphError(f"node {node!r} has no states; it must have at least one")
    if len(set(names)) != len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise GraphError(f"node {node!r} has the state {twice!r} twice")


def _shown(row: FloatArray) -> str:
    """Write a row for a message, shortened if it is long."""
    shown = ", ".join(f"{value:g}" for value in row[:8])
    return f"[{shown}{', ...' if len(row) > 8 else ''}] (sum {row.sum():g})"


def _imported(module: str, feature: str, extra: str) -> Any:
    """Import a package that is no dependency, when it is first asked for."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(feature, extra) from error
