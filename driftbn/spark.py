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
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import orjson
import pyarrow as pa

from driftbn import datasets
from driftbn.config import MonitorConfig
from driftbn.errors import ConfigError, DataError, KnowledgeError, MissingExtraError
from driftbn.monitor import DriftMonitor
from driftbn.report import WindowReport

try:
    import pandas as pd
    import pyspark.daemon
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import functions as sql
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
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

_STATE: Final = _schema(core="binary", tail="binary", quiet_at="double")
_KEY: Final = "__driftbn_key"
_CLOCK: Final = "__driftbn_clock"

Row = tuple[Any, ...]


class _Query(NamedTuple):
    """What each call is given beside the rows of its key."""

    config: MonitorConfig
    order: str
    timed: bool


def monitor_stream(
    df: DataFrame,
    key: str,
    config: MonitorConfig,
    *,
    order: str,
    watermark: str | None = None,
) -> DataFrame:
    """Return the reports of one monitor for each key of a stream, as a streaming DataFrame.

    ``key``: the column that tells the monitors apart; it is reported as text. ``order``: the column
    that puts the rows of a key in order, such as an offset or a time, with no value twice; rows of
    a trigger are sorted by it, and come after those of earlier triggers. All other columns are
    fields. ``watermark``: where windows end by time, how far behind the newest record of all keys a
    record may be, such as "10 minutes": Spark leaves out those that are later, and a key that has
    been quiet for so long has its last window reported.

    A batch of a key that cannot be read is left out as a whole and reported by a row with
    ``error``; its later batches and the other keys go on.

    Raises ConfigError if a column does not exist, or ``watermark`` has no times to go by.
    """
    columns, timeout = _columns(df, key, order, config), GroupStateTimeout.NoTimeout
    if watermark is not None:
        time = _time_of_windows(df, config, watermark)
        # The monitor takes the time as a number, which Spark cannot go by.
        df = df.withColumn(_CLOCK, _column(time)).withWatermark(_CLOCK, watermark)
        columns.append(_column(_CLOCK))
        timeout = GroupStateTimeout.EventTimeTimeout
    query = _Query(config, order, watermark is not None)

    def call(
        key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        rows = _take_new(query, None if pd.isna(key[0]) else key[0], frames, state)
        if rows:
            yield pd.DataFrame(rows, columns=REPORT_SCHEMA.names)

    keyed = df.select(columns).groupBy(_column(_KEY))
    return keyed.applyInPandasWithState(call, REPORT_SCHEMA, _STATE, "append", timeout)


def monitor_table(df: DataFrame, key: str, config: MonitorConfig, *, time: str) -> DataFrame:
    """Return the reports of one monitor for each key of a table, as a DataFrame.

    All rows of a key are one batch, sorted by ``time`` and held in memory together; the last window
    may be short. Otherwise as ``monitor_stream``.
    """

    def call(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        batch = table.sort_by(time).drop_columns(_no_fields(config, time))
        columns = zip(*_whole(config, key[0].as_py(), batch), strict=True)
        return pa.table([list(column) for column in columns], to_arrow_schema(REPORT_SCHEMA))

    keyed = df.select(_columns(df, key, time, config)).groupBy(_column(_KEY))
    return keyed.applyInArrow(call, REPORT_SCHEMA)


def warm_up() -> None:
    """Load or compile all that a monitor uses, by a short stream with a drift."""
    before, monitor = datasets.asia(), DriftMonitor(500)
    after = datasets.remove_edge(before, "smoke", "bronc").network
    for seed, network in enumerate((before, before, before, after, after, after)):
        monitor.update(datasets.sample(network, 500, seed))
    DriftMonitor.restore(monitor.core(), monitor.tail())


# The columns that Spark hands over


def _column(name: str) -> Column:
    """Return a column by its plain name, which may have dots and spaces."""
    return sql.col("`" + name.replace("`", "``") + "`")


def _columns(df: DataFrame, key: str, order: str, config: MonitorConfig) -> list[Column]:
    """Return the key as text, and all other columns; event times as seconds since the epoch."""
    names = {"key": key, "order": order, "time_column": config.time_column}
    for setting, name in names.items():
        if name is not None and name not in df.columns:
            raise ConfigError(setting, name, f"one of the columns {df.columns}")
    found = [_column(key).cast("string").alias(_KEY)]
    for name in (name for name in df.columns if name != key):
        seconds = name == config.time_column and _is_timestamp(df, name)
        found.append(_column(name).cast("double").alias(name) if seconds else _column(name))
    return found


def _is_timestamp(df: DataFrame, name: str) -> bool:
    return isinstance(df.schema[name].dataType, TimestampType)


def _time_of_windows(df: DataFrame, config: MonitorConfig, watermark: str) -> str:
    time = config.time_column
    if time is None or config.windows.seconds is None or not _is_timestamp(df, time):
        allowed = "None unless windows end by time and the time is a timestamp of Spark"
        raise ConfigError("watermark", watermark, allowed)
    return time


def _no_fields(config: MonitorConfig, order: str) -> list[str]:
    """Return the columns that records do not have."""
    return [_KEY] if order == config.time_column else [_KEY, order]


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


def _take_new(
    query: _Query, key: str | None, frames: Iterator[pd.DataFrame], state: GroupState
) -> list[Row]:
    """Take in the new rows of a key, or that it is quiet; store the state; return reports."""
    core, tail, quiet_at = state.get if state.exists else (b"", b"", -math.inf)
    core, tail = bytes(core), bytes(tail)
    monitor = _LIVE.take(key, core, tail) or _restored(query.config, core, tail)
    try:
        if state.hasTimedOut:
            reports, quiet_at = monitor.finish(), -math.inf
        else:
            batch = _in_order(frames, query)
            reports = monitor.update(batch)
            quiet_at = max(quiet_at, _quiet_after(batch, query))
    except (DataError, KnowledgeError) as error:  # the stored state stays as it was
        _set_timeout(state, quiet_at)
        return [_error_row(key, error)]
    live = LiveMonitor(monitor, monitor.core() if reports or not core else core, monitor.tail())
    state.update((live.core, live.tail, quiet_at))
    _set_timeout(state, quiet_at)
    _LIVE.keep(key, live)
    return [_row(key, report) for report in reports]


def _restored(config: MonitorConfig, core: bytes, tail: bytes) -> DriftMonitor:
    if not core:
        return DriftMonitor(config)
    monitor = DriftMonitor.restore(core, tail)
    if monitor.config != config:
        allowed = f"as it was when the checkpoint began, {monitor.config!r}; or begin another one"
        raise ConfigError("config", config, allowed)
    return monitor


def _in_order(frames: Iterator[pd.DataFrame], query: _Query) -> pd.DataFrame:
    parts = list(frames)
    rows = parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)
    if not rows[query.order].is_monotonic_increasing:
        rows = rows.sort_values(query.order, kind="stable")
    clock = [_CLOCK] if query.timed else []
    return rows.drop(columns=[*_no_fields(query.config, query.order), *clock])


def _quiet_after(batch: pd.DataFrame, query: _Query) -> float:
    """Return when all windows that the rows of a batch are in will have ended."""
    windows = query.config.windows
    if not query.timed or windows.seconds is None:
        return -math.inf
    return float(batch[query.config.time_column].max()) + windows.seconds + windows.lateness_seconds


def _set_timeout(state: GroupState, quiet_at: float) -> None:
    if quiet_at > -math.inf:  # Spark takes no time that has passed
        state.setTimeoutTimestamp(max(int(quiet_at * 1000), state.getCurrentWatermarkMs() + 1))


def _whole(config: MonitorConfig, key: str | None, batch: pa.Table) -> list[Row]:
    monitor = DriftMonitor(config)
    try:
        reports = (*monitor.update(batch), *monitor.finish())
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


def _error_row(key: str | None, error: Exception) -> Row:
    return (key, *[None] * (len(REPORT_SCHEMA) - 2), str(error))


if __name__ == "__main__":
    warm_up()
    gc.freeze()  # what forked workers share is not written to by a collection
    pyspark.daemon.manager()
