"""Which window of an episode says best what changed: one rule for page, API and reports."""

from __future__ import annotations

from typing import Final

from driftbn.drift.outcome import DriftLevel
from driftbn_service.store import EpisodeRow, Store, WindowRow

_MAX_WINDOWS: Final = 1000  # of an episode that are looked at, the newest ones
_NAMING: Final = frozenset({DriftLevel.DRIFT.value, DriftLevel.SETTLING.value})


def naming_window(store: Store, episode: EpisodeRow, until: int | None = None) -> int:
    """Return the window that names the change of an episode best, up to a window.

    The window after an alarm is all after the change, so it names it better than the alarm does:
    it is the last window that names edges; if none does, the last that says what kind of change it
    is; and if none does that either, the one that began the episode.
    """
    last = episode.last_window if until is None else until
    edges = [edge.window_index for edge in episode.edges if edge.window_index <= last]
    if edges:
        return max(edges)
    rows = store.windows(
        episode.monitor,
        episode.key,
        after=episode.started_window - 1,
        before=last + 1,
        limit=_MAX_WINDOWS,
    )
    kinds = (row.window_index for row in rows if _says_kind(row))
    return next(kinds, episode.started_window)


def _says_kind(row: WindowRow) -> bool:
    return row.kind is not None and row.level in _NAMING
