"""Daemons of one group on one PostgreSQL publish what one does alone, whatever befalls them."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from driftbn_service.state import FILE, Store, StoreError

from tests.integration.histories import N_WINDOWS as N_WINDOWS_OF_ONE
from tests.integration.histories import SETTINGS as SETTINGS_OF_ONE
from tests.integration.histories import STREAM as STREAM_OF_ONE
from tests.integration.histories import WINDOW as WINDOW_OF_ONE
from tests.integration.histories import History, count_windows, read_history
from tests.services.daemon import DaemonService, shorten_leases
from tests.services.feeders import Feeder, HttpFeeder, KafkaFeeder, RedisFeeder
from tests.services.kafka import KafkaService
from tests.services.postgres import PostgresService
from tests.services.process import wait_for
from tests.services.redis import RedisService

N_KEYS, N_PARTITIONS = 200, 6
WINDOW, N_WINDOWS = 60, 8
STREAM = "tenants"
SETTINGS = f"""
[checkpoint]
publish_seconds = 0.2
interval_seconds = 1.0

[[streams]]
name = "{STREAM}"
key = "tenant"
window = {WINDOW}
resident = 20
[streams.source]
kind = "kafka"
brokers = ["{{broker}}"]
topic = "{{topic}}"
group = "{{group}}"
options = {{{{ "session.timeout.ms" = "6000" }}}}
"""


def records_of(key: int) -> list[dict[str, Any]]:
    """Return records in which ``y`` follows ``x`` for half of the time, and ``z`` then."""
    rng = np.random.default_rng(key)
    n_rows = WINDOW * N_WINDOWS
    x, noise, y, z = rng.random((4, n_rows)) < np.array([[0.5], [0.03], [0.5], [0.5]])
    first = np.arange(n_rows) < n_rows // 2
    y, z = np.where(first, x ^ noise, y), np.where(first, z, x ^ noise)
    rows = zip(x.tolist(), y.tolist(), z.tolist(), strict=True)
    return [{"tenant": f"t{key}", "x": a, "y": b, "z": c} for a, b, c in rows]


class Feed:
    """Sends the records of all keys, each key to a partition of its own."""

    def __init__(self, broker: KafkaService, topic: str, n_keys: int = N_KEYS) -> None:
        self._feeder = KafkaFeeder(broker, topic, N_PARTITIONS)
        self._records = [records_of(key) for key in range(n_keys)]
        self._n_sent = 0

    def send(self, n_windows: int) -> int:
        """Send more windows of each key; return how many windows there are then."""
        share = slice(self._n_sent * WINDOW, (self._n_sent + n_windows) * WINDOW)
        for partition in range(N_PARTITIONS):
            keys = self._records[partition::N_PARTITIONS]
            # The keys of a partition take turns, as they do in life.
            turns = zip(*(records[share] for records in keys), strict=True)
            self._feeder.send([record for turn in turns for record in turn], partition)
        self._n_sent += n_windows
        return self._n_sent * len(self._records)


@dataclass(frozen=True)
class Published:
    """What there is of every key."""

    reports: dict[str, list[dict[str, Any]]]
    episodes: dict[str, list[Any]]
    events: dict[str, list[str]]
    counts: dict[str, tuple[int, int, int]]
    places: Counter[tuple[str, str]]  # in which lanes there is a state of a key


def published(place: Path | str) -> Published:
    with Store(place, read_only=True) as store:
        rows = {row.key: row for row in store.monitors(STREAM)}
        reports: dict[str, list[dict[str, Any]]] = {}
        for key in rows:
            windows = reversed(store.windows(STREAM, key, limit=10_000))
            details = [store.window(STREAM, key, row.window_index) for row in windows]
            reports[key] = [detail.report for detail in details if detail is not None]
        events: dict[str, list[str]] = {key: [] for key in rows}
        for _, event in store.events_of(STREAM):
            events[event.key].append(event.id)
        return Published(
            reports,
            {key: store.episodes(STREAM, key) for key in rows},
            events,
            {key: (row.n_windows, row.n_drifts, row.n_episodes) for key, row in rows.items()},
            Counter((key, lane) for lane, key, _ in store.states(STREAM)),
        )


def total(place: Path | str) -> int:
    try:
        with Store(place, read_only=True) as store:
            return sum(row.n_windows for row in store.monitors(STREAM))
    except StoreError:  # away, or a file that a daemon begins to write to
        return 0


def owners(place: str) -> set[str]:
    with Store(place, read_only=True) as store:
        return {str(row.owner) for row in store.lanes()}


def owns_a_lane(daemon: DaemonService) -> bool:
    assert isinstance(daemon.place, str)
    return any(f"process {daemon.pid} " in owner for owner in owners(daemon.place))


@pytest.fixture
def make_daemon(tmp_path: Path, kafka_broker: KafkaService, unique: str) -> Iterator[Any]:
    def make(name: str, group: str, place: Path | str | None = None) -> DaemonService:
        (tmp_path / name).mkdir(exist_ok=True)
        text = SETTINGS.format(broker=kafka_broker.address, topic=unique, group=group)
        of_all = {"database": place} if isinstance(place, str) else {"state_dir": place}
        daemon = DaemonService(tmp_path / name, text, **of_all)
        daemon.prepare = shorten_leases
        return daemon

    return make


def test_daemons_that_come_go_hang_and_die_publish_what_one_does(
    make_daemon: Any, kafka_broker: KafkaService, postgres_server: PostgresService, unique: str
) -> None:
    place = postgres_server.create_database(unique)
    feed = Feed(kafka_broker, unique)
    killed, paused, steady, added = (
        make_daemon(name, unique, place) for name in ("killed", "paused", "steady", "added")
    )
    n_windows = feed.send(2)
    for daemon in (killed, paused, steady):
        daemon.begin()
    for daemon in (killed, paused, steady):
        daemon.wait_until_ready()
    wait_for(lambda: total(place) == n_windows, "the first quarter", 120)

    added.start()
    wait_for(lambda: owns_a_lane(added), "the one that was added has a share", 60)
    n_windows = feed.send(2)
    wait_for(lambda: total(place) > n_windows // 2, "work has begun", 60)
    killed.kill()
    wait_for(lambda: total(place) == n_windows, "the second quarter", 120)

    alone = make_daemon("alone", f"{unique}-alone")
    alone.begin()
    wait_for(lambda: owns_a_lane(paused), "it has a share again", 60)
    feed.send(1)
    paused.signal(signal.SIGSTOP)
    n_windows = feed.send(1)
    # Its lease must run out first; only then others have its lanes, and these records.
    wait_for(lambda: total(place) == n_windows, "the third quarter", 120)
    assert not owns_a_lane(paused)
    paused.signal(signal.SIGCONT)

    feed.send(1)
    wait_for(lambda: total(place) > n_windows, "work has begun", 60)

    def meanwhile() -> None:
        feed.send(1)  # so that there is something to write
        wait_for(lambda: told_away(steady), "it is told", 60)

    postgres_server.restart(meanwhile)
    n_windows = N_KEYS * N_WINDOWS
    wait_for(lambda: total(place) == n_windows, "all windows", 120)
    wait_for(lambda: total(alone.place) == n_windows, "all windows of a single one", 120)
    for daemon in (paused, steady, added, alone):
        assert daemon.end() == 0, daemon.log_tail()

    found, expected = published(place), published(alone.place)
    assert sum(map(len, expected.events.values())) >= N_KEYS  # there was something to tell
    assert found == expected
    assert max(found.places.values()) == 1
    assert len(found.places) == N_KEYS


def test_two_daemons_on_one_directory_hand_partitions_over_with_their_monitors(
    make_daemon: Any, kafka_broker: KafkaService, tmp_path: Path, unique: str
) -> None:
    feed = Feed(kafka_broker, unique, n_keys=30)
    first, second = (make_daemon(name, unique, tmp_path / "state") for name in ("first", "second"))
    n_windows = feed.send(2)
    first.start()
    wait_for(lambda: total(first.place) == n_windows, "a quarter", 120)
    second.start()
    n_windows = feed.send(2)
    wait_for(lambda: total(first.place) == n_windows, "half of it", 120)
    first.kill()
    n_windows = feed.send(N_WINDOWS - 4)
    wait_for(lambda: total(second.place) == n_windows, "all windows", 120)
    assert second.end() == 0, second.log_tail()

    alone = make_daemon("alone", f"{unique}-alone")
    alone.start()
    wait_for(lambda: total(alone.place) == n_windows, "all windows of a single one", 120)
    assert alone.end() == 0, alone.log_tail()
    assert published(first.place) == published(alone.place)


@pytest.mark.parametrize("kind", ["http", "redis"])
def test_a_stream_of_one_lane_goes_from_daemon_to_daemon(
    kind: str,
    expected: History,
    records: list[dict[str, Any]],
    postgres_server: PostgresService,
    redis_server: RedisService,
    tmp_path: Path,
    unique: str,
) -> None:
    """One learns and one stands by; over HTTP both accept."""
    place = postgres_server.create_database(unique)
    source = 'kind = "http"\n'
    if kind == "redis":
        source = f'kind = "redis"\nurl = "{redis_server.url}"\nstream = "{unique}"\n'
        source += 'payload = "data"\n'
    daemons = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        text = SETTINGS_OF_ONE.format(directory=tmp_path / name) + source
        daemons.append(DaemonService(tmp_path / name, text, database=place))
        daemons[-1].prepare = shorten_leases
        daemons[-1].start()  # one that stands by is ready too
    first, second = daemons
    third = len(records) // 3 // WINDOW_OF_ONE * WINDOW_OF_ONE
    with ExitStack() as stack:
        feeder: Feeder = RedisFeeder(redis_server, unique)
        if kind == "http":
            addresses = (first.address, STREAM_OF_ONE, 700, second.address)
            feeder = stack.enter_context(HttpFeeder(*addresses))
        feeder.send(records[:third])
        wait_for(lambda: count_windows(place) >= third // WINDOW_OF_ONE, "a third", 120)
        assert owns_a_lane(first)
        assert f"standing by: process {first.pid} has the lane" in second.log.read_text()
        first.signal(signal.SIGSTOP)
        wait_for(lambda: owns_a_lane(second), "the lease has run out", 60)
        feeder.send(records[third : 2 * third])
        wait_for(lambda: count_windows(place) >= 2 * third // WINDOW_OF_ONE, "two thirds", 120)
        first.signal(signal.SIGCONT)
        second.kill()  # before the first knows that it has lost the lane
        feeder.send(records[2 * third :])
        wait_for(lambda: count_windows(place) >= N_WINDOWS_OF_ONE, "all windows", 120)
    assert first.end() == 0, first.log_tail()
    assert "another process has taken over lane ''" in first.log.read_text()
    found = read_history(tmp_path, place=place)
    assert replace(found, sent=[]) == replace(expected, sent=[])


def test_a_daemon_with_another_state_is_kept_out_of_the_group(
    make_daemon: Any, kafka_broker: KafkaService, tmp_path: Path, unique: str
) -> None:
    """Partitions that came to it would begin with empty monitors, and silently."""
    n_windows = Feed(kafka_broker, unique, n_keys=6).send(2)
    Store(tmp_path / "other" / "state" / FILE, new_id=uuid4).close()
    daemon = make_daemon("one", unique)
    daemon.start()
    wait_for(lambda: total(daemon.place) == n_windows, "all windows", 120)
    other = make_daemon("other", unique)
    other.begin()
    assert other.wait() == 1
    told = other.log.read_text()
    assert "by a daemon with another state, 00000000-0000-0000-0000-000000000001" in told
    assert 'service.database = "postgresql://..."' in told
    assert daemon.end() == 0, daemon.log_tail()


def told_away(daemon: DaemonService) -> bool:
    return "nothing is lost" in daemon.log.read_text()
