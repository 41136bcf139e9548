"""Where batches of a stream become codes, whatever they are made of and however cut.

Rows wait, in columns, until a schema can be inferred from them.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from driftbn.config import DEFAULT_SIZE, ErrorPolicy, MissingPolicy, MonitorConfig
from driftbn.errors import DataError, FormatError
from driftbn.tables.cells import (
    ALLOWED,
    NO_KIND,
    Kind,
    as_numpy,
    is_mixed,
    is_text,
    kinds_of,
    missing_cells,
    mixed_column,
    mixed_texts,
    time_cells,
    times_of,
    unified,
    without_times,
)
from driftbn.tables.encode import EncodedTable, SchemaEvent, encode_table, refused_rows
from driftbn.tables.infer import infer_schema
from driftbn.tables.read import Table, is_record, read_batch, value_at
from driftbn.tables.schema import Schema
from driftbn.windows.buffer import have_slots
from driftbn.windows.sample import Records, candidate_threshold, record_hash

MAX_COLUMNS: Final = 4096
"""Columns that rows have together at most until the schema is known."""
_MAX_PARTS: Final = 64
"""Tables held apart; more are put together."""
_MAX_SHOWN: Final = 100
"""Characters of a value that an error shows."""
_TIME: Final = date(1970, 1, 1)


@dataclass(frozen=True)
class PendingRows:
    """Rows held until the schema can be inferred; a bad one is refused when it comes.

    Which rows are refused, and what is inferred, does not depend on how the rows were cut into
    tables. In a column that has held a value, a time among other values or another value among
    times is refused. Where missing values are rejected, the first table says which columns there
    are; others that come later are left out. Each row may bring other columns: when there are too
    many, those with the fewest values are forgotten.

    ``values_win``: whether another value among times is taken all the same, unless missing values
    are rejected: the column is one of values then, and the times before it are missing. Where bad
    rows are left out, a time that came first would otherwise have all rows after it left out.
    ``n_values``, ``since``: by column, in the order of their coming: how many values it has, and
    its first row. ``temporal``: of each column that has held a value, whether these are times.

    >>> rows = PendingRows(MissingPolicy.LEVEL).add(read_batch({"x": [1, 2]}))
    >>> list(rows.problems(read_batch({"x": [3, {}]})))
    [1]
    >>> table = rows.add(read_batch({"x": [3], "y": ["a"]})).table()
    >>> {name: array.to_pylist() for name, array in table.columns.items()}
    {'x': [1, 2, 3], 'y': [None, None, 'a']}
    """

    missing: MissingPolicy
    values_win: bool = False
    n_rows: int = 0
    parts: tuple[Table, ...] = ()
    n_values: Counter[str] = field(default_factory=Counter)
    since: dict[str, int] = field(default_factory=dict)
    temporal: dict[str, bool] = field(default_factory=dict)

    @property
    def _rejects(self) -> bool:
        return self.missing is MissingPolicy.REJECT

    def add(self, table: Table) -> PendingRows:
        """Return these rows and those of a table, with which there is no problem."""
        if not table.n_rows:
            return self
        columns = self._wanted(table)
        n_values, since = Counter(self.n_values), dict(self.since)
        if len(since.keys() | columns.keys()) > MAX_COLUMNS:
            self._count_by_rows(columns, n_values, since)
        else:
            for name, array in columns.items():
                n_values[name] += len(array) - array.null_count
                since.setdefault(name, self.n_rows)
        held = replace(
            self,
            n_rows=self.n_rows + table.n_rows,
            parts=(*self.parts, Table(table.n_rows, columns)),
            n_values=n_values,
            since=since,
            temporal={name: self.temporal[name] for name in since if name in self.temporal},
        )
        held._note_times(columns)
        return held if len(held.parts) < _MAX_PARTS else replace(held, parts=(held._joined(),))

    def _wanted(self, table: Table) -> dict[str, Any]:
        names: Iterable[str] = self.since if self._rejects and self.n_rows else table.columns
        nothing = pa.nulls(table.n_rows)
        return {name: table.columns.get(name, nothing) for name in names}

    def _count_by_rows(
        self, columns: dict[str, Any], n_values: Counter[str], since: dict[str, int]
    ) -> None:
        """Count values row after row, and forget columns whenever there are too many."""
        found = [np.flatnonzero(as_numpy(array.is_valid())) for array in columns.values()]
        rows = np.concatenate(found)
        places = np.repeat(np.arange(len(found)), [len(part) for part in found])
        names = list(columns)
        order = np.lexsort((places, rows))
        last = -1
        for row, place in zip(rows[order].tolist(), places[order].tolist(), strict=True):
            if row > last and len(since) > MAX_COLUMNS:
                _thin_out(n_values, since)
            last = row
            n_values[names[place]] += 1
            since.setdefault(names[place], self.n_rows + row)
        if len(since) > MAX_COLUMNS:
            _thin_out(n_values, since)

    def _note_times(self, columns: dict[str, Any]) -> None:
        n_before = self.n_rows - self.parts[-1].n_rows
        for name, array in columns.items():
            if name not in self.since:
                continue
            first = self.since[name] - n_before
            times, values = _holds(array if first <= 0 else array[first:])
            if values:
                self.temporal[name] = False
            elif times or pa.types.is_temporal(array.type):
                self.temporal.setdefault(name, True)

    def problems(self, table: Table) -> dict[int, DataError]:
        """Return what is wrong with rows of a table that cannot be held after these, by row."""
        columns = self._wanted(table)
        found: dict[int, DataError] = {}
        contested: dict[str, tuple[NDArray[np.bool_], NDArray[np.bool_]]] = {}
        for name, array in columns.items():
            if name in table.unread:
                for row in table.unread[name].problems:
                    found.setdefault(row, table.unread[name].error(name, row))
            if self._rejects:
                self._note_missing(found, name, array)
            times, values = _holds(array)
            held = self.temporal.get(name)
            if (times and (values or held is False)) or (values and held):
                contested[name] = _times_and_values(array)
        if contested:
            self._note_contested(found, contested)
        if len(columns) > MAX_COLUMNS:
            _note_crowded(found, columns)
        return found

    def _note_missing(self, found: dict[int, DataError], name: str, array: Any) -> None:
        for row in np.flatnonzero(missing_cells(array)).tolist():
            problem = "the value is missing, and missing values are rejected"
            found.setdefault(row, DataError(problem, column=name, row=row))

    def _note_contested(
        self,
        found: dict[int, DataError],
        contested: dict[str, tuple[NDArray[np.bool_], NDArray[np.bool_]]],
    ) -> None:
        """Refuse rows one after the other that do not go with those before them."""
        temporal = dict(self.temporal)
        values_win = self.values_win and not self._rejects
        for row in range(len(next(iter(contested.values()))[0])):
            here = {
                name: bool(times[row])
                for name, (times, values) in contested.items()
                if times[row] or values[row]
            }
            wrong = [
                name
                for name, is_time in here.items()
                if temporal.get(name, is_time) != is_time and not (values_win and not is_time)
            ]
            if row not in found and not wrong:
                temporal |= here
            elif wrong:
                what = "a time among other values" if here[wrong[0]] else "a value among times"
                error = DataError(f"{what}; {ALLOWED}", column=wrong[0], row=row)
                found.setdefault(row, error)

    def table(self) -> Table:
        """Return the rows as a table to infer a schema from."""
        columns = {}
        for name, array in self._joined().columns.items():
            if self.temporal.get(name):
                columns[name] = pa.nulls(self.n_rows, pa.timestamp("s"))
            else:
                columns[name] = without_times(array)
        return Table(self.n_rows, columns)

    def _joined(self) -> Table:
        columns = {}
        for name, first in self.since.items():
            arrays, start = [], 0
            for part in self.parts:
                array, stop = part.columns.get(name), start + part.n_rows
                if array is None or stop <= first:
                    arrays.append(pa.nulls(part.n_rows))
                else:
                    n_forgotten = max(0, first - start)
                    parts = [pa.nulls(n_forgotten), array[n_forgotten:]]
                    arrays += parts if n_forgotten else [array]
                start = stop
            columns[name] = unified(arrays)
        return Table(self.n_rows, columns)

    def state(self) -> dict[str, Any]:
        """Return the rows as plain values and arrays that hold every value exactly."""
        columns = self._joined().columns
        return {
            "n_rows": self.n_rows,
            "names": sorted(columns),
            "columns": [_column_state(columns[name]) for name in sorted(columns)],
            "times": sorted(name for name, temporal in self.temporal.items() if temporal),
        }

    def from_state(self, state: Any) -> PendingRows:
        """Return the rows that gave ``state``, under the same settings.

        Raises FormatError if it is something else.
        """
        try:
            if isinstance(state, str):  # as version 6 of snapshots has it
                n_rows, columns, times = _read_json(state)
            else:
                n_rows, times = state["n_rows"], state["times"]
                read = [_read_column(one, n_rows) for one in state["columns"]]
                columns = dict(zip(state["names"], read, strict=True))
        except (TypeError, ValueError, KeyError) as error:
            raise FormatError(f"not rows that are held: {error!r}") from error
        if not n_rows:
            return self
        held = replace(self, missing=MissingPolicy.LEVEL).add(Table(n_rows, columns))
        temporal = held.temporal | dict.fromkeys(times, True)
        return replace(held, missing=self.missing, temporal=temporal)


def _column_state(array: Any) -> dict[str, Any]:
    """Return a column of rows that are held: equal cells give equal arrays."""
    if pa.types.is_null(array.type):
        return {}
    if is_mixed(array):
        kinds = kinds_of(array)
        # When a time was is not asked any more.
        told = pa.array((kinds != NO_KIND) & (kinds != Kind.TIME))
        return {"kinds": kinds, **_levels_state(mixed_texts(array).filter(told))}
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    valid = {} if not array.null_count else {"valid": np.packbits(as_numpy(array.is_valid()))}
    present = array.drop_null()
    if is_text(array.type):
        return valid | _levels_state(present.cast(pa.large_binary()))
    return valid | _numbers_state(as_numpy(present))


def _levels_state(texts: Any) -> dict[str, Any]:
    coded = texts.dictionary_encode()
    levels = [text.decode("utf-8", "surrogatepass") for text in coded.dictionary.to_pylist()]
    codes = as_numpy(coded.indices)
    return {"codes": codes.astype(np.min_scalar_type(len(levels))), "levels": levels}


def _numbers_state(values: NDArray[Any]) -> dict[str, Any]:
    """Return numbers as whole ones of few bytes: a float with few decimal digits times those."""
    if values.dtype.kind != "f":
        return {"type": str(values.dtype), "values": _narrowed(values)}
    values = values + 0.0  # a zero below zero is zero
    for digits in range(_MOST_DIGITS + 1):
        whole = np.rint(values * 10.0**digits)
        if not (np.abs(whole) < _EXACT).all():
            break
        if (whole / 10.0**digits == values).all():
            numbers = _narrowed(whole.astype(np.int64))
            return {"type": "float64", "values": numbers, "digits": digits}
    return {"type": "float64", "values": values}


_MOST_DIGITS: Final = 6
_EXACT: Final = 2.0**53  # up to here a float counts without gaps


def _narrowed(values: NDArray[Any]) -> NDArray[Any]:
    if not values.size or values.dtype.kind == "b":
        return values
    narrow = np.promote_types(np.min_scalar_type(values.min()), np.min_scalar_type(values.max()))
    return values if narrow.kind == "f" else values.astype(narrow)


def _read_column(state: Mapping[str, Any], n_rows: int) -> Any:
    if not state:
        return pa.nulls(n_rows)
    if "kinds" in state:
        kinds = state["kinds"]
        told = (kinds != NO_KIND) & (kinds != Kind.TIME)
        texts = _read_levels(state, told, pa.large_binary()).fill_null(b"")
        return mixed_column(pa.array(kinds, mask=kinds == NO_KIND), texts)
    valid = np.ones(n_rows, np.bool_)
    if "valid" in state:
        valid = np.unpackbits(state["valid"], count=n_rows).astype(np.bool_)
    if "levels" in state:
        return _read_levels(state, valid, pa.large_string())
    values = state["values"]
    if "digits" in state:
        values = values / 10.0 ** state["digits"]
    return _spread(pa.array(values.astype(state["type"])), valid)


def _read_levels(state: Mapping[str, Any], valid: NDArray[np.bool_], kind: Any) -> Any:
    levels = pa.array([one.encode("utf-8", "surrogatepass") for one in state["levels"]], kind)
    return _spread(levels.take(pa.array(state["codes"])), valid)


def _spread(present: Any, valid: NDArray[np.bool_]) -> Any:
    """Return values with a null where there is none."""
    return present.take(pa.array(np.cumsum(valid) - 1, mask=~valid)) if len(valid) else present


def _thin_out(n_values: Counter[str], since: dict[str, int]) -> None:
    """Keep the half of the columns that have the most values, the earlier ones first."""
    kept = set(heapq.nlargest(MAX_COLUMNS // 2, since, key=n_values.__getitem__))
    for name in [name for name in since if name not in kept]:
        del since[name], n_values[name]


def _holds(array: Any) -> tuple[bool, bool]:
    if array.null_count == len(array):
        return False, False
    if pa.types.is_temporal(array.type):
        return True, False
    if pa.types.is_floating(array.type):
        return False, not np.isnan(as_numpy(array)).all()
    if not is_mixed(array):
        return False, True
    times, values = _times_and_values(array)
    return bool(times.any()), bool(values.any())


def _times_and_values(array: Any) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    times = time_cells(array)
    present = as_numpy(array.is_valid())
    if pa.types.is_floating(array.type):
        present = ~as_numpy(array.is_null(nan_is_null=True))
    return times, present & ~times


def _note_crowded(found: dict[int, DataError], columns: dict[str, Any]) -> None:
    n_cells = sum(as_numpy(array.is_valid()).astype(np.int64) for array in columns.values())
    for row in np.flatnonzero(np.asarray(n_cells) > MAX_COLUMNS).tolist():
        n_here = int(np.asarray(n_cells)[row])
        problem = f"a row with {n_here} columns; at most {MAX_COLUMNS} are allowed"
        found.setdefault(row, DataError(problem, row=row))


def _read_json(text: str) -> tuple[int, dict[str, Any], list[str]]:
    data = json.loads(text)
    cells = [list(map(_restored, column)) for column in data["columns"]]
    columns = dict(zip(data["names"], cells, strict=True))
    return data["n_rows"], dict(read_batch(columns, exact=True).columns), data["times"]


def _restored(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    if value != {"mark": "time"}:
        raise ValueError(f"{value!r} is no cell")
    return _TIME


_VERSION: Final = 2


class Encoded(NamedTuple):
    codes: NDArray[np.uint8]  # [variables, rows]
    times: NDArray[np.float64] | None = None  # [rows], in seconds since the epoch
    events: tuple[SchemaEvent, ...] = ()  # by column name
    source: Table | None = None  # the rows with events, which are the last ones
    schema: Schema | None = None  # with which they were encoded
    records: Records | None = None  # [rows], their numbers, where windows keep some of them
    until: int | None = None  # how many records the stream has had, where windows keep some

    def events_between(self, start: int, stop: int) -> tuple[SchemaEvent, ...]:
        """Return the events of some of the rows alone."""
        if self.source is None or self.schema is None:
            return ()
        n_before = self.codes.shape[1] - self.source.n_rows
        start, stop = max(0, start - n_before), stop - n_before
        if start >= stop:
            return ()
        return encode_table(self.source.slice(start, stop), self.schema).events


class _Batch(NamedTuple):
    """Rows that were read, with their event times where one column has these.

    They have the numbers of their records where windows keep some of them.
    """

    table: Table
    times: NDArray[np.float64] | None = None  # [rows]
    records: Records | None = None  # [rows]

    @property
    def n_rows(self) -> int:
        return self.table.n_rows

    def part(self, start: int, stop: int) -> _Batch:
        times = None if self.times is None else self.times[start:stop]
        records = None if self.records is None else self.records[start:stop]
        return _Batch(self.table.slice(start, stop), times, records)

    def of_arrays(self) -> _Batch:
        return self._replace(table=self.table.of_arrays())

    def without(self, rows: NDArray[np.bool_]) -> _Batch:
        kept = np.flatnonzero(~rows)
        times = None if self.times is None else self.times[kept]
        records = None if self.records is None else self.records[kept]
        return _Batch(self.table.take(kept), times, records)


class Intake:
    """Takes the batches of a stream and returns them as codes.

    Until the schema is known, rows are held. It is inferred from the first ``row_limit`` rows that
    can be read, for time windows from 5000 at most: from exactly these, so that neither the schema
    nor the codes depend on how the stream is cut into batches. Constant and duplicate columns are
    kept as variables, because they may not stay so.

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
        self._threshold: int | None = None  # hashes of records above it are not read
        self._sampled = config.max_rows_per_window is not None
        if config.max_rows_per_window is not None:
            self._n_wanted = min(self._n_wanted, config.max_rows_per_window)
            if config.windows.seconds is None:
                self._threshold = candidate_threshold(limit, config.max_rows_per_window)
        self._schema = config.variables
        self._held = PendingRows(config.schema.missing, values_win=self._lenient)
        self._times = np.zeros(0)  # of the rows held
        self._records = np.zeros(0, np.int64)  # of the rows held, where windows keep some of them
        self._n_seen = 0  # records of the stream, where windows keep some of them
        self._n_rejected = 0

    @property
    def schema(self) -> Schema | None:
        """What the codes mean; ``None`` until it is known."""
        return self._schema

    @property
    def n_rejected(self) -> int:
        return self._n_rejected

    @property
    def n_pending(self) -> int:
        """Records that wait for the schema."""
        if self._sampled and self._schema is None:
            return self._n_seen
        return self._held.n_rows

    def take(self, batch: object, records: ArrayLike | None = None) -> Encoded | None:
        """Take in a batch and return its rows as codes, after those that were held.

        Returns ``None`` if no rows are left, or if they are held because the schema is not known
        yet.

        ``batch``: any table that ``read_batch`` takes, with any number of rows, also none; or an
        ``EncodedTable`` in the schema of this intake, once there is one and if there is no column
        with event times. ``records``: numbers of the rows in the stream, where windows keep some of
        them and others were left out before.

        Raises DataError if a row cannot be read and rows are not to be left out, or if the batch as
        a whole is no table. Nothing of it is taken in.
        """
        if records is not None and not self._sampled:
            raise DataError("records are numbered only where max_rows_per_window is set")
        if isinstance(batch, EncodedTable):
            return self._take_codes(batch, records)
        if not self._sampled:
            table = self._read(batch)
            n_given = len(batch) if isinstance(batch, list | tuple) else table.n_rows
            return self._take_rows(n_given, self._timed(table, None))
        if isinstance(batch, list | tuple):
            numbers, places, until = self._numbered(len(batch), records)
            batch = [batch[place] for place in places.tolist()]
            n_given, table, numbers = len(batch), self._read(batch), numbers[places]
            if table.n_rows < n_given:
                numbers = numbers[[is_record(one) for one in batch]]
        else:
            table = self._read(batch)
            numbers, places, until = self._numbered(table.n_rows, records)
            if len(places) < table.n_rows:
                table, numbers = table.take(places), numbers[places]
            n_given = table.n_rows
        encoded = self._take_rows(n_given, self._timed(table, numbers))
        return self._seen_until(until, encoded)

    def _read(self, batch: object) -> Table:
        skip = () if self._schema is None else self._schema.ignored - {self.config.time_column}
        return read_batch(batch, skip=skip, exact=self._schema is None, lenient=self._lenient)

    def _take_rows(self, n_given: int, read: _Batch) -> Encoded | None:
        if self._schema is None:
            return self._hold(n_given, read)
        encoded = self._encode(read, self._schema)
        self._n_rejected += n_given - (0 if encoded is None else encoded.codes.shape[1])
        return encoded

    def _numbered(
        self, n_rows: int, given: ArrayLike | None
    ) -> tuple[Records, NDArray[np.intp], int]:
        """Return the numbers of rows, which of them a window may keep, and the number after."""
        records = np.arange(self._n_seen, self._n_seen + n_rows)
        if given is not None:
            records = np.asarray(given)
            rising = records.shape == (n_rows,) and records.dtype.kind in "iu"
            if not rising or (np.diff(records, prepend=self._n_seen - 1) <= 0).any():
                problem = f"rising numbers from {self._n_seen} on, one for each of {n_rows} rows"
                raise DataError(f"records must be {problem}")
            records = records.astype(np.int64)
        places = np.arange(n_rows)
        if self._threshold is not None:
            places = np.flatnonzero(record_hash(records) <= self._threshold)
        return records, places, int(records[-1]) + 1 if n_rows else self._n_seen

    def _seen_until(self, until: int, encoded: Encoded | None) -> Encoded | None:
        """Note how many records there were; windows may end by those that were left out."""
        self._n_seen = until
        if encoded is None and self._schema is not None:
            times = None if self.config.time_column is None else np.zeros(0)
            codes = np.zeros((len(self._schema.names), 0), np.uint8)
            encoded = Encoded(codes, times, records=np.zeros(0, np.int64))
        return encoded and encoded._replace(until=until)

    def _take_codes(self, table: EncodedTable, records: ArrayLike | None) -> Encoded | None:
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
        if self._sampled:
            numbers, places, until = self._numbered(table.n_rows, records)
            return self._seen_until(until, Encoded(table.codes[:, places], records=numbers[places]))
        return Encoded(table.codes) if table.n_rows else None

    def finish(self) -> Encoded | None:
        """End the stream: infer the schema from the rows held, if any, and return their codes."""
        if not self._held.n_rows:
            return None
        nothing = _Batch(Table(0, {}))
        encoded = self._infer(self._held, self._times, self._records, nothing, 0)
        return encoded._replace(until=self._n_seen) if self._sampled else encoded

    def _timed(self, table: Table, records: Records | None) -> _Batch:
        """Return rows with their event times, without those that have none if they may go."""
        name = self.config.time_column
        if name is None or not table.n_rows:
            return _Batch(table, None, records)
        if name not in table.columns and not self._lenient:
            problem = "the column with event times is absent; it must be there"
            raise DataError(problem, column=name)
        times = times_of(table.array(name) if name in table.columns else pa.nulls(table.n_rows))
        readable = have_slots(times, self.config.windows)
        if not readable.all() and not self._lenient:
            raise _bad_time(name, table, int(np.argmin(readable)))
        timed = _Batch(table.without(name), times, records)
        return timed if readable.all() else timed.without(~readable)

    def _hold(self, n_given: int, batch: _Batch) -> Encoded | None:
        held, times, records, start = self._held, self._times, self._records, 0
        while start < batch.n_rows and held.n_rows < self._n_wanted:
            stop = min(batch.n_rows, start + self._n_next(held, batch))
            part = self._readable(held, batch.part(start, stop).of_arrays(), start)
            held = held.add(part.table)
            times = times if part.times is None else np.append(times, part.times)
            records = records if part.records is None else np.append(records, part.records)
            start = stop
        n_before = self._held.n_rows
        n_taken = held.n_rows - n_before
        encoded = None
        if held.n_rows == self._n_wanted:
            rest = batch.part(start, batch.n_rows)
            encoded = self._infer(held, times, records, rest, start)
            n_taken = encoded.codes.shape[1] - n_before
        else:
            self._held, self._times, self._records = held, times, records
        self._n_rejected += n_given - n_taken
        return encoded

    def _n_next(self, held: PendingRows, batch: _Batch) -> int:
        """Return how many rows may be held at once."""
        rejects = self.config.schema.missing is MissingPolicy.REJECT
        if rejects and batch.table.of_records and not held.n_rows:
            return 1  # the first record says which columns there are
        return self._n_wanted - held.n_rows

    def _readable(self, held: PendingRows, part: _Batch, offset: int) -> _Batch:
        """Return the rows that can be held, which must be all if none are to be left out."""
        problems = held.problems(part.table)
        if not problems:
            return part
        if not self._lenient:
            raise _shifted(problems[min(problems)], offset)
        bad = np.zeros(part.n_rows, np.bool_)
        bad[list(problems)] = True
        return part.without(bad)

    def _infer(
        self,
        held: PendingRows,
        times: NDArray[np.float64],
        records: Records,
        rest: _Batch,
        offset: int,
    ) -> Encoded:
        """Infer the schema from the rows held and return them and the rest as codes."""
        config = replace(self.config.schema, keep_constant=True, keep_duplicates=True)
        schema, codes = infer_schema(held.table(), config, grid=True)
        encoded = Encoded(codes, None if self.config.time_column is None else times)
        encoded = encoded._replace(records=records if self._sampled else None)
        try:
            after = self._encode(rest, schema)
        except DataError as error:
            raise _shifted(error, offset) from None
        if after is not None:
            both = np.hstack([codes, after.codes])
            all_times = None if after.times is None else np.append(times, after.times)
            numbers = None if after.records is None else np.append(records, after.records)
            encoded = after._replace(codes=both, times=all_times, records=numbers)
        self._schema = schema
        self._held, self._times = PendingRows(held.missing, values_win=self._lenient), np.zeros(0)
        self._records = np.zeros(0, np.int64)
        return encoded

    def _encode(self, batch: _Batch, schema: Schema) -> Encoded | None:
        if not batch.n_rows:
            return None
        try:
            table = encode_table(batch.table, schema)
        except DataError:
            refused = refused_rows(batch.table, schema)
            if not self._lenient or not refused.any():
                raise
            return self._encode(batch.without(refused), schema)
        if not table.events:
            return Encoded(table.codes, batch.times, records=batch.records)
        return Encoded(
            table.codes, batch.times, table.events, batch.table, schema, records=batch.records
        )

    def state(self) -> dict[str, Any]:
        """Return all that a later ``from_state`` needs, as plain values and arrays."""
        return {
            "version": _VERSION,
            "schema": None if self._schema is None else self._schema.to_dict(),
            "n_rejected": self._n_rejected,
            "pending": self._held.state(),
            "times": self._times,
            "records": self._records,
            "n_seen": self._n_seen,
        }

    @classmethod
    def from_state(cls, config: MonitorConfig, state: Mapping[str, Any]) -> Intake:
        """Return an intake that goes on where the one that gave ``state`` stood.

        Raises FormatError if it is something else, of another version, or does not fit the
        settings.
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
        intake._held = intake._held.from_state(state.get("pending"))
        intake._records = state.get("records", intake._records)
        intake._n_seen = state.get("n_seen", 0)
        n_rows = intake._held.n_rows
        n_times = 0 if config.time_column is None else n_rows
        if not isinstance(times, np.ndarray) or (times.dtype, times.shape) != (float, (n_times,)):
            raise FormatError(f"intake state 'times' must be float64 of shape ({n_times},)")
        intake._times = times
        if config.variables is not None and intake._schema != config.variables:
            raise FormatError("intake state has another schema than the settings")
        if intake._schema is not None and n_rows:
            raise FormatError("intake state holds rows, although its schema is known")
        if n_rows >= intake._n_wanted:
            raise FormatError(f"intake state holds {n_rows} rows, which do not fit the settings")
        return intake


def _shifted(error: DataError, offset: int) -> DataError:
    """Return an error about a part with its row counted from the start of the batch."""
    row = None if error.row is None else error.row + offset
    return DataError(error.problem, column=error.column, row=row, value=error.value)


def _bad_time(name: str, table: Table, row: int) -> DataError:
    unread = table.unread.get(name)
    cells = table.array(name) if unread is None or row not in unread.problems else unread.values
    value = value_at(cells, row)
    try:
        shown = repr(value)
    except ValueError:  # Python writes no more than 4300 digits
        shown = type(value).__name__
    problem = (
        f"{shown[:_MAX_SHOWN]} is no event time: it must be a finite number of seconds since the "
        "epoch, a date and time, or the ISO 8601 text of one, and not too far from the origin of "
        "time windows"
    )
    return DataError(problem, column=name, row=row, value=value)
