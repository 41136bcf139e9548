"""The SQLite file of a journal: its tables, its version, and whom to blame for its errors."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from driftbn_service.integrity import (
    check_structure,
    checksummed,
    corrupt,
    intact,
    is_damage,
    set_aside,
    understand_checksums,
)
from driftbn_service.journal_errors import JournalError

logger = logging.getLogger("driftbn.service.journal")

VERSION: Final = 2
"""Of the layout below."""

_BODIES: Final = """
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    n_records INTEGER NOT NULL,
    n_records_before INTEGER NOT NULL,
    n_raw_bytes INTEGER NOT NULL,
    body BLOB NOT NULL"""
_KEYS: Final = """
    key TEXT PRIMARY KEY,
    sequence INTEGER NOT NULL,
    n_records INTEGER NOT NULL,
    digest BLOB NOT NULL"""
_STATEMENTS: Final = (
    f"CREATE TABLE bodies ({checksummed(_BODIES)})",
    f"CREATE TABLE keys ({checksummed(_KEYS)}) WITHOUT ROWID",
    "CREATE INDEX keys_by_sequence ON keys (sequence)",
    f"PRAGMA user_version = {VERSION}",
)
BODY_INTACT: Final = intact(_BODIES)
KEY_INTACT: Final = intact(_KEYS)
"""Tell whether a row is as it was written."""

_MAX_SHOWN: Final = 10
_BUSY_SECONDS: Final = 10.0
_LARGEST_WAL: Final = 64 << 20  # what a burst leaves behind is given back to the disk


def opened(path: Path) -> sqlite3.Connection:
    """Open the file to write to; one that is damaged is set aside and a new one begun.

    Raises
    ------
    JournalError
        If the file has another version.
    """
    try:
        return _prepared(path)
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        logger.error(
            "journal %s is damaged and a new one is begun; it is kept as %s, with records that"
            " were accepted and are not worked through yet: %s",
            path, set_aside(path).name, error,
        )  # fmt: skip
    return _prepared(path)


def _prepared(path: Path) -> sqlite3.Connection:
    connection = connect(path)
    try:
        prepare(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def connect(path: Path) -> sqlite3.Connection:
    """Open the file, for any thread."""
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, check_same_thread=False)
    understand_checksums(connection)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # accepted means on disk
        connection.execute(f"PRAGMA journal_size_limit = {_LARGEST_WAL}")
    except UnicodeDecodeError as error:  # SQLite quotes from tables whose names are damaged
        raise corrupt(str(error)) from error
    return connection


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables of a new file; say what of an old one is damaged.

    Raises
    ------
    JournalError
        If the file has another version.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == 0:
        connection.executescript(f"BEGIN; {'; '.join(_STATEMENTS)}; COMMIT;")
    elif version != VERSION:
        raise JournalError(
            path,
            f"it has version {version}, but this program reads version {VERSION}; use the"
            " program that wrote it, or move it away to begin a new one",
        )
    else:
        _tell_damage(connection, path)


def _tell_damage(connection: sqlite3.Connection, path: Path) -> None:
    problem = check_structure(connection, _STATEMENTS)
    if problem is not None:
        logger.error("journal %s: an index was damaged and is made anew: %s", path, problem)
    for what, table, column, is_intact in (
        ("bodies are damaged and will be set aside", "bodies", "sequence", BODY_INTACT),
        ("idempotency keys are damaged and do not hold", "keys", "key", KEY_INTACT),
    ):
        query = f"SELECT quote({column}) FROM {table} WHERE NOT ({is_intact})"
        found = [str(row) for (row,) in connection.execute(query)]
        if found:
            logger.error(
                "journal %s: %d %s: %s", path, len(found), what, ", ".join(found[:_MAX_SHOWN])
            )


@contextmanager
def blamed(path: Path) -> Iterator[None]:
    """Turn what SQLite and the disk say into an error that names the file."""
    try:
        yield
    except OSError as error:
        raise JournalError(path, error.strerror or str(error)) from error
    except sqlite3.Error as error:
        advice = (
            "; move it away to begin a new one"
            if isinstance(error, sqlite3.DatabaseError)
            and not isinstance(error, sqlite3.OperationalError | sqlite3.ProgrammingError)
            else ""
        )
        raise JournalError(path, f"{error}{advice}") from error
