"""The source of Redis Streams when readers die and when they share a stream."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.services.feeder import Feeder
from tests.services.keeper import kept, seen
from tests.services.process import wait_for
from tests.services.reader import Reader
from tests.services.redis import RedisService

N_KILLS = 12


def writer(server: RedisService, stream: str) -> Any:
    client = server.client()

    def write(numbers: Sequence[int]) -> None:
        pipe = client.pipeline(transaction=False)
        for number in numbers:
            pipe.xadd(stream, {"data": b'{"i": %d}' % number})
        pipe.execute()

    return write


def source(server: RedisService, stream: str, **changes: Any) -> dict[str, Any]:
    return {"kind": "redis", "url": server.url, "stream": stream, "payload": "data", **changes}


def test_every_record_comes_once_however_often_the_reader_is_killed(
    redis_server: RedisService, unique: str, tmp_path: Path
) -> None:
    directory = tmp_path / "kept"
    moments = random.Random()
    with Feeder(writer(redis_server, unique)) as feeder:
        for _ in range(N_KILLS):
            reader = Reader(directory, source(redis_server, unique))
            reader.wait_until_open()
            time.sleep(moments.uniform(0.0, 0.7))
            reader.kill()
            if moments.random() < 0.3 and len(kept(directory, "")) > 1:
                # As if the newest checkpoint were found to be torn.
                kept(directory, "")[-1].unlink()
    assert seen(directory, ""), "no life was long enough"
    reader = Reader(directory, source(redis_server, unique))
    reader.wait_until_open()
    wait_for(lambda: len(seen(directory, "")) >= feeder.n_records, "the rest")
    reader.stop()
    assert seen(directory, "") == list(range(feeder.n_records))
    assert acknowledged(redis_server, unique) > 0


def acknowledged(server: RedisService, stream: str) -> int:
    with server.client() as client:
        return int(client.xlen(stream)) - int(client.xpending(stream, "driftbn")["pending"])


def test_two_readers_share_a_stream_and_one_takes_over_what_the_other_leaves(
    redis_server: RedisService, unique: str, tmp_path: Path
) -> None:
    names = ("one", "two")

    def start(name: str) -> Reader:
        options = source(redis_server, unique, consumer=name)
        reader = Reader(tmp_path / name, options, idle_seconds=2.0)
        reader.wait_until_open()
        return reader

    with Feeder(writer(redis_server, unique)) as feeder:
        readers = {name: start(name) for name in names}
        # With more than one checkpoint there are entries that are not yet acknowledged.
        wait_for(lambda: all(len(kept(tmp_path / name, "")) > 1 for name in names), "both read")
        readers["two"].kill()
        lost = set(seen(tmp_path / "two", ""))
        log = (tmp_path / "one").with_suffix(".log")
        wait_for(lambda: "taken over from consumer two" in log.read_text(), "a take-over")
    both = lambda: set(seen(tmp_path / "one", "")) | lost  # noqa: E731
    wait_for(lambda: len(both()) >= feeder.n_records, "the rest")
    readers["one"].stop()
    assert both() == set(range(feeder.n_records))
    mine = seen(tmp_path / "one", "")
    assert len(mine) == len(set(mine))
