from __future__ import annotations

import asyncio
import threading
from bisect import bisect_right
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest
from driftbn_service.events import Event
from driftbn_service.http.live import EventStream, Interest, message, newest_number, start_after
from driftbn_service.http.service import LiveSignal
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


def test_a_listener_is_woken_by_another_thread() -> None:
    async def wait() -> bool:
        with signal.follow() as listener:
            threading.Thread(target=signal.wake).start()
            return await listener.wait(20)

    signal = LiveSignal()
    assert asyncio.run(wait())
    assert signal.n_listeners == 0


def test_a_listener_that_is_not_woken_returns_in_time() -> None:
    async def wait() -> bool:
        with signal.follow() as listener:
            return await listener.wait(0.01)

    signal = LiveSignal()
    assert not asyncio.run(wait())


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


def test_one_begins_after_what_is_known_or_with_what_comes() -> None:
    history = Numbered(4, 5, 9).store

    assert start_after(history, None) == 9
    assert start_after(history, 5) == 5
    assert start_after(history, 0) == 0
    assert start_after(history, 10_000) == 9


@pytest.mark.parametrize(
    ("interest", "wanted"),
    [
        (Interest(), True),
        (Interest("orders"), True),
        (Interest("orders", "a"), True),
        (Interest(key="a"), True),
        (Interest("orders", ""), False),
        (Interest("clicks"), False),
    ],
)
def test_events_are_chosen_by_monitor_and_key(interest: Interest, wanted: bool) -> None:
    assert interest.wants(Event("1", "t", "orders", "a", 0, {})) is wanted


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


def test_a_client_that_does_not_read_is_let_go() -> None:
    async def blocks() -> AsyncGenerator[bytes]:
        while True:
            yield b"x"

    async def run() -> None:
        async def send(sent: dict[str, Any]) -> None:
            if sent["type"] == "http.response.body":
                await asyncio.Event().wait()

        async def receive() -> dict[str, str]:
            await asyncio.Event().wait()
            raise AssertionError

        await EventStream(blocks(), 0.05, on_end=lambda: None)({"type": "http"}, receive, send)

    asyncio.run(asyncio.wait_for(run(), 60))
