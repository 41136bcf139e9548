"""One stream: a thread that reads and decodes, one that learns and commits, a queue between."""

from __future__ import annotations

import base64
import json
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from time import monotonic, time
from typing import Any, Final, Generic, TypeVar

from driftbn.errors import DriftbnError
from driftbn_service.lane import Committer, Lane, Taken
from driftbn_service.metrics import StreamMetrics
from driftbn_service.records import Decoded, Decoder, Rejected, RejectReason, Rows
from driftbn_service.records.rows import cut, n_rows_of
from driftbn_service.settings import StreamSettings
from driftbn_service.sources.base import Position, RecordSource, SourceError
from driftbn_service.state import (
    ActionRow,
    AwayError,
    Journal,
    LaneLostError,
    LockedError,
    Store,
)

Item = TypeVar("Item")


class WorkQueue(Generic[Item]):
    """First in, first out; ``put`` waits while there is no room.

    Once it waits it does so until half of all is taken out: to wake a thread takes those that work
    longer than to hand over an item. A single item that costs more than ``max_cost`` is let in
    alone.

    >>> queue = WorkQueue(100)
    >>> queue.put("a", 60), queue.put("b", 60, timeout=0)
    (True, False)
    >>> queue.get(0), queue.put("b", 60, timeout=0), queue.get(0), queue.get(0)
    ('a', True, 'b', None)
    """

    def __init__(self, max_cost: int) -> None:
        self.max_cost = max_cost
        self._items: deque[tuple[Item, int]] = deque()
        self.cost = 0  # of all that waits
        lock = threading.Lock()
        self._added = threading.Condition(lock)
        self._emptied = threading.Condition(lock)

    def put(self, item: Item, cost: int, timeout: float | None = None) -> bool:
        """Add an item; ``False`` if there was no room within ``timeout`` seconds."""
        with self._emptied:
            if not self._emptied.wait_for(lambda: self._has_room(cost), timeout):
                return False
            self._items.append((item, cost))
            self.cost += cost
            self._added.notify()
            return True

    def get(self, timeout: float | None = None) -> Item | None:
        """Take the oldest item out; ``None`` if there was none within ``timeout`` seconds."""
        with self._added:
            if not self._added.wait_for(lambda: self._items, timeout):
                return None
            item, cost = self._items.popleft()
            self.cost -= cost
            if 2 * self.cost <= self.max_cost:
                self._emptied.notify_all()
            return item

    def clear(self) -> None:
        with self._emptied:
            self._items.clear()
            self.cost = 0
            self._emptied.notify_all()

    def _has_room(self, cost: int) -> bool:
        return not self._items or self.cost + cost <= self.max_cost


# What the thread that reads hands to the thread that learns.

PART_SECONDS: Final = 0.25
"""How long the rows may take that are worked through between two looks at the clock."""
FIRST_ROWS: Final = 2048
LEAST_ROWS: Final = 256
_REJECTED_BYTES: Final = 600  # of a record that is set aside


@dataclass(frozen=True)
class Work:
    """Records to learn from."""

    lane: str
    decoded: Decoded
    position: Position  # where the source is after them
    start: Position | None  # where it was before them, if it can be read again from there
    n_behind: int | None  # about; None if the source does not know
    arrived: float  # seconds since the epoch


@dataclass(frozen=True)
class CloseLane:
    """A lane to let go of; ``done`` is set when that is done."""

    lane: str
    done: threading.Event


class End:
    """Nothing more will be read."""


class Look:
    """Somebody wants something: see what it is."""


