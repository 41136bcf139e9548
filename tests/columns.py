"""Tables as bytes: Arrow streams and files, and Parquet."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def stream(table: pa.Table, codec: str | None = None, max_rows: int | None = None) -> bytes:
    """Return a table as an Arrow stream."""
    return _ipc(pa.ipc.new_stream, table, codec, max_rows)


def file(table: pa.Table, codec: str | None = None, max_rows: int | None = None) -> bytes:
    """Return a table as an Arrow file."""
    return _ipc(pa.ipc.new_file, table, codec, max_rows)


def parquet(table: pa.Table, **options: Any) -> bytes:
    """Return a table as a Parquet file."""
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def _ipc(new: Any, table: pa.Table, codec: str | None, max_rows: int | None) -> bytes:
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with new(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=max_rows)
    return sink.getvalue()
