"""How strong edges are and how much tables differ, exactly and in nats."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from driftbn.datasets.families import family
from driftbn.datasets.inference import joint
from driftbn.datasets.information import divergence, information
from driftbn.errors import GraphError
from driftbn.graph import Edge
from driftbn.network import BayesianNetwork

STRONG = (0.03, math.inf)
"""Edges seen in a single window of a few thousand rows."""

MEDIUM = (0.01, 0.03)
"""Edges seen in most windows of a few thousand rows."""

WEAK = (0.003, 0.01)
"""Edges that need several windows."""


class EdgeStrength(NamedTuple):
    """An edge, there or to be added, and its conditional mutual information in nats."""

    parent: str
    child: str
    strength: float

    @property
    def edge(self) -> Edge:
        """The pair ``(parent, child)``."""
        return self.parent, self.child


def edge_strength(network: BayesianNetwork, parent: str, child: str) -> float:
    """Return I(child; parent | other parents of the child) in nats, exactly.

    Raises
    ------
    GraphError
        If there is no such edge.

    Examples
    --------
    >>> from driftbn.datasets import asia
    >>> round(edge_strength(asia(), "smoke", "bronc"), 4)
    0.0462
    """
    return information(*family(network, parent, child))


def table_difference(before: BayesianNetwork, after: BayesianNetwork, node: str) -> float:
    """Return I(node; regime | parents) in nats of a node with the same parents in both networks.

    The parents are distributed as in ``before``; see `change_table`.

    Raises
    ------
    GraphError
        If the node has other parents, or the same in another order.
    """
    parents = before.parents[before.index(node)]
    if after.parents[after.index(node)] != parents:
        raise GraphError(f"node {node!r} does not have the same parents in both networks")
    weights = joint(before, parents).reshape(1, -1)
    return divergence(weights, before.cpt(node)[np.newaxis], after.cpt(node)[np.newaxis])
