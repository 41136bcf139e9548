"""Tables that were accepted over HTTP and wait until they are worked through."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from driftbn_service.state import sql
from driftbn_service.state.database import Connection, Database, StoreError, next_number

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
