"""Rows that are not taken, as records for people to look at."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from driftbn.records import EncodedTable
from driftbn_service.decoding.decoded import (
    MAX_KEPT_BYTES,
    Place,
    Rejected,
    RejectReason,
    Rows,
    n_rows_of,
)

logger = logging.getLogger(f"driftbn.{__name__}")

MAX_KEPT: Final = 100
"""Rows that are set aside each by itself; those after them are set aside as one."""


def set_aside(
    rows: Rows, numbers: NDArray[np.intp], place: Place, reason: RejectReason, detail: str
) -> Iterator[Rejected]:
    """Iterate over some of the rows as records set aside.

    Parameters
    ----------
    rows
        The rows, of plain types.
    numbers
        Which of them.
    place
        Says where a row stands, by its number.
    reason, detail
        Why, in a word and for people.
    """
    texts = _texts(picked(rows, numbers[:MAX_KEPT]))
    for number, text in zip(numbers.tolist(), texts, strict=False):
        yield Rejected(place(number, 0), reason, detail, text)
    n_more = len(numbers) - len(texts)
    if n_more > 0:
        more = f"{detail}; so it is with {n_more} records from here on"
        yield Rejected(place(int(numbers[len(texts)]), 0), reason, more, b"", n_more)


def picked(rows: Rows, numbers: NDArray[np.intp]) -> Rows:
    """Return some of the rows."""
    if isinstance(rows, EncodedTable):
        return EncodedTable(rows.schema, rows.codes[:, numbers])
    if isinstance(rows, list):
        return [rows[number] for number in numbers.tolist()]
    # Arrow takes no rows of a table without columns, which has no field at all.
    return rows.take(pa.array(numbers)) if rows.num_columns else rows.slice(0, len(numbers))


def _texts(rows: Rows) -> list[bytes]:
    """Return rows as JSON objects; none if one of them cannot be written."""
    try:
        texts = [json.dumps(row, ensure_ascii=False, default=str) for row in _records(rows)]
    except Exception:  # it must not cost more than the look at them
        logger.exception("records that are set aside cannot be shown")
        return []
    return [text.encode("utf-8", errors="replace")[:MAX_KEPT_BYTES] for text in texts]


def _records(rows: Rows) -> list[dict[str, Any]]:
    """Return rows as dicts of what can be written, without what is missing."""
    if not isinstance(rows, list):
        columns = _columns(rows)
        cells = zip(*columns.values(), strict=True) if columns else [()] * n_rows_of(rows)
        rows = [dict(zip(columns, row, strict=True)) for row in cells]
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def _columns(rows: pa.Table | EncodedTable) -> dict[str, list[Any]]:
    if isinstance(rows, EncodedTable):
        named = ((variable, rows.column(variable.name)) for variable in rows.schema.variables)
        return {v.name: [v.labels[code] for code in codes.tolist()] for v, codes in named}
    pairs = zip(rows.column_names, rows.columns, strict=True)
    return {name: _shown(column) for name, column in pairs}


def _shown(column: pa.ChunkedArray) -> list[Any]:
    # Arrow writes any time; Python has none after the year 9999. Of intervals it is the other way.
    temporal = pa.types.is_temporal(column.type) and not pa.types.is_interval(column.type)
    found: list[Any] = (column.cast("string") if temporal else column).to_pylist()
    return found
