"""When a lane is committed, and what is told once it is."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from time import monotonic
from typing import Final

from driftbn_service.lanes import Lane
from driftbn_service.observer import Observer
from driftbn_service.settings import CheckpointSettings
from driftbn_service.state import DamagedError, LaneLostError, StoreError, Wanted

logger = logging.getLogger("driftbn.service.committing")

FIRST_WAIT_SECONDS: Final = 0.5
LONGEST_WAIT_SECONDS: Final = 30.0
MAX_ROWS: Final = 1_000_000
"""Rows after which a checkpoint is due whatever the time: so many can be read again quickly."""
MAX_BYTES: Final = 64 << 20
"""Memory that rows may take which a monitor would be given again if it failed."""


class Committer:
    """Commits the lanes of a stream and tells what they have committed.

    Parameters
    ----------
    settings
        When commits are due.
    outlets
        Name of every outlet with the types of event it wants, ``None`` for all.
    observer
        Is told.
    wake
        Is called when there is something new in the history.
    """

    def __init__(
        self,
        settings: CheckpointSettings,
        outlets: Wanted,
        observer: Observer,
        wake: Callable[[], None],
        *,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.settings = settings
        self.trouble: str | None = None
        self.abandoned = threading.Event()
        self._outlets = outlets
        self._observer = observer
        self._wake = wake
        self._clock = clock
        self._committed_at: dict[str, float] = {}

    def due_in(self, lane: Lane) -> float | None:
        """Return in how many seconds a lane is to be committed; ``None`` if nothing is new."""
        if lane.lost:
            return None
        if lane.n_uncommitted >= MAX_ROWS or lane.n_uncommitted_bytes >= MAX_BYTES:
            return 0.0
        if not lane.has_reports and not lane.has_moved:
            return None
        settings = self.settings
        wait = settings.publish_seconds if lane.has_reports else settings.interval_seconds
        return max(0.0, self._since(lane) + wait - self._clock())

    def commit(self, lane: Lane) -> bool:
        """Commit a lane; waits until that is possible.

        Returns
        -------
        bool
            ``False`` if the wait was abandoned; the lane must then not be used any more.

        Raises
        ------
        LaneLostError
            If another process has taken the lane over.
        DamagedError
            If the state is damaged: only a start can go back to its copy.
        """
        wait = FIRST_WAIT_SECONDS
        while not self._try(lane, wait):
            if self.abandoned.wait(wait):
                return False
            wait = min(2 * wait, LONGEST_WAIT_SECONDS)
        self._committed_at[lane.name] = self._clock()
        return True

    def _since(self, lane: Lane) -> float:
        return self._committed_at.setdefault(lane.name, self._clock())

    def _try(self, lane: Lane, wait: float) -> bool:
        try:
            self._commit(lane)
        except (LaneLostError, DamagedError):
            raise
        except (OSError, StoreError) as error:
            self.trouble = str(error)
            self._observer.commit_failed(lane.stream.name)
            logger.error(
                "%s; reading stops until it can, nothing is lost; next try in %.1f s",
                error, wait,
                extra={"monitor": lane.stream.name},
            )  # fmt: skip
            return False
        if self.trouble is not None:
            logger.warning("writing works again", extra={"monitor": lane.stream.name})
            self.trouble = None
        return True

    def _commit(self, lane: Lane) -> None:
        started = self._clock()
        published = lane.commit(self._outlets)
        self._observer.committed(lane.stream.name, self._clock() - started)
        for publication in published:
            if publication.report:
                self._observer.window(publication)
        if published:
            self._wake()
