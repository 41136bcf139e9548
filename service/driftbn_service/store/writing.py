"""Writing windows into the history, each once."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Collection, Sequence
from typing import Final, TypeAlias

from driftbn_service.events import Event, Publication
from driftbn_service.store.documents import (
    compressed,
    digest_of,
    edge_values,
    event_values,
    window_values,
)
from driftbn_service.store.episodes import bring_forward
from driftbn_service.store.mapping import monitor_name
from driftbn_service.store.schema import INSERT_EDGE, INSERT_WINDOW, is_intact

logger = logging.getLogger("driftbn.service.store")

Wanted: TypeAlias = Sequence[tuple[str, Collection[str] | None]]
"""Name of every outlet with the types of event it wants, ``None`` for all."""

_INSERT_EVENT: Final = (
    "INSERT INTO events (id, type, monitor, key, lane, window_index, stored, document)"
    " VALUES (:id, :type, :monitor, :key, :lane, :window_index, :stored, :document)"
    " ON CONFLICT (id) DO NOTHING"
)
_COUNT_WINDOW: Final = (
    "INSERT INTO monitors VALUES (:monitor, :key, :lane, 1, :drift, 0, :window_index, 0)"
    " ON CONFLICT (monitor, key) DO UPDATE SET lane = excluded.lane,"
    " n_windows = n_windows + 1, n_drifts = n_drifts + excluded.n_drifts,"
    " last_window = max(last_window, excluded.last_window)"
)
_INTACT: Final = f"({is_intact('monitors', 'm.')})"
_COUNT_ANEW: Final = (
    "INSERT OR REPLACE INTO monitors SELECT ?1, ?2, ?3, count(*), ifnull(sum(drift), 0),"
    " (SELECT count(*) FROM episodes WHERE monitor = ?1 AND key = ?2),"
    " ifnull(max(window_index), -1), ifnull(min(window_index), 0)"
    " FROM windows WHERE monitor = ?1 AND key = ?2"
)
_COUNT_EPISODE: Final = (
    "UPDATE monitors SET n_episodes = n_episodes + 1 WHERE monitor = ? AND key = ?"
)


class PublicationWriter:
    """Writes publications within a transaction.

    Parameters
    ----------
    connection
        In a transaction.
    outlets
        Who gets the events.
    now
        Seconds since the epoch.

    Attributes
    ----------
    n_new, n_conflicts
        Windows that are new, and those that are in the history already with another content.
    """

    def __init__(self, connection: sqlite3.Connection, outlets: Wanted, now: float) -> None:
        self._connection = connection
        self._outlets = outlets
        self._now = now
        self.n_new = self.n_conflicts = 0

    def write(self, publication: Publication) -> None:
        """Write a window and all that belongs to it, unless it is there."""
        if publication.report:
            self._write_window(publication)
        else:
            self._write_events(publication, self._known_events(publication))

    def _write_window(self, publication: Publication) -> None:
        if self._is_known(publication):
            return
        window = (publication.monitor, publication.key, publication.window)
        values = window_values(publication, self._now)
        self._connection.execute(_COUNT_WINDOW, values)
        self._connection.execute(INSERT_WINDOW, values)
        self._connection.execute(
            "INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?, ?)",
            (*window, compressed(publication.report), compressed(publication.explanation)),
        )
        self._connection.executemany(INSERT_EDGE, edge_values(*window, publication.report))
        if bring_forward(self._connection, publication):
            self._connection.execute(_COUNT_EPISODE, window[:2])
        self._write_events(publication)
        self.n_new += 1

    def _write_events(self, publication: Publication, known: Collection[str] = ()) -> None:
        for event in publication.events:
            if event.id not in known:
                self._write_event(event, publication.lane)

    def _known_events(self, publication: Publication) -> set[str]:
        """Return the ids of events without a window that are in the history already."""
        query = "SELECT id FROM events WHERE id = ?"
        found = (self._connection.execute(query, (event.id,)) for event in publication.events)
        return {name for rows in found for (name,) in rows}

    def _is_known(self, publication: Publication) -> bool:
        """Return whether a window is in the history, or so old that it was deleted from it."""
        window = (publication.monitor, publication.key, publication.window)
        found = self._connection.execute(
            f"SELECT {_INTACT}, w.digest FROM monitors AS m LEFT JOIN windows AS w"
            " ON w.monitor = m.monitor AND w.key = m.key AND w.window_index = ?3"
            " WHERE m.monitor = ?1 AND m.key = ?2"
            f" AND (w.window_index IS NOT NULL OR m.pruned_before > ?3 OR NOT {_INTACT})",
            window,
        ).fetchone()
        if found is None:
            return False
        intact, digest = found
        if not intact:
            self._count_anew(publication)
            return self._is_known(publication)
        if digest is not None and digest != digest_of(publication):
            self.n_conflicts += 1
            logger.error(
                "window %d is in the history with another content, which stays",
                publication.window,
                extra={"monitor": publication.monitor, "key": publication.key},
            )
        return True

    def _count_anew(self, publication: Publication) -> None:
        """Replace the counts of a monitor that are damaged by what the history holds."""
        monitor = (publication.monitor, publication.key)
        self._connection.execute(_COUNT_ANEW, (*monitor, publication.lane))
        logger.error("the counts of %s were damaged and are made anew", monitor_name(*monitor))

    def _write_event(self, event: Event, lane: str) -> None:
        inserted = self._connection.execute(_INSERT_EVENT, event_values(event, lane, self._now))
        if not inserted.rowcount:
            self.n_conflicts += 1
            logger.error(
                "event %s is in the history for another window, which stays",
                event.id,
                extra={"monitor": event.monitor, "key": event.key},
            )
            return
        wanted = (name for name, types in self._outlets if types is None or event.type in types)
        self._connection.executemany(
            "INSERT INTO deliveries VALUES (?, ?)",
            ((name, inserted.lastrowid) for name in wanted),
        )
