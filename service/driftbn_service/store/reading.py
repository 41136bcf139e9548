"""Reading the history, in pages."""

from __future__ import annotations

import sqlite3
from itertools import islice
from operator import attrgetter
from typing import Any, Final

from driftbn_service.events import Event
from driftbn_service.store.documents import decompressed, edge_values
from driftbn_service.store.errors import RowDamage
from driftbn_service.store.mapping import (
    EVENT_COLUMNS,
    edge_row,
    episode_row,
    intact_events,
    monitor_name,
    window_row,
)
from driftbn_service.store.rows import (
    EdgeRow,
    EpisodeRow,
    MonitorRow,
    Series,
    WindowDetail,
    WindowRow,
)
from driftbn_service.store.schema import columns_of, is_intact

_WINDOW: Final = columns_of(WindowRow, "windows")
_EPISODE: Final = columns_of(EpisodeRow, "episodes")
_EDGE: Final = columns_of(EdgeRow, "edges")
_LARGEST: Final = 2**63 - 1
_N_WINDOW: Final = len(WindowRow.__dataclass_fields__) + 1
_N_COUNTS: Final = 7

_MONITORS: Final = (
    f"SELECT {is_intact('monitors', 'm.')},"
    " m.monitor, m.key, m.lane, m.n_windows, m.n_drifts, m.n_episodes,"
    f" {columns_of(WindowRow, 'windows', 'w.')},"
    f" {columns_of(EpisodeRow, 'episodes', 'e.')} FROM monitors AS m"
    " LEFT JOIN windows AS w"
    " ON w.monitor = m.monitor AND w.key = m.key AND w.window_index = m.last_window"
    " LEFT JOIN episodes AS e"
    " ON e.monitor = m.monitor AND e.key = m.key AND e.state = 'open'"
)


def read_monitors(
    connection: sqlite3.Connection, monitor: str | None, after: tuple[str, str] | None, limit: int
) -> list[MonitorRow]:
    """Return monitors in the order of name and key."""
    conditions, values = ["(m.monitor, m.key) > (?, ?)"] if after else [], list[Any](after or ())
    if monitor is not None:
        conditions.append("m.monitor = ?")
        values.append(monitor)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    query = f"{_MONITORS}{where} ORDER BY m.monitor, m.key LIMIT ?"
    return [_monitor_row(found) for found in connection.execute(query, (*values, limit))]


def read_monitor(connection: sqlite3.Connection, monitor: str, key: str) -> MonitorRow | None:
    """Return one monitor, if it is there."""
    query = f"{_MONITORS} WHERE m.monitor = ? AND m.key = ?"
    found = connection.execute(query, (monitor, key)).fetchone()
    return None if found is None else _monitor_row(found)


def read_windows(
    connection: sqlite3.Connection,
    monitor: tuple[str, str],
    between: tuple[int | None, int | None],
    limit: int,
    drift_only: bool,
) -> list[WindowRow]:
    """Return the newest windows of a monitor between two, which are left out."""
    after, before = between
    query = (
        f"SELECT {_WINDOW} FROM windows WHERE monitor = ? AND key = ?"
        f" AND window_index > ? AND window_index < ?{' AND drift' if drift_only else ''}"
        " ORDER BY window_index DESC LIMIT ?"
    )
    limits = (-1 if after is None else after, _LARGEST if before is None else before, limit)
    return [window_row(found) for found in connection.execute(query, (*monitor, *limits))]


def read_window(
    connection: sqlite3.Connection, monitor: str, key: str, index: int
) -> WindowDetail | None:
    """Return a window with all that belongs to it, if it is there."""
    window = (monitor, key, index)
    where = "WHERE monitor = ? AND key = ? AND window_index = ?"
    found = connection.execute(f"SELECT {_WINDOW} FROM windows {where}", window).fetchone()
    documents = connection.execute(
        f"SELECT {is_intact('documents')}, report, explanation FROM documents {where}", window
    ).fetchone()
    if found is None and documents is None:
        return None
    if found is None or documents is None or not documents[0]:
        raise RowDamage(f"the report of window {index} of {monitor_name(monitor, key)}")
    report, explanation = map(decompressed, documents[1:])
    edges = (EdgeRow(**values) for values in edge_values(monitor, key, index, report))
    by_name = attrgetter("origin", "source", "target", "change")
    return WindowDetail(window_row(found), report, explanation, tuple(sorted(edges, key=by_name)))


def read_series(connection: sqlite3.Connection, monitor: str, key: str, limit: int) -> Series:
    """Return the last windows of a monitor as columns."""
    query = (
        f"SELECT {columns_of(Series, 'windows')} FROM windows WHERE monitor = ? AND key = ?"
        " ORDER BY window_index DESC LIMIT ?"
    )
    found = connection.execute(query, (monitor, key, limit)).fetchall()
    for intact, index, *_ in found:
        if not intact:
            raise RowDamage(f"window {index} of {monitor_name(monitor, key)}")
    _, *columns = zip(*reversed(found), strict=True) if found else ((),) * 9
    return Series(*columns)


def read_episodes(
    connection: sqlite3.Connection, monitor: tuple[str, str], before: int | None, limit: int
) -> list[EpisodeRow]:
    """Return the newest episodes of a monitor before one, which is left out."""
    query = (
        f"SELECT {_EPISODE} FROM episodes WHERE monitor = ? AND key = ? AND episode < ?"
        " ORDER BY episode DESC LIMIT ?"
    )
    values = (*monitor, _LARGEST if before is None else before, limit)
    return [episode_row(found) for found in connection.execute(query, values)]


def read_episode(
    connection: sqlite3.Connection, monitor: str, key: str, number: int
) -> EpisodeRow | None:
    """Return an episode, if it is there."""
    query = f"SELECT {_EPISODE} FROM episodes WHERE monitor = ? AND key = ? AND episode = ?"
    found = connection.execute(query, (monitor, key, number)).fetchone()
    return None if found is None else episode_row(found)


def read_edge_history(
    connection: sqlite3.Connection, monitor: tuple[str, str], edge: tuple[str, str], limit: int
) -> list[EdgeRow]:
    """Return what became of an edge, in either direction, the newest first."""
    one = (
        f"SELECT {_EDGE} FROM edges"
        " WHERE monitor = ? AND key = ? AND source = ? AND target = ?"
    )  # fmt: skip
    query = f"{one} UNION {one} ORDER BY window_index DESC, origin, change LIMIT ?"
    found = connection.execute(query, (*monitor, *edge, *monitor, *edge[::-1], limit))
    return [edge_row(values) for values in found]


def read_events(
    connection: sqlite3.Connection, after_sequence: int, limit: int
) -> list[tuple[int, Event]]:
    """Return events with their numbers, the oldest first."""
    query = f"SELECT {EVENT_COLUMNS} FROM events AS e WHERE sequence > ? ORDER BY sequence"
    return list(islice(intact_events(connection.execute(query, (after_sequence,))), limit))


def _monitor_row(values: tuple[Any, ...]) -> MonitorRow:
    intact, *counts = values[:_N_COUNTS]
    window = values[_N_COUNTS : _N_COUNTS + _N_WINDOW]
    episode = values[_N_COUNTS + _N_WINDOW :]
    if not intact or window[1] is None:  # its last window has lost its name
        raise RowDamage(monitor_name(*counts[:2]))
    open_episode = None if episode[1] is None else episode_row(episode)
    return MonitorRow(*(*counts, window_row(window), open_episode))
