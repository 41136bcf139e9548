"""Which monitors there are, and what they say at present."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import TypeAlias

import orjson
from starlette.responses import Response

from driftbn_service.endpoint.documents import monitor_document
from driftbn_service.endpoint.limits import Limits
from driftbn_service.endpoint.operations import Call, Operation, Parameter, Reply, json_response
from driftbn_service.endpoint.parameters import KEY, MONITOR, limit
from driftbn_service.endpoint.problems import PROBLEM_TYPE, bad_value
from driftbn_service.endpoint.schemas import PROBLEM, page, ref
from driftbn_service.endpoint.view import StreamInfo
from driftbn_service.endpoint.views.finding import find_monitor
from driftbn_service.store import MonitorRow, Store

Place: TypeAlias = tuple[str, str]
"""Name and key of a monitor."""


def operations(limits: Limits) -> tuple[Operation, ...]:
    """Return the routes of monitors."""
    return (
        Operation(
            "/api/v1/monitors",
            "monitors",
            "All monitors, in the order of name and key.",
            monitors,
            {200: Reply("A page of monitors.", page(ref("Monitor")))},
            parameters=(
                Parameter("name", "Only the monitors of this stream."),
                Parameter("cursor", "Where to go on: `next` of the page before."),
                limit(limits),
            ),
        ),
        Operation(
            "/api/v1/monitors/{name}",
            "monitor",
            "One monitor.",
            monitor,
            {
                200: Reply("The monitor.", ref("Monitor")),
                404: Reply("There is no such monitor.", ref(PROBLEM), PROBLEM_TYPE),
            },
            parameters=(MONITOR, KEY),
        ),
    )


def monitors(call: Call) -> Response:
    """Answer with a page of monitors: those of the history, and streams that have none yet."""
    name, cursor, most = (
        call.optional_text("name"),
        call.optional_text("cursor"),
        call.number("limit"),
    )
    after = None if cursor is None else _place(cursor)
    store, streams = call.view.store, call.view.streams()
    rows = store.monitors(name, after=after, limit=most + 1)
    found: list[tuple[Place, MonitorRow | None]] = [((row.monitor, row.key), row) for row in rows]
    last = found[-1][0] if len(found) > most else None
    found += [
        (place, None) for place in _silent(store, streams, name) if _between(after, place, last)
    ]
    found.sort(key=lambda item: item[0])
    known = {stream.name: stream for stream in streams}
    items = [monitor_document(place[0], row, known.get(place[0])) for place, row in found[:most]]
    more = _cursor(found[most - 1][0]) if len(found) > most else None
    return json_response({"items": items, "next": more})


def monitor(call: Call) -> Response:
    """Answer with one monitor."""
    row, stream = find_monitor(call)
    return json_response(monitor_document(call.text("name"), row, stream))


def _silent(store: Store, streams: Sequence[StreamInfo], name: str | None) -> list[Place]:
    """Return the streams of which nothing is in the history yet."""
    wanted = [stream.name for stream in streams if name in (None, stream.name)]
    return [(found, "") for found in wanted if not store.monitors(found, limit=1)]


def _between(after: Place | None, place: Place, last: Place | None) -> bool:
    return (after is None or place > after) and (last is None or place < last)


def _cursor(place: Place) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(place)).decode()


def _place(cursor: str) -> Place:
    try:
        name, key = orjson.loads(base64.urlsafe_b64decode(cursor))
    except (ValueError, TypeError, binascii.Error) as error:
        raise bad_value("cursor", cursor, "`next` of the page before, as it was") from error
    return str(name), str(key)
