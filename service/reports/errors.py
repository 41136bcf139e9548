"""What can be wrong with a report that is asked for."""

from __future__ import annotations

from pathlib import Path

from driftbn.errors import DriftbnError


class NotInHistoryError(DriftbnError):
    """The history does not hold what a report is asked of.

    Attributes
    ----------
    path, problem
        The file of the history, and what it does not hold and what it does.
    """

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path}: {problem}")
