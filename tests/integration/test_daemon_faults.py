"""What the world does to a daemon: disks fill up, brokers die, receivers are away."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.histories import (
    N_WINDOWS,
    SETTINGS,
    WINDOW,
    History,
    count_windows,
    file_daemon,
    read_history,
)
from tests.outlet_parts import receiver
from tests.services.daemon import DaemonService
from tests.services.feeders import FileFeeder, KafkaFeeder, RedisFeeder
from tests.services.kafka import KafkaService
from tests.services.process import HOST, free_port, wait_for
from tests.services.redis import RedisService
from tests.small_disk import small_disk_at

Records = list[dict[str, Any]]
HALF = N_WINDOWS // 2 * WINDOW


def finish(daemon: DaemonService) -> None:
    wait_for(lambda: count_windows(daemon.history) >= N_WINDOWS, "all windows", 180)
    assert daemon.end() == 0, daemon.log_tail()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk_at(tmp_path / "disk", "24m") as path:
        yield path


def fill(path: Path) -> None:
    """Let a file grow until there is no room."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(1 << 12)):
            pass


def test_a_full_disk_stops_reading_and_loses_nothing(
    records: Records, expected: History, tmp_path: Path, small_disk: Path
) -> None:
    feeder = FileFeeder(tmp_path / "records.ndjson")
    feeder.send(records[:HALF])
    daemon = file_daemon(tmp_path, follow=True, state_dir=small_disk / "state")
    daemon.start()
    wait_for(lambda: count_windows(daemon.history) >= N_WINDOWS // 2, "half of the windows")
    filler = small_disk / "filler"
    fill(filler)
    feeder.send(records[HALF:])
    wait_for(lambda: daemon.readiness()[0] == 503, "it is not ready any more")
    assert "the state cannot be written: the disk is full" in daemon.readiness()[1]
    filler.unlink()
    wait_for(daemon.probe, "it is ready again", 60)
    finish(daemon)
    assert read_history(tmp_path, small_disk / "state") == expected


def test_a_second_signal_ends_a_daemon_that_waits_for_room(
    records: Records, tmp_path: Path, small_disk: Path
) -> None:
    feeder = FileFeeder(tmp_path / "records.ndjson")
    feeder.send(records[: 10 * WINDOW])
    daemon = file_daemon(tmp_path, follow=True, state_dir=small_disk / "state")
    daemon.start()
    wait_for(lambda: count_windows(daemon.history) >= 10, "ten windows")
    fill(small_disk / "filler")
    feeder.send(records[10 * WINDOW : 20 * WINDOW])
    wait_for(lambda: daemon.readiness()[0] == 503, "it is not ready any more")
    daemon.signal(signal.SIGTERM)
    wait_for(lambda: "stopping" in daemon.log_tail(), "it has noticed the first signal")
    daemon.signal(signal.SIGTERM)
    assert daemon.wait(20) == 1
    assert "nothing is lost" in daemon.log_tail()
    (small_disk / "filler").unlink()
    daemon.start()
    wait_for(lambda: count_windows(daemon.history) >= 20, "all windows")
    assert daemon.end() == 0, daemon.log_tail()
    windows = read_history(tmp_path, small_disk / "state").windows
    assert sorted(windows) == list(range(20))
    assert windows[19]["last_record"] == 20 * WINDOW - 1


def test_redis_killed_and_started_again(
    records: Records, expected: History, tmp_path: Path, unique: str
) -> None:
    server = RedisService(tmp_path)
    server.start()
    try:
        RedisFeeder(server, unique).send(records[:HALF])
        source = f'kind = "redis"\nurl = "{server.url}"\nstream = "{unique}"\npayload = "data"\n'
        daemon = DaemonService(tmp_path, SETTINGS.format(directory=tmp_path) + source)
        daemon.start()
        server.kill()
        wait_for(lambda: daemon.readiness()[0] == 503, "it is not ready any more")
        server.start()
        RedisFeeder(server, unique).send(records[HALF:])
        finish(daemon)
    finally:
        server.stop()
    assert read_history(tmp_path) == expected


def test_kafka_killed_and_started_again(
    records: Records, expected: History, tmp_path: Path, unique: str
) -> None:
    broker = KafkaService(tmp_path)
    broker.start()
    try:
        feeder = KafkaFeeder(broker, unique, n_partitions=1)
        feeder.send(records[:HALF])
        daemon = DaemonService(
            tmp_path, SETTINGS.format(directory=tmp_path) + kafka(broker, unique)
        )
        daemon.start()
        broker.kill()
        broker.start()
        feeder.send(records[HALF:])
        finish(daemon)
    finally:
        broker.stop()
    assert read_history(tmp_path) == expected


def kafka(broker: KafkaService, topic: str, group: str | None = None) -> str:
    return (
        f'kind = "kafka"\nbrokers = ["{broker.address}"]\ntopic = "{topic}"\n'
        f'group = "{group or topic}"\n'
    )


def test_a_webhook_that_was_away_gets_every_event_in_order(
    records: Records, expected: History, tmp_path: Path
) -> None:
    port = free_port()
    outlet = f'[[outlets]]\nkind = "webhook"\nurl = "http://{HOST}:{port}/events"\n\n'
    FileFeeder(tmp_path / "records.ndjson").send(records)
    daemon = file_daemon(tmp_path, follow=True, outlets=outlet)
    daemon.start()
    # Events wait by now, and more come; the longer it is away, the longer are the waits.
    wait_for(lambda: count_windows(daemon.history) >= N_WINDOWS // 4, "a quarter", 120)
    with receiver(port=port) as found:
        wait_for(lambda: len(found.requests) >= len(expected.events), "all events", 90)
        assert daemon.end() == 0, daemon.log_tail()
    assert found.ids == expected.events
    assert all(request.document["specversion"] == "1.0" for request in found.requests)
    assert read_history(tmp_path) == expected
