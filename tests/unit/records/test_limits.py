"""What is too much for a decoder, whatever the format; see ``tests.bombs`` for what it costs."""

import json

import numpy as np
import pyarrow as pa
import pytest
from driftbn_service.records import Decoder, RejectReason
from driftbn_service.records.sizes import Pages, read_footer

from tests.columns import file, parquet, stream
from tests.decoding import TableFormat, chunk, rows_of

GOOD = b'{"a":1}\n'


def decoded(data, kind=TableFormat.NDJSON, **limits):
    return Decoder(max_record_bytes=1 << 20, **limits).decode(chunk(data, kind))


def details(data, kind=TableFormat.NDJSON, **limits):
    found = decoded(data, kind, **limits).rejected
    assert {item.reason for item in found} <= {RejectReason.TOO_LARGE}
    return [item.detail for item in found]


def line(record):
    return json.dumps(record).encode() + b"\n"


@pytest.mark.parametrize("n_good", [0, 3, 5000], ids=["alone", "beside few", "beside many"])
@pytest.mark.parametrize(
    ("record", "named"),
    [
        ({f"x{i}": i for i in range(11)}, "max_fields allows 10"),
        ({"o": {f"x{i}": i for i in range(11)}}, "max_fields allows 10"),
        ({"x" * 257: 1}, "a field may have 256"),
        ({"o" * 200: {"x" * 200: 1}}, "a field may have 256"),
        ({"x" * 257: {"y": 1}}, "a field may have 256"),
    ],
)
def test_a_record_that_is_too_much_costs_that_record(record, named, n_good):
    data = GOOD * n_good + line(record) + GOOD
    (detail,) = details(data, max_fields=10)
    assert named in detail
    assert decoded(data, max_fields=10).n_rows == n_good + 1
    array = b"[" + b",".join(data.splitlines()) + b"]"
    assert details(array, TableFormat.JSON, max_fields=10) == [detail]


def test_as_many_fields_and_letters_as_are_allowed_are_taken():
    record = {"o": {f"x{i}": i for i in range(9)}, "x" * 256: 1, "l": [1], "n": None}
    assert len(rows_of(decoded(line(record), max_fields=10))[0]) == 10


@pytest.mark.slow
def test_records_that_share_no_field_are_cut_into_tables_that_are_not_mostly_empty():
    data = b"".join(line({f"x{i}": 1}) for i in range(10_000))
    found = decoded(data)
    assert found.n_rows == 10_000
    n_fields = [len(set().union(*batch)) for batch in found.batches]
    cells = [len(batch) * n for batch, n in zip(found.batches, n_fields, strict=True)]
    assert max(cells) <= 1 << 22


def test_decoding_stops_where_enough_records_are_bad():
    for data, kind in (
        (b"{\n" * 1000, TableFormat.NDJSON),
        (b"x,y\n" + b"1\n" * 1000, TableFormat.CSV),
    ):
        assert len(decoded(data, kind, max_rejected=7).rejected) == 7
        assert len(decoded(data, kind).rejected) == 1000


@pytest.mark.parametrize(
    ("header", "named"),
    [
        (",".join(f"x{i}" for i in range(11)), "max_fields allows 10"),
        ("x" * 257, "a field may have 256"),
    ],
)
def test_a_header_that_is_too_much_is_one_problem(header, named):
    (detail,) = details(f"{header}\n1\n".encode(), TableFormat.CSV, max_fields=10)
    assert named in detail


def test_rows_of_csv_keep_their_places_where_they_are_read_in_parts(monkeypatch):
    data = b"x,y\r\n" + b'1,"a\nb"\r\n' * 5 + b"2\r\n" + b"3,c\r\n" * 5
    whole = decoded(data, TableFormat.CSV)
    monkeypatch.setattr("driftbn_service.records.text._MAX_RECORDS", 2)
    parts = decoded(data, TableFormat.CSV)
    assert rows_of(parts) == rows_of(whole)
    assert parts.rejected == whole.rejected
    assert [item.place for item in whole.rejected] == ["5@45"]


