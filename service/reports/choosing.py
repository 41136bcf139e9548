"""Which monitor, window or episode a report is about."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from service.event_words import monitor_name
from service.reports.errors import NotInHistoryError
from service.store import EpisodeRow, Store, WindowDetail

DEFAULT_LAST: Final = 200
"""Windows of the time line."""
_MAX_NAMED: Final = 10  # names that an error lists


@dataclass(frozen=True)
class Request:
    """What to report on.

    Parameters
    ----------
    monitor, key
        The monitor; without a key the only one there is.
    window, episode
        A window or an episode; if neither is given, the newest episode, or else the newest window.
    last
        Windows of the time line at most.
    """

    monitor: str
    key: str | None = None
    window: int | None = None
    episode: int | None = None
    last: int = DEFAULT_LAST


def find_key(store: Store, request: Request) -> str:
    """Return the key of the monitor that is meant.

    Raises
    ------
    NotInHistoryError
        If there is no such monitor or key, or there are several keys and none is given.
    """
    if request.key is not None and store.monitor(request.monitor, request.key) is not None:
        return request.key
    found = [row.key for row in store.monitors(request.monitor, limit=_MAX_NAMED + 1)]
    if not found:
        raise NotInHistoryError(
            store.path, f"there is no window of a monitor {request.monitor!r}; {_known(store)}"
        )
    if request.key is None and ("" in found or len(found) == 1):
        return found[0]
    more = " and more" if len(found) > _MAX_NAMED else ""
    keys = ", ".join(repr(key) for key in found[:_MAX_NAMED]) + more
    if request.key is None:
        problem = f"monitor {request.monitor!r} has several keys, give one with --key: {keys}"
    else:
        problem = f"monitor {request.monitor!r} has no key {request.key!r}; there are: {keys}"
    raise NotInHistoryError(store.path, problem)


def _known(store: Store) -> str:
    names: list[str] = []
    while len(names) <= _MAX_NAMED:
        # No name holds a NUL, so this skips the other keys of the last one.
        after = (f"{names[-1]}\0", "") if names else None
        row = next(iter(store.monitors(after=after, limit=1)), None)
        if row is None:
            break
        names.append(row.monitor)
    more = " and more" if len(names) > _MAX_NAMED else ""
    listed = ", ".join(repr(name) for name in names[:_MAX_NAMED])
    return f"there are: {listed}{more}" if names else "there is none of any monitor yet"


def find_episode(
    store: Store, request: Request, key: str, newest: Sequence[EpisodeRow]
) -> EpisodeRow | None:
    """Return the episode to tell of, or ``None`` if that is a window.

    Raises
    ------
    NotInHistoryError
        If there is no such episode.
    """
    if request.window is not None:
        return None
    if request.episode is None:
        return newest[0] if newest else None
    found = store.episode(request.monitor, key, request.episode)
    if found is None:
        numbers = ", ".join(str(row.episode) for row in newest)
        there = f"the newest are {numbers}" if numbers else "there is none yet"
        name = monitor_name(request.monitor, key)
        problem = f"there is no episode {request.episode} of {name}; {there}"
        raise NotInHistoryError(store.path, problem)
    return found


def find_window(store: Store, request: Request, key: str) -> WindowDetail:
    """Return the window to tell of: the one that is asked for, or the newest.

    Raises
    ------
    NotInHistoryError
        If there is no such window.
    """
    index = request.window
    if index is None:
        index = store.windows(request.monitor, key, limit=1)[0].window_index
    found = store.window(request.monitor, key, index)
    if found is None:
        there = store.series(request.monitor, key, sys.maxsize).window_index
        name = monitor_name(request.monitor, key)
        problem = f"there is no window {index} of {name}; there are {there[0]} to {there[-1]}"
        raise NotInHistoryError(store.path, problem)
    return found
