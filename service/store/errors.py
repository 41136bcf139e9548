"""What can be wrong with the history."""

from __future__ import annotations

from pathlib import Path

from driftbn.errors import DriftbnError


class StoreError(DriftbnError):
    """The history cannot be read or written; what was written before is still there.

    Attributes
    ----------
    path, problem
        The file, and what is wrong with it or what to do.
    """

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path}: {problem}")
