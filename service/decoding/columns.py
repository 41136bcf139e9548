"""Tables that are columns already: Parquet, Arrow, and what a source made."""

from __future__ import annotations

import importlib
from collections import Counter
from typing import Final

import pyarrow as pa

from service.decoding.decoded import Problem, RejectReason
from service.decoding.json_records import MAX_DEPTH

MAX_CELLS: Final = 1 << 28
"""Cells of one Parquet table: a few bytes of it may stand for billions of equal ones."""

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
        return _checked(file.read(use_threads=False))
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
            return _checked(pa.ipc.open_file(source).read_all())
        return _checked(pa.ipc.open_stream(source).read_all())
    except _UNREADABLE as error:
        raise _bad_table("Arrow IPC", error) from error


def flat_table(table: pa.Table) -> pa.Table:
    """Return a table without objects in it, and without columns of lists or without a name.

    Raises
    ------
    Problem
        If objects are nested too deep, or two columns get the same name.

    Examples
    --------
    >>> flat_table(pa.table({"a": [{"b": 1}], "": [2], "c": [[3]]})).column_names
    ['a.b']
    """
    depth = 1
    while any(pa.types.is_struct(kind) for kind in table.schema.types):
        depth += 1
        if depth > MAX_DEPTH:
            raise Problem(RejectReason.TOO_DEEP, f"objects more than {MAX_DEPTH} deep")
        table = table.flatten()
    fields = table.schema
    kept = [i for i, field in enumerate(fields) if field.name and not _is_list(field.type)]
    if len(kept) < len(fields):
        table = table.select(kept)
    names = Counter(table.column_names)
    if len(names) < table.num_columns:
        twice = next(name for name, count in names.items() if count > 1)
        raise Problem(RejectReason.BAD_TABLE, f"two columns have the name {twice[:100]!r}")
    return table


def _is_list(kind: pa.DataType) -> bool:
    # Maps and views of lists too, of which not every version has a test of its own.
    return bool(pa.types.is_nested(kind) and not pa.types.is_struct(kind))


def _checked(table: pa.Table) -> pa.Table:
    """Look at every cell: bytes from outside may point anywhere or be no UTF-8."""
    table.validate(full=True)
    return flat_table(table)


def _bad_table(what: str, error: BaseException) -> Problem:
    return Problem(RejectReason.BAD_TABLE, f"cannot be read as {what}: {error}"[:300])
