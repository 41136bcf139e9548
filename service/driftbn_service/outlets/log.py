"""Events as lines of the log."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from driftbn_service.events import Event, EventType
from driftbn_service.settings import LogOutletSettings

logger = logging.getLogger("driftbn.service.events")

_CALM = frozenset({EventType.DRIFT_ENDED, EventType.MONITOR_RECOVERED})
_FIELDS = ("kind", "episode", "p_value", "first_record", "last_record")


class LogOutlet:
    """Writes a line for each event: its headline, with the numbers as fields.

    Values of records are in neither. A log cannot be asked what is in it, so after a crash a line
    may come twice, with the same ``event_id``.
    """

    def __init__(self, settings: LogOutletSettings) -> None:
        self.name = settings.name
        self.refused: tuple[Event, ...] = ()

    def open(self) -> None:
        """Do nothing: the log is always there."""

    def send(self, events: Sequence[Event]) -> None:
        """Write one line an event: a warning, or a note if something has ended."""
        for event in events:
            data = event.document["data"]
            level = logging.INFO if event.type in _CALM else logging.WARNING
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

    def close(self) -> None:
        """Do nothing."""
