"""Monitors in Spark: one for each key of a stream or of a table.

Spark keeps the state of each key, and gives a call the new rows of a key in no order. A state is
the monitor's core, made anew when a window has ended, and its tail. Monitors also stay alive in the
Python worker: one whose state is still the stored one goes on without being restored.

As ``spark.python.daemon.module`` this module has Spark's Python workers forked from a process that
has everything imported and the kernels loaded.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from driftbn import datasets
from driftbn.config import MonitorConfig
from driftbn.errors import ConfigError, DataError, KnowledgeError, MissingExtraError
from driftbn.monitor import DriftMonitor
from driftbn.report import WindowReport
from driftbn.windows.sample import SEED, candidate_threshold

try:
    import pandas as pd
    import pyspark.daemon
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import functions as sql
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
    from pyspark.sql.streaming.stateful_processor import (
        StatefulProcessor,
        StatefulProcessorHandle,
        TimerValues,
        ValueState,
    )
    from pyspark.sql.types import StructType, TimestampType
except ImportError as error:
    raise MissingExtraError("driftbn.spark", "spark") from error


def _schema(**types: str) -> StructType:
    schema = StructType()
    for name, kind in types.items():
        schema.add(name, kind)
    return schema


REPORT_SCHEMA: Final = _schema(
    key="string",
    index="long",
    level="string",
    drift="boolean",
    kind="string",
    rows="long",
    first_record="long",
    last_record="long",
    start="double",
    end="double",
    p_value="double",
    headline="string",
    report="string",
    error="string",
)
"""A row for each window, with all of its report as JSON; or one with a key and its ``error``."""

_FOUND: Final = _schema(head="string", report="string")
"""What a call gives: a column of pandas costs more than to write and read JSON."""
_HEAD: Final = StructType([field for field in REPORT_SCHEMA if field.name != "report"])
_STATE: Final = _schema(core="binary", tail="binary", quiet_at="double")
_KEY: Final = "__driftbn_key"
_PACKED: Final = _schema(key="string", rows="binary", newest="long")
_PACKED_BYTES: Final = 64 << 20
"""Of records that are packed together, as they are in memory."""

GROUPS: Final = "applyInPandasWithState"
TRANSFORM: Final = "transformWithStateInPandas"

Row = tuple[Any, ...]


def monitor_stream(  # noqa: PLR0913 - each a choice of its own, most by name only
    df: DataFrame,
    key: str,
    config: MonitorConfig,
    *,
    order: str,
    watermark: str | None = None,
    numbered: bool = False,
    backend: str = GROUPS,
) -> DataFrame:
    """Return the reports of one monitor for each key of a stream, as a streaming DataFrame.

    ``key``: the column that tells the monitors apart; it is reported as text. ``order``: the column
    that puts the rows of a key in order, such as an offset or a time, with no value twice; rows of
    a trigger are sorted by it, and come after those of earlier triggers. All other columns are
    fields. ``watermark``: where windows end by time, how far behind the newest record of all keys a
    record may be, such as "10 minutes": Spark may leave out those that are later, and a key that
    has been quiet for so long has its last window reported. ``numbered``: whether ``order`` is the
    number of the record among those of its key, from 0 without a gap; with ``max_rows_per_window``
    records that no window keeps are then left out where they are read. ``backend``: how Spark keeps
    the state: ``GROUPS`` writes all of it with every batch of a key; ``TRANSFORM`` writes what a
    window changes only when one has ended, and knows no watermark.

    A batch of a key that cannot be read is left out as a whole and reported by a row with
    ``error``; its later batches and the other keys go on.

    Raises ConfigError if a column does not exist, ``watermark`` has no times to go by,
    ``numbered`` has nothing to leave out, or there is no such backend.
    """
    _check_backend(backend, watermark)
    selected, timeout = _selected(df, key, order, config), GroupStateTimeout.NoTimeout
    packing = _packing(selected, order, config)._replace(
        timed=watermark is not None, numbered=numbered
    )
    if numbered:
        selected = selected.where(_may_be_kept(order, config))
    packed = selected.mapInArrow(packing.pack, _PACKED)
    if watermark is None:
        packed = packed.drop("newest")
    else:
        _check_time_of_windows(df, config, watermark)
        newest = sql.timestamp_micros("newest")
        packed = packed.withColumn("newest", newest).withWatermark("newest", watermark)
        timeout = GroupStateTimeout.EventTimeTimeout

    def call(
        key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        core, tail, quiet_at = state.get if state.exists else (b"", b"", -math.inf)
        stored = _Stored(bytes(core), bytes(tail), quiet_at)
        rows, left = _take_new(packing, key, None if state.hasTimedOut else frames, stored)
        if left is not stored:
            state.update(tuple(left))
        if left.quiet_at > -math.inf:  # Spark takes no time that has passed
            earliest = state.getCurrentWatermarkMs() + 1
            state.setTimeoutTimestamp(max(int(left.quiet_at * 1000), earliest))
        yield from _frames(rows)

    keyed = packed.groupBy("key")
    if backend == TRANSFORM:
        found = keyed.transformWithStateInPandas(_Processor(packing), _FOUND, "append", "none")
    else:
        found = keyed.applyInPandasWithState(call, _FOUND, _STATE, "append", timeout)
    head = sql.from_json("head", _HEAD)
    return found.select(head.alias("head"), "report").select(
        *("report" if name == "report" else f"head.{name}" for name in REPORT_SCHEMA.names)
    )


def monitor_table(df: DataFrame, key: str, config: MonitorConfig, *, time: str) -> DataFrame:
    """Return the reports of one monitor for each key of a table, as a DataFrame.

    All rows of a key are one batch, sorted by ``time`` and held in memory together; the last window
    may be short. Otherwise as ``monitor_stream``.
    """
    selected = _selected(df, key, time, config)
    packing = _packing(selected, time, config)

    def call(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        rows = _whole(packing, key[0].as_py(), table["rows"].to_pylist())
        columns = [list(column) for column in zip(*rows, strict=True)]
        return pa.table(columns, to_arrow_schema(REPORT_SCHEMA))

    packed = selected.mapInArrow(packing.pack, _PACKED)
    return packed.groupBy("key").applyInArrow(call, REPORT_SCHEMA)


def warm_up() -> None:
    """Load or compile all that a monitor uses, by a short stream with a drift."""
    before, monitor = datasets.asia(), DriftMonitor(500)
    after = datasets.remove_edge(before, "smoke", "bronc").network
    for seed, network in enumerate((before, before, before, after, after, after)):
        monitor.update(datasets.sample(network, 500, seed))
    DriftMonitor.restore(monitor.core(), monitor.tail())


# The rows of a key are packed where they are read: Spark then carries one value instead of many


class Packing(NamedTuple):
    """How records are packed by key, and unpacked."""

    config: MonitorConfig
    schema: pa.Schema
    order: str
    timed: bool = False
    numbered: bool = False

    def pack(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the records of each key, in order, as one value, for as many as fit in memory."""
        held: list[pa.RecordBatch] = []
        n_bytes = 0
        for batch in (batch for batch in batches if batch.num_rows):
            held.append(batch)
            n_bytes += batch.nbytes
            if n_bytes > _PACKED_BYTES:
                yield self._by_key(held)
                held, n_bytes = [], 0
        if held:
            yield self._by_key(held)

    def _by_key(self, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
        rows = pa.Table.from_batches(batches).combine_chunks()
        keys = rows[_KEY].chunk(0).cast(pa.string()).dictionary_encode(null_encoding="encode")
        codes = keys.indices.to_numpy()
        if _is_sorted(rows[self.order]):
            sequence = pa.array(np.argsort(codes, kind="stable"))
        else:
            rows = rows.set_column(0, _KEY, keys.indices)
            sequence = pc.sort_indices(rows, [(_KEY, "ascending"), (self.order, "ascending")])
        fields = rows.drop_columns(_KEY).cast(self.schema).to_batches()[0].take(sequence)
        stops = np.cumsum(np.bincount(codes))
        starts = np.concatenate(([0], stops[:-1]))
        parts = [
            fields.slice(start, n_rows).serialize().to_pybytes()
            for start, n_rows in zip(starts.tolist(), (stops - starts).tolist(), strict=True)
        ]
        return pa.record_batch(
            [keys.dictionary, pa.array(parts, pa.binary()), self._newest(fields, starts)],
            to_arrow_schema(_PACKED),
        )

    def _newest(self, fields: pa.RecordBatch, starts: NDArray[np.intp]) -> pa.Array:
        if not self.timed:
            return pa.nulls(len(starts), pa.int64())
        seconds = fields[self.config.time_column].to_numpy(zero_copy_only=False)
        seconds = np.fmax.reduceat(seconds, starts)
        return pa.array(np.rint(seconds * 1e6), from_pandas=True).cast(pa.int64())

    def unpack(self, packed: Iterable[bytes]) -> pa.Table:
        """Return all rows, in order."""
        parts = [pa.ipc.read_record_batch(pa.py_buffer(part), self.schema) for part in packed]
        rows = pa.Table.from_batches(parts)
        return rows if len(parts) == 1 or _is_sorted(rows[self.order]) else rows.sort_by(self.order)

    def update(self, monitor: DriftMonitor, rows: pa.Table) -> tuple[WindowReport, ...]:
        records = rows[self.order].to_numpy() if self.numbered else None
        fields = rows if self.order == self.config.time_column else rows.drop_columns(self.order)
        return monitor.update(fields, records)


def _selected(df: DataFrame, key: str, order: str, config: MonitorConfig) -> DataFrame:
    """Return the key as text, and all other columns; event times as seconds since the epoch."""
    names = {"key": key, "order": order, "time_column": config.time_column}
    for setting, name in names.items():
        if name is not None and name not in df.columns:
            raise ConfigError(setting, name, f"one of the columns {df.columns}")
    columns = [_column(key).cast("string").alias(_KEY)]
    for name in (name for name in df.columns if name != key):
        seconds = name == config.time_column and _is_timestamp(df, name)
        columns.append(_column(name).cast("double").alias(name) if seconds else _column(name))
    return df.select(columns)


def _packing(selected: DataFrame, order: str, config: MonitorConfig) -> Packing:
    schema = to_arrow_schema(selected.drop(_KEY).schema, timezone="UTC")
    return Packing(config, schema, order)


def _may_be_kept(order: str, config: MonitorConfig) -> Column:
    """Return whether a window of the library may keep a record, as far as its number tells."""
    most, windows = config.max_rows_per_window, config.windows
    if most is None or windows.seconds is not None:
        allowed = "False unless max_rows_per_window is set and windows end by rows"
        raise ConfigError("numbered", True, allowed)
    seed, number = sql.lit(SEED).cast("bigint"), _column(order).cast("bigint")
    return sql.xxhash64(seed, number) <= candidate_threshold(windows.row_limit, most)


def _column(name: str) -> Column:
    """Return a column by its plain name, which may have dots and spaces."""
    return sql.col("`" + name.replace("`", "``") + "`")


def _is_timestamp(df: DataFrame, name: str) -> bool:
    return isinstance(df.schema[name].dataType, TimestampType)


def _is_sorted(values: pa.ChunkedArray) -> bool:
    rises = pc.less_equal(values[:-1], values[1:])
    return pc.all(rises, skip_nulls=False).as_py() is True


def _check_backend(backend: str, watermark: str | None) -> None:
    if backend not in (GROUPS, TRANSFORM):
        raise ConfigError("backend", backend, f"{GROUPS!r} or {TRANSFORM!r}")
    if backend == TRANSFORM and watermark is not None:
        raise ConfigError("backend", backend, f"{GROUPS!r} where there is a watermark")


def _check_time_of_windows(df: DataFrame, config: MonitorConfig, watermark: str) -> None:
    time = config.time_column
    if time is None or config.windows.seconds is None or not _is_timestamp(df, time):
        allowed = "None unless windows end by time and the time is a timestamp of Spark"
        raise ConfigError("watermark", watermark, allowed)


# A call: the new rows of one key


class LiveMonitor(NamedTuple):
    """A monitor in memory, and its state as it was stored."""

    monitor: DriftMonitor
    core: bytes
    tail: bytes

    @property
    def n_bytes(self) -> int:
        return len(self.core) + len(self.tail)


class LiveMonitors:
    """Monitors that a worker keeps from call to call, up to so many bytes of stored state.

    When there is no room, a newcomer is not kept: keys come round in the same order again and
    again, so that to make room for each would leave none that is found.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._n_bytes = 0
        self._live: dict[str | None, LiveMonitor] = {}

    def take(self, key: str | None, core: bytes, tail: bytes) -> DriftMonitor | None:
        """Return the monitor of a key, no longer kept here, if this is its state."""
        live = self._live.pop(key, None)
        if live is None:
            return None
        self._n_bytes -= live.n_bytes
        return live.monitor if (live.core, live.tail) == (core, tail) else None

    def keep(self, key: str | None, live: LiveMonitor) -> None:
        if self._n_bytes + live.n_bytes <= self._most_bytes:
            self._live[key] = live
            self._n_bytes += live.n_bytes


_LIVE: Final = LiveMonitors(32 << 20)  # about ten times as much memory
"""Those of this Python worker, which is one thread."""


class _Stored(NamedTuple):
    """What Spark keeps of a key."""

    core: bytes
    tail: bytes
    quiet_at: float  # when all windows with rows will have ended


def _take_new(
    packing: Packing, keys: tuple[Any, ...], frames: Iterator[pd.DataFrame] | None, stored: _Stored
) -> tuple[list[Row], _Stored]:
    """Take in the new rows of a key, or that it is quiet; return reports and the new state."""
    key, (core, tail, quiet_at) = None if pd.isna(keys[0]) else keys[0], stored
    monitor = _LIVE.take(key, core, tail) or _restored(packing.config, core, tail)
    try:
        if frames is None:
            reports, quiet_at = monitor.finish(), -math.inf
        else:
            rows = packing.unpack(part for frame in frames for part in frame["rows"])
            reports = packing.update(monitor, rows)
            quiet_at = max(quiet_at, _quiet_after(rows, packing))
    except (DataError, KnowledgeError) as error:  # the stored state stays as it was
        return [_error_row(key, error)], stored
    live = LiveMonitor(monitor, monitor.core() if reports or not core else core, monitor.tail())
    _LIVE.keep(key, live)
    return [_row(key, report) for report in reports], _Stored(live.core, live.tail, quiet_at)


def _frames(rows: list[Row]) -> Iterator[pd.DataFrame]:
    if rows:
        found = np.array([_found(row) for row in rows], object)
        yield pd.DataFrame(found, columns=_FOUND.names)


def _value(state: ValueState) -> bytes:
    found = state.get() if state.exists() else None
    return b"" if found is None else bytes(found[0])


class _Processor(StatefulProcessor):
    """Keeps core and tail apart, and writes only the one that has changed."""

    def __init__(self, packing: Packing) -> None:
        self._packing = packing

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._core = handle.getValueState("core", "core binary")
        self._tail = handle.getValueState("tail", "tail binary")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: tuple[Any, ...],
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        core, tail = _value(self._core), _value(self._tail)
        stored = _Stored(core, tail, -math.inf)
        found, left = _take_new(self._packing, key, rows, stored)
        if left.core != core:
            self._core.update((left.core,))
        if left.tail != tail:
            self._tail.update((left.tail,))
        yield from _frames(found)


def _restored(config: MonitorConfig, core: bytes, tail: bytes) -> DriftMonitor:
    if not core:
        return DriftMonitor(config)
    monitor = DriftMonitor.restore(core, tail)
    if monitor.config != config:
        allowed = f"as it was when the checkpoint began, {monitor.config!r}; or begin another one"
        raise ConfigError("config", config, allowed)
    return monitor


def _quiet_after(rows: pa.Table, packing: Packing) -> float:
    """Return when all windows that the rows of a batch are in will have ended."""
    windows = packing.config.windows
    if not packing.timed or windows.seconds is None:
        return -math.inf
    newest = float(pc.max(rows[packing.config.time_column]).as_py())
    return newest + windows.seconds + windows.lateness_seconds


def _whole(packing: Packing, key: str | None, packed: Iterable[bytes]) -> list[Row]:
    monitor = DriftMonitor(packing.config)
    try:
        reports = (*packing.update(monitor, packing.unpack(packed)), *monitor.finish())
    except (DataError, KnowledgeError) as error:
        return [_error_row(key, error)]
    return [_row(key, report) for report in reports]


def _row(key: str | None, report: WindowReport) -> Row:
    decision = report.decision
    return (
        key,
        report.index,
        decision.level.value,
        report.drift,
        None if decision.kind is None else decision.kind.value,
        report.rows,
        report.first_record,
        report.last_record,
        report.start,
        report.end,
        decision.p_value,
        report.explain().headline,
        orjson.dumps(report.to_dict()).decode(),
        None,
    )


def _found(row: Row) -> tuple[str, str | None]:
    values = dict(zip(REPORT_SCHEMA.names, row, strict=True))
    report = values.pop("report")
    return orjson.dumps(values).decode(), report


def _error_row(key: str | None, error: Exception) -> Row:
    return (key, *[None] * (len(REPORT_SCHEMA) - 2), str(error))


if __name__ == "__main__":
    warm_up()
    gc.freeze()  # what forked workers share is not written to by a collection
    pyspark.daemon.manager()
