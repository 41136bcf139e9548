"""What is published of a window: its place in the history, and CloudEvents 1.0 for subscribers.

Everything here follows from the window, the state and its origin alone, without a clock, so a
daemon that was killed makes the same publications with the same ids once more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote
from uuid import UUID, uuid5

from driftbn import explain
from driftbn.config import DriftKind
from driftbn.drift.outcome import (
    ChangeType,
    DriftDecision,
    DriftLevel,
    EdgeChange,
    EpisodeEvent,
    NodeChange,
    Severity,
    Travelled,
)
from driftbn.explain import Explanation
from driftbn.explain.changes import Change
from driftbn.report import REPORTS, WindowReport
from driftbn.tables.encode import SchemaEvent, SchemaEventKind

if TYPE_CHECKING:
    from driftbn_service.state import EpisodeRow, Store

ARRIVED: Final = "arrived"
"""Beside the timings of a window: when its last record was read, in seconds since the epoch."""
NO_ORIGIN: Final = UUID("6f1c7a52-2f0e-5d5b-9a8e-1d7b3c0f4e21")
"""Namespace of the ids of events that belong to no state directory."""
MAX_CHANGES: Final = 50
"""Edges and fields, each, that an event lists, strongest first; all are in the history."""
MAX_DIFFERENCES: Final = 256
"""Differences from the schema that are remembered; of more, the oldest are forgotten."""
NOTICE_SECONDS: Final = 7 * 86400.0
"""Event time between two notices of one monitor."""
NOTICE_WINDOWS: Final = 100
"""Windows between them where records have no event times."""
MOVED_NATS: Final = 0.1
"""By how much a field goes on from its baseline until that is worth a notice."""
MOVED_WINDOWS: Final = 4
"""Windows of the reference before which nobody knows how far a stream goes by itself."""
MAX_LEVELS: Final = 16
"""New values of one column that are told; more are no news, as with a column of names."""

Difference = tuple[str, ...]
"""Kind and column, and for a new value the value."""
_OF_WINDOW: Final = ("rows", "first_record", "last_record")
_OF_DECISION: Final = ("level", "regime", "p_value", "alpha", "effect", "confirmed_hamming")
_MAX_WINDOWS: Final = 1000  # of an episode that are looked at, the newest ones
_NAMING: Final = frozenset({DriftLevel.DRIFT.value, DriftLevel.SETTLING.value})


class EventType(StrEnum):
    """What subscribers are told; the values are the types of CloudEvents."""

    DRIFT_STARTED = "io.driftbn.drift.started.v1"
    """A change of the relations was found: an episode begins."""
    DRIFT_UPDATED = "io.driftbn.drift.updated.v1"
    """More is known of an open episode, or something further changed in it."""
    DRIFT_ENDED = "io.driftbn.drift.ended.v1"
    """Nothing further changes; what changed is the new normal."""
    NOTICE = "io.driftbn.notice.v1"
    """The stream moves in a way that raises no alarm; told at most once a week."""
    SCHEMA_CHANGED = "io.driftbn.schema.changed.v1"
    """Columns or values are new or absent."""
    MONITOR_DEGRADED = "io.driftbn.monitor.degraded.v1"
    """A limit stopped learning, so that the graph shown is an old one."""
    MONITOR_FAILED = "io.driftbn.monitor.failed.v1"
    """The monitor takes no more records: something in it is broken."""
    MONITOR_RECOVERED = "io.driftbn.monitor.recovered.v1"
    """A monitor that was degraded or had failed works as it should again."""


class Whose(NamedTuple):
    """The monitor that something is published of."""

    stream: str
    key: str = ""
    lane: str = ""  # that its records came by
    origin: UUID = NO_ORIGIN  # another one for every stream, state directory and reset

    @property
    def name(self) -> str:
        return explain.monitor_name(self.stream, self.key)


@dataclass(frozen=True)
class Event:
    """Something that happened to a monitor, as a CloudEvent 1.0 in JSON form.

    The id is the same for the same thing however often it is computed, and for no other thing: it
    carries the identity of the state directory and the number of resets of the stream.
    """

    id: str
    type: str
    stream: str
    key: str
    window: int
    document: dict[str, Any] = field(repr=False)

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.document)

    def to_json(self) -> bytes:
        """Return the CloudEvent as JSON on one line, without a line break."""
        text = json.dumps(self.document, ensure_ascii=False, separators=(",", ":"))
        # A name from JSON may hold half a character, which UTF-8 has not.
        return text.encode("utf-8", errors="replace")


@dataclass(frozen=True)
class Publication:
    """One window of one monitor, ready for the history, or events without a window."""

    stream: str
    key: str
    lane: str  # that its records came by
    window: int
    report: dict[str, Any] = field(repr=False)  # empty if there is no window
    explanation: dict[str, Any] = field(repr=False)
    timings: dict[str, float] = field(repr=False, compare=False)  # seconds by phase
    events: tuple[Event, ...] = ()


def fingerprint_of(document: Mapping[str, Any]) -> str:
    """Return a text that is the same for the same event with the same data.

    By it an outlet knows what it has delivered already, even where the identity of a state
    directory was copied with it and two daemons make other events of the same id. When the event
    was told does not count.

    >>> told = {"id": "1", "time": "2026-01-01T00:00:00Z", "data": {"window": 3}}
    >>> fingerprint_of(told) == fingerprint_of(told | {"time": "2026-01-02T00:00:00Z"})
    True
    >>> fingerprint_of(told) == fingerprint_of(told | {"data": {"window": 4}})
    False
    """
    told = [document.get("id"), document.get("data")]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:32]


# --- What subscribers know ---


@dataclass(frozen=True)
class OpenEpisode:
    """An episode that subscribers know of and that has not ended; events repeat all of it."""

    episode: int
    since_window: int
    since_record: int | None  # first record of that window; None if it is not known
    since_time: str | None  # event time of that window's end in RFC 3339, if there is one
    summary: str = ""  # what changed, as told last
    kind: DriftKind | None = None
    severity: Severity | None = None
    edges: tuple[EdgeChange, ...] = field(default=(), repr=False)
    nodes: tuple[NodeChange, ...] = field(default=(), repr=False)
    target_touch: str | None = None  # see ``Change.target_touch``
    recurring: bool = False  # whether subscribers know that an earlier state has come back

    @property
    def known(self) -> str:
        """What subscribers know of it, as a sentence."""
        where = (self.episode, self.since_window, self.since_record, self.since_time)
        return explain.told_before(explain.begun(*where), self.summary)


@dataclass(frozen=True)
class Noticed:
    """What was said of a stream that moves without alarm, and what there is to say next."""

    window: int | None = None  # of the last notice; None before the first
    time: float | None = None  # event time of its end
    fields: tuple[str, ...] = ()  # that were noticed since
    farthest: tuple[Travelled, ...] = ()  # from the baseline that fields are known to have been

    def is_past(self, report: WindowReport) -> bool:
        """Whether the next notice may be told."""
        if self.window is None:
            return True
        if self.time is None or report.end is None:
            return report.index - self.window >= NOTICE_WINDOWS
        return report.end - self.time >= NOTICE_SECONDS

    def with_window(self, report: WindowReport) -> Noticed:
        """Add what a window has to say; what an alarm tells is no matter of a notice."""
        found: tuple[str, ...] = ()
        decision = report.decision
        if decision.level is DriftLevel.NOTICE:
            found = Change(report).touched
        if decision.calm and decision.reference_windows >= MOVED_WINDOWS:
            found += self._moved(decision)
        fields = tuple(dict.fromkeys((*self.fields, *found)))[:MAX_CHANGES]
        return replace(self, fields=fields, farthest=self._farther(decision))

    def _moved(self, decision: DriftDecision) -> tuple[str, ...]:
        before = {one.name: one.nats for one in self.farthest}
        gone = ((one.name, one.nats - before.get(one.name, 0.0)) for one in decision.travelled)
        return tuple(name for name, farther in gone if farther >= MOVED_NATS)

    def _farther(self, decision: DriftDecision) -> tuple[Travelled, ...]:
        nats: dict[str, float] = {}
        for one in (*self.farthest, *decision.travelled):
            nats[one.name] = max(one.nats, nats.get(one.name, 0.0))
        return tuple(Travelled(*one) for one in nats.items())[:MAX_CHANGES]


@dataclass(frozen=True)
class EventState:
    """What a monitor's next events depend on, besides its next window.

    It is kept with the monitor, so that a daemon that was killed tells the same once more.

    >>> state = EventState(degraded=True)
    >>> EventState.from_dict(state.to_dict()) == state
    True
    """

    window: int = -1  # running number of the last window; -1 before the first
    degraded: bool = False
    failed: bool = False
    episode: OpenEpisode | None = None
    differences: tuple[Difference, ...] = ()  # that subscribers know of, oldest first
    noticed: Noticed = Noticed()

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = REPORTS.encode(self)
        return found

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> EventState:
        """Return what ``to_dict`` was made of; ``FormatError`` if it is something else."""
        return REPORTS.decode(cls, values)


def news_of(
    known: tuple[Difference, ...], events: tuple[SchemaEvent, ...]
) -> tuple[tuple[SchemaEvent, ...], tuple[Difference, ...]]:
    """Return the differences from the schema that are new, and all that are known then.

    A column that was there again and is absent once more is news.

    >>> absent = SchemaEvent(SchemaEventKind.MISSING_COLUMN, "x", n_rows=9)
    >>> news, known = news_of((), (absent,))
    >>> news == (absent,), news_of(known, (absent,))[0], news_of(known, ())[1]
    (True, (), ())
    """
    present = {difference for event in events for difference in _differences(event)}
    gone = SchemaEventKind.MISSING_COLUMN.value
    kept = {item: None for item in known if item[0] != gone or item in present}
    news = []
    for event in events:
        fresh = [item for item in _differences(event) if item not in kept]
        if fresh and _n_levels(kept, event) < MAX_LEVELS:
            news.append(event)
            kept.update(dict.fromkeys(fresh))
    return tuple(news), tuple(kept)[-MAX_DIFFERENCES:]


def _differences(event: SchemaEvent) -> list[Difference]:
    head = (event.kind.value, event.column)
    return [(*head, level) for level in event.levels] if event.levels else [head]


def _n_levels(known: Mapping[Difference, None], event: SchemaEvent) -> int:
    if event.kind is not SchemaEventKind.NEW_LEVEL:
        return 0
    return sum(item[:2] == (event.kind.value, event.column) for item in known)


# --- What they are told ---


def publication_of(
    whose: Whose, report: WindowReport, state: EventState
) -> tuple[EventState, Publication]:
    """Return what is published of a window, and the state for the next one.

    >>> from driftbn import DriftMonitor, MonitorConfig
    >>> monitor = DriftMonitor(MonitorConfig(window=100))
    >>> (report,) = monitor.update({"x": ["a", "b"] * 50, "y": ["c", "d"] * 50})
    >>> state, told = publication_of(Whose("orders"), report, EventState())
    >>> told.window, told.explanation["headline"], told.events
    (0, 'Window 0: learning, there is nothing yet to compare with.', ())
    """
    explanation = report.explain()
    teller = _Teller(whose, report, explanation)
    state = teller.tell(state)
    publication = Publication(
        stream=whose.stream,
        key=whose.key,
        lane=whose.lane,
        window=int(report.index),
        report=report.to_dict(),
        explanation=REPORTS.encode(explanation),
        timings=REPORTS.encode(report.timings),
        events=tuple(teller.events),
    )
    return state, publication


def failure_of(whose: Whose, reason: str, state: EventState) -> tuple[EventState, Publication]:
    """Return what is published of a monitor that has failed, and the state it then has."""
    words = explain.failed(whose.name, reason)
    event = _event(whose, state.window + 1, EventType.MONITOR_FAILED, words, {"reason": reason})
    return replace(state, failed=True), _without_window(event, whose)


def accepted_of(
    whose: Whose, by: tuple[str, str], state: EventState
) -> tuple[EventState, Publication | None]:
    """Return what is published if the present is accepted, and the state the monitor then has.

    ``by`` is the author with a comment.
    """
    known = state.episode
    if known is None:
        return state, None
    words = explain.accepted(whose.name, known.known, *by)
    data = REPORTS.encode(known) | dict.fromkeys(_OF_DECISION)
    data["accepted"] = {"author": by[0], "comment": by[1]}
    event = _event(whose, state.window + 1, EventType.DRIFT_ENDED, words, data)
    return replace(state, episode=None), _without_window(event, whose)


def _without_window(event: Event, whose: Whose) -> Publication:
    return Publication(event.stream, event.key, whose.lane, event.window, {}, {}, {}, (event,))


def event_id(stream: str, key: str, window: int, type_: EventType, origin: UUID = NO_ORIGIN) -> str:
    """Return the id of an event: a UUID that follows from what the event is about.

    >>> event_id("orders", "", 14, EventType.DRIFT_STARTED)
    '90880909-dcec-59ee-b959-e9561c0f5103'
    """
    return str(uuid5(origin, json.dumps([stream, key, window, type_.value])))


def rfc3339(seconds: float | None) -> str | None:
    """Return seconds since the epoch as CloudEvents write a time, if there is such a time.

    >>> rfc3339(0.0), rfc3339(1.5), rfc3339(1e300)
    ('1970-01-01T00:00:00Z', '1970-01-01T00:00:01.500000Z', None)
    """
    if seconds is None:
        return None
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return moment.isoformat().replace("+00:00", "Z")


class _Teller:
    def __init__(self, whose: Whose, report: WindowReport, words: Explanation) -> None:
        self.events: list[Event] = []
        self._whose, self._name = whose, whose.name
        self._report, self._words = report, words

    def tell(self, state: EventState) -> EventState:
        """Tell what is new and return what is known then."""
        differences = self._schema(state)
        episode = self._drift(state.episode)
        report = self._report
        if report.overrun is not None and not state.degraded:
            words = explain.degraded(self._name, report)
            self._add(EventType.MONITOR_DEGRADED, words, {"overrun": report.overrun.value})
        elif (state.degraded or state.failed) and not report.degraded:
            words = explain.recovered(self._name, report)
            self._add(EventType.MONITOR_RECOVERED, words, {"overrun": None})
        noticed = self._notice(state.noticed)
        return EventState(int(report.index), report.degraded, False, episode, differences, noticed)

    def _notice(self, known: Noticed) -> Noticed:
        """Tell what moves and raises no alarm, unless the last notice is less than a week old."""
        report, decision = self._report, self._report.decision
        known = known.with_window(report)
        if not (known.fields and decision.calm and known.is_past(report)):
            return known
        words = explain.noticed(self._name, report, self._words, known.fields)
        data = {"fields": list(known.fields), "kind": decision.kind, "distance": decision.distance}
        self._add(EventType.NOTICE, words, data)
        return Noticed(int(report.index), report.end, (), known.farthest)

    def _schema(self, state: EventState) -> tuple[tuple[str, ...], ...]:
        news, known = news_of(state.differences, self._report.events)
        if news:
            words = explain.schema_changed(self._name, self._report, news)
            changes = [REPORTS.encode(event) for event in news]
            self._add(EventType.SCHEMA_CHANGED, words, {"changes": changes})
        return known

    def _drift(self, known: OpenEpisode | None) -> OpenEpisode | None:
        """Tell what the window means for an episode and return the one that is open then."""
        decision = self._report.decision
        if known is not None and decision.episode != known.episode:
            # It was closed without a window that says so: by another change, or by a person.
            self._tell_end(known)
            known = None
        if decision.episode is None:
            return known
        if decision.episode_event is EpisodeEvent.ENDED:
            if known is not None:
                self._tell_end(known)
            return None
        if known is None:
            return self._tell_start(decision)
        return self._tell_news(decision, known)

    def _tell_start(self, decision: DriftDecision) -> OpenEpisode | None:
        if decision.episode_event is None:
            return None  # nothing was told of it, and there is nothing to tell
        episode = self._opened(decision)
        words = explain.started(self._name, self._report, self._words)
        self._add(EventType.DRIFT_STARTED, words, self._drift_data(episode))
        return episode

    def _tell_news(self, decision: DriftDecision, known: OpenEpisode) -> OpenEpisode:
        if decision.episode_event is not EpisodeEvent.UPDATED or not _is_news(decision, known):
            return known
        recurring = known.recurring or decision.recurring
        episode = replace(self._named(decision, known), recurring=recurring)
        words = explain.updated(self._name, self._report, self._words, known.known)
        self._add(EventType.DRIFT_UPDATED, words, self._drift_data(episode))
        return episode

    def _tell_end(self, known: OpenEpisode) -> None:
        told = (known.known, known.episode, known.recurring)
        words = explain.ended(self._name, self._report, *told)
        self._add(EventType.DRIFT_ENDED, words, self._drift_data(known))

    def _opened(self, decision: DriftDecision) -> OpenEpisode:
        report = self._report
        began_here = decision.since in (None, report.index)
        since = report.index if decision.since is None else decision.since
        episode = OpenEpisode(
            episode=int(decision.episode or 0),
            since_window=int(since),
            since_record=int(report.first_record) if began_here else None,
            since_time=rfc3339(report.end) if began_here else None,
            recurring=bool(decision.recurring),
        )
        return self._named(decision, episode)

    def _named(self, decision: DriftDecision, episode: OpenEpisode) -> OpenEpisode:
        """Return the episode with what changed by this window, if it says anything of that."""
        if decision.kind is None and episode.summary:
            return episode
        change = Change(self._report)
        return replace(
            episode,
            summary=change.summary,
            kind=decision.kind,
            severity=decision.severity,
            edges=decision.edges[:MAX_CHANGES],
            nodes=decision.node_changes[:MAX_CHANGES],
            target_touch=change.target_touch,
        )

    def _drift_data(self, episode: OpenEpisode) -> dict[str, Any]:
        report = self._report
        decision = REPORTS.encode(report.decision)
        return {
            **REPORTS.encode(episode),
            **{name: decision[name] for name in _OF_DECISION},
            "target": report.target,
            "hamming": int(report.diff.hamming),
        }

    def _add(self, type_: EventType, words: Explanation, data: dict[str, Any]) -> None:
        report = self._report
        data = {name: int(getattr(report, name)) for name in _OF_WINDOW} | data
        event = _event(self._whose, int(report.index), type_, words, data, report.end)
        self.events.append(event)


def _event(  # noqa: PLR0913 - each says something else
    whose: Whose,
    window: int,
    type_: EventType,
    words: Explanation,
    data: dict[str, Any],
    seconds: float | None = None,
) -> Event:
    stream, key, _, origin = whose
    source = f"/streams/{quote(stream, safe='')}"
    if key:
        source += f"?key={quote(key, safe='', errors='replace')}"
    document: dict[str, Any] = {
        "specversion": "1.0",
        "id": event_id(stream, key, window, type_, origin),
        "type": type_.value,
        "source": source,
        "subject": f"episodes/{data['episode']}" if "episode" in data else f"windows/{window}",
        "datacontenttype": "application/json",
        "partitionkey": f"{stream}/{key}" if key else stream,
    }
    if (time := rfc3339(seconds)) is not None:
        document["time"] = time
    about = {"stream": stream, "key": key, "window": window}
    document["data"] = about | REPORTS.encode(words) | data
    return Event(document["id"], type_.value, stream, key, window, document)


def _is_news(decision: DriftDecision, known: OpenEpisode) -> bool:
    """Whether an update names something else than what was told, or that all is as it was."""
    if decision.recurring and not known.recurring:
        return True
    if decision.kind is None:
        return False
    edges = {_named_edge(edge) for edge in decision.edges[:MAX_CHANGES]}
    nodes = {change.name for change in decision.node_changes[:MAX_CHANGES]}
    told = {_named_edge(edge) for edge in known.edges}, {node.name for node in known.nodes}
    return (decision.kind, (edges, nodes)) != (known.kind, told)


def _named_edge(edge: EdgeChange) -> tuple[str, str, ChangeType, bool]:
    return edge.source, edge.target, edge.change, edge.directed


# --- Episodes in the history ---


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
        episode.stream,
        episode.key,
        after=episode.started_window - 1,
        before=last + 1,
        limit=_MAX_WINDOWS,
    )
    kinds = (row.window_index for row in rows if row.kind is not None and row.level in _NAMING)
    return next(kinds, episode.started_window)
