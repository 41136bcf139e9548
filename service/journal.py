"""A queue on disk of tables that were accepted and are not worked through yet."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa

from service.journal_errors import JournalError, JournalFullError, KeyConflictError

if TYPE_CHECKING:
    from service.settings.sources import HttpSourceSettings

__all__ = [
    "Accepted",
    "Body",
    "Journal",
    "JournalError",
    "JournalFullError",
    "KeyConflictError",
]

VERSION: Final = 1
"""Of the layout below."""

_SCHEMA: Final = """
CREATE TABLE bodies (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    n_records INTEGER NOT NULL,
    n_records_before INTEGER NOT NULL,
    n_raw_bytes INTEGER NOT NULL,
    n_bytes INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE TABLE keys (
    key TEXT PRIMARY KEY,
    sequence INTEGER NOT NULL,
    n_records INTEGER NOT NULL,
    digest BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX keys_by_sequence ON keys (sequence);
CREATE TABLE totals (n_records INTEGER NOT NULL);
INSERT INTO totals VALUES (0);
"""
_BUSY_SECONDS: Final = 10.0
_LARGEST_WAL: Final = 64 << 20  # what a burst leaves behind is given back to the disk
_CODEC: Final = "zstd"


@dataclass(frozen=True)
class Accepted:
    """What became of a table that was given.

    Parameters
    ----------
    sequence
        Its number in the journal, from 1; later ones have larger numbers.
    n_records
        How many records it has.
    duplicate
        Whether it was accepted before under the same idempotency key, and not again now.
    """

    sequence: int
    n_records: int
    duplicate: bool = False


@dataclass(frozen=True)
class Body:
    """A table that waits.

    Parameters
    ----------
    sequence
        Its number.
    table
        The records.
    n_behind
        How many records wait behind it.
    """

    sequence: int
    table: pa.Table = field(repr=False)
    n_behind: int


class Journal:
    """Keeps tables from the moment they are accepted until they are released.

    What ``append`` has returned survives a kill and a loss of power. All methods may be called by
    any thread.

    Parameters
    ----------
    path
        The SQLite file; it and its directory are made if they are not there.
    max_pending_bytes
        Compressed bytes that may wait. One table is accepted whatever its size if none waits.
    remember_keys
        How many idempotency keys are remembered, the newest; those of tables that wait are
        remembered in any case.

    Raises
    ------
    JournalError
        If the file cannot be used.

    Examples
    --------
    >>> import tempfile
    >>> directory = tempfile.TemporaryDirectory()
    >>> with Journal(Path(directory.name) / "journal.sqlite") as journal:
    ...     first = journal.append(pa.table({"x": [1, 2]}), "key")
    ...     again = journal.append(pa.table({"x": [1, 2]}), "key")
    ...     bodies = journal.read(0, 1000)
    >>> first
    Accepted(sequence=1, n_records=2, duplicate=False)
    >>> again
    Accepted(sequence=1, n_records=2, duplicate=True)
    >>> [body.table.to_pydict() for body in bodies]
    [{'x': [1, 2]}]
    >>> directory.cleanup()
    """

    def __init__(
        self, path: Path, *, max_pending_bytes: int = 256 << 20, remember_keys: int = 100_000
    ) -> None:
        self.path = path
        self._max_pending_bytes = max_pending_bytes
        self._remember_keys = remember_keys
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._grown = threading.Condition()
        self._closed = False
        self._last_sequence = self._n_records = self._n_pending_bytes = 0
        with self._blamed():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = self._connect()
            try:
                self._prepare()
                self._reader = self._connect()  # in WAL mode it does not wait for the writer
                self._load()
            except BaseException:
                self._writer.close()
                raise

    @classmethod
    def of(cls, path: Path, settings: HttpSourceSettings) -> Self:
        """Return the journal of a stream by its settings."""
        return cls(
            path,
            max_pending_bytes=settings.max_pending_bytes,
            remember_keys=settings.remember_keys,
        )

    @property
    def last_sequence(self) -> int:
        """The number of the last table that was accepted; 0 before the first."""
        return self._last_sequence

    @property
    def n_pending_bytes(self) -> int:
        """How many bytes wait to be released."""
        return self._n_pending_bytes

    def append(
        self, table: pa.Table, idempotency_key: str | None = None, *, digest: bytes | None = None
    ) -> Accepted:
        """Accept a table: it is on disk when this returns.

        Parameters
        ----------
        table
            The records.
        idempotency_key
            The name its sender gives it. If it is known, the first answer is given again and
            nothing is stored.
        digest
            What tells the same table from another one under the same key; by its contents unless
            given.

        Raises
        ------
        JournalFullError
            If too much waits.
        KeyConflictError
            If another table was accepted under the key.
        JournalError
            If it cannot be written.
        """
        raw = _raw_bytes(table)
        digest = digest or hashlib.sha256(raw).digest()
        body = pa.compress(raw, codec=_CODEC, asbytes=True)
        with self._writing, self._blamed():
            known = self._known(idempotency_key, digest)
            if known is not None:
                return known
            if (
                self._n_pending_bytes
                and self._n_pending_bytes + len(body) > self._max_pending_bytes
            ):
                raise JournalFullError(self.path, self._n_pending_bytes, self._max_pending_bytes)
            sequence = self._insert(table.num_rows, raw.size, body, (idempotency_key, digest))
            self._n_pending_bytes += len(body)
            self._n_records += table.num_rows
        with self._grown:
            self._last_sequence = max(self._last_sequence, sequence)
            self._grown.notify_all()
        return Accepted(sequence, table.num_rows)

    def read(self, after_sequence: int, limit_bytes: int) -> tuple[Body, ...]:
        """Return the tables after one, at least the next, up to about so many compressed bytes.

        Raises
        ------
        JournalError
            If they cannot be read.
        """
        found: list[Body] = []
        n_bytes = 0
        with self._reading, self._blamed():
            rows = self._reader.execute(
                "SELECT sequence, n_records + n_records_before, n_raw_bytes, body FROM bodies"
                " WHERE sequence > ? ORDER BY sequence",
                (after_sequence,),
            )
            for sequence, n_records_until, n_raw_bytes, body in rows:
                if found and n_bytes + len(body) > limit_bytes:
                    break
                table = self._table(sequence, body, n_raw_bytes)
                found.append(Body(sequence, table, max(0, self._n_records - n_records_until)))
                n_bytes += len(body)
            rows.close()
        return tuple(found)

    def wait(self, after_sequence: int, timeout: float) -> bool:
        """Wait until there is a table after one; ``False`` if none came in time."""
        with self._grown:
            self._grown.wait_for(
                lambda: self._closed or self._last_sequence > after_sequence, timeout
            )
            return not self._closed and self._last_sequence > after_sequence

    def release(self, sequence: int) -> None:
        """Forget the tables up to one, and the oldest keys of those that are gone.

        Raises
        ------
        JournalError
            If that cannot be written; a later call catches up.
        """
        with self._writing, self._blamed(), self._writer:
            self._writer.execute("DELETE FROM bodies WHERE sequence <= ?", (sequence,))
            self._writer.execute(
                "DELETE FROM keys WHERE sequence <= ?1 AND sequence <= (SELECT sequence FROM keys"
                " ORDER BY sequence DESC LIMIT 1 OFFSET ?2)",
                (sequence, self._remember_keys),
            )
            pending = self._pending()
        self._n_pending_bytes = pending

    def reserve(self, sequence: int) -> None:
        """Give later tables numbers after this one; for a journal that was lost and is new.

        Raises
        ------
        JournalError
            If that cannot be written.
        """
        with self._writing, self._blamed(), self._writer:
            if sequence > self._last_sequence:
                self._writer.execute("DELETE FROM sqlite_sequence WHERE name = 'bodies'")
                self._writer.execute(
                    "INSERT INTO sqlite_sequence VALUES ('bodies', ?)", (sequence,)
                )
                self._last_sequence = sequence

    def close(self) -> None:
        """Close the file; those who wait return."""
        with self._grown:
            self._closed = True
            self._grown.notify_all()
        with self._writing, self._reading:
            self._reader.close()
            self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # accepted means on disk
        connection.execute(f"PRAGMA journal_size_limit = {_LARGEST_WAL}")
        return connection

    def _prepare(self) -> None:
        (version,) = self._writer.execute("PRAGMA user_version").fetchone()
        if version == 0:
            self._writer.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
        elif version != VERSION:
            raise JournalError(
                self.path,
                f"it has version {version}, but this program reads version {VERSION}; use the"
                " program that wrote it, or move it away to begin a new one",
            )

    def _load(self) -> None:
        row = self._writer.execute("SELECT seq FROM sqlite_sequence WHERE name = 'bodies'")
        self._last_sequence = int((row.fetchone() or (0,))[0])
        (self._n_records,) = self._writer.execute("SELECT n_records FROM totals").fetchone()
        self._n_pending_bytes = self._pending()

    def _pending(self) -> int:
        (n_bytes,) = self._writer.execute("SELECT total(n_bytes) FROM bodies").fetchone()
        return int(n_bytes)

    def _known(self, key: str | None, digest: bytes) -> Accepted | None:
        if key is None:
            return None
        row = self._writer.execute(
            "SELECT sequence, n_records, digest FROM keys WHERE key = ?", (key,)
        ).fetchone()
        if row is None:
            return None
        if row[2] != digest:
            raise KeyConflictError(self.path, key)
        return Accepted(row[0], row[1], duplicate=True)

    def _insert(
        self, n_records: int, n_raw_bytes: int, body: bytes, named: tuple[str | None, bytes]
    ) -> int:
        key, digest = named
        with self._writer:
            sequence = self._writer.execute(
                "INSERT INTO bodies (n_records, n_records_before, n_raw_bytes, n_bytes, body)"
                " SELECT ?, n_records, ?, ?, ? FROM totals",
                (n_records, n_raw_bytes, len(body), body),
            ).lastrowid
            self._writer.execute("UPDATE totals SET n_records = n_records + ?", (n_records,))
            if key is not None:
                values = (key, sequence, n_records, digest)
                self._writer.execute("INSERT INTO keys VALUES (?, ?, ?, ?)", values)
        return int(sequence or 0)

    def _table(self, sequence: int, body: bytes, n_raw_bytes: int) -> pa.Table:
        try:
            raw = pa.decompress(body, decompressed_size=n_raw_bytes, codec=_CODEC)
            return pa.ipc.open_stream(raw).read_all()
        except (pa.ArrowException, OSError) as error:
            raise JournalError(
                self.path, f"body {sequence} is damaged ({error}); move the file away to go on"
            ) from error

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        """Turn what SQLite and the disk say into an error that names the file."""
        try:
            yield
        except OSError as error:
            raise JournalError(self.path, error.strerror or str(error)) from error
        except sqlite3.Error as error:
            advice = (
                "; move it away to begin a new one"
                if isinstance(error, sqlite3.DatabaseError)
                and not isinstance(error, sqlite3.OperationalError | sqlite3.ProgrammingError)
                else ""
            )
            raise JournalError(self.path, f"{error}{advice}") from error


def _raw_bytes(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
