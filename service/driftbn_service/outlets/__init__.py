"""Where events go: brought from the history to outlets, and tried again until they are there."""

from __future__ import annotations

import logging
import random
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Final

from driftbn.errors import DriftbnError
from driftbn.explain.sentences import counted
from driftbn_service.errors import part_of_kind
from driftbn_service.events import Event
from driftbn_service.outlets.base import NO_LINKS, Links, Outlet, OutletError
from driftbn_service.settings import OutletSettings
from driftbn_service.state import DamagedRowError, Store

if TYPE_CHECKING:
    from prometheus_client import Metric

    from driftbn_service.metrics import Metrics

logger = logging.getLogger("driftbn.service.delivery")

FIRST_WAIT_SECONDS: Final = 1.0
LONGEST_WAIT_SECONDS: Final = 60.0
BATCH_EVENTS: Final = 100
"""Events that are given to an outlet at a time."""
FIRST_TELL_SECONDS: Final = 60.0
LONGEST_TELL_SECONDS: Final = 3600.0
"""How often the log says that an outlet still cannot be reached: twice as late each time."""
LOOK_SECONDS: Final = 1.0
"""How often to look whether pending events of a lane have become ours: no wake tells of that."""

Lanes = Collection[tuple[str, str]]
"""Stream and lane of each lane that this process has."""


