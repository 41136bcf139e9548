"""A history that is only looked at: nothing is made, locked, repaired or set aside."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from driftbn_service.integrity import understand_checksums
from driftbn_service.store.errors import DamagedRowError, RowDamage, StoreError
from driftbn_service.store.schema import APPLICATION_ID, VERSION

_BUSY_SECONDS: Final = 10.0
_NO_HISTORY: Final = "this is no history of driftbn: give the history.sqlite of a state directory"


class ReadOnlyDatabase:
    """A connection to the file of a history that a daemon may be writing to meanwhile.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    StoreError
        If it is absent, cannot be read, is no history or one of a later driftbn.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._at_rest: tuple[int, int] | None = None  # its state, if nobody had it open
        if not path.is_file():
            what = "is no file" if path.exists() else "there is no such file"
            raise StoreError(path, f"{what}: give the history.sqlite of a state directory")
        with self._told():
            self._connection = self._opened()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Refuse.

        Raises
        ------
        StoreError
            Always.
        """
        raise StoreError(self.path, "the history was opened to be read only")
        yield

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give the connection, which sees one state of the history; one thread at a time.

        Raises
        ------
        StoreError
            If the body raises an error of SQLite, or somebody has begun to write to a history that
            nobody had open.
        """
        with self._lock, self._told():
            self._connection.execute("BEGIN")
            try:
                yield self._connection
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            self._check_at_rest()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except RowDamage as damage:
            raise DamagedRowError(self.path, damage.row, damage.event) from damage
        except (sqlite3.Error, UnicodeDecodeError) as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
                raise StoreError(self.path, _NO_HISTORY) from error
            raise StoreError(self.path, f"the history cannot be read: {error}") from error
        except OSError as error:
            problem = f"the history cannot be read: {error.strerror}"
            raise StoreError(self.path, problem) from error

    def _opened(self) -> sqlite3.Connection:
        self.path.open("rb").close()  # says better than SQLite why a file cannot be opened
        # As long as anybody has the history open there is a write-ahead log. Without one the file
        # is read as it lies: SQLite would leave files beside it, or fail where it may make none.
        self._at_rest = None if self._has_log() else self._stamp()
        options = "mode=ro" if self._at_rest is None else "mode=ro&immutable=1"
        connection = sqlite3.connect(
            f"file:{quote(str(self.path.absolute()))}?{options}",
            uri=True,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        understand_checksums(connection)
        try:
            self._check(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, connection: sqlite3.Connection) -> None:
        (owner,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if owner != APPLICATION_ID or not version:
            raise StoreError(self.path, _NO_HISTORY)
        if version != VERSION:
            problem = (
                f"the history has version {version} and this driftbn knows version {VERSION}:"
                " use the driftbn that wrote it"
            )
            raise StoreError(self.path, problem)

    def _has_log(self) -> bool:
        return self.path.with_name(f"{self.path.name}-wal").exists()

    def _stamp(self) -> tuple[int, int]:
        found = self.path.stat()
        return found.st_mtime_ns, found.st_size

    def _check_at_rest(self) -> None:
        if self._at_rest is not None and (self._has_log() or self._stamp() != self._at_rest):
            raise StoreError(self.path, "the history is being written to since now: try again")
