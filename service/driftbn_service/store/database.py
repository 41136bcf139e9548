"""A database file: one writer, as many readers as there are, and what to do if it is damaged."""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from driftbn_service.integrity import (
    check_structure,
    corrupt,
    is_damage,
    set_aside,
    understand_checksums,
)
from driftbn_service.store.errors import DamagedRowError, RowDamage, StoreError
from driftbn_service.store.schema import APPLICATION_ID, KEYS, STATEMENTS, VERSION, is_intact

logger = logging.getLogger("driftbn.service.store")

BUSY_SECONDS: Final = 10.0
"""How long to wait for another process that writes."""
CHECKED_BYTES: Final = 128 << 20
"""A larger file is not checked as a whole when it is opened: that takes 3 s for each 100 MB."""
MAX_SHOWN: Final = 10
"""Damaged rows of a table that the log names."""
_WAL_BYTES: Final = 64 << 20


class Database:
    """The connections to the file of the history.

    A file that is damaged is set aside, with an error in the log, and a new one is begun.

    Parameters
    ----------
    path
        The file; it is made if need be.

    Raises
    ------
    StoreError
        If it cannot be used, belongs to something else or to a later driftbn.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._readers: list[sqlite3.Connection] = []
        self._age = 0  # files set aside since the start; connections to those are not used again
        self._inode = 0
        with self._told("opened"):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = self._opened()

    def close(self) -> None:
        """Close all connections; none may be in use."""
        with self._lock:
            for connection in (*self._readers, self._writer):
                connection.close()
            self._readers.clear()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Give the connection to write with; what the body does is done as a whole or not at all.

        Raises
        ------
        StoreError
            If the body raises an error of SQLite: nothing has changed then.
        """
        with self._lock, self._told("written"):
            connection = self._writer
            self._roll_back()  # of a call before, if that could not
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except sqlite3.DatabaseError as error:
                self._roll_back()
                if is_damage(error):
                    self._begin_anew(error)
                raise
            except BaseException:
                self._roll_back()
                raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give a connection to read with, which sees one state of the history.

        Raises
        ------
        StoreError
            If the body raises an error of SQLite.
        """
        with self._told("read"):
            with self._lock:
                age = self._age
                connection = self._readers.pop() if self._readers else None
            if connection is None:
                connection = _connected(self.path)
                connection.execute("PRAGMA query_only = ON")
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                with self._lock:
                    if age == self._age:
                        self._readers.append(connection)
                    else:
                        connection.close()

    def _roll_back(self) -> None:
        if self._writer.in_transaction:  # SQLite has done it itself after some errors
            self._writer.execute("ROLLBACK")

    @contextmanager
    def _told(self, done: str) -> Iterator[None]:
        try:
            yield
        except RowDamage as damage:
            raise DamagedRowError(self.path, damage.row, damage.event) from damage
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)
            reason = "the disk is full" if code == sqlite3.SQLITE_FULL else str(error)
            raise StoreError(self.path, f"the history cannot be {done}: {reason}") from error
        except OSError as error:
            problem = f"the history cannot be {done}: {error.strerror}"
            raise StoreError(self.path, problem) from error

    def _opened(self) -> sqlite3.Connection:
        with _alone(self.path):
            try:
                return self._checked()
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                self._set_aside(error)
            return self._checked()

    def _checked(self) -> sqlite3.Connection:
        """Connect, make sure that the file is whole and ours, and make the tables."""
        connection = _connected(self.path)
        try:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version not in (0, VERSION):
                raise StoreError(self.path, _of_another(version))
            if not version:
                self._create(connection)
            elif self.path.stat().st_size <= CHECKED_BYTES:
                self._check(connection)
            _check_mode(connection, self.path)
            self._inode = self.path.stat().st_ino
        except BaseException:
            connection.close()
            raise
        return connection

    def _create(self, connection: sqlite3.Connection) -> None:
        (n_tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        (owner,) = connection.execute("PRAGMA application_id").fetchone()
        if n_tables or owner not in (0, APPLICATION_ID):
            problem = "this is the database of another program: give another path for the history"
            raise StoreError(self.path, problem)
        connection.execute("BEGIN IMMEDIATE")
        for statement in STATEMENTS:
            connection.execute(statement)
        connection.execute("COMMIT")

    def _check(self, connection: sqlite3.Connection) -> None:
        """Make sure that the file is whole; say which rows are not as they were written.

        Those stay where they are: whoever reads them is told too.
        """
        problem = check_structure(connection, STATEMENTS)
        if problem is not None:
            logger.error(
                "an index of the history was damaged and is made anew: %s: %s", self.path, problem
            )
        for table, names in KEYS.items():
            shown = " || ' ' || ".join(f"quote({name})" for name in names)
            query = f"SELECT {shown} FROM {table} WHERE NOT ({is_intact(table)})"
            rows = [str(row) for (row,) in connection.execute(query)]
            if rows:
                logger.error(
                    "%d rows of %s in the history are damaged and cannot be read: %s: %s",
                    len(rows), table, self.path, ", ".join(rows[:MAX_SHOWN]),
                )  # fmt: skip

    def _begin_anew(self, error: sqlite3.DatabaseError) -> None:
        self._age += 1
        for connection in (*self._readers, self._writer):
            connection.close()
        self._readers.clear()
        with _alone(self.path):
            if self.path.exists() and self.path.stat().st_ino == self._inode:
                self._set_aside(error)  # else another process has done it
            self._writer = self._checked()

    def _set_aside(self, error: sqlite3.DatabaseError) -> None:
        logger.error(
            "the history is damaged and a new one is begun; it is kept as %s, with events that"
            " were not delivered yet: %s: %s",
            set_aside(self.path).name,
            self.path,
            error,
        )


def _of_another(version: int) -> str:
    return (
        f"the history has version {version} and this driftbn knows version {VERSION}:"
        " run the driftbn that wrote it, or move it away or give another path to begin a new one"
    )


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    understand_checksums(connection)
    try:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
    except UnicodeDecodeError as error:  # SQLite quotes from tables whose names are damaged
        raise corrupt(str(error)) from error
    return connection


def _check_mode(connection: sqlite3.Connection, path: Path) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        problem = f"no write-ahead log can be kept here ({mode}): give a path on a local disk"
        raise StoreError(path, problem)
    connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep other processes from setting aside what this one has just begun."""
    lock = path.with_name(f"{path.name}.lock")
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
