"""Tables that are columns already: Parquet, Arrow, and what a source made."""

from __future__ import annotations

import importlib
from collections import Counter
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from driftbn.tables.read import MAX_DEPTH, cell_type, is_plain, plain_column
from driftbn_service.records.rows import (
    Limits,
    Problem,
    RejectReason,
    check_cells,
    check_fields,
    check_name,
)
from driftbn_service.records.sizes import (
    FILE_HEAD_BYTES,
    MAGIC,
    Footer,
    Pages,
    RowGroup,
    read_footer,
    stream_end,
    stream_sizes,
)

MAX_UNPACKED_ROWS: Final = 1 << 24
"""Rows of a column that is not plain: a few bytes may stand for billions of rows in one run."""

UNREADABLE: Final = (
    pa.ArrowException, OSError, ValueError, KeyError, MemoryError, OverflowError,
)  # fmt: skip
"""What Arrow raises for bytes that are not what they should be."""
_FOOTER_BYTES: Final = 1 << 20
"""The largest footer of a Parquet body: about 5000 columns of row groups."""
_VIEWS: Final = (pa.string_view(), pa.binary_view())
_LENGTHS_KNOWN: Final = (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())
_TEXT_IDS: Final = frozenset(kind.id for kind in (*_VIEWS, *_LENGTHS_KNOWN))


def read_parquet(data: bytes, limits: Limits) -> pa.Table:
    """Read a Parquet file, text as codes into its distinct values.

    Raises ``Problem`` if nothing of it can be read, or it is too large.
    """
    try:
        view = memoryview(data)
        footer = read_footer(lambda at, size: view[at : at + size], len(data), _FOOTER_BYTES)
        check_fields(len(footer.leaves), limits.fields)
        check_cells(footer.n_rows)
        file = open_parquet(pa.BufferReader(data), footer)
        schema = file.schema_arrow
        check_schema(schema, limits)
        pages = Pages(lambda at, _: view[at:])
        n_cells = n_bytes = longest = 0
        for group in footer.groups:
            sizes = group_sizes(schema, footer, group, pages)
            n_cells, n_bytes = n_cells + sizes.n_cells, n_bytes + sizes.n_bytes
            longest = max(longest, sizes.delta_bytes)
            check_cells(n_cells)
            limits.check_bytes(n_bytes)
        table = _read_slowly(file, limits, longest) if longest else file.read(use_threads=False)
        return checked_table(table, limits)
    except UNREADABLE as error:
        raise _bad_table("Parquet", error) from error


