"""Errors of the journal."""

from __future__ import annotations

from pathlib import Path

from driftbn.errors import DriftbnError


class JournalError(DriftbnError):
    """The journal cannot be used.

    Attributes
    ----------
    path, problem
        Its file, and what is wrong with it.
    """

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"journal {path}: {problem}")


class JournalFullError(JournalError):
    """More waits than is allowed; what was given was not accepted.

    Attributes
    ----------
    n_pending_bytes, max_pending_bytes
        What waits, and what may wait.
    """

    def __init__(self, path: Path, n_pending_bytes: int, max_pending_bytes: int) -> None:
        self.n_pending_bytes = n_pending_bytes
        self.max_pending_bytes = max_pending_bytes
        super().__init__(
            path, f"{n_pending_bytes} bytes wait, of {max_pending_bytes} allowed; send again later"
        )


class KeyConflictError(JournalError):
    """Something else was accepted under the same idempotency key.

    Attributes
    ----------
    key
        The key.
    """

    def __init__(self, path: Path, key: str) -> None:
        self.key = key
        super().__init__(path, f"other records were accepted under the idempotency key {key!r}")
