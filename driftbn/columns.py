"""Any table as columns: either small integers into a list of values, or plain numbers.

The canonical text of a value decides what is one category:

- a boolean is ``true`` or ``false``;
- a whole number of any type is its integer text, so ``3`` and ``3.0`` are ``3``;
- any other number is its shortest exact decimal text, so ``0.5`` is ``0.5``;
- text stands as it is, spaces and case included, so ``"3"`` is ``3`` and ``"007"`` is not ``7``;
  only the usual text of a whole float loses its ``.0``, so ``"3.0"`` is ``3``;
- bytes are read as UTF-8, with backslash escapes for what is not UTF-8;
- ``None``, NaN, NaT, ``pandas.NA`` and Arrow nulls are ``__missing__``.

Texts ``__missing__`` and ``__other__`` in the data mean what they say.
"""

from __future__ import annotations

import importlib
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from datetime import date, time, timedelta
from decimal import Decimal
from itertools import chain
from numbers import Integral, Real
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from driftbn.errors import DataError
from driftbn.schema import MISSING, VariableKind

MISSING_BYTE: Final = 255
"""Marks a missing value in byte codes; as a signed byte it is -1, the mark in wider codes."""

_ALLOWED: Final = "a cell must be text, a number, a boolean or missing"
_WHOLE_FLOAT_TEXT: Final = re.compile(r"(-?(?:0|[1-9]\d*))\.0", re.ASCII)
_MISSING_TYPES: Final = frozenset(("NoneType", "NAType", "NaTType"))
_TIME: Final = "__time__"
_TEMPORAL: Final = (date, time, timedelta, np.datetime64, np.timedelta64)
_N_PROBED_ROWS: Final = 256
"""Rows asked first whether a column is whole or has many values; asking all costs more."""
_MISSING_ROW: Final = bytes([MISSING_BYTE])


class Factor(NamedTuple):
    """A column as codes into a list of values, which may hold equal texts and unused values."""

    codes: bytes | NDArray[np.int32]  # [rows]: 255 is missing in bytes, -1 in the wider form
    values: Any  # value by code: a list, a range, an object array or an Arrow array
    kind: VariableKind


class Numbers(NamedTuple):
    """A column of numbers."""

    values: NDArray[Any]  # [rows]: float64, or integers
    missing: NDArray[np.bool_] | None  # [rows]; None when nothing is missing


class Times(NamedTuple):
    """A column of dates, times or durations; it is never a variable."""

    type_name: str


Column: TypeAlias = Factor | Numbers | Times


class Table(NamedTuple):
    """Raw columns by name, in the order given, all of ``n_rows`` rows."""

    n_rows: int
    columns: dict[str, Any]


def canonical_text(value: object) -> str:
    """Return the text that stands for a value; equal texts are one category.

    Raises
    ------
    TypeError
        If the value is no text, number, boolean or missing value.

    Examples
    --------
    >>> [canonical_text(v) for v in (3, 3.0, "3", "3.0", True, 0.5, " x", None)]
    ['3', '3', '3', '3', 'true', '0.5', ' x', '__missing__']
    """
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    if isinstance(value, str):
        match = _WHOLE_FLOAT_TEXT.fullmatch(value)
        return str(int(match[1])) if match else str(value)
    if value is None or _is_missing(value):
        return MISSING
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, Real | Decimal):
        return _number_text(value)
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not allowed: {_ALLOWED}")


def _number_text(value: Any) -> str:
    if isinstance(value, Integral) or (math.isfinite(value) and value == int(value)):
        return str(int(value))
    return repr(float(value))


def read_table(data: object, names: Sequence[str] | None = None) -> Table:
    """Split a table of any supported kind into raw columns; nothing is converted yet.

    Raises
    ------
    DataError
        If it is no table, is empty or ragged, or a name is empty, no text or taken twice.
    """
    if isinstance(data, np.ndarray):
        n_rows, labels, raw = _split_array(data, names)
    elif names is not None:
        raise DataError("names go with a 2-D array only; this table has its own")
    else:
        n_rows, labels, raw = _split_named(data)
    if not labels:
        raise DataError("the table has no columns; there must be at least one")
    if not n_rows:
        raise DataError("the table has no rows; there must be at least one")
    columns: dict[str, Any] = {}
    for label, column in zip(labels, raw, strict=True):
        name = label if type(label) is str and label else _checked_name(label)
        if name in columns:
            raise DataError("the name is taken twice; names must differ", column=name)
        columns[name] = column
    return Table(n_rows, columns)


