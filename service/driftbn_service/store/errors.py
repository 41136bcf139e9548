"""What can be wrong with the history."""

from __future__ import annotations

import sqlite3
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


class DamagedRowError(StoreError):
    """A row of the history is not as it was written; the others can be read.

    Attributes
    ----------
    row
        Which one, for people.
    event
        Number and monitor, if it is an event; the monitor may be damaged.
    """

    def __init__(self, path: Path, row: str, event: tuple[int, str] | None = None) -> None:
        self.row = row
        self.event = event
        super().__init__(path, f"{row} is damaged in the history: its checksum does not fit")


class RowDamage(sqlite3.DatabaseError):
    """What ``DamagedRowError`` tells, where the file is not known."""

    def __init__(self, row: str, event: tuple[int, str] | None = None) -> None:
        self.row = row
        self.event = event
        super().__init__(f"{row} is damaged")
