"""How records are written down: formats, the extensions that name them, and compressions."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import PurePath
from typing import Any, Final

import pyarrow as pa

from driftbn.errors import FormatError

_GZIP_MAGIC: Final = b"\x1f\x8b"
PROBED_BYTES: Final = len(_GZIP_MAGIC)
"""How much of the start of a file ``suffix_and_codec`` looks at."""
_CODECS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_BLOCK_BYTES: Final = 1 << 12
"""Bytes that are decompressed at a time: so many before a damaged place are lost."""


class TableFormat(StrEnum):
    """How a table is written down."""

    CSV = "csv"
    """Comma-separated with a header; an unquoted empty cell or ``NA`` is missing."""
    NDJSON = "ndjson"
    """One JSON object a line."""
    JSON = "json"
    """An array of JSON objects; one object a line is read too."""
    PARQUET = "parquet"
    """Apache Parquet."""
    ARROW = "arrow"
    """Arrow IPC, as a file (Feather) or as a stream."""


SUFFIXES: Final = {
    ".csv": TableFormat.CSV,
    ".ndjson": TableFormat.NDJSON,
    ".jsonl": TableFormat.NDJSON,
    ".json": TableFormat.JSON,
    ".parquet": TableFormat.PARQUET,
    ".pq": TableFormat.PARQUET,
    ".arrow": TableFormat.ARROW,
    ".arrows": TableFormat.ARROW,
    ".feather": TableFormat.ARROW,
    ".ipc": TableFormat.ARROW,
}


def suffix_and_codec(path: str, start: bytes) -> tuple[str, str | None]:
    """Return what a file is by its name, and how it is compressed by its name or first bytes."""
    suffixes = [suffix.lower() for suffix in PurePath(path).suffixes]
    codec = _CODECS.get(suffixes[-1]) if suffixes else None
    if codec is not None:
        suffixes.pop()
    elif start.startswith(_GZIP_MAGIC):
        codec = "gzip"
    return suffixes[-1] if suffixes else "", codec


def form_of(path: str, start: bytes, kind: TableFormat | None, option: str) -> Form:
    """Return the format of a file, by its extension unless it is given, and its codec.

    ``start`` is what the file begins with; ``option`` is how a user gives the format, for the
    error. Raises ``FormatError`` if nothing tells the format.
    """
    suffix, codec = suffix_and_codec(path, start)
    kind = kind or SUFFIXES.get(suffix)
    if kind is None:
        told = f"the extension {suffix!r} tells no format" if suffix else "there is no extension"
        allowed = ", ".join(member.value for member in TableFormat)
        raise FormatError(f"{told}; set {option} to one of {allowed}")
    return kind, codec


Form = tuple[TableFormat, str | None]
"""A format, and the codec if it is compressed."""


def inflated(source: Any, codec: str) -> Iterator[bytes]:
    """Yield what compressed bytes become, some at a time.

    The source is a file of Arrow or Python, or bytes; a codec is, for example, ``zstd``. Raises
    ``OSError`` if the bytes break off or are something else.
    """
    raw = pa.BufferReader(source) if isinstance(source, bytes) else pa.PythonFile(source, mode="r")
    with pa.CompressedInputStream(raw, codec) as stream:
        while block := stream.read(_BLOCK_BYTES):
            yield block
