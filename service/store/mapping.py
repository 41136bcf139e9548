"""Tuples that SQLite returns as rows with names and types."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

from service.events import Event
from service.store.rows import EpisodeEdge, EpisodeRow, WindowRow

EVENT_COLUMNS: Final = "e.sequence, e.id, e.type, e.monitor, e.key, e.window_index, e.document"


def _places(row: type[Any], kind: str) -> tuple[int, ...]:
    return tuple(i for i, column in enumerate(fields(row)) if column.type == kind)


_WINDOW_FLAGS: Final = _places(WindowRow, "bool")
_EPISODE_FLAGS: Final = _places(EpisodeRow, "bool")


def window_row(values: Sequence[Any]) -> WindowRow:
    """Return a window from its columns."""
    return WindowRow(*_with_flags(values, _WINDOW_FLAGS))


def episode_row(values: Sequence[Any]) -> EpisodeRow:
    """Return an episode from its columns, of which the last is JSON."""
    found = _with_flags(values, _EPISODE_FLAGS)
    found[-1] = tuple(EpisodeEdge(**edge) for edge in json.loads(found[-1]))
    return EpisodeRow(*found)


def event_pair(values: Sequence[Any]) -> tuple[int, Event]:
    """Return an event with its number from ``EVENT_COLUMNS``."""
    sequence, *found = values
    found[-1] = json.loads(found[-1])
    return sequence, Event(*found)


def _with_flags(values: Sequence[Any], places: tuple[int, ...]) -> list[Any]:
    found = list(values)
    for place in places:
        found[place] = bool(found[place])
    return found
