"""Records that were sent, as one table for the journal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from driftbn.encoding.canonical import canonical_text
from driftbn.errors import DataError
from driftbn.intake import as_records
from driftbn.records import EncodedTable
from driftbn.variables import MISSING
from service.decoding import Rows

MAX_CELLS: Final = 1 << 26
"""Rows times columns of a body: records that share no field make a table of mostly nothing."""


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
        If no record has a field, there are too many different fields, or a cell is no text, number,
        boolean or missing value.

    Examples
    --------
    >>> one_table([[{"x": 1}, {"x": "b"}, {"y": True}]]).to_pydict()
    {'x': ['1', 'b', None], 'y': [None, None, True]}
    """
    n_rows = sum(len(batch) for batch in batches if not isinstance(batch, EncodedTable))
    names = list(dict.fromkeys(name for batch in batches for name in _names(batch)))
    if not names:
        raise DataError("no record has a field: there must be at least one")
    if len(names) * n_rows > MAX_CELLS:
        raise DataError(
            f"{n_rows} records with {len(names)} different fields are too much for one table of at"
            f" most {MAX_CELLS} cells: send fewer at a time"
        )
    tables = [_table(batch) for batch in batches]
    columns = {name: _column(name, [_chunk(table, name) for table in tables]) for name in names}
    found = pa.table(columns)
    return as_records(found) if any(map(_of_records, batches)) else found


def _names(batch: Rows) -> Iterable[str]:
    if isinstance(batch, EncodedTable):
        raise TypeError("a decoder that knows no schema gives no codes")
    if isinstance(batch, pa.Table):
        return [str(name) for name in batch.schema.names]
    return [name for record in batch for name in record]


def _of_records(batch: Rows) -> bool:
    """Whether a batch was made of records; the mark is that of ``as_records``."""
    if not isinstance(batch, pa.Table):
        return True
    schema: pa.Schema = batch.schema
    return bool(as_records(batch).schema.metadata == schema.metadata)


def _table(batch: Rows) -> pa.Table:
    if not isinstance(batch, list):
        return batch
    names = dict.fromkeys(name for record in batch for name in record)
    return pa.table({name: _array(name, [item.get(name) for item in batch]) for name in names})


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


def _chunk(table: pa.Table, name: str) -> pa.ChunkedArray:
    if name in table.schema.names:
        return table.column(name)
    return pa.chunked_array([pa.nulls(table.num_rows)])


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
