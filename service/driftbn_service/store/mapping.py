"""Tuples that SQLite returns as rows with names and types."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any, Final

from driftbn_service.events import Event
from driftbn_service.store.errors import RowDamage
from driftbn_service.store.rows import EdgeRow, EpisodeEdge, EpisodeRow, WindowRow
from driftbn_service.store.schema import is_intact

logger = logging.getLogger("driftbn.service.store")

EVENT_COLUMNS: Final = (
    f"{is_intact('events', 'e.')},"
    " e.sequence, e.id, e.type, e.monitor, e.key, e.window_index, e.document"
)


def _places(row: type[Any], kind: str) -> tuple[int, ...]:
    return tuple(i for i, column in enumerate(fields(row)) if column.type == kind)


_WINDOW_FLAGS: Final = _places(WindowRow, "bool")
_EPISODE_FLAGS: Final = _places(EpisodeRow, "bool")


def window_row(values: Sequence[Any]) -> WindowRow:
    """Return a window from its columns.

    Raises
    ------
    RowDamage
        If it is not intact; so do all below.
    """
    intact, *found = values
    if not intact:
        raise RowDamage(f"window {found[2]} of {monitor_name(*found[:2])}")
    return WindowRow(*_with_flags(found, _WINDOW_FLAGS))


def edge_row(values: Sequence[Any]) -> EdgeRow:
    """Return a change of an edge from its columns."""
    intact, *found = values
    if not intact:
        raise RowDamage(f"an edge in window {found[2]} of {monitor_name(*found[:2])}")
    return EdgeRow(*found)


def episode_row(values: Sequence[Any]) -> EpisodeRow:
    """Return an episode from its columns, of which the last is JSON."""
    intact, *found = values
    if not intact:
        raise RowDamage(f"episode {found[2]} of {monitor_name(*found[:2])}")
    found = _with_flags(found, _EPISODE_FLAGS)
    found[-1] = tuple(EpisodeEdge(**edge) for edge in json.loads(found[-1]))
    return EpisodeRow(*found)


def event_pair(values: Sequence[Any]) -> tuple[int, Event]:
    """Return an event with its number from ``EVENT_COLUMNS``."""
    intact, sequence, *found = values
    if not intact:
        raise RowDamage(f"event {sequence}", (sequence, found[2]))
    found[-1] = json.loads(found[-1])
    return sequence, Event(*found)


def intact_events(rows: Iterable[Sequence[Any]]) -> Iterator[tuple[int, Event]]:
    """Iterate over events; damaged ones are logged and left out."""
    for values in rows:
        try:
            yield event_pair(values)
        except RowDamage as damage:
            logger.error("%s in the history and left out", damage)


def monitor_name(monitor: str, key: str) -> str:
    """Return a monitor in words.

    Examples
    --------
    >>> monitor_name("orders", ""), monitor_name("orders", "x")
    ("monitor 'orders'", "monitor 'orders', key 'x'")
    """
    return f"monitor {monitor!r}, key {key!r}" if key else f"monitor {monitor!r}"


def _with_flags(values: Sequence[Any], places: tuple[int, ...]) -> list[Any]:
    found = list(values)
    for place in places:
        found[place] = bool(found[place])
    return found
