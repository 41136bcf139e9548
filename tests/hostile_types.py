"""Tables of one column of every Arrow type, at every place where a stream looks at columns."""

from __future__ import annotations

import decimal
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

import pyarrow as pa

from tests.columns import parquet
from tests.hostile import FIRST_TIME, KEY, TIME, arrow_stream

N_ROWS = 8
"""Of a table."""


class Place(StrEnum):
    KNOWN = "known"
    """A field that good records have."""
    NEW = "new"
    """A field that they do not have."""
    NESTED = "nested"
    """A field of an object."""
    KEY = "key"
    """The field whose values part the stream."""
    TIME = "time"
    """The field with event times."""


class Shape(StrEnum):
    USUAL = "usual"
    """Some that are often there."""
    EXTREME = "extreme"
    """The largest, smallest, empty and longest."""
    GAPS = "gaps"
    """Some, and many missing."""
    NULL = "null"
    """None at all, in rows."""
    EMPTY = "empty"
    """No rows."""


@dataclass(frozen=True)
class Column:
    """Values of a type; the values are those of the storage where the type is an extension."""

    type: pa.DataType
    usual: Sequence[Any]
    extreme: Sequence[Any]

    def array(self, shape: Shape) -> pa.Array:
        """Return the values in a shape, as many as a table has rows."""
        values = self.extreme if shape is Shape.EXTREME else self.usual
        n_rows = 0 if shape is Shape.EMPTY else N_ROWS
        cells = [values[row % len(values)] for row in range(n_rows)]
        if shape in (Shape.GAPS, Shape.NULL):
            cells = [
                None if row % 3 == 0 or shape is Shape.NULL else v for row, v in enumerate(cells)
            ]
        return _array(self.type, cells)


def _array(kind: pa.DataType, cells: list[Any]) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _array(kind.storage_type, cells))
    if pa.types.is_dictionary(kind):
        values = _array(kind.value_type, cells[:20])
        codes = [None if cell is None else row % len(values) for row, cell in enumerate(cells)]
        return pa.DictionaryArray.from_arrays(pa.array(codes, kind.index_type), values)
    if pa.types.is_run_end_encoded(kind):
        ends = pa.array(range(1, len(cells) + 1), kind.run_end_type)
        return pa.RunEndEncodedArray.from_arrays(ends, _array(kind.value_type, cells), type=kind)
    if pa.types.is_union(kind):
        return _union(kind, cells)
    return pa.array(cells, kind)


