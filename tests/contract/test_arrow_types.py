"""Every Arrow type in every place: nothing fails, and what stands beside it is taken."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from driftbn_service.records import Decoded, Decoder
from driftbn_service.records.columns import flat_table
from driftbn_service.records.formats import TableFormat
from driftbn_service.records.routing import part_by_key
from driftbn_service.records.rows import one_table
from driftbn_service.settings import StreamSettings
from driftbn_service.sources.base import Chunk

from driftbn import DriftMonitor, MonitorConfig
from driftbn.config import SchemaConfig
from driftbn.tables.infer import infer_and_encode

N_ROWS = 4
N_SENT = 2 * N_ROWS
DAY = datetime(2026, 1, 2, tzinfo=UTC)
SECONDS = [1e9 + i for i in range(N_ROWS)]


class Column(NamedTuple):
    """An array of some type."""

    label: str
    array: Any


def full(label: str, cells: list[Any], kind: pa.DataType) -> Column:
    return Column(label, pa.array(cells, kind))


def raw(label: str, cells: list[int], kind: pa.DataType) -> Column:
    """Return numbers taken for another type, also such that Python has no value for."""
    wide = pa.int32() if kind.bit_width == 32 else pa.int64()
    return Column(label, pa.array(cells, wide).view(kind))


def numbers() -> Iterator[Column]:
    for sign in ("int", "uint"):
        for bits in (8, 16, 32, 64):
            low = 0 if sign == "uint" else -(2 ** (bits - 1))
            high = 2**bits - 1 if sign == "uint" else 2 ** (bits - 1) - 1
            yield full(f"{sign}{bits}", [low, high, 1, 0], getattr(pa, f"{sign}{bits}")())
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        cells = np.array([1.5, np.nan, np.inf, -np.inf], kind.to_pandas_dtype())
        yield Column(str(kind), pa.array(cells))
        yield Column(f"{kind} -0", pa.array(np.array([-0.0, 0, 3, 1], kind.to_pandas_dtype())))
    yield full("bool", [True, False, True, False], pa.bool_())
    for name in ("decimal32", "decimal64", "decimal128", "decimal256"):
        if hasattr(pa, name):
            most = {"decimal32": 9, "decimal64": 18, "decimal128": 38, "decimal256": 76}[name]
            ends = [Decimal(10**most - 1), Decimal(1 - 10**most)]
            yield full(name, [*ends, Decimal(0), Decimal(3)], getattr(pa, name)(most))
            yield full(f"{name}.2", [Decimal("1.50")] * N_ROWS, getattr(pa, name)(6, 2))


def texts() -> Iterator[Column]:
    long = "ä" * 300
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        yield full(str(kind), ["a", "", long, "3.0"], kind)
        yield full(f"{kind} of times", [DAY.isoformat()] * N_ROWS, kind)
        yield full(f"{kind} same", ["a"] * N_ROWS, kind)
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        yield full(str(kind), [b"a", b"", b"\xff", b"\0"], kind)
        yield full(f"{kind} of times", [DAY.isoformat().encode()] * N_ROWS, kind)
    yield full("binary[2]", [b"ab", b"cd", b"\xff\xff", b"ab"], pa.binary(2))
    yield full("binary[0]", [b""] * N_ROWS, pa.binary(0))


def times() -> Iterator[Column]:
    far = [-(2**62), 2**62, 0, 1]
    yield raw("date32", [-(2**31), 2**31 - 1, 0, 1], pa.date32())
    yield raw("date64", far, pa.date64())
    for unit in ("s", "ms", "us", "ns"):
        yield raw(f"duration {unit}", far, pa.duration(unit))
        yield raw(f"timestamp {unit}", far, pa.timestamp(unit))
    for zone in ("UTC", "Europe/Berlin", "+05:30", "Nowhere/Land"):
        yield raw(f"far time in {zone}", far, pa.timestamp("us", zone))
        yield full(f"time in {zone}", [10**15] * N_ROWS, pa.timestamp("us", zone))
    for kind, cells in (
        (pa.time32("s"), [0, 1, 86_399, 5]),
        (pa.time32("ms"), [0, 1, 86_399_999, 5]),
        (pa.time64("us"), [0, 1, 86_399_999_999, 5]),
        (pa.time64("ns"), [0, 1, 86_399_999_999_999, 5]),
    ):
        yield raw(str(kind), cells, kind)
    intervals = [(0, 0, 0), (2**31 - 1, -(2**31), 2**63 - 1), (1, 2, 3), (-1, 0, 0)]
    yield full("interval", intervals, pa.month_day_nano_interval())


def nested() -> Iterator[Column]:
    for kind in (
        pa.list_(pa.int64()),
        pa.large_list(pa.string()),
        pa.list_(pa.int64(), 2),
        pa.list_view(pa.int64()),
        pa.large_list_view(pa.int64()),
        pa.list_(pa.timestamp("s")),
    ):
        text = pa.types.is_large_list(kind)
        yield full(str(kind), [["1", "2"] if text else [1, 2]] * N_ROWS, kind)
    yield full("map", [[("a", 1)], [], [("b", 2)], []], pa.map_(pa.string(), pa.int64()))
    both = pa.struct({"a": "int8", "b": "string"})
    yield full("struct", [{"a": 1, "b": "x"}, None, {}, {"a": 2}], both)
    yield full("struct without fields", [{}] * N_ROWS, pa.struct([]))
    for depth in range(2, 7):
        cell: Any = "leaf"
        for _ in range(depth):
            cell = {"in": cell}
        yield Column(f"struct {depth} deep", pa.array([cell] * N_ROWS))
    kinds = pa.array([0, 1, 0, 1], pa.int8())
    children = [pa.array([1, 2, 3, 4]), pa.array(["a", "b", "c", "d"])]
    yield Column("sparse union", pa.UnionArray.from_sparse(kinds, children))
    offsets = pa.array([0, 0, 1, 1], pa.int32())
    yield Column("dense union", pa.UnionArray.from_dense(kinds, offsets, children))


def extensions() -> Iterator[Column]:
    def of(kind: Any, storage: pa.Array) -> Column:
        return Column(f"{kind} of {storage.type}", pa.ExtensionArray.from_storage(kind, storage))

    if hasattr(pa, "uuid"):
        ids = [UUID(int=i).bytes for i in (0, 1, 2**128 - 1, 1)]
        yield of(pa.uuid(), pa.array(ids, pa.binary(16)))
    if hasattr(pa, "bool8"):
        yield of(pa.bool8(), pa.array([0, 1, -128, 127], pa.int8()))
    if hasattr(pa, "json_"):
        for kind in (pa.string(), pa.large_string(), pa.string_view()):
            yield of(pa.json_(kind), pa.array(["1", "{}", "no JSON", ""], kind))
    if hasattr(pa, "opaque"):
        for kind in (pa.int64(), pa.null(), pa.string_view(), pa.struct({"a": pa.int8()})):
            yield of(pa.opaque(kind, "other", "vendor"), pa.nulls(N_ROWS, kind))
    tensor = pa.fixed_shape_tensor(pa.int32(), [2])
    yield of(tensor, pa.array([[1, 2]] * N_ROWS, pa.list_(pa.int32(), 2)))


def encodings(column: Column) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield how to make arrays of a column: as it is, with nulls, as a dictionary, by its runs."""
    label, array = column
    codes = pa.array([0, None, 2, 3], pa.int8())
    ends = pa.array([1, N_ROWS], pa.int32())
    holes = [array.slice(0, 2), pa.nulls(2, array.type)]
    yield label, lambda: array
    yield f"{label} or null", lambda: pa.concat_arrays(holes)
    yield f"null {label}", lambda: pa.nulls(N_ROWS, array.type)
    yield f"dictionary of {label}", lambda: pa.DictionaryArray.from_arrays(codes, array)
    yield (
        f"dictionary of {label} or null",
        lambda: pa.DictionaryArray.from_arrays(codes, pa.concat_arrays(holes)),
    )
    yield f"runs of {label}", lambda: pa.RunEndEncodedArray.from_arrays(ends, array.slice(0, 2))


