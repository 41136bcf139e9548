"""Where records come from: one file a kind, each imported only where it is used."""

from __future__ import annotations

import inspect
from uuid import UUID

from driftbn_service.errors import part_of_kind
from driftbn_service.settings import StreamSettings
from driftbn_service.sources.base import RecordSource
from driftbn_service.state import Journal


def make_source(
    stream: StreamSettings, journal: Journal | None, state: UUID | None = None
) -> RecordSource:
    """Return the source of a stream, whose class asks for what it needs beside its settings.

    Over HTTP records wait in a ``journal``; ``state`` is the identity of the state that they go to.
    """
    kind = stream.source.kind
    made = part_of_kind(__package__, kind, f"{kind.title()}Source")
    given = {"max_record_bytes": stream.max_record_bytes, "journal": journal, "state": state}
    wanted = inspect.signature(made).parameters
    source: RecordSource = made(
        stream.source, **{name: value for name, value in given.items() if name in wanted}
    )
    return source
