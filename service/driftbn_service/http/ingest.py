"""Records sent in: all of a body is taken, or nothing of it."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated, Final

import pyarrow as pa
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request

from driftbn.errors import DataError
from driftbn_service.http import NotNowError, ServiceView, StreamInfo
from driftbn_service.http.api import STREAM, Name, find_stream, unknown_monitor
from driftbn_service.http.routes import (
    RETRY_SECONDS,
    Limits,
    Operation,
    Parameter,
    Problem,
    ProblemError,
    Reply,
    bad_value,
)
from driftbn_service.records import Decoded, Decoder, Rejected
from driftbn_service.records.formats import TableFormat, inflated
from driftbn_service.records.rows import Problem as RecordProblem
from driftbn_service.records.rows import Undecoded, one_table
from driftbn_service.state import JournalError, JournalFullError, KeyConflictError

logger = logging.getLogger("driftbn.service.http")

ENCODINGS = ("gzip", "zstd")
"""Compressions of a body that are understood."""
_CODECS = {"": None, "identity": None, "gzip": "gzip", "x-gzip": "gzip", "zstd": "zstd"}


@dataclass(frozen=True)
class SentBody:
    data: bytes = field(repr=False)
    codec: str | None = None  # how it is compressed; ``None`` if it is not

    def plain(self, max_bytes: int) -> bytes:
        """Return the bytes decompressed.

        Raises ``ProblemError`` if they are too large then, or not in this compression.
        """
        if self.codec is None:
            return self.data
        blocks: list[bytes] = []
        n_bytes = 0
        try:
            for block in inflated(self.data, self.codec):
                n_bytes += len(block)
                if n_bytes > max_bytes:  # told at once, before more of it is made
                    raise _too_large("the decompressed body", max_bytes, "max_decoded_bytes")
                blocks.append(block)
        except (OSError, pa.ArrowException) as error:
            raise ProblemError(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                "bad-compression",
                f"the body is not {self.codec}: {error}",
            ) from error
        return b"".join(blocks)


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


CONTENT_TYPES: Final = {
    "application/x-ndjson": (TableFormat.NDJSON, "One JSON object a line."),
    "application/json": (TableFormat.JSON, "One JSON object, or an array of them."),
    "text/csv": (TableFormat.CSV, "With a header."),
    "application/vnd.apache.arrow.stream": (TableFormat.ARROW, "An Arrow IPC stream."),
    "application/vnd.apache.parquet": (TableFormat.PARQUET, "A Parquet file."),
}
"""What a body may be; a browser sends none of them to another site without asking it first."""
MAX_ROW_ERRORS: Final = 100
"""Bad records that are told; at so many of them a body is read no further."""
MAX_DECODINGS: Final = 2
"""Bodies that are decoded at a time; each may need several times its size."""

_KEY_MEANING: Final = (
    "Up to 255 visible ASCII characters: a body sent again under the same key is taken once."
)
_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}", re.ASCII)
_LINE_ENDS: Final = bytes.maketrans(b"\r\n", b"  ")


@dataclass(frozen=True)
class Taken:
    """They are on disk and will be worked through."""

    accepted: int
    sequence: int
    duplicate: bool


@dataclass(frozen=True)
class RowError:
    """A record that cannot be read."""

    place: str
    reason: str
    detail: str


@dataclass(frozen=True)
class BadRecords(Problem):
    """There are no records, or some cannot be read: nothing was taken."""

    errors: tuple[RowError, ...]
    n_rejected: int


class Ingest:
    """Takes records: a bounded number of bodies at a time, counted from when they are there."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._reception = Reception(limits)
        self._n_running = 0  # only the event loop counts
        self._decoding = threading.BoundedSemaphore(MAX_DECODINGS)

    async def ingest(
        self,
        service: ServiceView,
        request: Request,
        name: Name,
        idempotency_key: Annotated[str | None, Parameter(_KEY_MEANING, header=True)] = None,
    ) -> Taken:
        """Take records: all of them, or none if one of them cannot be read."""
        stream = _stream(service, name)
        kind = _kind(request)
        if idempotency_key is not None and not _KEY.fullmatch(idempotency_key):
            raise bad_value("Idempotency-Key", idempotency_key, "1 to 255 visible ASCII characters")
        async with self._reception.body(request) as body:
            with self._slot():
                sent = (idempotency_key, body)
                return await run_in_threadpool(self._taken, service, stream, kind, sent)

    @contextmanager
    def _slot(self) -> Iterator[None]:
        if self._n_running >= self._limits.max_ingests:
            raise _later(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "busy",
                f"{self._limits.max_ingests} bodies are being taken in, and no more at a time",
            )
        self._n_running += 1
        try:
            yield
        finally:
            self._n_running -= 1

    def _taken(
        self,
        service: ServiceView,
        stream: StreamInfo,
        kind: TableFormat,
        sent: tuple[str | None, SentBody],
    ) -> Taken:
        key, body = sent
        with self._decoding:
            plain = body.plain(self._limits.max_decoded_bytes)
            table = table_of(stream, kind, plain, self._limits.max_decoded_bytes)
            digest = hashlib.sha256(kind.value.encode() + b"\0" + plain).digest()
            with _told():
                accepted = service.ingest(stream.name, table, key, digest)
        return Taken(accepted.n_records, accepted.sequence, accepted.duplicate)


