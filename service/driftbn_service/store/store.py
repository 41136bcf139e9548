"""The history: what is published goes in once, and is read by outlets, API and page."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final

from driftbn_service.events import Event, Publication
from driftbn_service.store import deliveries, pruning, reading
from driftbn_service.store.database import Database
from driftbn_service.store.deliveries import Lanes
from driftbn_service.store.read_only import ReadOnlyDatabase
from driftbn_service.store.rows import (
    EdgeRow,
    EpisodeRow,
    MonitorRow,
    Series,
    WindowDetail,
    WindowRow,
)
from driftbn_service.store.writing import PublicationWriter, Wanted

MAX_PENDING: Final = 100_000
"""Events that wait for one outlet at most."""
_SECONDS_A_DAY: Final = 86_400.0
_PAGE: Final = 100


class Store:
    """The history of windows, episodes and events in a file; for any thread, and processes too.

    Every method raises ``StoreError`` if the file cannot be read or written. Nothing is lost then,
    and calling again later works.

    Parameters
    ----------
    path
        The file; it is made if need be. A damaged one is set aside and a new one begun.
    clock
        Gives the present time in seconds since the epoch.
    read_only
        Whether to look only: the file must be there, is never changed, and a daemon may be writing
        to it. What would write raises ``StoreError``.

    Raises
    ------
    StoreError
        If the file cannot be used, belongs to another program or to a later driftbn.

    Attributes
    ----------
    path
        The file.
    n_conflicts
        Publications since the start that differ from what is in the history already.
    """

    def __init__(
        self, path: Path, *, clock: Callable[[], float] = time.time, read_only: bool = False
    ) -> None:
        self.path = Path(path)
        self.n_conflicts = 0
        self._n_published = 0  # since the last time that old ones were deleted
        self._counting = threading.Lock()
        self._clock = clock
        self._database: Database | ReadOnlyDatabase
        self._database = ReadOnlyDatabase(self.path) if read_only else Database(self.path)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; no other thread may be using it."""
        self._database.close()

    # --- Writing ---

    def publish(self, publications: Sequence[Publication], outlets: Wanted = ()) -> int:
        """Enter windows with their events, all or none; return how many are new.

        What is there already is left as it is. If it differs, that is counted and logged.

        Parameters
        ----------
        publications
            The windows, those of a monitor in their order.
        outlets
            Name of every outlet with the types of event it wants, ``None`` for all.
        """
        with self._database.writing() as connection:
            writer = PublicationWriter(connection, outlets, self._clock())
            for publication in publications:
                writer.write(publication)
        with self._counting:
            self.n_conflicts += writer.n_conflicts
            self._n_published += writer.n_new
        return writer.n_new

    def prune(self, keep_windows: int, keep_events_days: float) -> int:
        """Delete some of what is too old; return how many windows and events went.

        Call it now and then: a call deletes twice as much as was published since the last one, if
        there is so much, in steps between which others can write. Events that wait for an outlet
        stay, unless more than 100,000 wait for one: then the oldest are given up, with an error in
        the log.

        Parameters
        ----------
        keep_windows
            Windows to keep of each monitor, with their documents and edges, and the episodes that
            reach into them.
        keep_events_days
            How long to keep events. The newest of each type stays.
        """
        with self._counting:
            n_due, self._n_published = 2 * self._n_published, 0
        before = self._clock() - keep_events_days * _SECONDS_A_DAY
        n_deleted = 0
        while n_step := self._prune_some(keep_windows, before):
            n_deleted += n_step
            if n_deleted >= n_due:
                break
        return n_deleted

    def _prune_some(self, keep_windows: int, before: float) -> int:
        with self._database.writing() as connection:
            deliveries.drop_oldest(connection, MAX_PENDING)
            n_windows = pruning.prune_windows(connection, keep_windows)
            return n_windows + pruning.prune_events(connection, before)

    def forget_monitor(self, monitor: str) -> int:
        """Delete all that is known of a monitor, for all of its keys; return how many windows."""
        with self._database.writing() as connection:
            return pruning.delete_monitor(connection, monitor)

    # --- Events on their way to outlets ---

    def pending(self, outlet: str, lanes: Lanes, limit: int) -> list[tuple[int, Event]]:
        """Return events that an outlet has not got yet, the oldest first, with their numbers.

        Parameters
        ----------
        outlet
            Its name.
        lanes
            Monitor and lane of the events that are meant; ``None`` for all.
        limit
            How many at most.
        """
        with self._database.reading() as connection:
            return deliveries.read_pending(connection, outlet, lanes, limit)

    def delivered(self, outlet: str, sequences: Collection[int]) -> None:
        """Note that an outlet has got events."""
        if sequences:
            with self._database.writing() as connection:
                deliveries.note_delivered(connection, outlet, sequences)

    def n_pending(self, outlet: str) -> int:
        """Return how many events an outlet has not got yet."""
        with self._database.reading() as connection:
            return deliveries.count_pending(connection, outlet)

    def outlets(self) -> list[str]:
        """Return the names of outlets for which events wait."""
        with self._database.reading() as connection:
            found = connection.execute("SELECT DISTINCT outlet FROM deliveries ORDER BY outlet")
            return [name for (name,) in found]

    def newest_events(self, outlet: str, lanes: Lanes, types: Collection[str]) -> list[Event]:
        """Return of each monitor the newest event of these types that does not wait for an outlet.

        Parameters
        ----------
        outlet
            Its name.
        lanes
            Monitor and lane of the events that are meant; ``None`` for all.
        types
            The types of event that are meant.
        """
        with self._database.reading() as connection:
            return deliveries.read_newest(connection, outlet, lanes, types)

    def events(self, after_sequence: int = 0, limit: int = _PAGE) -> list[tuple[int, Event]]:
        """Return events after a number, the oldest first, with their numbers."""
        with self._database.reading() as connection:
            return reading.read_events(connection, after_sequence, limit)

    # --- Reading ---

    def monitors(
        self,
        monitor: str | None = None,
        *,
        after: tuple[str, str] | None = None,
        limit: int = sys.maxsize,
    ) -> list[MonitorRow]:
        """Return monitors in the order of name and key.

        Parameters
        ----------
        monitor
            A name, for only the keys of this one.
        after
            Name and key of the last one of the page before.
        limit
            How many at most.
        """
        with self._database.reading() as connection:
            return reading.read_monitors(connection, monitor, after, limit)

    def monitor(self, monitor: str, key: str) -> MonitorRow | None:
        """Return a monitor; ``None`` if no window of it is there."""
        with self._database.reading() as connection:
            return reading.read_monitor(connection, monitor, key)

    def windows(  # noqa: PLR0913 - all but the monitor are limits that may be left out
        self,
        monitor: str,
        key: str,
        *,
        before: int | None = None,
        after: int | None = None,
        limit: int = _PAGE,
        drift_only: bool = False,
    ) -> list[WindowRow]:
        """Return windows of a monitor, the newest first.

        Parameters
        ----------
        monitor, key
            The monitor.
        before
            Only windows with a smaller number: the last one of the page before.
        after
            Only windows with a larger number.
        limit
            How many at most.
        drift_only
            Whether to leave out those without drift.
        """
        with self._database.reading() as connection:
            between = (after, before)
            return reading.read_windows(connection, (monitor, key), between, limit, drift_only)

    def window(self, monitor: str, key: str, index: int) -> WindowDetail | None:
        """Return a window with all that belongs to it; ``None`` if it is not there."""
        with self._database.reading() as connection:
            return reading.read_window(connection, monitor, key, index)

    def series(self, monitor: str, key: str, limit: int = _PAGE) -> Series:
        """Return the last windows of a monitor as columns, the oldest first."""
        with self._database.reading() as connection:
            return reading.read_series(connection, monitor, key, limit)

    def episodes(
        self, monitor: str, key: str, *, before: int | None = None, limit: int = _PAGE
    ) -> list[EpisodeRow]:
        """Return episodes of a monitor, the newest first; ``before`` as for ``windows``."""
        with self._database.reading() as connection:
            return reading.read_episodes(connection, (monitor, key), before, limit)

    def episode(self, monitor: str, key: str, number: int) -> EpisodeRow | None:
        """Return an episode; ``None`` if it is not there."""
        with self._database.reading() as connection:
            return reading.read_episode(connection, monitor, key, number)

    def edge_history(
        self, monitor: str, key: str, source: str, target: str, limit: int = _PAGE
    ) -> list[EdgeRow]:
        """Return what became of an edge, in either direction, the newest first."""
        with self._database.reading() as connection:
            edge = (source, target)
            return reading.read_edge_history(connection, (monitor, key), edge, limit)
