"""Drifts as alerts of Prometheus Alertmanager, by its interface v2."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from time import time
from typing import Any, Final

from driftbn_service.events import Event, EventType, rfc3339
from driftbn_service.outlets.base import ENDS, NO_LINKS, RUNBOOKS, Links, links_of
from driftbn_service.outlets.webhook import Poster, PostingOutlet
from driftbn_service.settings import AlertmanagerOutletSettings

logger = logging.getLogger("driftbn.service.outlets.alertmanager")

FIRING_SECONDS: Final = 300.0
"""For how long an alert fires if nobody tells it again: not forever if the daemon has died."""
REFRESH_SECONDS: Final = 60.0
"""How often an alert is told again: several tries may fail before it would expire."""
ONCE_SECONDS: Final = 3600.0
"""For how long an alert fires that has no end of its own, such as that of a new column."""
MAX_POSTED: Final = 100
"""Alerts of one request."""

_DRIFT: Final = frozenset({EventType.DRIFT_STARTED, EventType.DRIFT_UPDATED, EventType.DRIFT_ENDED})
_MONITOR: Final = frozenset(
    {EventType.MONITOR_DEGRADED, EventType.MONITOR_FAILED, EventType.MONITOR_RECOVERED}
)
_DRIFT_ALERTS: Final = {
    "mechanism": "DriftbnMechanismDrift",
    "marginal": "DriftbnMarginalDrift",
    "data": "DriftbnDataFault",
}
_MONITOR_ALERTS: Final = ("DriftbnRelearnOverrun", "DriftbnMonitorFailed")

Labels = dict[str, str]


class AlertmanagerOutlet(PostingOutlet):
    """Has an alert fire while an episode is open, and resolves it when the episode has ended.

    Labels say only what an alert is about: ``alertname``, ``monitor``, ``key``, ``kind`` and
    ``severity``: ``critical`` if the target itself is touched, else that of the change, ``alert``,
    ``warning`` or ``notice``. All texts and numbers are annotations. A notice is no alert.
    """

    refresh_seconds = REFRESH_SECONDS

    def __init__(
        self,
        settings: AlertmanagerOutletSettings,
        links: Links = NO_LINKS,
        *,
        clock: Callable[[], float] = time,
    ) -> None:
        wanted = frozenset(EventType) if settings.types is None else frozenset(settings.types)
        self.matters: tuple[frozenset[str], ...] = (wanted & _DRIFT, wanted & _MONITOR)
        told = {"drift": _DRIFT, "schema": {EventType.SCHEMA_CHANGED}, "stream": _MONITOR}
        self.alerts = frozenset(name for name, types in told.items() if wanted >= types)
        self._links = links
        self._runbooks = links.get("runbooks", RUNBOOKS)
        self._clock = clock
        url = f"{settings.url.rstrip('/')}/api/v2/alerts"
        headers = {"Content-Type": "application/json"}
        super().__init__(settings.name, Poster(settings.name, url, headers, clock))
        self._firing: dict[tuple[str, ...], Labels] = {}

    def refresh(self, events: Sequence[Event]) -> None:
        """Have all alerts fire on whose episodes are open."""
        open_ = [event for event in events if event.type not in ENDS]
        for start in range(0, len(open_), MAX_POSTED):
            part = open_[start : start + MAX_POSTED]
            if self._tell([self._alert(event, _labels(event), FIRING_SECONDS) for event in part]):
                for event in part:
                    self._note(event)

    def _post(self, event: Event) -> bool:
        """Fire or resolve an alert, which fires on for some minutes after ``close``."""
        taken = event.type == EventType.NOTICE or self._tell(self._alerts(event))
        if taken:
            self._note(event)
        return taken

    def _alerts(self, event: Event) -> list[dict[str, Any]]:
        """Return the alerts by which an event becomes known."""
        if event.type == EventType.SCHEMA_CHANGED:
            return [self._alert(event, _labels(event), ONCE_SECONDS)]
        labels, before = _labels(event), self._firing.get(_matter(event))
        if event.type == EventType.MONITOR_RECOVERED:
            # From either of two alerts: after a restart nobody knows which of them fires.
            ending = (labels | {"alertname": name} for name in _MONITOR_ALERTS)
            return [self._alert(event, old, 0.0) for old in ending]
        if event.type == EventType.DRIFT_ENDED:
            known = [labels] if before in (None, labels) else [before, labels]
            return [self._alert(event, old, 0.0) for old in known if old is not None]
        alerts = [self._alert(event, labels, FIRING_SECONDS)]
        if before is not None and before != labels:  # to Alertmanager that is another alert
            alerts.append(self._alert(event, before, 0.0))
        return alerts

    def _note(self, event: Event) -> None:
        if event.type in ENDS:
            self._firing.pop(_matter(event), None)
        elif event.type not in (EventType.SCHEMA_CHANGED, EventType.NOTICE):
            self._firing[_matter(event)] = _labels(event)

    def _alert(self, event: Event, labels: Labels, seconds: float) -> dict[str, Any]:
        """Return an alert that fires for so many seconds; 0 resolves it."""
        now = self._clock()
        return {
            "labels": labels,
            "annotations": {
                **_annotations(event),
                "runbook_url": f"{self._runbooks}#{_alert_name(event).lower()}",
                **links_of(event, self._links),
            },
            "startsAt": _began(event, now),
            "endsAt": rfc3339(now + seconds),
        }

    def _tell(self, alerts: list[dict[str, Any]]) -> bool:
        """Post alerts and return whether they were taken; if not, they are refused for good."""
        status = self._poster.post(json.dumps(alerts).encode(), {})
        if status is not None:
            logger.error(
                "%s refuses alerts for good (answered %d)",
                self._poster.place,
                status,
                extra={"outlet": self.name, "status": status, "n_alerts": len(alerts)},
            )
        return status is None


def _matter(event: Event) -> tuple[str, ...]:
    return (event.stream, event.key, "drift" if event.type in _DRIFT else "monitor")


def _labels(event: Event) -> Labels:
    """Return what an alert is about: the same for all events of an episode that say the same."""
    data = event.document["data"]
    found = {"alertname": _alert_name(event), "stream": event.stream}
    if event.key:
        found["key"] = event.key
    if event.type in _DRIFT:
        found["kind"] = data.get("kind") or "unnamed"
    is_target = data.get("target_touch") == "itself"
    found["severity"] = "critical" if is_target else data.get("severity") or "warning"
    return found


def _alert_name(event: Event) -> str:
    if event.type == EventType.SCHEMA_CHANGED:
        return "DriftbnSchemaChange"
    if event.type == EventType.MONITOR_FAILED:
        return "DriftbnMonitorFailed"
    if event.type in _MONITOR:
        return "DriftbnRelearnOverrun"
    kind = event.document["data"].get("kind")
    return _DRIFT_ALERTS.get(kind, "DriftbnStructuralDrift")


def _annotations(event: Event) -> dict[str, str]:
    data = event.document["data"]
    found = {
        "summary": data["headline"],
        "description": "\n".join(data["sentences"]),
        "advice": "\n".join(data["advice"]),
        "records": f"{data['first_record']} to {data['last_record']}" if "rows" in data else "",
        "window": str(data["window"]),
        "event_id": event.id,
    }
    if event.type in _DRIFT:
        found |= _since(event)
        edges = (
            f"{edge['source']} {'→' if edge['directed'] else '—'} {edge['target']} {edge['change']}"
            for edge in data["edges"]
        )
        found |= {
            "episode": str(data["episode"]),
            "edges": ", ".join(edges),
            "p_value": f"{data['p_value']:.3g}" if data["p_value"] is not None else "",
        }
    return {name: text for name, text in found.items() if text}


def _since(event: Event) -> dict[str, str]:
    """Return since when an episode is open, and have the summary say it."""
    data = event.document["data"]
    since = data["since_time"] or f"window {data['since_window']}"
    if event.type in ENDS:
        return {"since": since}
    return {"since": since, "summary": f"{data['headline'].rstrip('.')}, since {since}."}


def _began(event: Event, now: float) -> str | None:
    """Return since when an alert holds, by the time of the events, and never in the future."""
    document = event.document
    text = document["data"].get("since_time") or document.get("time")
    if text is not None and datetime.fromisoformat(text).timestamp() < now:
        return str(text)
    return rfc3339(now)
