"""The source of Redis Streams against a real server."""

from __future__ import annotations

import csv
import io
import json
import logging
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as redis_client
from driftbn_service.settings import RedisSourceSettings
from driftbn_service.sources import redis
from driftbn_service.sources.redis import RedisSource

from tests.decoding import Chunk, Lane, Position, SourceError, TableFormat
from tests.services.keeper import Keeper, seen
from tests.services.process import HOST, wait_for
from tests.services.redis import RedisService


def settings(server: RedisService, stream: str, **changes: Any) -> RedisSourceSettings:
    table = {"url": server.url, "stream": stream, "payload": "data", **changes}
    return RedisSourceSettings.model_validate(table)


def add(server: RedisService, stream: str, numbers: Iterable[int]) -> list[bytes]:
    with server.client() as client:
        pipe = client.pipeline(transaction=False)
        for number in numbers:
            pipe.xadd(stream, {"data": b'{"i": %d}' % number})
        ids: list[bytes] = pipe.execute()
    return ids


def numbers(*found: Chunk) -> list[int]:
    lines = [line for chunk in found for line in bytes(chunk.data).splitlines() if line.strip()]
    return [json.loads(line)["i"] for line in lines]


def chunks(source: RedisSource) -> Iterator[Chunk]:
    while (chunk := source.poll(0.05)) is not None:
        yield chunk


def opened(server: RedisService, stream: str, at: Position | None = None, **changes: Any) -> Any:
    source = RedisSource(settings(server, stream, **changes))
    source.open(Lane(at))
    return source


def pending(server: RedisService, stream: str) -> int:
    with server.client() as client:
        return int(client.xpending(stream, "driftbn")["pending"])


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[RedisService]:
    """A server that a test may do anything to."""
    service = RedisService(tmp_path)
    service.start()
    yield service
    service.stop()


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis, "BATCH_ENTRIES", 7)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("n_released", [0, 20])
def test_reading_goes_on_at_every_position(
    redis_server: RedisService, unique: str, n_released: int
) -> None:
    with redis_server.client() as client:
        add(redis_server, unique, range(100))
        source = opened(redis_server, unique)
        found = list(chunks(source))
        assert numbers(*found) == list(range(100))
        assert len(found) == 15
        for place, chunk in enumerate(found):
            if place * 7 < n_released <= (place + 1) * 7:
                source.release("", chunk.position)
        source.close()
        n_read = 0
        for chunk in found:
            n_read += len(numbers(chunk))
            if n_read >= n_released:
                again = opened(redis_server, unique, chunk.position)
                assert numbers(*chunks(again)) == list(range(n_read, 100))
                again.close()
        assert client.xlen(unique) == 100


def test_entries_are_acknowledged_when_released_and_not_before(
    redis_server: RedisService, unique: str, small_batches: None
) -> None:
    add(redis_server, unique, range(21))
    source = opened(redis_server, unique)
    first, second, third = chunks(source)
    assert pending(redis_server, unique) == 21
    source.release("", first.position)
    assert pending(redis_server, unique) == 14
    source.release("", third.position)
    assert pending(redis_server, unique) == 0
    add(redis_server, unique, [21])
    (fourth,) = chunks(source)
    assert fourth.position["ids"] == [fourth.position["last"]]
    assert second.position["n_given"] == 14
    source.close()


def test_what_was_worked_through_is_acknowledged_after_a_restart(
    redis_server: RedisService, unique: str
) -> None:
    add(redis_server, unique, range(500))
    source = opened(redis_server, unique)
    (chunk,) = chunks(source)
    source.close()
    source = opened(redis_server, unique, chunk.position)
    assert list(chunks(source)) == []
    assert pending(redis_server, unique) == 500
    add(redis_server, unique, [500])
    (last,) = chunks(source)
    source.release("", last.position)
    assert pending(redis_server, unique) == 0
    source.close()


def test_pending_entries_come_first_and_in_order(redis_server: RedisService, unique: str) -> None:
    ids = add(redis_server, unique, range(10))
    with redis_server.client() as client:
        client.xgroup_create(unique, "driftbn", "0")
        client.xreadgroup("driftbn", "driftbn", {unique: ">"}, count=6)
        client.xack(unique, "driftbn", ids[2])
    source = opened(redis_server, unique)
    assert numbers(*chunks(source)) == [0, 1, 3, 4, 5, 6, 7, 8, 9]
    source.close()


