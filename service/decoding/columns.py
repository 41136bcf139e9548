"""Tables that are columns already: Parquet, Arrow, and what a source made."""

from __future__ import annotations

import importlib
from collections import Counter
from typing import Final

import pyarrow as pa

from driftbn.encoding.arrow_columns import cell_type, is_plain, plain_column
from service.decoding.decoded import Problem, RejectReason
from service.decoding.json_records import MAX_DEPTH

MAX_CELLS: Final = 1 << 28
"""Cells of one Parquet table: a few bytes of it may stand for billions of equal ones."""

MAX_UNPACKED_ROWS: Final = 1 << 24
"""Rows of a column that is not plain: a few bytes may stand for billions of rows in one run."""

_UNREADABLE: Final = (pa.ArrowException, OSError, ValueError, KeyError, MemoryError)
"""What Arrow raises for bytes that are not what they should be."""


def read_parquet(data: bytes) -> pa.Table:
    """Read a Parquet file, text as codes into its distinct values.

    Raises
    ------
    Problem
        If nothing of it can be read.
    """
    parquet = importlib.import_module("pyarrow.parquet")
    try:
        file = parquet.ParquetFile(pa.BufferReader(data))
        n_cells = file.metadata.num_rows * max(1, file.metadata.num_columns)
        if n_cells > MAX_CELLS:
            detail = f"{n_cells} cells, where a table may have {MAX_CELLS}"
            raise Problem(RejectReason.TOO_LARGE, detail)
        texts = [field.name for field in file.schema_arrow if pa.types.is_string(field.type)]
        file = parquet.ParquetFile(pa.BufferReader(data), read_dictionary=texts)
        return checked_table(file.read(use_threads=False))
    except _UNREADABLE as error:
        raise _bad_table("Parquet", error) from error


def read_arrow(data: bytes) -> pa.Table:
    """Read Arrow IPC, a file or a stream.

    Raises
    ------
    Problem
        If nothing of it can be read.
    """
    try:
        source = pa.BufferReader(data)
        if data.startswith(b"ARROW1"):
            return checked_table(pa.ipc.open_file(source).read_all())
        return checked_table(pa.ipc.open_stream(source).read_all())
    except _UNREADABLE as error:
        raise _bad_table("Arrow IPC", error) from error


def flat_table(table: pa.Table) -> pa.Table:
    """Return a table of plain columns, without objects, lists and columns without a name.

    Nothing behind this sees a type that Arrow or the library cannot handle: ``plain_column`` says
    what becomes of each. Cells of a type that none of them can be made of, such as lists, maps and
    unions, are no value, as they are in JSON.

    Raises
    ------
    Problem
        If objects are nested too deep, there are too many rows to unpack, or two columns get the
        same name.

    Examples
    --------
    >>> flat_table(pa.table({"a": [{"b": 1}], "": [2], "c": [[3]]})).column_names
    ['a.b']
    """
    for _ in range(MAX_DEPTH):
        table = _plain_table(table)
        if not any(map(pa.types.is_struct, table.schema.types)):
            return _named(table)
        table = table.flatten()
    raise Problem(RejectReason.TOO_DEEP, f"objects more than {MAX_DEPTH} deep")


def _plain_table(table: pa.Table) -> pa.Table:
    """Return a table with plain columns and objects, and no others."""
    changed: dict[int, pa.ChunkedArray | None] = {}
    for i, kind in enumerate(table.schema.types):
        if not is_plain(kind) or pa.types.is_dictionary(kind):
            column = table.column(i)
            plain = _plain_or_object(column)
            if plain is not column:
                changed[i] = plain
    if not changed:
        return table
    columns = {i: changed.get(i, column) for i, column in enumerate(table.columns)}
    kept = {i: column for i, column in columns.items() if column is not None}
    if not kept:
        return table.select([])  # which keeps the number of rows
    names = [table.field(i).name for i in kept]
    return pa.Table.from_arrays(list(kept.values()), names, metadata=table.schema.metadata)


def _plain_or_object(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    if not is_plain(column.type) and _is_list(cell_type(column.type)):
        return None
    if not is_plain(column.type) and len(column) > MAX_UNPACKED_ROWS:
        detail = f"{len(column)} rows to unpack, where a table may have {MAX_UNPACKED_ROWS}"
        raise Problem(RejectReason.TOO_LARGE, detail)
    try:
        return plain_column(column)
    except pa.ArrowNotImplementedError:  # by the version of Arrow that is installed
        return None


def _named(table: pa.Table) -> pa.Table:
    """Return a table without columns that have no name."""
    kept = [i for i, name in enumerate(table.column_names) if name]
    if len(kept) < table.num_columns:
        table = table.select(kept)
    names = Counter(table.column_names)
    if len(names) < table.num_columns:
        twice = next(name for name, count in names.items() if count > 1)
        raise Problem(RejectReason.BAD_TABLE, f"two columns have the name {twice[:100]!r}")
    return table


def _is_list(kind: pa.DataType) -> bool:
    # Maps and views of lists too, of which not every version has a test of its own, and objects
    # without fields, with which Arrow would lose the rows.
    is_object = pa.types.is_struct(kind) and kind.num_fields
    return bool(pa.types.is_nested(kind) and not is_object)


def checked_table(table: pa.Table) -> pa.Table:
    """Return a flat table of one whose bytes may point anywhere or be no UTF-8.

    Raises
    ------
    Problem
        If that is so, or it cannot be made flat.
    """
    try:
        table.validate(full=True)
    except pa.ArrowException as error:
        raise _bad_table("Arrow", error) from error
    return flat_table(table)


def _bad_table(what: str, error: BaseException) -> Problem:
    return Problem(RejectReason.BAD_TABLE, f"cannot be read as {what}: {error}"[:300])
