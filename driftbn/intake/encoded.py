"""Rows as codes, and which events were found in which of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbn.intake.rows import Rows
from driftbn.records import SchemaEvent, encode
from driftbn.schema import Schema


class Encoded(NamedTuple):
    """Rows of the stream as codes."""

    codes: NDArray[np.uint8]  # [variables, rows]
    times: NDArray[np.float64] | None  # [rows], in seconds since the epoch
    events: tuple[SchemaEvent, ...]  # by column name
    source: Source | None = None  # where there are events, what they were found in

    def events_between(self, start: int, stop: int) -> tuple[SchemaEvent, ...]:
        """Return the events of some of the rows alone."""
        if self.source is None or start >= stop:
            return ()
        return self.source.events_between(start, stop)


class Source(NamedTuple):
    """Rows in which events were found, after ``n_before`` others."""

    rows: Rows
    schema: Schema
    n_before: int = 0

    def events_between(self, start: int, stop: int) -> tuple[SchemaEvent, ...]:
        """Return the events of some of the rows alone."""
        part = self.rows.part(max(0, start - self.n_before), max(0, stop - self.n_before))
        if not part.n_rows:
            return ()
        table = encode(part.columns or blank(part.n_rows, self.schema), self.schema)
        return part.events(table.events)


def blank(n_rows: int, schema: Schema) -> dict[str, Any]:
    """Return columns that stand for records without fields."""
    names = (*schema.names, *(exclusion.name for exclusion in schema.excluded))
    return dict.fromkeys(names, [None] * n_rows)
