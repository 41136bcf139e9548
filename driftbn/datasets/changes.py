"""What a changed network is: the network, and its exactly known difference from the first one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from driftbn.graph import Edge
from driftbn.network import BayesianNetwork


class ChangeKind(Enum):
    """What is different between two networks."""

    ADDED = "edges added"
    """Children have a parent more; what they do given their old parents is as before."""
    REMOVED = "edges removed"
    """Children have a parent less; what they do given the remaining ones is as before."""
    REWIRED = "edges rewired"
    """An edge was removed and another one added."""
    REVERSED = "edge reversed"
    """An edge points the other way, and data can tell."""
    TABLE = "table changed"
    """The same parents have another effect."""
    ROOT_MARGINAL = "root marginal changed"
    """A node without parents has another distribution."""


@dataclass(frozen=True)
class Change:
    """A changed network and how it differs from the one it was made of.

    Parameters
    ----------
    network
        The network after the change; nodes and states are as before.
    kind
        What sort of change it is.
    edges_added, edges_removed
        Sorted pairs ``(parent, child)``.
    edges_reversed
        Sorted pairs ``(parent, child)`` as they were before the change.
    nodes
        The nodes whose tables changed, sorted; all other tables are the same arrays.
    """

    network: BayesianNetwork
    kind: ChangeKind
    edges_added: tuple[Edge, ...] = ()
    edges_removed: tuple[Edge, ...] = ()
    edges_reversed: tuple[Edge, ...] = ()
    nodes: tuple[str, ...] = ()
