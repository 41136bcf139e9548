from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Iterable

import pyarrow as pa
import pytest
from starlette.requests import Request

from service.endpoint.limits import Limits, decompressed, read_body
from service.endpoint.problems import ProblemError

SMALL = Limits(max_body_bytes=1000, max_decoded_bytes=2000, body_seconds=0.2)


def zstd(data: bytes) -> bytes:
    return pa.Codec("zstd").compress(data, asbytes=True)


def request_of(
    blocks: Iterable[bytes], headers: dict[str, str] | None = None, *, ends: bool = True
) -> Request:
    """Return a request whose body comes in blocks, and never ends if not ``ends``."""
    messages = [{"type": "http.request", "body": block, "more_body": True} for block in blocks]
    if ends:
        messages.append({"type": "http.request", "body": b"", "more_body": False})
    waiting = iter(messages)

    async def receive() -> dict[str, object]:
        for message in waiting:
            return message
        await asyncio.Event().wait()
        raise AssertionError

    raw = [(name.lower().encode(), text.encode()) for name, text in (headers or {}).items()]
    return Request({"type": "http", "method": "POST", "headers": raw}, receive)


def read(request: Request, limits: Limits = SMALL) -> bytes:
    return asyncio.run(read_body(request, limits)).plain(limits.max_decoded_bytes)


def problem_of(request: Request, limits: Limits = SMALL) -> ProblemError:
    with pytest.raises(ProblemError) as caught:
        read(request, limits)
    return caught.value


def test_a_body_comes_in_blocks() -> None:
    assert read(request_of([b"ab", b"", b"cd"])) == b"abcd"


def test_a_body_of_just_the_limit_is_taken() -> None:
    assert len(read(request_of([b"x" * 500, b"x" * 500]))) == 1000


def test_a_declared_length_above_the_limit_is_refused_before_reading() -> None:
    endless = request_of([], {"Content-Length": "1001"}, ends=False)

    problem = problem_of(endless)

    assert problem.status == 413
    assert "endpoint.max_body_bytes" in problem.detail


def test_a_chunked_body_is_refused_where_it_passes_the_limit() -> None:
    endless = request_of([b"x" * 600] * 2, ends=False)

    assert problem_of(endless).status == 413


def test_a_body_that_does_not_end_in_time_is_refused() -> None:
    problem = problem_of(request_of([b"x"], ends=False))

    assert problem.status == 408
    assert problem.headers["connection"] == "close"


def test_a_client_that_goes_away_is_no_mistake_of_the_service() -> None:
    async def receive() -> dict[str, object]:
        return {"type": "http.disconnect"}

    request = Request({"type": "http", "method": "POST", "headers": []}, receive)

    assert problem_of(request).kind == "cut-off"


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("ZSTD", zstd)])
def test_compressed_bodies_are_decompressed(encoding: str, pack: object) -> None:
    packed = pack(b"hello" * 100)  # type: ignore[operator]

    assert read(request_of([packed], {"Content-Encoding": encoding})) == b"hello" * 100


def test_gzip_of_several_members_is_read_to_its_end() -> None:
    packed = gzip.compress(b"one") + gzip.compress(b"two")

    assert decompressed(packed, "gzip", 100) == b"onetwo"


@pytest.mark.parametrize(("codec", "pack"), [("gzip", gzip.compress), ("zstd", zstd)])
def test_a_bomb_is_cut_off(codec: str, pack: object) -> None:
    bomb = pack(b"\0" * (64 << 20))  # type: ignore[operator]
    assert len(bomb) < 100_000

    with pytest.raises(ProblemError) as caught:
        decompressed(bomb, codec, 1 << 20)

    assert caught.value.status == 413
    assert "endpoint.max_decoded_bytes" in caught.value.detail


@pytest.mark.parametrize(
    "body", [b"no gzip at all", gzip.compress(b"x" * 99, mtime=0)[:-9]], ids=["other", "cut off"]
)
def test_a_body_that_is_not_in_its_compression_is_refused(body: bytes) -> None:
    problem = problem_of(request_of([body], {"Content-Encoding": "gzip"}))

    assert problem.status == 422
    assert "gzip" in problem.detail


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "deflate"])
def test_an_unknown_compression_is_refused_with_those_that_are_known(encoding: str) -> None:
    packed = zlib.compress(b"x")

    problem = problem_of(request_of([packed], {"Content-Encoding": encoding}))

    assert problem.status == 415
    assert problem.headers["accept-encoding"] == "gzip, zstd"
    assert encoding in problem.detail
