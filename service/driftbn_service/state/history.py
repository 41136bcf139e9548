"""The history: windows, episodes and events, each entered once, and what people do about them."""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, TypeAlias

import orjson

from driftbn.drift.outcome import EpisodeEvent
from driftbn_service.events import Event, EventType, Publication
from driftbn_service.state import sql
from driftbn_service.state.database import Connection, next_number
from driftbn_service.state.sql import ActionRow, EdgeRow, EpisodeEdge, EpisodeRow, WindowRow


@dataclass(frozen=True)
class WindowDetail:
    row: WindowRow
    report: dict[str, Any] = field(repr=False)  # ``WindowReport.to_dict()``
    explanation: dict[str, Any] = field(repr=False)  # headline, sentences, advice
    edges: tuple[EdgeRow, ...] = field(repr=False)


@dataclass(frozen=True)
class MonitorRow:
    stream: str
    key: str
    lane: str
    n_windows: int  # like the next two since its beginning, whether or not still kept
    n_drifts: int
    n_episodes: int
    last: WindowRow
    open_episode: EpisodeRow | None


@dataclass(frozen=True)
class Series:
    """Windows of a monitor as columns for a time line, the oldest first."""

    window_index: tuple[int, ...]
    hamming: tuple[int, ...]
    confirmed_hamming: tuple[int, ...]
    level: tuple[str, ...]
    p_value: tuple[float | None, ...]
    alpha: tuple[float | None, ...]
    last_record: tuple[int, ...]
    end: tuple[float | None, ...]
    effect: tuple[float | None, ...]
    stored: tuple[float, ...]


@dataclass(frozen=True)
class LaneRow:
    stream: str
    lane: str
    position: dict[str, Any] | None  # where the source goes on
    n_ahead: int  # records after that which are in the states already
    committed: float | None  # seconds since the epoch of the last commit; None before the first
    owner: str | None  # host and process that work on it; None if nobody does
    n_keys: int
    state_bytes: int
    n_windows: int  # since the beginning


# --- Writing ---


logger = logging.getLogger("driftbn.service.state.history")

Wanted: TypeAlias = Sequence[tuple[str, Collection[str] | None]]
"""Name of every outlet with the types of event it wants, ``None`` for all."""

SILENCED: Final = frozenset({EventType.DRIFT_STARTED, EventType.DRIFT_UPDATED, EventType.NOTICE})
"""What a silence keeps from outlets; that something has ended or failed is told all the same."""
PRUNED_WINDOWS: Final = 1000
"""Windows that are deleted at a time at most."""
PRUNED_EVENTS: Final = 5000
"""Events that are deleted at a time at most."""
_OF_REPORT: Final = ("first_record", "last_record", "rows", "start", "end", "degraded")
_OF_DECISION: Final = (
    "confirmed_hamming", "level", "drift", "kind", "p_value", "alpha", "design_effect", "effect",
    "episode",
)  # fmt: skip
_LEVEL: Final = 3
"""Of zlib: a report of Alarm takes 50 us and 1.36 kB; at level 6 87 us and 1.23 kB."""


