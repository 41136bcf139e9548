"""Networks with known truth, rows drawn from them, and exactly known changes."""

from driftbn.datasets.bundled import alarm, asia, load
from driftbn.datasets.bursts import Repeats, Sessions
from driftbn.datasets.changes import Change, ChangeKind
from driftbn.datasets.edge_edits import (
    add_edge,
    add_edges,
    remove_edge,
    remove_edges,
    reverse_edge,
    rewire,
)
from driftbn.datasets.edge_picking import pick_added_edges, pick_removed_edges
from driftbn.datasets.inference import joint
from driftbn.datasets.random_networks import random_dag, random_network
from driftbn.datasets.sampling import sample, sample_codes
from driftbn.datasets.schedules import Abrupt, Gradual, Recurring, Schedule, Stationary
from driftbn.datasets.streams import DriftStream
from driftbn.datasets.strength import (
    MEDIUM,
    STRONG,
    WEAK,
    EdgeStrength,
    edge_strength,
    table_difference,
)
from driftbn.datasets.table_changes import change_root_marginal, change_table

__all__ = [
    "MEDIUM",
    "STRONG",
    "WEAK",
    "Abrupt",
    "Change",
    "ChangeKind",
    "DriftStream",
    "EdgeStrength",
    "Gradual",
    "Recurring",
    "Repeats",
    "Schedule",
    "Sessions",
    "Stationary",
    "add_edge",
    "add_edges",
    "alarm",
    "asia",
    "change_root_marginal",
    "change_table",
    "edge_strength",
    "joint",
    "load",
    "pick_added_edges",
    "pick_removed_edges",
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
