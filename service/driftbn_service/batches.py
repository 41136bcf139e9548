"""Inputs read in batches, so that a large file need not fit into memory."""

from __future__ import annotations

import importlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from driftbn.errors import DataError, FormatError
from driftbn_service.errors import blamed_on
from driftbn_service.records.formats import SUFFIXES, TableFormat, suffix_and_codec
from driftbn_service.tables import (
    GZIP_MAGIC,
    STDIN,
    Records,
    Source,
    column_names,
    read_table,
)

DEFAULT_ROWS = 10_000
"""Rows of a batch unless the user says otherwise: enough that what each batch costs is little."""
BLOCK_BYTES = 1 << 20
"""Bytes of text that are parsed at a time; the types of CSV columns come from the first block."""

_ARROW_FILE_MAGIC = b"ARROW1"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_TEXT = pa.dictionary(pa.int32(), pa.string())

Rows: TypeAlias = pa.Table | pa.RecordBatch | Records


@dataclass(frozen=True)
class Batch:
    """Rows of an input that follow each other.

    Parameters
    ----------
    name
        The input: the path as given, or ``standard input``.
    data
        The rows.
    first_row
        Number of the first of them in the input, from 0.
    n_rows
        How many there are.
    share
        How much of the input has been read, about, from 0 to 1; ``None`` if that is not known.
    """

    name: str
    data: Rows = field(repr=False)
    first_row: int
    n_rows: int
    share: float | None = None


@dataclass(frozen=True)
class _Opened:
    """An input that is open, as it is and decompressed."""

    path: str
    suffix: str
    raw: io.BufferedReader
    stream: io.BufferedReader
    n_bytes: int  # as it is; 0 where that is not known

    @property
    def can_seek(self) -> bool:
        return self.stream is self.raw and self.n_bytes > 0

    @property
    def share(self) -> float | None:
        return min(1.0, self.raw.tell() / self.n_bytes) if self.n_bytes else None


def read_batches(
    path: str,
    kind: TableFormat | None = None,
    columns: Sequence[str] = (),
    n_rows: int = DEFAULT_ROWS,
) -> Iterator[Batch]:
    """Read a file, or standard input for ``-``, piece by piece.

    Only a JSON array, and Parquet or Arrow files that are compressed or come from standard input,
    are read as a whole: their formats do not allow anything else.

    Parameters
    ----------
    path
        The input; what is compressed is decompressed.
    kind
        Its format, or ``None`` to go by the extension.
    columns
        Which columns to keep, or none for all.
    n_rows
        Rows of a batch at most.

    Raises
    ------
    InputError
        If it cannot be read, its format is unknown, or a column is not there.
    """
    name = "standard input" if path == STDIN else path
    with blamed_on(name), _opened(path) as opened:
        kind = kind or SUFFIXES.get(opened.suffix)
        if kind is None:
            read_table(Source(name, opened.suffix, b""), None)  # says which formats there are
            return
        if not opened.stream.peek(1):
            raise DataError("the input is empty; there must be a table in it")
        first_row = 0
        for rows in _READERS[kind](opened):
            if not isinstance(rows, list):
                rows.validate(full=True)  # its bytes may point anywhere
            if columns:
                rows = _selected(rows, columns, check=not first_row)
            for start in range(0, len(rows), n_rows):
                part = _part(rows, start, n_rows)
                yield Batch(name, part, first_row + start, len(part), opened.share)
            first_row += len(rows)


@contextmanager
def _opened(path: str) -> Iterator[_Opened]:
    with ExitStack() as stack:
        file: Any = sys.stdin.buffer if path == STDIN else stack.enter_context(open(path, "rb"))
        raw = file if isinstance(file, io.BufferedReader) else io.BufferedReader(file)
        n_bytes = os.fstat(raw.fileno()).st_size if path != STDIN and raw.seekable() else 0
        suffix, codec = suffix_and_codec(path, raw.peek(len(GZIP_MAGIC)))
        stream = raw
        if codec is not None:
            inflated = pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), codec)
            stream = io.BufferedReader(inflated, BLOCK_BYTES)
        yield _Opened(path, suffix, raw, stream, n_bytes)


