"""The source of Kafka against a real broker."""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from driftbn_service.settings import KafkaSourceSettings
from driftbn_service.sources import kafka
from driftbn_service.sources.kafka import KafkaSource

from tests.decoding import Chunk, Position, SourceError, TableFormat
from tests.services.kafka import PASSWORD, USER, KafkaService
from tests.services.keeper import Keeper, seen
from tests.services.process import HOST, free_port, wait_for

N_KILLED_SECONDS = 30.0


class At:
    """A listener that has lanes go on where it says."""

    def __init__(self, position: Position | None = None) -> None:
        self.position = position

    def opened(self, lane: str) -> Position | None:
        return self.position

    def closed(self, lane: str) -> None:
        pass


def records(numbers: range) -> Iterator[bytes]:
    return (b'{"i": %d}' % number for number in numbers)


def settings(broker: KafkaService, topic: str, **changes: Any) -> KafkaSourceSettings:
    table = {"brokers": [broker.address], "topic": topic, "group": topic, **changes}
    return KafkaSourceSettings.model_validate(table)


def chunks(source: KafkaSource, n_records: int, seconds: float = N_KILLED_SECONDS) -> list[Chunk]:
    found: list[Chunk] = []
    deadline = time.monotonic() + seconds
    while sum(len(numbers(chunk)) for chunk in found) < n_records:
        assert time.monotonic() < deadline, f"only {found} came"
        chunk = source.poll(0.2)
        if chunk is not None:
            found.append(chunk)
    return found


def numbers(*found: Chunk) -> list[int]:
    lines = [line for chunk in found for line in bytes(chunk.data).splitlines() if line.strip()]
    return [json.loads(line)["i"] for line in lines]


def read(source_settings: KafkaSourceSettings, n_records: int, listener: At) -> list[Chunk]:
    source = KafkaSource(source_settings)
    source.open(listener)
    try:
        return chunks(source, n_records)
    finally:
        source.close()


@pytest.fixture
def topic(kafka_broker: KafkaService, unique: str) -> str:
    kafka_broker.create_topic(unique)
    return unique


@pytest.mark.parametrize("partitions", ["merged", "each"])
def test_reading_goes_on_at_every_position(
    kafka_broker: KafkaService, topic: str, partitions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "BATCH_MESSAGES", 5)
    kafka_broker.produce(topic, records(range(60)))
    options = settings(kafka_broker, topic, partitions=partitions)
    found = read(options, 60, At())
    assert numbers(*found) == list(range(60))
    assert len(found) >= 12
    n_read = 0
    for chunk in found:
        n_read += len(numbers(chunk))
        position = json.loads(json.dumps(chunk.position))
        if n_read < 60:
            rest = read(options, 60 - n_read, At(position))
            assert numbers(*rest) == list(range(n_read, 60))


def test_merged_partitions_are_one_lane_with_the_order_of_each(
    kafka_broker: KafkaService, unique: str
) -> None:
    kafka_broker.create_topic(unique, 3)
    for partition in range(3):
        first = 1000 * partition
        kafka_broker.produce(unique, records(range(first, first + 500)), partition)
    found = read(settings(kafka_broker, unique), 1500, At())
    assert {chunk.lane for chunk in found} == {""}
    for partition in range(3):
        first = 1000 * partition
        ours = [number for number in numbers(*found) if first <= number < first + 1000]
        assert ours == list(range(first, first + 500))
    assert found[-1].position["offsets"] == {"0": 500, "1": 500, "2": 500}
    assert found[-1].n_behind == 0


def test_new_partitions_are_read_from_their_beginning(
    kafka_broker: KafkaService, topic: str
) -> None:
    now = [0.0]
    kafka_broker.produce(topic, records(range(10)))
    source = KafkaSource(settings(kafka_broker, topic), clock=lambda: now[0])
    source.open(At())
    chunks(source, 10)
    kafka_broker.add_partitions(topic, 2)
    kafka_broker.produce(topic, records(range(10, 20)), 1)
    now[0] += kafka.CHECK_SECONDS
    found: list[Chunk] = []

    def comes() -> bool:
        # The client's own list of partitions may be older than the broker's.
        now[0] += kafka.CHECK_SECONDS
        chunk = source.poll(0.2)
        found.extend([] if chunk is None else [chunk])
        return len(numbers(*found)) == 10

    wait_for(comes, "records of the new partition")
    source.close()
    assert numbers(*found) == list(range(10, 20))
    assert found[-1].position["offsets"] == {"0": 10, "1": 10}


