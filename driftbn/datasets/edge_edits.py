"""Edges removed, added, rewired and reversed, with tables that change nothing else."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from driftbn.datasets.changes import Change, ChangeKind
from driftbn.datasets.couplings import drawn_coupling, greedy_coupling, ordered_coupling
from driftbn.datasets.families import family, family_to_be, rebuilt
from driftbn.datasets.inference import joint
from driftbn.datasets.information import averaged, information, normalised
from driftbn.datasets.paths import N_DRAWS, check_positive, mixture, reach, tilt
from driftbn.datasets.strength import EdgeStrength, edge_strength
from driftbn.errors import ConfigError, GraphError
from driftbn.graph import Dag, Edge
from driftbn.network import BayesianNetwork


def remove_edge(network: BayesianNetwork, parent: str, child: str) -> Change:
    """Remove an edge; the joint distribution of the child and its other parents stays.

    The child's new table is P(child | other parents) of the given network. All non-descendants of
    the child keep their joint distribution; a descendant keeps its marginal unless it hears of the
    removed parent also around the child.

    Raises
    ------
    GraphError
        If there is no such edge.

    Examples
    --------
    >>> from driftbn.datasets import asia
    >>> remove_edge(asia(), "smoke", "bronc").network.cpt("bronc").round(3).tolist()
    [[0.45, 0.55]]
    """
    weights, table = family(network, parent, child)
    others = tuple(name for name in network.parents[network.index(child)] if name != parent)
    changed = rebuilt(network, child, others, averaged(weights, table))
    edges = ((parent, child),)
    return Change(changed, ChangeKind.REMOVED, edges_removed=edges, nodes=(child,))


def remove_edges(network: BayesianNetwork, edges: Iterable[Edge]) -> Change:
    """Remove several edges, each table marginalised under the joint of the given network.

    Raises
    ------
    GraphError
        If an edge is not there or named twice.
    """
    wanted = tuple(sorted(edges))
    for parent, child in reversed(by_child(network.dag, wanted)):
        network = remove_edge(network, parent, child).network
    nodes = tuple(sorted({child for _, child in wanted}))
    return Change(network, ChangeKind.REMOVED, edges_removed=wanted, nodes=nodes)


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

    Parameters
    ----------
    network
        What to start from.
    parent, child
        The ends of the new edge.
    strength
        The wanted conditional mutual information in nats, above 0.
    rng
        Decides which states of the parent go with which of the child.

    Raises
    ------
    ConfigError
        If the strength is not positive or cannot be reached.
    GraphError
        If the two are already joined, or the edge would close a cycle.

    Examples
    --------
    >>> from driftbn.datasets import asia
    >>> change = add_edge(asia(), "smoke", "xray", 0.02, np.random.default_rng(1))
    >>> change.edges_added
    (('smoke', 'xray'),)
    >>> round(edge_strength(change.network, "smoke", "xray"), 4)
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
    return Change(changed, ChangeKind.ADDED, edges_added=((parent, child),), nodes=(child,))


def add_edges(
    network: BayesianNetwork, edges: Iterable[EdgeStrength], rng: np.random.Generator
) -> Change:
    """Add several edges to different children; all strengths hold in the network returned.

    Raises
    ------
    ConfigError
        If two edges have the same child, or a strength is not positive or cannot be reached.
    GraphError
        If two nodes are already joined, or the edges would close a cycle.
    """
    strengths = {edge.edge: edge.strength for edge in edges}
    nodes = tuple(sorted(child for _, child in strengths))
    if len(set(nodes)) != len(nodes):
        raise ConfigError("edges", sorted(strengths), "edges with different children")
    whole = Dag(network.dag.nodes, (*network.dag.edges, *strengths))
    for parent, child in by_child(whole, strengths):
        network = add_edge(network, parent, child, strengths[parent, child], rng).network
    added = tuple(sorted(strengths))
    return Change(network, ChangeKind.ADDED, edges_added=added, nodes=nodes)


def rewire(
    network: BayesianNetwork, removed: Edge, added: EdgeStrength, rng: np.random.Generator
) -> Change:
    """Remove one edge and add another one; see `remove_edge` and `add_edge`.

    Raises
    ------
    ConfigError
        If the added edge joins the same two nodes, or its strength cannot be reached.
    GraphError
        If the edge to remove is not there, or the one to add is or closes a cycle.

    Examples
    --------
    >>> from driftbn.datasets import asia
    >>> new = EdgeStrength("asia", "bronc", 0.001)
    >>> rewire(asia(), ("smoke", "bronc"), new, np.random.default_rng(1)).nodes
    ('bronc',)
    """
    if set(removed) == set(added.edge):
        raise ConfigError("added", added.edge, f"an edge between other nodes than {removed}")
    without = remove_edge(network, *removed).network
    changed = add_edge(without, *added, rng).network
    nodes = tuple(sorted({removed[1], added.child}))
    return Change(changed, ChangeKind.REWIRED, (added.edge,), (removed,), nodes=nodes)


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

    Parameters
    ----------
    network
        What to start from.
    parent, child
        The ends of the edge as it is.
    strength
        Strength of the reversed edge in nats; that of the old one if ``None``. Where the parent's
        own parents leave it little freedom, only a smaller one can be reached.

    Raises
    ------
    ConfigError
        If the strength is not positive or cannot be reached in the new direction.
    GraphError
        If there is no such edge, the reversed one would close a cycle, or data could not tell.

    Examples
    --------
    >>> from driftbn.datasets import asia
    >>> change = reverse_edge(asia(), "bronc", "dysp")
    >>> change.edges_reversed, change.nodes
    ((('bronc', 'dysp'),), ('bronc', 'dysp'))
    """
    wanted = edge_strength(network, parent, child) if strength is None else strength
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
    return Change(changed, ChangeKind.REVERSED, edges_reversed=edges, nodes=nodes)


def by_child(dag: Dag, edges: Iterable[Edge]) -> list[Edge]:
    """Sort edges such that no child is an ancestor of one before it."""
    for _, child in (listed := sorted(edges)):
        dag.parents(child)  # refuses unknown names
    rank = {node: i for i, node in enumerate(dag.topological_order())}
    return sorted(listed, key=lambda edge: rank[edge[1]])