def _union(kind: pa.DataType, cells: list[Any]) -> pa.Array:
    codes = pa.array([row % 2 for row in range(len(cells))], pa.int8())
    names = [kind.field(i).name for i in range(kind.num_fields)]
    if kind.mode == "sparse":
        children = [_array(kind.field(i).type, cells) for i in range(kind.num_fields)]
        return pa.UnionArray.from_sparse(codes, children, names)
    offsets = pa.array([row // 2 for row in range(len(cells))], pa.int32())
    children = [_array(kind.field(i).type, cells[i::2]) for i in range(kind.num_fields)]
    return pa.UnionArray.from_dense(codes, offsets, children, names)


class Unregistered(pa.ExtensionType):
    def __init__(self) -> None:
        super().__init__(pa.int64(), "tests.unregistered")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"\xff"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Unregistered:
        return cls()


_TEXTS = ("a", "b", "c")
_ODD_TEXTS = (
    "", " ", "\0", "x" * 300, "x" * 5000, "__missing__", "__other__", "nan", "1e400", "\uff19",
    "\u202e", "a,b\n\"c\"", "2024-01-01", "9999-12-31T23:59:59Z", "😀" * 100,
)  # fmt: skip
_BYTES = (b"a", b"b", b"1700000000")
_ODD_BYTES = (b"", b"\0", b"\xff\xfe", b"x" * 5000)
_TIMES = (FIRST_TIME, FIRST_TIME + 1, FIRST_TIME + 90)


def _whole(kind: pa.DataType, *, signed: bool) -> Column:
    bits = kind.bit_width
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    usual = _TIMES if bits > 31 else (1, 2, 3)
    return Column(kind, usual, (low, high, 0, low + 1, high - 1))


def _decimal(make: Callable[..., pa.DataType], digits: int, scale: int) -> Column:
    with decimal.localcontext(prec=100):
        step = decimal.Decimal(1).scaleb(-scale)
        largest = (decimal.Decimal(10) ** digits - 1) * step
        usual = (step, 2 * step, decimal.Decimal(0) * step)
        return Column(make(digits, scale), usual, usual if scale < 0 else (largest, -largest))


def _instants(kind: pa.DataType, per_second: int) -> Column:
    usual = tuple(seconds * per_second for seconds in _TIMES)
    ends = ((1 << 63) - 1, -(1 << 63) + 1, 0, -1, 253402300800 * min(per_second, 10**6))
    return Column(kind, usual, ends)


def _integers() -> Iterator[tuple[str, Column]]:
    for bits in (8, 16, 32, 64):
        yield f"int{bits}", _whole(getattr(pa, f"int{bits}")(), signed=True)
        yield f"uint{bits}", _whole(getattr(pa, f"uint{bits}")(), signed=False)


def _reals() -> Iterator[tuple[str, Column]]:
    odd = (float("nan"), float("inf"), float("-inf"), -0.0, 5e-324)
    yield "float16", Column(pa.float16(), (0.5, 1.5, 2.5), (*odd, 65504.0))
    yield "float32", Column(pa.float32(), (0.5, 1.5, 2.5), (*odd, 3e38))
    yield "float64", Column(pa.float64(), (*map(float, _TIMES), 0.5), (*odd, 1.7e308, 9e18, 1e15))
    for make, digits in (
        ("decimal32", 9),
        ("decimal64", 18),
        ("decimal128", 38),
        ("decimal256", 76),
    ):
        for scale in (0, 2, digits, -3) if hasattr(pa, make) else ():
            yield f"{make}({digits},{scale})", _decimal(getattr(pa, make), digits, scale)


def _temporal() -> Iterator[tuple[str, Column]]:
    units = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
    zones = (None, "UTC", "+05:30", "America/New_York", "Nowhere/Unknown", "")
    for unit, per_second in units.items():
        for zone in zones if unit in ("s", "us") else (None, "UTC"):
            yield f"timestamp[{unit},{zone}]", _instants(pa.timestamp(unit, zone), per_second)
        yield f"duration[{unit}]", _instants(pa.duration(unit), per_second)
    yield "date32", Column(pa.date32(), (19675, 19676), (2**31 - 1, -(2**31), 0, 2932897))
    day = 86_400_000
    yield "date64", Column(pa.date64(), (19675 * day, 19676 * day), (day * 10**8, -day * 10**8, 0))
    yield "time32[s]", Column(pa.time32("s"), (0, 60), (86399, 0))
    yield "time32[ms]", Column(pa.time32("ms"), (0, 60), (86399999, 0))
    yield "time64[us]", Column(pa.time64("us"), (0, 60), (86399999999, 0))
    yield "time64[ns]", Column(pa.time64("ns"), (0, 60), (86399999999999, 1))
    interval = pa.MonthDayNano([1, 15, -30])
    most = pa.MonthDayNano([2**31 - 1, -(2**31), 2**63 - 1])
    yield "interval", Column(pa.month_day_nano_interval(), (interval,), (interval, most))


def _words() -> Iterator[tuple[str, Column]]:
    for name in ("string", "large_string", "string_view"):
        yield name, Column(getattr(pa, name)(), _TEXTS, _ODD_TEXTS)
    for name in ("binary", "large_binary", "binary_view"):
        yield name, Column(getattr(pa, name)(), _BYTES, _ODD_BYTES)
    yield "binary(4)", Column(pa.binary(4), (b"abcd", b"0000"), (b"\0\0\0\0", b"\xff" * 4))
    yield "binary(0)", Column(pa.binary(0), (b"",), (b"",))


def _encoded() -> Iterator[tuple[str, Column]]:
    kinds = {
        "string": (pa.string(), _TEXTS, _ODD_TEXTS),
        "large_string": (pa.large_string(), _TEXTS, _ODD_TEXTS),
        "string_view": (pa.string_view(), _TEXTS, _ODD_TEXTS),
        "binary": (pa.binary(), _BYTES, _ODD_BYTES),
        "bool": (pa.bool_(), (True, False), (True, False)),
        "int64": (pa.int64(), _TIMES, (2**63 - 1, -(2**63))),
        "float64": (pa.float64(), (0.5, 1.5), (float("nan"), float("inf"))),
        "decimal": (pa.decimal128(9, 2), (decimal.Decimal("1.50"),), (decimal.Decimal("0.01"),)),
        "timestamp": (pa.timestamp("us", "UTC"), tuple(t * 10**6 for t in _TIMES), (2**63 - 1, 0)),
        "date": (pa.date32(), (19675, 19676), (2**31 - 1, 0)),
        "null": (pa.null(), (None,), (None,)),
        "list": (pa.list_(pa.int64()), ([1], [2]), ([], [0] * 100)),
        "struct": (pa.struct({"a": pa.int64()}), ({"a": 1}, {"a": 2}), ({"a": None}, {})),
    }
    for name, (kind, usual, extreme) in kinds.items():
        yield f"dictionary<{name}>", Column(pa.dictionary(pa.int32(), kind), usual, extreme)
        if name != "null":
            yield f"run_end<{name}>", Column(pa.run_end_encoded(pa.int32(), kind), usual, extreme)
    for index in (pa.int8(), pa.uint8(), pa.int16(), pa.uint64()):
        yield f"dictionary<{index}>", Column(pa.dictionary(index, pa.string()), _TEXTS, _ODD_TEXTS)
    nested = pa.dictionary(pa.int8(), pa.dictionary(pa.int8(), pa.string()))
    yield "dictionary<dictionary>", Column(nested, _TEXTS, _ODD_TEXTS)


def _nested() -> Iterator[tuple[str, Column]]:
    lists, odd = ([1, 2], [3, 4]), ([1, 2], [None, 0])
    for name in ("list_", "large_list", "list_view", "large_list_view"):
        yield name, Column(getattr(pa, name)(pa.int64()), lists, (*odd, [], [0] * 1000))
    yield "list(2)", Column(pa.list_(pa.int64(), 2), lists, odd)
    yield "list(0)", Column(pa.list_(pa.int64(), 0), ([],), ([],))
    inner = pa.struct({"a": pa.int64(), "b": pa.string_view()})
    yield "struct", Column(inner, ({"a": 1, "b": "x"}, {"a": 2}), ({}, {"a": -(2**63), "b": ""}))
    yield "struct()", Column(pa.struct([]), ({},), ({},))
    odd_names = pa.struct([("", pa.int64()), ("a.b", pa.int64()), ("\0", pa.int64())])
    yield "struct of odd names", Column(odd_names, ({"": 1, "a.b": 2},), ({"": 1, "\0": 3},))
    deep = pa.int64()
    for _ in range(6):
        deep = pa.struct({"a": deep})
    yield "struct 6 deep", Column(deep, ({"a": {"a": None}},), ({"a": None},))
    yield "list of structs", Column(pa.list_(inner), ([{"a": 1}],), ([], [None]))
    yield "map", Column(pa.map_(pa.string(), pa.int64()), ([("a", 1)],), ([], [("a", None)] * 3))
    fields = [pa.field("a", pa.int64()), pa.field("b", pa.int64())]
    yield "dense_union", Column(pa.dense_union(fields), _TIMES, (2**63 - 1, None))
    yield "sparse_union", Column(pa.sparse_union(fields), _TIMES, (2**63 - 1, None))


def _extensions() -> Iterator[tuple[str, Column]]:
    ids = tuple(uuid.UUID(int=number).bytes for number in (1, 2))
    if hasattr(pa, "uuid"):
        yield "uuid", Column(pa.uuid(), ids, (bytes(16), b"\xff" * 16))
    if hasattr(pa, "json_"):
        texts = ('{"a": 1}', "[1]", "3", '"x"')
        yield "json", Column(pa.json_(), texts, ("", "null", "{", "x" * 300))
    if hasattr(pa, "bool8"):
        yield "bool8", Column(pa.bool8(), (0, 1), (-128, 127, 0))
    if hasattr(pa, "opaque"):
        yield "opaque", Column(pa.opaque(pa.binary(), "t", "v"), _BYTES, _ODD_BYTES)
    tensor = pa.fixed_shape_tensor(pa.int64(), [2])
    yield "fixed_shape_tensor", Column(tensor, ([1, 2],), ([0, 0],))
    yield "unregistered", Column(Unregistered(), _TIMES, (2**63 - 1, 0))
    yield "null", Column(pa.null(), (None,), (None,))
    yield "bool", Column(pa.bool_(), (True, False), (True, False))


@cache
def columns() -> dict[str, Column]:
    """Return a column of every type by its name."""
    groups = (_integers, _reals, _temporal, _words, _encoded, _nested, _extensions)
    return {name: column for group in groups for name, column in group()}


@dataclass(frozen=True)
class Case:
    """A column of a type in a shape at a place."""

    type_name: str
    place: Place
    shape: Shape

    def __str__(self) -> str:
        return f"{self.type_name}, {self.place}, {self.shape}"

    def table(self, key: str) -> pa.Table:
        """Return the table, with good columns beside it; the key parts it from others."""
        column = columns()[self.type_name].array(self.shape)
        n_rows = len(column)
        parts = {
            KEY: pa.array([key] * n_rows, pa.string()),
            TIME: pa.array(range(FIRST_TIME, FIRST_TIME + n_rows), pa.int64()),
            "colour": pa.array([("navy", "white")[row % 2] for row in range(n_rows)], pa.string()),
            "size": pa.array([row * row % 5 for row in range(n_rows)], pa.int64()),
        }
        name = {Place.KEY: KEY, Place.TIME: TIME, Place.KNOWN: "size", Place.NEW: "extra"}
        if self.place is Place.NESTED:
            parts["outer"] = pa.StructArray.from_arrays([column], ["inner"])
        else:
            parts[name[self.place]] = column
        return pa.table(parts)

    def arrow(self, key: str) -> bytes:
        """Return the table as an Arrow stream."""
        return arrow_stream(self.table(key))

    def parquet(self, key: str) -> bytes | None:
        """Return the table as Parquet; ``None`` where that does not have such a column."""
        try:
            return parquet(self.table(key))
        except (pa.ArrowException, OSError):
            return None


def cases() -> Iterator[Case]:
    """Iterate over all columns, places and shapes."""
    for type_name in columns():
        for place in Place:
            for shape in Shape:
                yield Case(type_name, place, shape)