def read_column(name: str, raw: Any) -> Column:
    """Turn one raw column into codes or numbers.

    Raises
    ------
    DataError
        If a cell holds something that is no text, number, boolean or missing value.
    """
    try:
        return _read_any(name, raw)
    except (TypeError, ValueError, ArithmeticError, NotImplementedError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"cannot be read: {error}", column=name) from error


def distinct(numbers: Numbers, whole_at_most: int | None = None) -> Factor | None:
    """Return numbers as codes, values rising.

    Whole numbers within a range of 255 are coded by offset, so some values may be unused. With
    ``whole_at_most`` the answer is ``None`` as soon as a value is not whole or more differ.
    """
    values, missing = numbers
    present = values if missing is None else values[~missing]
    if not len(present):
        return Factor(_MISSING_ROW * len(values), [], VariableKind.INTEGER)
    whole = _all_whole(present)
    if whole_at_most is not None and not whole:
        return None
    low, high = present.min().item(), present.max().item()
    if whole and high - low < MISSING_BYTE:
        codes, found = _offsets(values, int(low)), range(int(low), int(high) + 1)
    elif whole_at_most is not None and n_distinct(present[:_N_PROBED_ROWS]) > whole_at_most:
        return None
    else:
        ordered = np.sort(present)
        unique = ordered[np.append(True, ordered[1:] != ordered[:-1])]
        codes, found = np.searchsorted(unique, values), unique.tolist()
    if missing is not None:
        codes[missing] = MISSING_BYTE if len(found) <= MISSING_BYTE else -1
    kind = VariableKind.INTEGER if whole else VariableKind.NUMERIC
    return Factor(_narrow(codes, len(found)), found, kind)


def _offsets(values: NDArray[Any], low: int) -> NDArray[Any]:
    if values.dtype.kind != "f":
        return values.astype(np.uint8) - np.uint8(low % 256)  # both wrap, so the difference holds
    with np.errstate(invalid="ignore"):  # NaN has no byte; the caller overwrites it
        return (values - low).astype(np.uint8)


def used(factor: Factor) -> list[int]:
    """Return the positions of the values that occur, rising."""
    codes = factor.codes
    if isinstance(codes, bytes):
        # One memchr each, which ends at the first hit: 0.1 us, where a bincount takes 10.
        return [position for position in range(len(factor.values)) if position in codes]
    found: list[int] = np.flatnonzero(np.bincount(codes + 1)[1:]).tolist()
    return found


def texts_of(factor: Factor, positions: Sequence[int]) -> list[str]:
    """Return the canonical texts of the values at ``positions``.

    Only a declared category can be of another type than a cell may be, such as an interval; it goes
    by its ``str``.
    """
    values = factor.values
    if isinstance(values, range):
        return [str(values[position]) for position in positions]
    if isinstance(values, list | np.ndarray):
        picked = [values[position] for position in positions]
    else:
        picked = values.take(_arrow().array(positions)).to_pylist()
    return [
        value if type(value) is str and value[-2:] != ".0" else _declared_text(value)
        for value in picked
    ]


def _declared_text(value: object) -> str:
    try:
        return canonical_text(value)
    except TypeError:
        return str(value)


def n_distinct(values: NDArray[Any]) -> int:
    """Count distinct values by sorting, which beats ``numpy.unique`` tenfold at 5000 rows."""
    ordered = np.sort(values)
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + min(1, len(ordered))


def _all_whole(values: NDArray[Any]) -> bool:
    if values.dtype.kind != "f":
        return True
    parts = (values[:_N_PROBED_ROWS], values)
    return all(np.isfinite(part).all() and (part == np.floor(part)).all() for part in parts)