def test_messages_become_lines_whatever_is_in_them(kafka_broker: KafkaService, topic: str) -> None:
    values = [b'{"i":\n 0}\n', None, b"", b'{"i": 1}\n{"i": 2}\n', b'{"i": 3}']
    kafka_broker.produce(topic, values)
    source = KafkaSource(settings(kafka_broker, topic))
    source.open(At())
    found = chunks(source, 4)
    source.close()
    assert numbers(*found) == [0, 1, 2, 3]
    if len(found) == 1:
        data = bytes(found[0].data)
        places = [found[0].place(0, data.index(b'{"i": %d}' % number)) for number in (1, 2, 3)]
        assert places == [f"topic {topic}[0] offset {offset}" for offset in (3, 3, 4)]
    assert found[-1].position["offsets"] == {"0": 5}


def test_other_formats_come_one_message_a_chunk(kafka_broker: KafkaService, topic: str) -> None:
    kafka_broker.produce(topic, [b'[{"i": 0}, {"i": 1}]', None, b'[{"i": 2}]'])
    source = KafkaSource(settings(kafka_broker, topic, format="json"))
    source.open(At())
    found: list[Chunk] = []
    wait_for(lambda: found.append(source.poll(0.2)) or found.count(None) < len(found) - 1, "two")
    source.close()
    found = [chunk for chunk in found if chunk is not None]
    assert [chunk.kind for chunk in found] == [TableFormat.JSON] * 2
    assert [json.loads(chunk.data) for chunk in found] == [[{"i": 0}, {"i": 1}], [{"i": 2}]]
    assert found[1].position["offsets"] == {"0": 3}


def test_a_message_larger_than_usual_is_read(kafka_broker: KafkaService, unique: str) -> None:
    kafka_broker.create_topic(unique, **{"max.message.bytes": "8000000"})
    producer = Producer({"bootstrap.servers": kafka_broker.address, "message.max.bytes": 8000000})
    producer.produce(unique, value=b'{"i": 0, "text": "%s"}' % (b"x" * 5_000_000))
    producer.produce(unique, value=b'{"i": 1}')
    assert producer.flush(30) == 0
    assert numbers(*read(settings(kafka_broker, unique), 2, At())) == [0, 1]


def test_what_a_transaction_took_back_is_not_read(kafka_broker: KafkaService, topic: str) -> None:
    producer = Producer({"bootstrap.servers": kafka_broker.address, "transactional.id": topic})
    producer.init_transactions(30)
    for number, keeps in enumerate([True, False, True]):
        producer.begin_transaction()
        producer.produce(topic, value=b'{"i": %d}' % number)
        (producer.commit_transaction if keeps else producer.abort_transaction)(30)
    assert numbers(*read(settings(kafka_broker, topic), 2, At())) == [0, 2]


def test_released_offsets_are_known_to_the_group(kafka_broker: KafkaService, topic: str) -> None:
    kafka_broker.produce(topic, records(range(10)))
    source = KafkaSource(settings(kafka_broker, topic))
    source.open(At())
    found = chunks(source, 10)
    source.release("", found[-1].position)
    source.close()
    assert committed(kafka_broker, topic) == 10
    kafka_broker.produce(topic, records(range(10, 12)))
    assert numbers(*read(settings(kafka_broker, topic), 2, At())) == [10, 11]


