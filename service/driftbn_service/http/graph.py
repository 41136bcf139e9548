"""The graph of a window with what became of each edge, for the page and for Grafana.

The rows for Grafana follow the "Data API" of its node graph panel: https://grafana.com/docs/
grafana/latest/panels-visualizations/visualizations/node-graph/
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, TypeAlias

from driftbn.drift.outcome import Association, ChangeType, DriftDecision, EdgeChange
from driftbn.explain.changes import Change
from driftbn.explain.picture import differences
from driftbn.explain.sentences import decimal, strength
from driftbn.explain.svg import LIGHT
from driftbn.report import WindowReport
from driftbn_service.events import naming_window
from driftbn_service.http import ServiceView
from driftbn_service.http.api import STREAM, Key, Name, find_window
from driftbn_service.http.routes import Operation, Parameter, Reply
from driftbn_service.state import WindowDetail, WindowRow

WindowNumber: TypeAlias = Annotated[
    int | None, Parameter("Number of the window; the newest unless given.")
]


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
    """An edge with what became of it."""

    source: str  # as it points now; a removed one as it pointed
    target: str
    directed: bool  # whether the data tell the direction
    status: EdgeStatus  # against the window before; neighbouring windows differ by chance
    # What a test has confirmed in the episode that the window belongs to, if anything.
    confirmed: ChangeType | None = None
    p_value: float | None = None  # of that change, like the next three
    before: Association | None = None
    after: Association | None = None
    given: tuple[str, ...] = ()

    @property
    def shown_status(self) -> EdgeStatus:
        """What to show: the confirmed change, or else what became of it since the window before."""
        return self.status if self.confirmed is None else EdgeStatus(self.confirmed.value)

    @property
    def nats(self) -> float | None:
        """How strongly the fields go together, where a test has told; before, if that is over."""
        told = self.before if self.confirmed is ChangeType.REMOVED else self.after
        return None if told is None or math.isnan(told.nats) else told.nats


@dataclass(frozen=True)
class ChangedNode:
    """A field with what became of it."""

    name: str
    changed: bool  # whether a test has confirmed that it follows another rule
    p_value: float | None  # of that test
    effect: float | None  # of that test
    target: bool  # whether the user cares for it
    near_target: bool  # whether one that the user cares for depends on it directly


@dataclass(frozen=True)
class ChangedGraph:
    """The graph of a window; nodes and edges are sorted."""

    window: WindowRow
    confirmed_window: int | None
    target: str | None
    nodes: tuple[ChangedNode, ...]
    edges: tuple[ChangedEdge, ...]


def graph(
    service: ServiceView, name: Name, key: Key = "", window: WindowNumber = None
) -> ChangedGraph:
    """Give the graph of a window, with what became of each edge since the window before.

    The changes of its episode that a test confirms are marked.
    """
    found = find_window(service, name, key, window)
    report = WindowReport.from_dict(found.report)
    confirming, decision = _confirming(service, found, report)
    edges = changed_edges(report, decision)
    nodes = changed_nodes(report, decision, edges)
    return ChangedGraph(found.row, confirming, report.target, nodes, edges)


def _confirming(
    service: ServiceView, found: WindowDetail, report: WindowReport
) -> tuple[int | None, DriftDecision]:
    """Return the decision that names the changes of a window's episode, and whose it is."""
    store, row, decision = service.store, found.row, report.decision
    if decision.edges or decision.node_changes:
        return row.window_index, Change(report).told_decision
    episode = None if row.episode is None else store.episode(row.stream, row.key, row.episode)
    if episode is None:
        return None, decision
    earlier = store.window(row.stream, row.key, naming_window(store, episode, row.window_index))
    if earlier is None:
        return None, decision
    report = WindowReport.from_dict(earlier.report)
    return earlier.row.window_index, Change(report).told_decision


def changed_edges(report: WindowReport, decision: DriftDecision) -> tuple[ChangedEdge, ...]:
    """Return the edges of a report with their differences from the window before.

    ``decision`` is the one whose changes are shown: the window's own, or that of an earlier window
    of its episode.
    """
    changes = {change.pair: change for change in decision.edges}
    found = {
        line.pair: (line.edge, line.directed, EdgeStatus(line.kind.value))
        for line in differences(report)
    }
    for pair, change in changes.items():
        absent = (change.source, change.target), change.directed, EdgeStatus.ABSENT
        found.setdefault(pair, absent)
    edges = [
        ChangedEdge(*ends, directed, status, *_confirmed(changes.get(pair)))
        for pair, (ends, directed, status) in found.items()
    ]
    return tuple(sorted(edges, key=lambda edge: (edge.source, edge.target)))


