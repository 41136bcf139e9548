"""The daemon as the endpoint sees it."""

from __future__ import annotations

from driftbn_service.assembly import Assembly
from driftbn_service.http.service import (
    Health,
    LiveSignal,
    NotAnHttpStreamError,
    NotReadyError,
    Readiness,
    StoppingError,
    StreamInfo,
    UnknownStreamError,
)
from driftbn_service.http.submission import Submission
from driftbn_service.pipeline import StreamPipeline
from driftbn_service.state import Accepted, Store
from driftbn_service.stream_parts import StreamState

STUCK_SECONDS = 600.0
"""A worker that has been at one piece of work for so long is taken for stuck."""


class DaemonView:
    """What can be seen of the daemon from outside; all may be asked by any thread.

    Parameters
    ----------
    assembly
        What runs.
    """

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly

    @property
    def store(self) -> Store:
        """The history."""
        return self._assembly.store

    @property
    def live(self) -> LiveSignal:
        """Woken whenever something is published."""
        return self._assembly.live

    def healthy(self) -> Health:
        """Say whether the threads of all streams are there and move."""
        reasons = [reason for stream in self._assembly.streams for reason in _sickness(stream)]
        return Health(not reasons, tuple(reasons))

    def ready(self) -> Readiness:
        """Say whether sources are connected and checkpoints are written."""
        streams = self._assembly.streams
        reasons = [
            f"stream {stream.name} is {stream.state.value}"
            + ("" if stream.trouble is None else f": {stream.trouble}")
            for stream in streams
            if not stream.ready
        ]
        n_missing = len(self._assembly.settings.streams) - len(streams)
        if n_missing > 0:
            reasons.append(f"{n_missing} streams are not started yet")
        return Readiness(not reasons, tuple(reasons))

    def streams(self) -> tuple[StreamInfo, ...]:
        """Return the streams in the order of the settings."""
        return tuple(
            StreamInfo(
                name=stream.name,
                source=stream.parts.settings.source.kind,
                state=stream.state.value,
                key=stream.parts.settings.key,
                trouble=stream.trouble,
                max_record_bytes=stream.parts.settings.max_record_bytes,
                max_fields=stream.parts.settings.max_fields,
            )
            for stream in self._assembly.streams
        )

    def metrics_text(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics and their content type, by what the client accepts."""
        return self._assembly.metrics.text(accept)

    def ingest(self, submission: Submission) -> Accepted:
        """Write records to the journal of a stream and return when they are on disk.

        Raises
        ------
        IngestError, JournalError
            If the stream takes none, or not now.
        """
        name = submission.stream
        try:
            journal = self._assembly.journal(name)
        except KeyError:
            raise UnknownStreamError(name) from None
        if journal is None:
            kind = self._assembly.settings.stream(name).source.kind
            raise NotAnHttpStreamError(name, kind)
        if self._assembly.stopping:
            raise StoppingError(name)
        if not self._assembly.stream(name).parts.source.ready:
            raise NotReadyError(name)
        return journal.append(
            submission.table, submission.idempotency_key, digest=submission.digest
        )


def _sickness(stream: StreamPipeline) -> list[str]:
    if stream.busy_seconds > STUCK_SECONDS:
        return [
            f"stream {stream.name} has been at the same records for {stream.busy_seconds:.0f} s"
        ]
    if stream.state in (StreamState.RUNNING, StreamState.WAITING) and not stream.alive:
        return [f"stream {stream.name} has no thread any more"]
    return []
