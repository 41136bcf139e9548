"""What a running stream tells about itself, for metrics."""

from __future__ import annotations

from typing import Protocol

from driftbn_service.events import Publication


class Observer(Protocol):
    """Counts and notes; called by any thread, must be quick and must not fail."""

    def records(self, stream: str, outcome: str, n_records: int) -> None:
        """Count records by what became of them: taken, rejected, failed."""

    def rejected(self, stream: str, reason: str, n_records: int) -> None:
        """Count rejected records by reason."""

    def window(self, publication: Publication) -> None:
        """Note a window that was published for the first time in this run."""

    def buffered(self, stream: str, n_records: int) -> None:
        """Note how many records wait for their window to fill."""

    def behind(self, stream: str, lane: str, n_records: int) -> None:
        """Note how much waits in the source."""

    def monitors(self, stream: str, n_monitors: int, n_resident: int, n_failed: int) -> None:
        """Note how many monitors a stream has, are in memory, and have failed."""

    def state(self, stream: str, state: str) -> None:
        """Note what a stream is doing."""

    def committed(self, stream: str, seconds: float) -> None:
        """Note a checkpoint and how long it took."""

    def commit_failed(self, stream: str) -> None:
        """Count a checkpoint that could not be written."""

    def notified(self, outlet: str, monitor: str, outcome: str, n_events: int) -> None:
        """Count events by what became of them: sent, failed."""
