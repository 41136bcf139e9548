"""How fast records of each format become reports, next to a bare loop of ``orjson.loads``.

Run ``python -m tests.benchmarks.throughput``. The records are those of the Alarm network, with
labels as text: 37 fields, about 652 bytes each as JSON. ``orjson.loads`` on one record after the
other, with nothing done with the result, is the yardstick: whoever reads JSON as Python objects
is slower. Rates are the best of the repeats, in thousands of records a second:

decode
    Bytes to rows or codes, in one thread, once the schema is known.
one thread
    Bytes to reports: decoding, learning and deciding.
two threads
    The same with a reader that decodes and a worker that learns, as the daemon has.
daemon
    With ``--daemon``: the whole way through ``driftbn run`` on a pipe.

A way that learns is never faster than learning alone, which is timed too.
"""

from __future__ import annotations

import argparse
import io
import json
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
from driftbn_service.commands.learn import warm_up
from driftbn_service.records import Decoded, Decoder
from driftbn_service.records.formats import TableFormat
from driftbn_service.records.rows import Undecoded

from driftbn import DriftMonitor, datasets
from driftbn.config import MonitorConfig
from driftbn.tables.encode import encode
from driftbn.tables.schema import Schema

N_RECORDS = 200_000
N_REPEATS = 3


# Records of the Alarm network in each format, in chunks as a source cuts them.

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


# Chunks through a decoder and a monitor, in one thread and in two.

MAX_RECORD_BYTES = 1 << 20
QUEUE_CHUNKS = 16


class Rates(NamedTuple):
    decode: float
    one_thread: float
    two_threads: float


def orjson_rate(chunks: list[bytes], repeats: int) -> float:
    """Time a bare loop over lines that are split already."""
    lines = [line for data in chunks for line in data.splitlines()]

    def run() -> int:
        loads = orjson.loads
        for line in lines:
            loads(line)
        return len(lines)

    return _best(run, repeats)


def learning_rate(rows: pd.DataFrame, window: int, repeats: int) -> float:
    """Time a monitor on codes that are there already."""
    warm_up()
    first = DriftMonitor(window=window)
    first.update(rows.iloc[:window])
    assert first.schema is not None
    batches = [encode(rows.iloc[i : i + 10_000], first.schema) for i in range(0, len(rows), 10_000)]

    def run() -> int:
        monitor = DriftMonitor(MonitorConfig(window=window, variables=first.schema))
        for table in batches:
            monitor.update(table)
        return len(rows)

    return _best(run, repeats)


def rates_of(chunks: list[bytes], kind: TableFormat, window: int, repeats: int) -> Rates:
    """Time all ways of one format; the first run compiles and does not count."""
    schema = _schema(chunks, kind, window)
    _decode_only(chunks[:2], kind, schema)
    return Rates(
        _best(lambda: _decode_only(chunks, kind, schema), repeats),
        _best(lambda: _one_thread(chunks, kind, window), repeats),
        _best(lambda: _two_threads(chunks, kind, window), repeats),
    )


def _best(run: Callable[[], int], repeats: int) -> float:
    best = 0.0
    for _ in range(repeats):
        started = time.perf_counter()
        n_records = run()
        best = max(best, n_records / (time.perf_counter() - started))
    return best


def _schema(chunks: list[bytes], kind: TableFormat, window: int) -> Schema:
    """Return what a monitor makes of the first window."""
    decoder, monitor = _decoder(kind), DriftMonitor(window=window)
    for decoded in _decoded(decoder, chunks, kind):
        _take(monitor, decoder, decoded)
        if monitor.schema is not None:
            return monitor.schema
    raise ValueError(f"fewer records than a window of {window}")


def _decode_only(chunks: list[bytes], kind: TableFormat, schema: Schema) -> int:
    decoder = _decoder(kind)
    decoder.use_schema(schema)
    return sum(decoded.n_rows for decoded in _decoded(decoder, chunks, kind))


def _one_thread(chunks: list[bytes], kind: TableFormat, window: int) -> int:
    decoder = _decoder(kind)
    monitor = DriftMonitor(window=window)
    n_rows = 0
    for decoded in _decoded(decoder, chunks, kind):
        _take(monitor, decoder, decoded)
        n_rows += decoded.n_rows
    return n_rows


