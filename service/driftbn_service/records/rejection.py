"""Rows that are not taken, as records for people to look at; and those that lack a field."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from driftbn.tables.encode import EncodedTable
from driftbn.tables.times import read_times
from driftbn_service.records.keys import read_keys
from driftbn_service.records.rows import (
    MAX_KEPT_BYTES,
    Place,
    Rejected,
    RejectReason,
    Rows,
    n_rows_of,
)
from driftbn_service.records.tables import canonical_column, cells_of

logger = logging.getLogger("driftbn.service.records.rejection")

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
    columns = _columns(rows)
    cells = zip(*columns.values(), strict=True) if columns else [()] * n_rows_of(rows)
    pairs = (zip(columns, row, strict=True) for row in cells)
    return [{name: value for name, value in row if value is not None} for row in pairs]


def _columns(rows: pa.Table | EncodedTable) -> dict[str, list[Any]]:
    if isinstance(rows, EncodedTable):
        named = ((variable, rows.column(variable.name)) for variable in rows.schema.variables)
        return {v.name: [v.labels[code] for code in codes.tolist()] for v, codes in named}
    return {name: _shown(cells_of(rows, name)) for name in rows.column_names}


def _shown(column: Any) -> list[Any]:
    if isinstance(column, list):
        return column
    # Arrow writes any time; Python has none after the year 9999. Of intervals it is the other way.
    temporal = pa.types.is_temporal(column.type) and not pa.types.is_interval(column.type)
    found: list[Any] = (column.cast("string") if temporal else column).to_pylist()
    return found


class _Lack(NamedTuple):
    """Rows that lack a field."""

    reason: RejectReason
    detail: str
    rows: NDArray[np.bool_]  # [rows]


class RequiredFields(NamedTuple):
    """The fields without which a record cannot be taken; ``None`` where a stream has none."""

    time_column: str | None = None
    key: str | None = None

    def split(self, rows: Rows, place: Place) -> tuple[Rows, list[Rejected]]:
        """Return the rows that have these fields, and the others as records set aside.

        In a table event times then are seconds since the epoch, and keys are of one type.
        """
        if isinstance(rows, EncodedTable):  # a stream that requires a field has none of these
            return rows, []
        rows = self._with_one_type_of_key(rows)
        timed, lacks = self._read(rows)
        if not any(lack.rows.any() for lack in lacks):
            return timed, []
        bad = np.zeros(len(rows), np.bool_)
        rejected: list[Rejected] = []
        for lack in lacks:
            new = np.flatnonzero(lack.rows & ~bad)
            rejected += set_aside(rows, new, place, lack.reason, lack.detail)
            bad |= lack.rows
        return picked(timed, np.flatnonzero(~bad)), rejected

    def _with_one_type_of_key(self, rows: pa.Table) -> pa.Table:
        if self.key is None or self.key not in rows.column_names:
            return rows
        return _with_column(rows, self.key, canonical_column(rows, self.key))

    def _read(self, rows: pa.Table) -> tuple[pa.Table, list[_Lack]]:
        lacks = []
        given = rows
        if self.time_column is not None:
            times = read_times(_cells(rows, self.time_column))
            detail = f"no event time in the field {self.time_column!r}"
            lacks.append(_Lack(RejectReason.NO_TIME, detail, ~np.isfinite(times)))
            given = _with_column(rows, self.time_column, pa.array(times))
        if self.key is not None:
            detail = f"no text or number of at most 256 characters in the key field {self.key!r}"
            lacks.append(_Lack(RejectReason.NO_KEY, detail, read_keys(rows, self.key).codes < 0))
        return given, lacks


def _cells(rows: pa.Table, name: str) -> Any:
    return cells_of(rows, name) if name in rows.column_names else [None] * len(rows)


def _with_column(rows: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    if name not in rows.column_names:
        return rows
    return rows.set_column(rows.column_names.index(name), name, column)
