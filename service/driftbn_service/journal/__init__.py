"""The journal: tables that were accepted, kept on disk until they are worked through."""

from driftbn_service.journal.bodies import Accepted, Body
from driftbn_service.journal.journal import Journal
from driftbn_service.journal_errors import JournalError, JournalFullError, KeyConflictError

__all__ = [
    "Accepted",
    "Body",
    "Journal",
    "JournalError",
    "JournalFullError",
    "KeyConflictError",
]
