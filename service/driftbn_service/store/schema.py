"""Tables of the history."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from driftbn_service.integrity import checksummed, intact
from driftbn_service.store.rows import EdgeRow, EpisodeRow, WindowRow

VERSION: Final = 2
APPLICATION_ID: Final = 0x44424E31
"""Says in the file's head whose it is: DBN1."""
COLUMNS: Final = {
    "monitors": """monitor TEXT NOT NULL, key TEXT NOT NULL, lane TEXT NOT NULL,
        n_windows INTEGER NOT NULL, n_drifts INTEGER NOT NULL, n_episodes INTEGER NOT NULL,
        last_window INTEGER NOT NULL, pruned_before INTEGER NOT NULL""",
    "windows": """monitor TEXT NOT NULL, key TEXT NOT NULL, window_index INTEGER NOT NULL,
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
        digest BLOB NOT NULL""",
    "documents": """monitor TEXT NOT NULL, key TEXT NOT NULL, window_index INTEGER NOT NULL,
        report BLOB NOT NULL, explanation BLOB NOT NULL""",
    "edges": """monitor TEXT NOT NULL, key TEXT NOT NULL, window_index INTEGER NOT NULL,
        origin TEXT NOT NULL, source TEXT NOT NULL, target TEXT NOT NULL, change TEXT NOT NULL,
        p_value REAL, before REAL, after REAL""",
    "episodes": """monitor TEXT NOT NULL, key TEXT NOT NULL, episode INTEGER NOT NULL,
        started_window INTEGER NOT NULL, started_record INTEGER, started_time REAL,
        last_window INTEGER NOT NULL, ended_window INTEGER,
        kind TEXT, headline TEXT NOT NULL, recurring INTEGER NOT NULL,
        n_windows INTEGER NOT NULL, state TEXT NOT NULL, edges TEXT NOT NULL""",
    "events": """sequence INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE, type TEXT NOT NULL,
        monitor TEXT NOT NULL, key TEXT NOT NULL, lane TEXT NOT NULL,
        window_index INTEGER NOT NULL, stored REAL NOT NULL, document TEXT NOT NULL""",
    "deliveries": "outlet TEXT NOT NULL, sequence INTEGER NOT NULL",
}
"""Of every table."""
KEYS: Final = {
    "monitors": ("monitor", "key"),
    "windows": ("monitor", "key", "window_index"),
    "documents": ("monitor", "key", "window_index"),
    "edges": ("monitor", "key", "window_index", "source", "target"),
    "episodes": ("monitor", "key", "episode"),
    "events": ("sequence", "monitor", "key", "type"),
    "deliveries": ("outlet", "sequence"),
}
"""Every table, with the columns by which people know its rows."""


def is_intact(table: str, prefix: str = "") -> str:
    """Return the expression that tells whether a row of a table is as it was written."""
    return intact(COLUMNS[table], prefix)


def columns_of(row: type[Any], table: str, prefix: str = "") -> str:
    """Return whether a row of a table is intact, and its columns in the order of the fields.

    Examples
    --------
    >>> columns_of(EdgeRow, "edges", "e.")[-34:]
    'e."p_value", e."before", e."after"'
    """
    names = (f'{prefix}"{column.name}"' for column in fields(row))
    return ", ".join((is_intact(table, prefix), *names))


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
INSERT_EDGE: Final = (
    insert_into("edges", *(c.name for c in fields(EdgeRow))) + " ON CONFLICT DO NOTHING"
)
REPLACE_EPISODE: Final = insert_into("episodes", *(c.name for c in fields(EpisodeRow))).replace(
    "INSERT", "INSERT OR REPLACE", 1
)


def _table(name: str, *constraints: str, without_rowid: bool = True) -> str:
    """Return the statement that makes a table whose rows have checksums."""
    parts = ", ".join((checksummed(COLUMNS[name]), *constraints))
    return f"CREATE TABLE {name} ({parts}){' WITHOUT ROWID' if without_rowid else ''}"


_OF_WINDOW: Final = (
    "FOREIGN KEY (monitor, key, window_index)"
    " REFERENCES windows (monitor, key, window_index) ON DELETE CASCADE"
)

# Rows of one monitor lie beside each other (WITHOUT ROWID), as they are read; documents, which are
# large and read one at a time, have a table of their own.
STATEMENTS: Final = (
    _table(
        "monitors",
        "PRIMARY KEY (monitor, key)",
    ),
    "CREATE INDEX monitors_by_length ON monitors (last_window - pruned_before)",
    _table(
        "windows",
        "PRIMARY KEY (monitor, key, window_index)",
        "FOREIGN KEY (monitor, key) REFERENCES monitors (monitor, key)",
    ),
    "CREATE INDEX windows_with_drift ON windows (monitor, key, window_index) WHERE drift",
    _table(
        "documents",
        "PRIMARY KEY (monitor, key, window_index)",
        _OF_WINDOW,
        without_rowid=False,
    ),
    _table(
        "edges",
        "PRIMARY KEY (monitor, key, window_index, origin, source, target, change)",
        "CHECK (origin IN ('confirmed', 'raw'))",
        _OF_WINDOW,
    ),
    "CREATE INDEX edges_by_name ON edges (monitor, key, source, target, window_index)",
    _table(
        "episodes",
        "PRIMARY KEY (monitor, key, episode)",
        "CHECK (state IN ('open', 'ended'))",
        "FOREIGN KEY (monitor, key) REFERENCES monitors (monitor, key)",
    ),
    "CREATE UNIQUE INDEX open_episodes ON episodes (monitor, key) WHERE state = 'open'",
    _table(
        "events",
        without_rowid=False,
    ),
    "CREATE INDEX events_by_monitor ON events (monitor, key, type, sequence)",
    "CREATE INDEX events_by_age ON events (stored)",
    _table(
        "deliveries",
        "PRIMARY KEY (outlet, sequence)",
        "FOREIGN KEY (sequence) REFERENCES events (sequence) ON DELETE CASCADE",
    ),
    "CREATE INDEX deliveries_by_event ON deliveries (sequence)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
)
