"""Networks with known truth, rows drawn from them, and exactly known changes."""

from driftbn.datasets.changes import (
    MEDIUM,
    STRONG,
    WEAK,
    Change,
    ChangeKind,
    EdgeStrength,
    add_edge,
    add_edges,
    change_root_marginal,
    change_table,
    edge_strength,
    remove_edge,
    remove_edges,
    reverse_edge,
    rewire,
    table_difference,
)
from driftbn.datasets.networks import alarm, asia, load, random_dag, random_network
from driftbn.datasets.sampling import sample, sample_codes

__all__ = [
    "MEDIUM",
    "STRONG",
    "WEAK",
    "Change",
    "ChangeKind",
    "EdgeStrength",
    "add_edge",
    "add_edges",
    "alarm",
    "asia",
    "change_root_marginal",
    "change_table",
    "edge_strength",
    "load",
    "random_dag",
    "random_network",
    "remove_edge",
    "remove_edges",
    "reverse_edge",
    "rewire",
    "sample",
    "sample_codes",
    "table_difference",
]
