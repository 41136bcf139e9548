"""The windows of a monitor: one by one, in pages, and as columns for a time line."""

from __future__ import annotations

from starlette.responses import Response

from driftbn_service.endpoint.documents import edge_document, series_document, window_document
from driftbn_service.endpoint.limits import Limits
from driftbn_service.endpoint.operations import (
    Call,
    Operation,
    Parameter,
    Place,
    Reply,
    json_response,
)
from driftbn_service.endpoint.parameters import KEY, MONITOR, limit, numbered_pages
from driftbn_service.endpoint.problems import PROBLEM_TYPE, bad_value
from driftbn_service.endpoint.schemas import PROBLEM, array, page, record, ref
from driftbn_service.endpoint.views.finding import find_monitor, find_window
from driftbn_service.endpoint.views.paging import numbered_page

MAX_SERIES = 10_000
"""Windows of a time line; as columns even so many are small."""
_DEFAULT_SERIES = 2000
_UNKNOWN = Reply("There is no such monitor or window.", ref(PROBLEM), PROBLEM_TYPE)
_BASE = "/api/v1/monitors/{name}"


def operations(limits: Limits) -> tuple[Operation, ...]:
    """Return the routes of windows."""
    detail = {
        "summary": ref("Window"),
        "report": ref("Report"),
        "explanation": ref("Explanation"),
        "edges": array(ref("EdgeHistory")),
    }
    return (
        Operation(
            f"{_BASE}/windows",
            "windows",
            "Windows in short, the newest first.",
            windows,
            {200: Reply("A page of windows.", page(ref("Window"))), 404: _UNKNOWN},
            parameters=(
                MONITOR,
                KEY,
                Parameter(
                    "drift", "Whether to leave out windows without drift.", bool, default=False
                ),
                *numbered_pages(limits),
            ),
        ),
        Operation(
            f"{_BASE}/windows/{{index}}",
            "window",
            "All that is known of one window: the report and its explanation in words.",
            window,
            {200: Reply("The window.", record(detail)), 404: _UNKNOWN},
            parameters=(
                MONITOR,
                Parameter("index", "Number of the window, from 0.", int, Place.PATH),
                KEY,
            ),
        ),
        Operation(
            f"{_BASE}/series",
            "series",
            "The newest windows as columns, the oldest first: what a time line needs.",
            series,
            {200: Reply("One list a column.", ref("Series")), 404: _UNKNOWN},
            parameters=(
                MONITOR,
                KEY,
                Parameter(
                    "limit",
                    "Most windows.",
                    int,
                    default=_DEFAULT_SERIES,
                    minimum=1,
                    maximum=MAX_SERIES,
                ),
            ),
        ),
        Operation(
            f"{_BASE}/edges/{{source}}/{{target}}",
            "edge",
            "What became of an edge, in either direction, the newest first.",
            edge,
            {
                200: Reply("Its changes.", record({"items": array(ref("EdgeHistory"))})),
                404: _UNKNOWN,
            },
            parameters=(
                MONITOR,
                Parameter("source", "A field; percent-encode it.", place=Place.PATH),
                Parameter("target", "Another field; percent-encode it.", place=Place.PATH),
                KEY,
                limit(limits),
            ),
        ),
    )


def windows(call: Call) -> Response:
    """Answer with a page of windows."""
    find_monitor(call)
    most = call.number("limit")
    found = call.view.store.windows(
        call.text("name"),
        call.text("key"),
        before=call.optional_number("cursor"),
        limit=most + 1,
        drift_only=bool(call.flag("drift")),
    )
    return numbered_page([(row.window_index, window_document(row)) for row in found], most)


def window(call: Call) -> Response:
    """Answer with one window."""
    found = find_window(call, call.number("index"))
    return json_response(
        {
            "summary": window_document(found.row),
            "report": found.report,
            "explanation": found.explanation,
            "edges": [edge_document(item) for item in found.edges],
        }
    )


def series(call: Call) -> Response:
    """Answer with windows as columns."""
    find_monitor(call)
    found = call.view.store.series(call.text("name"), call.text("key"), call.number("limit"))
    return json_response(series_document(found))


def edge(call: Call) -> Response:
    """Answer with what became of an edge."""
    find_monitor(call)
    ends = call.text("source"), call.text("target")
    if ends[0] == ends[1]:
        raise bad_value("target", ends[1], "another field than the source")
    found = call.view.store.edge_history(
        call.text("name"), call.text("key"), *ends, limit=call.number("limit")
    )
    return json_response({"items": [edge_document(row) for row in found]})