def _is_missing(value: object) -> bool:
    # NaN and NaT differ from themselves; pandas.NA answers a comparison with itself.
    equal = value == value
    return equal is value if not isinstance(equal, bool | np.bool_) else not equal


def _loaded(module: str, name: str) -> Any:
    """Return a class for ``isinstance``; where its module is not imported, nothing is of it."""
    return getattr(sys.modules.get(module), name, ())


def _arrow() -> Any:
    return importlib.import_module("pyarrow")


_Split: TypeAlias = tuple[int, Sequence[Any], Iterable[Any]]  # rows, labels, columns


def _split_array(data: NDArray[Any], names: Sequence[str] | None) -> _Split:
    if data.ndim != 2:
        raise DataError(f"an array must have 2 dimensions (rows, columns), not {data.ndim}")
    if names is None:
        raise DataError("an array has no column names; pass names=")
    if len(names) != data.shape[1]:
        raise DataError(f"{len(names)} names for {data.shape[1]} columns; there must be one each")
    if isinstance(data, np.ma.MaskedArray):
        return data.shape[0], list(names), data.T
    return data.shape[0], list(names), data.T.astype(_narrowest(data), order="C")


def _narrowest(data: NDArray[Any]) -> np.dtype[Any]:
    """Return the smallest type that holds all integers; less memory moves when turned over."""
    if data.dtype.kind not in "iu" or not data.size:
        return data.dtype
    ends = np.min_scalar_type(data.min()), np.min_scalar_type(data.max())
    found = np.result_type(*ends)
    return found if found.kind in "iu" and found.itemsize < data.itemsize else data.dtype


def _split_named(data: Any) -> _Split:
    if isinstance(data, _loaded("pandas", "DataFrame")):
        # Ten times faster than items(), which makes a Series of each column.
        arrays = getattr(data, "_iter_column_arrays", None)
        columns = arrays() if arrays is not None else (s.array for _, s in data.items())
        return len(data), data.columns.tolist(), columns
    if isinstance(data, (_loaded("pyarrow", "Table"), _loaded("pyarrow", "RecordBatch"))):
        return data.num_rows, data.schema.names, data.columns
    if isinstance(data, Mapping):
        return _split_mapping(data)
    if isinstance(data, list | tuple):
        return _split_records(data)
    raise DataError(
        f"{type(data).__name__} is no table: it must be a DataFrame, an Arrow table or record "
        "batch, a list of dicts, a dict of columns, or a 2-D array with names"
    )


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
    return n_rows or 0, list(data), data.values()


def _split_records(records: Sequence[Any]) -> _Split:
    for row, record in enumerate(records if set(map(type, records)) != {dict} else ()):
        if not isinstance(record, Mapping):
            problem = f"{type(record).__name__} is no record; each must be a dict"
            raise DataError(problem, row=row, value=record)
    keys = list(dict.fromkeys(chain.from_iterable(records)))
    if len(keys) > 1 and all(len(record) == len(keys) for record in records):
        return len(records), keys, map(list, zip(*map(itemgetter(*keys), records), strict=True))
    return len(records), keys, ([record.get(key) for record in records] for key in keys)


def _checked_name(label: object) -> str:
    if isinstance(label, int | np.integer) and not isinstance(label, bool):
        return str(label)
    if isinstance(label, str) and label:
        return str(label)
    problem = f"column name {label!r} is not allowed: it must be non-empty text or a whole number"
    raise DataError(problem, value=label)


def _read_any(name: str, raw: Any) -> Column:
    if isinstance(raw, _loaded("pandas", "Categorical")):
        return _read_categorical(raw)
    if isinstance(raw, np.ma.MaskedArray):
        raw = raw.tolist()
    if isinstance(raw, np.ndarray):
        return _read_array(name, raw)
    if isinstance(raw, (_loaded("pyarrow", "Array"), _loaded("pyarrow", "ChunkedArray"))):
        return _read_arrow(name, raw)
    if isinstance(raw, (_loaded("pandas", "Series"), _loaded("pandas", "Index"))):
        return _read_any(name, raw.array)
    if hasattr(raw, "dtype"):
        return _read_extension(name, raw)
    return _read_objects(name, list(raw))


