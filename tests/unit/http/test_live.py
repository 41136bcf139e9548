from __future__ import annotations

import asyncio

from driftbn_service.http import LiveSignal
from driftbn_service.http.live import message


def test_a_wake_between_two_waits_is_not_lost() -> None:
    async def wait() -> bool:
        with signal.follow() as news:
            signal.wake()
            signal.wake()
            return await asyncio.wait_for(news.wait(), 20)

    signal = LiveSignal()
    assert asyncio.run(wait())
    assert signal.n_followers == 0


def test_a_signal_may_be_given_when_the_loop_has_gone() -> None:
    async def leave() -> None:
        signal.follow().__enter__()

    signal = LiveSignal()
    asyncio.run(leave())
    signal.wake()
    signal.close()
    assert signal.closed


def test_line_ends_in_texts_do_not_end_a_message() -> None:
    found = message({"text": "a\n\nevent: forged\r\n"}, event="x", id_="7")

    assert found.startswith(b"id: 7\nevent: x\ndata: ")
    assert found.count(b"\n") == 4