class Pace:
    """Cuts rows into parts that take about a quarter of a second, by how long earlier ones took."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._n_at_once = FIRST_ROWS

    def parts(self, batches: Iterable[Rows]) -> Iterator[Rows]:
        """Iterate over all rows; each part is to be done when the next is asked for."""
        for rows in batches:
            start, n_rows = 0, n_rows_of(rows)
            while start < n_rows:
                stop = min(n_rows, start + self._n_at_once)
                began = self._clock()
                yield cut(rows, start, stop)
                self._note(stop - start, self._clock() - began)
                start = stop

    def _note(self, n_rows: int, seconds: float) -> None:
        if seconds > PART_SECONDS:
            self._n_at_once = max(LEAST_ROWS, int(n_rows * PART_SECONDS / seconds))
        elif n_rows == self._n_at_once and 2 * seconds < PART_SECONDS:
            self._n_at_once *= 2


# What a stream is made of, and what it is doing.


class StreamState(StrEnum):
    """What a stream is doing."""

    STARTING = "starting"
    """It is not connected yet."""
    RUNNING = "running"
    """It reads."""
    WAITING = "waiting"
    """Its source is away, or another process has its lane; it tries again."""
    DRAINED = "drained"
    """All is read and done."""
    FAILED = "failed"
    """It cannot go on; the others do."""
    STOPPED = "stopped"
    """It was told to stop and has."""


@dataclass(frozen=True)
class StreamParts:
    """What a stream is made of."""

    settings: StreamSettings
    source: RecordSource
    store: Store
    journal: Journal | None  # if it is fed over HTTP
    committer: Committer
    quarantine: Quarantine
    metrics: StreamMetrics
    queue_bytes: int  # that may wait between the two threads


# The stream at work.

logger = logging.getLogger("driftbn.service.stream")

POLL_SECONDS: Final = 0.25
"""How long a source may wait for records: a stop is noticed after it at the latest."""
FIRST_RETRY_SECONDS: Final = 0.5
LONGEST_RETRY_SECONDS: Final = 30.0


class StreamPipeline:
    """Reads a stream to its end or until it is stopped."""

    def __init__(self, parts: StreamParts, *, clock: Callable[[], float] = monotonic) -> None:
        self.parts = parts
        self.name = parts.settings.name
        self.error: str | None = None
        self.stands_by = False  # for the process that has the lane
        self._clock = clock
        self._state = StreamState.STARTING
        self._lanes: dict[str, Lane] = {}
        self._decoders: dict[str, Decoder] = {}
        self._queue: WorkQueue[Work | CloseLane | Look | End] = WorkQueue(parts.queue_bytes)
        self._stopping = threading.Event()
        self._releases: dict[str, Position] = {}
        self._wanted: tuple[ActionRow, ...] = ()
        self._pace = Pace(clock)
        self._busy_since: float | None = None
        self._reader = threading.Thread(target=self._read, name=f"read {self.name}", daemon=True)
        self._worker = threading.Thread(target=self._work, name=f"learn {self.name}", daemon=True)

    @property
    def state(self) -> StreamState:
        """What the stream is doing; failed also if its one monitor is."""
        is_lost = self.parts.settings.key is None and self.failed_keys
        return StreamState.FAILED if is_lost else self._state

    @property
    def trouble(self) -> str | None:
        """Why the stream is not as it should be, in words; ``None`` if it is."""
        return self.error or self.parts.committer.trouble or self._failures()

    @property
    def ready(self) -> bool:
        """Whether the source is connected and the lanes that it gave are ours.

        A daemon that stands by for one on another host is ready, so that it can replace that one.
        Of a stream with a key, monitors that have failed do not count: the others are ready.
        """
        if self.state is StreamState.DRAINED or (self.stands_by and self.parts.store.shared):
            return True
        running = self.state is StreamState.RUNNING and self.parts.source.ready
        return running and self.parts.committer.trouble is None

    @property
    def lanes(self) -> tuple[str, ...]:
        return tuple(sorted(name for name, lane in self._lanes.items() if not lane.lost))

    @property
    def failed_keys(self) -> dict[str, str]:
        """Monitors that have failed, by key, each with the reason."""
        return {
            key: reason
            for lane in list(self._lanes.values())
            for key, reason in lane.failed.items()
        }

    @property
    def alive(self) -> bool:
        return self._worker.is_alive() or self._reader.is_alive()

    @property
    def busy_seconds(self) -> float:
        """How long the worker has been at the same piece of work; 0 if it waits for work.

        Whoever waits for the state is not stuck: it counts from the last try.
        """
        since, waited_at = self._busy_since, self.parts.committer.waited_at
        if since is None:
            return 0.0
        return self._clock() - (since if waited_at is None else max(since, waited_at))

    def start(self) -> None:
        self._worker.start()  # first: whoever finds it not alive gives up
        self._reader.start()

    def accept(self, wanted: tuple[ActionRow, ...]) -> None:
        """Have these monitors take their present as normal, between two pieces of work."""
        self._wanted = wanted
        if wanted:
            self._queue.put(Look(), 0, 0.0)  # who is at work looks by itself

    def stop(self) -> None:
        """Ask for an end: what was read is worked through and committed."""
        self._stopping.set()

    def abandon(self) -> None:
        """Ask for an end at once; the next start goes on from the last commit."""
        self._stopping.set()
        self.parts.committer.abandoned.set()
        self._queue.clear()

    def join(self, timeout: float | None) -> bool:
        """Wait for the end; ``False`` if it did not come within ``timeout`` seconds."""
        deadline = None if timeout is None else self._clock() + timeout
        for thread in (self._reader, self._worker):
            if thread.ident is not None:
                left = None if deadline is None else max(0.0, deadline - self._clock())
                thread.join(left)
        return not self.alive

    # --- The reading thread ---

    def opened(self, lane: str) -> Position | None:
        """Take over a lane and go on where it was committed last."""
        taken = self._take_over(lane)
        settings = self.parts.settings
        self._decoders[lane] = Decoder(
            max_record_bytes=settings.max_record_bytes,
            max_fields=settings.max_fields,
            time_column=settings.monitor.time_column,
            key=settings.key,
        )
        self._lanes = {**self._lanes, lane: taken}
        logger.info(
            "lane is open" if taken.position is None else "lane goes on from its last commit",
            extra={"stream": self.name, "lane": lane or "main", "n_monitors": len(taken.monitors)},
        )
        return taken.position

    def closed(self, lane: str) -> None:
        """Have the other thread work through a lane and let go of it."""
        done = threading.Event()
        self._put(CloseLane(lane, done), 0)
        while not done.wait(POLL_SECONDS) and self._worker.is_alive():
            pass
        self._decoders.pop(lane, None)
        self._releases.pop(lane, None)

    def _take_over(self, lane: str) -> Lane:
        """Become the owner of a lane; where another process may have it for good reason, wait.

        So it is if the state is away.
        """
        told = False
        while True:
            try:
                taken = self._taken_over(lane)
            except (LockedError, AwayError) as error:
                is_locked = isinstance(error, LockedError)
                if self._stopping.is_set() or (is_locked and not self._may_change_hands):
                    raise
                if not told:
                    self._tell_wait(error)
                    self._become(StreamState.WAITING)
                told, self.stands_by = True, is_locked
                self._stopping.wait(FIRST_RETRY_SECONDS)
            else:
                self.stands_by = False
                return taken

    def _tell_wait(self, error: LockedError | AwayError) -> None:
        if isinstance(error, LockedError):
            logger.info("standing by: %s has the lane", error.holder, extra={"stream": self.name})
        else:
            logger.warning("waiting for the state: %s", error, extra={"stream": self.name})

    def _taken_over(self, lane: str) -> Lane:
        state = self.parts.store.lane(self.name, lane, self.parts.journal)
        try:
            origin = self.parts.store.origin(self.name)
            outlast = self.parts.committer.outlast
            return Lane(self.parts.settings, state, origin=origin, outlast=outlast)
        except BaseException:
            state.close()
            raise

    @property
    def _may_change_hands(self) -> bool:
        """Whether lanes of this stream go from process to process."""
        kind = self.parts.settings.source.kind
        return kind == "kafka" or (self.parts.store.shared and kind in ("http", "redis"))

    def _read(self) -> None:
        source = self.parts.source
        try:
            if self._retry(lambda: source.open(self)):
                self._become(StreamState.RUNNING)
                while not self._stopping.is_set() and not source.drained:
                    self._release()
                    self._retry(self._read_once)
        except DriftbnError as error:
            if not self._stopping.is_set() or not isinstance(error, AwayError | LockedError):
                self._fail(str(error))
        except Exception as error:
            logger.exception("reading has failed", extra={"stream": self.name})
            self._fail(f"{type(error).__name__}: {error}")
        finally:
            self._put(End(), 0)
            self._worker.join()
            self._release()
            source.close()

    def _retry(self, action: Callable[[], None]) -> bool:
        """Do something with the source until it works; ``False`` if told to stop before."""
        wait = FIRST_RETRY_SECONDS
        while not self._stopping.is_set():
            try:
                action()
            except SourceError as error:
                if error.fatal:
                    raise
                if self._state is not StreamState.WAITING:
                    logger.warning("%s; trying again", error, extra={"stream": self.name})
                self.error = str(error)
                self._become(StreamState.WAITING)
                self._stopping.wait(wait)
                wait = min(2 * wait, LONGEST_RETRY_SECONDS)
            else:
                if self._state is StreamState.WAITING:
                    logger.info("the source is back", extra={"stream": self.name})
                    self.error = None
                    self._become(StreamState.RUNNING)
                return True
        return False

    def _read_once(self) -> None:
        self._stand_by_if_lost()
        chunk = self.parts.source.poll(POLL_SECONDS)
        if chunk is None:
            return
        decoded = self._decoders[chunk.lane].decode(chunk)
        n_bytes = len(chunk.data) if isinstance(chunk.data, bytes) else int(chunk.data.nbytes)
        n_behind = chunk.n_behind
        if n_behind is not None and chunk.behind_in_bytes:
            n_records = decoded.n_rows + decoded.n_rejected
            n_behind = round(n_behind * n_records / max(1, n_bytes))
        work = Work(chunk.lane, decoded, chunk.position, chunk.start, n_behind, time())
        self._put(work, n_bytes + _REJECTED_BYTES * len(decoded.rejected))

    def _stand_by_if_lost(self) -> None:
        """Begin anew with a stream of one lane that another process has taken over."""
        lane = self._lanes.get("")
        if lane is not None and lane.lost:
            self.closed("")
            self.parts.source.close()
            self.parts.source.open(self)

    def _put(self, item: Work | CloseLane | End, cost: int) -> None:
        while not self._queue.put(item, cost, POLL_SECONDS):
            if not self._worker.is_alive() or self.parts.committer.abandoned.is_set():
                return

    def _release(self) -> None:
        while self._releases:
            lane, position = self._releases.popitem()
            self.parts.source.release(lane, position)

    # --- The working thread ---

    def _work(self) -> None:
        try:
            while not self.parts.committer.abandoned.is_set():
                self._busy_since = None
                item = self._queue.get(self._patience())
                self._busy_since = self._clock()
                if isinstance(item, End):
                    self._finish()
                    return
                if isinstance(item, Work):
                    self._take(item)
                elif isinstance(item, CloseLane):
                    self._close(item)
                self._commit_due()
        except AwayError as error:  # abandoned while it was waited for
            logger.warning("%s", error, extra={"stream": self.name})
        except Exception as error:
            logger.exception("the stream has failed", extra={"stream": self.name})
            self._fail(f"{type(error).__name__}: {error}")
            self._stopping.set()
        finally:
            self._busy_since = None
            for lane in self._lanes.values():
                lane.close()

    def _take(self, work: Work) -> None:
        """Give records to their monitors; long work is committed by time where that is possible."""
        lane = self._lanes[work.lane]
        if lane.lost:
            return
        self._reject(work.decoded.rejected)
        lane.begin(work.start)
        lane.arrived = work.arrived
        for rows in self._pace.parts(lane.unseen(work.decoded.batches)):
            self._note(lane.take(rows))
            if work.start is not None:
                self._commit_due()
            if lane.lost or self.parts.committer.abandoned.is_set():
                return
            self._busy_since = self._clock()
        lane.advance(work.position)
        if work.n_behind is not None:
            self.parts.metrics.behind(work.lane, work.n_behind)
        schema = lane.schema()
        if schema is not None and work.lane in self._decoders:
            self._decoders[work.lane].use_schema(schema)

    def _note(self, taken: Taken) -> None:
        if taken.n_rows:
            self.parts.metrics.records("taken", taken.n_rows)
        if taken.rejected:
            self._reject(taken.rejected)
            self._become(self._state)  # which may be shown as failed now

    def _reject(self, rejected: Iterable[Rejected]) -> None:
        """Keep records that are not taken for people to look at, and count them."""
        metrics = self.parts.metrics
        for item in rejected:
            failed = item.reason is RejectReason.MONITOR_FAILED
            self.parts.quarantine.add(item)
            metrics.rejected(item.reason.value, item.n_records)
            metrics.records("failed" if failed else "rejected", item.n_records)

    def _patience(self) -> float | None:
        """Return how long to wait for work before a commit is due."""
        due = (self.parts.committer.due_in(lane) for lane in self._lanes.values())
        return min((seconds for seconds in due if seconds is not None), default=POLL_SECONDS)

    def _commit_due(self) -> None:
        wanted, self._wanted = self._wanted, ()
        for lane in list(self._lanes.values()):
            accepted = not lane.lost and lane.accept(wanted)
            if accepted or self.parts.committer.due_in(lane) == 0.0:
                self._commit(lane)

    def _commit(self, lane: Lane) -> None:
        self.parts.quarantine.flush()
        try:
            if not self.parts.committer.commit(lane):
                return
        except LaneLostError as error:
            if not self._may_change_hands:
                raise
            logger.warning("%s; it goes on there", error, extra={"stream": self.name})
            lane.lost = True
            return
        if lane.position is not None:
            self._releases[lane.name] = lane.position
        metrics, monitors = self.parts.metrics, lane.monitors
        metrics.buffered(monitors.n_pending)
        metrics.monitors(len(monitors), monitors.n_resident, len(self.failed_keys))

    def _close(self, item: CloseLane) -> None:
        lane = self._lanes[item.lane]
        if not lane.lost:
            self._commit(lane)
        lane.close()
        self._lanes = {name: other for name, other in self._lanes.items() if name != item.lane}
        self.parts.metrics.behind(item.lane, 0)
        item.done.set()
        logger.info("lane is let go", extra={"stream": self.name, "lane": item.lane or "main"})

    def _finish(self) -> None:
        for lane in self._lanes.values():
            if self.parts.committer.due_in(lane) is not None:
                self._commit(lane)
        if self._state is StreamState.FAILED:
            return
        drained = self.parts.source.drained and not self._stopping.is_set()
        self._become(StreamState.DRAINED if drained else StreamState.STOPPED)

    def _become(self, state: StreamState) -> None:
        self._state = state
        self.parts.metrics.state(self.state.value)

    def _failures(self) -> str | None:
        failed = self.failed_keys
        if not failed:
            return None
        key, reason = min(failed.items())
        named = f"key {key!r}" if key else "the monitor"
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        return f"{named}{more} failed: {reason}"

    def _fail(self, reason: str) -> None:
        self.error = reason
        logger.error("stream has failed: %s", reason, extra={"stream": self.name})
        self._become(StreamState.FAILED)


# Records that could not be read.

_quarantine_logger = logging.getLogger("driftbn.service.quarantine")

_MAX_HELD_BYTES: Final = 1 << 16
TELL_SECONDS: Final = 60.0
"""How often the log says at most that records are rejected."""


class Quarantine:
    """Writes rejected records to a file, one JSON object a line.

    An object has ``time``, ``stream``, ``place``, ``reason``, ``detail``, ``record`` as text, and,
    where that is not all of it, ``record_base64``. When the file would grow beyond half of
    ``max_bytes`` it is renamed to end in ``.1``, in place of the one before: there are never more
    bytes than allowed, and always the newest records. The name of the file is that of the stream.

    Quarantine is for people; nothing depends on it. An error of the disk is logged, and never
    raised. The first record, and later ones once a minute, are told in the log, without what
    is in them. Any thread may use it.

    >>> import tempfile
    >>> from driftbn_service.records import RejectReason
    >>> path = Path(tempfile.mkdtemp()) / "orders.ndjson"
    >>> quarantine = Quarantine(path, 10_000, lambda: 0.0)
    >>> quarantine.add(Rejected("line 3", RejectReason.NOT_JSON, "Expecting value", b"{"))
    >>> quarantine.flush()
    >>> json.loads(path.read_text())["stream"]
    'orders'
    """

    def __init__(self, path: Path, max_bytes: int, clock: Callable[[], float]) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._held: list[bytes] = []
        self._n_held_bytes = 0
        self._failing = False
        self._n_untold = 0
        self._told_at: float | None = None

    def add(self, rejected: Rejected) -> None:
        """Take in one record. It stays in memory until ``flush``, or until there are many."""
        line = json.dumps(self._values(rejected), ensure_ascii=False).encode() + b"\n"
        with self._lock:
            self._tell(rejected)
            if len(line) > self.max_bytes // 2:
                return
            if self._n_held_bytes + len(line) > min(_MAX_HELD_BYTES, self.max_bytes // 2):
                self._flush()
            self._held.append(line)
            self._n_held_bytes += len(line)

    def flush(self) -> None:
        """Write all that was added."""
        with self._lock:
            if self._held:
                self._flush()

    def _tell(self, rejected: Rejected) -> None:
        self._n_untold += 1
        now = self._clock()
        if self._told_at is not None and 0.0 <= now - self._told_at < TELL_SECONDS:
            return
        _quarantine_logger.warning(
            "records cannot be read and are set aside: %d more, the last one at %s",
            self._n_untold, rejected.place,
            extra={
                "stream": self.path.stem,
                "reason": rejected.reason.value,
                "quarantine": str(self.path),
            },
        )  # fmt: skip
        self._n_untold, self._told_at = 0, now

    def _values(self, rejected: Rejected) -> dict[str, Any]:
        text = rejected.record.decode("utf-8", "replace")
        values = {
            "time": datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds"),
            "stream": self.path.stem,
            "place": rejected.place,
            "reason": rejected.reason.value,
            "detail": rejected.detail,
            "record": text,
        }
        if text.encode() != rejected.record:
            values["record_base64"] = base64.b64encode(rejected.record).decode()
        return values

    def _flush(self) -> None:
        data = b"".join(self._held)
        self._held, self._n_held_bytes = [], 0
        try:
            self._write(data)
        except OSError as error:
            if not self._failing:
                _quarantine_logger.warning(
                    "rejected records cannot be kept: %s", error, extra={"path": str(self.path)}
                )
            self._failing = True
            return
        if self._failing:
            _quarantine_logger.info(
                "rejected records are kept again", extra={"path": str(self.path)}
            )
        self._failing = False

    def _write(self, data: bytes) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            if self.path.stat().st_size + len(data) + 1 > self.max_bytes // 2:
                os.replace(self.path, self.path.with_name(f"{self.path.name}.1"))
        with open(self.path, "a+b") as file:
            if file.tell():
                # A line that was cut short, by a full disk or a kill, must not spoil the next.
                file.seek(-1, os.SEEK_END)
                data = data if file.read(1) == b"\n" else b"\n" + data
            file.write(data)
