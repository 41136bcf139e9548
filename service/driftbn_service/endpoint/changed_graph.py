"""The graph of a window with what became of each edge, from a report as the store keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

Pair: TypeAlias = tuple[str, str]


class EdgeStatus(StrEnum):
    """What became of an edge."""

    KEPT = "kept"
    """It is there now and was there before."""
    ADDED = "added"
    """It is there now only."""
    REMOVED = "removed"
    """It was there before only."""
    REVERSED = "reversed"
    """It points the other way."""
    ABSENT = "absent"
    """It is in neither of two windows; shown for a change that a test has confirmed earlier."""


@dataclass(frozen=True)
class ChangedEdge:
    """An edge with what became of it.

    Parameters
    ----------
    source, target
        As it points now; a removed one as it pointed.
    directed
        Whether the data tell the direction.
    status
        Against the window before; neighbouring windows differ by chance.
    confirmed
        What a test has confirmed in the episode that the window belongs to, if anything:
        the change as a report has it, with p-value and strengths.
    """

    source: str
    target: str
    directed: bool
    status: EdgeStatus
    confirmed: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def shown_status(self) -> EdgeStatus:
        """What to show: the confirmed change, or else what became of it since the window before."""
        return self.status if self.confirmed is None else EdgeStatus(self.confirmed["change"])

    @property
    def nats(self) -> float | None:
        """How strongly the fields go together, where a test has told; before, if that is over."""
        if self.confirmed is None:
            return None
        over = self.confirmed["change"] == "removed"
        value: float | None = self.confirmed["before" if over else "after"]["nats"]
        return value

    def document(self) -> dict[str, Any]:
        """Return the edge as the page takes it."""
        found = self.confirmed or {}
        return {
            "source": self.source,
            "target": self.target,
            "directed": self.directed,
            "status": self.status.value,
            "confirmed": self.shown_status.value if self.confirmed else None,
            "p_value": found.get("p_value"),
            "before": found.get("before"),
            "after": found.get("after"),
            "given": found.get("given", []),
        }


@dataclass(frozen=True)
class ChangedNode:
    """A field with what became of it.

    Parameters
    ----------
    name
        The field.
    changed
        The confirmed change of its rule as a report has it, if there is one.
    target, near_target
        Whether the user cares for it, and whether that one depends on it directly.
    """

    name: str
    changed: Mapping[str, Any] | None = field(default=None, repr=False)
    target: bool = False
    near_target: bool = False

    def document(self) -> dict[str, Any]:
        """Return the node as the page takes it."""
        found = self.changed or {}
        return {
            "name": self.name,
            "changed": self.changed is not None,
            "p_value": found.get("p_value"),
            "effect": found.get("effect"),
            "target": self.target,
            "near_target": self.near_target,
        }


@dataclass(frozen=True)
class ChangedGraph:
    """The graph of a window with what became of its nodes and edges; both are sorted."""

    nodes: tuple[ChangedNode, ...]
    edges: tuple[ChangedEdge, ...]


def changed_graph(
    report: Mapping[str, Any], confirmed: Mapping[str, Any] | None = None
) -> ChangedGraph:
    """Return the graph of a report, with its differences from the window before.

    Parameters
    ----------
    report
        ``WindowReport.to_dict()``.
    confirmed
        The decision whose changes are shown, if not that of the report: that of an earlier window
        of the same episode.
    """
    decision = report["decision"] if confirmed is None else confirmed
    changes = {_pair(change["source"], change["target"]): change for change in decision["edges"]}
    edges = _raw_edges(report, changes)
    present = {_pair(edge.source, edge.target) for edge in edges}
    edges += [
        ChangedEdge(item["source"], item["target"], item["directed"], EdgeStatus.ABSENT, item)
        for pair, item in changes.items()
        if pair not in present
    ]
    names = set(report["dag"]["nodes"])
    names.update(name for edge in edges for name in (edge.source, edge.target))
    return ChangedGraph(
        _nodes(report, sorted(names), decision),
        tuple(sorted(edges, key=lambda edge: (edge.source, edge.target))),
    )


def _raw_edges(
    report: Mapping[str, Any], changes: Mapping[Pair, Mapping[str, Any]]
) -> list[ChangedEdge]:
    diff = report["diff"]
    status = dict.fromkeys(_pairs(diff["added"]), EdgeStatus.ADDED)
    status |= dict.fromkeys(_pairs(diff["reversed"]), EdgeStatus.REVERSED)
    told = {
        (edge["source"], edge["target"]) for edge in report["graph"]["edges"] if edge["directed"]
    }

    def edge(source: str, target: str, what: EdgeStatus, directed: bool) -> ChangedEdge:
        return ChangedEdge(source, target, directed, what, changes.get(_pair(source, target)))

    found = []
    for item in report["dag"]["edges"]:
        ends = item["source"], item["target"]
        what = status.get(_pair(*ends), EdgeStatus.KEPT)
        found.append(edge(*ends, what, ends in told or what is EdgeStatus.REVERSED))
    for item in diff["removed"]:
        found.append(edge(item["source"], item["target"], EdgeStatus.REMOVED, True))
    return found


def _nodes(
    report: Mapping[str, Any], names: Iterable[str], decision: Mapping[str, Any]
) -> tuple[ChangedNode, ...]:
    changed = {change["name"]: change for change in decision["nodes"]}
    target, near = report["target"], set(report["blanket"])
    return tuple(
        ChangedNode(name, changed.get(name), name == target, name in near) for name in names
    )


def _pairs(edges: Iterable[Mapping[str, Any]]) -> list[Pair]:
    return [_pair(edge["source"], edge["target"]) for edge in edges]


def _pair(source: str, target: str) -> Pair:
    return (source, target) if source <= target else (target, source)
