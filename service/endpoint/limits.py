"""What a request may cost: bytes, bytes after decompression, and time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from http import HTTPStatus

import pyarrow as pa
from starlette.requests import ClientDisconnect, Request

from service.endpoint.problems import ProblemError, bad_value

ENCODINGS = ("gzip", "zstd")
"""Compressions of a body that are understood."""

_BLOCK_BYTES = 1 << 20
_CODECS = {"": None, "identity": None, "gzip": "gzip", "x-gzip": "gzip", "zstd": "zstd"}


@dataclass(frozen=True)
class Limits:
    """What a request may cost.

    Parameters
    ----------
    max_body_bytes, max_decoded_bytes
        Largest body as sent, and after decompression.
    max_page
        Most items of a page.
    max_ingests
        Bodies that are taken in at a time; of these few are decompressed and decoded at a time.
    max_live_clients
        Clients that follow events at a time.
    body_seconds
        Time for sending a body.
    heartbeat_seconds
        Silence after which a follower of events gets a sign of life.
    send_seconds
        Time after which a follower of events that does not read is let go.
    """

    max_body_bytes: int = 32 << 20
    max_decoded_bytes: int = 256 << 20
    max_page: int = 1000
    max_ingests: int = 16
    max_live_clients: int = 64
    body_seconds: float = 60.0
    heartbeat_seconds: float = 15.0
    send_seconds: float = 30.0


@dataclass(frozen=True)
class SentBody:
    """A body as it was sent.

    Parameters
    ----------
    data
        The bytes.
    codec
        How they are compressed; ``None`` if they are not.
    """

    data: bytes = field(repr=False)
    codec: str | None = None

    def plain(self, max_bytes: int) -> bytes:
        """Return the bytes decompressed.

        Raises
        ------
        ProblemError
            If they are too large then, or not in this compression.
        """
        return self.data if self.codec is None else decompressed(self.data, self.codec, max_bytes)


async def read_body(request: Request, limits: Limits) -> SentBody:
    """Return the body of a request.

    Raises
    ------
    ProblemError
        If it is too large, in an unknown compression, not sent in time, or cut off.
    """
    codec = _codec(request)
    _check_declared_length(request, limits.max_body_bytes)
    try:
        async with asyncio.timeout(limits.body_seconds):
            return SentBody(await _collected(request, limits.max_body_bytes), codec)
    except TimeoutError as error:
        raise _too_slow(limits.body_seconds) from error
    except ClientDisconnect as error:
        raise ProblemError(
            HTTPStatus.BAD_REQUEST, "cut-off", "the connection ended before the body did"
        ) from error


def decompressed(body: bytes, codec: str, max_bytes: int) -> bytes:
    """Return a body decompressed, and stop at once when it grows too large.

    Raises
    ------
    ProblemError
        If it is too large, or not in this compression.

    Examples
    --------
    >>> import gzip
    >>> decompressed(gzip.compress(b"abc"), "gzip", 10)
    b'abc'
    """
    blocks: list[bytes] = []
    n_bytes = 0
    try:
        with pa.CompressedInputStream(pa.BufferReader(body), codec) as stream:
            while block := stream.read(_BLOCK_BYTES):
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


async def _collected(request: Request, max_bytes: int) -> bytes:
    blocks: list[bytes] = []
    n_bytes = 0
    async for block in request.stream():
        n_bytes += len(block)
        if n_bytes > max_bytes:
            raise _too_large("the body", max_bytes, "max_body_bytes")
        blocks.append(block)
    return b"".join(blocks)


def _too_large(what: str, max_bytes: int, setting: str) -> ProblemError:
    return ProblemError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "too-large",
        f"{what} is larger than {max_bytes} bytes: send fewer records at a time, or raise"
        f" endpoint.{setting}",
        members={"max_bytes": max_bytes},
    )


def _too_slow(seconds: float) -> ProblemError:
    return ProblemError(
        HTTPStatus.REQUEST_TIMEOUT,
        "too-slow",
        f"the body was not there after {seconds:g} seconds: send fewer records at a time",
        headers={"connection": "close"},
    )
