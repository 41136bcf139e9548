"""Raw rows of a batch, which may be cut and picked, with their event times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbn.config import ErrorPolicy, MonitorConfig
from driftbn.encoding.tables import Table
from driftbn.errors import DataError
from driftbn.event_times import bad_time, read_times
from driftbn.intake.batches import is_record, is_sparse, read_columns, read_records
from driftbn.raw_columns import indexable, picked
from driftbn.records import SchemaEvent, SchemaEventKind
from driftbn.time_slots import have_slots


class Rows(NamedTuple):
    """Raw columns, the event times that one of them held, and the records they came from."""

    n_rows: int
    columns: dict[str, Any]
    times: NDArray[np.float64] | None = None  # [rows]
    records: Sequence[Any] | None = None  # [rows]; None where it was a table of columns
    sparse: bool = False  # whether it was a table made of records

    @property
    def of_records(self) -> bool:
        """Whether a row need not have all fields."""
        return self.sparse or self.records is not None

    def part(self, start: int, stop: int) -> Rows:
        """Return the rows from one up to another."""
        if (start, stop) == (0, self.n_rows):
            return self
        if self.records is not None:
            return self.picked(np.arange(start, stop))
        columns = {name: indexable(raw)[start:stop] for name, raw in self.columns.items()}
        times = None if self.times is None else self.times[start:stop]
        return Rows(stop - start, columns, times, None, self.sparse).filled()

    def picked(self, rows: NDArray[np.intp]) -> Rows:
        """Return some of the rows, in the order given."""
        times = None if self.times is None else self.times[rows]
        if self.records is None:
            columns = {name: picked(raw, rows) for name, raw in self.columns.items()}
            return Rows(len(rows), columns, times, None, self.sparse).filled()
        # Records are read again: a field that none of them has is no column.
        records = [self.records[row] for row in rows.tolist()]
        read = read_records(records).columns
        columns = {name: raw for name, raw in read.items() if name in self.columns}
        return Rows(len(rows), columns, times, records)

    def filled(self) -> Rows:
        """Return the rows without columns that have no value, where they were made of records."""
        if not self.sparse:
            return self
        held = {name: raw for name, raw in self.columns.items() if raw.null_count < len(raw)}
        return self._replace(columns=held)

    def events(self, found: tuple[SchemaEvent, ...]) -> tuple[SchemaEvent, ...]:
        """Return what is an event of records: not that a field is absent from all of a batch."""
        if not self.of_records:
            return found
        counted = []
        for event in found:
            if event.kind is SchemaEventKind.NEW_COLUMN:
                n_rows = _n_values(self.columns[event.column])
                counted += [replace(event, n_rows=n_rows)] if n_rows else []
            elif event.kind is not SchemaEventKind.MISSING_COLUMN:
                counted.append(event)
        return tuple(counted)


def read_rows(batch: Any, config: MonitorConfig) -> tuple[int, Rows]:
    """Return how many rows a batch has, and those whose times can be read.

    Parameters
    ----------
    batch
        A table of any kind.
    config
        Says which column holds the event times, if any, and what becomes of rows without one.

    Raises
    ------
    DataError
        If it is no table, or a row cannot be read and rows are not to be left out.
    """
    lenient = config.on_error is ErrorPolicy.REJECT_ROWS
    if isinstance(batch, list | tuple):
        records, table = _read_list(batch, lenient=lenient)
    else:
        records, table = None, read_columns(batch, lenient=lenient)
    n_given = table.n_rows if records is None else len(batch)
    rows = Rows(*table, None, records, is_sparse(batch)).filled()
    if config.time_column is None:
        return n_given, rows
    return n_given, _timed(rows, config.time_column, config, lenient=lenient)


def _timed(rows: Rows, name: str, config: MonitorConfig, *, lenient: bool) -> Rows:
    """Return rows with their event times, without those that have none if they may go."""
    if name not in rows.columns and not lenient:
        problem = "the column with event times is absent; it must be there"
        raise DataError(problem, column=name)
    raw = rows.columns.pop(name, [None] * rows.n_rows)
    times = read_times(raw)
    rows = rows._replace(times=times)
    readable = have_slots(times, config.windows)
    if readable.all():
        return rows
    if not lenient:
        raise bad_time(name, raw, int(np.argmin(readable)))
    return rows.picked(np.flatnonzero(readable))


def _read_list(batch: Sequence[Any], *, lenient: bool) -> tuple[Sequence[Any], Table]:
    """Return records and their columns, without what is no record if that may go."""
    try:
        return batch, read_records(batch)
    except DataError:
        if not lenient:
            raise
    records = [record for record in batch if is_record(record)]
    return records, read_records(records)


def _n_values(raw: Any) -> int:
    """Count the cells of a column of records that have a value."""
    if hasattr(raw, "null_count"):
        return len(raw) - int(raw.null_count)
    return sum(value is not None for value in raw)
