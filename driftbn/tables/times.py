"""Event times of any kind as seconds since the epoch."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from driftbn.errors import DataError
from driftbn.tables.cells import as_numpy, cells_of, is_mixed, seconds_of, seconds_of_datetimes
from driftbn.tables.read import Table, read_column, value_at

_MAX_SHOWN: Final = 100
"""Characters of a value that an error shows."""


def read_times(raw: Any) -> NDArray[np.float64]:
    """Return event times in seconds since the epoch; NaN where a cell is missing or no time.

    >>> read_times([1.5, "1970-01-01T00:00:02Z", "1970-01-02", "noon"]).tolist()
    [1.5, 2.0, 86400.0, nan]
    """
    return times_of(read_column(raw)[0])


def times_of(array: Any) -> NDArray[np.float64]:
    """Return the event times of a column that was read."""
    types, kind = pa.types, array.type
    if types.is_dictionary(kind):
        values = np.append(times_of(array.dictionary), np.nan)  # where the index -1 points
        return np.take(values, as_numpy(array.indices.cast("int64").fill_null(-1)))
    if types.is_date(kind):
        return times_of(array.cast(pa.timestamp("ms")))
    if types.is_timestamp(kind):
        return seconds_of_datetimes(as_numpy(array))
    if types.is_integer(kind) or types.is_floating(kind):
        return np.array(as_numpy(array.cast("float64", safe=False)))
    if types.is_string(kind) or types.is_large_string(kind):
        return _of_texts(array)
    if is_mixed(array):
        return np.array([_seconds(cell) for cell in cells_of(array)], np.float64)
    return np.full(len(array), np.nan)  # of no other type is a cell a time


def _of_texts(array: Any) -> NDArray[np.float64]:
    for zone in ("UTC", None):
        with suppress(ValueError):  # a fiftieth of the time that Python takes for these texts
            return times_of(array.cast(pa.timestamp("us", zone)))
    return np.array([_seconds(text) for text in array.to_pylist()], np.float64)


def _seconds(cell: Any) -> float:
    if isinstance(cell, tuple):
        return float(cell[0])
    if isinstance(cell, str):
        with suppress(ValueError):
            return seconds_of(datetime.fromisoformat(cell))
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        with suppress(OverflowError):
            return float(cell)
    return float("nan")


def bad_time(name: str, table: Table, row: int) -> DataError:
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