def all_columns() -> Iterator[Column]:
    kinds = (numbers, texts, times, nested, extensions)
    for column in (Column("null", pa.nulls(N_ROWS)), *(c for made in kinds for c in made())):
        for label, make in encodings(column):
            with suppress(pa.ArrowException, TypeError):  # Arrow itself has no such array
                yield Column(label, make())


COLUMNS = tuple(all_columns())
PLACES = ("field", "nested", "beside", "key", "time")


def table_with(array: Any, place: str) -> pa.Table:
    """Return a table with an array in some place, and good columns in all others."""
    columns: dict[str, Any] = {"good": ["p", "q", "p", "q"]}
    if place in ("beside", "key", "time"):
        columns |= {"k": ["a", "b", "a", "b"], "t": SECONDS}
    if place == "nested":
        columns["o"] = pa.StructArray.from_arrays([array, pa.array(SECONDS)], ["x", "y"])
    else:
        columns[{"key": "k", "time": "t"}.get(place, "x")] = array
    return pa.table(columns)


def as_stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def as_parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pyarrow.parquet.write_table(table, sink)
    return sink.getvalue()


FORMATS = {TableFormat.ARROW: as_stream, TableFormat.PARQUET: as_parquet}
GOOD = {
    place: table_with(pa.array(["1", "2", "1", "2"]), place)
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
            None, max_record_bytes=1000, time_column=self.config.time_column, key=self.key
        )
        self.monitors: dict[str, DriftMonitor] = {}
        self.n_windows = 0

    def send(self, data: bytes, kind: TableFormat) -> Decoded:
        """Take a body twice, as the journal gives two that came together."""
        sent = Decoder(kind, max_record_bytes=1000).decode(Chunk("", data, kind, {}, place_of))
        if sent.rejected:
            return sent
        body = one_table(sent.batches)
        both = pa.concat_tables([body, body])
        decoded = self.decoder.decode(Chunk("", both, None, {}, place_of, checked=True))
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
    good = as_stream(GOOD[place])
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