def _confirmed(change: EdgeChange | None) -> tuple[Any, ...]:
    """Return what an edge shows of a change that a test has confirmed."""
    if change is None:
        return ()
    return change.change, change.p_value, change.before, change.after, change.given


def changed_nodes(
    report: WindowReport, decision: DriftDecision, edges: Iterable[ChangedEdge]
) -> tuple[ChangedNode, ...]:
    """Return the fields of a report and of its edges, with what became of them."""
    names = {*report.dag.nodes, *(name for edge in edges for name in (edge.source, edge.target))}
    changes = {change.name: change for change in decision.node_changes}
    near = set(report.blanket)
    return tuple(
        ChangedNode(
            name,
            name in changes,
            changes[name].p_value if name in changes else None,
            changes[name].effect if name in changes else None,
            name == report.target,
            name in near,
        )
        for name in sorted(names)
    )


# --- Grafana ---

_ARCS: Final = (EdgeStatus.KEPT, EdgeStatus.ADDED, EdgeStatus.REMOVED, EdgeStatus.REVERSED)
COLORS: Final = {status: LIGHT[status.value] for status in _ARCS} | {
    EdgeStatus.ABSENT: LIGHT["kept"]
}
"""As on the page and in every picture."""
_THIN, _CONFIRMED, _STRONGEST = 1.0, 3.0, 8.0  # pixels
_STRONG_NATS: Final = 0.3  # very strong: as thick as it gets
_DASHES: Final = "4 3"


@dataclass(frozen=True)
class NodeRow:
    """One row a node; the arcs are the shares of its edges by what became of them."""

    id: str
    title: str
    subtitle: str
    mainstat: str
    secondarystat: str
    color: str
    arc__kept: float
    arc__added: float
    arc__removed: float
    arc__reversed: float


@dataclass(frozen=True)
class LineRow:
    """One row an edge; confirmed changes are thick, what may be chance is thin."""

    id: str
    source: str
    target: str
    mainstat: str
    secondarystat: str
    thickness: float
    color: str
    highlighted: bool
    strokeDasharray: str  # noqa: N815 - Grafana's name


def graph_nodes(
    service: ServiceView, name: Name, key: Key = "", window: WindowNumber = None
) -> tuple[NodeRow, ...]:
    """Give the nodes of the same graph, as Grafana's node graph panel takes them."""
    found = graph(service, name, key, window)
    return tuple(node_row(node, found.edges) for node in found.nodes)


def graph_edges(
    service: ServiceView, name: Name, key: Key = "", window: WindowNumber = None
) -> tuple[LineRow, ...]:
    """Give the edges of the same graph, as Grafana's node graph panel takes them."""
    return tuple(line_row(edge) for edge in graph(service, name, key, window).edges)


def node_row(node: ChangedNode, edges: Iterable[ChangedEdge]) -> NodeRow:
    """Return a node with how many of all edges are its own and what became of them."""
    own = [edge for edge in edges if node.name in (edge.source, edge.target)]
    n_confirmed = sum(edge.confirmed is not None for edge in own)
    shown = [edge.shown_status for edge in own]
    words = ["target"] * node.target + ["follows another rule"] * node.changed
    return NodeRow(
        node.name,
        node.name,
        ", ".join(words),
        f"{len(own)} edges" if len(own) != 1 else "1 edge",
        f"{n_confirmed} changed" if n_confirmed else "",
        LIGHT["changed"] if node.changed else COLORS[EdgeStatus.KEPT],
        *(shown.count(status) / len(shown) if shown else 0.0 for status in _ARCS),
    )


def line_row(edge: ChangedEdge) -> LineRow:
    status, nats = edge.shown_status, edge.nats
    return LineRow(
        f"{edge.source}->{edge.target}",
        edge.source,
        edge.target,
        "" if status is EdgeStatus.KEPT else status.value,
        "" if nats is None else f"{strength(nats)} ({decimal(nats)} nats)",
        _thickness(edge),
        COLORS[status],
        edge.confirmed is not None,
        _DASHES if status is EdgeStatus.REMOVED else "",
    )


def _thickness(edge: ChangedEdge) -> float:
    if edge.confirmed is None:
        return _THIN
    share = min((edge.nats or 0.0) / _STRONG_NATS, 1.0)
    return round(_CONFIRMED + share * (_STRONGEST - _CONFIRMED), 2)


_UNKNOWN: Final = {404: Reply("There is no such stream, key or window.")}
OPERATIONS: Final = (
    Operation(f"{STREAM}/graph", graph, _UNKNOWN),
    Operation(f"{STREAM}/graph/nodes", graph_nodes, _UNKNOWN),
    Operation(f"{STREAM}/graph/edges", graph_edges, _UNKNOWN),
)
"""The routes of this module."""
