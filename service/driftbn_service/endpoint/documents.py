"""Rows of the history as answers show them, and the shapes of these answers."""

from __future__ import annotations

from typing import Any, Final

from driftbn_service.endpoint.schemas import (
    FLAG,
    NUMBER,
    TEXT,
    WHOLE,
    Schema,
    array,
    choice,
    optional,
    record,
    ref,
)
from driftbn_service.endpoint.view import StreamInfo
from driftbn_service.store import EdgeRow, EpisodeRow, MonitorRow, Series, WindowRow

_NUMBER_OR_NULL: Final = optional(NUMBER)

WINDOW: Final = record(
    {
        "window": WHOLE,
        "lane": TEXT,
        **dict.fromkeys(("first_record", "last_record", "rows"), WHOLE),
        **dict.fromkeys(("start", "end"), _NUMBER_OR_NULL),
        **dict.fromkeys(("hamming", "skeleton", "confirmed_hamming"), WHOLE),
        "level": TEXT,
        "drift": FLAG,
        "kind": optional(TEXT),
        **dict.fromkeys(("p_value", "alpha", "p_mechanism", "p_association"), _NUMBER_OR_NULL),
        **dict.fromkeys(("n_edges", "n_nodes"), WHOLE),
        "warm": FLAG,
        **dict.fromkeys(("tests", "undecided"), WHOLE),
        **dict.fromkeys(("design_effect", "effect"), _NUMBER_OR_NULL),
        "degraded": FLAG,
        "episode": optional(WHOLE),
        "headline": TEXT,
        **dict.fromkeys(("learn_seconds", "decide_seconds"), _NUMBER_OR_NULL),
        "stored": NUMBER,
    }
)
EPISODE: Final = record(
    {
        "episode": WHOLE,
        "started_window": WHOLE,
        "started_record": optional(WHOLE),
        "started_time": _NUMBER_OR_NULL,
        "last_window": WHOLE,
        "ended_window": optional(WHOLE),
        "kind": optional(TEXT),
        "headline": TEXT,
        "recurring": FLAG,
        "n_windows": WHOLE,
        "state": choice(("open", "ended")),
        "edges": array(
            record(
                {"source": TEXT, "target": TEXT, "change": TEXT, "window": WHOLE, "settled": FLAG}
            )
        ),
    }
)
MONITOR: Final = record(
    {
        "name": TEXT,
        "key": TEXT,
        "key_field": optional(TEXT),
        "source": optional(TEXT),
        "state": TEXT,
        "trouble": optional(TEXT),
        **dict.fromkeys(("n_windows", "n_drifts", "n_episodes"), WHOLE),
        "last": optional(ref("Window")),
        "open_episode": optional(ref("Episode")),
    }
)
EDGE: Final = record(
    {
        "window": WHOLE,
        "origin": choice(("confirmed", "raw")),
        "source": TEXT,
        "target": TEXT,
        "change": TEXT,
        **dict.fromkeys(("p_value", "before", "after"), _NUMBER_OR_NULL),
    }
)
SERIES: Final = record(
    {
        **dict.fromkeys(("window", "hamming", "confirmed_hamming"), array(WHOLE)),
        "level": array(TEXT),
        **dict.fromkeys(("p_value", "alpha"), array(_NUMBER_OR_NULL)),
        "last_record": array(WHOLE),
        "end": array(_NUMBER_OR_NULL),
    }
)
SCHEMAS: Final[dict[str, Schema]] = {
    "Window": WINDOW,
    "Episode": EPISODE,
    "Monitor": MONITOR,
    "EdgeHistory": EDGE,
    "Series": SERIES,
}
"""The shapes under their names."""

GONE = "gone"
"""The state of a monitor that is in the history and not in the settings any more."""


def window_document(row: WindowRow) -> dict[str, Any]:
    """Return a window in short; whose it is stands in the address."""
    return _renamed(row)


def episode_document(row: EpisodeRow) -> dict[str, Any]:
    """Return an episode with its edges."""
    return _renamed(row) | {"edges": [_renamed(edge) for edge in row.edges]}


def edge_document(row: EdgeRow) -> dict[str, Any]:
    """Return what became of an edge in a window."""
    return _renamed(row)


def series_document(series: Series) -> dict[str, Any]:
    """Return windows as columns."""
    return _renamed(series)


def monitor_document(
    name: str, row: MonitorRow | None, stream: StreamInfo | None
) -> dict[str, Any]:
    """Return a monitor: what the history has of it, if anything, and what its stream does."""
    episode = None if row is None else row.open_episode
    return {
        "name": name,
        "key": "" if row is None else row.key,
        "key_field": None if stream is None else stream.key,
        "source": None if stream is None else stream.source,
        "state": GONE if stream is None else stream.state,
        "trouble": None if stream is None else stream.trouble,
        "n_windows": 0 if row is None else row.n_windows,
        "n_drifts": 0 if row is None else row.n_drifts,
        "n_episodes": 0 if row is None else row.n_episodes,
        "last": None if row is None else window_document(row.last),
        "open_episode": None if episode is None else episode_document(episode),
    }


def _renamed(row: Any) -> dict[str, Any]:
    found = dict(vars(row))  # not asdict, which would copy every cell of a long series
    found.pop("monitor", None)
    found.pop("key", None)
    if "window_index" in found:
        found = {"window": found.pop("window_index"), **found}
    return found
