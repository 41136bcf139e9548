"""Raw columns of any kind, cut and picked from by position."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbn.encoding.arrow_columns import plain_column
from driftbn.encoding.optional import arrow


def indexable(raw: Any) -> Any:
    """Return a column that can be cut and picked from by position."""
    if hasattr(raw, "array"):  # a Series or an Index, which goes by its labels
        raw = raw.to_numpy() if isinstance(raw.dtype, np.dtype) else raw.array
    if hasattr(raw, "to_pylist"):
        return plain_column(raw)
    return raw if isinstance(raw, list) or hasattr(raw, "dtype") else list(raw)


def value_at(column: Any, row: int) -> Any:
    """Return one cell as a Python value, or its type in words where Python has no such value."""
    value = column[row]
    try:
        return value.as_py() if hasattr(value, "as_py") else value
    except (ValueError, ArithmeticError):
        return f"{value.type} beyond what Python can hold"


def picked(raw: Any, rows: NDArray[np.intp]) -> Any:
    """Return some rows of a column."""
    column = indexable(raw)
    if isinstance(column, list):
        return [column[row] for row in rows.tolist()]
    return column.take(arrow().array(rows)) if hasattr(column, "to_pylist") else column[rows]