def _read_slowly(file: Any, limits: Limits, longest: int) -> pa.Table:
    """Read a file of which only reading tells how large it gets, by rows of so many bytes."""
    batches, n_bytes = [], 0
    for batch in file.iter_batches(max(1, limits.table_bytes // longest)):
        n_bytes += batch.nbytes
        limits.check_bytes(n_bytes)
        batches.append(batch)
    return pa.Table.from_batches(batches).unify_dictionaries()


def open_parquet(source: Any, footer: Footer) -> Any:
    """Return a ``ParquetFile`` that gives text as codes into its distinct values, where it can.

    A text that many rows share is then kept once, however long it is.
    """
    parquet = importlib.import_module("pyarrow.parquet")
    delta = footer.delta_columns()
    leaves = (leaf for i, leaf in enumerate(footer.leaves) if leaf.is_text and i not in delta)
    texts = [".".join(leaf.path) for leaf in leaves]
    return parquet.ParquetFile(source, read_dictionary=texts)


class GroupSizes(NamedTuple):
    n_cells: int
    n_bytes: int  # of all of it
    page_bytes: int  # of a page of each column, and of what is kept of the column beside it
    row_bytes: int  # of a row, the bytes of texts that rows share left aside
    delta_bytes: int  # of values that may repeat others, in the longest row there can be


def group_sizes(schema: pa.Schema, footer: Footer, group: RowGroup, pages: Pages) -> GroupSizes:
    """Return what a row group becomes. Raises ``ValueError`` if its pages cannot be read."""
    plain = {field.name for field in schema if _holds_plain_text(field.type)}
    n_cells = n_bytes = page_bytes = row_bytes = delta_bytes = 0
    for leaf, column in zip(footer.leaves, group.columns, strict=True):
        sizes = pages.sizes(column)
        shared = leaf.is_text and leaf.path[0] in plain
        width = leaf.width + (sizes.dictionary_bytes if shared else 0)
        n_cells += sizes.n_values
        n_bytes += sizes.n_bytes + sizes.n_values * width
        page_bytes += sizes.largest_page + sizes.dictionary_bytes
        row_bytes += width + sizes.delta_page
        delta_bytes += sizes.delta_page
    return GroupSizes(n_cells, n_bytes, page_bytes, row_bytes, delta_bytes)


def read_arrow(data: bytes, limits: Limits) -> pa.Table:
    """Read Arrow IPC, a file or a stream.

    Raises ``Problem`` if nothing of it can be read, or it is too large.
    """
    try:
        stream = _stream_of(data)
        reader = pa.ipc.open_stream(stream)
        check_schema(reader.schema, limits)
        _, n_cells, n_bytes = stream_sizes(stream)
        check_cells(n_cells)
        limits.check_bytes(n_bytes)
        return checked_table(reader.read_all(), limits)
    except UNREADABLE as error:
        raise _bad_table("Arrow IPC", error) from error


def _stream_of(data: bytes) -> pa.Buffer:
    """Return the stream that an Arrow file has in it, or the data themselves."""
    whole = pa.py_buffer(data)
    if not data.startswith(MAGIC):
        return whole
    end = stream_end(data[-16:], len(data))
    if end is None:
        raise ValueError("an Arrow file without its end")
    return whole[FILE_HEAD_BYTES:end]


def check_schema(schema: pa.Schema, limits: Limits) -> None:
    """Look at what fields there are, before their names are joined.

    Raises ``Problem`` if there are too many, a name gets too long, or objects are nested too deep.
    """
    names, kinds = schema.names, schema.types
    if any(kind.num_fields for kind in kinds):
        check_fields(sum(map(_n_fields, names, kinds)), limits.fields)
    else:
        check_fields(len(names), limits.fields)
        check_name(max(map(len, names), default=0))


def _n_fields(name: str, kind: pa.DataType, n_before: int = 0, depth: int = 1) -> int:
    """Count the fields that one becomes; ``n_before`` characters stand before its name."""
    length = n_before + len(name)
    check_name(length)
    if not pa.types.is_struct(kind):
        return 1
    if depth == MAX_DEPTH:
        raise Problem(RejectReason.TOO_DEEP, f"objects more than {MAX_DEPTH} deep")
    return sum(_n_fields(part.name, part.type, length + 1, depth + 1) for part in kind)


def flat_table(table: pa.Table) -> pa.Table:
    """Return a table of plain columns, without objects, lists and columns without a name.

    Nothing behind this sees a type that Arrow or the library cannot handle: ``plain_column`` says
    what becomes of each. Cells of a type that none of them can be made of, such as lists, maps and
    unions, are no value, as they are in JSON. Raises ``Problem`` if objects are nested too deep,
    there are too many rows to unpack, or two columns get the same name.

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
    if not all(map(is_plain, table.schema.types)):
        pairs = zip(table.column_names, map(_plain_or_object, table.columns), strict=True)
        kept = [(name, column) for name, column in pairs if column is not None]
        if not kept:
            return table.select([])  # which keeps the number of rows
        names, columns = zip(*kept, strict=True)
        table = pa.table(columns, names).replace_schema_metadata(table.schema.metadata)
    return joined(table)


def joined(table: pa.Table) -> pa.Table:
    """Return a table of plain columns, or mixed ones, in which codes have one dictionary."""
    for i, kind in enumerate(table.schema.types):
        if pa.types.is_dictionary(kind) and (column := table.column(i)).num_chunks != 1:
            table = table.set_column(i, table.column_names[i], _with_one_dictionary(column))
    return table


def _plain_or_object(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    if is_plain(column.type):
        return column
    if _is_list(cell_type(column.type)):
        return None
    if len(column) > MAX_UNPACKED_ROWS:
        detail = f"{len(column)} rows to unpack, where a table may have {MAX_UNPACKED_ROWS}"
        raise Problem(RejectReason.TOO_LARGE, detail)
    try:
        return plain_column(column).unify_dictionaries()
    except pa.ArrowNotImplementedError:  # by the version of Arrow that is installed
        return None


def _with_one_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return pieces of codes with codes of 32 bits into the same values.

    Widening the codes takes a fifth of the time of ``plain_column``, which gives the values new
    places, as it must where one of them is null.
    """
    chunks, codes = column.chunks, pa.int32()
    if any(chunk.dictionary.null_count for chunk in chunks):
        column = plain_column(column)
    elif column.type.index_type != codes:
        column = pa.chunked_array(
            pa.DictionaryArray.from_arrays(chunk.indices.cast(codes), chunk.dictionary, safe=False)
            for chunk in chunks
        )
    return column.unify_dictionaries()


def _named(table: pa.Table) -> pa.Table:
    names = table.column_names
    if "" in names:
        table = table.select([i for i, name in enumerate(names) if name])
        names = table.column_names
    if len(set(names)) < len(names):
        ((twice, _),) = Counter(names).most_common(1)
        raise Problem(RejectReason.BAD_TABLE, f"two columns have the name {twice[:100]!r}")
    return table


def _is_list(kind: pa.DataType) -> bool:
    # Maps and views of lists too, of which not every version has a test of its own, and objects
    # without fields, with which Arrow would lose the rows.
    is_object = pa.types.is_struct(kind) and kind.num_fields
    return bool(pa.types.is_nested(kind) and not is_object)


def checked_table(table: pa.Table, limits: Limits) -> pa.Table:
    """Return a flat table of one whose bytes may point anywhere or be no UTF-8.

    Raises ``Problem`` if that is so, it is too large, or it cannot be made flat.
    """
    try:
        if odd := [i for i, kind in enumerate(table.schema.types) if not is_plain(kind)]:
            table.validate()
            chunks = (chunk for i in odd for chunk in table.column(i).chunks)
            limits.check_bytes(sum(map(_n_shared, chunks)))
        table.validate(full=True)
    except pa.ArrowException as error:
        raise _bad_table("Arrow", error) from error
    return flat_table(table) if odd else _named(joined(table))


def _n_shared(array: pa.Array) -> int:
    """Count the bytes of texts that rows share, as if each row had its own."""
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return _n_shared(array.storage)
    if pa.types.is_struct(kind):
        return sum(_n_shared(part) for part in array.flatten())
    if kind in _VIEWS and len(array):
        views = np.frombuffer(array.buffers()[1], np.int32)[: 4 * (array.offset + len(array))]
        return int(views[4 * array.offset :: 4].astype(np.int64).sum())
    if pa.types.is_run_end_encoded(kind) and _holds_plain_text(kind.value_type):
        return len(array) * _longest(array.values)
    return 0


def _longest(values: pa.Array) -> int:
    """Return the bytes of the longest text, or of all of them where Arrow cannot tell."""
    if values.type in _LENGTHS_KNOWN:
        return pc.max(pc.binary_length(values)).as_py() or 0
    return int(values.nbytes)


def _holds_plain_text(kind: pa.DataType) -> bool:
    """Whether there is text that is not given as codes into its distinct values."""
    if isinstance(kind, pa.BaseExtensionType):
        return _holds_plain_text(kind.storage_type)
    if pa.types.is_nested(kind):
        return any(_holds_plain_text(kind.field(i).type) for i in range(kind.num_fields))
    return kind.id in _TEXT_IDS


def _bad_table(what: str, error: BaseException) -> Problem:
    return Problem(RejectReason.BAD_TABLE, f"cannot be read as {what}: {error}"[:300])
