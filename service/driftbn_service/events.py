"""What is published of a window: its place in the history, and events for subscribers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from driftbn.errors import FormatError


class EventType(StrEnum):
    """What subscribers are told; the values are the types of CloudEvents."""

    DRIFT_STARTED = "io.driftbn.drift.started.v1"
    """A change of the relations was found: an episode begins."""
    DRIFT_UPDATED = "io.driftbn.drift.updated.v1"
    """More is known of an open episode, or something further changed in it."""
    DRIFT_ENDED = "io.driftbn.drift.ended.v1"
    """Nothing further changes; what changed is the new normal."""
    SCHEMA_CHANGED = "io.driftbn.schema.changed.v1"
    """Columns or values are new or absent."""
    MONITOR_DEGRADED = "io.driftbn.monitor.degraded.v1"
    """A limit stopped learning, so that the graph shown is an old one."""
    MONITOR_FAILED = "io.driftbn.monitor.failed.v1"
    """The monitor takes no more records: something in it is broken."""
    MONITOR_RECOVERED = "io.driftbn.monitor.recovered.v1"
    """A monitor that was degraded or had failed works as it should again."""


@dataclass(frozen=True)
class Event:
    """Something that happened to a monitor, as a CloudEvent 1.0 in JSON form.

    Parameters
    ----------
    id
        The same for the same thing however often it is computed, and for no other thing: it
        carries the identity of the state directory and the number of resets of the stream.
    type
        ``io.driftbn.drift.started.v1`` and the like.
    monitor, key
        The monitor.
    window
        Running number of the window that it is about.
    document
        The CloudEvent as plain values, ready for JSON.
    """

    id: str
    type: str
    monitor: str
    key: str
    window: int
    document: dict[str, Any] = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """The same for the same event with the same data; see ``fingerprint_of``."""
        return fingerprint_of(self.document)

    def to_json(self) -> bytes:
        """Return the CloudEvent as JSON on one line, without a line break."""
        text = json.dumps(self.document, ensure_ascii=False, separators=(",", ":"))
        # A name from JSON may hold half a character, which UTF-8 has not.
        return text.encode("utf-8", errors="replace")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        return {
            "id": self.id,
            "type": self.type,
            "monitor": self.monitor,
            "key": self.key,
            "window": self.window,
            "document": self.document,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Event:
        """Return what ``to_dict`` was made of.

        Raises
        ------
        FormatError
            If a part is absent.
        """
        try:
            return cls(**{name: values[name] for name in cls.__dataclass_fields__})
        except KeyError as error:
            raise FormatError(f"an event without {error}; it must have all its parts") from error


@dataclass(frozen=True)
class Publication:
    """One window of one monitor, ready for the history, or events without a window.

    Parameters
    ----------
    monitor, key, lane
        Whose window it is, and the lane that its records came by.
    window
        Running number of the window.
    report
        ``WindowReport.to_dict()``: the same for the same records. Empty if there is no window.
    explanation
        Headline, sentences and advice of ``WindowReport.explain()``, under these names.
    timings
        Seconds by phase, which differ from run to run.
    events
        What subscribers are told.

    Examples
    --------
    >>> told = Publication("orders", "", "", 0, {"rows": 9}, {"headline": "Calm."}, {"learn": 0.1})
    >>> Publication.from_dict(told.to_dict()) == told
    True
    """

    monitor: str
    key: str
    lane: str
    window: int
    report: dict[str, Any] = field(repr=False)
    explanation: dict[str, Any] = field(repr=False)
    timings: dict[str, float] = field(repr=False, compare=False)
    events: tuple[Event, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return values | {"events": [event.to_dict() for event in self.events]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Publication:
        """Return what ``to_dict`` was made of.

        Raises
        ------
        FormatError
            If a part is absent.
        """
        try:
            found = {name: values[name] for name in cls.__dataclass_fields__}
        except KeyError as error:
            problem = f"a publication without {error}; it must have all its parts"
            raise FormatError(problem) from error
        events = tuple(Event.from_dict(event) for event in found.pop("events"))
        return cls(**found, events=events)


def fingerprint_of(document: Mapping[str, Any]) -> str:
    """Return a text that is the same for the same event with the same data.

    By it an outlet knows what it has delivered already, even where the identity of a state
    directory was copied with it and two daemons make other events of the same id. When the event
    was told does not count.

    Examples
    --------
    >>> told = {"id": "1", "time": "2026-01-01T00:00:00Z", "data": {"window": 3}}
    >>> fingerprint_of(told) == fingerprint_of(told | {"time": "2026-01-02T00:00:00Z"})
    True
    >>> fingerprint_of(told) == fingerprint_of(told | {"data": {"window": 4}})
    False
    """
    told = [document.get("id"), document.get("data")]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:32]
