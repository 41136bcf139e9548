"""Rows of a stream that are held, cell by cell, until its schema can be inferred."""

from __future__ import annotations

import heapq
import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from numbers import Integral, Real
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from driftbn.encoding.arrow_columns import plain_column
from driftbn.encoding.canonical import ALLOWED, canonical_text, is_missing
from driftbn.encoding.columns import read_column
from driftbn.encoding.factors import Factor, Numbers, Times, texts_of
from driftbn.encoding.tables import Table
from driftbn.errors import DataError, FormatError
from driftbn.schema import MissingPolicy
from driftbn.variables import MISSING, VariableKind

_TEMPORAL: Final = (date, time, timedelta, np.datetime64, np.timedelta64)
_AS_THEY_ARE: Final = frozenset((str, bool, type(None)))
MAX_COLUMNS: Final = 4096
"""Columns that rows have together at most until the schema is known."""
_EXACT: Final = 2**63
"""Whole numbers below this need no look at how many digits they have."""


class Mark(Enum):
    """What stands for a cell that is no plain value."""

    TIME = "time"
    """A date, time or duration; that it is one is all that inference asks."""


class Refused(NamedTuple):
    """A cell that cannot be read."""

    problem: str
    value: object


Cell: TypeAlias = bool | int | float | str | Mark | Refused | None
_HELD: Final = (type(None), bool, int, float, str, Mark)


def read_cells(name: str, raw: Any) -> list[Cell]:
    """Return the cells of a raw column as plain values, each by itself.

    What a cell becomes depends on it alone, or on the type of its column where that has one.
    Missing values are ``None``, values of declared categories their texts, and what cannot be read
    is ``Refused``.

    Examples
    --------
    >>> read_cells("x", [3, "3", float("nan"), date(2024, 1, 1)])
    [3, '3', None, <Mark.TIME: 'time'>]
    """
    if hasattr(raw, "to_pylist") or str(getattr(raw, "dtype", "object")) != "object":
        try:
            return _typed_cells(read_column(name, raw), len(raw))
        except DataError:  # some cell is at fault; which ones is found one by one
            if hasattr(raw, "to_pylist"):
                plain = plain_column(raw)
                return [_arrow_cell(name, plain[row : row + 1]) for row in range(len(plain))]
    values = list(raw)
    return values if _AS_THEY_ARE.issuperset(map(type, values)) else list(map(_cell, values))


def _arrow_cell(name: str, alone: Any) -> Cell:
    try:
        return _typed_cells(read_column(name, alone), 1)[0]
    except DataError as error:
        return None if alone.null_count else Refused(error.problem, error.value)


def _typed_cells(column: Any, n_rows: int) -> list[Cell]:
    if isinstance(column, Times):
        return [Mark.TIME] * n_rows
    if isinstance(column, Numbers):
        missing = column.missing
        cells: list[Cell] = column.values.tolist()
        for row in () if missing is None else np.flatnonzero(missing).tolist():
            cells[row] = None
        return cells
    return _factor_cells(column)


def _factor_cells(factor: Factor) -> list[Cell]:
    n_values = len(factor.values)
    texts: list[Cell] = [None if t == MISSING else t for t in texts_of(factor, range(n_values))]
    if factor.kind is VariableKind.BOOLEAN:
        texts = [None if text is None else text == "true" for text in texts]
    if not isinstance(factor.codes, bytes):
        return [None if code < 0 else texts[code] for code in factor.codes.tolist()]
    return [texts[code] if code < n_values else None for code in factor.codes]


def _cell(value: Any) -> Cell:
    if type(value) is float:
        return value if value == value else None
    if type(value) is int and -_EXACT < value < _EXACT:
        return value
    try:
        if isinstance(value, _TEMPORAL):
            return None if is_missing(value) else Mark.TIME
        return _plain(value, canonical_text(value))
    except (TypeError, ArithmeticError) as error:
        return Refused(str(error), value)
    except ValueError:  # Python writes no more than 4300 digits
        return Refused(f"the number has too many digits; {ALLOWED}", value)


def _plain(value: Any, text: str) -> Cell:
    if isinstance(value, str):
        return str.__str__(value)  # where an enumeration has its value
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if value is None or is_missing(value):
        return None
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real | Decimal) else text


class Place(NamedTuple):
    """How far the rows held reached, to return there."""

    n_rows: int
    columns: dict[str, list[Cell]]
    n_values: Counter[str]
    temporal: dict[str, bool]