def _read_extension(name: str, raw: Any) -> Column:
    """Read a pandas array that is no NumPy array: text, nullable, Arrow-backed, sparse, times."""
    if raw.dtype.kind in "mM" or str(raw.dtype).startswith("period"):
        return Times(str(raw.dtype))
    if hasattr(raw, "__arrow_array__"):
        return _read_arrow(name, _arrow().array(raw))
    return _read_array(name, np.asarray(raw))


def _read_categorical(raw: Any) -> Factor:
    codes, categories = raw.codes, raw.categories
    if len(categories) > MISSING_BYTE:
        objects = np.asarray(categories, dtype=object)
        return Factor(_narrow(codes, len(objects)), objects, VariableKind.CATEGORICAL)
    array = categories.array
    # Where categories are Arrow text this takes a tenth of the time of Index.tolist().
    direct = getattr(array, "__arrow_array__", None) if hasattr(array, "_pa_array") else None
    values = categories.tolist() if direct is None else direct().to_pylist()
    return Factor(_narrow(codes, len(values)), values, VariableKind.CATEGORICAL)


def _read_array(name: str, raw: NDArray[Any]) -> Column:
    kind = raw.dtype.kind
    if kind == "b":
        return Factor(raw.tobytes(), [False, True], VariableKind.BOOLEAN)
    if kind in "iu":
        return Numbers(raw, None)
    if kind == "f":
        return _floats(raw)
    if kind in "mM":
        return Times(str(raw.dtype))
    if kind in "OUST":
        return _read_objects(name, raw.astype(object))
    raise DataError(
        f"type {raw.dtype} is not allowed: {_ALLOWED}", column=name, row=0, value=raw[0]
    )


def _floats(values: NDArray[Any]) -> Numbers:
    values = values.astype(np.float64, copy=False)
    missing = np.isnan(values)
    return Numbers(values, missing if missing.any() else None)


def _read_objects(name: str, values: list[Any] | NDArray[Any]) -> Column:
    if isinstance(values, np.ndarray) and _loaded("pandas", "factorize"):
        pandas = sys.modules["pandas"]
        # Pandas hashes text where it is; Arrow would copy it first (37 columns: 10 ms, not 17).
        if pandas.api.types.infer_dtype(values, skipna=True) == "string":
            codes, found = pandas.factorize(values)
            return Factor(_narrow(codes, len(found)), found, VariableKind.CATEGORICAL)
    try:
        array = _arrow().array(values, from_pandas=True)
    except (TypeError, ValueError, ArithmeticError, NotImplementedError):
        return _read_mixed(name, values)
    if not _is_arrow_text(array.type) and not _is_uniform(values):
        return _read_mixed(name, values)
    return _read_arrow(name, array)


def _is_uniform(values: Iterable[Any]) -> bool:
    """Whether cells are of one type or all numbers; Arrow takes ``True`` after ``1.0`` as 1.0."""
    types = {kind for kind in set(map(type, values)) if kind.__name__ not in _MISSING_TYPES}
    return len(types) <= 1 or all(map(_is_number, types))


def _read_mixed(name: str, values: Iterable[Any]) -> Column:
    """Read cells of several types one by one; no faster way keeps ``1`` and ``True`` apart."""
    texts = list(_cell_texts(name, values))
    types = {type(v) for v, text in zip(values, texts, strict=True) if text != MISSING}
    if any(issubclass(kind, _TEMPORAL) for kind in types):
        if all(issubclass(kind, _TEMPORAL) for kind in types):
            return Times("times")
        row = texts.index(_TIME)
        raise DataError(f"a time among other values; {_ALLOWED}", column=name, row=row)
    if types and all(map(_is_number, types)) and not all(issubclass(t, Integral) for t in types):
        return _floats(np.array([math.nan if t == MISSING else float(t) for t in texts]))
    found = {text: code for code, text in enumerate(dict.fromkeys(texts))}
    codes = np.fromiter(map(found.__getitem__, texts), np.int32, len(texts))
    boolean = all(issubclass(kind, bool | np.bool_) for kind in types)
    kind = VariableKind.BOOLEAN if types and boolean else VariableKind.CATEGORICAL
    return Factor(_narrow(codes, len(found)), list(found), kind)


