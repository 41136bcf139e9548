"""The SQLite file of a journal: its tables, its version, and whom to blame for its errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from service.journal_errors import JournalError

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


def connect(path: Path) -> sqlite3.Connection:
    """Open the file, for any thread."""
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")  # accepted means on disk
    connection.execute(f"PRAGMA journal_size_limit = {_LARGEST_WAL}")
    return connection


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables of a new file.

    Raises
    ------
    JournalError
        If the file has another version.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == 0:
        connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
    elif version != VERSION:
        raise JournalError(
            path,
            f"it has version {version}, but this program reads version {VERSION}; use the"
            " program that wrote it, or move it away to begin a new one",
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
