"""Bodies that are small to send and would take gigabytes or minutes to read."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tests.columns import file, parquet, stream

MB = 1 << 20
_MARK = 77_777  # rows, a number that stands nowhere else
NDJSON, JSON, CSV = "application/x-ndjson", "application/json", "text/csv"
ARROW, PARQUET = "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"


class Bomb(NamedTuple):
    """A body, and what the answer must name; nothing where the body fits and is taken."""

    content_type: str
    body: Callable[[], bytes]
    named: str
    encoding: str = "identity"


def objects_of_names(n_outer: int, n_inner: int) -> bytes:
    """Return a record with a long name around many short ones."""
    return json.dumps({"o" * n_outer: {f"{i:x}": 1 for i in range(n_inner)}}).encode()


def nested_names() -> bytes:
    """Return a record of 23 kB with long names around each other."""
    inner = {f"{i:x}": 1 for i in range(1000)}
    return json.dumps({"a" * 5000: {"b" * 5000: {"c" * 3000: inner}}}).encode()


def records_without_a_common_field(n_records: int, n_names: int) -> bytes:
    """Return tiny records that become wide columns of nothing."""
    return b"".join(b'{"%x":1}\n' % (i % n_names) for i in range(n_records))


def names_twice(n_names: int) -> bytes:
    """Return a record that has every name twice."""
    fields = b",".join(b'"%x":1' % (i // 2) for i in range(2 * n_names))
    return b"{" + fields + b"}"


def csv_of_columns(n_columns: int) -> bytes:
    names = ",".join(f"c{i}" for i in range(n_columns))
    return f"{names}\n{','.join('1' * n_columns)}\n".encode()


def zeros(n_columns: int, n_rows: int) -> pa.Table:
    column = pa.array(np.zeros(n_rows, np.int64))
    return pa.table({f"c{i}": column for i in range(n_columns)})


def views_of_one_text(n_rows: int, n_bytes: int) -> bytes:
    """Return rows that all point to one long text."""
    (one,) = (pa.array(["x" * n_bytes], pa.string_view()),)
    views = np.tile(np.frombuffer(one.buffers()[1], np.uint8), n_rows)
    buffers = [None, pa.py_buffer(views), *one.buffers()[2:]]
    column = pa.Array.from_buffers(pa.string_view(), n_rows, buffers)
    return stream(pa.table({"x": column}), "zstd")


def runs_of_one_text(n_rows: int, n_bytes: int) -> bytes:
    """Return one long text that is said to stand in many rows."""
    column = pa.RunEndEncodedArray.from_arrays(pa.array([n_rows], pa.int32()), ["x" * n_bytes])
    return stream(pa.table({"x": column}))


def codes_of_one_text(n_rows: int, n_bytes: int) -> bytes:
    """Return rows that all have the same long text, as codes."""
    indices = pa.array(np.zeros(n_rows, np.int8))
    column = pa.DictionaryArray.from_arrays(indices, pa.array(["x" * n_bytes]))
    return stream(pa.table({"x": column}), "zstd")


def parquet_text(kind: pa.DataType, n_rows: int, n_bytes: int) -> bytes:
    """Return rows of one long text, which Parquet keeps once."""
    text = pa.array(["x" * n_bytes]).cast(kind)
    if isinstance(kind, pa.BaseExtensionType) or pa.types.is_fixed_size_binary(kind):
        return parquet(pa.table({"x": text.take(pa.array([0] * n_rows))}))
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n_rows, np.int32)), text)
    return parquet(pa.table({"x": column}), store_schema=False)


def wide_struct(n_fields: int) -> pa.Table:
    """Return a row with one object of many fields."""
    return pa.table({"o": [{f"{i:x}": 1 for i in range(n_fields)}]})


BOMBS = {
    # JSON
    "a long name around 55,000": Bomb(NDJSON, lambda: objects_of_names(MB // 4, 55_000), "256"),
    "the same in an array": Bomb(
        JSON, lambda: b"[" + objects_of_names(MB // 4, 55_000) + b"]", "256"
    ),
    "a short name around 55,000": Bomb(NDJSON, lambda: objects_of_names(9, 55_000), "max_fields"),
    "the same beside good ones": Bomb(
        NDJSON, lambda: b'{"a":1}\n' * 5000 + objects_of_names(9, 55_000), "max_fields"
    ),
    "long names within each other": Bomb(NDJSON, nested_names, "256"),
    "80,000 fields": Bomb(
        NDJSON, lambda: json.dumps({f"{i:x}": 1 for i in range(80_000)}).encode(), "max_fields"
    ),
    "a million lists within each other": Bomb(
        NDJSON, lambda: b'{"a":' + b"[" * 500_000 + b"]" * 500_000 + b"}", "deep"
    ),
    "100,000 objects within each other": Bomb(
        NDJSON, lambda: b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "deep"
    ),
    "a number of a million digits": Bomb(NDJSON, lambda: b'{"a":' + b"9" * 10**6 + b"}", "float"),
    "a text of 10 MB": Bomb(
        NDJSON, lambda: b'{"a":"' + b"x" * (10 * MB) + b'"}', "max_record_bytes"
    ),
    "400,000 records of 2000 fields, one each": Bomb(
        NDJSON, lambda: records_without_a_common_field(400_000, 2000), "cells"
    ),
    "100,000 records with a field of their own": Bomb(
        NDJSON, lambda: records_without_a_common_field(100_000, 100_000), "max_fields"
    ),
    "the same with a text and a number": Bomb(
        NDJSON,
        lambda: b'{"0":"a"}\n' + records_without_a_common_field(400_000, 2000),
        "cells",
    ),
    "20 million records without fields": Bomb(
        NDJSON, lambda: gzip.compress(b"{}\n" * 20_000_000), "cells", "gzip"
    ),
    "16 million lines that are no JSON": Bomb(NDJSON, lambda: b"{\n" * (15 * MB), "or more"),
    "50,000 names, each twice": Bomb(NDJSON, lambda: names_twice(50_000), "twice"),
    # Text that is compressed
    "gzip of 10 GB": Bomb(
        NDJSON, lambda: gzip_of_zeros(10 << 30), "max_decoded_bytes", "gzip"
    ),
    "zstd of 10 GB": Bomb(
        NDJSON, lambda: zstd_of_zeros(10 << 30), "max_decoded_bytes", "zstd"
    ),
    # CSV
    "10,000 columns": Bomb(CSV, lambda: csv_of_columns(10_000), "max_fields"),
    "100,000 columns": Bomb(CSV, lambda: csv_of_columns(100_000), "max_fields"),
    "2000 columns": Bomb(CSV, lambda: csv_of_columns(2000), ""),
    "a header of 10 MB": Bomb(CSV, lambda: b"x" * (10 * MB) + b"\n1\n", "max_record_bytes"),
    "a header of 10 million commas": Bomb(
        CSV, lambda: b"," * (10 * MB) + b"\n1\n", "max_record_bytes"
    ),
    "10 million rows": Bomb(CSV, lambda: b"x\n" + b"1\n" * 10_000_000, ""),
    "30 million rows": Bomb(
        CSV, lambda: gzip.compress(b"x\n" + b"1\n" * 30_000_000), "cells", "gzip"
    ),
    "a million bad rows": Bomb(CSV, lambda: b"x,y\n" + b"1\n" * 1_000_000, "or more"),
    "a million rows that are no text": Bomb(CSV, lambda: b"x\n" + b"\xff\n" * 10**6, "or more"),
    # Arrow
    "zstd buffers of 512 MB": Bomb(ARROW, lambda: stream(zeros(64, MB), "zstd"), "cells"),
    "lz4 buffers of 96 MB": Bomb(
        ARROW, lambda: stream(zeros(1, 12 * MB), "lz4"), "max_decoded_bytes"
    ),
    "an Arrow file of 96 MB": Bomb(
        ARROW, lambda: file(zeros(1, 12 * MB), "zstd"), "max_decoded_bytes"
    ),
    "a dictionary of 100 MB": Bomb(
        ARROW,
        lambda: stream(pa.table({"x": pa.array(["x" * (100 * MB)]).dictionary_encode()}), "zstd"),
        "max_decoded_bytes",
    ),
    "2**60 rows of nothing": Bomb(ARROW, lambda: nulls(2**60), "cells"),
    "2**60 rows without columns": Bomb(ARROW, lambda: no_columns(2**60), "cells"),
    "views of one text": Bomb(ARROW, lambda: views_of_one_text(MB, MB), "max_decoded_bytes"),
    "runs of one text": Bomb(ARROW, lambda: runs_of_one_text(10 * MB, MB), "max_decoded_bytes"),
    "2**30 runs": Bomb(ARROW, lambda: runs_of_one_text(2**30, 1), "cells"),
    "codes of one text": Bomb(ARROW, lambda: codes_of_one_text(4 * MB, 1000), ""),
    "100,000 columns in Arrow": Bomb(ARROW, lambda: stream(zeros(100_000, 1)), "max_fields"),
    "100,000 fields of an object": Bomb(ARROW, lambda: stream(wide_struct(100_000)), "max_fields"),
    "long names in Arrow": Bomb(
        ARROW, lambda: stream(wide_struct(1000).rename_columns(["o" * MB])), "256"
    ),
    # Parquet
    "25 million equal numbers": Bomb(
        PARQUET, lambda: parquet(zeros(100, MB // 4)), "cells"
    ),
    "rows of one long text": Bomb(PARQUET, lambda: parquet_text(pa.string(), 4 * MB, 1000), ""),
    "rows of one long binary": Bomb(PARQUET, lambda: parquet_text(pa.binary(), 4 * MB, 1000), ""),
    "rows of one long fixed binary": Bomb(
        PARQUET, lambda: parquet_text(pa.binary(MB), 100, MB), "max_decoded_bytes"
    ),
    "rows of one long JSON": Bomb(
        PARQUET, lambda: parquet_text(pa.json_(), 100, MB), "max_decoded_bytes"
    ),
    "a page of 100 MB": Bomb(
        PARQUET,
        lambda: parquet(
            pa.table({"x": ["x" * (100 * MB)]}), compression="zstd", use_dictionary=False,
            write_statistics=False,
        ),
        "max_decoded_bytes",
    ),
    "texts that repeat the one before": Bomb(
        PARQUET,
        lambda: parquet(
            pa.table({"x": [f"{'x' * 100_000}{i}" for i in range(1000)]}), use_dictionary=False,
            column_encoding="DELTA_BYTE_ARRAY",
        ),
        "max_decoded_bytes",
    ),
    "4000 columns in Parquet": Bomb(PARQUET, lambda: parquet(zeros(4000, 1)), "max_fields"),
}  # fmt: skip
"""By what they are."""


def gzip_of_zeros(n_bytes: int) -> bytes:
    """Return many blanks, of which each block is the same."""
    member = gzip.compress(b" " * (64 * MB))
    return member * (n_bytes // (64 * MB))


def zstd_of_zeros(n_bytes: int) -> bytes:
    """Return many blanks in one frame after the other."""
    frame: bytes = pa.compress(b" " * (64 * MB), codec="zstd", asbytes=True)
    return frame * (n_bytes // (64 * MB))


def nulls(n_rows: int) -> bytes:
    """Return a column of nothing, which has no bytes whatever its length."""
    return _with_rows(pa.table({"x": pa.nulls(_MARK)}), n_rows)


def no_columns(n_rows: int) -> bytes:
    """Return a batch that has rows and no columns."""
    return _with_rows(pa.table({"x": pa.nulls(_MARK)}).select([]), n_rows)


def _with_rows(table: pa.Table, n_rows: int) -> bytes:
    """Return a table as if it had another number of rows."""
    return stream(table).replace(_MARK.to_bytes(8, "little"), n_rows.to_bytes(8, "little"))
