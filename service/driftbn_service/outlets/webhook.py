"""Events posted to an address, one request each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from time import time

from driftbn_service.events import Event
from driftbn_service.outlets.base import OutletError
from driftbn_service.outlets.posting import TIMEOUT_SECONDS, Poster
from driftbn_service.settings import WebhookOutletSettings

logger = logging.getLogger("driftbn.service.outlets.webhook")


class WebhookOutlet:
    """Posts each event as a CloudEvent in structured mode.

    The header ``Idempotency-Key`` is the id of the event: by it the receiver can tell an event that
    comes again because its answer was lost.
    """

    def __init__(
        self,
        settings: WebhookOutletSettings,
        *,
        clock: Callable[[], float] = time,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self.name = settings.name
        self.refused: tuple[Event, ...] = ()
        headers = dict(settings.headers)
        if settings.token is not None:
            headers["Authorization"] = f"Bearer {settings.token.get_secret_value()}"
        self._poster = Poster(settings.name, settings.url, headers, clock, timeout_seconds)

    def open(self) -> None:
        """Do nothing: a connection is made for the first event."""

    def send(self, events: Sequence[Event]) -> None:
        """Post events until one has to wait.

        An event that the receiver refuses for what it is (400, 413, 422 and the like) is done with
        too, since it would be refused again and hold up all after it; the log says so.
        """
        self.refused = ()
        for n_done, event in enumerate(events):
            try:
                self._post(event)
            except OutletError as error:
                error.n_delivered = n_done
                raise

    def close(self) -> None:
        self._poster.close()

    def _post(self, event: Event) -> None:
        status = self._poster.post(
            event.to_json(),
            {
                "Content-Type": "application/cloudevents+json; charset=utf-8",
                "Idempotency-Key": event.id,
            },
        )
        if status is not None:
            self.refused += (event,)
            logger.error(
                "%s refuses an event for good (answered %d); it is not sent again",
                self._poster.place,
                status,
                extra={
                    "outlet": self.name,
                    "status": status,
                    "event_id": event.id,
                    "event_type": event.type,
                    "monitor": event.monitor,
                },
            )
