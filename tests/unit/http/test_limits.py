from __future__ import annotations

import asyncio
import gzip
import selectors
import zlib
from collections.abc import Coroutine, Iterable
from contextlib import AsyncExitStack
from typing import Any

import pyarrow as pa
import pytest
from driftbn_service.http.ingest import Reception
from driftbn_service.http.routes import ProblemError
from starlette.requests import Request

from tests.http_service import Limits

SMALL = Limits(max_body_bytes=1000, max_decoded_bytes=2000, body_seconds=10, min_rate=20)


class LeapingClock(selectors.DefaultSelector):
    """Waits for nothing but time, which it lets pass at once."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += timeout or 0.0
        return super().select(0)


class LeapingLoop(asyncio.SelectorEventLoop):
    """An event loop in which hours pass in no time."""

    def __init__(self) -> None:
        self._clock = LeapingClock()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now


def run(work: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        return runner.run(work)


def zstd(data: bytes) -> bytes:
    return pa.Codec("zstd").compress(data, asbytes=True)


def request_of(blocks: Iterable[bytes], headers: dict[str, str] | None = None) -> Request:
    """Return a request whose body comes at once, in blocks."""
    return slow_request(*((0, block) for block in blocks), headers=headers)


def slow_request(
    *blocks: tuple[float, bytes], ends: bool = True, headers: dict[str, str] | None = None
) -> Request:
    """Return a request whose blocks come after so many seconds each; it may never end."""

    async def receive() -> dict[str, object]:
        for seconds, block in waiting:
            await asyncio.sleep(seconds)
            return {"type": "http.request", "body": block, "more_body": True}
        if not ends:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": b"", "more_body": False}

    waiting = iter(blocks)
    raw = [(name.lower().encode(), text.encode()) for name, text in (headers or {}).items()]
    return Request({"type": "http", "method": "POST", "headers": raw}, receive)


async def received(reception: Reception, request: Request) -> bytes:
    async with reception.body(request) as body:
        return body.data


def read(request: Request, limits: Limits = SMALL) -> bytes:
    async def plain() -> bytes:
        async with Reception(limits).body(request) as body:
            return body.plain(limits.max_decoded_bytes)

    found: bytes = run(plain())
    return found


def problem_of(request: Request, limits: Limits = SMALL) -> ProblemError:
    with pytest.raises(ProblemError) as caught:
        read(request, limits)
    return caught.value


# --- Slow bodies, and many of them ---


@pytest.mark.parametrize("quick", [b"", b"x" * 500], ids=["from the start", "after a quick start"])
def test_a_byte_a_second_is_refused(quick: bytes) -> None:
    problem = problem_of(slow_request((0, quick), *[(1, b"x")] * 400))

    assert problem.status == 408
    assert "less than 20 bytes a second for 10 seconds" in problem.detail


def test_a_body_may_pause_for_as_long_as_it_is_waited_for() -> None:
    assert len(read(slow_request((9, b"x" * 500), (9, b"x" * 500)))) == 1000


def answers_of(reception: Reception, requests: list[Request]) -> asyncio.Future[list[Any]]:
    """Begin to receive all of them; problems are among the answers."""
    bodies = (received(reception, request) for request in requests)
    return asyncio.gather(*bodies, return_exceptions=True)


def test_bodies_that_are_held_back_take_a_bounded_memory() -> None:
    """Each sends most of the largest body at once, and then no more than it must."""
    reception = Reception(SMALL)

    async def attack() -> tuple[int, list[ProblemError]]:
        blocks = (0, b"x" * 600), (9, b"x" * 200), (9, b"x" * 199)
        answers = answers_of(reception, [slow_request(*blocks, ends=False) for _ in range(50)])
        most = 0
        while not answers.done():
            most = max(most, reception.n_held)
            await asyncio.sleep(0.5)
        return most, answers.result()

    most, problems = run(attack())

    assert SMALL.max_held_bytes - SMALL.max_body_bytes < most <= SMALL.max_held_bytes
    assert {problem.status for problem in problems} == {408, 503}
    assert reception.n_held == 0


def test_quick_bodies_are_taken_while_others_are_held_back() -> None:
    async def attack() -> tuple[list[bytes], list[ProblemError]]:
        reception = Reception(SMALL)
        blocks = (0, b"x" * 999), (9, b"x")
        answers = answers_of(reception, [slow_request(*blocks, ends=False) for _ in range(8)])
        await asyncio.sleep(1)
        quick = [await received(reception, request_of([b"y" * 500] * 2)) for _ in range(45)]
        return quick, await answers

    quick, problems = run(attack())

    assert quick == [b"y" * 1000] * 45
    assert sorted(problem.status for problem in problems) == [408] * 7 + [503]


def test_bodies_that_are_being_taken_in_count_as_well() -> None:
    async def fill() -> bytes:
        reception = Reception(SMALL)
        async with AsyncExitStack() as stack:
            for _ in range(SMALL.max_held_bytes // 1000):
                await stack.enter_async_context(reception.body(request_of([b"x" * 1000])))
            with pytest.raises(ProblemError, match="more than 8000 bytes together") as caught:
                await received(reception, request_of([b"x"]))
        assert (caught.value.status, caught.value.headers) == (503, {"retry-after": "1"})
        return await received(reception, request_of([b"x" * 1000]))

    assert len(run(fill())) == 1000


def members(data: bytes) -> bytes:
    """Return gzip of several members."""
    return gzip.compress(data[:7]) + gzip.compress(data[7:])


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("gzip", members), ("ZSTD", zstd)]
)
def test_compressed_bodies_are_decompressed(encoding: str, pack: object) -> None:
    packed = pack(b"hello" * 100)  # type: ignore[operator]

    assert read(request_of([packed], {"Content-Encoding": encoding})) == b"hello" * 100


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
