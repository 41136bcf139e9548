"""Bayesian networks as values: their tables, fitting them to data, and exact inference."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftbn.errors import (
    ConfigError,
    DataError,
    GraphError,
    MissingExtraError,
    UnknownVariableError,
)
from driftbn.graphs.graph import Dag, Pdag

if TYPE_CHECKING:
    import networkx as nx

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

    ``nodes``: names of the variables; their order is kept. ``parents``: for each node the names of
    its parents; their order sets the order of the table's rows. ``cpts``: for each node the
    probabilities, ``[parent configurations, states]``. Configurations are counted in mixed radix
    with the first parent as the most significant digit. Rows must sum to 1 within 1e-6 per state
    and are normalised; the arrays are copied and made read-only.

    Raises GraphError if names stand twice, the fields differ in length, the parents form a cycle,
    or a table has the wrong shape, negative or non-finite entries or rows that do not sum to 1.
    Raises UnknownVariableError if a parent is not a node.

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
        return tuple(len(names) for names in self.states)

    @cached_property
    def _position(self) -> dict[str, int]:
        return {node: i for i, node in enumerate(self.nodes)}

    def index(self, node: str) -> int:
        if node not in self._position:
            raise UnknownVariableError(node, self.nodes)
        return self._position[node]

    def cpt(self, node: str) -> FloatArray:
        """Return the table of ``node``, ``[parent configurations, states]``."""
        return self.cpts[self.index(node)]

    def n_configurations(self, node: str) -> int:
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

        Raises MissingExtraError if pgmpy is not installed.
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

        Raises MissingExtraError if pyAgrum is not installed.
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

    def query(self, node: str, given: Mapping[str, str] | None = None) -> dict[str, float]:
        """Return how likely each state of a node is, where others are known.

        From causes it is a prognosis, from effects a diagnosis. pyAgrum infers it, or pgmpy.

        Raises MissingExtraError if neither is installed. Raises GraphError if a node has no such
        state, the node asked for is given, or what is given cannot be.
        """
        states, given = self.states[self.index(node)], given or {}
        for name, state in given.items():
            allowed = self.states[self.index(name)]
            if name == node:
                raise GraphError(f"{name!r} is asked for; it cannot be given too")
            if state not in allowed:
                listed = ", ".join(map(repr, allowed))
                raise GraphError(f"{name!r} is given as {state!r}; it must be one of {listed}")
        infer = self._by_pyagrum if find_spec("pyagrum") else self._by_pgmpy
        chances = infer(node, given)
        if not np.isfinite(chances).all():
            raise GraphError(f"{dict(given)} has probability 0 in this network")
        return dict(zip(states, chances.tolist(), strict=True))

    def _by_pyagrum(self, node: str, given: Mapping[str, str]) -> FloatArray:
        gum = _imported("pyagrum", "BayesianNetwork.query", "pyagrum")
        engine = gum.LazyPropagation(self.to_pyagrum())
        engine.setEvidence(dict(given))
        engine.addTarget(node)
        try:
            engine.makeInference()
            return np.array(engine.posterior(node).tolist())
        except gum.IncompatibleEvidence:
            return np.array([math.nan])

    def _by_pgmpy(self, node: str, given: Mapping[str, str]) -> FloatArray:
        inference = _imported("pgmpy.inference", "BayesianNetwork.query", "pyagrum")
        engine = inference.VariableElimination(self.to_pgmpy())
        with np.errstate(invalid="ignore"):
            found = engine.query([node], evidence=dict(given), show_progress=False)
        return np.array(
            [found.get_value(**{node: state}) for state in self.states[self.index(node)]]
        )

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

    Raises GraphError if the table has not this shape, or a row is not a distribution.

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
    shown = ", ".join(f"{value:g}" for value in row[:8])
    return f"[{shown}{', ...' if len(row) > 8 else ''}] (sum {row.sum():g})"


def _imported(module: str, feature: str, extra: str) -> Any:
    """Import a package that is no dependency, when it is first asked for."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(feature, extra) from error


# Fitting the probability tables of a known structure to data.


def fit_parameters(
    dag: Dag,
    codes: npt.NDArray[np.integer],
    names: Sequence[str],
    states: Sequence[Sequence[str]],
    equivalent_sample_size: float | None = None,
) -> BayesianNetwork:
    """Fit probability tables to a structure.

    Nodes come in the order of ``names``, parents sorted by name. Without an
    ``equivalent_sample_size`` the tables are relative frequencies, the maximum likelihood; a parent
    configuration without rows gets the uniform distribution. With one they are the posterior mean
    under the BDeu prior, which weighs so many rows: each cell of a table with ``q`` configurations
    and ``r`` states starts from ``equivalent_sample_size / (q * r)`` (Heckerman, Geiger and
    Chickering 1995).

    ``codes``: state numbers, ``[variables, rows]``; they are only read. ``names``: the variable of
    each row of ``codes``; the same set as ``dag.nodes``, in any order. ``states``: the states of
    each variable, in the order of ``names``; those without rows too.

    Raises DataError if a table would have more than ten million cells. Raises ConfigError if
    ``equivalent_sample_size`` is not positive.

    >>> codes = np.array([[0, 0, 1, 1], [0, 1, 1, 1]], dtype=np.uint8)
    >>> dag = Dag(["rain", "wet"], [("rain", "wet")])
    >>> network = fit_parameters(dag, codes, ["rain", "wet"], [["no", "yes"]] * 2)
    >>> network.cpt("wet").tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """
    if equivalent_sample_size is not None:
        check_sample_size(equivalent_sample_size)
    cards = [len(listed) for listed in states]
    position = {name: i for i, name in enumerate(names)}
    parents = [dag.parents(name) for name in names]
    tables = []
    for child in range(len(names)):
        family = [*(position[parent] for parent in parents[child]), child]
        counts = family_counts(codes, family, cards, names[child])
        if equivalent_sample_size is not None:
            counts += equivalent_sample_size / counts.size
        tables.append(_normalised(counts))
    return BayesianNetwork(names, states, parents, tables)