def committed(broker: KafkaService, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": topic})
    offset = consumer.committed([TopicPartition(topic, 0)], timeout=10)[0].offset
    consumer.close()
    return int(offset)


@pytest.mark.parametrize("partitions", ["merged", "each"])
def test_a_late_start_is_remembered(
    kafka_broker: KafkaService, topic: str, partitions: str
) -> None:
    kafka_broker.produce(topic, records(range(10)))
    options = settings(kafka_broker, topic, start="latest", partitions=partitions)
    source = KafkaSource(options)
    source.open(At())
    wait_for(lambda: source.poll(0.1) is None and committed(kafka_broker, topic) >= 0, "a commit")
    source.close()
    kafka_broker.produce(topic, records(range(10, 15)))
    assert numbers(*read(options, 5, At())) == list(range(10, 15))


def test_a_missing_topic_is_named_and_waited_for(kafka_broker: KafkaService, unique: str) -> None:
    for partitions in ("merged", "each"):
        name = f"{unique}-{partitions}"
        source = KafkaSource(settings(kafka_broker, name, partitions=partitions))
        source.open(At())
        with pytest.raises(SourceError) as caught:
            wait_for(lambda source=source: source.poll(0.2), "an error")
        assert not caught.value.fatal
        assert name in str(caught.value)
        assert kafka_broker.address in str(caught.value)
        assert "create it" in str(caught.value)
        assert not source.ready
        with pytest.raises(SourceError, match="create it"):
            source.poll(0.1)
        kafka_broker.create_topic(name)
        kafka_broker.produce(name, records(range(3)))
        assert numbers(*patiently(source, 3)) == [0, 1, 2]
        wait_for(lambda source=source: source.poll(0.1) is None and source.ready, "readiness")
        source.close()


def patiently(source: KafkaSource, n_records: int) -> list[Chunk]:
    """Read on over errors that are not fatal."""
    found: list[Chunk] = []

    def enough() -> bool:
        try:
            chunk = source.poll(0.2)
        except SourceError as error:
            if error.fatal:
                raise
            return False
        found.extend([] if chunk is None else [chunk])
        return len(numbers(*found)) >= n_records

    wait_for(enough, f"{n_records} records")
    return found


def test_brokers_that_cannot_be_reached_are_told_once(
    kafka_broker: KafkaService, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = f"{HOST}:{free_port()}"
    source = KafkaSource(settings(kafka_broker, unique, brokers=[nowhere]))
    source.open(At())
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            assert source.poll(0.2) is None
    assert not source.ready
    source.close()
    told = [record.getMessage() for record in caplog.records if "no answer" in record.message]
    assert len(told) == 1
    assert nowhere in told[0]


def test_a_wrong_password_is_fatal_and_the_right_one_works(
    kafka_broker: KafkaService, topic: str
) -> None:
    kafka_broker.produce(topic, records(range(3)))
    login: dict[str, Any] = {
        "brokers": [kafka_broker.login_address],
        "username": USER,
        "options": {"security.protocol": "sasl_plaintext"},
    }
    assert numbers(*read(settings(kafka_broker, topic, password=PASSWORD, **login), 3, At()))
    source = KafkaSource(settings(kafka_broker, topic, password="not it", **login))
    source.open(At())
    with pytest.raises(SourceError, match="refuses the login") as caught:
        wait_for(lambda: source.poll(0.2), "an error")
    assert caught.value.fatal
    assert "not it" not in str(caught.value)
    source.close()


def test_an_option_the_client_does_not_know_is_fatal(
    kafka_broker: KafkaService, topic: str
) -> None:
    source = KafkaSource(settings(kafka_broker, topic, options={"no.such.option": "1"}))
    with pytest.raises(SourceError, match=r"no\.such\.option") as caught:
        source.open(At())
    assert caught.value.fatal


@pytest.mark.parametrize("partitions", ["merged", "each"])
def test_records_that_retention_took_are_counted_loudly(
    kafka_broker: KafkaService, topic: str, partitions: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = settings(kafka_broker, topic, partitions=partitions)
    kafka_broker.produce(topic, records(range(20)))
    admin = AdminClient({"bootstrap.servers": kafka_broker.address})
    place = TopicPartition(topic, 0, 15)
    admin.delete_records([place])[place].result(30)
    at = At({"topic": topic, "offsets": {"0": 5}})
    assert numbers(*read(options, 5, at)) == list(range(15, 20))
    (error,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "10 records are lost" in error.getMessage()
    assert f"{topic}[0]" in error.getMessage()


def test_a_topic_made_anew_is_read_from_its_beginning(
    kafka_broker: KafkaService, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    kafka_broker.produce(topic, records(range(3)))
    at = At({"topic": topic, "offsets": {"0": 1000}})
    assert numbers(*read(settings(kafka_broker, topic), 3, at)) == [0, 1, 2]
    assert "made anew" in caplog.text


@pytest.mark.parametrize("partitions", ["merged", "each"])
def test_a_topic_deleted_and_made_anew_while_it_is_read_is_read_from_its_beginning(
    kafka_broker: KafkaService, topic: str, partitions: str
) -> None:
    jump = [0.0]
    kafka_broker.produce(topic, records(range(10)))
    source = KafkaSource(
        settings(kafka_broker, topic, partitions=partitions),
        clock=lambda: time.monotonic() + jump[0],
    )
    source.open(At())
    assert numbers(*patiently(source, 10)) == list(range(10))
    kafka_broker.delete_topic(topic)

    def is_missed() -> bool:
        jump[0] += kafka.CHECK_SECONDS
        try:
            source.poll(0.2)
        except SourceError as error:
            return "no such topic" in str(error)
        return False

    wait_for(is_missed, "its loss is noticed")
    assert not source.ready
    kafka_broker.create_topic(topic)
    kafka_broker.produce(topic, records(range(100, 103)))
    assert numbers(*patiently(source, 3)) == [100, 101, 102]
    source.close()


def test_a_checkpoint_of_another_topic_is_refused(kafka_broker: KafkaService, topic: str) -> None:
    source = KafkaSource(settings(kafka_broker, topic))
    with pytest.raises(SourceError, match="of topic other") as caught:
        source.open(At({"topic": "other", "offsets": {"0": 1}}))
    assert caught.value.fatal


def test_a_rebalance_that_fails_is_made_up_for(
    kafka_broker: KafkaService, topic: str, tmp_path: Path
) -> None:
    kafka_broker.produce(topic, records(range(10)))
    source = KafkaSource(settings(kafka_broker, topic, partitions="each"))
    keeper = Keeper(tmp_path, source)
    failures = [SourceError("disk", "full"), SourceError("disk", "still full")]

    class Failing(At):
        def opened(self, lane: str) -> Position | None:
            if failures:
                raise failures.pop()
            return keeper.opened(lane)

        def closed(self, lane: str) -> None:
            keeper.closed(lane)

    source.open(Failing())
    for chunk in patiently(source, 10):
        keeper.take(chunk)
    source.close()
    assert not failures
    assert keeper.lanes["0"]["seen"] == list(range(10))


@pytest.mark.parametrize("partitions", ["merged", "each"])
def test_reading_goes_on_when_the_broker_is_back(
    kafka_broker: KafkaService,
    unique: str,
    partitions: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    kafka_broker.create_topic(unique, 2)
    source = KafkaSource(settings(kafka_broker, unique, partitions=partitions))
    keeper = Keeper(tmp_path, source)
    source.open(keeper)
    commits = random.Random(1)

    def n_read() -> int:
        keeper.run_once(0.05, commits)
        return sum(len(state["seen"]) for state in keeper.lanes.values())

    for first in range(0, 600, 200):
        for base in (0, 10000):
            values = records(range(base + first, base + first + 200))
            kafka_broker.produce(unique, values, base // 10000)
        if first == 200:
            kafka_broker.kill()
            wait_for(lambda: n_read() and not source.ready, "the loss is noticed")
            kafka_broker.start()
        wait_for(lambda first=first: n_read() == 2 * (first + 200), "all records", 60.0)
    wait_for(lambda: n_read() and source.ready, "ready again")
    source.close()
    in_all = [number for state in keeper.lanes.values() for number in state["seen"]]
    for base in (0, 10000):
        ours = [number for number in in_all if base <= number < base + 10000]
        assert ours == list(range(base, base + 600))
    # A broker may come and go more than once while it starts; each time is told once.
    assert caplog.text.count("no answer from") == caplog.text.count("answer again") > 0


QUICK = {"session.timeout.ms": "1500", "heartbeat.interval.ms": "300"}
"""A dead member of a group is noticed soon."""


@pytest.mark.parametrize(
    "options",
    [
        QUICK,
        {**QUICK, "partition.assignment.strategy": "range,roundrobin"},
        {"group.protocol": "consumer"},
    ],
    ids=["cooperative", "eager", "consumer"],
)
def test_a_member_that_joins_and_leaves_moves_lanes_without_a_trace(
    kafka_broker: KafkaService, unique: str, options: dict[str, str], tmp_path: Path
) -> None:
    kafka_broker.create_topic(unique, 2)
    each = settings(kafka_broker, unique, partitions="each", options=options)
    members = [KafkaSource(each) for _ in range(2)]
    keepers = [Keeper(tmp_path, member) for member in members]
    n_written, commits = 0, random.Random(3)

    def lanes_are(*counts: int) -> bool:
        nonlocal n_written
        for partition in range(2):
            kafka_broker.produce(unique, records(range(n_written, n_written + 5)), partition)
        n_written += 5
        for keeper, count in zip(keepers, counts, strict=True):
            if count >= 0:
                keeper.run_once(0.02, commits)
        return [len(keeper.lanes) for keeper in keepers] == [max(0, count) for count in counts]

    members[0].open(keepers[0])
    wait_for(lambda: lanes_are(2, -1), "the first has both lanes")
    members[1].open(keepers[1])
    wait_for(lambda: lanes_are(1, 1), "each has one")
    for lane in list(keepers[0].lanes):
        keepers[0].closed(lane)
    members[0].close()
    wait_for(lambda: lanes_are(-1, 2), "the second has both")

    def all_read() -> bool:
        keepers[1].run_once(0.05, commits)
        return all(len(seen(tmp_path, lane)) >= n_written for lane in ("0", "1"))

    wait_for(all_read, "the rest")
    members[1].close()
    for lane in ("0", "1"):
        assert seen(tmp_path, lane) == list(range(n_written))
