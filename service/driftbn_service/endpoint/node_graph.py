"""The graph in the form of Grafana's node graph panel: one row a node, one row an edge.

See "Data API" of the panel's documentation: https://grafana.com/docs/grafana/latest/
panels-visualizations/visualizations/node-graph/
"""

from __future__ import annotations

from typing import Any

from driftbn.explain.svg import LIGHT
from driftbn.explain.words import decimal, strength
from driftbn_service.endpoint.changed_graph import (
    ChangedEdge,
    ChangedGraph,
    ChangedNode,
    EdgeStatus,
)

_ARCS = (EdgeStatus.KEPT, EdgeStatus.ADDED, EdgeStatus.REMOVED, EdgeStatus.REVERSED)
COLORS = {status: LIGHT[status.value] for status in _ARCS} | {EdgeStatus.ABSENT: LIGHT["kept"]}
"""As on the page and in every picture."""
_THIN, _CONFIRMED, _STRONGEST = 1.0, 3.0, 8.0  # pixels
_STRONG_NATS = 0.3  # very strong: as thick as it gets
_DASHES = "4 3"


def node_rows(graph: ChangedGraph) -> list[dict[str, Any]]:
    """Return one row a node; the arcs are the shares of its edges by what became of them."""
    return [_node_row(node, _edges_at(graph, node.name)) for node in graph.nodes]


def edge_rows(graph: ChangedGraph) -> list[dict[str, Any]]:
    """Return one row an edge; confirmed changes are thick, what may be chance is thin."""
    return [_edge_row(edge) for edge in graph.edges]


def _edges_at(graph: ChangedGraph, name: str) -> list[ChangedEdge]:
    return [edge for edge in graph.edges if name in (edge.source, edge.target)]


def _node_row(node: ChangedNode, edges: list[ChangedEdge]) -> dict[str, Any]:
    n_confirmed = sum(edge.confirmed is not None for edge in edges)
    row: dict[str, Any] = {
        "id": node.name,
        "title": node.name,
        "subtitle": _subtitle(node),
        "mainstat": f"{len(edges)} edges" if len(edges) != 1 else "1 edge",
        "secondarystat": f"{n_confirmed} changed" if n_confirmed else "",
        "color": LIGHT["changed"] if node.changed is not None else COLORS[EdgeStatus.KEPT],
    }
    shown = [edge.shown_status for edge in edges]
    for status in _ARCS:
        row[f"arc__{status.value}"] = shown.count(status) / len(shown) if shown else 0.0
    return row


def _subtitle(node: ChangedNode) -> str:
    words = ["target"] if node.target else []
    if node.changed is not None:
        words.append("follows another rule")
    return ", ".join(words)


def _edge_row(edge: ChangedEdge) -> dict[str, Any]:
    status, nats = edge.shown_status, edge.nats
    return {
        "id": f"{edge.source}->{edge.target}",
        "source": edge.source,
        "target": edge.target,
        "mainstat": "" if status is EdgeStatus.KEPT else status.value,
        "secondarystat": "" if nats is None else f"{strength(nats)} ({decimal(nats)} nats)",
        "thickness": _thickness(edge),
        "color": COLORS[status],
        "highlighted": edge.confirmed is not None,
        "strokeDasharray": _DASHES if status is EdgeStatus.REMOVED else "",
    }


def _thickness(edge: ChangedEdge) -> float:
    if edge.confirmed is None:
        return _THIN
    share = min((edge.nats or 0.0) / _STRONG_NATS, 1.0)
    return round(_CONFIRMED + share * (_STRONGEST - _CONFIRMED), 2)