NUMBERS = pa.table({"x": np.zeros(1000), "y": np.zeros(1000, np.int64)})
TEXTS = pa.table({"x": ["x" * 1000] * 1000})


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (stream(NUMBERS), TableFormat.ARROW),
        (stream(NUMBERS, "zstd"), TableFormat.ARROW),
        (stream(NUMBERS, "lz4"), TableFormat.ARROW),
        (file(NUMBERS, "zstd"), TableFormat.ARROW),
        (parquet(NUMBERS), TableFormat.PARQUET),
        (parquet(NUMBERS, use_dictionary=False), TableFormat.PARQUET),
        (parquet(NUMBERS, data_page_version="2.0", row_group_size=100), TableFormat.PARQUET),
    ],
)
def test_a_table_that_would_take_too_much_memory_is_one_problem(data, kind):
    (detail,) = details(data, kind, max_decoded_bytes=15_000)
    assert "max_decoded_bytes allows 15000" in detail
    assert decoded(data, kind, max_decoded_bytes=40_000).n_rows == 1000
    (detail,) = details(data, kind, max_fields=1)
    assert "max_fields allows 1" in detail


def test_what_pages_become_is_known_before_they_are_read():
    table = pa.table(
        {"s": [{"t": "abc", "n": [1, 2]}] * 100, "f": pa.array([b"xyz"] * 100, pa.binary(3))}
    )
    data = parquet(table, row_group_size=60)

    def read(at, size):
        return data[at : at + size]

    footer = read_footer(read, len(data), 1 << 20)
    assert [leaf.path for leaf in footer.leaves] == [
        ("s", "t"),
        ("s", "n", "list", "element"),
        ("f",),
    ]
    assert [leaf.is_text for leaf in footer.leaves] == [True, False, False]
    assert [group.n_rows for group in footer.groups] == [60, 40]
    pages = Pages(read)
    n_values = [[pages.sizes(c).n_values for c in group.columns] for group in footer.groups]
    assert n_values == [[60, 120, 60], [40, 80, 40]]


def test_an_arrow_file_is_read_without_the_mark_at_the_end_of_its_stream():
    data = file(NUMBERS, "zstd")
    end = b"\xff\xff\xff\xff\0\0\0\0"
    assert data.count(end) == 1
    assert decoded(data.replace(end, b""), TableFormat.ARROW).n_rows == 1000


def test_texts_that_repeat_those_before_them_are_read_as_far_as_they_fit():
    texts = [f"{'x' * 1000}{number}" for number in range(500)]
    data = parquet(pa.table({"x": texts}), use_dictionary=False, column_encoding="DELTA_BYTE_ARRAY")
    assert len(data) < 20_000
    (rows,) = decoded(data, TableFormat.PARQUET).batches
    assert rows["x"].to_pylist() == texts
    (told,) = details(data, TableFormat.PARQUET, max_decoded_bytes=100_000)
    assert "max_decoded_bytes" in told


def sizes_of(data):
    """Return the sizes of all columns of a file; a ``ValueError`` if it is none."""
    footer = read_footer(lambda at, n: data[at : at + n], len(data), 1 << 20)
    footer.delta_columns()
    pages = Pages(lambda at, n: data[at : at + n])
    return [pages.sizes(column) for group in footer.groups for column in group.columns]


@pytest.mark.slow
def test_every_flipped_bit_of_a_footer_is_sizes_or_no_parquet():
    data = parquet(pa.table({"x": ["a", "b"], "y": [1, 2]}))
    size = int.from_bytes(data[-8:-4], "little")
    for bit in range(8 * (len(data) - 8 - size), 8 * len(data)):
        spoilt = bytearray(data)
        spoilt[bit // 8] ^= 1 << bit % 8
        try:
            found = sizes_of(bytes(spoilt))
        except ValueError:
            continue
        assert all(one.n_bytes >= 0 for one in found)


def test_an_integer_of_a_footer_that_does_not_end_is_refused_at_once():
    footer = b"\x16" + b"\xff" * 100_000 + b"\x00"
    data = b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    with pytest.raises(ValueError, match="more than 64 bits"):
        read_footer(lambda at, size: data[at : at + size], len(data), len(data))
