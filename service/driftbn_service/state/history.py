"""The history: windows with their documents and edges, episodes and events, each entered once."""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import orjson

from driftbn.drift.outcome import EpisodeEvent
from driftbn_service.events import Event, EventType, Publication
from driftbn_service.state import actions, sql
from driftbn_service.state.database import Connection, next_number


@dataclass(frozen=True)
class WindowRow:
    """A window in short; the fields are the columns of the table ``windows``."""

    stream: str
    key: str
    window_index: int
    lane: str  # that its records came by
    first_record: int
    last_record: int
    rows: int
    start: float | None  # smallest event time in seconds since the epoch, if there are any
    end: float | None  # largest
    hamming: int  # raw distance from the window before
    skeleton: int  # its part that is edges added or removed
    confirmed_hamming: int  # changes of edges that a test confirms
    level: str
    drift: bool
    kind: str | None
    p_value: float | None
    alpha: float | None  # the level that the p-value is held against
    p_mechanism: float | None  # smallest of this family of tests; None if it was not asked
    p_association: float | None
    n_edges: int
    n_nodes: int
    warm: bool  # whether the search began from the window before
    tests: int
    undecided: int  # pairs of fields that the rows could not decide on
    design_effect: float | None  # by how much alike rows weaken the tests
    effect: float | None  # size of the change in nats
    degraded: bool  # whether a limit stopped the search
    episode: int | None
    headline: str
    learn_seconds: float | None
    decide_seconds: float | None
    stored: float  # seconds since the epoch when it came into the history


@dataclass(frozen=True)
class EdgeRow:
    """A change of an edge in a window."""

    stream: str
    key: str
    window_index: int
    origin: str  # ``confirmed`` by a test, or ``raw``: it differs from the window before
    source: str
    target: str
    change: str  # ``added``, ``removed`` or ``reversed``
    p_value: float | None
    before: float | None  # strength of the association in the reference, in nats
    after: float | None  # the same now


@dataclass(frozen=True)
class WindowDetail:
    """A window with all that there is to know of it."""

    row: WindowRow
    report: dict[str, Any] = field(repr=False)  # ``WindowReport.to_dict()``
    explanation: dict[str, Any] = field(repr=False)  # headline, sentences, advice
    edges: tuple[EdgeRow, ...] = field(repr=False)


@dataclass(frozen=True)
class EpisodeEdge:
    """A change of an edge that belongs to an episode."""

    source: str
    target: str
    change: str
    window_index: int  # that named it
    settled: bool  # whether that window is all after the change, and names it better


@dataclass(frozen=True)
class EpisodeRow:
    """An episode: a change, however many windows it takes."""

    stream: str
    key: str
    episode: int
    started_window: int  # in which it was found
    started_record: int | None
    started_time: float | None  # smallest event time of that window, if known
    last_window: int
    ended_window: int | None  # None while it is open
    kind: str | None  # by the window that named it last, as are the next two
    severity: str | None
    headline: str
    recurring: bool  # whether the relations are back to an earlier state
    n_windows: int
    state: str  # ``open`` or ``ended``
    edges: tuple[EpisodeEdge, ...] = ()

    @property
    def is_open(self) -> bool:
        return self.state == "open"


@dataclass(frozen=True)
class MonitorRow:
    """A monitor in short."""

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
    """A lane in short."""

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
        self._silences = actions.silences(connection, now)
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
        self._connection.execute(sql.WINDOWS.insert, sql.WINDOWS.sealed(vars(row).values()))
        documents = (*place, compressed(report), compressed(publication.explanation))
        self._connection.execute(sql.DOCUMENTS.insert, sql.DOCUMENTS.sealed(documents))
        edges = (sql.EDGES.sealed(vars(edge).values()) for edge in edges_of(*place, report))
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
            episode = None if found is None else episode_row(found)
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
            ended = replace(episode_row(found), state="ended", ended_window=publication.window)
        except sql.RowDamage:
            self._connection.execute(sql.END_DAMAGED_EPISODE, place)
        else:
            self._write_episode(ended)

    def _begun(self, publication: Publication) -> EpisodeRow:
        """Return an episode without windows."""
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
            row = None if found is None else window_row(found)
        except sql.RowDamage:
            row = None
        return (None, None) if row is None else (row.first_record, row.start)

    def _write_episode(self, episode: EpisodeRow) -> None:
        values = vars(episode) | {"edges": _as_json([vars(edge) for edge in episode.edges])}
        self._connection.execute(sql.EPISODES.upsert, sql.EPISODES.sealed(values.values()))

    # --- Events ---

    def _write_events(self, publication: Publication) -> None:
        for event in publication.events:
            if self._connection.execute(sql.EVENT_BY_ID, (event.id,)).fetchone() is None:
                self._write_event(event, publication.lane)

    def _write_event(self, event: Event, lane: str) -> None:
        sequence = next_number(self._connection, "events")
        place = (event.stream, event.key, lane, event.window)
        document = _as_json(_dated(event.document, self._now))
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


def _flags(row: type[Any]) -> tuple[int, ...]:
    return tuple(i for i, column in enumerate(fields(row)) if column.type == "bool")


_WINDOW_FLAGS: Final = _flags(WindowRow)
_EPISODE_FLAGS: Final = _flags(EpisodeRow)


def window_row(row: Sequence[Any]) -> WindowRow:
    """Return a window from its row; ``RowDamage`` if it is damaged, as all below."""
    return WindowRow(*_with_flags(sql.WINDOWS.opened(row), _WINDOW_FLAGS))


def episode_row(row: Sequence[Any]) -> EpisodeRow:
    values = _with_flags(sql.EPISODES.opened(row), _EPISODE_FLAGS)
    values[-1] = tuple(EpisodeEdge(**edge) for edge in json.loads(values[-1]))
    return EpisodeRow(*values)


def event_pair(row: Sequence[Any]) -> tuple[int, Event]:
    """Return an event with its number from its row in the database."""
    try:
        values = sql.EVENTS.opened(row)
    except sql.RowDamage as damage:
        raise sql.RowDamage(damage.row, (row[0], str(row[3]))) from damage
    sequence, name, kind, monitor, key, _, window, _, document = values
    return sequence, Event(name, kind, monitor, key, window, json.loads(document))


def _with_flags(values: list[Any], places: tuple[int, ...]) -> list[Any]:
    for place in places:
        values[place] = bool(values[place])
    return values


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


def _as_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


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


def delete_monitor(connection: Connection, stream: str) -> int:
    """Delete all that is known of a monitor, for all of its keys; return how many windows."""
    deleted = connection.execute(sql.FORGET_ALL_WINDOWS, (stream,))
    for statement in sql.FORGET_MONITOR:
        connection.execute(statement, (stream,))
    return deleted.rowcount
