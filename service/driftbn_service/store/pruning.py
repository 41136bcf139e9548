"""Deleting what is old, a little at a time."""

from __future__ import annotations

import sqlite3
from typing import Final

from driftbn_service.store.schema import is_intact

PRUNED_WINDOWS: Final = 1000
"""Windows that are deleted at a time at most."""
PRUNED_EVENTS: Final = 5000
"""Events that are deleted at a time at most."""


def prune_windows(connection: sqlite3.Connection, keep: int) -> int:
    """Delete windows of monitors that have more than ``keep``; return how many."""
    query = (
        "SELECT monitor, key, last_window - ?1 + 1 FROM monitors"
        f" WHERE last_window - pruned_before >= ?1 AND {is_intact('monitors')} LIMIT ?2"
    )
    n_deleted = 0
    for monitor, key, cut in connection.execute(query, (keep, PRUNED_WINDOWS)).fetchall():
        if n_deleted >= PRUNED_WINDOWS:
            break
        n_deleted += _prune_monitor(connection, (monitor, key), cut, PRUNED_WINDOWS - n_deleted)
    return n_deleted


def _prune_monitor(
    connection: sqlite3.Connection, monitor: tuple[str, str], cut: int, limit: int
) -> int:
    where = "WHERE monitor = ? AND key = ? AND"
    first_left = connection.execute(
        f"SELECT window_index FROM windows {where} window_index < ?"
        " ORDER BY window_index LIMIT 1 OFFSET ?",
        (*monitor, cut, limit),
    ).fetchone()
    if first_left is not None:
        cut = first_left[0]
    deleted = connection.execute(f"DELETE FROM windows {where} window_index < ?", (*monitor, cut))
    connection.execute(
        f"DELETE FROM episodes {where} last_window < ? AND state = 'ended'", (*monitor, cut)
    )
    connection.execute(
        "UPDATE monitors SET pruned_before = ? WHERE monitor = ? AND key = ?", (cut, *monitor)
    )
    return deleted.rowcount


def prune_events(connection: sqlite3.Connection, before: float) -> int:
    """Delete events from before a time; return how many.

    Events that wait for an outlet stay, and of each monitor the newest one of each type: outlets
    tell again from it what still holds.
    """
    deleted = connection.execute(
        "DELETE FROM events WHERE sequence IN (SELECT sequence FROM events AS e WHERE stored < ?"
        " AND NOT EXISTS (SELECT * FROM deliveries AS d WHERE d.sequence = e.sequence)"
        " AND EXISTS (SELECT * FROM events AS n WHERE n.monitor = e.monitor AND n.key = e.key"
        " AND n.type = e.type AND n.sequence > e.sequence) ORDER BY stored LIMIT ?)",
        (before, PRUNED_EVENTS),
    )
    return deleted.rowcount


def delete_monitor(connection: sqlite3.Connection, monitor: str) -> int:
    """Delete all that is known of a monitor, for all of its keys; return how many windows."""
    deleted = connection.execute("DELETE FROM windows WHERE monitor = ?", (monitor,))
    for table in ("episodes", "events", "monitors"):
        connection.execute(f"DELETE FROM {table} WHERE monitor = ?", (monitor,))
    return deleted.rowcount
