"""The graph of a window, for the page and for Grafana."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from driftbn_service.endpoint.changed_graph import ChangedGraph, changed_graph
from driftbn_service.endpoint.documents import window_document
from driftbn_service.endpoint.limits import Limits
from driftbn_service.endpoint.node_graph import edge_rows, node_rows
from driftbn_service.endpoint.operations import Call, Operation, Reply, json_response
from driftbn_service.endpoint.parameters import KEY, MONITOR, WINDOW
from driftbn_service.endpoint.problems import PROBLEM_TYPE
from driftbn_service.endpoint.schemas import (
    FLAG,
    NUMBER,
    PROBLEM,
    TEXT,
    WHOLE,
    array,
    optional,
    record,
    ref,
)
from driftbn_service.endpoint.views.finding import find_window
from driftbn_service.naming import naming_window
from driftbn_service.store import WindowDetail

_BASE = "/api/v1/monitors/{name}/graph"
_NODE_ROW = record(
    {
        **dict.fromkeys(("id", "title", "subtitle", "mainstat", "secondarystat", "color"), TEXT),
        **dict.fromkeys(("arc__kept", "arc__added", "arc__removed", "arc__reversed"), NUMBER),
    }
)
_EDGE_ROW = record(
    {
        **dict.fromkeys(("id", "source", "target", "mainstat", "secondarystat", "color"), TEXT),
        "thickness": NUMBER,
        "highlighted": FLAG,
        "strokeDasharray": TEXT,
    }
)


def operations(_: Limits) -> tuple[Operation, ...]:
    """Return the routes of graphs."""
    unknown = Reply("There is no such monitor or window.", ref(PROBLEM), PROBLEM_TYPE)
    parameters = (MONITOR, KEY, WINDOW)
    whole = {
        "window": ref("Window"),
        "confirmed_window": optional(WHOLE),
        "target": optional(TEXT),
        "nodes": array(ref("ChangedNode")),
        "edges": array(ref("ChangedEdge")),
    }
    return (
        Operation(
            _BASE,
            "graph",
            "The graph of a window, with what became of each edge since the window before, and the"
            " changes of its episode that a test confirms.",
            graph,
            {200: Reply("The graph.", record(whole)), 404: unknown},
            parameters=parameters,
        ),
        Operation(
            f"{_BASE}/nodes",
            "graph_nodes",
            "The nodes of the same graph, as Grafana's node graph panel takes them.",
            graph_nodes,
            {200: Reply("One row a node.", array(_NODE_ROW)), 404: unknown},
            parameters=parameters,
        ),
        Operation(
            f"{_BASE}/edges",
            "graph_edges",
            "The edges of the same graph, as Grafana's node graph panel takes them.",
            graph_edges,
            {200: Reply("One row an edge.", array(_EDGE_ROW)), 404: unknown},
            parameters=parameters,
        ),
    )


def graph(call: Call) -> Response:
    """Answer with the graph for the page."""
    found, (confirmed_window, drawn) = _asked_for(call)
    return json_response(
        {
            "window": window_document(found.row),
            "confirmed_window": confirmed_window,
            "target": found.report["target"],
            "nodes": [node.document() for node in drawn.nodes],
            "edges": [edge.document() for edge in drawn.edges],
        }
    )


def graph_nodes(call: Call) -> Response:
    """Answer with the nodes for Grafana."""
    _, (_, drawn) = _asked_for(call)
    return json_response(node_rows(drawn))


def graph_edges(call: Call) -> Response:
    """Answer with the edges for Grafana."""
    _, (_, drawn) = _asked_for(call)
    return json_response(edge_rows(drawn))


def _asked_for(call: Call) -> tuple[WindowDetail, tuple[int | None, ChangedGraph]]:
    found = find_window(call, call.optional_number("window"))
    window, decision = _confirming(call, found)
    return found, (window, changed_graph(found.report, decision))


def _confirming(call: Call, found: WindowDetail) -> tuple[int | None, Mapping[str, Any]]:
    """Return the decision that names the changes of a window's episode, and whose it is."""
    decision: Mapping[str, Any] = found.report["decision"]
    if decision["edges"] or decision["nodes"]:
        return found.row.window_index, decision
    store, row = call.view.store, found.row
    episode = None if row.episode is None else store.episode(row.monitor, row.key, row.episode)
    if episode is None:
        return None, decision
    earlier = store.window(row.monitor, row.key, naming_window(store, episode, row.window_index))
    if earlier is None:
        return None, decision
    return earlier.row.window_index, earlier.report["decision"]
