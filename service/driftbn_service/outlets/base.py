"""What every outlet of events offers, and the simplest of them, the log."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias
from urllib.parse import quote

from driftbn.errors import DriftbnError
from driftbn_service.events import Event, EventType, fingerprint_of
from driftbn_service.settings import LogOutletSettings


class OutletError(DriftbnError):
    """Events could not be delivered; they are kept and tried again.

    The other side may have asked to wait ``retry_after`` seconds; of the events ``n_delivered``,
    the first ones, were delivered before.
    """

    def __init__(
        self,
        outlet: str,
        problem: str,
        *,
        retry_after: float | None = None,
        n_delivered: int = 0,
    ) -> None:
        self.outlet = outlet
        self.problem = problem
        self.retry_after = retry_after
        self.n_delivered = n_delivered
        super().__init__(f"{outlet}: {problem}")


class Outlet:
    """A place that events are sent to; all methods are called by one thread."""

    refresh_seconds: float | None = None
    """How often to tell again what still holds, where the other side forgets; else ``None``."""

    matters: tuple[frozenset[str], ...] = ()
    """Types of events that belong together: the newest of them says what holds."""

    alerts: frozenset[str] = frozenset()
    """Of what it tells Alertmanager, so that rules need not: ``drift``, ``schema``, ``monitor``."""

    def __init__(self, name: str) -> None:
        self.name = name
        """As in the settings; the store remembers by it what was delivered."""
        self.refused: tuple[Event, ...] = ()
        """Events of the last ``send`` that count as delivered because they are refused for good."""

    def open(self) -> None:
        """Connect. Called until it succeeds once; later the outlet itself connects again."""

    def send(self, events: Sequence[Event]) -> None:
        """Deliver events for good, in their order.

        A crash may come between ``send`` and the note that it was done, so the same events may be
        sent once more: an outlet that can tell leaves out those that it has delivered already.
        ``OutletError`` says how many of the first were delivered.
        """
        raise NotImplementedError

    def refresh(self, events: Sequence[Event]) -> None:
        """Tell again what still holds, by the newest delivered event of each monitor and matter.

        Called every ``refresh_seconds``, first after a start, so the outlet need not remember;
        after an ``OutletError`` again soon.
        """

    def close(self) -> None:
        """Let go of everything; nothing is lost, as undelivered events are in the store."""


ENDS: Final = frozenset({EventType.DRIFT_ENDED, EventType.MONITOR_RECOVERED})
"""Types of events by which something has ended: no warning, and no alert any more."""

Links: TypeAlias = Mapping[str, str]
"""Beginnings of addresses by name: ``page``, ``dashboards``, ``runbooks``."""
NO_LINKS: Final[Links] = MappingProxyType({})
RUNBOOKS: Final = "service/README.md"
"""Where the runbooks are unless the settings say so: in the sources."""


def links_of(event: Event, links: Links) -> dict[str, str]:
    """Return where the page and the dashboards show the monitor of an event.

    >>> links_of(Event("1", "t", "orders", "a b", 3, {}), {"page": "http://host"})
    {'page': 'http://host/#stream=orders&key=a%20b'}
    """
    key = f"&key={quote(event.key, safe='', errors='replace')}" if event.key else ""
    ways = {
        "page": ("page", f"/#stream={event.stream}{key}"),
        "dashboard": ("dashboards", f"/d/driftbn-stream?var-stream={event.stream}"),
    }
    return {name: f"{links[base]}{rest}" for name, (base, rest) in ways.items() if links.get(base)}


class RecentEvents:
    """Fingerprints of events that have been delivered, the newest of them.

    Far more are kept than can be sent again after a crash.

    >>> recent = RecentEvents(limit=2)
    >>> recent.add(["a", "b", "c"])
    >>> [text in recent for text in "abc"]
    [False, True, True]
    """

    LIMIT: Final = 10_000

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._known: dict[str, None] = {}

    def add(self, fingerprints: Iterable[str]) -> None:
        """Remember more, and forget the oldest if there are too many."""
        self._known.update(dict.fromkeys(fingerprints))
        for oldest in list(self._known)[: max(0, len(self._known) - self._limit)]:
            del self._known[oldest]

    def __contains__(self, fingerprint: object) -> bool:
        return fingerprint in self._known


def fingerprint_in(data: str | bytes) -> str | None:
    """Return the fingerprint of an event as JSON; ``None`` for anything else that is there."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return fingerprint_of(document) if isinstance(document, dict) else None


# The log.

logger = logging.getLogger("driftbn.service.events")

_FIELDS = ("kind", "episode", "p_value", "first_record", "last_record")


class LogOutlet(Outlet):
    """Writes a line for each event: its headline, with the numbers as fields.

    Values of records are in neither. A log cannot be asked what is in it, so after a crash a line
    may come twice, with the same ``event_id``.
    """

    def __init__(self, settings: LogOutletSettings) -> None:
        super().__init__(settings.name)

    def send(self, events: Sequence[Event]) -> None:
        """Write one line an event: a warning, or a note if something has ended."""
        for event in events:
            data = event.document["data"]
            level = logging.INFO if event.type in ENDS else logging.WARNING
            fields = {name: data[name] for name in _FIELDS if data.get(name) is not None}
            logger.log(
                level,
                "%s",
                data["headline"],
                extra={
                    "event_id": event.id,
                    "event_type": event.type,
                    "stream": event.stream,
                    "key": event.key,
                    "window": event.window,
                    **fields,
                },
            )
