from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest
from driftbn_service.records import Decoder, RejectReason

from tests.columns import parquet, stream
from tests.decoding import TableFormat, chunk, part_by_key


def parts(rows: pa.Table, field: str = "k") -> list[tuple[str | None, list[dict[str, object]]]]:
    found = []
    for key, part, n_rows in part_by_key(rows, field):
        listed = part.to_pylist()
        assert len(listed) == n_rows
        found.append((key, listed))
    return found


ROWS = [
    {"k": "b", "x": 1},
    {"k": "a", "x": 2},
    {"k": "b", "x": 3},
    {"k": None, "x": 4},
    {"k": "a", "x": 5},
]


def test_rows_keep_their_order_and_keys_come_as_they_come_first() -> None:
    assert parts(pa.Table.from_pylist(ROWS)) == [
        ("b", [{"x": 1}, {"x": 3}]),
        ("a", [{"x": 2}, {"x": 5}]),
        (None, [{"x": 4}]),
    ]


@pytest.mark.parametrize("key", ["", None, "x" * 257, [1], "__missing__"])
def test_what_cannot_name_a_monitor_is_no_key(key: object) -> None:
    assert [found for found, _ in parts(pa.table({"k": [key], "x": [1]}))] == [None]


def test_rows_without_the_field_have_no_key() -> None:
    assert parts(pa.table({"x": [1, 2]})) == [(None, [{"x": 1}, {"x": 2}])]


def coded(table: pa.Table) -> bytes:
    return stream(table.set_column(0, "k", table["k"].dictionary_encode()))


def csv(table: pa.Table) -> bytes:
    cells = ([str("" if v is None else v) for v in row.values()] for row in table.to_pylist())
    return "\n".join(map(",".join, [["k", "x"], *cells])).encode()


WRITERS = [
    (csv, TableFormat.CSV),
    (parquet, TableFormat.PARQUET),
    (stream, TableFormat.ARROW),
    (coded, TableFormat.ARROW),
]


@pytest.mark.parametrize(("write", "kind"), WRITERS)
def test_an_empty_key_costs_one_record(write, kind) -> None:
    data = write(pa.table({"k": ["a", None, "b", "a"], "x": [1, 2, 3, 4]}))
    decoded = Decoder(max_record_bytes=100, key="k").decode(chunk(data, kind))
    (rows,) = decoded.batches
    assert parts(rows) == [("a", [{"x": 1}, {"x": 4}]), ("b", [{"x": 3}])]
    (rejected,) = decoded.rejected
    assert rejected.reason is RejectReason.NO_KEY
    assert rejected.record == b'{"x": 2}'
    # Also where nobody looked before.
    (rows,) = Decoder(max_record_bytes=100).decode(chunk(data, kind)).batches
    assert parts(rows)[1] == (None, [{"x": 2}])


@pytest.mark.parametrize(("write", "kind"), WRITERS)
@pytest.mark.parametrize("key", [3, 3.0, "3", "3.0"])
def test_a_number_and_its_text_are_one_key_in_every_format(write, kind, key) -> None:
    data = write(pa.table({"k": [key, None], "x": [1, 2]}))
    decoded = Decoder(max_record_bytes=100, key="k").decode(chunk(data, kind))
    assert [parts(rows) for rows in decoded.batches] == [[("3", [{"x": 1}])]]


TYPED_KEYS = [
    (pa.array([Decimal("3.00"), None], pa.decimal128(5, 2)), "3"),
    (pa.array([True, None]), "true"),
    (pa.array([b"a", None]), "a"),
    (pa.array(["a", None], pa.string_view()), "a"),
    (pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.uint8()), pa.array(["a", None])), "a"),
    (pa.DictionaryArray.from_arrays(pa.array([0, None], pa.uint8()), pa.array([7])), "7"),
    (pa.chunked_array([pa.array(["a"]).dictionary_encode(), pa.array([""]).dictionary_encode()]),
     "a"),
]  # fmt: skip
if hasattr(pa, "uuid"):
    ids = pa.array([UUID(int=1).bytes, None], pa.binary(16))
    TYPED_KEYS.append((pa.ExtensionArray.from_storage(pa.uuid(), ids), str(UUID(int=1))))
if hasattr(pa, "decimal32"):
    TYPED_KEYS.append((pa.array([Decimal(3), None], pa.decimal32(3)), "3"))


@pytest.mark.parametrize(("keys", "text"), TYPED_KEYS, ids=[str(k.type) for k, _ in TYPED_KEYS])
def test_a_key_of_any_type_is_its_canonical_text(keys, text) -> None:
    table = pa.table({"k": keys, "x": pa.array(["p", "q"], pa.string_view())})
    (rows,) = Decoder(max_record_bytes=100).decode(chunk(table, None)).batches
    assert parts(rows) == [(text, [{"x": "p"}]), (None, [{"x": "q"}])]


@pytest.mark.parametrize("kind", [pa.date64(), pa.timestamp("s", "Nowhere/Land"), pa.duration("s")])
def test_a_time_that_python_has_no_value_for_is_no_key(kind) -> None:
    table = pa.table({"k": pa.array([2**62]).view(kind), "x": [1]})
    assert parts(table) == [(None, [{"x": 1}])]


def test_rows_with_nothing_but_a_key_keep_their_number() -> None:
    table = pa.table({"k": ["a", "b", "a"]})
    assert [(key, len(rows), n_rows) for key, rows, n_rows in part_by_key(table, "k")] == [
        ("a", 2, 2),
        ("b", 1, 1),
    ]


def test_keys_come_by_their_rows_and_not_by_their_dictionary() -> None:
    keys = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1]), pa.array(["a", "b"]))
    assert [key for key, _ in parts(pa.table({"k": keys, "x": [1, 2, 3]}))] == ["b", "a"]