def _csv_rows(opened: _Opened) -> Iterator[Rows]:
    """Read CSV with types from the first block; if a later one disagrees, the rest as text."""
    reader = _csv_reader(opened)
    n_read = 0
    try:
        for batch in reader:
            n_read += len(batch)
            yield batch
        return
    except pa.ArrowInvalid as error:
        if opened.path == STDIN or not opened.raw.seekable():
            problem = (
                f"{error} (a file is read again where a column changes its type; a pipe cannot)"
            )
            raise FormatError(problem) from error
    with _opened(opened.path) as again:
        for batch in _csv_reader(again, reader.schema.names):
            n_skipped = min(n_read, len(batch))
            n_read -= n_skipped
            yield batch.slice(n_skipped)


def _csv_reader(opened: _Opened, text: Sequence[str] = ()) -> Any:
    csv = importlib.import_module("pyarrow.csv")
    return csv.open_csv(
        pa.PythonFile(opened.stream, mode="r"),
        read_options=csv.ReadOptions(block_size=BLOCK_BYTES),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            auto_dict_encode=True,
            column_types=dict.fromkeys(text, _TEXT),
        ),
    )


def _ndjson_rows(opened: _Opened) -> Iterator[Rows]:
    n_lines, held = 0, b""
    while block := opened.stream.read1(BLOCK_BYTES):
        whole, newline, rest = block.rpartition(b"\n")
        if not newline:
            held += block
            continue
        lines = held + whole + newline
        yield _parsed_lines(lines, n_lines)
        n_lines += lines.count(b"\n")
        held = rest
    if held.strip():
        yield _parsed_lines(held, n_lines)


def _parsed_lines(data: bytes, n_before: int) -> Rows:
    """Parse whole lines; what Arrow refuses, such as mixed types, one by one."""
    if not n_before:
        data = data.removeprefix(_BYTE_ORDER_MARK)
    arrow = importlib.import_module("pyarrow.json")
    try:
        options = arrow.ReadOptions(block_size=max(BLOCK_BYTES, len(data) + 1))
        return arrow.read_json(pa.BufferReader(data), read_options=options)
    except pa.ArrowInvalid:
        lines = enumerate(data.decode("utf-8").split("\n"), start=n_before + 1)
        return [_parsed_line(line, number) for number, line in lines if line.strip()]


def _parsed_line(line: str, number: int) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise FormatError(f"line {number} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise FormatError(f"line {number} is no JSON object but {type(value).__name__}")
    return value


def _json_rows(opened: _Opened) -> Iterator[Rows]:
    """Read an array as a whole, and anything else line by line."""
    start = opened.stream.peek(1).removeprefix(_BYTE_ORDER_MARK).lstrip()
    if start.startswith(b"{"):
        yield from _ndjson_rows(opened)
    else:
        yield read_table(Source(opened.path, ".json", opened.stream.read()), TableFormat.JSON)


def _parquet_rows(opened: _Opened) -> Iterator[Rows]:
    parquet = importlib.import_module("pyarrow.parquet")
    yield from parquet.ParquetFile(_whole(opened)).iter_batches(DEFAULT_ROWS)


def _arrow_rows(opened: _Opened) -> Iterator[Rows]:
    if opened.stream.peek(len(_ARROW_FILE_MAGIC)).startswith(_ARROW_FILE_MAGIC):
        reader = pa.ipc.open_file(_whole(opened))
        yield from (reader.get_batch(i) for i in range(reader.num_record_batches))
    else:
        yield from pa.ipc.open_stream(pa.PythonFile(opened.stream, mode="r"))


def _whole(opened: _Opened) -> Any:
    """Return a file that can be read in any order."""
    if opened.can_seek:
        return pa.PythonFile(opened.raw, mode="r")
    return pa.BufferReader(opened.stream.read())


def _part(rows: Rows, start: int, n_rows: int) -> Rows:
    return rows[start : start + n_rows] if isinstance(rows, list) else rows.slice(start, n_rows)


def _selected(rows: Rows, columns: Sequence[str], *, check: bool) -> Rows:
    known = column_names(rows)
    for name in columns if check else ():
        if name not in known:
            raise DataError(f"there is no column {name!r}; there are {known[:8]}")
    if isinstance(rows, list):
        return [{name: record[name] for name in columns if name in record} for record in rows]
    return rows.select([name for name in known if name in columns])


_READERS: dict[TableFormat, Callable[[_Opened], Iterator[Rows]]] = {
    TableFormat.CSV: _csv_rows,
    TableFormat.NDJSON: _ndjson_rows,
    TableFormat.JSON: _json_rows,
    TableFormat.PARQUET: _parquet_rows,
    TableFormat.ARROW: _arrow_rows,
}
