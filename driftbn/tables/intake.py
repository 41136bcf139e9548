"""Where batches of a stream become codes, whatever they are made of and however cut.

Rows wait, in columns, until a schema can be inferred from them.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from driftbn.config import DEFAULT_SIZE, ErrorPolicy, MissingPolicy, MonitorConfig
from driftbn.errors import DataError
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
            parts=(*self.parts, replace(table, columns=columns, unread={}, given=None)),
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
            for row in table.unread.get(name, ()):
                found.setdefault(row, table.error(name, row))
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
        joined, columns = self._joined(), {}
        for name, array in joined.columns.items():
            if self.temporal.get(name):
                columns[name] = pa.nulls(self.n_rows, pa.timestamp("s"))
            else:
                columns[name] = without_times(array)
        return replace(joined, columns=columns)

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
        times, records = ([getattr(part, of) for part in self.parts] for of in ("times", "records"))
        return Table(self.n_rows, columns, times=_one_after(times), records=_one_after(records))

    def state(self) -> dict[str, Any]:
        """Return the rows as plain values and arrays that hold every value exactly."""
        joined = self._joined()
        columns = joined.columns
        rows = {
            "n_rows": self.n_rows,
            "names": sorted(columns),
            "columns": [_column_state(columns[name]) for name in sorted(columns)],
            "times": sorted(name for name, temporal in self.temporal.items() if temporal),
        }
        times, records = joined.times, joined.records
        return {
            "pending": rows,
            "times": np.zeros(0) if times is None else times,
            "records": np.zeros(0, np.int64) if records is None else records,
        }

    def from_state(self, state: Mapping[str, Any]) -> PendingRows:
        """Return the rows that gave ``state``, under the same settings."""
        rows = state["pending"]
        if isinstance(rows, str):  # as version 6 of snapshots has it
            n_rows, columns, temporal = _read_json(rows)
        else:
            n_rows, temporal = rows["n_rows"], rows["times"]
            read = [_read_column(one, n_rows) for one in rows["columns"]]
            columns = dict(zip(rows["names"], read, strict=True))
        times, records = (_given(state.get(of)) for of in ("times", "records"))
        table = Table(n_rows, columns, times=times, records=records)
        held = replace(self, missing=MissingPolicy.LEVEL).add(table)
        known = held.temporal | dict.fromkeys(temporal, True)
        return replace(held, missing=self.missing, temporal=known)


def _given(array: NDArray[Any] | None) -> NDArray[Any] | None:
    return array if array is not None and array.size else None


def _one_after(parts: Sequence[NDArray[Any] | None]) -> NDArray[Any] | None:
    """Return arrays one after the other; ``None`` where rows have none."""
    arrays = [part for part in parts if part is not None]
    return np.concatenate(arrays) if arrays else None


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
    records: Records | None = None  # [rows], their numbers, where windows keep some of them
    until: int | None = None  # how many records the stream has had, where windows keep some
    events: tuple[SchemaEvent, ...] = ()  # by column name
    source: Table | None = None  # the rows with events, which are the last ones
    schema: Schema | None = None  # with which they were encoded

    def events_between(self, start: int, stop: int) -> tuple[SchemaEvent, ...]:
        """Return the events of some of the rows alone."""
        if self.source is None or self.schema is None:
            return ()
        n_before = self.codes.shape[1] - self.source.n_rows
        start, stop = max(0, start - n_before), stop - n_before
        if start >= stop:
            return ()
        return encode_table(self.source.slice(start, stop), self.schema).events


class _Picked(NamedTuple):
    """The rows of a batch that a window may keep."""

    places: NDArray[np.intp] | None = None  # all, if not given
    records: Records | None = None  # their numbers, where windows keep some of them
    until: int | None = None  # how many records the stream has had with the batch


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
        self._held = self._nothing = PendingRows(config.schema.missing, values_win=self._lenient)
        self._n_seen = 0  # records of the stream, where windows keep some of them
        self.n_rejected = 0

    @property
    def schema(self) -> Schema | None:
        """What the codes mean; ``None`` until it is known."""
        return self._schema

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
        if isinstance(batch, list | tuple):
            picked = self._pick(len(batch), records)
            rows = batch if picked.places is None else [batch[i] for i in picked.places.tolist()]
            table, n_given, numbers = self._read(rows), len(rows), picked.records
            if numbers is not None and table.n_rows < n_given:
                numbers = numbers[[is_record(one) for one in rows]]
        else:
            table = self._read(batch)
            picked = self._pick(table.n_rows, records)
            table = table if picked.places is None else table.take(picked.places)
            n_given, numbers = table.n_rows, picked.records
        table = self._timed(replace(table, records=numbers))
        n_before = self._held.n_rows
        encoded = self._hold(table) if self._schema is None else self._encode(table, self._schema)
        n_now = self._held.n_rows if encoded is None else encoded.codes.shape[1]
        self.n_rejected += n_given - (n_now - n_before)
        return self._seen_until(picked.until, encoded)

    def _read(self, batch: object) -> Table:
        skip = () if self._schema is None else self._schema.ignored - {self.config.time_column}
        return read_batch(batch, skip=skip, exact=self._schema is None, lenient=self._lenient)

    def _pick(self, n_rows: int, given: ArrayLike | None) -> _Picked:
        """Say which rows of a batch a window may keep."""
        if not self._sampled:
            return _Picked()
        records = np.arange(self._n_seen, self._n_seen + n_rows)
        if given is not None:
            records = np.asarray(given)
            rising = records.shape == (n_rows,) and records.dtype.kind in "iu"
            if not rising or (np.diff(records, prepend=self._n_seen - 1) <= 0).any():
                problem = f"rising numbers from {self._n_seen} on, one for each of {n_rows} rows"
                raise DataError(f"records must be {problem}")
            records = records.astype(np.int64)
        until = int(records[-1]) + 1 if n_rows else self._n_seen
        if self._threshold is None:
            return _Picked(None, records, until)
        places = np.flatnonzero(record_hash(records) <= self._threshold)
        return _Picked(places, records[places], until)

    def _seen_until(self, until: int | None, encoded: Encoded | None) -> Encoded | None:
        """Note how many records there were; windows may end by those that were left out."""
        if until is None:
            return encoded
        self._n_seen = until
        if encoded is None and self._schema is not None:
            times = None if self.config.time_column is None else np.zeros(0)
            codes = np.zeros((len(self._schema.names), 0), np.uint8)
            encoded = Encoded(codes, times, np.zeros(0, np.int64))
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
        picked = self._pick(table.n_rows, records)
        codes = table.codes if picked.places is None else table.codes[:, picked.places]
        encoded = Encoded(codes, records=picked.records) if codes.shape[1] else None
        return self._seen_until(picked.until, encoded)

    def finish(self) -> Encoded | None:
        """End the stream: infer the schema from the rows held, if any, and return their codes."""
        if not self._held.n_rows:
            return None
        encoded = self._infer(self._held, Table(0, {}), 0)
        return encoded._replace(until=self._n_seen) if self._sampled else encoded

    def _timed(self, table: Table) -> Table:
        """Return rows with their event times, without those that have none if they may go."""
        name = self.config.time_column
        if name is None or not table.n_rows:
            return table
        if name not in table.columns and not self._lenient:
            problem = "the column with event times is absent; it must be there"
            raise DataError(problem, column=name)
        known = name in table.columns
        times = times_of(table.array(name) if known else pa.nulls(table.n_rows))
        readable = have_slots(times, self.config.windows)
        if not readable.all() and not self._lenient:
            raise _bad_time(name, table, int(np.argmin(readable)))
        timed = replace(table.without(name), times=times)
        return timed if readable.all() else timed.take(np.flatnonzero(readable))

    def _hold(self, table: Table) -> Encoded | None:
        held, start = self._held, 0
        while start < table.n_rows and held.n_rows < self._n_wanted:
            stop = min(table.n_rows, start + self._n_next(held, table))
            held = held.add(self._readable(held, table.slice(start, stop).of_arrays(), start))
            start = stop
        if held.n_rows == self._n_wanted:
            return self._infer(held, table.slice(start, table.n_rows), start)
        self._held = held
        return None

    def _n_next(self, held: PendingRows, table: Table) -> int:
        """Return how many rows may be held at once."""
        rejects = self.config.schema.missing is MissingPolicy.REJECT
        if rejects and table.of_records and not held.n_rows:
            return 1  # the first record says which columns there are
        return self._n_wanted - held.n_rows

    def _readable(self, held: PendingRows, table: Table, offset: int) -> Table:
        """Return the rows that can be held, which must be all if none are to be left out."""
        problems = held.problems(table)
        if problems and not self._lenient:
            raise _shifted(problems[min(problems)], offset)
        return table.take(np.setdiff1d(np.arange(table.n_rows), [*problems])) if problems else table

    def _infer(self, held: PendingRows, rest: Table, offset: int) -> Encoded:
        """Infer the schema from the rows held and return them and the rest as codes."""
        config = replace(self.config.schema, keep_constant=True, keep_duplicates=True)
        table = held.table()
        schema, codes = infer_schema(table, config, grid=True)
        try:
            after = self._encode(rest, schema)
        except DataError as error:
            raise _shifted(error, offset) from None
        encoded = Encoded(codes, table.times, table.records)
        if after is not None:
            encoded = after._replace(
                codes=np.hstack([codes, after.codes]),
                times=_one_after([table.times, after.times]),
                records=_one_after([table.records, after.records]),
            )
        self._schema, self._held = schema, self._nothing
        return encoded

    def _encode(self, table: Table, schema: Schema) -> Encoded | None:
        if not table.n_rows:
            return None
        try:
            found = encode_table(table, schema)
        except DataError:
            refused = refused_rows(table, schema)
            if not self._lenient or not refused.any():
                raise
            return self._encode(table.take(np.flatnonzero(~refused)), schema)
        encoded = Encoded(found.codes, table.times, table.records)
        if not found.events:
            return encoded
        return encoded._replace(events=found.events, source=table, schema=schema)

    def state(self) -> dict[str, Any]:
        """Return all that a later ``from_state`` needs, as plain values and arrays."""
        return {
            "version": _VERSION,
            "schema": None if self._schema is None else self._schema.to_dict(),
            "n_rejected": self.n_rejected,
            **self._held.state(),
            "n_seen": self._n_seen,
        }

    @classmethod
    def from_state(cls, config: MonitorConfig, state: Mapping[str, Any]) -> Intake:
        """Return an intake that goes on where the one stood that gave ``state``."""
        intake, schema = cls(config), state["schema"]
        intake._schema = None if schema is None else Schema.from_dict(schema)
        intake.n_rejected = state["n_rejected"]
        intake._held = intake._held.from_state(state)
        intake._n_seen = state.get("n_seen", 0)
        return intake


def _shifted(error: DataError, offset: int) -> DataError:
    """Return an error about a part with its row counted from the start of the batch."""
    row = None if error.row is None else error.row + offset
    return DataError(error.problem, column=error.column, row=row, value=error.value)


def _bad_time(name: str, table: Table, row: int) -> DataError:
    unread = table.unread.get(name, {}).get(row)
    value = value_at(table.array(name), row) if unread is None else unread.value
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
