"""Killed at any moment and started again, the daemon publishes what an undisturbed one does."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

from tests.integration.histories import (
    N_WINDOWS,
    SETTINGS,
    STREAM,
    WINDOW,
    History,
    count_windows,
    file_daemon,
    read_history,
)
from tests.services.daemon import PHASES, DaemonService, KillPoint
from tests.services.feeders import Feeder, FileFeeder, HttpFeeder, KafkaFeeder, RedisFeeder
from tests.services.kafka import KafkaService
from tests.services.process import wait_for
from tests.services.redis import RedisService

N_KILLS = 14
"""Of each source; with four of them well above fifty."""
Records = list[dict[str, Any]]


def ended_or_done(daemon: DaemonService, n_windows: int) -> bool:
    return not daemon.running or count_windows(daemon.history) >= n_windows


def disturb(daemon: DaemonService, feeder: Feeder, records: Records, seed: int) -> None:
    """Feed a daemon piece by piece and kill it in each; then let it finish."""
    chance = random.Random(seed)
    reached = [phase for phase in PHASES if phase != "accept"]
    phases = [*reached, *reached][:N_KILLS]
    chance.shuffle(phases)
    size = len(records) // (N_KILLS + 1) // WINDOW * WINDOW
    n_fed = 0
    for phase in phases:
        feeder.send(records[n_fed : n_fed + size])
        n_fed += size
        when = chance.choice(["before", "after"])
        daemon.prepare = KillPoint(phase, chance.randint(1, 2), when).arm
        daemon.begin()
        wait_for(partial(ended_or_done, daemon, n_fed // WINDOW), f"killed at {phase}", 120)
        daemon.kill()  # where the point was not reached, it is killed here
    daemon.prepare = None
    feeder.send(records[n_fed:])
    daemon.begin()
    wait_for(lambda: count_windows(daemon.history) >= N_WINDOWS, "all windows", 180)
    assert daemon.end() == 0, daemon.log_tail()


def test_records_from_a_file(records: Records, expected: History, tmp_path: Path) -> None:
    feeder = FileFeeder(tmp_path / "records.ndjson")
    disturb(file_daemon(tmp_path, follow=True), feeder, records, seed=1)
    assert read_history(tmp_path) == expected


def test_records_over_http(records: Records, expected: History, tmp_path: Path) -> None:
    settings = SETTINGS.format(directory=tmp_path) + 'kind = "http"\n'
    daemon = DaemonService(tmp_path, settings)
    with HttpFeeder(daemon.address, STREAM, piece=700) as feeder:
        disturb(daemon, feeder, records, seed=2)
    assert read_history(tmp_path) == expected


def test_a_body_of_many_windows_makes_progress_however_often_it_is_interrupted(
    records: Records, expected: History, tmp_path: Path
) -> None:
    daemon = DaemonService(tmp_path, SETTINGS.format(directory=tmp_path) + 'kind = "http"\n')
    daemon.prepare = KillPoint("commit", 2, "after").arm
    counts = [0]
    with HttpFeeder(daemon.address, STREAM, piece=len(records)) as feeder:
        feeder.send(records)
        while counts[-1] < N_WINDOWS:
            daemon.begin()
            wait_for(partial(ended_or_done, daemon, N_WINDOWS), "killed amid the body", 120)
            daemon.kill()
            counts.append(count_windows(daemon.history))
            assert counts[-1] > counts[-2]
    assert len(counts) > 3, "the body was worked through in several parts"
    daemon.prepare = None
    daemon.start()
    assert daemon.end() == 0, daemon.log_tail()
    assert read_history(tmp_path) == expected


def test_records_from_redis(
    records: Records, expected: History, tmp_path: Path, redis_server: RedisService, unique: str
) -> None:
    source = f'kind = "redis"\nurl = "{redis_server.url}"\nstream = "{unique}"\npayload = "data"\n'
    daemon = DaemonService(tmp_path, SETTINGS.format(directory=tmp_path) + source)
    disturb(daemon, RedisFeeder(redis_server, unique), records, seed=3)
    assert read_history(tmp_path) == expected


def test_records_from_kafka(
    records: Records, expected: History, tmp_path: Path, kafka_broker: KafkaService, unique: str
) -> None:
    source = (
        f'kind = "kafka"\nbrokers = ["{kafka_broker.address}"]\ntopic = "{unique}"\n'
        f'group = "{unique}"\n'
    )
    daemon = DaemonService(tmp_path, SETTINGS.format(directory=tmp_path) + source)
    disturb(daemon, KafkaFeeder(kafka_broker, unique, n_partitions=1), records, seed=4)
    assert read_history(tmp_path) == expected
