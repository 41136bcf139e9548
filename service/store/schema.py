"""Tables of the history."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from service.store.rows import EdgeRow, EpisodeRow, WindowRow

VERSION: Final = 1
APPLICATION_ID: Final = 0x44424E31
"""Says in the file's head whose it is: DBN1."""


def columns_of(row: type[Any], prefix: str = "") -> str:
    """Return the columns of a table in the order of a row's fields.

    Examples
    --------
    >>> columns_of(EdgeRow, "e.")[:34]
    'e."monitor", e."key", e."window_in'
    """
    return ", ".join(f'{prefix}"{column.name}"' for column in fields(row))


def insert_into(table: str, *columns: str) -> str:
    """Return a statement that inserts named values.

    Examples
    --------
    >>> insert_into("x", "a", "b")
    'INSERT INTO x ("a", "b") VALUES (:a, :b)'
    """
    names = ", ".join(f'"{name}"' for name in columns)
    return f"INSERT INTO {table} ({names}) VALUES ({', '.join(f':{name}' for name in columns)})"


INSERT_WINDOW: Final = insert_into("windows", *(c.name for c in fields(WindowRow)), "digest")
INSERT_EDGE: Final = insert_into("edges", *(c.name for c in fields(EdgeRow)))
REPLACE_EPISODE: Final = insert_into("episodes", *(c.name for c in fields(EpisodeRow))).replace(
    "INSERT", "INSERT OR REPLACE", 1
)

# Rows of one monitor lie beside each other (WITHOUT ROWID), as they are read; documents, which are
# large and read one at a time, have a table of their own.
STATEMENTS: Final = (
    """CREATE TABLE monitors (
        monitor TEXT NOT NULL, key TEXT NOT NULL, lane TEXT NOT NULL,
        n_windows INTEGER NOT NULL, n_drifts INTEGER NOT NULL, n_episodes INTEGER NOT NULL,
        last_window INTEGER NOT NULL,
        pruned_before INTEGER NOT NULL,
        PRIMARY KEY (monitor, key)
    ) WITHOUT ROWID""",
    "CREATE INDEX monitors_by_length ON monitors (last_window - pruned_before)",
    """CREATE TABLE windows (
        monitor TEXT NOT NULL, key TEXT NOT NULL, window_index INTEGER NOT NULL,
        lane TEXT NOT NULL,
        first_record INTEGER NOT NULL, last_record INTEGER NOT NULL, rows INTEGER NOT NULL,
        start REAL, "end" REAL,
        hamming INTEGER NOT NULL, skeleton INTEGER NOT NULL, confirmed_hamming INTEGER NOT NULL,
        level TEXT NOT NULL, drift INTEGER NOT NULL, kind TEXT,
        p_value REAL, alpha REAL, p_mechanism REAL, p_association REAL,
        n_edges INTEGER NOT NULL, n_nodes INTEGER NOT NULL,
        warm INTEGER NOT NULL, tests INTEGER NOT NULL, undecided INTEGER NOT NULL,
        design_effect REAL, effect REAL, degraded INTEGER NOT NULL,
        episode INTEGER, headline TEXT NOT NULL,
        learn_seconds REAL, decide_seconds REAL, stored REAL NOT NULL,
        digest BLOB NOT NULL,
        PRIMARY KEY (monitor, key, window_index),
        FOREIGN KEY (monitor, key) REFERENCES monitors (monitor, key)
    ) WITHOUT ROWID""",
    "CREATE INDEX windows_with_drift ON windows (monitor, key, window_index) WHERE drift",
    """CREATE TABLE documents (
        monitor TEXT NOT NULL, key TEXT NOT NULL, window_index INTEGER NOT NULL,
        report BLOB NOT NULL, explanation BLOB NOT NULL,
        PRIMARY KEY (monitor, key, window_index),
        FOREIGN KEY (monitor, key, window_index)
            REFERENCES windows (monitor, key, window_index) ON DELETE CASCADE
    )""",
    """CREATE TABLE edges (
        monitor TEXT NOT NULL, key TEXT NOT NULL, window_index INTEGER NOT NULL,
        origin TEXT NOT NULL CHECK (origin IN ('confirmed', 'raw')),
        source TEXT NOT NULL, target TEXT NOT NULL, change TEXT NOT NULL,
        p_value REAL, before REAL, after REAL,
        PRIMARY KEY (monitor, key, window_index, origin, source, target, change),
        FOREIGN KEY (monitor, key, window_index)
            REFERENCES windows (monitor, key, window_index) ON DELETE CASCADE
    ) WITHOUT ROWID""",
    "CREATE INDEX edges_by_name ON edges (monitor, key, source, target, window_index)",
    """CREATE TABLE episodes (
        monitor TEXT NOT NULL, key TEXT NOT NULL, episode INTEGER NOT NULL,
        started_window INTEGER NOT NULL, started_record INTEGER, started_time REAL,
        last_window INTEGER NOT NULL, ended_window INTEGER,
        kind TEXT, headline TEXT NOT NULL, recurring INTEGER NOT NULL,
        n_windows INTEGER NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('open', 'ended')),
        edges TEXT NOT NULL,
        PRIMARY KEY (monitor, key, episode),
        FOREIGN KEY (monitor, key) REFERENCES monitors (monitor, key)
    ) WITHOUT ROWID""",
    "CREATE UNIQUE INDEX open_episodes ON episodes (monitor, key) WHERE state = 'open'",
    """CREATE TABLE events (
        sequence INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE, type TEXT NOT NULL,
        monitor TEXT NOT NULL, key TEXT NOT NULL, lane TEXT NOT NULL,
        window_index INTEGER NOT NULL, stored REAL NOT NULL, document TEXT NOT NULL
    )""",
    "CREATE INDEX events_by_monitor ON events (monitor, key, type, sequence)",
    "CREATE INDEX events_by_age ON events (stored)",
    """CREATE TABLE deliveries (
        outlet TEXT NOT NULL,
        sequence INTEGER NOT NULL REFERENCES events (sequence) ON DELETE CASCADE,
        PRIMARY KEY (outlet, sequence)
    ) WITHOUT ROWID""",
    "CREATE INDEX deliveries_by_event ON deliveries (sequence)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
)
