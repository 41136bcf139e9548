"""Tables from files and standard input: CSV, NDJSON, JSON arrays, Parquet and Arrow."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from driftbn.errors import DataError, FormatError
from driftbn_service.errors import InputError, blamed_on
from driftbn_service.records.formats import SUFFIXES, TableFormat, suffix_and_codec

STDIN = "-"
"""The path that means standard input."""

GZIP_MAGIC = b"\x1f\x8b"
_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_LARGEST_BLOCK = 2**31 - 1  # Arrow counts the bytes of a block in 32 bits
_USUAL_BLOCK = 1 << 20

Records: TypeAlias = list[dict[str, Any]]


@dataclass(frozen=True)
class Source:
    """The bytes of an input, decompressed, with a name for messages.

    Parameters
    ----------
    name
        The path as given, or ``standard input``.
    suffix
        The extension in small letters, without that of a compression.
    data
        The bytes.
    """

    name: str
    suffix: str
    data: bytes = field(repr=False)


def read_source(path: str) -> Source:
    """Read a file, or standard input for ``-``; what is compressed is decompressed.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    name = "standard input" if path == STDIN else path
    with blamed_on(name):
        data = sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
        suffix, codec = suffix_and_codec(path, data)
        if codec is not None:
            data = pa.CompressedInputStream(pa.BufferReader(data), codec).read()
    return Source(name, suffix, data)


def read_table(
    source: Source, kind: TableFormat | None, columns: Sequence[str] = ()
) -> pa.Table | Records:
    """Read a table; its format follows from the extension unless it is given.

    Parameters
    ----------
    source
        The bytes.
    kind
        The format, or ``None`` to go by the extension.
    columns
        Which columns to keep, or none for all.

    Returns
    -------
    pyarrow.Table or list of dict
        Records for JSON whose columns mix types, which Arrow cannot hold.

    Raises
    ------
    InputError
        If the format is unknown, the bytes are not in it, or a column is not there.
    """
    kind = kind or SUFFIXES.get(source.suffix)
    if kind is None:
        allowed = ", ".join(member.value for member in TableFormat)
        problem = (
            f"the extension {source.suffix!r} tells no format"
            if source.suffix
            else ("there is no extension to tell the format")
        )
        raise InputError(source.name, f"{problem}; give --input-format, one of {allowed}")
    with blamed_on(source.name):
        if not source.data.strip():
            raise DataError("the input is empty; there must be a table in it")
        table = _READERS[kind](source.data)
        if isinstance(table, pa.Table):
            table.validate(full=True)  # its bytes may point anywhere
        return _selected(table, columns) if columns else table


def column_names(table: pa.Table | Records) -> list[str]:
    """Return the names of the columns in their order."""
    if isinstance(table, list):
        return list(dict.fromkeys(name for record in table for name in record))
    return [str(name) for name in table.schema.names]


def _read_csv(data: bytes) -> pa.Table:
    """Read CSV, with types from the first block; if a later one disagrees, from all of it."""
    try:
        return _parse_csv(data, _USUAL_BLOCK)
    except pa.ArrowInvalid:
        if len(data) <= _USUAL_BLOCK:
            raise
        return _parse_csv(data, min(len(data) + 1, _LARGEST_BLOCK))


def _parse_csv(data: bytes, block_size: int) -> pa.Table:
    csv = importlib.import_module("pyarrow.csv")
    return csv.read_csv(
        pa.BufferReader(data),
        read_options=csv.ReadOptions(block_size=block_size),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            strings_can_be_null=True, quoted_strings_can_be_null=False, auto_dict_encode=True
        ),
    )


def _read_ndjson(data: bytes) -> pa.Table | Records:
    try:
        return importlib.import_module("pyarrow.json").read_json(pa.BufferReader(data))
    except pa.ArrowInvalid:
        return _read_lines(data)


def _read_lines(data: bytes) -> Records:
    """Read line by line what Arrow refuses: mixed types, or an error to be named by its line."""
    records = []
    for number, line in enumerate(data.decode("utf-8-sig").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            records.append(_record(json.loads(line), number, "line"))
        except (json.JSONDecodeError, RecursionError) as error:
            raise FormatError(f"line {number} is not JSON: {error}") from error
    return records


def _read_json(data: bytes) -> pa.Table | Records:
    if not data.decode("utf-8-sig").lstrip().startswith("["):
        return _read_ndjson(data)
    try:
        listed = json.loads(data)
    except (json.JSONDecodeError, RecursionError) as error:
        raise FormatError(f"is not JSON: {error}") from error
    return [_record(item, number, "item") for number, item in enumerate(listed, start=1)]


def _record(value: object, number: int, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"{what} {number} is no JSON object but {type(value).__name__}")
    return value


def _read_parquet(data: bytes) -> pa.Table:
    return importlib.import_module("pyarrow.parquet").read_table(pa.BufferReader(data))


def _read_arrow(data: bytes) -> pa.Table:
    try:
        return pa.ipc.open_file(pa.BufferReader(data)).read_all()
    except pa.ArrowInvalid:
        return pa.ipc.open_stream(pa.BufferReader(data)).read_all()


def _selected(table: pa.Table | Records, columns: Sequence[str]) -> pa.Table | Records:
    known = column_names(table)
    for name in columns:
        if name not in known:
            raise DataError(f"there is no column {name!r}; there are {known[:8]}")
    if isinstance(table, list):
        return [{name: record.get(name) for name in columns} for record in table]
    return table.select([i for i, name in enumerate(known) if name in columns])


_READERS = {
    TableFormat.CSV: _read_csv,
    TableFormat.NDJSON: _read_ndjson,
    TableFormat.JSON: _read_json,
    TableFormat.PARQUET: _read_parquet,
    TableFormat.ARROW: _read_arrow,
}
