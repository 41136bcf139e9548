"""One lane of a stream: its monitors by key, rows to them in order, and commits of it all."""

from __future__ import annotations

import json
import logging
import struct
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from time import monotonic
from typing import Any, Final, TypeAlias
from uuid import UUID

import numpy as np

from driftbn import DriftMonitor
from driftbn.errors import DataError, DriftbnError
from driftbn.explain.sentences import counted, shortened
from driftbn.tables.schema import Schema
from driftbn_service.events import (
    ARRIVED,
    NO_ORIGIN,
    EventState,
    Publication,
    Whose,
    accepted_of,
    failure_of,
    publication_of,
)
from driftbn_service.metrics import StreamMetrics
from driftbn_service.records import Rejected, RejectReason, Rows
from driftbn_service.records.decoder import part_by_key, set_aside
from driftbn_service.records.rows import cut, n_bytes_of, n_rows_of
from driftbn_service.settings import CheckpointSettings, StreamSettings
from driftbn_service.sources.base import Position
from driftbn_service.state import (
    ActionRow,
    AwayError,
    Checkpoint,
    DamagedError,
    LaneLostError,
    LaneState,
    StoreError,
    Wanted,
)

logger = logging.getLogger("driftbn.service.lane")

_HEAD: Final = struct.Struct("<I")
"""Length of the JSON before the snapshot."""
_TABLES: Final = frozenset({"window", "learner", "schema", "knowledge"})
_MAX_SHOWN: Final = 80  # characters of a value in a message


Outlast: TypeAlias = Callable[[AwayError], None]


def give_up(error: AwayError) -> None:
    raise error


class ChangedSettingsError(DriftbnError):
    """A monitor was kept with other settings than it is to go on with."""

    def __init__(self, stream: str, changes: Iterable[str]) -> None:
        super().__init__(
            f"the settings of stream {stream!r} differ from those of its state: "
            f"{', '.join(changes)}; put them back, give the stream "
            "another name, or start it anew, without its state and history, with "
            f"'driftbn run --reset {stream}'"
        )


@dataclass
class KeyedMonitor:
    """A monitor in memory."""

    monitor: DriftMonitor
    events: EventState = field(default_factory=EventState)  # what they mean for the next
    changed: bool = False  # whether it has moved on since it was last written to disk
    since: list[Any] = field(default_factory=list, repr=False)


