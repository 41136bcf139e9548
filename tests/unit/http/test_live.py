from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest
from driftbn_service.http import LiveSignal
from driftbn_service.http.live import EventStream, message, newest_number
from driftbn_service.state import Store


class Numbered:
    """A history that has only numbers of events."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers
        self.n_asked = 0

    def events(self, after: int, limit: int) -> list[tuple[int, None]]:
        self.n_asked += 1
        first = bisect_right(self.numbers, after)
        return [(number, None) for number in self.numbers[first : first + limit]]

    @property
    def store(self) -> Store:
        return cast(Store, self)


def test_a_wake_between_two_waits_is_not_lost() -> None:
    async def wait() -> list[bool]:
        with signal.follow() as listener:
            signal.wake()
            signal.wake()
            return [await listener.wait(20), await listener.wait(0.01)]

    signal = LiveSignal()
    assert asyncio.run(wait()) == [True, False]


def test_a_signal_may_be_given_when_the_loop_has_gone() -> None:
    async def leave() -> None:
        signal.follow().__enter__()

    signal = LiveSignal()
    asyncio.run(leave())
    signal.wake()
    signal.close()
    assert signal.closed


@pytest.mark.parametrize(
    "numbers", [(), (1,), (1, 2, 3), (7,), (500_000,), tuple(range(900, 1901)), (3, 999_999_999)]
)
def test_the_newest_number_is_found_with_few_questions(numbers: tuple[int, ...]) -> None:
    history = Numbered(*numbers)

    assert newest_number(history.store) == max(numbers, default=0)
    assert history.n_asked < 200


def test_line_ends_in_texts_do_not_end_a_message() -> None:
    found = message({"text": "a\n\nevent: forged\r\n"}, event="x", id_="7")

    assert found.startswith(b"id: 7\nevent: x\ndata: ")
    assert found.count(b"\n") == 4


def test_a_stream_is_closed_whoever_ends_it() -> None:
    ended: list[str] = []

    async def blocks() -> AsyncGenerator[bytes]:
        try:
            while True:
                yield b"x"
                await asyncio.sleep(0)
        finally:
            ended.append("blocks")

    async def run() -> int:
        n_sent = 0

        async def send(_: Any) -> None:
            nonlocal n_sent
            n_sent += 1

        async def receive() -> dict[str, str]:
            while n_sent < 10:
                await asyncio.sleep(0)
            return {"type": "http.disconnect"}

        stream = EventStream(blocks(), 1.0, on_end=lambda: ended.append("stream"))
        await stream({"type": "http"}, receive, send)
        return n_sent

    assert asyncio.run(run()) >= 10
    assert ended == ["blocks", "stream"]
