"""A raw column of any supported kind as codes into a list of values, or as plain numbers."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import date, time, timedelta
from decimal import Decimal
from functools import cache
from numbers import Integral, Real
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from driftbn.encoding.arrow_columns import is_arrow_text, read_arrow
from driftbn.encoding.canonical import ALLOWED, canonical_text, is_missing
from driftbn.encoding.factors import Column, Factor, Numbers, Times, make_factor, make_numbers
from driftbn.encoding.optional import arrow, loaded
from driftbn.errors import DataError
from driftbn.variables import MISSING, VariableKind

_TIME: Final = "__time__"
_TEMPORAL: Final = (date, time, timedelta, np.datetime64, np.timedelta64)
_MISSING_TYPES: Final = frozenset(("NoneType", "NAType", "NaTType"))
_UNREADABLE: Final = (TypeError, ValueError, ArithmeticError, NotImplementedError)
"""What pandas, Arrow and NumPy raise for cells that they cannot convert."""

_Reader: TypeAlias = Callable[[str, Any], Column]


def read_column(name: str, raw: Any) -> Column:
    r"""Turn one raw column into codes or numbers.

    Raises
    ------
    DataError
        If a cell holds something that is no text, number, boolean or missing value.

    Examples
    --------
    >>> read_column("x", ["b", None, "b"]).codes
    b'\x00\xff\x00'
    """
    try:
        return _read_any(name, raw)
    except DataError:
        raise
    except _UNREADABLE as error:
        raise DataError(f"cannot be read: {error}", column=name) from error


def _read_any(name: str, raw: Any) -> Column:
    return _reader(raw.__class__)(name, raw)


@cache
def _reader(kind: type) -> _Reader:
    """Return what reads a column of a type; whose type it is takes longer to find than to read."""
    readers: tuple[tuple[Any, _Reader], ...] = (
        (Numbers, lambda _, raw: raw),
        (loaded("pandas", "Categorical"), lambda _, raw: _read_categorical(raw)),
        (np.ma.MaskedArray, lambda name, raw: _read_objects(name, raw.tolist())),
        (np.ndarray, _read_array),
        (loaded("pyarrow", "Array"), read_arrow),
        (loaded("pyarrow", "ChunkedArray"), read_arrow),
        (loaded("pandas", "Series"), lambda name, raw: _read_any(name, raw.array)),
        (loaded("pandas", "Index"), lambda name, raw: _read_any(name, raw.array)),
    )
    for accepted, read in readers:
        if issubclass(kind, accepted):
            return read
    if hasattr(kind, "dtype"):
        return _read_extension
    return lambda name, raw: _read_objects(name, list(raw))


def _read_categorical(raw: Any) -> Factor:
    # The property makes a view that cannot be written to, which takes a microsecond.
    codes = raw._ndarray if hasattr(raw, "_ndarray") else raw.codes
    categories = raw.categories
    array = categories.array
    if codes.itemsize > 1:
        values = np.asarray(categories, dtype=object)
    elif hasattr(array, "_pa_array"):
        # Where categories are Arrow text this takes a tenth of the time of Index.tolist().
        values = array.__arrow_array__().to_pylist()
    else:
        values = categories.tolist()
    return make_factor(codes, values, VariableKind.CATEGORICAL)


def _read_extension(name: str, raw: Any) -> Column:
    """Read a pandas array that is no NumPy array: text, nullable, Arrow-backed, sparse, times."""
    if raw.dtype.kind in "mM" or str(raw.dtype).startswith("period"):
        return Times(str(raw.dtype))
    if hasattr(raw, "__arrow_array__"):
        return read_arrow(name, arrow().array(raw))
    return _read_array(name, np.asarray(raw))


def _read_array(name: str, raw: NDArray[Any]) -> Column:
    kind = raw.dtype.kind
    if kind == "b":
        return Factor(raw.tobytes(), [False, True], VariableKind.BOOLEAN)
    if kind in "iu":
        return Numbers(raw)
    if kind == "f":
        return make_numbers(raw)
    if kind in "mM":
        return Times(str(raw.dtype))
    if kind in "OUST":
        return _read_objects(name, raw.astype(object))
    problem = f"type {raw.dtype} is not allowed: {ALLOWED}"
    raise DataError(problem, column=name, row=0, value=raw[0])


def _read_objects(name: str, values: list[Any] | NDArray[Any]) -> Column:
    if isinstance(values, np.ndarray) and loaded("pandas", "factorize"):
        pandas = sys.modules["pandas"]
        # Pandas hashes text where it is; Arrow would copy it first (37 columns: 10 ms, not 17).
        if pandas.api.types.infer_dtype(values, skipna=True) == "string":
            codes, found = pandas.factorize(values)
            return make_factor(codes, found, VariableKind.CATEGORICAL)
    try:
        array = arrow().array(values, from_pandas=True)
    except _UNREADABLE:
        return _read_mixed(name, values)
    if not is_arrow_text(array.type) and not _is_uniform(values):
        return _read_mixed(name, values)
    return read_arrow(name, array)


def _is_uniform(values: Iterable[Any]) -> bool:
    """Whether cells are of one type or all numbers; Arrow takes ``True`` after ``1.0`` as 1.0."""
    types = {kind for kind in set(map(type, values)) if kind.__name__ not in _MISSING_TYPES}
    return len(types) <= 1 or all(map(_is_number, types))


def _is_number(kind: type) -> bool:
    return issubclass(kind, Real | Decimal) and not issubclass(kind, bool | np.bool_)


def _read_mixed(name: str, values: Iterable[Any]) -> Column:
    """Read cells of several types one by one; no faster way keeps ``1`` and ``True`` apart."""
    texts = list(_cell_texts(name, values))
    types = {type(v) for v, text in zip(values, texts, strict=True) if text != MISSING}
    if any(issubclass(kind, _TEMPORAL) for kind in types):
        if all(issubclass(kind, _TEMPORAL) for kind in types):
            return Times("times")
        row = texts.index(_TIME)
        raise DataError(f"a time among other values; {ALLOWED}", column=name, row=row)
    if types and all(map(_is_number, types)) and not all(issubclass(t, Integral) for t in types):
        return make_numbers(np.array([math.nan if t == MISSING else float(t) for t in texts]))
    found = {text: code for code, text in enumerate(dict.fromkeys(texts))}
    codes = np.fromiter(map(found.__getitem__, texts), np.int32, len(texts))
    boolean = all(issubclass(kind, bool | np.bool_) for kind in types)
    kind = VariableKind.BOOLEAN if types and boolean else VariableKind.CATEGORICAL
    return make_factor(codes, list(found), kind)


def _cell_texts(name: str, values: Iterable[Any]) -> Iterator[str]:
    for row, value in enumerate(values):
        try:
            is_time = isinstance(value, _TEMPORAL) and not is_missing(value)
            yield _TIME if is_time else canonical_text(value)
        except (TypeError, ArithmeticError) as error:
            raise DataError(str(error), column=name, row=row, value=value) from None
