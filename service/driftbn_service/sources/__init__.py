"""Where records come from: one file a kind, each imported only where it is used."""

from __future__ import annotations

from uuid import UUID

from driftbn_service.errors import part_of_kind
from driftbn_service.settings import StreamSettings
from driftbn_service.sources.base import RecordSource
from driftbn_service.state import Journal


def make_source(
    stream: StreamSettings, journal: Journal | None, state: UUID | None = None
) -> RecordSource:
    """Return the source of a stream; over HTTP its records wait in a journal.

    ``state`` is the identity of the state that they go to.
    """
    make = part_of_kind(__package__, stream.source.kind, "make")
    more = {"state": state} if stream.source.kind == "kafka" else {}
    source: RecordSource = make(stream, journal, **more)
    return source
