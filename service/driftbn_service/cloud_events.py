"""Windows as publications, and what is worth telling of them as CloudEvents 1.0.

Everything here follows from the window, the state and its origin alone, without a clock, so a
daemon that was killed makes the same publications with the same ids once more.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import quote
from uuid import UUID, uuid5

from driftbn.drift.outcome import DriftDecision, EpisodeEvent
from driftbn.explain.sentences import target_touch
from driftbn.report import REPORTS, WindowReport
from driftbn_service import event_words
from driftbn_service.event_state import EventState, OpenEpisode, news_of
from driftbn_service.event_words import Words
from driftbn_service.events import Event, EventType, Publication

__all__ = ["EventState", "event_id", "failure_of", "publication_of", "rfc3339"]

NO_ORIGIN: Final = UUID("6f1c7a52-2f0e-5d5b-9a8e-1d7b3c0f4e21")
"""Namespace of the ids of events that belong to no state directory."""
MAX_CHANGES: Final = 50
"""Edges and fields, each, that an event lists, strongest first; all are in the history."""


def publication_of(  # noqa: PLR0913 - each says something else of the window
    stream: str,
    key: str,
    lane: str,
    report: WindowReport,
    state: EventState,
    *,
    origin: UUID = NO_ORIGIN,
) -> tuple[EventState, Publication]:
    """Return what is published of a window, and the state for the next one.

    Parameters
    ----------
    stream, key, lane
        The monitor, and the lane that its records came by.
    report
        The window.
    state
        What the window before left; ``EventState()`` for the first one.
    origin
        Namespace of the ids of events; another one for every stream, state directory and reset.

    Examples
    --------
    >>> from driftbn import DriftMonitor, MonitorConfig
    >>> monitor = DriftMonitor(MonitorConfig(window=100))
    >>> (report,) = monitor.update({"x": ["a", "b"] * 50, "y": ["c", "d"] * 50})
    >>> state, told = publication_of("orders", "", "", report, EventState())
    >>> told.window, told.explanation["headline"], told.events
    (0, 'Window 0: learning, there is nothing yet to compare with.', ())
    """
    teller = _Teller(stream, key, report, origin)
    state = teller.tell(state)
    explanation, timings = report.explain(), report.timings
    publication = Publication(
        monitor=stream,
        key=key,
        lane=lane,
        window=int(report.index),
        report=report.to_dict(),
        explanation={
            "headline": explanation.headline,
            "sentences": list(explanation.sentences),
            "advice": list(explanation.advice),
        },
        timings={"learn": float(timings.learn), "decide": float(timings.decide)},
        events=tuple(teller.events),
    )
    return state, publication


def failure_of(  # noqa: PLR0913 - as for windows
    stream: str,
    key: str,
    lane: str,
    reason: str,
    state: EventState,
    *,
    origin: UUID = NO_ORIGIN,
) -> tuple[EventState, Publication]:
    """Return what is published of a monitor that has failed, and the state it then has.

    Parameters
    ----------
    stream, key, lane
        The monitor, and the lane that its records came by.
    reason
        The error.
    state
        What the last window left.
    origin
        Of the ids of events.
    """
    words = event_words.failed(event_words.monitor_name(stream, key), reason)
    window = state.window + 1
    place = _Place(origin, stream, key, window)
    event = _event(place, EventType.MONITOR_FAILED, words, {"reason": reason})
    told = Publication(stream, key, lane, window, {}, {}, {}, (event,))
    return replace(state, failed=True), told


def event_id(
    monitor: str, key: str, window: int, type_: EventType, origin: UUID = NO_ORIGIN
) -> str:
    """Return the id of an event: a UUID that follows from what the event is about.

    Examples
    --------
    >>> event_id("orders", "", 14, EventType.DRIFT_STARTED)
    '90880909-dcec-59ee-b959-e9561c0f5103'
    """
    return str(uuid5(origin, json.dumps([monitor, key, window, type_.value])))


def rfc3339(seconds: float | None) -> str | None:
    """Return seconds since the epoch as CloudEvents write a time, if there is such a time.

    Examples
    --------
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
    """Collects the events of one window."""

    def __init__(self, monitor: str, key: str, report: WindowReport, origin: UUID) -> None:
        self.events: list[Event] = []
        self._origin = origin
        self._monitor, self._key = monitor, key
        self._name = event_words.monitor_name(monitor, key)
        self._report = report

    def tell(self, state: EventState) -> EventState:
        """Tell what is new and return what is known then."""
        differences = self._schema(state)
        episode = self._drift(state.episode)
        report = self._report
        if report.overrun is not None and not state.degraded:
            words = event_words.degraded(self._name, report)
            self._add(EventType.MONITOR_DEGRADED, words, {"overrun": report.overrun.value})
        elif (state.degraded or state.failed) and not report.degraded:
            words = event_words.recovered(self._name, report)
            self._add(EventType.MONITOR_RECOVERED, words, {"overrun": None})
        return EventState(int(report.index), report.degraded, False, episode, differences)

    def _schema(self, state: EventState) -> tuple[tuple[str, ...], ...]:
        news, known = news_of(state.differences, self._report.events)
        if news:
            words = event_words.schema_changed(self._name, self._report, news)
            changes = [REPORTS.encode(event) for event in news]
            self._add(EventType.SCHEMA_CHANGED, words, {"changes": changes})
        return known

    def _drift(self, known: OpenEpisode | None) -> OpenEpisode | None:
        """Tell what the window means for an episode and return the one that is open then."""
        decision = self._report.decision
        if known is not None and decision.episode != known.number:
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
        words = event_words.started(self._name, self._report)
        self._add(EventType.DRIFT_STARTED, words, self._drift_data(episode))
        return episode

    def _tell_news(self, decision: DriftDecision, known: OpenEpisode) -> OpenEpisode:
        if decision.episode_event is not EpisodeEvent.UPDATED or not _is_news(decision, known):
            return known
        recurring = known.recurring or decision.recurring
        episode = replace(self._named(decision, known), recurring=recurring)
        words = event_words.updated(self._name, self._report, known)
        self._add(EventType.DRIFT_UPDATED, words, self._drift_data(episode))
        return episode

    def _tell_end(self, known: OpenEpisode) -> None:
        words = event_words.ended(self._name, self._report, known)
        self._add(EventType.DRIFT_ENDED, words, self._drift_data(known))

    def _opened(self, decision: DriftDecision) -> OpenEpisode:
        report = self._report
        began_here = decision.since in (None, report.index)
        since = report.index if decision.since is None else decision.since
        episode = OpenEpisode(
            number=int(decision.episode or 0),
            window=int(since),
            record=int(report.first_record) if began_here else None,
            time=rfc3339(report.end) if began_here else None,
            summary="",
            recurring=bool(decision.recurring),
        )
        return self._named(decision, episode)

    def _named(self, decision: DriftDecision, episode: OpenEpisode) -> OpenEpisode:
        """Return the episode with what changed by this window, if it says anything of that."""
        if decision.kind is None and episode.summary:
            return episode
        return replace(
            episode,
            summary=event_words.summary(decision),
            kind=None if decision.kind is None else decision.kind.value,
            edges=[REPORTS.encode(edge) for edge in decision.edges[:MAX_CHANGES]],
            nodes=[REPORTS.encode(change) for change in decision.node_changes[:MAX_CHANGES]],
            touch=target_touch(self._report),
        )

    def _drift_data(self, episode: OpenEpisode) -> dict[str, Any]:
        report, decision = self._report, self._report.decision
        plain = REPORTS.encode(decision)
        return {
            "episode": episode.number,
            "since_window": episode.window,
            "since_record": episode.record,
            "since_time": episode.time,
            "kind": episode.kind,
            "summary": episode.summary,
            "edges": episode.edges,
            "nodes": episode.nodes,
            "recurring": episode.recurring,
            "regime": int(decision.regime),
            "level": decision.level.value,
            **{name: plain[name] for name in ("p_value", "alpha", "effect")},
            "target": report.target,
            "target_touch": episode.touch,
            "hamming": int(report.diff.hamming),
            "confirmed_hamming": int(decision.confirmed_hamming),
        }

    def _add(self, type_: EventType, words: Words, data: dict[str, Any]) -> None:
        report = self._report
        place = _Place(self._origin, self._monitor, self._key, int(report.index))
        about = {
            "rows": int(report.rows),
            "first_record": int(report.first_record),
            "last_record": int(report.last_record),
        }
        self.events.append(_event(place, type_, words, about | data, rfc3339(report.end)))