class PublicationWriter:
    """Enters publications within a transaction; ``n_new`` windows were not there before."""

    def __init__(self, connection: Connection, outlets: Wanted, now: float) -> None:
        self._connection = connection
        self._outlets = outlets
        self._now = now
        self._silences = silences(connection, now)
        self.n_new = 0

    def write(self, publications: Sequence[Publication]) -> None:
        """Enter windows with all that belongs to them; one that is there already stays."""
        for publication in publications:
            if not publication.report:
                if any(event.type == EventType.DRIFT_ENDED for event in publication.events):
                    self._end_others(publication, None)
                self._write_events(publication)
            elif not self._is_known(publication):
                self._write_window(publication)
                self._write_events(publication)
                self.n_new += 1

    def _write_window(self, publication: Publication) -> None:
        place = (publication.stream, publication.key, publication.window)
        report = publication.report
        row = window_row_of(publication, self._now)
        self._connection.execute(sql.WINDOWS.insert, sql.WINDOWS.written(row))
        documents = (*place, compressed(report), compressed(publication.explanation))
        self._connection.execute(sql.DOCUMENTS.insert, sql.DOCUMENTS.sealed(documents))
        edges = (sql.EDGES.written(edge) for edge in edges_of(*place, report))
        self._connection.executemany(f"{sql.EDGES.insert} ON CONFLICT DO NOTHING", edges)
        has_begun = self._bring_forward(publication)
        self._count(publication, has_begun)

    # --- What a monitor comes to ---

    def _is_known(self, publication: Publication) -> bool:
        """Return whether a window is in the history: then two lanes have a monitor of one key."""
        place = (publication.stream, publication.key, publication.window)
        found = self._connection.execute(sql.WINDOW, place).fetchone()
        if found is not None and found[3] != publication.lane:  # else a commit without an answer
            logger.error(
                "window %d is in the history already, from lane %r, and stays",
                publication.window, found[3],
                extra={"stream": publication.stream, "key": publication.key},
            )  # fmt: skip
        return found is not None

    def _count(self, publication: Publication, has_begun: bool) -> None:
        place = (publication.stream, publication.key)
        found = self._connection.execute(sql.MONITOR, place).fetchone()
        try:
            counts = [0, 0, 0, -1, 0] if found is None else sql.MONITORS.opened(found)[3:]
        except sql.RowDamage as damage:
            logger.error("the counts of %s were damaged and are made anew", damage.row)
            counts = self._counted(place)
        else:
            counts[0] += 1
            counts[1] += publication.report["decision"]["drift"]
            counts[2] += has_begun
            counts[3] = max(counts[3], publication.window)
        values = sql.MONITORS.sealed((*place, publication.lane, *counts))
        self._connection.execute(sql.MONITORS.upsert, values)

    def _counted(self, place: tuple[str, str]) -> list[int]:
        n_windows, n_drifts, last, first = self._connection.execute(sql.COUNTS, place).fetchone()
        (n_episodes,) = self._connection.execute(sql.COUNT_EPISODES, place).fetchone()
        return [n_windows, n_drifts, n_episodes, last, first]

    # --- Episodes ---

    def _bring_forward(self, publication: Publication) -> bool:
        """Enter what a window means for the episodes of its monitor; return whether one began."""
        number = publication.report["decision"]["episode"]
        self._end_others(publication, number)
        if number is None:
            return False
        place = (publication.stream, publication.key, number)
        found = self._connection.execute(sql.EPISODE, place).fetchone()
        episode = None
        try:
            episode = None if found is None else sql.EPISODES.read(found)
        except sql.RowDamage as damage:
            logger.error("%s in the history and begun anew there", damage)
        self._write_episode(_after(episode or self._begun(publication), publication))
        return found is None

    def _end_others(self, publication: Publication, number: int | None) -> None:
        """End an episode that the library has ended without a window that says so."""
        place = (publication.stream, publication.key)
        found = self._connection.execute(sql.OPEN_EPISODE, place).fetchone()
        if found is None or found[2] == number:
            return
        try:
            episode = sql.EPISODES.read(found)
        except sql.RowDamage:
            self._connection.execute(sql.END_DAMAGED_EPISODE, place)
        else:
            ended = replace(episode, state="ended", ended_window=publication.window)
            self._write_episode(ended)

    def _begun(self, publication: Publication) -> EpisodeRow:
        decision, report = publication.report["decision"], publication.report
        since = publication.window if decision["since"] is None else decision["since"]
        start = (report["first_record"], report["start"])
        if since != publication.window:  # its first windows are not in this history, or an old one
            start = self._start_of(publication.stream, publication.key, since)
        return EpisodeRow(
            stream=publication.stream,
            key=publication.key,
            episode=decision["episode"],
            started_window=since,
            started_record=start[0],
            started_time=start[1],
            last_window=publication.window,
            ended_window=None,
            kind=decision["kind"],
            severity=decision["severity"],
            headline=publication.explanation["headline"],
            recurring=decision["recurring"],
            n_windows=0,
            state="open",
        )

    def _start_of(self, *place: object) -> tuple[int | None, float | None]:
        found = self._connection.execute(sql.WINDOW, place).fetchone()
        try:
            row = None if found is None else sql.WINDOWS.read(found)
        except sql.RowDamage:
            row = None
        return (None, None) if row is None else (row.first_record, row.start)

    def _write_episode(self, episode: EpisodeRow) -> None:
        self._connection.execute(sql.EPISODES.upsert, sql.EPISODES.written(episode))

    # --- Events ---

    def _write_events(self, publication: Publication) -> None:
        for event in publication.events:
            if self._connection.execute(sql.EVENT_BY_ID, (event.id,)).fetchone() is None:
                self._write_event(event, publication.lane)

    def _write_event(self, event: Event, lane: str) -> None:
        sequence = next_number(self._connection, "events")
        place = (event.stream, event.key, lane, event.window)
        document = json.dumps(_dated(event.document, self._now), separators=(",", ":"))
        values = (sequence, event.id, event.type, *place, self._now, document)
        self._connection.execute(sql.EVENTS.insert, sql.EVENTS.sealed(values))
        if event.type in SILENCED and self._silences.cover(event.stream, event.key):
            return
        for name, types in self._outlets:
            if types is None or event.type in types:
                delivery = sql.DELIVERIES.sealed((name, sequence))
                self._connection.execute(sql.DELIVERIES.insert, delivery)


