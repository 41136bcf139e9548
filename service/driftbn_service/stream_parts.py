"""What a stream is made of, and what it is doing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from driftbn_service.committing import Committer
from driftbn_service.observer import Observer
from driftbn_service.quarantine import Quarantine
from driftbn_service.settings import StreamSettings
from driftbn_service.sources.base import RecordSource
from driftbn_service.state import Journal, Store


class StreamState(StrEnum):
    """What a stream is doing."""

    STARTING = "starting"
    """It is not connected yet."""
    RUNNING = "running"
    """It reads."""
    WAITING = "waiting"
    """Its source is away, or another process has its lane; it tries again."""
    DRAINED = "drained"
    """All is read and done."""
    FAILED = "failed"
    """It cannot go on; the others do."""
    STOPPED = "stopped"
    """It was told to stop and has."""


@dataclass(frozen=True)
class StreamParts:
    """What a stream is made of.

    Parameters
    ----------
    settings
        Of the stream.
    source
        Where its records come from.
    store
        Where its lanes are kept.
    journal
        Where its records wait, if it is fed over HTTP.
    committer
        Commits them.
    quarantine
        Where rejected records go.
    observer
        Is told what happens.
    queue_bytes
        Bytes of records that may wait between the two threads.
    """

    settings: StreamSettings
    source: RecordSource
    store: Store
    journal: Journal | None
    committer: Committer
    quarantine: Quarantine
    observer: Observer
    queue_bytes: int
