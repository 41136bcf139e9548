"""Where records come from: one file a kind, each imported only where it is used."""

from __future__ import annotations

from driftbn_service.errors import part_of_kind
from driftbn_service.settings import StreamSettings
from driftbn_service.sources.base import RecordSource
from driftbn_service.state import Journal


def make_source(stream: StreamSettings, journal: Journal | None) -> RecordSource:
    """Return the source of a stream; over HTTP its records wait in a journal."""
    make = part_of_kind(__package__, stream.source.kind, "make")
    source: RecordSource = make(stream, journal)
    return source
