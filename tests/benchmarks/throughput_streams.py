"""Records of the Alarm network in each format, cut into chunks as a source cuts them."""

from __future__ import annotations

import io
from collections.abc import Callable

import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
from driftbn_service.records.formats import TableFormat

from driftbn import datasets

CHUNK_RECORDS = 1600  # about one megabyte of JSON
TABLE_RECORDS = 20_000  # of a table, which has a price of its own

FORMATS = (TableFormat.NDJSON, TableFormat.CSV, TableFormat.PARQUET, TableFormat.ARROW)


def alarm_rows(n_records: int) -> pd.DataFrame:
    return datasets.sample(datasets.alarm(), n_records, 1)


def alarm_chunks(rows: pd.DataFrame, kind: TableFormat) -> list[bytes]:
    """Return rows in a format, in chunks of whole records."""
    columns = kind in (TableFormat.PARQUET, TableFormat.ARROW)
    n_rows = TABLE_RECORDS if columns else CHUNK_RECORDS
    starts = range(0, len(rows), n_rows)
    return [_WRITERS[kind](rows.iloc[start : start + n_rows]) for start in starts]


def _ndjson(rows: pd.DataFrame) -> bytes:
    records = rows.astype(str).to_dict("records")
    return b"".join(orjson.dumps(record) + b"\n" for record in records)


def _csv(rows: pd.DataFrame) -> bytes:
    return rows.to_csv(index=False).encode()


def _parquet(rows: pd.DataFrame) -> bytes:
    sink = io.BytesIO()
    pyarrow.parquet.write_table(_plain(rows), sink)
    return sink.getvalue()


def _arrow(rows: pd.DataFrame) -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.Table.from_pandas(rows, preserve_index=False)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _plain(rows: pd.DataFrame) -> pa.Table:
    """Return labels as plain text, without any trace of categories."""
    return pa.table({name: pa.array(rows[name].astype(str).tolist()) for name in rows.columns})


_WRITERS: dict[TableFormat, Callable[[pd.DataFrame], bytes]] = {
    TableFormat.NDJSON: _ndjson,
    TableFormat.CSV: _csv,
    TableFormat.PARQUET: _parquet,
    TableFormat.ARROW: _arrow,
}
