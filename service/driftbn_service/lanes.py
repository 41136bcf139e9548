"""A lane: rows in their order to monitors, and all they come to as one commit."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final
from uuid import UUID

import numpy as np

from driftbn.errors import DataError
from driftbn.tables.schema import Schema
from driftbn_service.events import NO_ORIGIN, EventState, Publication, failure_of, publication_of
from driftbn_service.keys import part_by_key
from driftbn_service.monitors import KeyedMonitor, MonitorSet
from driftbn_service.records import Rejected, RejectReason, Rows
from driftbn_service.records.rejection import set_aside
from driftbn_service.records.rows import cut, n_bytes_of, n_rows_of
from driftbn_service.records.tables import unmixed
from driftbn_service.settings import StreamSettings
from driftbn_service.sources.base import Position
from driftbn_service.state import Checkpoint, LaneState, Wanted

logger = logging.getLogger("driftbn.service.lanes")

MAX_TRIES: Final = 3
"""Batches in a row over which a monitor may fail before it is given none any more."""


@dataclass
class Taken:
    """What became of rows.

    Parameters
    ----------
    n_rows
        Rows that went to a monitor.
    rejected
        Those that did not.
    publications
        The windows that were completed, and what is told besides.
    """

    n_rows: int = 0
    rejected: list[Rejected] = field(default_factory=list)
    publications: list[Publication] = field(default_factory=list)

    def set_aside(self, rows: Rows, reason: RejectReason, detail: str) -> None:
        """Note rows that were not taken."""
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
    ``commit`` has returned it too.

    Parameters
    ----------
    stream
        Settings of the stream.
    state
        Where it is kept.
    origin
        Namespace of the ids of events.

    Raises
    ------
    ChangedSettingsError
        If its monitors were kept with other settings.

    Attributes
    ----------
    position
        Where to go on reading.
    n_uncommitted, n_uncommitted_bytes
        Rows seen since the last commit, and about how much memory they hold on to.
    failed
        Keys of the monitors that have failed, each with the reason.
    lost
        Whether another process has taken it over: then nothing of it may be used any more.
    """

    def __init__(
        self, stream: StreamSettings, state: LaneState, *, origin: UUID = NO_ORIGIN
    ) -> None:
        self.stream = stream
        self.origin = origin
        self.name = state.lane
        self.n_uncommitted = self.n_uncommitted_bytes = 0
        self.failed: dict[str, str] = {}
        self.lost = False
        self._state = state
        checkpoint = state.checkpoint
        self.position: Position | None = checkpoint.position
        self.decoder_state: Mapping[str, Any] | None = checkpoint.decoder
        self._n_ahead = checkpoint.n_ahead  # rows after the position that were taken
        self._n_to_skip = self._n_ahead
        self._moved = False
        self._n_tries: Counter[str] = Counter()
        self._publications: list[Publication] = []
        self._monitors = MonitorSet(
            stream.name, stream.monitor_config(), state, stream.resident, stream.max_keys
        )
        self._monitors.check()

    @property
    def monitors(self) -> MonitorSet:
        """The monitors by key."""
        return self._monitors

    @property
    def has_reports(self) -> bool:
        """Whether there are windows to publish."""
        return bool(self._publications)

    @property
    def has_moved(self) -> bool:
        """Whether anything is new since the last commit."""
        return self._moved or self.n_uncommitted > 0

    def schema(self) -> Schema | None:
        """Return what the columns are where there is one monitor only and it knows them."""
        return None if self.stream.key is not None else self._monitors.schema("")

    def begin(self, start: Position | None) -> None:
        """Say where the next rows begin; with ``None`` there is no commit amid them."""
        self.position = self.position if start is None else start

    def take(self, rows: Rows) -> Taken:
        """Give rows to their monitors, but for those that were taken before a restart."""
        taken = Taken()
        n_old = min(self._n_to_skip, n_rows_of(rows))
        self._n_to_skip -= n_old
        rows = cut(rows, n_old, n_rows_of(rows))
        for key, part in self._parted(rows, taken):
            self._give(key, part, taken)
        self._publications.extend(taken.publications)
        self._n_ahead += n_rows_of(rows)
        self.n_uncommitted += n_rows_of(rows)
        self.n_uncommitted_bytes += n_bytes_of(rows)
        return taken

    def advance(self, position: Position, decoder_state: Mapping[str, Any]) -> None:
        """Say where to go on after the rows taken, and what the decoder must know then."""
        self.position, self.decoder_state = position, decoder_state
        self._n_ahead = self._n_to_skip
        self._moved = True

    def commit(self, outlets: Wanted = ()) -> tuple[Publication, ...]:
        """Write all that is new and return the windows that are published with it.

        Raises
        ------
        LaneLostError
            If another process has taken the lane over.
        OSError, StoreError
            If the disk is full or broken. Nothing is lost; call it again.
        """
        self._monitors.save()
        checkpoint = Checkpoint(self.position, self._n_ahead, self.decoder_state)
        self._state.commit(checkpoint, self._publications, outlets)
        published, self._publications = tuple(self._publications), []
        self.n_uncommitted = self.n_uncommitted_bytes = 0
        self._moved = False
        return published

    def close(self) -> None:
        """Let others have the lane."""
        self._state.close()

    def _parted(self, rows: Rows, taken: Taken) -> Iterator[tuple[str, Rows]]:
        """Iterate over the rows of each key; rows that cannot be parted so are set aside."""
        if self.stream.key is None:
            yield "", rows
            return
        try:
            parts = list(part_by_key(rows, self.stream.key))
        except Exception as error:  # whatever the keys are, they cost no more than these rows
            logger.exception("rows cannot be parted", extra={"monitor": self.stream.name})
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
        elif key not in self._monitors and self._monitors.is_full:
            detail = f"there are {self._monitors.max_keys} keys already (max_keys)"
            taken.set_aside(rows, RejectReason.TOO_MANY_KEYS, detail)
        else:
            self._update(key, rows, taken)

    def _update(self, key: str, rows: Rows, taken: Taken) -> None:
        """Give rows to a monitor.

        It may fail in ways nobody thought of, and must then take neither another monitor with it
        nor the stream: every exception ends here.
        """
        try:
            item = self._monitors.fetch(key)
            n_unfit = item.monitor.n_rejected
            found = self._reports(item, key, rows)
            n_unfit = item.monitor.n_rejected - n_unfit
        except DataError as error:  # the batch is no table, and nothing of it was taken
            taken.set_aside(rows, RejectReason.BAD_TABLE, str(error))
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            logger.exception(
                "a monitor has failed over %d records, which are set aside", n_rows_of(rows),
                extra={"monitor": self.stream.name, "key": key},
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
        """Return the windows that rows complete."""
        item.changed = True
        found = []
        parts = unmixed(rows, known=item.monitor.schema is not None)
        for report in chain.from_iterable(map(item.monitor.update, parts)):
            item.events, publication = publication_of(
                self.stream.name, key, self.name, report, item.events, origin=self.origin
            )
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
            extra={"monitor": self.stream.name, "key": key},
        )
        state = EventState() if item is None else item.events
        state, told = failure_of(
            self.stream.name, key, self.name, reason, state, origin=self.origin
        )
        if item is not None:
            item.events, item.changed = state, True
        return (told,)

    def _restored(self, key: str) -> KeyedMonitor | None:
        """Return a monitor read from disk and given again what it took since; ``None`` if it fails.

        The windows that this completes are known already.
        """
        since = self._monitors.drop(key)
        try:
            item = self._monitors.fetch(key)
            for rows in since:
                self._reports(item, key, rows)
                item.since.append(rows)
        except Exception:
            logger.exception(
                "a monitor cannot be put back", extra={"monitor": self.stream.name, "key": key}
            )
            self._monitors.drop(key)
            return None
        return item
