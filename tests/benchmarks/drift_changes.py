"""The changes of the drift benchmark, drawn at random for a network."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from driftbn.datasets import (
    Change,
    add_edge,
    change_root_marginal,
    change_table,
    remove_edge,
    reverse_edge,
)
from driftbn.errors import ConfigError, GraphError
from driftbn.graphs.network import BayesianNetwork
from tests.edge_picking import (
    STRONG,
    add_edges,
    edge_strength,
    pick_added_edges,
    pick_removed_edges,
    remove_edges,
)

TABLE_NATS = 0.02  # of a changed table or root marginal


def added(
    k: int,
    strength: tuple[float, float],
    network: BayesianNetwork,
    rng: np.random.Generator,
    *,
    keep_marginals: bool = False,
) -> Change:
    edges = pick_added_edges(network, k, strength, rng, keep_marginals=keep_marginals)
    return add_edges(network, edges, rng)


def removed(
    k: int,
    strength: tuple[float, float],
    network: BayesianNetwork,
    rng: np.random.Generator,
    *,
    keep_marginals: bool = False,
) -> Change:
    edges = pick_removed_edges(network, k, strength, rng, keep_marginals=keep_marginals)
    return remove_edges(network, (edge.edge for edge in edges))


def either(
    strength: tuple[float, float],
    network: BayesianNetwork,
    rng: np.random.Generator,
    *,
    keep_marginals: bool = False,
) -> Change:
    """Add or remove an edge, at random; the other where the network has no such edge."""
    ways = (added, removed) if rng.random() < 0.5 else (removed, added)
    try:
        return ways[0](1, strength, network, rng, keep_marginals=keep_marginals)
    except ConfigError:
        return ways[1](1, strength, network, rng, keep_marginals=keep_marginals)


def rewired(network: BayesianNetwork, rng: np.random.Generator) -> Change:
    """Remove a strong edge and add another one."""
    (gone,) = pick_removed_edges(network, 1, STRONG, rng)
    (new,) = pick_added_edges(network, 1, STRONG, rng)
    changed = add_edge(remove_edge(network, *gone.edge).network, *new, rng).network
    nodes = tuple(sorted({gone.child, new.child}))
    return Change(changed, (new.edge,), (gone.edge,), nodes=nodes)


def turned(network: BayesianNetwork, rng: np.random.Generator) -> Change:
    """Turn a strong edge that data can tell from its reverse, as strong as it was.

    Only where no edge of a network can be turned like this, one becomes weaker on the way.
    """
    edges = [network.dag.edges[i] for i in rng.permutation(len(network.dag.edges))]
    for strength in (None, STRONG[0]):
        for parent, child in edges:
            if edge_strength(network, parent, child) < STRONG[0]:
                continue
            with suppress(ConfigError, GraphError):
                return reverse_edge(network, parent, child, strength)
    raise ConfigError("edge", None, "a strong edge that can be turned, and there is none")


def table(network: BayesianNetwork, rng: np.random.Generator) -> Change:
    """Change the table of a node with parents."""
    nodes = [node for node, parents in zip(network.nodes, network.parents, strict=True) if parents]
    return change_table(network, nodes[rng.integers(len(nodes))], TABLE_NATS, rng)


def root(network: BayesianNetwork, rng: np.random.Generator) -> Change:
    """Change the distribution of a node without parents."""
    roots = [
        node for node, parents in zip(network.nodes, network.parents, strict=True) if not parents
    ]
    return change_root_marginal(network, roots[rng.integers(len(roots))], TABLE_NATS, rng)