def _dated(document: dict[str, Any], now: float) -> dict[str, Any]:
    """Return a CloudEvent with a time, which is the present one if it has none."""
    if document.get("time") is not None:
        return document
    moment = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")
    return document | {"time": moment.replace("+00:00", "Z")}


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
        severity=decision["severity"] or episode.severity,
        # That all is as it was says nothing of what had changed.
        headline=publication.explanation["headline"] if decision["kind"] else episode.headline,
        recurring=decision["recurring"],
        edges=_edges_after(episode.edges, decision, index),
    )


def _names(decision: Mapping[str, Any]) -> bool:
    """Return whether a window says what the change is."""
    if decision["drift"]:
        return True
    is_update = decision["episode_event"] == EpisodeEvent.UPDATED.value
    return is_update and (decision["kind"] is not None or decision["recurring"])


def _edges_after(
    known: tuple[EpisodeEdge, ...], decision: Mapping[str, Any], index: int
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


# --- Rows ---


def window_row_of(publication: Publication, now: float) -> WindowRow:
    report, timings = publication.report, publication.timings
    decision, diff = report["decision"], report["diff"]
    return WindowRow(
        stream=publication.stream,
        key=publication.key,
        window_index=publication.window,
        lane=publication.lane,
        hamming=diff["hamming"],
        skeleton=diff["skeleton"],
        p_mechanism=_family_p(decision, "mechanism"),
        p_association=_family_p(decision, "association"),
        n_edges=len(report["dag"]["edges"]),
        n_nodes=len(report["dag"]["nodes"]),
        warm=report["cost"]["warm"],
        tests=report["cost"]["n_tests"],
        undecided=decision["n_undecided"],
        headline=publication.explanation["headline"],
        learn_seconds=timings.get("learn"),
        decide_seconds=timings.get("decide"),
        stored=now,
        **{name: report[name] for name in _OF_REPORT},
        **{name: decision[name] for name in _OF_DECISION},
    )


def _family_p(decision: Mapping[str, Any], family: str) -> float | None:
    found = (result["p_value"] for result in decision["families"] if result["family"] == family)
    return min((p for p in found if p is not None), default=None)


def edges_of(stream: str, key: str, window: int, report: Mapping[str, Any]) -> Iterator[EdgeRow]:
    """Iterate over the changes of edges in a window, confirmed ones first."""
    place = (stream, key, window)
    for edge in report["decision"]["edges"]:
        names = (edge["source"], edge["target"], edge["change"])
        strengths = (edge["p_value"], edge["before"]["nats"], edge["after"]["nats"])
        yield EdgeRow(*place, "confirmed", *names, *strengths)
    for change in ("added", "removed", "reversed"):
        for edge in report["diff"][change]:
            names = (edge["source"], edge["target"], change)
            yield EdgeRow(*place, "raw", *names, None, None, None)


def event_pair(row: Sequence[Any]) -> tuple[int, Event]:
    try:
        values = sql.EVENTS.opened(row)
    except sql.RowDamage as damage:
        raise sql.RowDamage(damage.row, (row[0], str(row[3]))) from damage
    sequence, name, kind, monitor, key, _, window, _, document = values
    return sequence, Event(name, kind, monitor, key, window, json.loads(document))


def compressed(document: Mapping[str, Any]) -> bytes:
    r"""Return a document as compressed JSON, the same bytes for the same values.

    What orjson refuses, such as half of a surrogate pair in a name or a whole number of more than
    64 bits, the standard library writes, in twelve times the time.

    >>> decompressed(compressed({"a": [0.1, None], "b": "\ud800"}))
    {'a': [0.1, None], 'b': '\ud800'}
    """
    try:
        text = orjson.dumps(document)
    except orjson.JSONEncodeError:
        text = json.dumps(document, separators=(",", ":")).encode()
    return zlib.compress(text, _LEVEL)


def decompressed(data: bytes) -> dict[str, Any]:
    return dict(json.loads(zlib.decompress(data)))


# --- What people do ---


class ActionKind(StrEnum):
    """What somebody did."""

    ACCEPT = "accept"
    """The present is the new normal, and an open episode is over."""
    SILENCE = "silence"
    """Outlets and alerts do not tell of drifts for a time."""
    COMMENT = "comment"
    """Words for whoever reads the history."""


@dataclass(frozen=True)
class Wish:
    kind: ActionKind
    stream: str
    key: str = ""
    episode: int | None = None  # the open one unless given
    until: float | None = None
    author: str = ""
    comment: str = ""


class Silences:
    """The monitors whose drifts are not told now."""

    def __init__(self, rows: Iterable[ActionRow] = ()) -> None:
        self._places = frozenset((row.stream, row.key) for row in rows)

    def cover(self, stream: str, key: str) -> bool:
        return not self._places.isdisjoint(((stream, key), (stream, "")))


def enter(connection: Connection, wish: Wish, now: float) -> ActionRow:
    """Enter a wish; an accept that waits already is not entered a second time."""
    if wish.kind is ActionKind.ACCEPT:
        for waiting in wanted(connection):
            if (waiting.stream, waiting.key) == (wish.stream, wish.key):
                return waiting
    place = (wish.stream, wish.key)
    monitor = connection.execute(sql.MONITOR, place).fetchone()
    is_open = connection.execute(sql.OPEN_EPISODE, place).fetchone()
    window = None if monitor is None else sql.MONITORS.opened(monitor)[6]
    open_episode = None if is_open is None else sql.EPISODES.read(is_open).episode
    row = ActionRow(
        number=next_number(connection, "actions"),
        kind=wish.kind.value,
        stream=wish.stream,
        key=wish.key,
        episode=open_episode if wish.episode is None else wish.episode,
        window_index=None if wish.kind is ActionKind.ACCEPT else window,
        until=wish.until,
        author=wish.author,
        comment=wish.comment,
        stored=now,
    )
    connection.execute(sql.ACTIONS.insert, sql.ACTIONS.written(row))
    return row


def note_done(connection: Connection, done: Iterable[ActionRow]) -> None:
    """Enter that accepts hold, each with the last window before it."""
    for row in done:
        connection.execute(sql.ACTIONS.upsert, sql.ACTIONS.written(row))


def wanted(connection: Connection) -> list[ActionRow]:
    """Return the accepts that are not done yet, the oldest first."""
    return [sql.ACTIONS.read(row) for row in connection.execute(sql.WANTED)]


def silences(connection: Connection, now: float) -> Silences:
    return Silences(sql.ACTIONS.read(row) for row in connection.execute(sql.SILENCES, (now,)))


# --- Deleting what is old, a little at a time ---


def prune_windows(connection: Connection, keep: int) -> int:
    """Delete windows of monitors that have more than ``keep``; return how many."""
    n_deleted = 0
    for row in connection.execute(sql.LONG_MONITORS, (keep, PRUNED_WINDOWS)).fetchall():
        if n_deleted >= PRUNED_WINDOWS:
            break
        try:
            monitor = sql.MONITORS.opened(row)
        except sql.RowDamage:  # counted anew with its next window
            continue
        n_deleted += _prune_monitor(connection, monitor, keep, PRUNED_WINDOWS - n_deleted)
    return n_deleted


def _prune_monitor(connection: Connection, monitor: list[Any], keep: int, limit: int) -> int:
    place, cut = monitor[:2], monitor[6] - keep + 1
    first_left = connection.execute(sql.WINDOW_NUMBERS, (*place, cut, limit)).fetchone()
    if first_left is not None:
        (cut,) = first_left
    deleted = connection.execute(sql.FORGET_WINDOWS, (*place, cut))
    connection.execute(sql.FORGET_EPISODES, (*place, cut))
    connection.execute(sql.MONITORS.upsert, sql.MONITORS.sealed((*monitor[:7], cut)))
    return deleted.rowcount


def prune_events(connection: Connection, before: float) -> int:
    """Delete events from before a time; return how many.

    Events that wait for an outlet stay, and of each monitor the newest one of each type: outlets
    tell again from it what still holds.
    """
    connection.execute(sql.FORGET_ACTIONS, (before, before))
    return connection.execute(sql.FORGET_EVENTS, (before, PRUNED_EVENTS)).rowcount


def give_up_oldest(connection: Connection, n_kept: int) -> None:
    """Give up the oldest events of outlets that have got nothing for very long."""
    for outlet, n_pending in connection.execute(sql.LONG_QUEUES, (n_kept,)).fetchall():
        connection.execute(sql.GIVE_UP, (outlet, outlet, n_pending - n_kept))
        logger.error(
            "%d events were never delivered and are given up: more than %d wait",
            n_pending - n_kept, n_kept,
            extra={"outlet": outlet},
        )  # fmt: skip
