import numpy as np
import pyarrow as pa
import pytest
from driftbn_service.records import Decoded, Decoder, RejectReason, columns

from tests.columns import file, parquet, stream
from tests.decoding import TableFormat, chunk, decode

TABLE = pa.table(
    {
        "x": ["a", "b", None],
        "n": [1, 2, 3],
        "o": [{"p": 0.5, "q": {"r": "z"}}, None, {"p": None, "q": None}],
        "l": [[1], [], None],
        "": [1, 2, 3],
    }
)
FLAT = {
    "x": ["a", "b", None],
    "n": [1, 2, 3],
    "o.p": [0.5, None, None],
    "o.q.r": ["z", None, None],
}


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (parquet(TABLE), TableFormat.PARQUET),
        (stream(TABLE), TableFormat.ARROW),
        (file(TABLE), TableFormat.ARROW),
        (file(TABLE, "zstd"), TableFormat.ARROW),
        (TABLE, None),
    ],
    ids=["parquet", "stream", "file", "compressed", "columns"],
)
def test_columns_are_taken_as_they_are_and_made_flat(data, kind):
    decoded = Decoder(max_record_bytes=10).decode(chunk(data, kind))
    (table,) = decoded.batches
    assert table.to_pydict() == FLAT
    assert (decoded.n_rows, decoded.rejected) == (3, ())


@pytest.mark.parametrize("kind", [TableFormat.PARQUET, TableFormat.ARROW])
@pytest.mark.parametrize("cut", [0, 1, 9, 40, 200, -1, -9, -300])
def test_bytes_that_are_cut_off_are_one_problem(kind, cut):
    data = (parquet if kind is TableFormat.PARQUET else file)(TABLE)[:cut]
    decoded = decode(data, kind)
    assert (decoded.batches, decoded.n_rows) == ((), 0)
    (found,) = decoded.rejected
    assert found.reason is RejectReason.BAD_TABLE
    assert (found.place, found.record) == ("0@0", data[:4096])


@pytest.mark.parametrize("write", [parquet, stream, file])
def test_bytes_that_are_damaged_never_do_harm(write):
    rng = np.random.default_rng(1)
    kind = TableFormat.PARQUET if write is parquet else TableFormat.ARROW
    good = write(pa.table({"x": ["a", "bb"] * 50, "n": range(100)}))
    for _ in range(200):
        data = bytearray(good)
        for place in rng.integers(0, len(data), 3):
            data[place] = rng.integers(256)
        decoded = decode(bytes(data), kind)
        assert decoded.n_rows or decoded.rejected or not decoded.batches
        for table in decoded.batches:
            table.to_pylist()


def test_text_of_parquet_comes_as_codes():
    (table,) = decode(parquet(pa.table({"x": ["a", "b", "a"]})), TableFormat.PARQUET).batches
    assert pa.types.is_dictionary(table.schema.field("x").type)


ODD = [
    (pa.array(["a", None], pa.string_view()), ["a", None]),
    (pa.array([b"a", None], pa.binary_view()), [b"a", None]),
    (pa.RunEndEncodedArray.from_arrays([1, 2], pa.array(["a", None])), ["a", None]),
    (pa.array(np.array([0.5, np.inf], np.float16)), [0.5, np.inf]),
    (pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["a", None])),
     ["a", None]),
    (pa.DictionaryArray.from_arrays(pa.array([0, None]), pa.array(["a"], pa.string_view())),
     ["a", None]),
]  # fmt: skip


@pytest.mark.parametrize(("array", "cells"), ODD, ids=[str(array.type) for array, _ in ODD])
def test_cells_mean_the_same_however_they_are_stored(array, cells):
    for table in (
        pa.table({"x": array}),
        pa.table({"o": pa.StructArray.from_arrays([array], ["x"])}),
    ):
        flat = columns.flat_table(table)
        assert flat.column(0).to_pylist() == cells
        assert flat.take([1, 0]).column(0).to_pylist() == cells[::-1]
        assert columns.flat_table(pa.concat_tables([flat, flat])).column(0).to_pylist() == 2 * cells


def test_an_instant_in_a_zone_that_nobody_knows_is_one_in_utc():
    known, unknown = (
        columns.flat_table(pa.table({"x": pa.array([1], pa.timestamp("s", zone))}))
        for zone in ("Asia/Tokyo", "Nowhere/Land")
    )
    assert known == unknown
    assert known.schema.field("x").type == pa.timestamp("s", "UTC")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([f"a{i}" for i in range(100)], [f"b{i}" for i in range(100)]),
        ([None, "a"], ["b"]),
        ([None], [None]),
        ([["a"], ["b"]], [["c"], ["d"]]),
    ],
    ids=["more values than codes", "a null among them", "no value at all", "lists"],
)
def test_batches_whose_dictionaries_arrow_cannot_join_are_one_table(first, second):
    parts = [
        pa.DictionaryArray.from_arrays(pa.array(range(len(cells)), pa.int8()), pa.array(cells))
        for cells in (first, second)
    ]
    n_rows = len(first + second)
    data = stream(pa.table({"n": range(n_rows), "x": pa.chunked_array(parts)}))
    (table,) = decode(data, TableFormat.ARROW).batches
    cells = table["x"].to_pylist() if "x" in table.column_names else None
    assert cells == (None if first == [["a"], ["b"]] else first + second)
    assert len(table) == n_rows


def test_objects_without_fields_keep_the_number_of_rows():
    assert decode_table(pa.table({"x": pa.array([{}] * 3, pa.struct([]))})).n_rows == 3


def not_unicode() -> pa.Table:
    raw = pa.array([b"\xff", b"a"])
    return pa.table({"x": pa.StringArray.from_buffers(2, raw.buffers()[1], raw.buffers()[2])})


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (pa.table([pa.array([1]), pa.array([2])], ["x", "x"]), "bad_table"),
        (pa.table({"a": [{"b": {"c": {"d": {"e": 1}}}}]}), "too_deep"),
        (pa.table({"x": pa.RunEndEncodedArray.from_arrays([2**40], ["a"])}), "too_large"),
        (not_unicode(), "bad_table"),
        # Arrow raises another error there than over anything else that cannot be read.
        (pa.table([pa.array([1])], pa.schema([pa.field(b"\xff", pa.int64())])), "bad_table"),
    ],
    ids=["two of one name", "objects within objects", "a run", "no unicode", "a name that is none"],
)
def test_columns_that_cannot_be_taken_are_one_problem(table, reason):
    decoded = decode_table(table)
    assert [found.reason.value for found in decoded.rejected] == [reason]
    assert decoded.n_rejected == len(table)


def test_a_small_file_that_stands_for_a_huge_table_is_not_unfolded(monkeypatch):
    monkeypatch.setattr("driftbn_service.records.rows.MAX_CELLS", 1000)
    assert decode(parquet(pa.table({"x": [1] * 1000})), TableFormat.PARQUET).n_rows == 1000
    decoded = decode(parquet(pa.table({"x": [1] * 1001})), TableFormat.PARQUET)
    assert [found.reason for found in decoded.rejected] == [RejectReason.TOO_LARGE]


def decode_table(table: pa.Table) -> Decoded:
    return Decoder(max_record_bytes=10).decode(chunk(table, None))
