"""A stream: its queue, and a daemon that hung while another one took its partition over."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from driftbn_service.daemon import STUCK_SECONDS
from driftbn_service.lane import Committer
from driftbn_service.metrics import Metrics
from driftbn_service.settings import CheckpointSettings, StreamSettings
from driftbn_service.sources.base import LaneListener
from driftbn_service.state import FILE, Checkpoint, Store
from driftbn_service.state.lanes import LEASE_SECONDS
from driftbn_service.stream import Quarantine, StreamParts, StreamPipeline, StreamState, WorkQueue

from driftbn import datasets
from tests.decoding import Chunk, Position, TableFormat
from tests.services.process import wait_for
from tests.small_disk import limit_pages

WINDOW = 200


class Partition:
    """A source with one lane, of what it is given."""

    name = "topic orders"
    drained = False
    ready = True

    def __init__(self) -> None:
        self.given: queue.Queue[list[dict[str, Any]]] = queue.Queue()
        self.released: list[Position] = []
        self._n_read = 0

    def open(self, listener: LaneListener) -> None:
        listener.opened("0")

    def poll(self, timeout: float) -> Chunk | None:
        try:
            records = self.given.get(timeout=timeout)
        except queue.Empty:
            return None
        self._n_read += len(records)
        data = b"".join(json.dumps(record).encode() + b"\n" for record in records)
        place: Callable[[int, int], str] = "{} {}".format
        position = {"offset": self._n_read}
        return Chunk(data, TableFormat.NDJSON, place, lane="0", position=position)

    def release(self, lane: str, position: Position) -> None:
        self.released.append(position)

    def close(self) -> None:
        pass


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / FILE) as made:
        yield made


def pipeline_of(
    store: Store, source: Partition, clock: Callable[[], float] = time.monotonic
) -> StreamPipeline:
    kafka = {"kind": "kafka", "brokers": ["b:1"], "topic": "orders"}
    settings = {"name": "orders", "window": WINDOW, "source": kafka}
    metrics = Metrics().add_stream("orders", "kafka")
    parts = StreamParts(
        settings=StreamSettings.model_validate(settings),
        source=source,
        store=store,
        journal=None,
        committer=Committer(
            CheckpointSettings(publish_seconds=0.01, interval_seconds=0.01),
            [], metrics, lambda: None, clock=clock,
        ),
        quarantine=Quarantine(store.path.parent / "quarantine.ndjson", 1 << 20, time.time),
        metrics=metrics,
        queue_bytes=1 << 20,
    )  # fmt: skip
    return StreamPipeline(parts, clock=clock)


def test_it_commits_nothing_more_and_goes_on_with_what_is_its_own(store: Store) -> None:
    records = datasets.sample(datasets.asia(), 2 * WINDOW, 1).to_dict("records")
    source = Partition()
    hung = pipeline_of(store, source)
    hung.start()
    try:
        source.given.put(records[:WINDOW])
        wait_for(lambda: source.released == [{"offset": WINDOW}], "the first window", 120)
        with Store(store.path, clock=lambda: time.time() + 2 * LEASE_SECONDS) as other:
            lane = other.lane("orders", "0")
            assert lane.checkpoint.position == {"offset": WINDOW}
            source.given.put(records[WINDOW:])
            wait_for(lambda: hung.lanes == (), "it has noticed")
            lane.commit(Checkpoint({"offset": WINDOW + 1}))
        assert hung.state is StreamState.RUNNING
        hung.closed("0")  # the broker tells it at last
    finally:
        hung.stop()
        assert hung.join(30)
    assert [row.n_windows for row in store.monitors()] == [1]
    assert source.released == [{"offset": WINDOW}]
    assert [row.position for row in store.lanes()] == [{"offset": WINDOW + 1}]


def test_who_waits_for_the_state_for_hours_is_not_taken_for_stuck(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FIRST_WAIT_SECONDS", "LONGEST_WAIT_SECONDS"):
        monkeypatch.setattr(f"driftbn_service.lane.{name}", 0.01)
    ahead = [0.0]
    source = Partition()
    pipeline = pipeline_of(store, source, lambda: time.monotonic() + ahead[0])
    pipeline.start()
    try:
        wait_for(lambda: pipeline.lanes == ("0",), "the lane is open")
        limit_pages(store, 0)
        source.given.put(datasets.sample(datasets.asia(), 8 * WINDOW, 1).to_dict("records"))
        wait_for(lambda: pipeline.parts.committer.trouble is not None, "it waits", 120)
        for _ in range(3):
            ahead[0] += 10 * STUCK_SECONDS
            wait_for(lambda: pipeline.busy_seconds < STUCK_SECONDS, "it has tried again")
        assert not pipeline.ready
        limit_pages(store, 1 << 30)
        wait_for(lambda: pipeline.ready, "it goes on")
        assert pipeline.busy_seconds < STUCK_SECONDS
    finally:
        pipeline.stop()
        assert pipeline.join(30)
    assert [row.n_windows for row in store.monitors()] == [8]


def test_who_waits_for_room_is_woken_when_half_of_it_is_there() -> None:
    queue: WorkQueue[int] = WorkQueue(10)
    for number in range(10):
        queue.put(number, 1)
    done = threading.Event()
    thread = threading.Thread(target=lambda: queue.put(10, 1) and done.set())
    thread.start()
    while not queue._emptied._waiters:  # type: ignore[attr-defined]
        time.sleep(0.001)
    assert [queue.get() for _ in range(4)] == [0, 1, 2, 3]
    assert not done.wait(0.1)
    assert queue.get() == 4
    assert done.wait(60)
    thread.join()
    assert [queue.get(0) for _ in range(7)] == [5, 6, 7, 8, 9, 10, None]


def test_an_item_larger_than_the_queue_is_let_in_alone() -> None:
    queue: WorkQueue[str] = WorkQueue(10)
    assert queue.put("large", 100, timeout=0)
    assert not queue.put("small", 1, timeout=0)
    assert queue.get(0) == "large"
