"""Events as they come: server-sent events that a client can take up where it left off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from driftbn_service.events import Event
from driftbn_service.http import ServiceView
from driftbn_service.http.routes import ANSWERS, Limits, Operation, Parameter, ProblemError, Reply
from driftbn_service.state import Store

HEARTBEAT = b": still here\n\n"
"""A comment, which readers skip; proxies and dead connections notice it."""
PAGE = 100
"""Events that are read at a time."""
TELL_SECONDS = 0.25
"""Least time between two looks: many streams that publish at once make one message."""
_RETRY = b"retry: 2000\n\n"  # milliseconds after which a browser comes back
_AFTER = (
    "Number of the last event that is known; the header Last-Event-ID goes before it. Only what"
    " comes from now on is sent unless one of them is given."
)


@dataclass(frozen=True)
class Interest:
    stream: str | None = None  # the name; ``None`` for all
    key: str | None = None  # ``None`` for all

    def wants(self, event: Event) -> bool:
        return self.stream in (None, event.stream) and self.key in (None, event.key)


class Following:
    """Serves those who follow events, a bounded number at a time."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._n_clients = 0  # only the event loop counts

    async def events(  # noqa: PLR0913 - the parameters of the route
        self,
        service: ServiceView,
        request: Request,
        stream: Annotated[str | None, Parameter("Only events of this stream.")] = None,
        key: Annotated[str | None, Parameter("Only events of this key.")] = None,
        after: Annotated[int | None, Parameter(_AFTER)] = None,
        last_event_id: Annotated[
            int | None, Parameter("Number of the last event that is known.", header=True)
        ] = None,
    ) -> Response:
        """Send events as server-sent events, each a CloudEvent under its type.

        With ``stream``, also a message ``window`` for the newest window of that monitor, else one
        ``published`` when there is anything new.
        """
        if self._n_clients >= self._limits.max_live_clients or service.live.closed:
            raise ProblemError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "busy",
                f"{self._n_clients} clients follow events, of {self._limits.max_live_clients}"
                " allowed, or the service is being stopped: come back later",
                headers={"retry-after": "5"},
            )
        if request.method == "HEAD":
            return Response(media_type=EventStream.media_type)
        self._n_clients += 1
        known = after if last_event_id is None else last_event_id
        try:
            start = await run_in_threadpool(start_after, service.store, known)
        except BaseException:
            self._left()
            raise
        blocks = self._blocks(service, Interest(stream, key), start)
        return EventStream(blocks, self._left)

    def _left(self) -> None:
        self._n_clients -= 1

    async def _blocks(
        self, service: ServiceView, interest: Interest, after: int
    ) -> AsyncGenerator[bytes]:
        live, store = service.live, service.store
        yield _RETRY
        with live.follow() as news:
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
                yield await self._told(news, interest)

    async def _told(self, news: asyncio.Event, interest: Interest) -> bytes:
        """Wait for news and return what says that there are some, or that there are none."""
        try:
            await asyncio.wait_for(news.wait(), self._limits.heartbeat_seconds)
        except TimeoutError:
            return HEARTBEAT
        news.clear()
        await asyncio.sleep(TELL_SECONDS)
        return b"" if interest.stream is not None else message({}, event="published")


def start_after(store: Store, known: int | None) -> int:
    """Return the number of the event to begin after: the last known one, or the newest.

    A number that the history has never given is of another history, of which nothing is left.
    """
    newest = store.last_event()
    return newest if known is None else min(known, newest)


def newest_window(store: Store, interest: Interest) -> dict[str, Any] | None:
    """Return the newest window of the monitor that a client looks at, if it looks at one."""
    if interest.stream is None:
        return None
    key = interest.key or ""
    row = store.monitor(interest.stream, key)
    if row is None:
        return None
    return {"stream": interest.stream, "key": key, **ANSWERS.encode(row.last)}


def operations(limits: Limits) -> tuple[Operation, ...]:
    replies = {
        200: Reply("Events, until one side ends it.", EventStream.media_type, None),
        503: Reply("Too many follow already."),
    }
    return (Operation("/api/v1/events", Following(limits).events, replies),)


def message(data: Mapping[str, Any], *, event: str, id_: str | None = None) -> bytes:
    r"""Return one message; without an id it leaves the place to go on from as it is.

    >>> message({"window": 3}, event="window")
    b'event: window\ndata: {"window":3}\n\n'
    """
    head = b"" if id_ is None else b"id: %s\n" % id_.encode()
    return b"%sevent: %s\ndata: %s\n\n" % (head, event.encode(), orjson.dumps(data))


class EventStream(StreamingResponse):
    """Sends blocks until one side ends it, closes them then and calls ``on_end``.

    A client that does not read is not waited for here: the server closes its connection.
    """

    media_type = "text/event-stream"

    def __init__(self, blocks: AsyncGenerator[bytes], on_end: Callable[[], None]) -> None:
        # nginx would hold back what is sent.
        super().__init__(blocks, headers={"x-accel-buffering": "no"})
        self._blocks = blocks
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._on_end()
            await self._blocks.aclose()
