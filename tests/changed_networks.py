"""Networks to change, what a sum over their full joint says, and what a change claims."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import networkx as nx
import numpy as np

from driftbn import Dag, Edge
from driftbn.datasets import Change, random_network
from driftbn.graphs.network import BayesianNetwork, ancestors, joint

BINARY = ("no", "yes")
EXACT = 1e-12
SEEDS = range(6)


def small(seed: int) -> BayesianNetwork:
    return random_network(6, 8, cardinality=(2, 3), max_parents=3, strength=1.0, seed=seed)


def binary(seed: int) -> BayesianNetwork:
    return random_network(8, 11, max_parents=3, seed=seed)


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def full_joint(network: BayesianNetwork) -> np.ndarray:
    """Multiply table entries for every assignment, with one axis per node."""
    found = np.zeros(network.cards)
    for codes in product(*map(range, network.cards)):
        state = dict(zip(network.nodes, codes, strict=True))
        probability = 1.0
        for i, node in enumerate(network.nodes):
            row = 0
            for parent in network.parents[i]:
                row = row * network.cards[network.index(parent)] + state[parent]
            probability *= network.cpts[i][row, state[node]]
        found[codes] = probability
    return found


def marginal(network: BayesianNetwork, names: Sequence[str]) -> np.ndarray:
    axes = [network.index(name) for name in names]
    rest = tuple(i for i in range(len(network.nodes)) if i not in axes)
    kept = [i for i in range(len(network.nodes)) if i in axes]
    return full_joint(network).sum(axis=rest).transpose([kept.index(i) for i in axes])


def entropy(network: BayesianNetwork, names: Sequence[str]) -> float:
    values = marginal(network, names).ravel()
    return float(-sum(p * math.log(p) for p in values if p > 0))


def information(network: BayesianNetwork, x: str, y: str, given: Sequence[str]) -> float:
    """Return I(x; y | given) as a sum of four entropies."""
    return (
        entropy(network, (x, *given))
        + entropy(network, (y, *given))
        - entropy(network, (x, y, *given))
        - entropy(network, tuple(given))
    )


def parents(network: BayesianNetwork, node: str, *, without: str = "") -> tuple[str, ...]:
    return tuple(p for p in network.parents[network.index(node)] if p != without)


def free_pairs(network: BayesianNetwork) -> list[Edge]:
    """Return all edges that could be added."""
    oracle = {node: ancestors(network.dag, (node,)) for node in network.nodes}
    return [
        (parent, child)
        for parent in network.nodes
        for child in network.nodes
        if child not in oracle[parent] and parent not in network.dag.parents(child)
    ]


def reversible(network: BayesianNetwork) -> list[Edge]:
    """Return the edges whose reversal is allowed and changes the independences."""
    found = []
    for parent, child in network.dag.edges:
        rest = [edge for edge in network.dag.edges if edge != (parent, child)]
        if parent in ancestors(Dag(network.nodes, rest), (child,)):
            continue
        turned = Dag(network.nodes, (*rest, (child, parent)))
        if turned.cpdag() != network.cpdag():
            found.append((parent, child))
    return found


def assert_changed_as_claimed(before: BayesianNetwork, change: Change) -> None:
    """Compare edges, and which tables are others."""
    after = change.network
    edges = set(before.dag.edges) - set(change.edges_removed) - set(change.edges_reversed)
    edges |= set(change.edges_added) | {(v, u) for u, v in change.edges_reversed}
    assert set(after.dag.edges) == edges
    assert (after.nodes, after.states) == (before.nodes, before.states)
    changed = {
        node
        for i, node in enumerate(before.nodes)
        if before.parents[i] != after.parents[i]
        or not np.array_equal(before.cpts[i], after.cpts[i])
    }
    assert change.nodes == tuple(sorted(changed))


def assert_same_marginals(
    before: BayesianNetwork, after: BayesianNetwork, nodes: Sequence[str]
) -> None:
    for node in nodes:
        np.testing.assert_allclose(joint(after, [node]), joint(before, [node]), atol=EXACT)


def untouched_below(network: BayesianNetwork, changed: str) -> list[str]:
    """Return the nodes that are no descendants of the changed one: itself and all others."""
    below = nx.descendants(network.dag.to_networkx(), changed)
    return [node for node in network.nodes if node not in below]
