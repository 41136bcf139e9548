"""Where raw batches of a stream become codes, whatever they are made of and however cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbn.encoding.inference import infer_schema
from driftbn.encoding.tables import Table, read_table
from driftbn.errors import DataError, FormatError
from driftbn.event_times import bad_time, read_times
from driftbn.monitor_config import ErrorPolicy, MonitorConfig
from driftbn.pending import PendingRows
from driftbn.raw_columns import indexable, picked, value_at
from driftbn.records import EncodedTable, SchemaEvent, SchemaEventKind, encode
from driftbn.schema import MissingPolicy, Schema
from driftbn.window_config import DEFAULT_SIZE

_VERSION: Final = 1
_MAX_RETRIES: Final = 8
"""Bad cells of a column found by what its errors name; more are found one by one."""
_RECORDS: Final = {b"driftbn.rows": b"records"}
"""Metadata of an Arrow schema: the table was made of records, see ``as_records``."""


def as_records(table: Any) -> Any:
    """Mark an Arrow table as made of records, which need not all have the same fields.

    It is then read as a list of dicts would be, so that it does not matter which records came
    together in one table: a field without a value is an absent one, an absent field is a missing
    value, and neither is an event. The mark stays when the table is cut or filtered.

    Parameters
    ----------
    table
        A ``pyarrow.Table``.

    Examples
    --------
    >>> import pyarrow as pa
    >>> intake = Intake(MonitorConfig(window=2))
    >>> _ = intake.take([{"x": "a", "y": 1}, {"x": "b", "y": 2}])
    >>> intake.take(as_records(pa.table({"x": ["a"]}))).events
    ()
    >>> [event.kind.value for event in intake.take(pa.table({"x": ["a"]})).events]
    ['missing_column']
    """
    return table.replace_schema_metadata({**(table.schema.metadata or {}), **_RECORDS})


class Encoded(NamedTuple):
    """Rows of the stream as codes."""

    codes: NDArray[np.uint8]  # [variables, rows]
    times: NDArray[np.float64] | None  # [rows], in seconds since the epoch
    events: tuple[SchemaEvent, ...]  # by column name
    source: _Source | None = None  # where there are events, what they were found in

    def events_between(self, start: int, stop: int) -> tuple[SchemaEvent, ...]:
        """Return the events of some of the rows alone."""
        if self.source is None or start >= stop:
            return ()
        return self.source.events_between(start, stop)


class _Rows(NamedTuple):
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

    def part(self, start: int, stop: int) -> _Rows:
        if (start, stop) == (0, self.n_rows):
            return self
        if self.records is not None:
            return self.picked(np.arange(start, stop))
        columns = {name: indexable(raw)[start:stop] for name, raw in self.columns.items()}
        times = None if self.times is None else self.times[start:stop]
        return _Rows(stop - start, columns, times, None, self.sparse).filled()

    def picked(self, rows: NDArray[np.intp]) -> _Rows:
        times = None if self.times is None else self.times[rows]
        if self.records is None:
            columns = {name: picked(raw, rows) for name, raw in self.columns.items()}
            return _Rows(len(rows), columns, times, None, self.sparse).filled()
        # Records are read again: a field that none of them has is no column.
        records = [self.records[row] for row in rows.tolist()]
        read = _read_records(records).columns
        columns = {name: raw for name, raw in read.items() if name in self.columns}
        return _Rows(len(rows), columns, times, records)

    def filled(self) -> _Rows:
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


class _Source(NamedTuple):
    """Rows in which events were found, after ``n_before`` others."""

    rows: _Rows
    schema: Schema
    n_before: int = 0

    def events_between(self, start: int, stop: int) -> tuple[SchemaEvent, ...]:
        """Return the events of some of the rows alone."""
        part = self.rows.part(max(0, start - self.n_before), max(0, stop - self.n_before))
        if not part.n_rows:
            return ()
        table = encode(part.columns or _blank(part.n_rows, self.schema), self.schema)
        return part.events(table.events)


class Intake:
    """Takes the batches of a stream and returns them as codes.

    Until the schema is known, rows are held. It is inferred from the first ``row_limit`` rows that
    can be read, for time windows from 5000 at most: from exactly these, so that neither the schema
    nor the codes depend on how the stream is cut into batches. Constant and duplicate columns are
    kept as variables, because they may not stay so.

    Parameters
    ----------
    config
        The settings of the monitor.

    Examples
    --------
    >>> intake = Intake(MonitorConfig(window=3))
    >>> intake.take([{"x": "a"}, {"x": "b"}]), intake.n_pending
    (None, 2)
    >>> intake.take({"x": ["b", "a", "new"]}).codes.tolist()
    [[0, 1, 1, 0, 2]]
    >>> intake.schema["x"].labels
    ('a', 'b', '__other__', '__missing__')
    """

    def __init__(self, config: MonitorConfig) -> None:
        self.config = config
        self._lenient = config.on_error is ErrorPolicy.REJECT_ROWS
        limit = config.windows.row_limit
        self._n_wanted = limit if config.windows.seconds is None else min(limit, DEFAULT_SIZE)
        self._reset()

    def _reset(self) -> None:
        self._schema = self.config.variables
        self._pending = PendingRows(self.config.schema.missing)
        self._times: list[float] = []  # of the rows held
        self._n_rejected = 0

    @property
    def schema(self) -> Schema | None:
        """What the codes mean; ``None`` until it is known."""
        return self._schema

    @property
    def n_rejected(self) -> int:
        """The number of rows left out because they could not be read."""
        return self._n_rejected

    @property
    def n_pending(self) -> int:
        """The number of rows held until the schema is known."""
        return self._pending.n_rows

    def take(self, batch: object) -> Encoded | None:
        """Take in a batch and return its rows as codes, after those that were held.

        Parameters
        ----------
        batch
            A pandas DataFrame, an Arrow table or record batch, a list of dicts or a dict of
            columns, with any number of rows, also none; or an ``EncodedTable`` in the schema of
            this intake, once there is one and if there is no column with event times.

        Returns
        -------
        Encoded or None
            ``None`` if no rows are left, or if they are held because the schema is not known yet.

        Raises
        ------
        DataError
            If a row cannot be read and rows are not to be left out, or if the batch as a whole is
            no table. Nothing of it is taken in.
        """
        if isinstance(batch, EncodedTable):
            return self._take_codes(batch)
        if _is_empty(batch):
            return None
        if self._schema is not None and self.config.time_column is None:
            try:  # the way of nearly all batches, which goes straight to the codes
                table = encode(batch, self._schema)
                if not table.events:
                    return Encoded(table.codes, None, ())
            except DataError:
                pass
        n_given, rows = self._read(batch)
        if self._schema is None:
            return self._hold(n_given, rows)
        encoded = self._encode(rows, self._schema)
        n_rows = 0 if encoded is None else encoded.codes.shape[1]
        self._n_rejected += n_given - n_rows
        return encoded

    def _take_codes(self, table: EncodedTable) -> Encoded | None:
        """Take in codes that were made elsewhere, without copying them."""
        schema = self._schema
        if self.config.time_column is not None:
            name = self.config.time_column
            raise DataError("codes have no event times; give the table itself", column=name)
        if schema is None:
            raise DataError("codes cannot be taken before the schema is known; give the table")
        if table.schema is not schema and table.schema != schema:
            raise DataError("codes have another schema than the monitor; encode with its own")
        if table.events:
            raise DataError("codes with events cannot be taken; give the table itself")
        table.check()
        return Encoded(table.codes, None, ()) if table.n_rows else None

    def finish(self) -> Encoded | None:
        """End the stream: infer the schema from the rows held, if any, and return their codes."""
        return self._infer(_Rows(0, {}), 0) if self.n_pending else None

    def _read(self, batch: Any) -> tuple[int, _Rows]:
        """Return how many rows there are, and those whose times can be read."""
        if isinstance(batch, list | tuple):
            records, table = self._read_list(batch)
        else:
            records, table = None, _read_columns(batch)
        n_given = table.n_rows if records is None else len(batch)
        rows = _Rows(*table, None, records, _is_sparse(batch)).filled()
        name = self.config.time_column
        if name is None:
            return n_given, rows
        if name not in rows.columns and not (rows.of_records and self._lenient):
            raise DataError("the column with event times is absent; it must be there", column=name)
        raw = rows.columns.pop(name, [None] * rows.n_rows)
        times = read_times(raw)
        rows = rows._replace(times=times)
        readable = np.isfinite(times)
        if readable.all():
            return n_given, rows
        if self._lenient:
            return n_given, rows.picked(np.flatnonzero(readable))
        raise bad_time(name, raw, int(np.argmin(readable)))

    def _read_list(self, batch: Sequence[Any]) -> tuple[Sequence[Any], Table]:
        """Return records and their columns, without what is no record if that may go."""
        try:
            return batch, _read_records(batch)
        except DataError:
            if not self._lenient:
                raise
        records = [record for record in batch if _is_record(record)]
        return records, _read_records(records)

    def _hold(self, n_given: int, rows: _Rows) -> Encoded | None:
        place = self._pending.place()
        start, encoded = 0, None
        try:
            while start < rows.n_rows and self.n_pending < self._n_wanted:
                stop = min(rows.n_rows, start + self._n_next(rows))
                self._hold_part(rows.part(start, stop), start)
                start = stop
            n_taken = self.n_pending - place.n_rows
            if self.n_pending == self._n_wanted:
                encoded = self._infer(rows.part(start, rows.n_rows), start)
                n_taken = encoded.codes.shape[1] - place.n_rows
        except BaseException:
            self._pending.roll_back(place)
            del self._times[place.n_rows :]
            raise
        self._n_rejected += n_given - n_taken
        return encoded

    def _n_next(self, rows: _Rows) -> int:
        """Return how many rows may be held at once."""
        rejects = self.config.schema.missing is MissingPolicy.REJECT
        if rejects and rows.of_records and not self.n_pending:
            return 1  # the first record says which columns there are
        return self._n_wanted - self.n_pending

    def _hold_part(self, rows: _Rows, offset: int) -> None:
        table = Table(rows.n_rows, rows.columns)
        try:
            self._pending.add(table)
        except DataError as error:
            if not self._lenient:
                raise _shifted(error, offset) from None
            rows = rows.picked(self._pending.readable(table))
            self._pending.add(Table(rows.n_rows, rows.columns))
        if rows.times is not None:
            self._times.extend(rows.times.tolist())

    def _infer(self, rest: _Rows, offset: int) -> Encoded:
        """Infer the schema from the rows held and return them and the rest as codes."""
        config = replace(self.config.schema, keep_constant=True, keep_duplicates=True)
        schema, codes = infer_schema(self._pending.table(), config)
        times = np.array(self._times) if self.config.time_column is not None else None
        encoded = Encoded(codes, times, ())
        try:
            after = self._encode(rest, schema) if rest.n_rows else None
        except DataError as error:
            raise _shifted(error, offset) from None
        if after is not None:
            if times is not None and after.times is not None:
                times = np.append(times, after.times)
            source = after.source
            if source is not None:
                source = source._replace(n_before=codes.shape[1])
            both = np.hstack([codes, after.codes])
            encoded = Encoded(both, times, after.events, source)
        n_rejected = self._n_rejected
        self._reset()
        self._schema, self._n_rejected = schema, n_rejected
        return encoded

    def _encode(self, rows: _Rows, schema: Schema) -> Encoded | None:
        if not rows.n_rows:
            return None
        columns = rows.columns or _blank(rows.n_rows, schema)
        if not columns:
            return Encoded(np.zeros((0, rows.n_rows), np.uint8), rows.times, ())
        try:
            table = encode(columns, schema)
        except DataError as error:
            bad = _bad_rows(rows, schema) if self._lenient else np.zeros(0, np.bool_)
            if not bad.any():
                raise _located(error, rows, schema) from None
            return self._encode(rows.picked(np.flatnonzero(~bad)), schema)
        events = rows.events(table.events)
        source = _Source(rows, schema) if events else None
        return Encoded(table.codes, rows.times, events, source)

    def state(self) -> dict[str, Any]:
        """Return all that a later ``from_state`` needs, as plain values and arrays."""
        return {
            "version": _VERSION,
            "schema": None if self._schema is None else self._schema.to_dict(),
            "n_rejected": self._n_rejected,
            "pending": self._pending.to_json(),
            "times": np.array(self._times, np.float64),
        }

    @classmethod
    def from_state(cls, config: MonitorConfig, state: Mapping[str, Any]) -> Intake:
        """Return an intake that goes on where the one that gave ``state`` stood.

        Parameters
        ----------
        config
            The settings of that intake.
        state
            What its ``state`` returned.

        Raises
        ------
        FormatError
            If it is something else, of another version, or does not fit the settings.
        """
        if state.get("version") != _VERSION:
            found = state.get("version")
            raise FormatError(f"intake state version is {found!r}: it must be {_VERSION}")
        n_rejected, times, schema = (state.get(k) for k in ("n_rejected", "times", "schema"))
        if type(n_rejected) is not int or n_rejected < 0:
            raise FormatError(f"intake state 'n_rejected' is {n_rejected!r}: it must be 0 or more")
        intake = cls(config)
        intake._n_rejected = n_rejected
        intake._schema = None if schema is None else Schema.from_dict(schema)
        intake._pending = PendingRows.from_json(config.schema.missing, state.get("pending"))
        n_rows = intake.n_pending
        n_times = 0 if config.time_column is None else n_rows
        if not isinstance(times, np.ndarray) or (times.dtype, times.shape) != (float, (n_times,)):
            raise FormatError(f"intake state 'times' must be float64 of shape ({n_times},)")
        intake._times = times.tolist()
        if config.variables is not None and intake._schema != config.variables:
            raise FormatError("intake state has another schema than the settings")
        if intake._schema is not None and n_rows:
            raise FormatError("intake state holds rows, although its schema is known")
        if n_rows >= intake._n_wanted:
            raise FormatError(f"intake state holds {n_rows} rows, which do not fit the settings")
        return intake


def _is_empty(batch: Any) -> bool:
    """Whether a table of any kind has no rows."""
    if isinstance(batch, Mapping):
        return all(hasattr(column, "__len__") and not len(column) for column in batch.values())
    return (isinstance(batch, list | tuple) or hasattr(batch, "columns")) and not len(batch)


def _is_sparse(batch: Any) -> bool:
    """Whether a batch is an Arrow table that was made of records."""
    metadata = getattr(getattr(batch, "schema", None), "metadata", None)
    return isinstance(metadata, Mapping) and _RECORDS.items() <= metadata.items()


def _read_columns(batch: Any) -> Table:
    """Read a table of columns, of which records may have none."""
    if _is_sparse(batch) and not batch.num_columns:
        return Table(len(batch), {})
    return read_table(batch)


def _n_values(raw: Any) -> int:
    """Count the cells of a column of records that have a value."""
    if hasattr(raw, "null_count"):
        return len(raw) - int(raw.null_count)
    return sum(value is not None for value in raw)


def _read_records(records: Sequence[Any]) -> Table:
    """Read a list of dicts, of which all may be without fields."""
    if any(records) or not all(isinstance(record, Mapping) for record in records):
        return read_table(records)
    return Table(len(records), {})


def _is_record(record: Any) -> bool:
    try:
        return _read_records([record]).n_rows == 1
    except DataError:
        return False


def _blank(n_rows: int, schema: Schema) -> dict[str, Any]:
    """Return columns that stand for records without fields."""
    names = (*schema.names, *(exclusion.name for exclusion in schema.excluded))
    return dict.fromkeys(names, [None] * n_rows)


def _shifted(error: DataError, offset: int) -> DataError:
    row = None if error.row is None else error.row + offset
    return DataError(error.problem, column=error.column, row=row, value=error.value)


def _located(error: DataError, rows: _Rows, schema: Schema) -> DataError:
    """Return an error about a whole column with the first row that is at fault."""
    if error.row is not None or error.column not in rows.columns:
        return error
    alone = Schema([schema[error.column]], missing=schema.missing)
    column = indexable(rows.columns[error.column])
    row = next((r for r in range(rows.n_rows) if _error(column[r : r + 1], alone)), 0)
    return DataError(error.problem, column=error.column, row=row, value=value_at(column, row))


def _bad_rows(rows: _Rows, schema: Schema) -> NDArray[np.bool_]:
    """Return which rows cannot be encoded."""
    bad = np.zeros(rows.n_rows, np.bool_)
    for variable in schema.variables:
        alone = Schema([variable], missing=schema.missing)
        column = rows.columns.get(variable.name)
        if column is not None:
            bad[_bad_cells(indexable(column), alone)] = True
        elif schema.missing is MissingPolicy.REJECT:
            bad[:] = True
    return bad


def _bad_cells(column: Any, alone: Schema) -> NDArray[np.intp]:
    """Return the rows of a column whose cells cannot be encoded."""
    rows = np.arange(len(column))
    left = rows
    for _ in range(_MAX_RETRIES):
        error = _error(picked(column, left), alone)
        if error is None:
            return np.setdiff1d(rows, left)
        if error.row is None:
            break
        left = np.delete(left, error.row)
    good = [row for row in left.tolist() if _error(column[row : row + 1], alone) is None]
    return np.setdiff1d(rows, good)


def _error(column: Any, alone: Schema) -> DataError | None:
    if not len(column):
        return None
    try:
        encode({alone.names[0]: column}, alone)
    except DataError as error:
        return error
    return None