def check_sample_size(equivalent_sample_size: float) -> None:
    if not (equivalent_sample_size > 0 and math.isfinite(equivalent_sample_size)):
        raise ConfigError("equivalent_sample_size", equivalent_sample_size, "a positive number")


def family_counts(
    codes: npt.NDArray[np.integer], family: Sequence[int], cards: Sequence[int], name: str
) -> FloatArray:
    """Count the cells ``[configurations, states]`` of a family, its child last."""
    shape = [cards[i] for i in family]
    n_cells = math.prod(shape)
    if n_cells > MAX_CELLS:
        raise DataError(
            f"{len(family) - 1} parents make a table of {n_cells} cells; at most {MAX_CELLS} fit",
            column=name,
        )
    cell = np.zeros(codes.shape[1], dtype=np.int64)
    for i in family:
        cell *= cards[i]
        cell += codes[i]
    counts = np.bincount(cell, minlength=n_cells).reshape(-1, shape[-1])
    return counts.astype(np.float64)


def _normalised(counts: FloatArray) -> FloatArray:
    """Divide each row by its sum; a row without counts becomes uniform."""
    sums = counts.sum(axis=1, keepdims=True)
    table: FloatArray = np.full_like(counts, 1 / counts.shape[1])
    np.divide(counts, sums, out=table, where=sums > 0)
    return table


# Exact joint distributions of a few variables, and the separations a graph implies.


class _Factor(NamedTuple):
    scope: tuple[str, ...]
    values: FloatArray  # one axis per name of the scope


def joint(network: BayesianNetwork, variables: Sequence[str]) -> FloatArray:
    """Return the exact joint distribution of some variables.

    Everything that is no ancestor of them is left out; the other variables are summed out one by
    one, each time the one that leaves the smallest table (min-weight order), ties by name.

    There is one axis per variable, in the order given; no variables give an array without axes that
    holds 1.

    Raises UnknownVariableError if a name is not a node. Raises GraphError if a name stands twice,
    or a table on the way would have more than ten million cells.

    >>> from driftbn.datasets import asia
    >>> joint(asia(), ["lung", "smoke"]).round(3).tolist()
    [[0.05, 0.005], [0.45, 0.495]]
    """
    if len(set(variables)) != len(variables):
        raise GraphError(f"a variable stands twice among {tuple(variables)}")
    card = dict(zip(network.nodes, network.cards, strict=True))
    relevant = ancestors(network.dag, variables)
    factors = [_factor(network, node) for node in network.nodes if node in relevant]
    waiting = relevant - set(variables)
    while waiting:
        scopes = {node: _scope_around(node, factors) for node in sorted(waiting)}
        node = min(scopes, key=lambda name: math.prod(card[other] for other in scopes[name]))
        touching = [factor for factor in factors if node in factor.scope]
        product = _product(touching, scopes[node], card)
        kept = tuple(name for name in scopes[node] if name != node)
        summed = _Factor(kept, product.sum(axis=scopes[node].index(node)))
        factors = [factor for factor in factors if node not in factor.scope] + [summed]
        waiting.remove(node)
    return _product(factors, tuple(variables), card)


def ancestors(dag: Dag, nodes: Iterable[str]) -> set[str]:
    """Return the nodes and all their ancestors.

    >>> sorted(ancestors(Dag("abcd", [("a", "b"), ("b", "c")]), "b"))
    ['a', 'b']
    """
    found: set[str] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in found:
            waiting.extend(dag.parents(node))
            found.add(node)
    return found


def _factor(network: BayesianNetwork, node: str) -> _Factor:
    i = network.index(node)
    scope = (*network.parents[i], node)
    shape = [network.cards[network.index(name)] for name in scope]
    return _Factor(scope, network.cpts[i].reshape(shape))


def _scope_around(node: str, factors: list[_Factor]) -> tuple[str, ...]:
    """Return all variables that share a factor with ``node``, itself among them, sorted."""
    return tuple(sorted({name for f in factors if node in f.scope for name in f.scope}))


def _product(factors: list[_Factor], scope: tuple[str, ...], card: dict[str, int]) -> FloatArray:
    """Multiply factors into one array with the axes of ``scope``, which must hold all of theirs."""
    shape = tuple(card[name] for name in scope)
    if math.prod(shape) > MAX_CELLS:
        raise GraphError(f"exact inference needs {math.prod(shape)} cells; at most {MAX_CELLS}")
    product = np.ones(shape)
    for factor in factors:
        axes = sorted(range(len(factor.scope)), key=lambda a: scope.index(factor.scope[a]))
        lengths = [card[name] if name in factor.scope else 1 for name in scope]
        product *= factor.values.transpose(axes).reshape(lengths)
    return product
