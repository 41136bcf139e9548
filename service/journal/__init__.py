"""The journal: tables that were accepted, kept on disk until they are worked through."""

from service.journal.bodies import Accepted, Body
from service.journal.journal import Journal
from service.journal_errors import JournalError, JournalFullError, KeyConflictError

__all__ = [
    "Accepted",
    "Body",
    "Journal",
    "JournalError",
    "JournalFullError",
    "KeyConflictError",
]
