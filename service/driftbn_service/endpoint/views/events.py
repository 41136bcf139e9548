"""Events as they come: server-sent events that a client can take up where it left off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from driftbn_service.endpoint.documents import window_document
from driftbn_service.endpoint.event_stream import HEARTBEAT, EventStream, message
from driftbn_service.endpoint.limits import Limits
from driftbn_service.endpoint.live import Listener
from driftbn_service.endpoint.operations import Call, Operation, Parameter, Reply
from driftbn_service.endpoint.problems import PROBLEM_TYPE, ProblemError
from driftbn_service.endpoint.schemas import PROBLEM, ref
from driftbn_service.events import Event
from driftbn_service.store import Store

PAGE = 100
"""Events that are read at a time."""
TELL_SECONDS = 0.25
"""Least time between two looks: many streams that publish at once make one message."""
_RETRY = b"retry: 2000\n\n"  # milliseconds after which a browser comes back
_AFTER = Parameter(
    "after",
    "Number of the last event that is known; the header Last-Event-ID goes before it. Only what"
    " comes from now on is sent unless one of them is given.",
    int,
)


@dataclass(frozen=True)
class Interest:
    """Whose events a client wants.

    Parameters
    ----------
    monitor
        The name; ``None`` for all.
    key
        The key; ``None`` for all.
    """

    monitor: str | None = None
    key: str | None = None

    def wants(self, event: Event) -> bool:
        """Whether an event is among them."""
        return self.monitor in (None, event.monitor) and self.key in (None, event.key)


def operations(limits: Limits) -> tuple[Operation, ...]:
    """Return the route of events."""
    return (
        Operation(
            "/api/v1/events",
            "events",
            "Events as server-sent events, each a CloudEvent under its type; with `monitor`, also a"
            " message `window` for the newest window of that monitor, else one `published` when"
            " there is anything new.",
            Following(limits).follow,
            {
                200: Reply("Events, until one side ends it.", media_type="text/event-stream"),
                503: Reply("Too many follow already.", ref(PROBLEM), PROBLEM_TYPE),
            },
            parameters=(
                Parameter("monitor", "Only events of this monitor."),
                Parameter("key", "Only events of this key."),
                _AFTER,
            ),
            headers={"Last-Event-ID": "Number of the last event that is known."},
        ),
    )


class Following:
    """Serves those who follow events, a bounded number at a time.

    Parameters
    ----------
    limits
        How many, and how patient it is.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._n_clients = 0  # only the event loop counts

    async def follow(self, call: Call) -> Response:
        """Answer with events until one side ends it."""
        if self._n_clients >= self._limits.max_live_clients or call.view.live.closed:
            raise ProblemError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "busy",
                f"{self._n_clients} clients follow events, of {self._limits.max_live_clients}"
                " allowed, or the service is being stopped: come back later",
                headers={"retry-after": "5"},
            )
        known = _known(call)
        if call.request.method == "HEAD":
            return Response(media_type=EventStream.media_type)
        self._n_clients += 1
        try:
            start = await run_in_threadpool(start_after, call.view.store, known)
        except BaseException:
            self._left()
            raise
        interest = Interest(call.optional_text("monitor"), call.optional_text("key"))
        blocks = self._blocks(call, interest, start)
        return EventStream(blocks, self._limits.send_seconds, on_end=self._left)

    def _left(self) -> None:
        self._n_clients -= 1

    async def _blocks(self, call: Call, interest: Interest, after: int) -> AsyncGenerator[bytes]:
        live, store = call.view.live, call.view.store
        yield _RETRY
        with live.follow() as listener:
            window = await run_in_threadpool(newest_window, store, interest)
            while not live.closed:
                events = await run_in_threadpool(store.events, after, PAGE)
                for number, event in events:
                    after = number
                    if interest.wants(event):
                        yield message(event.document, event=event.type, id_=str(number))
                if len(events) == PAGE:
                    continue
                newest = await run_in_threadpool(newest_window, store, interest)
                if newest is not None and newest != window:
                    yield message(newest, event="window")
                window = newest
                yield await self._news(listener, interest)

    async def _news(self, listener: Listener, interest: Interest) -> bytes:
        """Wait for news and return what says that there are some, or that there are none."""
        if not await listener.wait(self._limits.heartbeat_seconds):
            return HEARTBEAT
        await asyncio.sleep(TELL_SECONDS)
        return b"" if interest.monitor is not None else message({}, event="published")


def start_after(store: Store, known: int | None) -> int:
    """Return the number of the event to begin after: the last known one, or the newest.

    A number that the history has never given is of another history, of which nothing is left.
    """
    newest = newest_number(store)
    return newest if known is None else min(known, newest)


def newest_number(store: Store) -> int:
    """Return the number of the newest event; 0 if there is none."""
    found, step = 0, 1
    while step:
        later = store.events(found + step - 1, 1)
        if later:
            found, step = later[0][0], step * 2
        else:
            step //= 2
    return found


def newest_window(store: Store, interest: Interest) -> dict[str, Any] | None:
    """Return the newest window of the monitor that a client looks at, if it looks at one."""
    if interest.monitor is None:
        return None
    key = interest.key or ""
    row = store.monitor(interest.monitor, key)
    if row is None:
        return None
    return {"monitor": interest.monitor, "key": key, **window_document(row.last)}


def _known(call: Call) -> int | None:
    header = call.request.headers.get("last-event-id")
    if not header:
        return call.optional_number("after")
    number = _AFTER.parse(header)
    assert isinstance(number, int)
    return number
