"""A node with its parents: its table with one parent singled out, and another table in its place.

Tables of a child with a singled-out parent are arrays
``[configurations of the other parents, parent, child]``, short ``[o, p, c]``.
"""

from __future__ import annotations

import numpy as np

from driftbn.datasets.inference import ancestors, joint
from driftbn.errors import GraphError
from driftbn.network import MAX_CELLS, BayesianNetwork, FloatArray


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
