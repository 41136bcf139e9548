"""What can be wrong with checkpoints."""

from __future__ import annotations

from pathlib import Path

from driftbn.errors import DriftbnError


class CheckpointError(DriftbnError):
    """A checkpoint or its directory cannot be used.

    Attributes
    ----------
    path, problem
        The file or directory, and what is wrong with it or what to do.
    """

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path}: {problem}")


class DamagedError(CheckpointError):
    """Bytes on disk are not the ones that were written."""


class NewerVersionError(CheckpointError):
    """A checkpoint is in a format that this driftbn does not know.

    Attributes
    ----------
    found, known
        Version of the checkpoint's format, and the one that can be read.
    """

    def __init__(self, path: Path, found: int, known: int) -> None:
        self.found = found
        self.known = known
        super().__init__(
            path,
            f"the checkpoint has format version {found} and this driftbn reads version {known}:"
            " run the driftbn that wrote it or a later one, or give another state directory",
        )


class LockedError(CheckpointError):
    """Another process uses the directory.

    Attributes
    ----------
    pid
        That process; ``None`` if it is not known.
    """

    def __init__(self, path: Path, pid: int | None) -> None:
        self.pid = pid
        holder = "another process" if pid is None else f"process {pid}"
        super().__init__(
            path, f"{holder} uses this directory: stop it, or give another state directory"
        )
