"""The door: a table of any kind becomes Arrow arrays by name, here and nowhere else."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from itertools import chain
from numbers import Real
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from driftbn.errors import DataError
from driftbn.tables.cells import (
    ALLOWED,
    FEW_ROWS,
    as_numpy,
    cells_of,
    declared_text,
    is_mixed,
    is_text,
    mixed_cells,
    times_of,
)

_RECORDS: Final = {b"driftbn.rows": b"records"}
"""Metadata of an Arrow schema: the table was made of records, see ``as_records``."""
_TEXT_TYPES: Final = frozenset((str, type(None)))
_MISSING_TYPES: Final = frozenset(("NoneType", "NAType", "NaTType"))
_NO_NAMES: Final = (
    "an array has no column names: make it a DataFrame, or pass names= to learn_structure"
)
MAX_DEPTH: Final = 4
"""Objects within each other that are taken apart: names have four parts at most."""
_NO_COLUMNS: Final = "the table has no columns; there must be at least one"
_UNREADABLE: Final = (TypeError, ValueError, ArithmeticError, NotImplementedError)
"""What pandas, Arrow and NumPy raise for cells that they cannot convert."""


class Unread(NamedTuple):
    """A cell that is no value; there the array has null."""

    problem: str
    value: Any


@dataclass(frozen=True)
class Table:
    """Columns by name, in the order given.

    ``columns``: Arrow arrays of a plain type or ``MIXED``. Until rows are held they may be as they
    were given, because Arrow and back takes longer than encoding a batch: NumPy arrays of numbers,
    booleans or text, and categories of pandas. ``unread``: by column and row, the cells that are
    no values. ``given``: where the rows are records: which of them have a field, for fields that
    not all have. ``None`` where it is a table of columns. ``times``, ``records``: of each row its
    event time in seconds and the number of its record, where windows ask for them.
    """

    n_rows: int
    columns: dict[str, Any]
    unread: dict[str, dict[int, Unread]] = field(default_factory=dict)
    given: dict[str, NDArray[np.bool_]] | None = None
    times: NDArray[np.float64] | None = None
    records: NDArray[np.int64] | None = None

    @property
    def of_records(self) -> bool:
        return self.given is not None

    def array(self, name: str) -> Any:
        """Return a column as an Arrow array, which shares no memory that others may write to."""
        return as_array(self.columns[name])

    def of_arrays(self) -> Table:
        return replace(self, columns={name: self.array(name) for name in self.columns})

    def error(self, name: str, row: int) -> DataError:
        """Return what is to be said of a cell that is no value."""
        problem, value = self.unread[name][row]
        return DataError(problem, column=name, row=row, value=value)

    def n_values(self, name: str) -> int:
        """Count the cells of a column that are not missing, whether or not they can be read."""
        missing = as_numpy(self.array(name).is_null(nan_is_null=True))
        return len(self.unread.get(name, ())) + self.n_rows - int(missing.sum())

    def without(self, *names: str) -> Table:
        """Return the table without some columns."""
        if not names:
            return self
        kept = {name: array for name, array in self.columns.items() if name not in names}
        unread = {name: cells for name, cells in self.unread.items() if name not in names}
        given = self.given and {k: mask for k, mask in self.given.items() if k not in names}
        return replace(self, columns=kept, unread=unread, given=given)

    def slice(self, start: int, stop: int) -> Table:
        if (start, stop) == (0, self.n_rows):
            return self
        return self._picked(range(start, stop), lambda array: array[start:stop])

    def take(self, rows: NDArray[np.intp]) -> Table:
        picked = pa.array(rows)
        return self._picked(
            rows.tolist(), lambda a: a.take(picked) if isinstance(a, pa.Array) else a[rows]
        )

    def _picked(self, rows: Sequence[int], pick: Callable[[Any], Any]) -> Table:
        unread = {
            name: {new: cells[old] for new, old in enumerate(rows) if old in cells}
            for name, cells in self.unread.items()
        }
        table = Table(
            len(rows),
            {name: pick(array) for name, array in self.columns.items()},
            {name: cells for name, cells in unread.items() if cells},
            None if self.given is None else {k: pick(mask) for k, mask in self.given.items()},
            None if self.times is None else pick(self.times),
            None if self.records is None else pick(self.records),
        )
        return table.without(*table.absent)

    @property
    def absent(self) -> list[str]:
        """The fields that no record has."""
        return [name for name, mask in (self.given or {}).items() if not mask.any()]


def as_records(table: Any) -> Any:
    """Mark an Arrow table as made of records, which need not all have the same fields.

    It is then read as a list of dicts would be, so that it does not matter which records came
    together in one table: a field without a value is an absent one, an absent field is a missing
    value, and neither is an event. The mark stays when the table is cut or filtered.

    >>> from driftbn import MonitorConfig
    >>> from driftbn.tables.intake import Intake
    >>> intake = Intake(MonitorConfig(window=2))
    >>> _ = intake.take([{"x": "a", "y": 1}, {"x": "b", "y": 2}])
    >>> intake.take(as_records(pa.table({"x": ["a"]}))).events
    ()
    >>> [event.kind.value for event in intake.take(pa.table({"x": ["a"]})).events]
    ['missing_column']
    """
    return table.replace_schema_metadata({**(table.schema.metadata or {}), **_RECORDS})


class _Split(NamedTuple):
    n_rows: int
    labels: Sequence[Any]
    columns: Iterable[Any]
    of_records: bool = False
    records: Sequence[Any] | None = None  # where dicts may have different keys
    sparse: bool = False  # whether it is an Arrow table made of records

    def have(self, label: Any, array: Any, problems: Collection[int]) -> NDArray[np.bool_]:
        if self.records is not None:
            return np.array([label in record for record in self.records], np.bool_)
        if not self.sparse:
            return np.ones(self.n_rows, np.bool_)
        present = np.array(as_numpy(array.is_valid()))
        present[list(problems)] = True
        return present


def read_table(
    data: object, names: Sequence[str] | None = None, *, skip: Collection[str] = ()
) -> Table:
    """Read a table of any kind.

    ``data``: a pandas DataFrame, an Arrow table or record batch, anything with
    ``__arrow_c_stream__`` (polars, DuckDB, cuDF), a list of dicts, a dict of columns, or a 2-D
    array. ``names``: column names of a 2-D array.

    Raises DataError if it is no table, empty or ragged, or a name is empty, no text or taken twice.

    >>> table = read_table([{"a": 1, "b": "x"}, {"b": "y"}])
    >>> {name: array.to_pylist() for name, array in table.columns.items()}
    {'a': [1, None], 'b': ['x', 'y']}
    """
    if isinstance(data, np.ndarray):
        split = _split_array(data, names)
    elif names is not None:
        raise DataError("names go with a 2-D array only; this table has its own")
    else:
        split = _split_named(data)
    if not split.labels:
        raise DataError(_NO_COLUMNS)
    if not split.n_rows:
        raise DataError("the table has no rows; there must be at least one")
    return _read_flat(data, split, skip)


def read_batch(
    data: object, *, skip: Collection[str] = (), exact: bool = False, lenient: bool = False
) -> Table:
    """Read a table of a stream, which may have no rows, or records without any field.

    ``exact``: whether a whole number among floats stays whole, so that it does not matter which
    rows the table is cut into. Not where the column has a type. ``lenient``: whether what is no
    record is left out of a list, and a table without columns is one of records without any field.

    Raises DataError as for ``read_table``.
    """
    if isinstance(data, np.ndarray):
        raise DataError(_NO_NAMES)
    try:
        split = _split_named(data)
    except DataError:
        if not lenient or not isinstance(data, list | tuple):
            raise
        data = [record for record in data if is_record(record)]
        split = _split_named(data)
    if not split.labels and split.n_rows and not split.of_records:
        if not lenient:
            raise DataError(_NO_COLUMNS)
        split = split._replace(of_records=True)
    return _read_flat(data, split, skip, exact=exact)


def _read_flat(data: Any, split: _Split, skip: Collection[str], *, exact: bool = False) -> Table:
    """Read a table; objects in it become fields with dotted names."""
    table = _read(split, skip, exact=exact)
    if not any(_is_nested(cell.value) for of in table.unread.values() for cell in of.values()):
        return table
    return _read(_split_named(_flat_table(data)), skip, exact=exact)


def _is_nested(cell: object) -> bool:
    return isinstance(cell, Mapping) and bool(cell)


def _flat_table(data: Any) -> Any:
    """Return a table whose cells are no objects, unless they are too deep.

    >>> _flat_table([{"a": {"b": 1, "c": {"d": 2}}, "e": 3}])
    [{'a.b': 1, 'a.c.d': 2, 'e': 3}]
    """
    if isinstance(data, list | tuple):
        return [_flat_record(one, 1) if isinstance(one, Mapping) else one for one in data]
    split = _split_named(data)
    columns = zip(_checked_names(split.labels), split.columns, strict=True)
    found = list(chain.from_iterable(_flat_column(name, raw) for name, raw in columns))
    _checked_names([name for name, _ in found])
    return dict(found)


def _flat_record(record: Mapping[Any, Any], depth: int) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for label, cell in record.items():
        if depth < MAX_DEPTH and _is_nested(cell):
            below = {f"{label}.{name}": v for name, v in _flat_record(cell, depth + 1).items()}
            found |= below if found.keys().isdisjoint(below) else {label: cell}
        else:
            found[label] = cell
    return found


def _flat_column(name: str, raw: Any, depth: int = 1) -> Iterator[tuple[str, Any]]:
    if isinstance(raw, pa.Array | pa.ChunkedArray) and not is_mixed(raw):
        if pa.types.is_struct(raw.type) and raw.type.num_fields and depth < MAX_DEPTH:
            for part, below in zip(raw.type, raw.flatten(), strict=True):
                yield from _flat_column(f"{name}.{part.name}", below, depth + 1)
        else:
            yield name, raw
        return
    cells = list(raw)
    if not any(map(_is_nested, cells)):
        yield name, raw
        return
    records = [_flat_record({name: cell}, 1) for cell in cells]
    for key in dict.fromkeys(chain.from_iterable(records)):
        yield key, [record.get(key) for record in records]


def _read(split: _Split, skip: Collection[str], *, exact: bool) -> Table:
    columns: dict[str, Any] = {}
    unread: dict[str, dict[int, Unread]] = {}
    given: dict[str, NDArray[np.bool_]] = {}
    names = _checked_names(split.labels)
    for label, name, raw in zip(split.labels, names, split.columns, strict=True):
        if name in skip:
            continue
        columns[name], problems = _reader(raw.__class__)(raw, exact)
        if problems:
            unread[name] = {
                row: Unread(problem, value_at(raw, row)) for row, problem in problems.items()
            }
        if split.of_records and columns[name].null_count:
            given[name] = split.have(label, columns[name], problems)
    table = Table(split.n_rows, columns, unread, given if split.of_records else None)
    return table.without(*table.absent) if split.sparse else table


def _split_array(data: NDArray[Any], names: Sequence[str] | None) -> _Split:
    if data.ndim != 2:
        raise DataError(f"an array must have 2 dimensions (rows, columns), not {data.ndim}")
    if names is None:
        raise DataError(_NO_NAMES)
    if len(names) != data.shape[1]:
        raise DataError(f"{len(names)} names for {data.shape[1]} columns; there must be one each")
    masked = isinstance(data, np.ma.MaskedArray)
    return _Split(data.shape[0], list(names), data.T if masked else np.ascontiguousarray(data.T))


def _split_named(data: Any) -> _Split:
    if isinstance(data, _loaded("pandas", "DataFrame")):
        return _Split(len(data), data.columns.tolist(), _arrays_of(data))
    if isinstance(data, pa.Table | pa.RecordBatch):
        return _split_arrow(data)
    if isinstance(data, Mapping):
        return _split_mapping(data)
    if isinstance(data, list | tuple):
        return _split_dicts(data)
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return _split_arrow(pa.table(data))
        if hasattr(data, "__arrow_c_array__"):
            return _split_arrow(pa.record_batch(data))
    except _UNREADABLE:  # it is a single column
        pass
    raise DataError(
        f"{type(data).__name__} is no table: it must be a DataFrame, an Arrow table or record "
        "batch, a list of dicts, a dict of columns, or a 2-D array with names; a file is read "
        "first, as by pandas.read_csv"
    )


def _loaded(module: str, name: str) -> Any:
    """Return a class for ``isinstance``; where its module is not imported, nothing is of it."""
    return getattr(sys.modules.get(module), name, ())


def _arrays_of(frame: Any) -> Iterable[Any]:
    # Thirty times faster than items(), which makes a Series of each column.
    arrays = getattr(frame, "_iter_column_arrays", None)
    return arrays() if arrays is not None else (column.array for _, column in frame.items())


def _split_arrow(data: Any) -> _Split:
    batches = data.to_batches() if isinstance(data, pa.Table) else [data]
    # The columns of a batch are plain arrays, which are made faster than chunked ones.
    whole = batches[0] if len(batches) == 1 else data
    of_records = _RECORDS.items() <= (data.schema.metadata or {}).items()
    return _Split(data.num_rows, data.schema.names, whole.columns, of_records, sparse=of_records)


def _split_mapping(data: Mapping[Any, Any]) -> _Split:
    n_rows: int | None = None
    for label, column in data.items():
        if not hasattr(column, "__len__") or isinstance(column, str | bytes | Mapping | Set):
            problem = f"{type(column).__name__} is no column: it must be a list or an array"
            raise DataError(problem, column=str(label), value=column)
        if getattr(column, "ndim", 1) != 1:
            problem = f"a column must have 1 dimension, not {column.ndim}"
            raise DataError(problem, column=str(label))
        n_rows = len(column) if n_rows is None else n_rows
        if len(column) != n_rows:
            problem = f"{len(column)} rows, where the first column has {n_rows}; all must agree"
            raise DataError(problem, column=str(label))
    return _Split(n_rows or 0, list(data), data.values())


def _split_dicts(records: Sequence[Any]) -> _Split:
    for row, record in enumerate(records if set(map(type, records)) != {dict} else ()):
        if not isinstance(record, Mapping):
            problem = f"{type(record).__name__} is no record; each must be a dict"
            raise DataError(problem, row=row, value=record)
    keys = list(records[0]) if records else []
    if all(list(record) == keys for record in records):  # found twice as fast as all keys
        _checked_names(keys)
        cells = map(list, zip(*(record.values() for record in records), strict=True))
        return _Split(len(records), keys, cells, of_records=True)
    keys = list(dict.fromkeys(chain.from_iterable(records)))
    _checked_names(keys)
    columns = ([record.get(key) for record in records] for key in keys)
    return _Split(len(records), keys, columns, of_records=True, records=records)


def is_record(record: Any) -> bool:
    """Whether it may be an item of a list of records."""
    try:
        return _split_dicts([record]).n_rows == 1
    except DataError:
        return False


def _checked_names(labels: Sequence[Any]) -> list[str]:
    names = [label if type(label) is str and label else _name(label) for label in labels]
    if len(set(names)) < len(names):
        ((twice, _),) = Counter(names).most_common(1)
        raise DataError("the name is taken twice; names must differ", column=twice)
    return names


def _name(label: object) -> str:
    whole = isinstance(label, int | np.integer) and not isinstance(label, bool)
    if whole or (isinstance(label, str) and label):
        return str(label)
    problem = f"column name {label!r} is not allowed: it must be non-empty text or a whole number"
    raise DataError(problem, value=label)


_Read: TypeAlias = tuple[Any, dict[int, str]]
_Reader: TypeAlias = Callable[[Any, bool], _Read]


def read_column(raw: Any, *, exact: bool = False) -> _Read:
    """Return a raw column as an Arrow array, and by row what is wrong with what is no value.

    >>> array, problems = read_column(["b", None, {}])
    >>> array.to_pylist(), list(problems)
    (['b', None, None], [2])
    """
    column, problems = _reader(raw.__class__)(raw, exact)
    return as_array(column), problems


def read_times(raw: Any) -> NDArray[np.float64]:
    """Return event times in seconds since the epoch; NaN where a cell is missing or no time.

    >>> read_times([1.5, "1970-01-01T00:00:02Z", "1970-01-02", "noon"]).tolist()
    [1.5, 2.0, 86400.0, nan]
    """
    return times_of(read_column(raw)[0])


def as_array(column: Any) -> Any:
    """Return a column of a ``Table`` as an Arrow array of its own."""
    if isinstance(column, pa.Array):
        return column
    if not isinstance(column, np.ndarray):
        return _of_categories(column)
    if column.dtype.kind != "O":
        return pa.array(column.copy())
    try:
        return pa.array(column, pa.large_string(), from_pandas=True)
    except UnicodeEncodeError:  # a lone surrogate
        return mixed_cells(column)[0]


@cache
def _reader(kind: type) -> _Reader:
    """Return what reads a column of a type; whose type it is takes longer to find than to read."""
    readers: tuple[tuple[Any, _Reader], ...] = (
        ((pa.Array, pa.ChunkedArray), lambda raw, _: _read_arrow(raw)),
        (_loaded("pandas", "Categorical"), lambda raw, _: (raw, {})),
        (np.ma.MaskedArray, lambda raw, exact: _read_objects(raw.tolist(), exact)),
        (np.ndarray, _read_array),
        (_loaded("pandas", "Series"), lambda raw, exact: read_column(raw.array, exact=exact)),
        (_loaded("pandas", "Index"), lambda raw, exact: read_column(raw.array, exact=exact)),
    )
    for accepted, read in readers:
        if issubclass(kind, accepted):
            return read
    if hasattr(kind, "__arrow_c_stream__"):
        return lambda raw, _: _read_arrow(pa.chunked_array(raw))
    if hasattr(kind, "dtype"):
        return _read_extension
    return lambda raw, exact: _read_objects(list(raw), exact)


def _of_categories(raw: Any) -> Any:
    """Return categories of pandas as a dictionary of their texts."""
    values, codes = category_values(raw), raw.codes.copy()
    if isinstance(values, list):
        texts = list(map(declared_text, values))
        try:
            values = pa.array(texts, pa.large_string())
        except UnicodeEncodeError:  # a lone surrogate
            return mixed_cells([None if code < 0 else texts[code] for code in codes])[0]
    indices = pa.array(codes, mask=codes < 0 if codes.min(initial=0) < 0 else None)
    return pa.DictionaryArray.from_arrays(indices, values, safe=False)


def category_values(raw: Any) -> Any:
    """Return what the codes of pandas' categories stand for: Arrow text if it is text, or a list.

    From Arrow text a list is made in a tenth of the time of ``Index.tolist``.
    """
    categories = raw.categories
    if type(categories.dtype).__name__ == "StringDtype":
        return one_array(categories.array.__arrow_array__())
    return categories.tolist()


def _read_extension(raw: Any, exact: bool) -> _Read:
    """Read a pandas array that is no NumPy array: text, nullable, Arrow-backed, sparse, times."""
    if str(raw.dtype).startswith("period"):
        raw = raw.to_timestamp()
    if raw.dtype.kind in "mM" and not hasattr(raw, "__arrow_array__"):
        return _read_array(raw.to_numpy(f"{raw.dtype.kind}8[{raw.unit}]"), exact)
    if hasattr(raw, "__arrow_array__"):
        try:
            return _read_arrow(pa.array(raw))
        except _UNREADABLE:
            return _read_objects(list(raw), exact)
    return _read_array(np.asarray(raw), exact)


def _read_array(raw: NDArray[Any], exact: bool) -> _Read:
    kind = raw.dtype.kind
    if kind in "biuf":
        return raw if raw.dtype.isnative else raw.astype(raw.dtype.newbyteorder("=")), {}
    if kind in "mM":
        unit = np.datetime_data(raw.dtype)[0]
        unit = unit if unit in ("s", "ms", "us", "ns") else "s"
        return pa.array(raw.astype(f"{kind}8[{unit}]")), {}
    if kind in "OUST":
        return _read_objects(raw.astype(object), exact)
    problem = f"type {raw.dtype} is not allowed: {ALLOWED}"
    return pa.nulls(len(raw)), dict.fromkeys(range(len(raw)), problem)


def _read_objects(values: list[Any] | NDArray[Any], exact: bool) -> _Read:
    if isinstance(values, np.ndarray) and _loaded("pandas", "factorize"):
        infer_type = sys.modules["pandas"].api.types.infer_dtype
        if infer_type(values, skipna=True) == "string":
            return values, {}
    types = set(map(type, values))
    try:
        if types <= _TEXT_TYPES:
            return pa.array(values, pa.large_string()), {}
        array = pa.array(values, from_pandas=True)
    except _UNREADABLE:
        return mixed_cells(values, exact=exact)
    if is_text(array.type) or _is_uniform(types, exact):
        return _read_arrow(array)
    return mixed_cells(values, exact=exact)


def _is_uniform(given: Iterable[type], exact: bool) -> bool:
    """Whether Arrow keeps cells of some types apart; it takes ``True`` after ``1.0`` as 1.0."""
    types = {kind for kind in given if kind.__name__ not in _MISSING_TYPES}
    if any(issubclass(kind, Decimal) for kind in types):
        return False
    return len(types) <= 1 or (not exact and all(map(_is_number, types)))


def _is_number(kind: type) -> bool:
    return issubclass(kind, Real) and not issubclass(kind, bool | np.bool_)


def _read_arrow(raw: Any) -> _Read:
    if is_mixed(raw):
        return one_array(raw), {}
    try:
        return _values(one_array(plain_column(raw))), {}
    except _UNREADABLE:
        return _cell_by_cell(one_array(raw))


def _values(array: Any) -> Any:
    """Return a plain array, with text of more than a few rows as codes into the distinct ones.

    Raises TypeError if its type is none of text, number, boolean, time or null.
    """
    if is_text(array.type):
        if len(array) <= FEW_ROWS:
            array.validate(full=True)  # that it is UTF-8
            return array
        array = array.dictionary_encode()
    if pa.types.is_dictionary(array.type):
        values = array.dictionary
        values.validate(full=True)
        return _one_dictionary(array) if values.null_count else array
    if pa.types.is_decimal(array.type):
        array = array.cast("float64")
    elif not is_plain(array.type) and array.null_count < len(array):
        raise TypeError(f"type {array.type} is not allowed: {ALLOWED}")
    return array if is_plain(array.type) else pa.nulls(len(array))


def _cell_by_cell(array: Any) -> _Read:
    """Return an array of which some cells are no values with null there."""
    problems: dict[int, str] = {}
    for row in range(len(array)):
        try:
            _values(plain_column(array[row : row + 1]))
        except TypeError as error:
            problems[row] = str(error)
        except _UNREADABLE as error:
            problems[row] = f"cannot be read: {error}"
    good = np.array([row not in problems for row in range(len(array))], np.bool_)
    if not good.any():
        return pa.nulls(len(array)), problems
    places = pa.array(np.cumsum(good) - 1, mask=~good)
    return _values(one_array(plain_column(array.filter(pa.array(good))))).take(places), problems


def value_at(column: Any, row: int) -> Any:
    """Return one cell as a Python value, or its type in words where Python has no such value."""
    if hasattr(column, "to_pylist"):
        try:
            return cells_of(column[row : row + 1])[0]
        except (ValueError, ArithmeticError):
            return f"{column.type} beyond what Python can hold"
    if hasattr(column, "iloc"):
        return column.iloc[row]
    return column[row] if hasattr(column, "__getitem__") else list(column)[row]


def one_array(raw: Any) -> Any:
    """Return an Arrow array, or the chunks of a chunked one, as one array."""
    if not isinstance(raw, pa.ChunkedArray):
        return raw
    return raw.chunk(0) if raw.num_chunks == 1 else raw.combine_chunks()


def plain_column(raw: Any) -> Any:
    """Return an Arrow array or the chunks of one in a type that all of Arrow's functions know.

    Types that store the same cells in another way become the usual one: views of text and bytes,
    run-end encoding, narrow decimals, half floats, and extension types, of which a UUID becomes its
    text, ``bool8`` a boolean, and any other what it is stored as. A time in a zone, which need not
    be a known one, becomes the same instant in UTC. A dictionary keeps its codes where its values
    are text, numbers or booleans, and is unpacked otherwise; of chunks the codes are ``int32`` and
    no value is null, as dictionaries can only then be made one. What has no such form, as lists
    have none, stays as it is.

    >>> plain_column(pa.array(["a", None], pa.string_view())).type
    DataType(large_string)
    """
    if not isinstance(raw, pa.ChunkedArray):
        return _plain_array(raw)
    is_dictionary = pa.types.is_dictionary(raw.type)
    if is_plain(raw.type) and not (is_dictionary and _must_be_changed(raw)):
        return raw
    chunks = [_one_dictionary(_plain_array(chunk)) for chunk in raw.chunks]
    return pa.chunked_array(chunks or [pa.nulls(0)])


def is_plain(kind: Any) -> bool:
    """Whether cells of a type can be read as they are; see ``plain_column``."""
    number = kind.id
    if number in _USUAL:
        return True
    if number == _CODES:
        return kind.value_type.id in _CODED
    return bool(pa.types.is_temporal(kind)) and _in_utc(kind) == kind


def cell_type(kind: Any) -> Any:
    """Return the type of the cells of a column, however they are stored."""
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif pa.types.is_run_end_encoded(kind) or pa.types.is_dictionary(kind):
            kind = kind.value_type
        else:
            return kind


_CODED: Final = frozenset(
    kind.id
    for kind in (
        *(pa.bool_(), pa.float32(), pa.float64(), pa.decimal128(1), pa.decimal256(1)),
        *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(1)),
        *(getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)),
    )
)
"""Types, by number, whose cells can be read as they are, also as the values of a dictionary."""
_USUAL: Final = _CODED | {pa.null().id}
_CODES: Final = pa.dictionary(pa.int8(), pa.string()).id


def _plain_array(array: Any) -> Any:
    kind, types = array.type, pa.types
    if is_plain(kind):
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return _plain_array(_stored(array))
    if types.is_run_end_encoded(kind):
        rows = np.arange(array.offset, array.offset + len(array))
        runs = np.searchsorted(as_numpy(array.run_ends), rows, side="right")
        return _plain_array(array.values).take(pa.array(runs))
    if types.is_dictionary(kind):
        values = _plain_array(array.dictionary)
        if values.type.id in _CODED:
            return pa.DictionaryArray.from_arrays(array.indices, values)
        return values.take(array.indices)
    usual = _usual_type(kind)
    return array if usual == kind else array.cast(usual)


def _must_be_changed(dictionaries: Any) -> bool:
    """Whether chunks of codes could perhaps not be put together."""
    wide = dictionaries.type.index_type == pa.int32()
    return not wide or any(chunk.dictionary.null_count for chunk in dictionaries.iterchunks())


def _one_dictionary(array: Any) -> Any:
    """Return an array that can be put together with others of its type."""
    if not pa.types.is_dictionary(array.type):
        return array
    values = array.dictionary
    valid = as_numpy(values.is_valid())
    places = pa.array(np.cumsum(valid, dtype=np.int32) - 1, "int32", mask=~valid)
    return pa.DictionaryArray.from_arrays(places.take(array.indices), values.drop_null())


def _stored(array: Any) -> Any:
    """Return what an array of an extension type means, in the type that it is stored in."""
    name = getattr(array.type, "extension_name", "")
    if name == "arrow.uuid":
        texts = (str(UUID(bytes=value)) if value else None for value in array.storage.to_pylist())
        return pa.array(list(texts), "string")
    return array.storage.cast("bool") if name == "arrow.bool8" else array.storage


def _usual_type(kind: Any) -> Any:
    types = pa.types
    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_float16(kind):
        return pa.float32()
    if types.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale)
    return _in_utc(kind)


def _in_utc(kind: Any) -> Any:
    if not pa.types.is_timestamp(kind) or kind.tz is None:
        return kind
    return pa.timestamp(kind.unit, "UTC")