def test_trimmed_pending_entries_are_counted_loudly(
    redis_server: RedisService, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    add(redis_server, unique, range(10))
    with redis_server.client() as client:
        client.xgroup_create(unique, "driftbn", "0")
        client.xreadgroup("driftbn", "driftbn", {unique: ">"}, count=6)
        client.xtrim(unique, maxlen=7, approximate=False)
    source = opened(redis_server, unique)
    assert numbers(*chunks(source)) == [3, 4, 5, 6, 7, 8, 9]
    source.close()
    (error,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "3 records are lost" in error.getMessage()
    assert pending(redis_server, unique) == 7


def test_entries_of_a_dead_consumer_are_taken_over(
    redis_server: RedisService, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    ids = add(redis_server, unique, range(10))
    with redis_server.client() as client:
        client.xgroup_create(unique, "driftbn", "0")
        client.xreadgroup("driftbn", "dead", {unique: ">"}, count=6)
        client.xdel(unique, ids[1])
    now = [0.0]
    source = RedisSource(settings(redis_server, unique), clock=lambda: now[0], idle_seconds=0.2)
    source.open(Lane())
    found = list(chunks(source))
    assert numbers(*found) == [6, 7, 8, 9]

    def taken() -> bool:
        now[0] += 1.0
        found.extend(chunks(source))
        return len(numbers(*found)) == 9

    wait_for(taken, "the entries of the dead consumer")
    assert numbers(*found) == [6, 7, 8, 9, 0, 2, 3, 4, 5]
    assert "5 entries are taken over from consumer dead" in caplog.text
    assert "1 records are lost" in caplog.text
    source.release("", found[-1].position)
    source.close()
    assert pending(redis_server, unique) == 0


def test_own_entries_and_those_of_the_living_are_not_taken_over(
    redis_server: RedisService, unique: str
) -> None:
    add(redis_server, unique, range(4))
    now = [0.0]
    sources = {
        name: RedisSource(settings(redis_server, unique, consumer=name), clock=lambda: now[0])
        for name in ("one", "two")
    }
    found: list[Chunk] = []
    for source in sources.values():
        source.open(Lane())
    for _ in range(5):
        now[0] += 3600.0  # they look for dead consumers in every round
        for name, source in sources.items():
            found.extend(chunks(source))
            let_age(redis_server, unique, name)
    for source in sources.values():
        source.close()
    assert sorted(numbers(*found)) == [0, 1, 2, 3]


def let_age(server: RedisService, stream: str, consumer: str) -> None:
    """Make the entries that a consumer has not acknowledged a day old."""
    with server.client() as client:
        held = client.xpending_range(stream, "driftbn", "-", "+", 10, consumer)
        if ids := [entry["message_id"] for entry in held]:
            client.xclaim(stream, "driftbn", consumer, 0, ids, idle=86_400_000, justid=True)


def test_fields_become_a_table(redis_server: RedisService, unique: str) -> None:
    with redis_server.client() as client:
        client.xadd(unique, {"a": "1", "b": 'say "yes", or\nno'})
        number = client.xadd(unique, {"b": "", "c": "x"})
    source = opened(redis_server, unique, payload=None)
    (chunk,) = chunks(source)
    source.close()
    assert chunk.kind is TableFormat.CSV
    rows = list(csv.reader(io.StringIO(bytes(chunk.data).decode())))
    assert rows == [["a", "b", "c"], ["1", 'say "yes", or\nno', ""], ["", "", "x"]]
    assert bytes(chunk.data).endswith(b'\n,"","x"\n')
    assert chunk.place(1, 0) == f"stream {unique} entry {number.decode()}"


def test_fields_that_differ_from_entry_to_entry_come_in_smaller_tables(
    redis_server: RedisService, unique: str
) -> None:
    with redis_server.client() as client:
        for number in range(100):
            client.xadd(unique, {f"field-{number}": str(number)})
    source = opened(redis_server, unique, payload=None)
    found = list(chunks(source))
    source.close()
    values = [row for chunk in found for row in bytes(chunk.data).splitlines()[1:]]
    assert [value.replace(b",", b"") for value in values] == [b'"%d"' % n for n in range(100)]
    assert len(found) > 5
    again = opened(redis_server, unique, found[0].position, payload=None)
    n_first = found[0].position["n_given"]
    assert sum(len(bytes(chunk.data).splitlines()) - 1 for chunk in chunks(again)) == 100 - n_first
    again.close()


def test_payloads_become_lines_whatever_is_in_them(redis_server: RedisService, unique: str) -> None:
    with redis_server.client() as client:
        client.xadd(unique, {"data": b'{"i":\n 0}\n'})
        client.xadd(unique, {"other": "x"})
        number = client.xadd(unique, {"other": "x", "data": b'{"i": 1}'})
    source = opened(redis_server, unique)
    (chunk,) = chunks(source)
    source.close()
    data = bytes(chunk.data)
    assert data == b'{"i":  0}\n"the entry has no field \'data\'"\n{"i": 1}\n'
    place = chunk.place(2, data.index(b'{"i": 1}'))
    assert place == f"stream {unique} entry {number.decode()}"


def test_large_entries_are_fetched_in_smaller_batches(
    redis_server: RedisService, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis, "BATCH_ENTRIES", 10)
    monkeypatch.setattr(redis, "CHUNK_BYTES", 50_000)
    with redis_server.client() as client:
        for number in range(20):
            client.xadd(unique, {"data": b'{"i": %d, "x": "%s"}' % (number, b"x" * 20_000)})
    source = opened(redis_server, unique)
    found = list(chunks(source))
    source.close()
    assert numbers(*found) == list(range(20))
    assert [len(numbers(chunk)) for chunk in found] == [10, 2, 2, 2, 2, 2]


def test_how_many_wait_is_known(redis_server: RedisService, unique: str) -> None:
    add(redis_server, unique, range(redis.BATCH_ENTRIES + 50))
    source = opened(redis_server, unique)
    assert [chunk.n_behind for chunk in chunks(source)] == [50, 0]
    source.close()


def test_a_late_start_is_remembered(redis_server: RedisService, unique: str) -> None:
    add(redis_server, unique, range(5))
    source = opened(redis_server, unique, start="latest")
    assert source.poll(0.01) is None
    source.close()
    add(redis_server, unique, range(5, 8))
    source = opened(redis_server, unique, start="latest")
    assert numbers(*chunks(source)) == [5, 6, 7]
    source.close()


def test_a_group_that_vanishes_is_told_and_made_again(
    redis_server: RedisService, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    add(redis_server, unique, range(5))
    source = opened(redis_server, unique)
    found = list(chunks(source))
    with redis_server.client() as client:
        client.xgroup_destroy(unique, "driftbn")
    add(redis_server, unique, range(5, 8))
    with pytest.raises(SourceError, match="group driftbn is gone") as caught:
        source.poll(0.05)
    assert not caught.value.fatal
    assert not source.ready
    found.extend(chunks(source))
    assert source.ready
    assert numbers(*found) == list(range(8))
    assert "made again" in caplog.text
    source.close()


def test_a_server_that_forgot_everything_is_told_and_read_on(
    own_server: RedisService, caplog: pytest.LogCaptureFixture
) -> None:
    add(own_server, "orders", range(5))
    source = opened(own_server, "orders")
    (chunk,) = chunks(source)
    with own_server.client() as client:
        client.flushall()
        client.xadd("orders", {"data": b'{"i": 5}'}, id="1-0")
    with pytest.raises(SourceError, match="is gone"):
        source.poll(0.05)
    assert numbers(*chunks(source)) == [5]
    assert "the server has lost entries" in caplog.text
    source.close()
    with own_server.client() as client:
        client.flushall()
    source = opened(own_server, "orders", chunk.position)
    add(own_server, "orders", [6])
    assert numbers(*chunks(source)) == [6]
    source.close()


def test_a_server_that_went_back_in_time_gives_nothing_twice(
    redis_server: RedisService, unique: str
) -> None:
    ids = add(redis_server, unique, range(600))
    source = opened(redis_server, unique)
    found = list(chunks(source))
    with redis_server.client() as client:
        client.xack(unique, "driftbn", *ids[300:])
        client.xgroup_setid(unique, "driftbn", ids[299])
    add(redis_server, unique, range(600, 610))
    found.extend(chunks(source))
    assert numbers(*found) == list(range(610))
    source.close()


def test_a_key_that_is_no_stream_is_told(redis_server: RedisService, unique: str) -> None:
    with redis_server.client() as client:
        client.set(unique, "text")
        source = opened(redis_server, unique)
        with pytest.raises(SourceError, match="holds no stream") as caught:
            source.poll(0.05)
        assert not caught.value.fatal
        assert unique in str(caught.value)
        client.delete(unique)
    add(redis_server, unique, range(3))
    assert numbers(*chunks(source)) == [0, 1, 2]
    source.close()


def test_a_checkpoint_of_another_stream_is_refused(redis_server: RedisService, unique: str) -> None:
    add(redis_server, unique, range(3))
    source = opened(redis_server, unique)
    (chunk,) = chunks(source)
    source.close()
    with pytest.raises(SourceError, match=f"of stream {unique}") as caught:
        opened(redis_server, unique + "-other", chunk.position)
    assert caught.value.fatal


def test_a_wrong_password_is_fatal_and_the_right_one_works(tmp_path: Path) -> None:
    service = RedisService(tmp_path, password="the password")
    service.start()
    try:
        add(service, "orders", range(3))
        for changes in ({}, {"password": "not it"}):
            with pytest.raises(SourceError, match="mend 'url' or 'password'") as caught:
                opened(service, "orders", **changes)
            assert caught.value.fatal
            assert "not it" not in str(caught.value)
        source = opened(service, "orders", password="the password")
        assert numbers(*chunks(source)) == [0, 1, 2]
        source.close()
        url = service.url.replace("//", "//:the%20password@")
        source = opened(service, "orders", url=url, consumer="other")
        assert "password" not in str(source._lost(redis_client.ConnectionError("away")))
        source.close()
    finally:
        service.stop()


def test_a_server_that_is_away_at_the_start_is_waited_for(own_server: RedisService) -> None:
    own_server.stop()
    source = opened(own_server, "orders")
    with pytest.raises(SourceError) as caught:
        source.poll(0.05)
    assert not caught.value.fatal
    assert not source.ready
    assert f"{HOST}:{own_server.port}" in str(caught.value)
    own_server.start()
    add(own_server, "orders", range(3))
    assert numbers(*chunks(source)) == [0, 1, 2]
    assert source.ready
    source.close()


def test_reading_goes_on_when_the_server_is_back(own_server: RedisService, tmp_path: Path) -> None:
    source = RedisSource(settings(own_server, "orders"))
    keeper = Keeper(tmp_path / "kept", source)
    source.open(keeper)
    commits = random.Random(1)
    n_errors = 0
    for first in range(0, 3000, 300):
        add(own_server, "orders", range(first, first + 300))
        keeper.run_once(0.05, commits)
        own_server.kill()
        with pytest.raises(SourceError):
            wait_for(lambda: keeper.run_once(0.05, commits) and False, "an error")
        n_errors += 1
        keeper.commit("")
        own_server.start()
    wait_for(lambda: not keeper.run_once(0.05, commits), "all")
    assert seen(tmp_path / "kept", "") == list(range(3000))
    source.close()
    assert n_errors == 10


def test_an_answer_that_is_lost_is_found_among_the_pending(
    redis_server: RedisService, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(redis_server, unique, range(10))
    source = opened(redis_server, unique)
    client = source._client
    read_new = client.read_new

    def losing(count: int, wait_seconds: float) -> Any:
        read_new(count, wait_seconds)
        raise redis_client.ConnectionError("the answer is lost")

    assert numbers(*chunks(source)) == list(range(10))
    add(redis_server, unique, range(10, 20))
    monkeypatch.setattr(client, "read_new", losing)
    with pytest.raises(SourceError, match="lost"):
        source.poll(0.05)
    monkeypatch.undo()
    add(redis_server, unique, range(20, 30))
    assert numbers(*chunks(source)) == list(range(10, 30))
    source.close()
