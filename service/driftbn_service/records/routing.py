"""Where rows go: to the monitor of their key, or aside for people to look at."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from driftbn.tables.cells import canonical_text
from driftbn.tables.encode import EncodedTable
from driftbn.tables.read import is_plain, one_array, plain_column, read_times
from driftbn.tables.schema import MISSING
from driftbn_service.records.rows import (
    MAX_KEPT_BYTES,
    Place,
    Rejected,
    RejectReason,
    Rows,
    canonical_column,
    cells_of,
    n_rows_of,
)

MAX_KEY_LENGTH: Final = 256
"""Characters of a key; longer ones are refused, because keys are names in files and answers."""


class KeyedRows(NamedTuple):
    """Rows that share a key; ``key`` is ``None`` for rows without one that can be used."""

    key: str | None
    rows: Any
    n_rows: int


class Keys(NamedTuple):
    texts: list[str]  # the distinct ones
    codes: NDArray[np.int64]  # [rows]: which of them; -1 for a row without a key


def part_by_key(rows: Any, field: str) -> Iterator[KeyedRows]:
    """Part rows by the value of ``field``, in the order in which the keys come first.

    The rows are an Arrow table of plain columns. Keys are read as the library reads categories: 3,
    3.0 and "3" are one key. The field is left out of the rows, as it would say the same in all rows
    of a key.

    >>> rows = pa.table({"tenant": ["b", "a", "b", None], "x": [1, 2, 3, 4]})
    >>> [(part.key, part.rows["x"].to_pylist()) for part in part_by_key(rows, "tenant")]
    [('b', [1, 3]), ('a', [2]), (None, [4])]
    """
    texts, codes = read_keys(rows, field)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-2))
    ends = np.append(starts[1:], len(order))
    rest = rows.select([name for name in rows.column_names if name != field])
    if len(starts) > 1 and rest.num_columns:  # Arrow takes no rows of a table without columns
        rest = rest.take(pa.array(order))
    for i in np.argsort(order[starts]).tolist():  # by the first row of each key
        code, n_rows = codes[order[starts[i]]], int(ends[i] - starts[i])
        yield KeyedRows(texts[code] if code >= 0 else None, rest.slice(starts[i], n_rows), n_rows)


def read_keys(rows: Any, field: str) -> Keys:
    """Return the keys of rows.

    No key are a missing value, an empty text or one of more than 256 characters, a list and a time.
    """
    if rows.schema.get_field_index(field) < 0:
        return Keys([], np.full(len(rows), -1))
    array = one_array(plain_column(rows[field]))
    if pa.types.is_temporal(array.type) or pa.types.is_null(array.type) or not is_plain(array.type):
        return Keys([], np.full(len(rows), -1))
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    places = encoded.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
    return _coded([_key_text(value) for value in encoded.dictionary.to_pylist()], places)


def _coded(texts: Sequence[str | None], places: NDArray[np.int64]) -> Keys:
    """Return the keys of rows, of which each has the text at a place, -1 for none."""
    found: dict[str, int] = {}
    codes = [-1 if text is None else found.setdefault(text, len(found)) for text in texts]
    return Keys(list(found), np.array([*codes, -1])[places])


def _key_text(value: object) -> str | None:
    try:
        text = canonical_text(value)
    except (TypeError, ValueError, ArithmeticError):  # a time, a list, a number of 5000 digits
        return None
    return text if text not in ("", MISSING) and len(text) <= MAX_KEY_LENGTH else None


# Rows that are not taken, and those that lack a field.

logger = logging.getLogger("driftbn.service.records.rejection")

MAX_KEPT: Final = 100
"""Rows that are set aside each by itself; those after them are set aside as one."""


def set_aside(
    rows: Rows, numbers: NDArray[np.intp], place: Place, reason: RejectReason, detail: str
) -> Iterator[Rejected]:
    texts = _texts(picked(rows, numbers[:MAX_KEPT]))
    for number, text in zip(numbers.tolist(), texts, strict=False):
        yield Rejected(place(number, 0), reason, detail, text)
    n_more = len(numbers) - len(texts)
    if n_more > 0:
        more = f"{detail}; so it is with {n_more} records from here on"
        yield Rejected(place(int(numbers[len(texts)]), 0), reason, more, b"", n_more)


def picked(rows: Rows, numbers: NDArray[np.intp]) -> Rows:
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
