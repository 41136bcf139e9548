"""Records that were sent over HTTP, from the journal in which they wait."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate, takewhile
from typing import Final

import pyarrow as pa

from driftbn_service.records.formats import TableFormat
from driftbn_service.settings import HttpSourceSettings
from driftbn_service.sources.base import Chunk, LaneListener, Position, SourceError
from driftbn_service.state import Body, Journal, StoreError

logger = logging.getLogger("driftbn.service.sources.http")

CHUNK_BYTES: Final = 8 << 20
"""Bytes of bodies that are joined: many small ones are as fast as a large one."""


class HttpSource:
    """Gives what a journal has accepted, in that order; it is never drained.

    The journal is not closed: those who append to it may need it longer.
    """

    name = "HTTP ingest"
    drained: Final = False  # somebody may always send more

    def __init__(self, settings: HttpSourceSettings, journal: Journal) -> None:
        self._settings = settings
        self._journal = journal
        self._sequence = 0
        self._waiting: list[Body] = []
        self.ready = False

    def open(self, listener: LaneListener) -> None:
        self._sequence = int((listener.opened("") or {}).get("sequence", 0))
        self.ready = True

    def poll(self, timeout: float) -> Chunk | None:
        """Return the next bodies with the same columns as one table; wakes as soon as one comes.

        Raises ``SourceError`` if the journal cannot be read.
        """
        if not self._waiting:
            if not self._journal.wait(self._sequence, timeout):
                return None
            try:
                self._waiting = list(self._journal.read(self._sequence, CHUNK_BYTES))
            except StoreError as error:
                raise SourceError(self.name, str(error)) from error
        if not self._waiting:
            return None
        if self._waiting[0].table is None:
            return self._damaged(self._waiting.pop(0))
        schema = self._waiting[0].table.schema
        alike = list(
            takewhile(
                lambda body: (
                    body.table is not None and body.table.schema.equals(schema, check_metadata=True)
                ),
                self._waiting,
            )
        )
        del self._waiting[: len(alike)]
        return self._chunk(alike)

    def release(self, lane: str, position: Position) -> None:
        """Do nothing: the commit itself has deleted what it covers."""

    def close(self) -> None:
        self.ready = False

    def _damaged(self, body: Body) -> Chunk:
        """Return a body as bytes of which no table can be read: it is set aside as a whole."""
        self._sequence = body.sequence
        logger.error("body %d is damaged in the journal and set aside", body.sequence)
        place = f"body {body.sequence}, which is damaged in the journal"
        position = {"sequence": body.sequence}
        return Chunk(body.damaged, TableFormat.ARROW, lambda *_: place, position=position)

    def _chunk(self, bodies: Sequence[Body]) -> Chunk:
        start, self._sequence = self._sequence, bodies[-1].sequence
        table = pa.concat_tables([body.table for body in bodies])
        return Chunk(
            table,
            None,
            _place(bodies),
            checked=True,
            position={"sequence": self._sequence},
            n_behind=bodies[-1].n_behind,
            start={"sequence": start},
        )


def _place(bodies: Sequence[Body]) -> Callable[[int, int], str]:
    sequences = [body.sequence for body in bodies]
    firsts = [0, *accumulate(body.n_records for body in bodies)][:-1]

    def place(record: int, _: int) -> str:
        i = bisect_right(firsts, record) - 1
        return f"body {sequences[i]}, record {record - firsts[i] + 1}"

    return place
