"""The source of Kafka when readers die and when they share a topic."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from driftbn_service.settings import KafkaSourceSettings
from driftbn_service.sources.kafka import KafkaSource

from tests.services.feeder import Feeder
from tests.services.kafka import KafkaService
from tests.services.keeper import Keeper, kept, seen
from tests.services.process import wait_for
from tests.services.reader import Reader

N_KILLS = 12
QUICK = {"session.timeout.ms": "1500", "heartbeat.interval.ms": "300"}
"""A dead member of a group is noticed soon."""


def source(broker: KafkaService, topic: str, **changes: Any) -> dict[str, Any]:
    options = {"kind": "kafka", "brokers": [broker.address], "topic": topic, "group": topic}
    return {**options, "options": QUICK, **changes}


def writer(broker: KafkaService, topic: str, n_partitions: int) -> Any:
    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 0})

    def write(numbers: Sequence[int]) -> None:
        for number in numbers:
            for partition in range(n_partitions):
                producer.produce(topic, value=b'{"i": %d}' % number, partition=partition)
        assert producer.flush(30) == 0

    return write


def forget_newest(directory: Path, lane: str) -> None:
    """As if the newest checkpoint were found to be torn."""
    files = kept(directory, lane)
    if len(files) > 1:
        files[-1].unlink()


@pytest.mark.parametrize("partitions", ["merged", "each"])
def test_every_record_comes_once_however_often_the_reader_is_killed(
    kafka_broker: KafkaService, unique: str, partitions: str, tmp_path: Path
) -> None:
    n_partitions = 1 if partitions == "merged" else 2
    lanes = [""] if partitions == "merged" else ["0", "1"]
    kafka_broker.create_topic(unique, n_partitions)
    directory = tmp_path / "kept"
    key = "i" if partitions == "each" else None
    moments = random.Random()
    with Feeder(writer(kafka_broker, unique, n_partitions)) as feeder:
        for _ in range(N_KILLS):
            reader = Reader(directory, source(kafka_broker, unique, partitions=partitions), key)
            reader.wait_until_open()
            time.sleep(moments.uniform(0.0, 2.0 if key else 0.7))
            reader.kill()
            for lane in lanes:
                if moments.random() < 0.3:
                    forget_newest(directory, lane)
    assert max(len(seen(directory, lane)) for lane in lanes) > 0, "no life was long enough"
    reader = Reader(directory, source(kafka_broker, unique, partitions=partitions), key)
    reader.wait_until_open()
    wait_for(
        lambda: all(len(seen(directory, lane)) >= feeder.n_records for lane in lanes), "the rest"
    )
    reader.stop()
    for lane in lanes:
        assert seen(directory, lane) == list(range(feeder.n_records))


def test_lanes_are_handed_over_between_readers(
    kafka_broker: KafkaService, unique: str, tmp_path: Path
) -> None:
    n_partitions = 4
    lanes = [str(partition) for partition in range(n_partitions)]
    kafka_broker.create_topic(unique, n_partitions)
    directory = tmp_path / "kept"

    def join() -> Reader:
        reader = Reader(directory, source(kafka_broker, unique, partitions="each"), "i")
        reader.wait_until_open()
        return reader

    def opened(n_times: int) -> None:
        log = directory.with_suffix(".log")
        wait_for(lambda: log.read_text().count(":opened ") >= n_times, f"{n_times} lanes opened")

    with Feeder(writer(kafka_broker, unique, n_partitions)) as feeder:
        first = join()
        opened(4)
        second = join()
        opened(6)
        third = join()
        opened(7)
        first.stop()
        opened(8)
        second.kill()
        opened(9)
        fourth = join()
        opened(11)
    wait_for(
        lambda: all(len(seen(directory, lane)) >= feeder.n_records for lane in lanes), "the rest"
    )
    third.stop()
    fourth.stop()
    for lane in lanes:
        assert seen(directory, lane) == list(range(feeder.n_records))


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
    table = source(kafka_broker, unique, partitions="each", options=options)
    members = [KafkaSource(KafkaSourceSettings.model_validate(table)) for _ in range(2)]
    keepers = [Keeper(tmp_path, member) for member in members]
    write, n_written, commits = writer(kafka_broker, unique, 2), 0, random.Random(3)

    def lanes_are(*counts: int) -> bool:
        nonlocal n_written
        write(range(n_written, n_written + 5))
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
