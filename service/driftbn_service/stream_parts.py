"""What a stream is made of, and what it is doing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from uuid import UUID

from driftbn_service.committing import Committer
from driftbn_service.observer import Observer
from driftbn_service.quarantine import Quarantine
from driftbn_service.settings import StreamSettings
from driftbn_service.sources.base import RecordSource


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
    state_dir
        Under which its lanes have their checkpoints.
    committer
        Writes checkpoints and publishes.
    quarantine
        Where rejected records go.
    observer
        Is told what happens.
    queue_bytes
        Bytes of records that may wait between the two threads.
    keep
        Checkpoints kept of a lane.
    origin
        Namespace of the ids of its events; see ``driftbn_service.identity``.
    """

    settings: StreamSettings
    source: RecordSource
    state_dir: Path
    committer: Committer
    quarantine: Quarantine
    observer: Observer
    queue_bytes: int
    keep: int
    origin: UUID
