"""Episodes of the history, brought forward by one window at a time."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from driftbn.drift.outcome import EpisodeEvent
from driftbn_service.events import Publication
from driftbn_service.store.documents import as_json
from driftbn_service.store.errors import RowDamage
from driftbn_service.store.mapping import episode_row
from driftbn_service.store.rows import EpisodeEdge, EpisodeRow
from driftbn_service.store.schema import REPLACE_EPISODE, columns_of, is_intact

logger = logging.getLogger("driftbn.service.store")

_COLUMNS = columns_of(EpisodeRow, "episodes")


def bring_forward(connection: sqlite3.Connection, publication: Publication) -> bool:
    """Enter what a new window means for the episodes of its monitor; return whether one began."""
    decision = publication.report["decision"]
    monitor = (publication.monitor, publication.key)
    number = decision["episode"]
    # The library may end an episode without a window that says so.
    connection.execute(
        "UPDATE episodes SET state = 'ended', ended_window = ?"
        " WHERE monitor = ? AND key = ? AND state = 'open' AND episode IS NOT ?"
        f" AND {is_intact('episodes')}",
        (publication.window, *monitor, number),
    )
    if number is None:
        return False
    query = f"SELECT {_COLUMNS} FROM episodes WHERE monitor = ? AND key = ? AND episode = ?"
    known = connection.execute(query, (*monitor, number)).fetchone()
    episode = _known(known) or _begun(connection, publication)
    after = _after(episode, publication)
    values = vars(after) | {"edges": as_json([vars(edge) for edge in after.edges])}
    connection.execute(REPLACE_EPISODE, values)
    return known is None


def _known(values: Sequence[Any] | None) -> EpisodeRow | None:
    """Return an episode that is there; a damaged one is written anew from this window on."""
    if values is None:
        return None
    try:
        return episode_row(values)
    except RowDamage as damage:
        logger.error("%s in the history and begun anew there", damage)
        return None


def _begun(connection: sqlite3.Connection, publication: Publication) -> EpisodeRow:
    """Return an episode without windows."""
    decision = publication.report["decision"]
    since = publication.window if decision["since"] is None else decision["since"]
    start = (publication.report["first_record"], publication.report["start"])
    if since != publication.window:  # its first windows are not in this history, or an old one
        query = (
            'SELECT first_record, "start" FROM windows'
            " WHERE monitor = ? AND key = ? AND window_index = ?"
            f" AND {is_intact('windows')}"
        )
        found = connection.execute(query, (publication.monitor, publication.key, since))
        start = found.fetchone() or (None, None)
    return EpisodeRow(
        monitor=publication.monitor,
        key=publication.key,
        episode=decision["episode"],
        started_window=since,
        started_record=start[0],
        started_time=start[1],
        last_window=publication.window,
        ended_window=None,
        kind=decision["kind"],
        headline=publication.explanation["headline"],
        recurring=decision["recurring"],
        n_windows=0,
        state="open",
    )


def _after(episode: EpisodeRow, publication: Publication) -> EpisodeRow:
    """Return an episode after one more window."""
    decision, index = publication.report["decision"], publication.window
    after = replace(episode, n_windows=episode.n_windows + 1, last_window=index)
    if decision["episode_event"] == EpisodeEvent.ENDED.value:
        after = replace(after, state="ended", ended_window=index)
    if not _names(decision):
        return after
    return replace(
        after,
        kind=decision["kind"] or episode.kind,
        headline=publication.explanation["headline"],
        recurring=decision["recurring"],
        edges=_edges(episode.edges, decision, index),
    )


def _names(decision: dict[str, Any]) -> bool:
    """Return whether a window says what the change is."""
    if decision["drift"]:
        return True
    is_update = decision["episode_event"] == EpisodeEvent.UPDATED.value
    return is_update and (decision["kind"] is not None or decision["recurring"])


def _edges(
    known: tuple[EpisodeEdge, ...], decision: dict[str, Any], index: int
) -> tuple[EpisodeEdge, ...]:
    """Return all edges named, of which a window after an alarm replaces those of the alarm."""
    settled = not decision["drift"]
    named = tuple(
        EpisodeEdge(edge["source"], edge["target"], edge["change"], index, settled)
        for edge in decision["edges"]
    )
    pairs = {frozenset((edge.source, edge.target)) for edge in named}
    kept = (
        edge
        for edge in known
        if frozenset((edge.source, edge.target)) not in pairs
        and not (settled and named and not edge.settled)
    )
    return (*kept, *named)
