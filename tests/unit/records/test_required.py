"""The key and the event time that a record must have."""

import json
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest
from driftbn_service.records import Decoder, RejectReason

from tests.columns import parquet, stream
from tests.decoding import TableFormat, chunk, part_by_key, rows_of


def decoded_by(data, kind=None, **fields):
    return Decoder(max_record_bytes=100, **fields).decode(chunk(data, kind))


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
    decoded = decoded_by(data, kind, key="k")
    (rows,) = decoded.batches
    assert parts(rows) == [("a", [{"x": 1}, {"x": 4}]), ("b", [{"x": 3}])]
    (rejected,) = decoded.rejected
    assert rejected.reason is RejectReason.NO_KEY
    assert rejected.record == b'{"x": 2}'
    # Also where nobody looked before.
    (rows,) = decoded_by(data, kind).batches
    assert parts(rows)[1] == (None, [{"x": 2}])


@pytest.mark.parametrize(("write", "kind"), WRITERS)
@pytest.mark.parametrize("key", [3, 3.0, "3", "3.0"])
def test_a_number_and_its_text_are_one_key_in_every_format(write, kind, key) -> None:
    data = write(pa.table({"k": [key, None], "x": [1, 2]}))
    decoded = decoded_by(data, kind, key="k")
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
    (rows,) = decoded_by(table).batches
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


NOT_TIMES = [
    pa.array([b"1970-01-01"] * 2),
    pa.array([True, False]),
    pa.array([[1], [2]]),
    pa.array(["noon", ""]),
    pa.array([float("nan"), float("inf")]),
    pa.array([1, 2], pa.duration("s")),
    pa.array([2**62] * 2).view(pa.duration("us")),
    pa.nulls(2),
]


@pytest.mark.parametrize("times", NOT_TIMES, ids=[str(times.type) for times in NOT_TIMES])
def test_what_is_no_time_costs_the_records_that_have_it(times):
    table = pa.table({"t": times, "x": ["a", "b"]})
    decoded = decoded_by(table, time_column="t")
    assert (decoded.n_rows, decoded.n_rejected) == (0, 2)
    assert {item.reason for item in decoded.rejected} == {RejectReason.NO_TIME}
    assert json.loads(decoded.rejected[1].record)["x"] == "b"


def test_a_table_without_the_time_column_is_set_aside_record_by_record():
    decoded = decoded_by(pa.table({"x": ["a", "b"]}), time_column="t")
    assert [(item.place, item.record) for item in decoded.rejected] == [
        ("0@0", b'{"x": "a"}'),
        ("1@0", b'{"x": "b"}'),
    ]


def test_records_beside_one_without_a_time_are_taken_with_theirs():
    lines = b'{"t": "1970-01-01T00:00:02Z", "x": 1}\n{"x": 2}\n{"t": "1970-01-01", "x": 3}\n'
    decoded = decoded_by(lines, TableFormat.NDJSON, time_column="t")
    assert rows_of(decoded) == [{"t": 2.0, "x": 1}, {"t": 0.0, "x": 3}]
    (rejected,) = decoded.rejected
    assert rejected.place == "row 2 from 0@0 on"


def test_a_record_is_set_aside_once_whatever_it_lacks():
    table = pa.table({"t": [1, None, 3, None], "k": ["a", None, None, "b"], "x": [1, 2, 3, 4]})
    decoded = decoded_by(table, time_column="t", key="k")
    assert rows_of(decoded) == [{"t": 1.0, "k": "a", "x": 1}]
    assert [(item.place, item.reason.value) for item in decoded.rejected] == [
        ("1@0", "no_time"),
        ("3@0", "no_time"),
        ("2@0", "no_key"),
    ]


def test_very_many_records_without_a_time_are_told_as_one():
    decoded = decoded_by(pa.table({"x": range(1000)}), time_column="t")
    assert (len(decoded.rejected), decoded.n_rejected) == (101, 1000)
    assert (decoded.rejected[-1].place, decoded.rejected[-1].n_records) == ("100@0", 900)


def test_nothing_but_the_key_is_a_record_without_fields():
    decoded = decoded_by(pa.table({"k": ["a", None]}), key="k")
    assert (decoded.n_rows, decoded.n_rejected) == (1, 1)
