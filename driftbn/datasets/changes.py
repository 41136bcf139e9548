"""Networks changed by an exactly known amount: edges added, removed or reversed, other tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import rel_entr

from driftbn.errors import ConfigError, GraphError
from driftbn.graphs.graph import Edge
from driftbn.graphs.network import MAX_CELLS, BayesianNetwork, FloatArray, ancestors, joint


@dataclass(frozen=True)
class Change:
    """A changed network and how it differs from the one it was made of.

    ``edges_added``, ``edges_removed``: sorted pairs ``(parent, child)``. ``edges_reversed``: sorted
    pairs ``(parent, child)`` as they were before the change. ``nodes``: the nodes whose tables
    changed, sorted; all other tables are the same arrays.
    """

    network: BayesianNetwork
    edges_added: tuple[Edge, ...] = ()
    edges_removed: tuple[Edge, ...] = ()
    edges_reversed: tuple[Edge, ...] = ()
    nodes: tuple[str, ...] = ()


# Information of tables in nats.


def normalised(weights: FloatArray, fallback: FloatArray | None = None) -> FloatArray:
    """Normalise the last axis; where it sums to 0 the fallback stands, or equal shares."""
    total = weights.sum(axis=-1, keepdims=True)
    shares = np.empty(weights.shape)
    shares[:] = 1 / weights.shape[-1] if fallback is None else fallback
    np.divide(weights, total, out=shares, where=total > 0)
    return shares


def averaged(weights: FloatArray, table: FloatArray) -> FloatArray:
    """Return P(child | others) ``[o, c]``."""
    mean: FloatArray = np.einsum("op,opc->oc", normalised(weights), table)
    return mean


def information(weights: FloatArray, table: FloatArray) -> float:
    """Return I(child; parent | others)."""
    mean = averaged(weights, table)[:, np.newaxis, :]
    return _expected(weights, rel_entr(table, mean).sum(axis=-1))


def divergence(weights: FloatArray, before: FloatArray, after: FloatArray) -> float:
    """Return the mean Jensen-Shannon divergence of the rows of two tables."""
    middle = (before + after) / 2
    both = rel_entr(before, middle).sum(axis=-1) + rel_entr(after, middle).sum(axis=-1)
    return _expected(weights, both / 2)


def _expected(weights: FloatArray, values: FloatArray) -> float:
    possible = weights > 0  # elsewhere a value may be infinite
    return max(0.0, float(weights[possible] @ values[possible]))


# Couplings of a parent and its child: tables ``[o, p, c]`` under which P(child | others) stays.


def ordered_coupling(weights: FloatArray, base: FloatArray, before: FloatArray) -> FloatArray:
    """Couple the two monotonely, the parent's states in the order of the child's mean code."""
    pair = before.sum(axis=0)
    mean_code = normalised(pair) @ np.arange(pair.shape[1])
    by_mean = np.argsort(mean_code, kind="stable")
    return _coupling(normalised(weights), base, by_mean, np.arange(base.shape[1]))


def drawn_coupling(shares: FloatArray, base: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Couple the two monotonely, the states of both in random order."""
    return _coupling(shares, base, rng.permutation(shares.shape[1]), rng.permutation(base.shape[1]))


def _coupling(
    shares: FloatArray,
    base: FloatArray,
    parent_order: npt.NDArray[np.intp],
    child_order: npt.NDArray[np.intp],
) -> FloatArray:
    """Return a table ``[o, p, c]`` that rises with the parent, and averages to ``base``.

    Both distributions are laid along the unit interval; what overlaps goes together.
    """
    parent_end = np.cumsum(shares[:, parent_order], axis=1)[:, :, np.newaxis]
    child_end = np.cumsum(base[:, child_order], axis=1)[:, np.newaxis, :]
    parent_start = parent_end - shares[:, parent_order, np.newaxis]
    child_start = child_end - base[:, np.newaxis, child_order]
    overlap = np.minimum(parent_end, child_end) - np.maximum(parent_start, child_start)
    together = np.zeros((*shares.shape, base.shape[1]))
    together[:, parent_order[:, np.newaxis], child_order] = np.maximum(overlap, 0)
    return normalised(together, base[:, np.newaxis, :])


