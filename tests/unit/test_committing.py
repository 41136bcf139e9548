from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from driftbn_service.events import Publication
from driftbn_service.lane import Committer, Lane
from driftbn_service.metrics import Metrics
from driftbn_service.settings import CheckpointSettings, StreamSettings
from driftbn_service.state import FILE, LaneLostError, Store

from driftbn import datasets

WINDOW = 200


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / FILE) as made:
        yield made


@pytest.fixture
def lane(store: Store) -> Iterator[Lane]:
    settings = {"name": "orders", "window": WINDOW, "source": {"kind": "stdin"}}
    made = Lane(StreamSettings.model_validate(settings), store.lane("orders", ""))
    yield made
    made.close()


def make_committer(clock: Clock, wake: Callable[[], None] = lambda: None) -> Committer:
    metrics = Metrics()
    metrics.add_stream("orders", "stdin")
    return Committer(CheckpointSettings(), [("file", None)], metrics, wake, clock=clock)


def take(lane: Lane, n_rows: int) -> tuple[Publication, ...]:
    taken = lane.take(pa.Table.from_pandas(datasets.sample(datasets.asia(), n_rows, 1)))
    lane.advance({"n": n_rows}, {})
    return tuple(taken.publications)


def test_windows_are_due_sooner_than_records_alone(lane: Lane) -> None:
    clock = Clock()
    committer = make_committer(clock)
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
    committer = make_committer(Clock(), woken.set)
    take(lane, 2 * WINDOW)
    assert committer.commit(lane)
    assert woken.is_set()
    monitor = store.monitor("orders", "")
    assert monitor is not None
    assert monitor.n_windows == 2


def test_a_full_disk_is_waited_for(
    lane: Lane, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("driftbn_service.lane.FIRST_WAIT_SECONDS", 0.001)
    committer = make_committer(Clock())
    limit_pages(store, 0)
    retry, troubles = committer.abandoned.wait, []

    def wait(seconds: float) -> bool:
        troubles.append(committer.trouble)
        if len(troubles) == 2:
            limit_pages(store, 1 << 30)
        return retry(seconds)

    monkeypatch.setattr(committer.abandoned, "wait", wait)
    take(lane, WINDOW)
    assert committer.commit(lane)
    assert troubles == [f"{store.path}: the state cannot be written: the disk is full"] * 2
    assert committer.trouble is None
    assert store.monitor("orders", "") is not None


def test_a_wait_can_be_abandoned_and_nothing_has_happened(lane: Lane, store: Store) -> None:
    committer = make_committer(Clock())
    limit_pages(store, 0)
    committer.abandoned.set()
    take(lane, WINDOW)
    assert not committer.commit(lane)
    assert store.monitor("orders", "") is None
    assert store.lane("orders", "").checkpoint.position is None


def test_a_lane_that_another_process_has_taken_over_is_not_committed(
    lane: Lane, store: Store
) -> None:
    take(lane, WINDOW)
    store.lane("orders", "")  # its fencing number is larger
    with pytest.raises(LaneLostError, match="another process has taken over"):
        make_committer(Clock()).commit(lane)
    assert store.monitor("orders", "") is None


def limit_pages(store: Store, n_pages: int) -> None:
    """Let SQLite's own limit of pages stand for the disk; it never is below what there is."""
    store._database._writer.execute(f"PRAGMA max_page_count = {max(1, n_pages)}")