def table_of(
    stream: StreamInfo, kind: TableFormat, body: bytes, max_decoded_bytes: int
) -> pa.Table:
    """Return the records of a body.

    Raises ``ProblemError`` if there are none, or one of them cannot be read.
    """
    if not body.strip():
        raise _unusable("empty", "the body is empty: there must be at least one record")
    if kind is TableFormat.JSON and body.lstrip()[:1] == b"{":
        # One object on several lines is one line of NDJSON: no text in it has a line end.
        kind, body = TableFormat.NDJSON, body.translate(_LINE_ENDS)
    decoder = Decoder(
        max_record_bytes=stream.max_record_bytes,
        max_fields=stream.max_fields,
        max_decoded_bytes=max_decoded_bytes,
        max_rejected=MAX_ROW_ERRORS,
    )
    decoded = decoder.decode(Undecoded(body, kind, _place))
    if decoded.rejected:
        raise _rejected(decoded)
    if not decoded.n_rows:
        raise _unusable("empty", "there is no record in the body: there must be at least one")
    try:
        return one_table(decoded.batches, stream.max_fields)
    except RecordProblem as problem:
        rejected = Rejected(_place(0, 0), problem.reason, problem.detail, b"")
        raise _rejected(Decoded((), 0, (rejected,))) from problem
    except DataError as error:
        raise _unusable("bad-records", str(error)) from error


def operations(limits: Limits) -> tuple[Operation, ...]:
    return (
        Operation(
            f"{STREAM}/records",
            Ingest(limits).ingest,
            _REFUSALS,
            method="POST",
            status=HTTPStatus.ACCEPTED,
            bodies={name: text for name, (_, text) in CONTENT_TYPES.items()},
            headers={"Content-Encoding": "gzip, zstd or none."},
        ),
    )


def _stream(service: ServiceView, name: str) -> StreamInfo:
    stream = find_stream(service, name)
    if stream is None:
        raise unknown_monitor(name)
    if stream.source != "http":
        detail = (
            f"stream {name!r} gets its records from {stream.source}: only one with source.kind ="
            ' "http" takes them here'
        )
        raise ProblemError(HTTPStatus.CONFLICT, "not-http", detail)
    if stream.state == "failed":
        detail = f"stream {name!r} has failed and takes no records: {stream.trouble}"
        raise ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, "failed", detail)
    return stream


def _kind(request: Request) -> TableFormat:
    content_type = request.headers.get("content-type", "")
    name = content_type.partition(";")[0].strip().lower()
    if name not in CONTENT_TYPES:
        problem = bad_value("Content-Type", content_type, f"one of {', '.join(CONTENT_TYPES)}")
        problem.status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
        problem.headers["accept-post"] = ", ".join(CONTENT_TYPES)
        raise problem
    return CONTENT_TYPES[name][0]


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except KeyConflictError as error:
        raise ProblemError(
            HTTPStatus.CONFLICT,
            "key-conflict",
            f"Idempotency-Key = {error.key!r} was used for other records: choose another one",
        ) from error
    except JournalFullError as error:
        detail = (
            f"{error.n_pending_bytes} bytes wait to be worked through, of"
            f" {error.max_pending_bytes} allowed (source.max_pending_bytes)"
        )
        raise _later(HTTPStatus.TOO_MANY_REQUESTS, "full", detail) from error
    except (JournalError, NotNowError) as error:
        logger.warning("records were not taken: %s", error)
        detail = "the service cannot store records now; its log says more"
        raise _later(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", detail) from error


def _rejected(decoded: Decoded) -> ProblemError:
    errors = [
        {"place": item.place, "reason": item.reason.value, "detail": item.detail}
        for item in decoded.rejected[:MAX_ROW_ERRORS]
    ]
    first = errors[0]
    n_rejected = decoded.n_rejected
    if n_rejected < MAX_ROW_ERRORS:
        counted = f"{n_rejected} of {n_rejected + decoded.n_rows} records"
    else:
        counted = f"{n_rejected} records or more"
    return ProblemError(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "bad-records",
        f"{counted} cannot be read, and none was taken;"
        f" the first is at {first['place']}: {first['detail']}",
        members={"errors": errors, "n_rejected": n_rejected},
    )


def _unusable(kind: str, detail: str) -> ProblemError:
    members = {"errors": [], "n_rejected": 0}
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, kind, detail, members=members)


def _later(status: HTTPStatus, kind: str, detail: str) -> ProblemError:
    return ProblemError(
        status,
        kind,
        f"{detail}: send again after the seconds in Retry-After",
        headers={"retry-after": str(RETRY_SECONDS)},
    )


def _place(record_number: int, _: int) -> str:
    return f"record {record_number + 1}"


_REFUSALS: Final = {
    404: Reply("There is no such stream."),
    408: Reply("The body was not sent in time."),
    409: Reply("The stream gets its records elsewhere, or the key was used for other records."),
    413: Reply("The body is too large, before or after decompression."),
    415: Reply("The content type or its compression is unknown."),
    422: Reply("There are no records, or some cannot be read.", type_=BadRecords),
    429: Reply("Too much waits to be worked through."),
    503: Reply("Too many send at once, records cannot be stored now, or the stream has failed."),
}
