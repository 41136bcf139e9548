"""Every Arrow type in every place: nothing fails, and what stands beside it is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from driftbn_service.records import Decoded, Decoder
from driftbn_service.records.columns import flat_table
from driftbn_service.records.rows import Undecoded
from driftbn_service.settings import StreamSettings

from driftbn import DriftMonitor, MonitorConfig
from driftbn.config import SchemaConfig
from tests.columns import parquet
from tests.decoding import TableFormat, one_table, part_by_key
from tests.encoded import infer_and_encode
from tests.hostile import arrow_stream
from tests.hostile_types import N_ROWS, Column, Shape, columns

pytestmark = pytest.mark.slow

N_SENT = 2 * N_ROWS
SECONDS = [1e9 + i for i in range(N_ROWS)]


def encodings(column: Column) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield how to make arrays of a type: as it is, with nulls, as a dictionary, by its runs."""
    codes = pa.array([0, None, 2, 3] * (N_ROWS // 4), pa.int8())
    ends = pa.array([1, N_ROWS], pa.int32())
    for shape in (Shape.EXTREME, Shape.GAPS, Shape.NULL):
        yield shape, partial(column.array, shape)
    for shape in (Shape.EXTREME, Shape.GAPS):
        yield (
            f"dictionary of {shape}",
            lambda shape=shape: pa.DictionaryArray.from_arrays(codes, column.array(shape)),
        )
    yield (
        "runs",
        lambda: pa.RunEndEncodedArray.from_arrays(ends, column.array(Shape.EXTREME).slice(0, 2)),
    )


def all_columns() -> Iterator[tuple[str, pa.Array]]:
    for name, column in columns().items():
        for label, make in encodings(column):
            with suppress(pa.ArrowException, TypeError):  # Arrow itself has no such array
                yield f"{name}, {label}", make()


COLUMNS = tuple(all_columns())
PLACES = ("field", "nested", "beside", "key", "time")


def table_with(array: Any, place: str) -> pa.Table:
    """Return a table with an array in some place, and good columns in all others."""
    parts: dict[str, Any] = {"good": ["p", "q"] * (N_ROWS // 2)}
    if place in ("beside", "key", "time"):
        parts |= {"k": ["a", "b"] * (N_ROWS // 2), "t": SECONDS}
    if place == "nested":
        parts["o"] = pa.StructArray.from_arrays([array, pa.array(SECONDS)], ["x", "y"])
    else:
        parts[{"key": "k", "time": "t"}.get(place, "x")] = array
    return pa.table(parts)


FORMATS = {TableFormat.ARROW: arrow_stream, TableFormat.PARQUET: parquet}
GOOD = {
    place: table_with(pa.array(["1", "2"] * (N_ROWS // 2)), place)
    if place in ("field", "nested", "beside")
    else table_with(pa.array(SECONDS), "time")
    for place in PLACES
}


@cache
def config_of(place: str, *, known: bool) -> MonitorConfig:
    """Return the settings of a monitor as the daemon makes them."""
    keyed, timed = place in ("beside", "key"), place in ("beside", "time")
    settings = StreamSettings(
        name="types",
        window=N_SENT if keyed else 2 * N_SENT,
        key="k" if keyed else None,
        time_column="t" if timed else None,
        source={"kind": "http"},
    )
    good = flat_table(GOOD[place])
    schema = infer_and_encode(good, SchemaConfig(keep_constant=True)).schema
    changes = {"variables": schema, "window": 1000} if known else {}
    return replace(settings.monitor_config(), **changes)


class Stream:
    """A stream as the daemon has one: what is sent is decoded, journalled, decoded and learned."""

    def __init__(self, place: str, *, known: bool) -> None:
        self.config = config_of(place, known=known)
        self.key = "k" if place in ("beside", "key") else None
        self.decoder = Decoder(
            max_record_bytes=1000, time_column=self.config.time_column, key=self.key
        )
        self.monitors: dict[str, DriftMonitor] = {}
        self.n_windows = 0

    def send(self, data: bytes, kind: TableFormat) -> Decoded:
        """Take a body twice, as the journal gives two that came together."""
        sent = Decoder(max_record_bytes=1000).decode(Undecoded(data, kind, place_of))
        if sent.rejected:
            return sent
        body = one_table(sent.batches)
        both = pa.concat_tables([body, body])
        decoded = self.decoder.decode(Undecoded(both, None, place_of, checked=True))
        for rows in decoded.batches:
            self.learn(rows)
        return decoded

    def learn(self, rows: Any) -> None:
        for key, part, _ in [("", rows, 0)] if self.key is None else part_by_key(rows, self.key):
            assert key is not None
            if key not in self.monitors:
                self.monitors[key] = DriftMonitor(self.config)
            self.n_windows += len(self.monitors[key].update(part))

    def facts(self) -> list[tuple[Any, ...]]:
        return [(key, m.n_pending, m.n_rejected, m.schema) for key, m in self.monitors.items()]


def place_of(number: int, byte: int) -> str:
    return f"{number}@{byte}"


def run(data: bytes, kind: TableFormat, place: str, *, known: bool) -> list[Any]:
    """Send a body and good ones after it, and return all it comes to."""
    stream = Stream(place, known=known)
    first = stream.send(data, kind)
    if first.n_rejected != 1:  # the body as a whole, of which the sender is told
        assert first.n_rows + first.n_rejected == N_SENT
    if place in ("field", "nested", "beside") and not known:
        n_left_out = sum(monitor.n_rejected for monitor in stream.monitors.values())
        assert first.rejected or (first.n_rows, n_left_out) == (N_SENT, 0)
    good = arrow_stream(GOOD[place])
    for _ in range(1 if known else 2):
        n_before = sum(monitor.n_rejected for monitor in stream.monitors.values())
        assert stream.send(good, TableFormat.ARROW).n_rows == N_SENT
        assert sum(monitor.n_rejected for monitor in stream.monitors.values()) == n_before
    assert known or stream.n_windows
    reasons = [(item.place, item.reason, item.record) for item in first.rejected]
    return [first.n_rows, reasons, stream.n_windows, stream.facts()]


def bodies(place: str, kind: TableFormat) -> Iterator[tuple[str, bytes]]:
    for label, array in COLUMNS:
        with suppress(pa.ArrowException, OSError):  # Parquet holds less than Arrow does
            yield label, FORMATS[kind](table_with(array, place))


def run_all(place: str, kind: TableFormat, *, known: bool) -> None:
    for number, (label, data) in enumerate(bodies(place, kind)):
        try:
            found = run(data, kind, place, known=known)
            assert number % 10 or found == run(data, kind, place, known=known)
        except Exception as error:
            error.add_note(f"over a column of {label}")
            raise


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("place", PLACES)
def test_no_type_costs_more_than_its_own_records(place: str, kind: TableFormat) -> None:
    run_all(place, kind, known=True)


@pytest.mark.parametrize("place", ["field", "nested", "time"])
def test_no_type_keeps_the_first_window_from_being_learned(place: str) -> None:
    run_all(place, TableFormat.ARROW, known=False)


def test_there_are_more_than_a_thousand_combinations() -> None:
    assert len(COLUMNS) * len(PLACES) > 1000