def _two_threads(chunks: list[bytes], kind: TableFormat, window: int) -> int:
    decoder = _decoder(kind)
    waiting: queue.Queue[Decoded | None] = queue.Queue(QUEUE_CHUNKS)

    def read() -> None:
        for decoded in _decoded(decoder, chunks, kind):
            waiting.put(decoded)
        waiting.put(None)

    reader = threading.Thread(target=read)
    reader.start()
    monitor = DriftMonitor(window=window)
    n_rows = 0
    while (decoded := waiting.get()) is not None:
        _take(monitor, decoder, decoded)
        n_rows += decoded.n_rows
    reader.join()
    return n_rows


def _decoder(kind: TableFormat) -> Decoder:
    return Decoder(max_record_bytes=MAX_RECORD_BYTES)


def _decoded(decoder: Decoder, chunks: list[bytes], kind: TableFormat) -> Iterator[Decoded]:
    for data in chunks:
        yield decoder.decode(Undecoded(data, kind, _place))


def _place(number: int, byte: int) -> str:
    return f"record {number}"


def _take(monitor: DriftMonitor, decoder: Decoder, decoded: Decoded) -> list[Any]:
    reports = [report for rows in decoded.batches for report in monitor.update(rows)]
    decoder.use_schema(monitor.schema)
    return reports


# The whole way: ``driftbn run`` reads records from a pipe until they end.

FIRST_SHARE = 0.1  # of the records, by the end of which the daemon has started and compiled

_SETTINGS = """
[service]
state_dir = {state}
exit_when_drained = true

[endpoint]
enabled = false

[[streams]]
name = "alarm"
window = {window}

[streams.source]
kind = "stdin"
format = "ndjson"

[[outlets]]
kind = "file"
path = {events}
"""


def daemon_rate(chunks: list[bytes], window: int) -> float:
    """Return how many records a second the daemon takes from a pipe, to its end.

    The clock starts when the pipe has taken a tenth of the records. What of these is still in a
    queue then counts against the daemon, and so do its last checkpoint and its end.
    """
    n_first = max(1, int(len(chunks) * FIRST_SHARE))
    with tempfile.TemporaryDirectory() as directory:
        settings = Path(directory) / "settings.toml"
        paths = {
            name: json.dumps(str(Path(directory) / name)) for name in ("state", "events.ndjson")
        }
        text = _SETTINGS.format(state=paths["state"], events=paths["events.ndjson"], window=window)
        settings.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "driftbn_service", "run", "--config", str(settings)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as daemon:
            assert daemon.stdin is not None
            daemon.stdin.writelines(chunks[:n_first])
            started = time.perf_counter()
            daemon.stdin.writelines(chunks[n_first:])
            _, messages = daemon.communicate()
            seconds = time.perf_counter() - started
        if daemon.returncode:
            raise RuntimeError(f"the daemon failed: {messages.decode()}")
        if not Path(json.loads(paths["events.ndjson"])).exists():
            raise RuntimeError(f"the daemon has written no event: {messages.decode()}")
    return sum(data.count(b"\n") for data in chunks[n_first:]) / seconds


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.throughput")
    parser.add_argument("--records", type=int, default=N_RECORDS, help="(%(default)s)")
    parser.add_argument("--repeats", type=int, default=N_REPEATS, help="(%(default)s)")
    parser.add_argument("--window", type=int, default=5000, help="records (%(default)s)")
    parser.add_argument("--daemon", action="store_true", help="also time the real daemon")
    arguments = parser.parse_args()
    rows = alarm_rows(arguments.records)
    chunks = {kind: alarm_chunks(rows, kind) for kind in FORMATS}
    yardstick = orjson_rate(chunks[FORMATS[0]], arguments.repeats)
    learning = learning_rate(rows, arguments.window, arguments.repeats)
    write = sys.stdout.write
    write(f"bare loop of orjson.loads: {yardstick / 1e3:.0f}k records a second\n")
    write(f"learning and deciding alone, from codes: {learning / 1e3:.0f}k\n\n")
    write(f"{'':10}{'decode':>18}{'one thread':>18}{'two threads':>18}\n")
    for kind in FORMATS:
        found = rates_of(chunks[kind], kind, arguments.window, arguments.repeats)
        write(_row(kind.value, found, yardstick))
    if arguments.daemon:
        rate = daemon_rate(chunks[FORMATS[0]], arguments.window)
        write(f"\ndaemon, NDJSON from a pipe: {_cell(rate, yardstick)}\n")


def _row(name: str, rates: Rates, yardstick: float) -> str:
    return f"{name:10}" + "".join(f"{_cell(rate, yardstick):>18}" for rate in rates) + "\n"


def _cell(rate: float, yardstick: float) -> str:
    return f"{rate / 1e3:.0f}k {rate / yardstick:6.2f}x"


if __name__ == "__main__":
    main()
