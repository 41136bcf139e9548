"""Events of several batches put together."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from driftbn.records import MAX_NAMED_LEVELS, SchemaEvent
from driftbn.variables import level_key

MAX_EVENTS: Final = 1000
"""Events that are kept of a window, by column name: fields may be new in every record."""


def merged_events(
    events: tuple[SchemaEvent, ...], more: tuple[SchemaEvent, ...]
) -> tuple[SchemaEvent, ...]:
    """Return the events of several batches, each kind and column once.

    Of more new levels than are named it is only said that there are more, because which of them
    two batches share is not known. Of more events than are kept, the last by name are left out,
    whatever the batches were.
    """
    found = {(event.column, event.kind): event for event in events}
    for event in more:
        known = found.get((event.column, event.kind), replace(event, levels=(), n_rows=0))
        levels = sorted({*known.levels, *event.levels}, key=level_key)
        n_levels = max(len(levels), known.n_levels, event.n_levels)
        found[event.column, event.kind] = replace(
            event,
            levels=tuple(levels[:MAX_NAMED_LEVELS]),
            n_levels=min(n_levels, MAX_NAMED_LEVELS + 1),
            n_rows=known.n_rows + event.n_rows,
        )
    return tuple(found[key] for key in sorted(found)[:MAX_EVENTS])
