"""Chunks through a decoder and a monitor, in one thread and in two."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import orjson
import pandas as pd
from driftbn_service.commands.learn import warm_up
from driftbn_service.records import Decoded, Decoder
from driftbn_service.records.formats import TableFormat
from driftbn_service.records.rows import Undecoded

from driftbn import DriftMonitor
from driftbn.config import MonitorConfig
from driftbn.tables.encode import encode
from driftbn.tables.schema import Schema

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
    return Decoder(kind, max_record_bytes=MAX_RECORD_BYTES)


def _decoded(decoder: Decoder, chunks: list[bytes], kind: TableFormat) -> Iterator[Decoded]:
    for data in chunks:
        yield decoder.decode(Undecoded(data, kind, _place))


def _place(number: int, byte: int) -> str:
    return f"record {number}"


def _take(monitor: DriftMonitor, decoder: Decoder, decoded: Decoded) -> list[Any]:
    reports = [report for rows in decoded.batches for report in monitor.update(rows)]
    decoder.use_schema(monitor.schema)
    return reports
