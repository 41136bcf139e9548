from __future__ import annotations

import errno
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from driftbn_service import committing
from driftbn_service.checkpoint import CheckpointDirectory
from driftbn_service.committing import Committer, History
from driftbn_service.events import Publication
from driftbn_service.lanes import Lane
from driftbn_service.metrics import Metrics
from driftbn_service.settings import CheckpointSettings, StreamSettings
from driftbn_service.store import Store, StoreError

from driftbn import datasets

WINDOW = 200


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def lane(tmp_path: Path) -> Any:
    directory = CheckpointDirectory(tmp_path / "lane")
    directory.open()
    settings = {"name": "orders", "window": WINDOW, "source": {"kind": "stdin"}}
    made = Lane(StreamSettings.model_validate(settings), "", directory, None)
    yield made
    made.close()


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with Store(tmp_path / "history.sqlite") as made:
        yield made


def make_committer(store: Store, clock: Clock, wake: Any = lambda: None) -> Committer:
    metrics = Metrics()
    metrics.add_stream("orders", "stdin")
    history = History(store, (), wake)
    return Committer("orders", CheckpointSettings(), history, metrics, clock=clock)


def take(lane: Lane, n_rows: int) -> tuple[Publication, ...]:
    taken = lane.take(pa.Table.from_pandas(datasets.sample(datasets.asia(), n_rows, 1)))
    lane.advance({"n": n_rows}, {})
    return tuple(taken.publications)


def test_windows_are_due_sooner_than_records_alone(lane: Lane, store: Store) -> None:
    clock = Clock()
    committer = make_committer(store, clock)
    assert committer.due_in(lane) is None
    take(lane, 10)
    assert committer.due_in(lane) == 10.0
    take(lane, WINDOW)
    assert committer.due_in(lane) == 1.0
    clock.now += 0.4
    assert committer.due_in(lane) == pytest.approx(0.6)
    clock.now += 5
    assert committer.due_in(lane) == 0.0
    assert committer.commit(lane)
    assert committer.due_in(lane) is None


def test_what_is_committed_is_in_the_history_and_told(lane: Lane, store: Store) -> None:
    woken = threading.Event()
    committer = make_committer(store, Clock(), woken.set)
    take(lane, 2 * WINDOW)
    assert committer.commit(lane)
    assert woken.is_set()
    monitor = store.monitor("orders", "")
    assert monitor is not None
    assert monitor.n_windows == 2


def test_a_full_disk_is_waited_for(
    lane: Lane, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committing, "FIRST_WAIT_SECONDS", 0.001)
    committer = make_committer(store, Clock())
    commit, troubles = lane.directory.commit, []

    def fail_twice(*meta: Any) -> None:
        troubles.append(committer.trouble)
        if len(troubles) < 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        commit(*meta)

    monkeypatch.setattr(lane.directory, "commit", fail_twice)
    take(lane, WINDOW)
    assert committer.commit(lane)
    problem = "the checkpoint cannot be written: No space left on device"
    assert troubles == [None, problem, problem]
    assert committer.trouble is None
    assert store.monitor("orders", "") is not None


def test_a_history_that_fails_keeps_the_windows_for_the_next_try(
    lane: Lane, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committing, "FIRST_WAIT_SECONDS", 0.001)
    publish, n_tries = store.publish, []

    def fail_once(publications: Sequence[Publication], outlets: Any = ()) -> int:
        n_tries.append(len(publications))
        if len(n_tries) == 1:
            raise StoreError(store.path, "disk I/O error")
        return publish(publications, outlets)

    monkeypatch.setattr(store, "publish", fail_once)
    committer = make_committer(store, Clock())
    take(lane, WINDOW)
    assert committer.commit(lane)
    assert n_tries == [1, 1]


def test_a_wait_can_be_abandoned_and_the_next_start_publishes(
    lane: Lane, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(publications: Sequence[Publication], outlets: Any = ()) -> int:
        committer.abandoned.set()
        raise StoreError(store.path, "disk I/O error")

    monkeypatch.setattr(store, "publish", fail)
    committer = make_committer(store, Clock())
    expected = take(lane, WINDOW)
    committer.commit(lane)
    assert store.monitor("orders", "") is None
    lane.close()
    directory = CheckpointDirectory(tmp_path / "lane")
    loaded = directory.open()
    assert loaded is not None
    again = Lane(lane.stream, "", directory, loaded.meta)
    assert again.leftover() == expected
    again.close()