def greedy_coupling(shares: FloatArray, base: FloatArray) -> FloatArray:
    """Return a table ``[o, p, c]`` that averages to ``base`` and tells much of the parent.

    The largest remaining masses of both are put together until nothing remains: the greedy
    minimum-entropy coupling (Kocaoglu, Dimakis, Vishwanath and Hassibi 2017).
    """
    rows = np.arange(len(shares))
    left, right = shares.copy(), base.copy()
    together = np.zeros((*shares.shape, base.shape[1]))
    for _ in range(shares.shape[1] + base.shape[1]):
        p, c = left.argmax(axis=1), right.argmax(axis=1)
        mass = np.minimum(left[rows, p], right[rows, c])
        together[rows, p, c] += mass
        left[rows, p] -= mass
        right[rows, c] -= mass
    return normalised(together, base[:, np.newaxis, :])


# Paths from one table to another, and the search along them for a wanted strength or amount.

N_DRAWS = 8
"""Random tables tried before the strongest known one, or before giving up."""

_CLOSE_ENOUGH = 1e-9  # relative error of a strength at which bisection ends
_MAX_HALVINGS = 100

TablePath = Callable[[float], FloatArray]
"""From 0, the table as it is, to 1, as far as it can go."""


def mixture(start: FloatArray, end: FloatArray) -> TablePath:
    """Go straight from one table to the other."""
    # Relative entropy is convex and 0 at the start, so measures rise along a mixture.
    return lambda weight: (1 - weight) * start + weight * end


def tilt(weights: FloatArray, base: FloatArray, towards: FloatArray) -> TablePath:
    """Lean from ``base`` ``[o, c]`` along a direction that P(child | others) does not feel.

    Each configuration of the others goes as far as its probabilities stay non-negative.
    """
    direction = towards - averaged(weights, towards)[:, np.newaxis, :]
    direction[weights == 0] = 0
    start = np.broadcast_to(base[:, np.newaxis, :], direction.shape)
    room = np.full(direction.shape, np.inf)
    # Differences of rounding size are no direction.
    np.divide(start, -direction, out=room, where=direction < -1e-12)
    limit = room.min(axis=(1, 2), keepdims=True)
    direction[np.isinf(limit[:, 0, 0])] = 0
    limit[np.isinf(limit)] = 0
    furthest = limit.max()
    return lambda weight: np.maximum(start + np.minimum(weight * furthest, limit) * direction, 0)


def reach(
    paths: Iterable[TablePath], measure: Callable[[FloatArray], float], field: str, wanted: float
) -> FloatArray:
    """Go along the first path whose end measures enough, until ``wanted`` is measured.

    Paths are functions of 0 to 1; the measure is 0 at their beginning and rises along them.
    """
    greatest = 0.0
    for path in paths:
        at_end = measure(path(1.0))
        greatest = max(greatest, at_end)
        if at_end >= wanted:
            return _bisected(path, measure, wanted)
    raise ConfigError(field, wanted, f"at most {greatest:.6g} nats here")


def _bisected(path: TablePath, measure: Callable[[FloatArray], float], wanted: float) -> FloatArray:
    low, high = 0.0, 1.0
    for _ in range(_MAX_HALVINGS):
        middle = (low + high) / 2
        table = path(middle)
        value = measure(table)
        if abs(value - wanted) <= _CLOSE_ENOUGH * wanted:
            return table
        low, high = (middle, high) if value < wanted else (low, middle)
    return path(high)


