"""Lanes: who may commit one, the states of its monitors, and a commit as one transaction.

With it go the tables that were accepted over HTTP and wait until they are worked through.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import socket
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from driftbn_service.events import Publication
from driftbn_service.state import sql
from driftbn_service.state.database import Connection, Database, StoreError, next_number
from driftbn_service.state.history import PublicationWriter, Wanted, note_done
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

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
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


# --- Tables accepted over HTTP, until a commit covers them ---

_CODEC: Final = "zstd"
MAX_BODIES: Final = 1000
"""So many are read at a time at most."""
REMEMBERED_KEYS: Final = 100_000
"""Idempotency keys of a stream that are known again, the newest."""


class JournalError(StoreError):
    """A table cannot be accepted, or those that wait cannot be read."""


class JournalFullError(JournalError):
    """More waits than is allowed; what was given was not accepted."""

    def __init__(self, path: Path | str, n_pending_bytes: int, max_pending_bytes: int) -> None:
        self.n_pending_bytes = n_pending_bytes
        self.max_pending_bytes = max_pending_bytes
        super().__init__(
            path, f"{n_pending_bytes} bytes wait, of {max_pending_bytes} allowed; send again later"
        )


class KeyConflictError(JournalError):
    """Something else was accepted under the same idempotency key."""

    def __init__(self, path: Path | str, key: str) -> None:
        self.key = key
        super().__init__(path, f"other records were accepted under the idempotency key {key!r}")


@dataclass(frozen=True)
class Accepted:
    sequence: int  # later ones have larger numbers
    n_records: int
    duplicate: bool = False  # accepted before under the same idempotency key, and not again now


@dataclass(frozen=True)
class Body:
    sequence: int
    table: pa.Table | None = field(repr=False)  # None if the body is damaged
    n_behind: int
    damaged: bytes = field(default=b"", repr=False)  # what there is of a damaged body

    @property
    def n_records(self) -> int:
        return 0 if self.table is None else self.table.num_rows


class Journal:
    """Keeps the tables of a stream from the moment they are accepted until a commit covers them.

    What ``append`` has returned survives a kill and a loss of power. All methods may be called by
    any thread. Of ``max_pending_bytes``, compressed, one table is accepted whatever its size if
    none waits. The newest ``remember_keys`` idempotency keys are remembered, and those of all
    tables that wait.
    """

    def __init__(
        self,
        database: Database,
        stream: str,
        *,
        max_pending_bytes: int = 256 << 20,
        remember_keys: int = REMEMBERED_KEYS,
    ) -> None:
        self.stream = stream
        self._database = database
        self._max_pending_bytes = max_pending_bytes
        self._remember_keys = remember_keys
        self._grown = threading.Condition()
        self._closed = False
        self._n_pending_bytes: int | None = None  # where it is not known, it is counted
        self._last_sequence = self._last()

    def append(
        self, table: pa.Table, idempotency_key: str | None = None, *, digest: bytes | None = None
    ) -> Accepted:
        """Accept a table: it is on disk when this returns.

        If the idempotency key is known, the first answer is given again and nothing is stored. The
        digest tells the same table from another one under the same key; by its contents unless
        given. Raises ``JournalFullError`` if too much waits, ``KeyConflictError`` if another table
        was accepted under the key, ``JournalError`` if it cannot be written.
        """
        raw = raw_bytes(table)
        body: bytes = pa.compress(raw, codec=_CODEC, asbytes=True)
        key = (sql.text(idempotency_key), digest or hashlib.sha256(raw).digest())

        def action(connection: Connection) -> Accepted:
            return self._known(connection, *key) or self._accepted(
                connection, (table.num_rows, raw.size, body), key
            )

        try:
            found = self._database.write(action)
        except JournalError:
            raise
        except StoreError as error:
            self._n_pending_bytes = None
            raise JournalError(error.path, error.problem) from error
        with self._grown:
            self._last_sequence = max(self._last_sequence, found.sequence)
            self._grown.notify_all()
        return found

    def read(self, after_sequence: int, limit_bytes: int) -> tuple[Body, ...]:
        """Return the tables after one, at least the next, up to about so many bytes in memory.

        A body that is damaged comes without its table.
        """
        found: list[Body] = []
        place = (self.stream, after_sequence)
        with self._database.reading() as connection:
            (n_behind,) = connection.execute(sql.RECORDS_AFTER, place).fetchone()
            sizes = connection.execute(sql.BODY_SIZES, (*place, MAX_BODIES)).fetchall()
            until = _last_within(limit_bytes, sizes)
            for row in connection.execute(sql.BODIES_BETWEEN, (*place, until)):
                found.append(_body(row, n_behind))
                n_behind = found[-1].n_behind
        return tuple(found)

    def wait(self, after_sequence: int, timeout: float) -> bool:
        """Wait until there is a table after one; ``False`` if none came in time."""
        with self._grown:
            self._grown.wait_for(
                lambda: self._closed or self._last_sequence > after_sequence, timeout
            )
            if self._database.shared and self._last_sequence <= after_sequence:
                self._last_sequence = self._last()  # others accept tables too
            return not self._closed and self._last_sequence > after_sequence

    def forget(self, connection: Connection, sequence: int) -> None:
        """Delete the tables up to one, and the oldest keys of those that are gone."""
        connection.execute(sql.FORGET_BODIES, (self.stream, sequence))
        values = (self.stream, sequence, self.stream, self._remember_keys)
        connection.execute(sql.FORGET_BODY_KEYS, values)
        self._n_pending_bytes = None

    def close(self) -> None:
        """Accept nothing more; those who wait return."""
        with self._grown:
            self._closed = True
            self._grown.notify_all()

    def _last(self) -> int:
        with self._database.reading() as connection:
            return int(connection.execute(sql.LAST_BODY, (self.stream,)).fetchone()[0])

    def _known(self, connection: Connection, key: str | None, digest: bytes) -> Accepted | None:
        if key is None:
            return None
        found = connection.execute(sql.BODY_KEY, (self.stream, key)).fetchone()
        if found is None:
            return None
        _, _, sequence, n_records, known = sql.BODY_KEYS.opened(found)
        if known != digest:
            raise KeyConflictError(self._database.path, key)
        return Accepted(sequence, n_records, duplicate=True)

    def _accepted(
        self,
        connection: Connection,
        body: tuple[int, int, bytes],
        named: tuple[str | None, bytes],
    ) -> Accepted:
        n_records, n_raw_bytes, data = body
        n_pending = self._n_pending_bytes
        if n_pending is None or self._database.shared:
            (n_pending,) = connection.execute(sql.BODY_BYTES, (self.stream,)).fetchone()
        if n_pending and n_pending + len(data) > self._max_pending_bytes:
            raise JournalFullError(self._database.path, n_pending, self._max_pending_bytes)
        sequence = next_number(connection, "bodies")
        row = (sequence, self.stream, n_records, len(data), n_raw_bytes, data)
        connection.execute(sql.BODIES.insert, sql.BODIES.sealed(row))
        key, digest = named
        if key is not None:
            values = (self.stream, key, sequence, n_records, digest)
            connection.execute(sql.BODY_KEYS.insert, sql.BODY_KEYS.sealed(values))
        self._n_pending_bytes = n_pending + len(data)
        return Accepted(sequence, n_records)


def _last_within(limit_bytes: int, sizes: Sequence[tuple[int, int]]) -> int:
    """Return the number of the last body that fits, at least the first."""
    last = n_bytes = 0
    for sequence, n_more in sizes:
        n_bytes += n_more
        if last and n_bytes > limit_bytes:
            break
        last = sequence
    return last


def _body(row: Sequence[Any], n_behind: int) -> Body:
    """Return a body; ``n_behind`` counts its own records too."""
    sequence, _, n_records, _, n_raw_bytes, data, _ = row
    try:
        sql.BODIES.opened(row)
    except sql.RowDamage:
        left = data if isinstance(data, bytes) else b""
        return Body(sequence, None, n_behind, left)
    raw = pa.decompress(data, decompressed_size=n_raw_bytes, codec=_CODEC)
    table = pa.ipc.open_stream(raw).read_all()
    return Body(sequence, table, max(0, n_behind - n_records))


def raw_bytes(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