class _Place(NamedTuple):
    """What an event is about."""

    origin: UUID
    monitor: str
    key: str
    window: int


def _event(
    place: _Place, type_: EventType, words: Words, data: dict[str, Any], time: str | None = None
) -> Event:
    """Return a CloudEvent."""
    origin, monitor, key, window = place
    source = f"/monitors/{quote(monitor, safe='')}"
    if key:
        source += f"?key={quote(key, safe='', errors='replace')}"
    document: dict[str, Any] = {
        "specversion": "1.0",
        "id": event_id(monitor, key, window, type_, origin),
        "type": type_.value,
        "source": source,
        "subject": f"episodes/{data['episode']}" if "episode" in data else f"windows/{window}",
        "datacontenttype": "application/json",
        "partitionkey": f"{monitor}/{key}" if key else monitor,
    }
    if time is not None:
        document["time"] = time
    document["data"] = {
        "monitor": monitor,
        "key": key,
        "window": window,
        "headline": words.headline,
        "sentences": list(words.sentences),
        "advice": list(words.advice),
    } | data
    return Event(document["id"], type_.value, monitor, key, window, document)


def _is_news(decision: DriftDecision, known: OpenEpisode) -> bool:
    """Whether an update names something else than what was told, or that all is as it was."""
    if decision.recurring and not known.recurring:
        return True
    if decision.kind is None:
        return False
    edges = {(e.source, e.target, e.change.value, e.directed) for e in decision.edges[:MAX_CHANGES]}
    told = {(e["source"], e["target"], e["change"], e["directed"]) for e in known.edges}
    nodes = {change.name for change in decision.node_changes[:MAX_CHANGES]}
    told_nodes = {node["name"] for node in known.nodes}
    return (decision.kind.value, edges, nodes) != (known.kind, told, told_nodes)
