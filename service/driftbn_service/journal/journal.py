"""A queue on disk of tables that were accepted and are not worked through yet."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from driftbn_service.journal.bodies import Accepted, Body, compressed, raw_bytes, unpacked
from driftbn_service.journal.database import BODY_INTACT, KEY_INTACT, blamed, connect, opened
from driftbn_service.journal_errors import JournalError, JournalFullError, KeyConflictError

if TYPE_CHECKING:
    from driftbn_service.settings import HttpSourceSettings


class Journal:
    """Keeps tables from the moment they are accepted until they are released.

    What ``append`` has returned survives a kill and a loss of power. All methods may be called by
    any thread.

    Parameters
    ----------
    path
        The SQLite file; it and its directory are made if they are not there. One that is damaged
        beyond single bodies is set aside, and a new one begun.
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
        with blamed(self.path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = opened(path)
            try:
                self._reader = connect(path)  # in WAL mode it does not wait for the writer
                self._load()
            except BaseException:
                self._writer.close()
                raise

    @classmethod
    def of(cls, path: Path, settings: HttpSourceSettings) -> Self:
        """Return the journal of a stream by its settings."""
        return cls(path, max_pending_bytes=settings.max_pending_bytes)

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
        raw = raw_bytes(table)
        digest = digest or hashlib.sha256(raw).digest()
        body = compressed(raw)
        with self._writing, blamed(self.path):
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
        """Return the tables after one, at least the next, up to about so many bytes in memory.

        A body that is damaged comes without its table.

        Raises
        ------
        JournalError
            If they cannot be read.
        """
        found: list[Body] = []
        n_bytes = 0
        with self._reading, blamed(self.path):
            rows = self._reader.execute(
                f"SELECT sequence, length(body), {BODY_INTACT},"
                " n_records + n_records_before, n_raw_bytes, body"
                " FROM bodies WHERE sequence > ? ORDER BY sequence",
                (after_sequence,),
            )
            for sequence, size, is_intact, *values in rows:
                cost = values[1] if is_intact else size
                if found and n_bytes + cost > limit_bytes:
                    break
                found.append(self._body(sequence, values) if is_intact else _lost(sequence, values))
                n_bytes += cost
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
        with self._writing, blamed(self.path), self._writer:
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
        with self._writing, blamed(self.path), self._writer:
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

    def _body(self, sequence: int, values: Sequence[Any]) -> Body:
        n_records_until, n_raw_bytes, body = values
        n_behind = max(0, self._n_records - n_records_until)
        return Body(sequence, unpacked(body, n_raw_bytes), n_behind)

    def _load(self) -> None:
        row = self._writer.execute("SELECT seq FROM sqlite_sequence WHERE name = 'bodies'")
        self._last_sequence = int((row.fetchone() or (0,))[0])
        last = self._writer.execute(
            f"SELECT n_records + n_records_before FROM bodies WHERE {BODY_INTACT}"
            " ORDER BY sequence DESC LIMIT 1"
        )
        self._n_records = int((last.fetchone() or (0,))[0])
        self._n_pending_bytes = self._pending()

    def _pending(self) -> int:
        (n_bytes,) = self._writer.execute("SELECT total(length(body)) FROM bodies").fetchone()
        return int(n_bytes)

    def _known(self, key: str | None, digest: bytes) -> Accepted | None:
        if key is None:
            return None
        row = self._writer.execute(
            f"SELECT {KEY_INTACT}, sequence, n_records, digest FROM keys WHERE key = ?", (key,)
        ).fetchone()
        if row is None:
            return None
        is_intact, sequence, n_records, known = row
        if not is_intact:
            problem = f"the idempotency key {key!r} is damaged: send under another if it is news"
            raise JournalError(self.path, problem)
        if known != digest:
            raise KeyConflictError(self.path, key)
        return Accepted(sequence, n_records, duplicate=True)

    def _insert(
        self, n_records: int, n_raw_bytes: int, body: bytes, named: tuple[str | None, bytes]
    ) -> int:
        key, digest = named
        with self._writer:
            sequence = self._writer.execute(
                "INSERT INTO bodies (n_records, n_records_before, n_raw_bytes, body)"
                " VALUES (?, ?, ?, ?)",
                (n_records, self._n_records, n_raw_bytes, body),
            ).lastrowid
            if key is not None:
                values = (key, sequence, n_records, digest)
                self._writer.execute("INSERT INTO keys VALUES (?, ?, ?, ?)", values)
        return int(sequence or 0)


def _lost(sequence: int, values: Sequence[Any]) -> Body:
    """Return a body that is damaged."""
    body = values[-1]
    return Body(sequence, None, 0, body if isinstance(body, bytes) else b"")
