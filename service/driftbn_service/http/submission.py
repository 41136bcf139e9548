"""Records that were sent, as one table for the journal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa

from driftbn.encoding.canonical import canonical_text
from driftbn.errors import DataError
from driftbn.intake import as_records
from driftbn.records import EncodedTable
from driftbn.variables import MISSING
from driftbn_service.records import Rows
from driftbn_service.records.rows import MAX_CELLS, Problem, RejectReason, n_rows_of


@dataclass(frozen=True)
class Submission:
    """The records of one request; all of them can be read.

    Parameters
    ----------
    stream
        Whose records they are.
    table
        The records.
    digest
        Of the body as it was sent, decompressed: tells whether two are the same.
    idempotency_key
        What the sender calls this body, if anything; the same key is taken once.
    """

    stream: str
    table: pa.Table = field(repr=False)
    digest: bytes = field(repr=False)
    idempotency_key: str | None = None


class Tables:
    """Makes tables of the batches of a body, as long as they fit into one.

    Records take ten times the memory that they take as a table.

    Parameters
    ----------
    max_fields
        Different fields that there may be.
    """

    def __init__(self, max_fields: int) -> None:
        self._max_fields = max_fields
        self._names: set[str] = set()
        self._n_rows = 0

    def made(self, batches: Sequence[Rows]) -> list[Rows]:
        """Return further batches as tables, or as they are where no record has a field.

        Raises
        ------
        Problem
            If there are too many fields or cells by now.
        """
        for batch in batches:
            self._names.update(_names(batch))
            self._n_rows += n_rows_of(batch)
        n_fields = len(self._names)
        if n_fields > self._max_fields:
            detail = f"{n_fields} different fields, where max_fields allows {self._max_fields}"
            raise Problem(RejectReason.TOO_LARGE, detail)
        if n_fields * self._n_rows > MAX_CELLS:
            raise Problem(
                RejectReason.TOO_LARGE,
                f"{self._n_rows} records with {n_fields} different fields are too much for one"
                f" table of at most {MAX_CELLS} cells: send fewer at a time",
            )
        return [_as_table(batch) for batch in batches]


def one_table(batches: Sequence[Rows]) -> pa.Table:
    """Return batches of rows as one table that means the same to a monitor.

    A column of JSON can mix types, which no column of a table can. Numbers become floating point
    where they fit, as they do in a monitor; anything else becomes the canonical text of each value,
    which is what a monitor makes of it: ``3``, ``3.0`` and ``"3"`` are one category, and the text
    of a number falls into the same bin as the number. What was made of records is marked as such,
    so that a field that no record has is an absent one and no missing column.

    Raises
    ------
    DataError
        If no record has a field, or a cell is no text, number, boolean or missing value.

    Examples
    --------
    >>> one_table([[{"x": 1}, {"x": "b"}, {"y": True}]]).to_pydict()
    {'x': ['1', 'b', None], 'y': [None, None, True]}
    """
    tables = [_columns(batch) for batch in batches]
    names = dict.fromkeys(name for table in tables for name in table.columns)
    if not names:
        raise DataError("no record has a field: there must be at least one")
    columns = {name: _column(name, [_part(table, name) for table in tables]) for name in names}
    found = pa.table(columns)
    return as_records(found) if any(map(_of_records, batches)) else found


def _as_table(batch: Rows) -> Rows:
    if not isinstance(batch, list) or not any(batch):
        return batch
    return as_records(pa.table(_columns(batch).columns))


class _Columns(NamedTuple):
    """The columns of a batch by name."""

    n_rows: int
    columns: dict[str, pa.ChunkedArray]


def _columns(batch: Rows) -> _Columns:
    if isinstance(batch, list):
        names = dict.fromkeys(_names(batch))
        arrays = (_array(name, [item.get(name) for item in batch]) for name in names)
        columns = [pa.chunked_array([array]) for array in arrays]
        return _Columns(len(batch), dict(zip(names, columns, strict=True)))
    if isinstance(batch, EncodedTable):
        raise TypeError("a decoder that knows no schema gives no codes")
    return _Columns(len(batch), dict(zip(batch.column_names, batch.columns, strict=True)))


def _names(batch: Rows) -> Iterable[str]:
    return chain.from_iterable(batch) if isinstance(batch, list) else _columns(batch).columns


def _of_records(batch: Rows) -> bool:
    """Whether a batch was made of records; the mark is that of ``as_records``."""
    if not isinstance(batch, pa.Table):
        return True
    schema: pa.Schema = batch.schema
    return bool(as_records(batch).schema.metadata == schema.metadata)


def _array(name: str, values: list[Any]) -> pa.Array:
    """Return cells as an array, of text if Arrow has no type for all of them."""
    types = {type(value) for value in values} - {type(None)}
    if types <= {int, float} or (len(types) == 1 and types <= {str, bool}):
        try:
            return pa.array(values, pa.float64() if float in types else None)
        except (pa.ArrowInvalid, OverflowError):
            return _texts(name, values)  # a whole number that floating point does not hold
    return _texts(name, values)


def _texts(name: str, values: list[Any]) -> pa.Array:
    return pa.array([_text(name, row, value) for row, value in enumerate(values)], pa.string())


def _text(name: str, row: int, value: object) -> str | None:
    try:
        text = canonical_text(value)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise DataError(str(error), column=name, row=row) from None
    return None if text == MISSING and not isinstance(value, str) else text


def _part(table: _Columns, name: str) -> pa.ChunkedArray:
    column = table.columns.get(name)
    return pa.chunked_array([pa.nulls(table.n_rows)]) if column is None else column


def _column(name: str, parts: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Return the parts of a column put together."""
    types = list(dict.fromkeys(part.type for part in parts if not pa.types.is_null(part.type)))
    if len(types) > 1:
        parts, types = _alike(name, parts, types)
    kind = types[0] if types else pa.null()
    return pa.chunked_array([chunk for part in parts for chunk in part.cast(kind).chunks], kind)


def _alike(
    name: str, parts: list[pa.ChunkedArray], types: list[pa.DataType]
) -> tuple[list[pa.ChunkedArray], list[pa.DataType]]:
    """Return parts of different types in one type."""
    if all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in types):
        try:
            return [part.cast(pa.float64()) for part in parts], [pa.float64()]
        except pa.ArrowInvalid:
            pass  # a whole number that floating point does not hold
    texts = [pa.chunked_array([_texts(name, part.to_pylist())]) for part in parts]
    return texts, [pa.string()]