def check_positive(field: str, value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise ConfigError(field, value, "a positive number of nats")


# A node with its parents: its table with one parent singled out, and another table in its place.


def family(network: BayesianNetwork, parent: str, child: str) -> tuple[FloatArray, FloatArray]:
    """Return P(others, parent) ``[o, p]`` and the child's table ``[o, p, c]``."""
    parents = network.parents[network.index(child)]
    if parent not in parents:
        raise GraphError(f"there is no edge {parent!r} -> {child!r}; the parents are {parents}")
    cards = [network.cards[network.index(name)] for name in (*parents, child)]
    axis = parents.index(parent)
    table = np.moveaxis(network.cpt(child).reshape(cards), axis, -2)
    others = (name for name in parents if name != parent)
    weights = joint(network, (*others, parent)).reshape(-1, cards[axis])
    return weights, table.reshape(-1, cards[axis], cards[-1])


def family_to_be(
    network: BayesianNetwork, parent: str, child: str
) -> tuple[FloatArray, FloatArray]:
    """Return P(old parents, parent) ``[o, p]`` and the child's table without it ``[o, c]``."""
    if parent == child:
        raise GraphError(f"an edge {parent!r} -> {child!r} would be a loop")
    if (parent, child) in network.dag.edges or (child, parent) in network.dag.edges:
        raise GraphError(f"{parent!r} and {child!r} are already joined")
    if child in ancestors(network.dag, (parent,)):
        raise GraphError(f"an edge {parent!r} -> {child!r} would close a cycle")
    base = network.cpt(child)
    card = network.cards[network.index(parent)]
    if base.size * card > MAX_CELLS:
        raise GraphError(f"the table of {child!r} would have more than {MAX_CELLS} cells")
    parents = network.parents[network.index(child)]
    return joint(network, (*parents, parent)).reshape(-1, card), base


def rebuilt(
    network: BayesianNetwork, node: str, parents: tuple[str, ...], table: FloatArray
) -> BayesianNetwork:
    """Return the network with other parents and another table of one node."""
    i = network.index(node)
    families, cpts = list(network.parents), list(network.cpts)
    families[i] = parents
    cpts[i] = table.reshape(-1, network.cards[i])
    return BayesianNetwork(network.nodes, network.states, families, cpts)


# Edges removed, added and reversed, with tables that change nothing else.


def remove_edge(network: BayesianNetwork, parent: str, child: str) -> Change:
    """Remove an edge; the joint distribution of the child and its other parents stays.

    The child's new table is P(child | other parents) of the given network. All non-descendants of
    the child keep their joint distribution; a descendant keeps its marginal unless it hears of the
    removed parent also around the child.

    Raises GraphError if there is no such edge.

    >>> from driftbn.datasets import asia
    >>> remove_edge(asia(), "smoke", "bronc").network.cpt("bronc").round(3).tolist()
    [[0.45, 0.55]]
    """
    weights, table = family(network, parent, child)
    others = tuple(name for name in network.parents[network.index(child)] if name != parent)
    changed = rebuilt(network, child, others, averaged(weights, table))
    return Change(changed, edges_removed=((parent, child),), nodes=(child,))


def add_edge(
    network: BayesianNetwork,
    parent: str,
    child: str,
    strength: float,
    rng: np.random.Generator,
) -> Change:
    """Add an edge of a wanted strength; P(child | old parents) stays.

    The child's table is moved from independence of the new parent towards a random monotone
    coupling of the two (or, should that be too weak, a greedy one), until
    I(child; parent | old parents) is ``strength``. The new parent comes last in the child's family.

    ``strength``: the wanted conditional mutual information in nats, above 0. ``rng``: decides which
    states of the parent go with which of the child.

    Raises ConfigError if the strength is not positive or cannot be reached. Raises GraphError if
    the two are already joined, or the edge would close a cycle.

    >>> from driftbn.datasets import asia
    >>> change = add_edge(asia(), "smoke", "xray", 0.02, np.random.default_rng(1))
    >>> change.edges_added
    (('smoke', 'xray'),)
    >>> round(information(*family(change.network, "smoke", "xray")), 4)
    0.02
    """
    check_positive("strength", strength)
    weights, base = family_to_be(network, parent, child)
    shares = normalised(weights)
    drawn = (drawn_coupling(shares, base, rng) for _ in range(N_DRAWS))
    ends = (end for source in (drawn, (greedy_coupling(shares, base),)) for end in source)
    paths = (mixture(base[:, np.newaxis, :], end) for end in ends)
    table = reach(paths, lambda t: information(weights, t), "strength", strength)
    parents = (*network.parents[network.index(child)], parent)
    changed = rebuilt(network, child, parents, table)
    return Change(changed, edges_added=((parent, child),), nodes=(child,))


def reverse_edge(
    network: BayesianNetwork, parent: str, child: str, strength: float | None = None
) -> Change:
    """Turn an edge round such that data can tell.

    The child loses the parent as in `remove_edge`: P(child | other parents) stays. The parent
    gains the child as in `add_edge`: P(parent | its old parents) stays, and
    I(parent; child | old parents of the parent) becomes what I(child; parent | other parents) was.
    Its table leans towards the old P(parent | its old parents, child), as far as there is room,
    and only if that is too weak towards a monotone or, in the end, a greedy coupling of the two.

    An edge whose ends have the same other parents is refused: the reversed structure would have
    the same independences (Chickering 1995, Lemma 1), and no data could tell.

    ``strength``: strength of the reversed edge in nats; that of the old one if ``None``. Where the
    parent's own parents leave it little freedom, only a smaller one can be reached.

    Raises ConfigError if the strength is not positive or cannot be reached in the new direction.
    Raises GraphError if there is no such edge, the reversed one would close a cycle, or data could
    not tell.

    >>> from driftbn.datasets import asia
    >>> change = reverse_edge(asia(), "bronc", "dysp")
    >>> change.edges_reversed, change.nodes
    ((('bronc', 'dysp'),), ('bronc', 'dysp'))
    """
    wanted = information(*family(network, parent, child)) if strength is None else strength
    check_positive("strength", wanted)
    own = network.parents[network.index(parent)]
    if set(own) == set(network.parents[network.index(child)]) - {parent}:
        raise GraphError(f"{parent!r} -> {child!r} is covered: no data tells it from its reverse")
    without = remove_edge(network, parent, child).network
    weights, base = family_to_be(without, child, parent)
    before = joint(network, (*own, child, parent)).reshape(*weights.shape, base.shape[1])
    towards = normalised(before, base[:, np.newaxis, :])
    couplings = (
        ordered_coupling(weights, base, before),
        greedy_coupling(normalised(weights), base),
    )
    mixtures = (mixture(base[:, np.newaxis, :], end) for end in couplings)
    paths = (tilt(weights, base, towards), *mixtures)
    table = reach(paths, lambda t: information(weights, t), "strength", wanted)
    changed = rebuilt(without, parent, (*own, child), table)
    edges, nodes = ((parent, child),), tuple(sorted((parent, child)))
    return Change(changed, edges_reversed=edges, nodes=nodes)


# Changed tables and changed root marginals: the same edges with another effect.

_SHARP = 0.5  # Dirichlet concentration of drawn tables: below 1, so that large changes are in reach


def change_table(
    network: BayesianNetwork, node: str, amount: float, rng: np.random.Generator
) -> Change:
    """Change what the same parents do.

    The size of the change is I(node; regime | parents), where the regime is the old or the new
    network with probability one half: the Jensen-Shannon divergence of the table's rows, averaged
    over the parents' configurations. It is at most log 2.

    ``node``: whose table changes; it must have parents. ``amount``: the wanted size in nats, above
    0. ``rng``: draws the table towards which the old one is moved.

    Raises ConfigError if the amount is not positive or cannot be reached. Raises GraphError if the
    node has no parents; see `change_root_marginal`.

    >>> from driftbn.datasets import asia
    >>> change_table(asia(), "dysp", 0.05, np.random.default_rng(1)).nodes
    ('dysp',)
    """
    if not network.parents[network.index(node)]:
        raise GraphError(f"node {node!r} has no parents; only its marginal can be changed")
    return _retold(network, node, amount, rng)


def change_root_marginal(
    network: BayesianNetwork, node: str, amount: float, rng: np.random.Generator
) -> Change:
    """Change the distribution of a node without parents, by an amount as in `change_table`.

    Raises ConfigError if the amount is not positive or cannot be reached. Raises GraphError if the
    node has parents.

    >>> from driftbn.datasets import asia
    >>> change_root_marginal(asia(), "smoke", 0.02, np.random.default_rng(1)).nodes
    ('smoke',)
    """
    if network.parents[network.index(node)]:
        raise GraphError(f"node {node!r} has parents; it is no root")
    return _retold(network, node, amount, rng)


def _retold(network: BayesianNetwork, node: str, amount: float, rng: np.random.Generator) -> Change:
    """Move the table of a node towards a drawn one."""
    check_positive("amount", amount)
    parents = network.parents[network.index(node)]
    base, weights = network.cpt(node)[np.newaxis], joint(network, parents).reshape(1, -1)
    paths = (mixture(base, _drawn_rows(base, rng)) for _ in range(N_DRAWS))
    table = reach(paths, lambda t: divergence(weights, base, t), "amount", amount)
    return Change(rebuilt(network, node, parents, table), nodes=(node,))


def _drawn_rows(table: FloatArray, rng: np.random.Generator) -> FloatArray:
    drawn: FloatArray = rng.dirichlet([_SHARP] * table.shape[-1], size=table.shape[:-1])
    return drawn
