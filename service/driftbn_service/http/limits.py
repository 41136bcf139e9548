"""What a request may cost: bytes, bytes after decompression, and time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

import pyarrow as pa
from starlette.requests import ClientDisconnect, Request

from driftbn_service.http.problems import ProblemError, bad_value
from driftbn_service.records.formats import inflated

ENCODINGS = ("gzip", "zstd")
"""Compressions of a body that are understood."""
MIN_RATE: Final = 500
"""Bytes a second that a client must send or read at least, as in Apache's mod_reqtimeout."""
RETRY_SECONDS: Final = 1
"""When to try again if too many send at once, or too much waits."""

_CODECS = {"": None, "identity": None, "gzip": "gzip", "x-gzip": "gzip", "zstd": "zstd"}


@dataclass(frozen=True)
class Limits:
    max_body_bytes: int = 32 << 20  # as sent
    max_decoded_bytes: int = 64 << 20  # after decompression
    max_page: int = 1000  # most items of a page
    # Bodies that are there and are taken in at a time; few of them are decoded at a time.
    max_ingests: int = 16
    max_live_clients: int = 64  # clients that follow events at a time
    # A body that has not ended must bring ``body_seconds * min_rate`` bytes in this time, again and
    # again.
    body_seconds: float = 20.0
    min_rate: int = MIN_RATE  # bytes a second
    heartbeat_seconds: float = 15.0  # silence after which a follower of events gets a sign of life
    send_seconds: float = 30.0  # time after which a follower of events that does not read is let go

    @property
    def max_held_bytes(self) -> int:
        """Bytes of all bodies that are held at a time, be they on their way or being taken in."""
        return 8 * self.max_body_bytes


@dataclass(frozen=True)
class SentBody:
    data: bytes = field(repr=False)
    codec: str | None = None  # how it is compressed; ``None`` if it is not

    def plain(self, max_bytes: int) -> bytes:
        """Return the bytes decompressed.

        Raises ``ProblemError`` if they are too large then, or not in this compression.
        """
        return self.data if self.codec is None else decompressed(self.data, self.codec, max_bytes)


@dataclass(eq=False)
class _Incoming:
    began: float
    data: bytearray = field(default_factory=bytearray)
    n_held: int = 0
    crowded_out: bool = False

    def cost(self, now: float) -> float:
        """Return what it has cost so far: bytes times seconds."""
        return self.n_held * (now - self.began)


class Reception:
    """Receives bodies: each at a decent rate, and all of them in a bounded memory.

    Not their number is bounded but what they hold, so that nobody keeps others out by sending next
    to nothing. When the memory is full, the body goes that has cost the most bytes times seconds:
    one that was sent quickly, small or large, outlives those that are held back. ``n_held`` counts
    the bytes of bodies now; only the event loop changes it.
    """

    def __init__(self, limits: Limits) -> None:
        self.n_held = 0
        self._limits = limits
        self._incoming: list[_Incoming] = []

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[SentBody]:
        """Give the body of a request, which counts as held until the context ends.

        Raises ``ProblemError`` if it is too large, in an unknown compression, too slow, or cut off,
        or if others need the memory more.
        """
        codec = _codec(request)
        _check_declared_length(request, self._limits.max_body_bytes)
        body = _Incoming(asyncio.get_running_loop().time())
        try:
            yield SentBody(await self._received(request, body), codec)
        finally:
            self.n_held -= body.n_held

    async def _received(self, request: Request, body: _Incoming) -> bytes:
        self._incoming.append(body)
        try:
            await self._fill(body, request)
        except TimeoutError as error:
            raise _too_slow(self._limits) from error
        except ClientDisconnect as error:
            raise ProblemError(
                HTTPStatus.BAD_REQUEST, "cut-off", "the connection ended before the body did"
            ) from error
        finally:
            self._incoming.remove(body)
        whole = bytes(body.data)
        body.data.clear()
        return whole

    async def _fill(self, body: _Incoming, request: Request) -> None:
        seconds = self._limits.body_seconds
        clock = asyncio.get_running_loop().time
        n_due = step = int(seconds * self._limits.min_rate)
        async with asyncio.timeout(seconds) as patience:
            async for block in request.stream():
                self._hold(body, len(block), clock())
                body.data += block
                if body.n_held >= n_due:
                    n_due = body.n_held + step
                    patience.reschedule(clock() + seconds)

    def _hold(self, body: _Incoming, n_bytes: int, now: float) -> None:
        """Count more bytes of a body, and let others go if they do not fit."""
        if body.n_held + n_bytes > self._limits.max_body_bytes:
            raise _too_large("the body", self._limits.max_body_bytes, "max_body_bytes")
        while not body.crowded_out and self.n_held + n_bytes > self._limits.max_held_bytes:
            held = (item for item in self._incoming if item.n_held)
            self._let_go(max(held, key=lambda item: item.cost(now), default=body))
        if body.crowded_out:
            raise _crowded_out(self._limits.max_held_bytes)
        body.n_held += n_bytes
        self.n_held += n_bytes

    def _let_go(self, body: _Incoming) -> None:
        """Free the memory at once; the sender is told when it sends on, or does not."""
        body.crowded_out = True
        self.n_held -= body.n_held
        body.n_held = 0
        body.data.clear()


def decompressed(body: bytes, codec: str, max_bytes: int) -> bytes:
    """Return a body decompressed, and stop at once when it grows too large.

    Raises ``ProblemError`` if it is too large, or not in this compression.

    >>> import gzip
    >>> decompressed(gzip.compress(b"abc"), "gzip", 10)
    b'abc'
    """
    blocks: list[bytes] = []
    n_bytes = 0
    try:
        for block in inflated(body, codec):
            n_bytes += len(block)
            if n_bytes > max_bytes:
                raise _too_large("the decompressed body", max_bytes, "max_decoded_bytes")
            blocks.append(block)
    except (OSError, pa.ArrowException) as error:
        raise ProblemError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "bad-compression",
            f"the body is not {codec}: {error}",
        ) from error
    return b"".join(blocks)


def _codec(request: Request) -> str | None:
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in _CODECS:
        problem = bad_value("Content-Encoding", encoding, f"one of {', '.join(ENCODINGS)}, or none")
        problem.status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
        problem.headers["accept-encoding"] = ", ".join(ENCODINGS)
        raise problem
    return _CODECS[encoding]


def _check_declared_length(request: Request, max_bytes: int) -> None:
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise _too_large("the body", max_bytes, "max_body_bytes")


def _too_large(what: str, max_bytes: int, setting: str) -> ProblemError:
    return ProblemError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "too-large",
        f"{what} is larger than {max_bytes} bytes: send fewer records at a time, or raise"
        f" endpoint.{setting}",
        members={"max_bytes": max_bytes},
    )


def _too_slow(limits: Limits) -> ProblemError:
    return ProblemError(
        HTTPStatus.REQUEST_TIMEOUT,
        "too-slow",
        f"the body came at less than {limits.min_rate} bytes a second for"
        f" {limits.body_seconds:g} seconds: send all of it at once",
        headers={"connection": "close"},
    )


def _crowded_out(max_bytes: int) -> ProblemError:
    return ProblemError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "busy",
        f"all bodies that are being sent have more than {max_bytes} bytes together, and this one"
        " has held much for long: send again after the seconds in Retry-After",
        headers={"retry-after": str(RETRY_SECONDS)},
    )