def _cell_texts(name: str, values: Iterable[Any]) -> Iterator[str]:
    for row, value in enumerate(values):
        try:
            is_time = isinstance(value, _TEMPORAL) and not _is_missing(value)
            yield _TIME if is_time else canonical_text(value)
        except (TypeError, ArithmeticError) as error:
            raise DataError(str(error), column=name, row=row, value=value) from None


def _is_number(kind: type) -> bool:
    return issubclass(kind, Real | Decimal) and not issubclass(kind, bool | np.bool_)


def _read_arrow(name: str, raw: Any) -> Column:
    pa = _arrow()
    if isinstance(raw, pa.ChunkedArray):
        raw = raw.chunk(0) if raw.num_chunks == 1 else raw.combine_chunks()
    if isinstance(raw, pa.ExtensionArray):
        return _read_mixed(name, raw.to_pylist())
    kind, types = raw.type, pa.types
    readers: tuple[tuple[Callable[[Any], bool], Callable[[Any], Column]], ...] = (
        (types.is_dictionary, _arrow_dictionary),
        (_is_arrow_text, lambda array: _arrow_dictionary(array.dictionary_encode())),
        (types.is_integer, _arrow_integers),
        (types.is_floating, lambda array: _floats(array.to_numpy(zero_copy_only=False))),
        (types.is_boolean, _arrow_booleans),
        (types.is_null, _arrow_nulls),
        (types.is_temporal, lambda array: Times(str(array.type))),
        (types.is_decimal, lambda array: _floats(_as_float(array))),
    )
    for accepts, read in readers:
        if accepts(kind):
            return read(raw)
    row = next((row for row, value in enumerate(raw) if value.is_valid), 0)
    problem = f"type {kind} is not allowed: {_ALLOWED}"
    raise DataError(problem, column=name, row=row, value=raw[row].as_py())


def _is_arrow_text(kind: Any) -> bool:
    name = str(kind)
    return name.endswith(("string", "string_view", "binary", "binary_view")) or "binary[" in name


def _as_float(array: Any) -> NDArray[Any]:
    values: NDArray[Any] = array.cast("float64").to_numpy(zero_copy_only=False)
    return values


def _arrow_dictionary(array: Any) -> Factor:
    indices, values = array.indices, array.dictionary
    if indices.null_count or indices.type.bit_width > 32:
        indices = indices.cast("int32").fill_null(-1)
    codes = indices.to_numpy(zero_copy_only=False)
    if len(values) <= MISSING_BYTE:
        values = values.to_pylist()
    return Factor(_narrow(codes, len(values)), values, VariableKind.CATEGORICAL)


def _arrow_integers(array: Any) -> Numbers:
    if not array.null_count:
        return Numbers(array.to_numpy(zero_copy_only=False), None)
    missing = array.is_null().to_numpy(zero_copy_only=False)
    return Numbers(array.fill_null(0).to_numpy(zero_copy_only=False), missing)


def _arrow_booleans(array: Any) -> Factor:
    codes = array.cast("uint8").fill_null(MISSING_BYTE).to_numpy(zero_copy_only=False)
    return Factor(codes.tobytes(), [False, True], VariableKind.BOOLEAN)


def _arrow_nulls(array: Any) -> Factor:
    return Factor(_MISSING_ROW * len(array), [], VariableKind.CATEGORICAL)


def _narrow(codes: NDArray[Any], n_values: int) -> bytes | NDArray[np.int32]:
    """Return codes as bytes if they fit; -1 wraps to the mark of a missing value."""
    if n_values <= MISSING_BYTE:
        return codes.tobytes() if codes.itemsize == 1 else codes.astype(np.uint8).tobytes()
    return codes.astype(np.int32, copy=False)
