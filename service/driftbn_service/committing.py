"""Checkpoint, then publish: the one order in which nothing is lost and nothing comes twice."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final

from driftbn_service.events import Publication
from driftbn_service.lanes import Lane
from driftbn_service.observer import Observer
from driftbn_service.settings import CheckpointSettings
from driftbn_service.store import Store, StoreError

logger = logging.getLogger(f"driftbn.{__name__}")

FIRST_WAIT_SECONDS: Final = 0.5
LONGEST_WAIT_SECONDS: Final = 30.0
MAX_ROWS: Final = 1_000_000
"""Rows after which a checkpoint is due whatever the time: so many can be read again quickly."""
MAX_BYTES: Final = 64 << 20
"""Memory that rows may take which a monitor would be given again if it failed."""


@dataclass(frozen=True)
class History:
    """Where windows are published.

    Parameters
    ----------
    store
        The history on disk.
    outlets
        Name of every outlet with the types of event it wants, ``None`` for all.
    wake
        Is called when there is something new.
    """

    store: Store
    outlets: tuple[tuple[str, tuple[str, ...] | None], ...] = ()
    wake: Callable[[], None] = lambda: None


class Committer:
    """Writes the checkpoints of a stream and publishes what they contain.

    Parameters
    ----------
    stream
        Its name.
    settings
        When checkpoints are due.
    history
        Where it publishes.
    observer
        Is told.
    """

    def __init__(
        self,
        stream: str,
        settings: CheckpointSettings,
        history: History,
        observer: Observer,
        *,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.stream = stream
        self.settings = settings
        self.trouble: str | None = None
        self.abandoned = threading.Event()
        self.history = history
        self._observer = observer
        self._clock = clock
        self._committed_at: dict[str, float] = {}

    def due_in(self, lane: Lane) -> float | None:
        """Return in how many seconds a lane needs a checkpoint; ``None`` if nothing is new."""
        if lane.n_uncommitted >= MAX_ROWS or lane.n_uncommitted_bytes >= MAX_BYTES:
            return 0.0
        if not lane.has_reports and not lane.has_moved:
            return None
        settings = self.settings
        wait = settings.publish_seconds if lane.has_reports else settings.interval_seconds
        return max(0.0, self._since(lane) + wait - self._clock())

    def commit(self, lane: Lane) -> bool:
        """Write a checkpoint and publish; waits until that is possible.

        Returns
        -------
        bool
            ``False`` if the wait was abandoned; the lane must then not be used any more.
        """
        if not self._insist(lambda: self._write(lane), "the checkpoint cannot be written"):
            return False
        self._committed_at[lane.name] = self._clock()
        return True

    def publish(self, publications: Sequence[Publication]) -> bool:
        """Publish windows whose checkpoint is written; waits until that is possible."""
        if not publications:
            return True
        return self._insist(lambda: self._publish(publications), "the history cannot be written")

    def _since(self, lane: Lane) -> float:
        return self._committed_at.setdefault(lane.name, self._clock())

    def _write(self, lane: Lane) -> None:
        started = self._clock()
        published = lane.commit()
        self._observer.committed(self.stream, self._clock() - started)
        if not self.publish(published):
            # The checkpoint has them: the next start publishes them.
            logger.warning("stopped before the history could be written")

    def _publish(self, publications: Sequence[Publication]) -> None:
        self.history.store.publish(publications, self.history.outlets)
        for publication in publications:
            if publication.report:
                self._observer.window(publication)
        self.history.wake()

    def _insist(self, action: Callable[[], None], problem: str) -> bool:
        """Do something that needs room on a disk, again and again until it works."""
        wait = FIRST_WAIT_SECONDS
        while True:
            try:
                action()
            except (OSError, StoreError) as error:
                reason = getattr(error, "strerror", None) or str(error)
                self.trouble = f"{problem}: {reason}"
                self._observer.commit_failed(self.stream)
                logger.error(
                    "%s: %s; reading stops until it can, nothing is lost; next try in %.1f s",
                    problem, reason, wait,
                    extra={"monitor": self.stream},
                )  # fmt: skip
            else:
                if self.trouble is not None:
                    logger.warning("writing works again", extra={"monitor": self.stream})
                self.trouble = None
                return True
            if self.abandoned.wait(wait):
                return False
            wait = min(2 * wait, LONGEST_WAIT_SECONDS)
