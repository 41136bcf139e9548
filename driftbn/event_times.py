"""Event times of any kind as seconds since the epoch."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from numbers import Real
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from driftbn.encoding.arrow_columns import one_array, plain_column
from driftbn.encoding.canonical import is_missing
from driftbn.encoding.optional import arrow
from driftbn.errors import DataError
from driftbn.raw_columns import indexable, value_at

_MAX_SHOWN: Final = 100
"""Characters of a value that an error shows."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NO_NUMBERS: Final = (bool, np.bool_, np.timedelta64)
"""What Python or NumPy call a number and is none here."""
_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def read_times(raw: Any) -> NDArray[np.float64]:
    """Return event times in seconds since the epoch; NaN where a cell is missing or no time.

    Examples
    --------
    >>> read_times([1.5, "1970-01-01T00:00:02Z", "1970-01-02", "noon"]).tolist()
    [1.5, 2.0, 86400.0, nan]
    """
    raw = indexable(raw)
    kind = getattr(getattr(raw, "dtype", None), "kind", "")
    if kind == "M":  # where pandas knows the zone, it counts from the epoch all the same
        return _from_datetimes(raw.asi8.view(f"M8[{raw.unit}]") if hasattr(raw, "asi8") else raw)
    if isinstance(raw, np.ndarray) and kind in "iuf":
        return raw.astype(np.float64)
    if hasattr(raw, "to_pylist"):
        return _from_arrow(raw)
    if hasattr(raw, "__arrow_array__") or set(map(type, raw)) == {str}:
        with suppress(ValueError):  # text that is no Unicode
            return _from_arrow(arrow().array(raw))
    return _from_cells(raw)


def _from_arrow(raw: Any) -> NDArray[np.float64]:
    types, array = arrow().types, one_array(plain_column(raw))
    kind = array.type
    if types.is_dictionary(kind):
        return _from_arrow(array.dictionary_decode())
    if types.is_date(kind):
        return _from_arrow(array.cast(arrow().timestamp("ms")))
    if types.is_timestamp(kind):
        return _from_datetimes(array.to_numpy(zero_copy_only=False))
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return np.asarray(array.cast("float64", safe=False).to_numpy(zero_copy_only=False))
    if types.is_string(kind) or types.is_large_string(kind):
        return _from_texts(array)
    return np.full(len(array), np.nan)  # of no other type is a cell a time


def _from_texts(array: Any) -> NDArray[np.float64]:
    for zone in ("UTC", None):
        with suppress(ValueError):  # a fiftieth of the time that Python takes for these texts
            return _from_arrow(array.cast(arrow().timestamp("us", zone)))
    return _from_cells(array.to_pylist())


def _from_datetimes(values: NDArray[Any]) -> NDArray[np.float64]:
    unit = np.datetime_data(values.dtype)[0]
    unit = unit if unit in _PER_SECOND else "s"
    per_second = _PER_SECOND[unit]
    # Whole seconds apart, so that an instant gives the same number whatever its unit.
    whole, rest = np.divmod(values.astype(f"M8[{unit}]").astype(np.int64), per_second)
    return np.where(np.isnat(values), np.nan, whole + rest / per_second)


def _from_cells(values: Iterable[Any]) -> NDArray[np.float64]:
    return np.array([_seconds(value) for value in values], np.float64)


def _seconds(value: Any) -> float:
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if isinstance(value, np.datetime64):
            return float(_from_datetimes(np.array([value]))[0])
        if isinstance(value, date):
            return math.nan if is_missing(value) else _since_epoch(value)
        is_number = isinstance(value, Real | Decimal) and not isinstance(value, _NO_NUMBERS)
        return float(value) if is_number else math.nan
    except (ValueError, ArithmeticError):
        return math.nan


def _since_epoch(value: Any) -> float:
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    since = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)) - _EPOCH
    n_nanoseconds = since.microseconds * 1000 + getattr(since, "nanoseconds", 0)
    return float(since.days * 86400 + since.seconds + n_nanoseconds / _PER_SECOND["ns"])


def bad_time(name: str, raw: Any, row: int) -> DataError:
    """Return the error for a cell that is no event time."""
    value = value_at(indexable(raw), row)
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
