"""Server-sent events: an answer that goes on until one of the two sides ends it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from http import HTTPStatus
from typing import Any

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

HEARTBEAT = b": still here\n\n"
"""A comment, which readers skip; proxies and dead connections notice it."""


def message(data: Mapping[str, Any], *, event: str, id_: str | None = None) -> bytes:
    r"""Return one message; without an id it leaves the place to go on from as it is.

    Examples
    --------
    >>> message({"window": 3}, event="window")
    b'event: window\ndata: {"window":3}\n\n'
    """
    head = b"" if id_ is None else b"id: %s\n" % id_.encode()
    return b"%sevent: %s\ndata: %s\n\n" % (head, event.encode(), orjson.dumps(data))


class EventStream(Response):
    """Sends blocks as they come, until they end, the client goes away or does not read.

    Parameters
    ----------
    blocks
        What to send; closed at the end in any case.
    send_seconds
        How long a client may take to make room for a block.
    on_end
        Called once it is over.
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
        await send({**start, "headers": self.raw_headers})
        async with aclosing(self._blocks) as blocks:
            async for block in blocks:
                if not block:
                    continue
                try:
                    async with asyncio.timeout(self._send_seconds):
                        await _send_block(send, block)
                except TimeoutError:
                    return
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send_block(send: Send, block: bytes) -> None:
    await send({"type": "http.response.body", "body": block, "more_body": True})


async def _gone(receive: Receive) -> None:
    """Return when the client has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass
