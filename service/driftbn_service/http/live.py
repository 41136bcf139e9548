"""Events as they come: server-sent events that a client can take up where it left off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from driftbn_service.events import Event
from driftbn_service.http import Listener, ServiceView
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
        return EventStream(blocks, self._limits.send_seconds, on_end=self._left)

    def _left(self) -> None:
        self._n_clients -= 1

    async def _blocks(
        self, service: ServiceView, interest: Interest, after: int
    ) -> AsyncGenerator[bytes]:
        live, store = service.live, service.store
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
        return b"" if interest.stream is not None else message({}, event="published")


def start_after(store: Store, known: int | None) -> int:
    """Return the number of the event to begin after: the last known one, or the newest.

    A number that the history has never given is of another history, of which nothing is left.
    """
    newest = newest_number(store)
    return newest if known is None else min(known, newest)


def newest_number(store: Store) -> int:
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


class EventStream(Response):
    """Sends blocks as they come, until they end, the client goes away or does not read.

    A client may take ``send_seconds`` to make room for a block. The blocks are closed at the end in
    any case, and ``on_end`` is called.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        blocks: AsyncGenerator[bytes],
        send_seconds: float,
        *,
        on_end: Callable[[], None],
    ) -> None:
        super().__init__(status_code=HTTPStatus.OK)
        del self.headers["content-length"]
        # nginx would hold back what is sent.
        self.headers["x-accel-buffering"] = "no"
        self._blocks = blocks
        self._send_seconds = send_seconds
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until one side ends it."""
        sending = asyncio.ensure_future(self._send_all(send))
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, gone):
                task.cancel()
            await asyncio.gather(sending, gone, return_exceptions=True)
            self._on_end()
        if not sending.cancelled():
            sending.result()

    async def _send_all(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code}
        more = {"type": "http.response.body"}
        await send({**start, "headers": self.raw_headers})
        async with aclosing(self._blocks) as blocks:
            async for block in blocks:
                if not block:
                    continue
                try:
                    async with asyncio.timeout(self._send_seconds):
                        await send({**more, "body": block, "more_body": True})
                except TimeoutError:
                    return
        await send({**more, "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