class PendingRows:
    """Rows held until the schema can be inferred; a bad one is refused when it comes.

    Which rows are refused, and what is inferred, does not depend on how the rows were cut into
    tables. In a column that has held a value, a time among other values or another value among
    times is refused. Where missing values are rejected, the first table says which columns there
    are; others that come later are left out. Each row may bring other columns: when there are too
    many, those with the fewest values are forgotten.

    Parameters
    ----------
    missing
        What to do with missing values.
    values_win
        Whether another value among times is taken all the same, unless missing values are rejected:
        the column is one of values then, and the times before it are missing. Where bad rows are
        left out, a time that came first would otherwise have all rows after it left out.

    Examples
    --------
    >>> rows = PendingRows(MissingPolicy.LEVEL)
    >>> rows.add(Table(2, {"x": [1, 2]}))
    >>> rows.readable(Table(2, {"x": [3, {}]})).tolist()
    [0]
    >>> rows.add(Table(1, {"x": [3], "y": ["a"]}))
    >>> rows.table()
    Table(n_rows=3, columns={'x': [1, 2, 3], 'y': [None, None, 'a']})
    """

    def __init__(self, missing: MissingPolicy, *, values_win: bool = False) -> None:
        self.missing = missing
        self.values_win = values_win and missing is not MissingPolicy.REJECT
        self.n_rows = 0
        self._columns: dict[str, list[Cell]] = {}  # up to the last row that may have a value
        self._n_values: Counter[str] = Counter()
        self._temporal: dict[str, bool] = {}  # of the columns that have held a value

    def place(self) -> Place:
        """Return how far the rows reach now."""
        return Place(
            self.n_rows, dict(self._columns), Counter(self._n_values), dict(self._temporal)
        )

    def roll_back(self, place: Place) -> None:
        """Forget the rows added since ``place``."""
        self._columns = {name: cells[: place.n_rows] for name, cells in place.columns.items()}
        self.n_rows, self._n_values = place.n_rows, place.n_values
        self._temporal = place.temporal

    def add(self, table: Table) -> None:
        """Add the rows of a table of raw columns.

        Raises
        ------
        DataError
            If a row is bad; it names the first, and nothing is added.
        """
        columns = self._read(table)
        bad = self._problems(columns)
        if bad:
            raise bad[min(bad)]
        if table.n_rows and len(self._columns.keys() | columns.keys()) <= MAX_COLUMNS:
            self._extend(columns, table.n_rows)
            return
        for cells in zip(*columns.values(), strict=True):
            named = zip(columns, cells, strict=True)
            self._extend({name: [cell] for name, cell in named if cell is not None}, 1)
            if len(self._columns) > MAX_COLUMNS:
                self._thin_out()

    def readable(self, table: Table) -> NDArray[np.intp]:
        """Return the rows of a table that can be added, one after the other."""
        bad = self._problems(self._read(table))
        return np.array([row for row in range(table.n_rows) if row not in bad], np.intp)

    def _read(self, table: Table) -> dict[str, list[Cell]]:
        names: Iterable[str] = table.columns
        if self.missing is MissingPolicy.REJECT and self.n_rows:
            names = self._columns
        nothing: list[Cell] = [None] * table.n_rows
        return {
            name: read_cells(name, table.columns[name]) if name in table.columns else nothing
            for name in names
        }

    def _extend(self, columns: dict[str, list[Cell]], n_rows: int) -> None:
        for name, cells in columns.items():
            self._padded(name).extend(cells)
            self._n_values[name] += len(cells) - cells.count(None)
            present = set(map(type, cells)) - {type(None)}
            if present:
                self._temporal[name] = present == {Mark} and self._temporal.get(name, True)
        self.n_rows += n_rows

    def _padded(self, name: str) -> list[Cell]:
        """Return a column with a cell for each of the rows."""
        held = self._columns.setdefault(name, [])
        held.extend([None] * (self.n_rows - len(held)))
        return held

    def _thin_out(self) -> None:
        """Keep the half of the columns that have the most values, the earlier ones first."""
        counts = self._n_values
        kept = set(heapq.nlargest(MAX_COLUMNS // 2, self._columns, key=counts.__getitem__))
        for name in [name for name in self._columns if name not in kept]:
            del self._columns[name], counts[name]
            self._temporal.pop(name, None)

    def _problems(self, columns: dict[str, list[Cell]]) -> dict[int, DataError]:
        """Return what is wrong, by row."""
        found: dict[int, DataError] = {}
        contested: dict[str, list[Cell]] = {}
        for name, cells in columns.items():
            kinds = set(map(type, cells))
            if Refused in kinds:
                _note_refused(found, name, cells)
            if self.missing is MissingPolicy.REJECT:
                _note_missing(found, name, cells)
            held = self._temporal.get(name)
            temporal = set() if held is None else {held}
            if len(temporal | {kind is Mark for kind in kinds - {type(None), Refused}}) > 1:
                contested[name] = cells
        if contested:
            self._note_contested(found, contested)
        if len(columns) > MAX_COLUMNS:
            _note_crowded(found, columns)
        return found

    def _note_contested(
        self, found: dict[int, DataError], contested: dict[str, list[Cell]]
    ) -> None:
        """Refuse rows one after the other that do not go with those before them."""
        temporal = dict(self._temporal)
        for row, cells in enumerate(zip(*contested.values(), strict=True)):
            named = zip(contested, cells, strict=True)
            times = {name: cell is Mark.TIME for name, cell in named if cell is not None}
            wrong = [
                name
                for name, is_time in times.items()
                if temporal.get(name, is_time) != is_time and not (self.values_win and not is_time)
            ]
            if row not in found and not wrong:
                temporal |= times
            elif wrong:
                what = "a time among other values" if times[wrong[0]] else "a value among times"
                error = DataError(f"{what}; {ALLOWED}", column=wrong[0], row=row)
                found.setdefault(row, error)

    def table(self) -> Table:
        """Return the rows as a table to infer a schema from."""
        times = {name for name, temporal in self._temporal.items() if temporal}
        columns = {
            name: Times("times") if name in times else _without_times(self._padded(name))
            for name in self._columns
        }
        return Table(self.n_rows, columns)

    def to_json(self) -> str:
        """Return the rows as JSON text that holds every value exactly."""
        names = sorted(self._columns)
        columns = [list(map(_stored, self._padded(name))) for name in names]
        data = {"n_rows": self.n_rows, "names": names, "columns": columns}
        return json.dumps(data, allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(
        cls, missing: MissingPolicy, text: Any, *, values_win: bool = False
    ) -> PendingRows:
        """Return the rows that ``to_json`` wrote.

        Raises
        ------
        FormatError
            If it is something else.
        """
        try:
            data = json.loads(text)
            n_rows, names, columns = data["n_rows"], data["names"], data["columns"]
            read = [list(map(_restored, column)) for column in columns]
            held = dict(zip(names, read, strict=True))
        except (TypeError, ValueError, KeyError) as error:
            raise FormatError(f"not rows that are held: {error!r}") from error
        if not _fits(n_rows, held):
            raise FormatError(f"rows that are held must be {n_rows!r} plain values a column")
        rows = cls(missing, values_win=values_win)
        rows._extend(held, n_rows)
        return rows


def _without_times(cells: list[Cell]) -> list[Cell]:
    if Mark.TIME not in cells:
        return cells
    return [None if cell is Mark.TIME else cell for cell in cells]


def _note_refused(found: dict[int, DataError], name: str, cells: Sequence[Cell]) -> None:
    for row, cell in enumerate(cells):
        if isinstance(cell, Refused):
            error = DataError(cell.problem, column=name, row=row, value=cell.value)
            found.setdefault(row, error)


def _note_crowded(found: dict[int, DataError], columns: dict[str, list[Cell]]) -> None:
    for row, cells in enumerate(zip(*columns.values(), strict=True)):
        n_cells = len(cells) - cells.count(None)
        if n_cells > MAX_COLUMNS:
            problem = f"a row with {n_cells} columns; at most {MAX_COLUMNS} are allowed"
            found.setdefault(row, DataError(problem, row=row))


def _note_missing(found: dict[int, DataError], name: str, cells: Sequence[Cell]) -> None:
    for row, cell in enumerate(cells if None in cells or MISSING in cells else ()):
        if cell is None or cell == MISSING:
            problem = "the value is missing, and missing values are rejected"
            found.setdefault(row, DataError(problem, column=name, row=row))


def _stored(cell: Cell) -> object:
    if isinstance(cell, Mark):
        return {"mark": cell.value}
    if isinstance(cell, float) and not math.isfinite(cell):
        return {"float": repr(cell)}
    return cell


def _restored(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return float(value["float"]) if "float" in value else Mark(value["mark"])


def _fits(n_rows: object, held: dict[Any, list[Any]]) -> bool:
    named = all(isinstance(name, str) and name for name in held)
    whole = all(len(cells) == n_rows for cells in held.values())
    plain = all(isinstance(cell, _HELD) for cells in held.values() for cell in cells)
    return type(n_rows) is int and n_rows >= 0 and named and whole and plain
