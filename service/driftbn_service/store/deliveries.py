"""Events on their way to outlets."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Collection, Iterable
from typing import Final, TypeAlias

from driftbn_service.events import Event
from driftbn_service.store.errors import RowDamage
from driftbn_service.store.mapping import EVENT_COLUMNS, event_pair, intact_events
from driftbn_service.store.schema import is_intact

logger = logging.getLogger("driftbn.service.store")

Lanes: TypeAlias = Collection[tuple[str, str]] | None
"""Monitor and lane of the events that are meant; ``None`` for all."""

_OF_LANES: Final = (
    "(e.monitor, e.lane) IN"
    " (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?))"
)


def read_pending(
    connection: sqlite3.Connection, outlet: str, lanes: Lanes, limit: int
) -> list[tuple[int, Event]]:
    """Return the oldest events that an outlet has not got yet, up to one that is damaged.

    Raises
    ------
    RowDamage
        If the first one is damaged.
    """
    of_lanes, values = _lane_condition(lanes)
    query = (
        f"SELECT {is_intact('deliveries', 'd.')}, d.sequence, {EVENT_COLUMNS}"
        " FROM deliveries AS d LEFT JOIN events AS e USING (sequence)"
        f" WHERE d.outlet = ? AND (e.sequence IS NULL OR {of_lanes})"
        " ORDER BY d.sequence LIMIT ?"
    )
    found: list[tuple[int, Event]] = []
    for intact, sequence, *event in connection.execute(query, (outlet, *values, limit)):
        if intact and event[0]:
            found.append(event_pair(event))
        elif found:
            break
        else:
            raise RowDamage(f"event {sequence}", (sequence, str(event[4])))
    return found


def count_pending(connection: sqlite3.Connection, outlet: str) -> int:
    """Return how many events an outlet has not got yet."""
    query = "SELECT count(*) FROM deliveries WHERE outlet = ?"
    return int(connection.execute(query, (outlet,)).fetchone()[0])


def read_newest(
    connection: sqlite3.Connection, outlet: str, lanes: Lanes, types: Collection[str]
) -> list[Event]:
    """Return of each monitor the newest event of some types that does not wait for an outlet."""
    of_lanes, values = _lane_condition(lanes)
    # With a single max() SQLite gives the other columns of the same row.
    query = (
        f"SELECT max(e.sequence), {EVENT_COLUMNS} FROM events AS e"
        f" WHERE e.type IN (SELECT value FROM json_each(?)) AND {of_lanes} AND NOT EXISTS"
        " (SELECT * FROM deliveries AS d WHERE d.outlet = ? AND d.sequence = e.sequence)"
        " GROUP BY e.monitor, e.key ORDER BY e.monitor, e.key"
    )
    found = connection.execute(query, (json.dumps(sorted(types)), *values, outlet))
    return [event for _, event in intact_events(one[1:] for one in found)]


def note_delivered(connection: sqlite3.Connection, outlet: str, sequences: Iterable[int]) -> None:
    """Note that an outlet has got events."""
    connection.executemany(
        "DELETE FROM deliveries WHERE outlet = ? AND sequence = ?",
        ((outlet, sequence) for sequence in sequences),
    )


def drop_oldest(connection: sqlite3.Connection, n_kept: int) -> int:
    """Give up the oldest events of outlets that have got nothing for very long."""
    n_dropped = 0
    query = "SELECT outlet, count(*) FROM deliveries GROUP BY outlet HAVING count(*) > ?"
    for outlet, n_pending in connection.execute(query, (n_kept,)).fetchall():
        connection.execute(
            "DELETE FROM deliveries WHERE outlet = ?1 AND sequence IN"
            " (SELECT sequence FROM deliveries WHERE outlet = ?1 ORDER BY sequence LIMIT ?2)",
            (outlet, n_pending - n_kept),
        )
        logger.error(
            "%d events were never delivered and are given up: more than %d wait",
            n_pending - n_kept,
            n_kept,
            extra={"outlet": outlet},
        )
        n_dropped += n_pending - n_kept
    return n_dropped


def _lane_condition(lanes: Lanes) -> tuple[str, tuple[str, ...]]:
    if lanes is None:
        return "TRUE", ()
    return _OF_LANES, (json.dumps(sorted(lanes)),)