class MonitorSet:
    """Monitors by key, of which the least recently used ones live on disk.

    A monitor that comes back from disk goes on bit for bit, so nobody can tell that it was away.
    ``outlast`` is called as long as the state is away, and raises what it is given to give up.
    """

    def __init__(self, stream: StreamSettings, states: LaneState, outlast: Outlast) -> None:
        self._stream = stream
        self._config = stream.monitor_config()
        self._states = states
        self._outlast = outlast
        self._live: OrderedDict[str, KeyedMonitor] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of monitors, in memory or on disk."""
        return len(self._states) + sum(key not in self._states for key in self._live)

    @property
    def n_resident(self) -> int:
        return len(self._live)

    @property
    def n_pending(self) -> int:
        """Records in no window yet, of the monitors in memory."""
        return sum(item.monitor.n_pending for item in self._live.values())

    @property
    def is_full(self) -> bool:
        return len(self) >= self._stream.max_keys

    def __contains__(self, key: object) -> bool:
        return key in self._live or key in self._states

    def schema(self, key: str) -> Schema | None:
        item = self._live.get(key)
        return None if item is None else item.monitor.schema

    def fetch(self, key: str) -> KeyedMonitor:
        """Return the monitor of a key, which is made or brought back if need be."""
        item = self._live.get(key)
        if item is not None:
            self._live.move_to_end(key)
            return item
        is_known = key in self._states
        item = self._read(key) if is_known else KeyedMonitor(DriftMonitor(self._config))
        self._make_room()
        self._live[key] = item
        return item

    def check(self) -> None:
        """Make sure that monitors on disk can go on: ``ChangedSettingsError`` if not."""
        for key in self._states:
            self.fetch(key)  # it stays in memory: mostly it is the only one, and soon needed
            return

    def drop(self, key: str) -> list[Any]:
        """Forget what is in memory of a monitor; return the batches that are not on disk then."""
        item = self._live.pop(key, None)
        return [] if item is None else item.since

    def save(self) -> None:
        """Write every monitor that has moved on; after an ``OSError`` the next call tries again."""
        for key, item in self._live.items():
            if item.changed:
                self._write(key, item)

    def _make_room(self) -> None:
        while len(self._live) >= self._stream.resident:
            key, item = next(iter(self._live.items()))
            try:
                if item.changed:
                    self._write(key, item)
            except OSError as error:
                # More monitors stay in memory for now; the commit, which fails too, stops the
                # stream until there is room.
                logger.warning("monitor cannot be moved to disk: %s", error.strerror)
                return
            del self._live[key]

    def _write(self, key: str, item: KeyedMonitor) -> None:
        head = json.dumps(item.events.to_dict(), sort_keys=True).encode()
        self._states.put(key, _HEAD.pack(len(head)) + head + item.monitor.snapshot())
        item.changed = False
        item.since = []

    def _read(self, key: str) -> KeyedMonitor:
        events, snapshot = unpacked(self._state(key))
        monitor = DriftMonitor.restore(snapshot)
        if monitor.config != self._config:
            raise ChangedSettingsError(self._stream.name, _changes(monitor.config, self._config))
        return KeyedMonitor(monitor, events)

    def _state(self, key: str) -> bytes:
        while True:
            try:
                return self._states.get(key)
            except AwayError as error:
                self._outlast(error)


def unpacked(state: bytes) -> tuple[EventState, bytes]:
    """Return what is kept of a monitor: what its events mean for the next one, and its snapshot."""
    (length,) = _HEAD.unpack_from(state)
    start = _HEAD.size + length
    return EventState.from_dict(json.loads(state[_HEAD.size : start])), state[start:]


def _changes(kept: Any, wanted: Any, table: str = "") -> Iterator[str]:
    """Iterate over the settings that differ, those in tables with the name of the table before."""
    for item in fields(kept):
        name, before, now = item.name, getattr(kept, item.name), getattr(wanted, item.name)
        if before == now:
            continue
        if name in _TABLES:
            yield from _changes(before, now, f"{name}.")
        else:
            yield f"{table}{name} was {_shown(before)} and is {_shown(now)}"


def _shown(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, Schema):
        return f"a schema of {counted(len(value.variables), 'field')}"
    word = value.value if isinstance(value, Enum) else value
    return shortened(json.dumps(word, ensure_ascii=False), _MAX_SHOWN)


# A lane: rows in their order to monitors, and all they come to as one commit.


MAX_TRIES: Final = 3
"""Batches in a row over which a monitor may fail before it is given none any more."""


@dataclass
class Taken:
    """What became of rows."""

    n_rows: int = 0  # those that went to a monitor
    rejected: list[Rejected] = field(default_factory=list)
    publications: list[Publication] = field(default_factory=list)  # of complete windows

    def set_aside(self, rows: Rows, reason: RejectReason, detail: str) -> None:
        n_rows = n_rows_of(rows)
        place = f"record {{}} of {n_rows} taken together".format
        told = set_aside(rows, np.arange(n_rows), lambda i, _: place(i + 1), reason, detail)
        self.rejected.extend(told)

    def leave_out(self, rows: Rows, n_unfit: int) -> None:
        """Note rows that a monitor has left out of others."""
        if n_unfit:
            place = f"among {n_rows_of(rows)} records taken together"
            detail = "a value that its field cannot have, such as a time among numbers"
            self.rejected.append(Rejected(place, RejectReason.UNFIT, detail, b"", n_unfit))


class Lane:
    """The monitors of one lane and the place up to which they have read.

    Whatever rows hold, taking them raises nothing. Rows that cannot be taken are set aside. A
    monitor that fails is put back to where it was before the batch it failed over, which is set
    aside, and goes on; if it fails over ``MAX_TRIES`` batches in a row, it has failed and is given
    none any more until the next start. The place in the source moves on in any case.

    Only one thread may use it. Nothing that ``take`` returns may be shown to anybody before
    ``commit`` has returned it too. Once it is ``lost`` to another process, nothing of it may be
    used any more. ``AwayError`` is the one exception: ``outlast`` has given up on the state.
    """

    def __init__(
        self,
        stream: StreamSettings,
        state: LaneState,
        *,
        origin: UUID = NO_ORIGIN,
        outlast: Outlast = give_up,
    ) -> None:
        self.stream = stream
        self.origin = origin
        self.name = state.lane
        self.n_uncommitted = self.n_uncommitted_bytes = 0  # rows, and about their memory
        self.failed: dict[str, str] = {}  # reasons by key
        self.arrived: float | None = None  # when the rows were read that are taken now
        self.lost = False
        self._state = state
        checkpoint = state.checkpoint
        self.position: Position | None = checkpoint.position
        self._n_ahead = checkpoint.n_ahead  # rows after the position that were taken
        self._n_to_skip = self._n_ahead
        self._moved = False
        self._n_tries: Counter[str] = Counter()
        self._publications: list[Publication] = []
        self._accepted: list[ActionRow] = []  # since the last commit
        self._known_accepts: set[int] = set()  # numbers of all that were taken in
        self.monitors = MonitorSet(stream, state, outlast)
        self.monitors.check()

    @property
    def has_reports(self) -> bool:
        return bool(self._publications)

    @property
    def has_moved(self) -> bool:
        return self._moved or self.n_uncommitted > 0

    def schema(self) -> Schema | None:
        """Return what the columns are where there is one monitor only and it knows them."""
        return None if self.stream.key is not None else self.monitors.schema("")

    def begin(self, start: Position | None) -> None:
        """Say where the next rows begin; with ``None`` there is no commit amid them."""
        self.position = self.position if start is None else start

    def unseen(self, batches: Iterable[Rows]) -> Iterator[Rows]:
        """Iterate over rows, but for those that were taken before a restart."""
        for rows in batches:
            n_old = min(self._n_to_skip, n_rows_of(rows))
            self._n_to_skip -= n_old
            if n_old < n_rows_of(rows):
                yield cut(rows, n_old, n_rows_of(rows))

    def take(self, rows: Rows) -> Taken:
        """Give rows to their monitors; they are ``unseen``."""
        taken = Taken()
        for key, part in self._parted(rows, taken):
            self._give(key, part, taken)
        self._publications.extend(taken.publications)
        self._n_ahead += n_rows_of(rows)
        self.n_uncommitted += n_rows_of(rows)
        self.n_uncommitted_bytes += n_bytes_of(rows)
        return taken

    def advance(self, position: Position) -> None:
        """Say where to go on after the rows taken."""
        self.position = position
        self._n_ahead = self._n_to_skip
        self._moved = True

    def accept(self, wanted: Iterable[ActionRow]) -> bool:
        """Take the present of monitors as their normal state; return whether a commit is due.

        What is not a monitor of this lane is left to others. One that cannot be read now is tried
        again when it is wanted again.
        """
        before = len(self._accepted)
        for action in wanted:
            is_new = action.number not in self._known_accepts
            is_mine = action.key in self.monitors and action.key not in self.failed
            if is_new and is_mine:
                self._accept(action)
        return len(self._accepted) > before

    def _accept(self, action: ActionRow) -> None:
        try:
            item = self.monitors.fetch(action.key)
        except (OSError, StoreError) as error:
            logger.warning("a monitor cannot be read: %s", error, extra={"key": action.key})
            return
        item.monitor.accept()
        window, by = item.events.window, (action.author, action.comment)
        item.events, told = accepted_of(self._whose(action.key), by, item.events)
        item.changed = True
        self._publications += [] if told is None else [told]
        self._known_accepts.add(action.number)
        self._accepted.append(replace(action, window_index=window))

    def commit(self, outlets: Wanted = ()) -> tuple[Publication, ...]:
        """Write all that is new and return the windows that are published with it.

        Raises ``LaneLostError`` if another process has taken the lane over; ``OSError`` or
        ``StoreError`` if the disk is full or broken: nothing is lost, call it again.
        """
        self.monitors.save()
        checkpoint = Checkpoint(self.position, self._n_ahead)
        self._state.commit(checkpoint, self._publications, outlets, self._accepted)
        published, self._publications = tuple(self._publications), []
        self._accepted.clear()
        self.n_uncommitted = self.n_uncommitted_bytes = 0
        self._moved = False
        return published

    def close(self) -> None:
        self._state.close()

    def _parted(self, rows: Rows, taken: Taken) -> Iterator[tuple[str, Rows]]:
        """Iterate over the rows of each key; rows that cannot be parted so are set aside."""
        if self.stream.key is None:
            yield "", rows
            return
        try:
            parts = list(part_by_key(rows, self.stream.key))
        except Exception as error:  # whatever the keys are, they cost no more than these rows
            logger.exception("rows cannot be parted", extra={"stream": self.stream.name})
            taken.set_aside(rows, RejectReason.BAD_TABLE, type(error).__name__)
            return
        for key, part, _ in parts:
            if key is None:
                taken.set_aside(part, RejectReason.NO_KEY, f"no key in {self.stream.key!r}")
            else:
                yield key, part

    def _give(self, key: str, rows: Rows, taken: Taken) -> None:
        if key in self.failed:
            taken.set_aside(rows, RejectReason.MONITOR_FAILED, self.failed[key])
        elif key not in self.monitors and self.monitors.is_full:
            detail = f"there are {self.stream.max_keys} keys already (max_keys)"
            taken.set_aside(rows, RejectReason.TOO_MANY_KEYS, detail)
        else:
            self._update(key, rows, taken)

    def _update(self, key: str, rows: Rows, taken: Taken) -> None:
        """Give rows to a monitor.

        It may fail in ways nobody thought of, and must then take neither another monitor with it
        nor the stream: every exception ends here.
        """
        try:
            item = self.monitors.fetch(key)
            n_unfit = item.monitor.n_rejected
            found = self._reports(item, key, rows)
            n_unfit = item.monitor.n_rejected - n_unfit
        except AwayError:
            raise
        except DataError as error:  # the batch is no table, and nothing of it was taken
            taken.set_aside(rows, RejectReason.BAD_TABLE, str(error))
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            logger.exception(
                "a monitor has failed over %d records, which are set aside", n_rows_of(rows),
                extra={"stream": self.stream.name, "key": key},
            )  # fmt: skip
            taken.set_aside(rows, RejectReason.MONITOR_FAILED, reason)
            taken.publications.extend(self._put_back(key, reason))
        else:
            self._n_tries.pop(key, None)
            item.since.append(rows)
            taken.n_rows += n_rows_of(rows) - n_unfit
            taken.leave_out(rows, n_unfit)
            taken.publications.extend(found)

    def _reports(self, item: KeyedMonitor, key: str, rows: Rows) -> list[Publication]:
        item.changed = True
        found = []
        for report in item.monitor.update(rows):
            item.events, publication = publication_of(self._whose(key), report, item.events)
            if self.arrived is not None:
                publication.timings[ARRIVED] = self.arrived
            found.append(publication)
        return found

    def _put_back(self, key: str, reason: str) -> tuple[Publication, ...]:
        """Have a monitor as it was before a batch; if that was once too often, it has failed."""
        self._n_tries[key] += 1
        item = self._restored(key)
        if item is not None and self._n_tries[key] < MAX_TRIES:
            return ()
        self.failed[key] = reason
        logger.error(
            "a monitor has failed and takes no more records until the next start",
            extra={"stream": self.stream.name, "key": key},
        )
        state = EventState() if item is None else item.events
        state, told = failure_of(self._whose(key), reason, state)
        if item is not None:
            item.events, item.changed = state, True
        return (told,)

    def _whose(self, key: str) -> Whose:
        return Whose(self.stream.name, key, self.name, self.origin)

    def _restored(self, key: str) -> KeyedMonitor | None:
        """Return a monitor read from disk and given again what it took since; ``None`` if it fails.

        The windows that this completes are known already.
        """
        since = self.monitors.drop(key)
        try:
            item = self.monitors.fetch(key)
            for rows in since:
                self._reports(item, key, rows)
                item.since.append(rows)
        except AwayError:
            raise
        except Exception:
            logger.exception(
                "a monitor cannot be put back", extra={"stream": self.stream.name, "key": key}
            )
            self.monitors.drop(key)
            return None
        return item


# When a lane is committed, and what is told once it is.


FIRST_WAIT_SECONDS: Final = 0.5
LONGEST_WAIT_SECONDS: Final = 30.0
MAX_ROWS: Final = 1_000_000
"""Rows after which a checkpoint is due whatever the time: so many can be read again quickly."""
MAX_BYTES: Final = 64 << 20
"""Memory that rows may take which a monitor would be given again if it failed."""


class Committer:
    """Commits the lanes of a stream, tells what they have committed, and then calls ``wake``."""

    def __init__(
        self,
        settings: CheckpointSettings,
        outlets: Wanted,
        metrics: StreamMetrics,
        wake: Callable[[], None],
        *,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.settings = settings
        self.trouble: str | None = None
        self.waited_at: float | None = None  # when the state was last found to be away
        self.abandoned = threading.Event()
        self._outlets = outlets
        self._metrics = metrics
        self._wake = wake
        self._clock = clock
        self._committed_at: dict[str, float] = {}

    def due_in(self, lane: Lane) -> float | None:
        """Return in how many seconds a lane is to be committed; ``None`` if nothing is new."""
        if lane.lost:
            return None
        if lane.n_uncommitted >= MAX_ROWS or lane.n_uncommitted_bytes >= MAX_BYTES:
            return 0.0
        if not lane.has_reports and not lane.has_moved:
            return None
        settings = self.settings
        wait = settings.publish_seconds if lane.has_reports else settings.interval_seconds
        since = self._committed_at.setdefault(lane.name, self._clock())
        return max(0.0, since + wait - self._clock())

    def commit(self, lane: Lane) -> bool:
        """Commit a lane; waits until that is possible, or returns ``False`` if abandoned.

        A lane that was abandoned must not be used any more. Raises ``LaneLostError`` if another
        process has taken it over, ``DamagedError`` if the state is damaged: only a start can go
        back to its copy.
        """
        wait = FIRST_WAIT_SECONDS
        while not self._try(lane, wait):
            if self.abandoned.wait(wait):
                return False
            wait = min(2 * wait, LONGEST_WAIT_SECONDS)
        self._committed_at[lane.name] = self._clock()
        return True

    def outlast(self, error: AwayError) -> None:
        """Wait a little for the state to answer; raises the error once abandoned."""
        if self.trouble is None:
            logger.error("%s; waiting until it can, nothing is lost", error)
        self.trouble, self.waited_at = str(error), self._clock()
        if self.abandoned.wait(FIRST_WAIT_SECONDS):
            raise error

    def _try(self, lane: Lane, wait: float) -> bool:
        try:
            self._commit(lane)
        except (LaneLostError, DamagedError):
            raise
        except (OSError, StoreError) as error:
            self.trouble, self.waited_at = str(error), self._clock()
            self._metrics.commit_failed()
            logger.error(
                "%s; reading stops until it can, nothing is lost; next try in %.1f s",
                error, wait,
                extra={"stream": lane.stream.name},
            )  # fmt: skip
            return False
        if self.trouble is not None:
            logger.warning("writing works again", extra={"stream": lane.stream.name})
            self.trouble = None
        return True

    def _commit(self, lane: Lane) -> None:
        started = self._clock()
        published = lane.commit(self._outlets)
        self._metrics.committed(self._clock() - started)
        for publication in published:
            self._metrics.window(publication)
        if published:
            self._wake()