class Deliverer:
    """Brings events to one outlet, in a thread of its own.

    Events stay in the history until the outlet has them, so nothing is lost while the other side is
    away, for however long. The wait between tries doubles up to a minute. ``lanes`` returns those
    whose events this process delivers.
    """

    def __init__(
        self,
        outlet: Outlet,
        store: Store,
        lanes: Callable[[], Lanes],
        observer: Metrics,
        *,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.outlet = outlet
        self._store = store
        self._lanes = lanes
        self._observer = observer
        self._clock = clock
        self._jitter = random.Random()
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"to {outlet.name}", daemon=True)
        self.n_pending = 0
        self.n_failures = 0  # tries in a row that have failed
        self.error: str | None = None  # of the last try; None if it worked
        self._next_try: float | None = None  # None unless it waits
        self._is_open = False
        self._unnoted: list[int] = []
        self._abandoned = False
        self._refresh_at = clock()
        self._down_since = self._tell_at = clock()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Say that there may be new events. May be called by any thread; does not block."""
        self._wake.set()

    def stop(self, seconds: float) -> bool:
        """Try once more what is pending, then end; ``False`` if not within so many seconds.

        Then it goes on in the background and loses nothing when the process ends.
        """
        self._stopping = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(max(0.0, seconds))
        self._abandoned = self._thread.is_alive()
        return not self._abandoned

    def step(self) -> float | None:
        """Send what is pending if due; return seconds until the next try, ``None`` for a wake."""
        now = self._clock()
        if self._next_try is not None and now < self._next_try and not self._stopping:
            self._count_pending()
            return self._next_try - now
        try:
            self._open()
            self._send_all()
            wait = self._refresh()
        except DriftbnError as error:
            return self._failed(error, getattr(error, "retry_after", None))
        self._worked()
        if self.n_pending:
            return LOOK_SECONDS if wait is None else min(wait, LOOK_SECONDS)
        return wait

    def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            if self._stopping:
                break
            self._wake.wait(self._guarded_step())
        self._guarded_step()
        self.outlet.close()

    def _guarded_step(self) -> float | None:
        """Take a step that no mistake in an outlet ends: the events would wait forever."""
        try:
            return self.step()
        except Exception as error:
            if self._abandoned:  # the history was closed under its feet
                logger.debug("delivery was left behind: %s", error)
                return None
            logger.exception("delivery has failed", extra={"outlet": self.outlet.name})
            return self._failed(OutletError(self.outlet.name, f"{type(error).__name__}: {error}"))

    def _open(self) -> None:
        if not self._is_open:
            self.outlet.open()
            self._is_open = True

    def _send_all(self) -> None:
        self._note()
        while pending := self._pending(BATCH_EVENTS):
            try:
                self.outlet.send([event for _, event in pending])
            except OutletError as error:
                self._done(pending[: error.n_delivered])
                raise
            self._done(pending)

    def _pending(self, limit: int) -> Sequence[tuple[int, Event]]:
        """Return the oldest events that wait; one that is damaged is given up."""
        name = self.outlet.name
        while True:
            try:
                return self._store.pending(name, self._lanes(), limit)
            except DamagedRowError as error:
                if error.event is None:
                    raise
                sequence, monitor = error.event
                logger.error("%s; it is given up", error, extra={"outlet": name})
                self._observer.notified(name, monitor, "failed", 1)
                self._store.delivered(name, [sequence])

    def _done(self, numbered: Sequence[tuple[int, Event]]) -> None:
        self._count([event for _, event in numbered])
        self._unnoted = [sequence for sequence, _ in numbered]
        self._note()

    def _note(self) -> None:
        """Note what was sent; if that fails it is done before anything is sent again."""
        if self._unnoted:
            self._store.delivered(self.outlet.name, self._unnoted)
            self._unnoted = []

    def _count(self, done: Sequence[Event]) -> None:
        gone = {event.id for event in self.outlet.refused}
        refused = Counter(event.stream for event in done if event.id in gone)
        sent = Counter(event.stream for event in done) - refused
        for outcome, counts in (("sent", sent), ("failed", refused)):
            for monitor, n_events in counts.items():
                self._observer.notified(self.outlet.name, monitor, outcome, n_events)

    def _count_pending(self) -> None:
        try:
            self.n_pending = self._store.n_pending(self.outlet.name)
        except DriftbnError as error:
            logger.debug("pending events cannot be counted: %s", error)

    def _worked(self) -> None:
        if self.error is not None:
            logger.warning(
                "delivery works again after %.0f s",
                self._clock() - self._down_since,
                extra={"outlet": self.outlet.name},
            )
        self.n_failures, self.error, self._next_try = 0, None, None
        self._observer.alerting(self.outlet.name, self.outlet.alerts)
        self._count_pending()

    def _refresh(self) -> float | None:
        """Have the outlet tell again what holds, if that is due; return when it is due next."""
        outlet = self.outlet
        if outlet.refresh_seconds is None:
            return None
        now = self._clock()
        if now >= self._refresh_at:
            lanes = self._lanes()
            events = [
                event
                for types in outlet.matters
                for event in self._store.newest_events(outlet.name, lanes, types)
            ]
            outlet.refresh(events)
            self._refresh_at = now + outlet.refresh_seconds
        return max(0.0, self._refresh_at - now)

    def _failed(self, error: DriftbnError, retry_after: float | None = None) -> float:
        self._observer.alerting(self.outlet.name, ())
        self._count_failure()
        longest = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0 ** min(self.n_failures, 10))
        # Spread, so that many daemons do not come back to a server all at once.
        wait = max(longest * self._jitter.uniform(0.5, 1.0), retry_after or 0.0)
        self._tell(str(error), wait)
        self.n_failures, self.error = self.n_failures + 1, str(error)
        self._next_try = self._clock() + wait
        return wait

    def _count_failure(self) -> None:
        """Count what waits, and that the first of it could not be sent."""
        self._count_pending()
        try:
            first = self._store.pending(self.outlet.name, self._lanes(), 1)
        except DriftbnError as error:
            logger.debug("pending events cannot be read: %s", error)
            return
        for _, event in first:
            self._observer.notified(self.outlet.name, event.stream, "failed", 1)

    def _tell(self, error: str, wait: float) -> None:
        """Log a failure that is new, and one that lasts again and again, ever less often."""
        now = self._clock()
        if self.error is None:
            self._down_since, self._tell_at = now, now + FIRST_TELL_SECONDS
        elif now >= self._tell_at:
            seconds = min(now - self._down_since, LONGEST_TELL_SECONDS)
            self._tell_at = now + max(seconds, FIRST_TELL_SECONDS)
        elif error == self.error:
            return
        logger.warning(
            "%s; %s pending, for %.0f s nothing could be sent, next try in %.1f s",
            error,
            counted(self.n_pending, "event"),
            now - self._down_since,
            wait,
            extra={"outlet": self.outlet.name},
        )


# Outlets by their settings; each kind is imported only where it is used.

_MODULES: Final = {"log": "base", "slack": "webhook"}
"""Kinds of outlets without a module of that name."""
_LINKING: Final = ("alertmanager", "slack")
"""Kinds of outlets whose messages have links."""


def make_outlet(
    settings: OutletSettings,
    links: Links = NO_LINKS,
    collect: Callable[[], Iterable[Metric]] = tuple,
) -> Outlet:
    """Return the outlet that the settings describe.

    ``links`` are for messages to people, ``collect`` is for outlets of metrics.
    """
    kind = settings.kind
    made = part_of_kind(__package__, _MODULES.get(kind, kind), f"{kind.title()}Outlet")
    more = (links,) if kind in _LINKING else (collect,) if kind == "opentelemetry" else ()
    outlet: Outlet = made(settings, *more)
    return outlet
