"""Lanes: who may commit one, the states of its monitors, and a commit as one transaction."""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any, Final, NamedTuple, TypeAlias

from driftbn_service.events import Publication
from driftbn_service.state import sql
from driftbn_service.state.database import Connection, Database, StoreError, next_number
from driftbn_service.state.history import PublicationWriter, Wanted, note_done
from driftbn_service.state.journal import Journal
from driftbn_service.state.sql import ActionRow

logger = logging.getLogger("driftbn.service.state.lanes")

LEASE_SECONDS: Final = 30.0
"""A process that has not renewed its lease for so long may lose its lanes to another one."""
Clock: TypeAlias = Callable[[Connection], float]
SPILL_BYTES: Final = 16 << 20
"""States that wait for a commit in memory; more of them wait in a file."""


class LockedError(StoreError):
    def __init__(self, path: Path | str, pid: int, host: str) -> None:
        self.pid = pid
        where = "" if host == socket.gethostname() else f" on {host}"
        self.holder = f"process {pid}{where}"
        problem = f"{self.holder} uses this state: stop it, or give another state directory"
        super().__init__(path, problem)


class LaneLostError(StoreError):
    """Another process has taken over a lane; what was to be committed is for that one to do."""


class Owner:
    """The process as one that works on lanes.

    That it lives is told by a lock, on a file or in the server, which is taken back however the
    process ends, and by a lease, which runs out if it hangs. Neither is needed for exactly-once:
    each lane has a fencing number, and a commit under an old one is refused.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self.database = database
        self.clock = clock
        self._number: int | None = None
        self._registering = threading.Lock()

    @property
    def number(self) -> int:
        with self._registering:
            if self._number is None:
                self._number = self.database.write(self._register)
            return self._number

    def renew(self) -> None:
        """Say that this process lives; does nothing unless it has had a lane."""
        if self._number is not None:
            self.database.write(self._write_lease)

    def check_free(self, connection: Connection, lane: Sequence[Any]) -> None:
        """Make sure that nobody else works on a lane; ``LockedError`` if somebody does."""
        owner = lane[2]
        if owner is None or owner == self._number:
            return
        found = connection.execute(sql.OWNER, (owner,)).fetchone()
        if found is None:
            return
        _, host, pid, lease_until = sql.OWNERS.opened(found)
        if lease_until > self.clock(connection) and self.database.is_held(connection, owner):
            raise LockedError(self.database.path, pid, host)

    def _register(self, connection: Connection) -> int:
        """Enter this process, and forget those that have ended."""
        number = next_number(connection, "owners")
        for (owner,) in connection.execute(sql.OWNER_NUMBERS).fetchall():
            if not self.database.is_held(connection, owner):
                connection.execute(sql.FORGET_OWNER, (owner,))
        self.database.hold(connection, number)
        self._write_lease(connection, number)
        return number

    def _write_lease(self, connection: Connection, number: int | None = None) -> None:
        until = self.clock(connection) + LEASE_SECONDS
        values = (number or self._number, socket.gethostname(), os.getpid(), until)
        connection.execute(sql.OWNERS.upsert, sql.OWNERS.sealed(values))


class Checkpoint(NamedTuple):
    position: Mapping[str, Any] | None = None  # where the source goes on
    n_ahead: int = 0  # records after it that are in the states already


class LaneState:
    """A lane that this process owns: the states of its monitors by key, and how far it is.

    What is put is there for good with the next ``commit``, together with all else that belongs to
    it, or not at all; ``checkpoint`` is how far the lane was then. A commit deletes the records
    that it covers from the journal of a stream that is fed over HTTP. Only one thread may use it.

    Raises ``LockedError`` if another process works on it.
    """

    def __init__(
        self, owner: Owner, stream: str, lane: str, journal: Journal | None = None
    ) -> None:
        self.stream = stream
        self.lane = lane
        self._owner = owner
        self._database = owner.database
        self._journal = journal
        self._number = owner.number
        self._fence, self.checkpoint = self._database.write(self._take)
        with self._database.reading() as connection:
            found = connection.execute(sql.STATE_KEYS, (stream, lane))
            self._keys = {key for (key,) in found}
        self._spill = _Spill(self._database.scratch)

    def keys(self) -> Iterator[str]:
        return iter(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def get(self, key: str) -> bytes:
        """Return the state that was put last, committed or not; ``KeyError`` if there is none."""
        if key in self._spill.places:
            return self._spill.get(key)
        with self._database.reading() as connection:
            place = (self.stream, self.lane, sql.text(key))
            found = connection.execute(sql.STATE, place).fetchone()
            if found is None:
                raise KeyError(key)
            state: bytes = sql.STATES.opened(found)[-1]
            return state

    def put(self, key: str, state: bytes) -> None:
        """Keep a state in place of an earlier one, which is still there after an ``OSError``."""
        self._spill.put(key, state)
        self._keys.add(key)

    def commit(
        self,
        checkpoint: Checkpoint,
        publications: Sequence[Publication] = (),
        outlets: Wanted = (),
        done: Sequence[ActionRow] = (),
    ) -> None:
        """Write what was put, how far the lane is, and its windows, as a whole or not at all.

        The windows of a monitor come in their order; ``done`` are accepts that the states hold.
        Raises ``LaneLostError`` if another process
        has taken the lane over: this one must let go of it. After ``StoreError`` nothing is lost;
        call it again.
        """

        def action(connection: Connection) -> None:
            self._write_lane(connection, self._mine(connection), checkpoint)
            place = (self.stream, self.lane)
            states = (sql.STATES.sealed((*place, *state)) for state in self._spill.states())
            connection.executemany(sql.STATES.upsert, states)
            now = self._owner.clock(connection)
            PublicationWriter(connection, outlets, now).write(publications)
            note_done(connection, done)
            if self._journal is not None and checkpoint.position is not None:
                self._journal.forget(connection, int(checkpoint.position["sequence"]))

        self._database.write(action)
        self._spill.clear()
        self.checkpoint = checkpoint

    def close(self) -> None:
        """Let others have the lane; what was put since the last ``commit`` is lost."""
        self._spill.close()
        try:
            self._database.write(self._let_go)
        except StoreError as error:  # its lease runs out, or ends with the process
            logger.warning("a lane is not let go yet: %s", error, extra={"stream": self.stream})

    def _take(self, connection: Connection) -> tuple[int, Checkpoint]:
        """Become the owner under a new fencing number."""
        new = (self.stream, self.lane, None, 0, None, 0, None)
        connection.execute(sql.LANES.insert_new, sql.LANES.sealed(new))
        found = connection.execute(sql.LANE, (self.stream, self.lane)).fetchone()
        row = tuple(sql.LANES.opened(found))
        self._owner.check_free(connection, row)
        fence = row[3] + 1
        values = (*row[:2], self._number, fence, *row[4:])
        connection.execute(sql.LANES.upsert, sql.LANES.sealed(values))
        return fence, Checkpoint(_loaded(row[4]), row[5])

    def _mine(self, connection: Connection) -> list[Any]:
        """Return the row of the lane; ``LaneLostError`` if it is not this process's any more."""
        found = connection.execute(sql.LANE, (self.stream, self.lane)).fetchone()
        row = [] if found is None else sql.LANES.opened(found)
        if row[2:4] != [self._number, self._fence]:
            problem = f"another process has taken over lane {self.lane!r} of {self.stream!r}"
            raise LaneLostError(self._database.path, problem)
        return row

    def _write_lane(
        self, connection: Connection, row: Sequence[Any], checkpoint: Checkpoint
    ) -> None:
        now = self._owner.clock(connection)
        values = (*row[:4], _dumped(checkpoint.position), checkpoint.n_ahead, now)
        connection.execute(sql.LANES.upsert, sql.LANES.sealed(values))

    def _let_go(self, connection: Connection) -> None:
        try:
            row = self._mine(connection)
        except LaneLostError:
            return
        row[2] = None
        connection.execute(sql.LANES.upsert, sql.LANES.sealed(row))


