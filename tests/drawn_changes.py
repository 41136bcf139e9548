"""Changes drawn at random: edges of a strength, several at once, and what benchmarks change."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

import networkx as nx
import numpy as np

from driftbn import Dag, Edge
from driftbn.datasets import (
    Change,
    add_edge,
    change_root_marginal,
    change_table,
    remove_edge,
    reverse_edge,
)
from driftbn.datasets.changes import (
    family,
    family_to_be,
    greedy_coupling,
    information,
    normalised,
)
from driftbn.errors import ConfigError, GraphError
from driftbn.graphs.network import BayesianNetwork, ancestors

STRONG = (0.03, math.inf)
"""Nats of edges seen in a single window of a few thousand rows; others are seen in most windows,
or need several."""
MEDIUM = (0.01, 0.03)
WEAK = (0.003, 0.01)

_STRONGEST_ADDED = 0.1  # where a strength class has no upper end, added edges stay below this
TABLE_NATS = 0.02  # of a changed table or root marginal
_HEADROOM = 1.5  # a picked edge could be this much stronger: other picked edges may take some away


class EdgeStrength(NamedTuple):
    """An edge, there or to be added, and its conditional mutual information in nats."""

    parent: str
    child: str
    strength: float

    @property
    def edge(self) -> Edge:
        return self.parent, self.child


def edge_strength(network: BayesianNetwork, parent: str, child: str) -> float:
    """Return I(child; parent | other parents of the child) in nats, exactly."""
    return information(*family(network, parent, child))


def remove_edges(network: BayesianNetwork, edges: Iterable[Edge]) -> Change:
    """Remove several edges, each table marginalised under the joint of the given network."""
    wanted = tuple(sorted(edges))
    for parent, child in reversed(_by_child(network.dag, wanted)):
        network = remove_edge(network, parent, child).network
    nodes = tuple(sorted({child for _, child in wanted}))
    return Change(network, edges_removed=wanted, nodes=nodes)


def add_edges(
    network: BayesianNetwork, edges: Iterable[EdgeStrength], rng: np.random.Generator
) -> Change:
    """Add several edges to different children; all strengths hold in the network returned."""
    strengths = {edge.edge: edge.strength for edge in edges}
    whole = Dag(network.dag.nodes, (*network.dag.edges, *strengths))
    for parent, child in _by_child(whole, strengths):
        network = add_edge(network, parent, child, strengths[parent, child], rng).network
    nodes = tuple(sorted(child for _, child in strengths))
    return Change(network, edges_added=tuple(sorted(strengths)), nodes=nodes)


def _by_child(dag: Dag, edges: Iterable[Edge]) -> list[Edge]:
    """Sort edges such that no child is an ancestor of one before it."""
    rank = {node: i for i, node in enumerate(dag.topological_order())}
    return sorted(sorted(edges), key=lambda edge: rank[edge[1]])


def pick_removed_edges(
    network: BayesianNetwork,
    k: int,
    strength: tuple[float, float],
    rng: np.random.Generator,
    *,
    keep_marginals: bool = False,
) -> tuple[EdgeStrength, ...]:
    """Pick edges at random whose strength is in a class, each with another child."""
    picked: list[EdgeStrength] = []
    edges = network.dag.edges
    for parent, child in (edges[i] for i in rng.permutation(len(edges))):
        if any(child == other.child for other in picked):
            continue
        found = EdgeStrength(parent, child, edge_strength(network, parent, child))
        if not strength[0] <= found.strength < strength[1]:
            continue
        if keep_marginals and not _removal_keeps_marginals(network.dag, [*picked, found]):
            continue
        picked.append(found)
        if len(picked) == k:
            return tuple(sorted(picked))
    raise ConfigError("k", k, f"at most {len(picked)} for removed edges of strength {strength}")


def pick_added_edges(
    network: BayesianNetwork,
    k: int,
    strength: tuple[float, float],
    rng: np.random.Generator,
    *,
    keep_marginals: bool = False,
) -> tuple[EdgeStrength, ...]:
    """Pick edges at random that can be added at a strength of a class, each with another child.

    Strengths are drawn log-uniformly from the class, below 0.1 nats if the class begins there.
    """
    picked: list[EdgeStrength] = []
    nodes = network.nodes
    for pair in rng.permutation(len(nodes) ** 2):
        parent, child = nodes[pair // len(nodes)], nodes[pair % len(nodes)]
        wanted = _drawn_strength(strength, rng)
        candidates = [*picked, EdgeStrength(parent, child, wanted)]
        if not _can_be_added(network.dag, candidates):
            continue
        if keep_marginals and not _addition_keeps_marginals(network.dag, candidates):
            continue
        if _greatest_strength(network, parent, child) < wanted * _HEADROOM:
            continue
        picked = candidates
        if len(picked) == k:
            return tuple(sorted(picked))
    raise ConfigError("k", k, f"at most {len(picked)} for added edges of strength {strength}")


def _drawn_strength(strength: tuple[float, float], rng: np.random.Generator) -> float:
    low, high = strength
    top = max(low, min(high, _STRONGEST_ADDED))
    return math.exp(rng.uniform(math.log(low), math.log(top)))


def _greatest_strength(network: BayesianNetwork, parent: str, child: str) -> float:
    """Return the strength that `add_edge` reaches whatever is drawn."""
    weights, base = family_to_be(network, parent, child)
    return information(weights, greedy_coupling(normalised(weights), base))


def _can_be_added(dag: Dag, edges: Sequence[EdgeStrength]) -> bool:
    if len({edge.child for edge in edges}) != len(edges):
        return False
    for edge in edges:
        if edge.parent in (*dag.parents(edge.child), *dag.children(edge.child)):
            return False
        if edge.child in ancestors(dag, (edge.parent,)):
            return False
        dag = Dag(dag.nodes, (*dag.edges, edge.edge))
    return True


def _removal_keeps_marginals(dag: Dag, edges: Sequence[EdgeStrength]) -> bool:
    for edge in reversed(_by_child(dag, (edge.edge for edge in edges))):
        if not _unheard_around(dag, *edge):
            return False
        dag = Dag(dag.nodes, (other for other in dag.edges if other != edge))
    return True


def _addition_keeps_marginals(dag: Dag, edges: Sequence[EdgeStrength]) -> bool:
    whole = Dag(dag.nodes, (*dag.edges, *(edge.edge for edge in edges)))
    for edge in _by_child(whole, (edge.edge for edge in edges)):
        if not _unheard_around(dag, *edge):
            return False
        dag = Dag(dag.nodes, (*dag.edges, edge))
    return True


def _unheard_around(dag: Dag, parent: str, child: str) -> bool:
    """Return whether no descendant of the child hears of the parent around the child.

    A descendant's marginal follows from the joint of the child and those non-descendants of the
    child that are parents on the way. If the child's other parents separate these from the parent,
    that joint is a matter of P(child | other parents) alone, which a change of the edge keeps.
    """
    graph = dag.to_networkx()
    below = nx.descendants(graph, child)
    given = set(dag.parents(child)) - {parent}
    for node in sorted(below):
        on_the_way = ancestors(dag, (node,)) & below
        beside = {p for n in on_the_way for p in dag.parents(n)} - below - {child}
        if parent in beside or not nx.is_d_separator(graph, {parent}, beside - given, given):
            return False
    return True


# The changes of the benchmarks, drawn for a network.


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
