"""Rows of a stream that wait, in columns, until its schema can be inferred."""

from __future__ import annotations

import heapq
import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from driftbn.config import MissingPolicy
from driftbn.errors import DataError, FormatError
from driftbn.tables.cells import (
    ALLOWED,
    as_numpy,
    cells_of,
    is_mixed,
    missing_cells,
    time_cells,
    unified,
    without_times,
)
from driftbn.tables.read import Table, read_batch

MAX_COLUMNS: Final = 4096
"""Columns that rows have together at most until the schema is known."""
_MAX_PARTS: Final = 64
"""Tables held apart; more are put together."""
_TIME: Final = date(1970, 1, 1)
_HELD: Final = (type(None), bool, int, float, str, date)


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
        for name, array in columns.items():
            if name not in self.since:
                continue
            first = self.since[name] - self._n_before()
            times, values = _holds(array if first <= 0 else array[first:])
            if values:
                self.temporal[name] = False
            elif times or pa.types.is_temporal(array.type):
                self.temporal.setdefault(name, True)

    def _n_before(self) -> int:
        return self.n_rows - self.parts[-1].n_rows

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

    def to_json(self) -> str:
        """Return the rows as JSON text that holds every value exactly."""
        columns = self._joined().columns
        names = sorted(columns)
        cells = [list(map(_stored, cells_of(columns[name]))) for name in names]
        times = sorted(name for name, temporal in self.temporal.items() if temporal)
        data = {"n_rows": self.n_rows, "names": names, "columns": cells, "times": times}
        return json.dumps(data, allow_nan=False, separators=(",", ":"))

    def from_json(self, text: Any) -> PendingRows:
        """Return the rows that ``to_json`` wrote, under the same settings.

        Raises FormatError if it is something else.
        """
        try:
            data = json.loads(text)
            n_rows, names, columns = data["n_rows"], data["names"], data["columns"]
            read = [list(map(_restored, column)) for column in columns]
            cells = dict(zip(names, read, strict=True))
            times = dict.fromkeys(data["times"], True)
        except (TypeError, ValueError, KeyError) as error:
            raise FormatError(f"not rows that are held: {error!r}") from error
        if not _fits(n_rows, cells) or not times.keys() <= cells.keys():
            raise FormatError(f"rows that are held must be {n_rows!r} plain values a column")
        if not n_rows:
            return self
        table = read_batch(cells, exact=True) if cells else Table(n_rows, {})
        held = replace(self, missing=MissingPolicy.LEVEL).add(table)
        return replace(held, missing=self.missing, temporal=held.temporal | times)


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
    if not is_mixed(array) and not pa.types.is_floating(array.type):
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


def _stored(cell: Any) -> object:
    if isinstance(cell, tuple):
        return {"mark": "time"}
    if isinstance(cell, float) and not math.isfinite(cell):
        return {"float": repr(cell)}
    return cell


def _restored(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    if value != {"mark": "time"}:
        raise ValueError(f"{value!r} is no cell")
    return _TIME


def _fits(n_rows: object, held: dict[Any, list[Any]]) -> bool:
    named = all(isinstance(name, str) and name for name in held)
    whole = all(len(cells) == n_rows for cells in held.values())
    plain = all(isinstance(cell, _HELD) for cells in held.values() for cell in cells)
    return type(n_rows) is int and n_rows >= 0 and named and whole and plain