class _Spill:
    """States that wait for a commit: in memory, and from some size on in a file without a name."""

    def __init__(self, directory: str | None) -> None:
        self.places: dict[str, tuple[int, int, int]] = {}  # offset, length, checksum
        self._directory = directory
        self._file: SpooledTemporaryFile[bytes] | None = None
        self._end = 0

    def put(self, key: str, state: bytes) -> None:
        if self._file is None:
            self._file = SpooledTemporaryFile(SPILL_BYTES, dir=self._directory)  # noqa: SIM115
        self._file.seek(self._end)
        self._file.write(state)
        self._file.flush()  # so that a full disk is told here
        self.places[key] = (self._end, len(state), zlib.crc32(state))
        self._end += len(state)

    def get(self, key: str) -> bytes:
        assert self._file is not None
        offset, length, checksum = self.places[key]
        self._file.seek(offset)
        state = self._file.read(length)
        if zlib.crc32(state) != checksum:
            raise sql.RowDamage(f"the state of key {key!r}")
        return state

    def states(self) -> Iterator[tuple[str, bytes]]:
        return ((key, self.get(key)) for key in self.places)

    def clear(self) -> None:
        self.close()
        self.places.clear()
        self._file, self._end = None, 0

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _dumped(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else json.dumps(value, separators=(",", ":"))


def _loaded(text: str | None) -> dict[str, Any] | None:
    return None if text is None else dict(json.loads(text))
