"""Which rows of a batch cannot be encoded, and where its errors are."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from driftbn.errors import DataError
from driftbn.intake.rows import Rows
from driftbn.raw_columns import indexable, picked, value_at
from driftbn.records import encode
from driftbn.schema import MissingPolicy, Schema

_MAX_RETRIES: Final = 8
"""Bad cells of a column found by what its errors name; more are found one by one."""


def shifted(error: DataError, offset: int) -> DataError:
    """Return an error about a part with its row counted from the start of the batch."""
    row = None if error.row is None else error.row + offset
    return DataError(error.problem, column=error.column, row=row, value=error.value)


def located(error: DataError, rows: Rows, schema: Schema) -> DataError:
    """Return an error about a whole column with the first row that is at fault."""
    if error.row is not None or error.column not in rows.columns:
        return error
    alone = Schema([schema[error.column]], missing=schema.missing)
    column = indexable(rows.columns[error.column])
    row = next((r for r in range(rows.n_rows) if _error(column[r : r + 1], alone)), 0)
    return DataError(error.problem, column=error.column, row=row, value=value_at(column, row))


def bad_rows(rows: Rows, schema: Schema) -> NDArray[np.bool_]:
    """Return which rows cannot be encoded."""
    bad = np.zeros(rows.n_rows, np.bool_)
    for variable in schema.variables:
        alone = Schema([variable], missing=schema.missing)
        column = rows.columns.get(variable.name)
        if column is not None:
            bad[_bad_cells(indexable(column), alone)] = True
        elif schema.missing is MissingPolicy.REJECT:
            bad[:] = True
    return bad


def _bad_cells(column: Any, alone: Schema) -> NDArray[np.intp]:
    """Return the rows of a column whose cells cannot be encoded."""
    rows = np.arange(len(column))
    left = rows
    for _ in range(_MAX_RETRIES):
        error = _error(picked(column, left), alone)
        if error is None:
            return np.setdiff1d(rows, left)
        if error.row is None:
            break
        left = np.delete(left, error.row)
    good = [row for row in left.tolist() if _error(column[row : row + 1], alone) is None]
    return np.setdiff1d(rows, good)


def _error(column: Any, alone: Schema) -> DataError | None:
    if not len(column):
        return None
    try:
        encode({alone.names[0]: column}, alone)
    except DataError as error:
        return error
    return None
