import csv
import io
from itertools import pairwise

import pytest
from driftbn_service.records import Decoder, RejectReason
from hypothesis import example, given, settings
from hypothesis import strategies as st

from driftbn.config import MonitorConfig, SchemaConfig
from tests.decoding import TableFormat, chunk, column_of, decode, rows_of, take


def rows(text: str | bytes, limit: int = 1000) -> list[dict]:
    data = text.encode() if isinstance(text, str) else text
    return rows_of(decode(data, TableFormat.CSV, limit))


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("3", 3),
        ("-0", 0),
        ("0.50", 0.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("-2.5E-3", -0.0025),
        ('"7"', 7),
        ("123456789012345678", 123456789012345678),
        ("1234567890123456789", 1234567890123456789.0),
        ("007", "007"),
        ("-01", "-01"),
        ("1e999", "1e999"),
        ("+5", "+5"),
        ("1_000", "1_000"),
        (" 3", " 3"),
        ("inf", "inf"),
        ("true", "true"),
        ("TRUE", "TRUE"),
        ("2024-01-01", "2024-01-01"),
        ("Zoë", "Zoë"),
        ('"a,""b\n"', 'a,"b\n'),
        ('""', ""),
    ],
)
def test_a_cell_is_a_number_if_it_is_written_like_one(cell, value):
    (row,) = rows(f"x,y\n{cell},1\n")
    assert (row["x"], type(row["x"])) == (value, type(value))


@pytest.mark.parametrize("cell", ["", "NA", "null", "NaN", "#N/A"])
def test_a_cell_may_be_missing(cell):
    assert rows(f"x,y\n{cell},1\n") == [{"y": 1}]


@pytest.mark.parametrize("n_rows", [3, 200])
def test_few_and_many_values_are_told_apart_alike(n_rows):
    texts = [text for n in range(n_rows) for text in (str(n), f"{n}.50", f"0{n}", f"{n}e999")]
    expected = [v for n in range(n_rows) for v in (n, n + 0.5, f"0{n}", f"{n}e999")]
    assert rows("x\n" + "\n".join(texts)) == [
        {"x": 0.0 if value == "0e999" else value} for value in expected
    ]
    quoted = "".join(f'"{n}\n"\n' for n in range(n_rows))
    assert rows("x\n" + quoted) == [{"x": f"{n}\n"} for n in range(n_rows)]


def test_large_whole_numbers_keep_their_digits_beside_fractions():
    data = b"x,y\n9007199254740993,1\n,2\n0.5,3\n9007199254740995,4\n"
    (table,) = decode(data, TableFormat.CSV).batches
    assert column_of(table, "x") == [9007199254740993, None, 0.5, 9007199254740995]


def test_rows_that_do_not_fit_the_header_are_set_aside():
    data = b'x,y\n1,2\n3\n4,5,6\n\n"7","8"\n9,"a\nb"\n'
    decoded = decode(data, TableFormat.CSV)
    assert rows_of(decoded) == [{"x": 1, "y": 2}, {"x": 7, "y": 8}, {"x": 9, "y": "a\nb"}]
    assert [(found.place, found.record) for found in decoded.rejected] == [
        ("1@4", b"3"),
        ("2@6", b"4,5,6"),
    ]
    assert {found.reason for found in decoded.rejected} == {RejectReason.BAD_CSV_ROW}
    assert decoded.rejected[0].detail == "1 fields, where the header has 2"


def test_rows_that_are_no_text_or_too_long_are_set_aside():
    decoded = decode(b"x,y\n1,\xff\n2,ok\n3," + b"z" * 50 + b"\n", TableFormat.CSV, 20)
    assert rows_of(decoded) == [{"x": 2, "y": "ok"}]
    assert [found.reason.value for found in decoded.rejected] == ["invalid_utf8", "too_large"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_may_end_as_they_like(end):
    text = end.join(["x,y", "1,a", "", "2,b", ""])
    assert rows("\ufeff" + text) == [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}]
    assert rows(text.removesuffix(end)) == [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "without a header"),
        (b"\n\n", "without a header"),
        (b"a,b,a\n1,2,3\n", "'a' twice"),
        (b"a,\xff\n1,2\n", "cannot be read"),
        (b'a,"b\n1,2\n', "cannot be read"),
    ],
)
def test_a_header_that_cannot_be_read_is_one_problem(data, problem):
    decoded = decode(data, TableFormat.CSV)
    assert decoded.batches == ()
    (found,) = decoded.rejected
    assert found.reason is RejectReason.BAD_TABLE
    assert problem in found.detail


def test_columns_without_a_name_are_left_out():
    assert rows(",x,\n0,a,7\n1,b,8\n") == [{"x": "a"}, {"x": "b"}]
    assert decode(b",\n0,a\n1,b\n", TableFormat.CSV).n_rows == 2


def test_a_quote_that_does_not_close_costs_one_row():
    decoded = decode(b'x,y\n1,a\n2,"b\n3,c\n', TableFormat.CSV)
    assert rows_of(decoded) == [{"x": 1, "y": "a"}, {"x": 3, "y": "c"}]
    (found,) = decoded.rejected
    assert (found.place, found.record) == ("1@4", b'2,"b')
    assert found.reason is RejectReason.BAD_CSV_ROW


def test_event_times_may_be_numbers_and_text():
    decoder = Decoder(max_record_bytes=100, time_column="t")
    data = b"t,x\n1.5,a\n1970-01-01T00:00:02Z,b\nnoon,c\n,d\n"
    decoded = decoder.decode(chunk(data, TableFormat.CSV))
    assert decoded.batches[0].to_pydict() == {"t": [1.5, 2.0], "x": ["a", "b"]}
    assert [item.reason for item in decoded.rejected] == [RejectReason.NO_TIME] * 2


cells = st.sampled_from(
    ["a", "b", "3", "3.0", "2.50", "007", "", "NA", "0.1", "9007199254740993", "-7", 'q"x', "é,\n"]
) | st.floats(allow_nan=False, allow_infinity=False).map(repr)


@pytest.mark.slow
@example(table=[('q"x', ""), ("a", "a")], where=[1], window=2)
@settings(max_examples=100)
@given(
    table=st.lists(st.tuples(cells, cells), min_size=1, max_size=40),
    where=st.lists(st.integers(1, 39), max_size=5),
    window=st.integers(2, 12),
)
def test_codes_do_not_depend_on_where_chunks_are_cut(table, where, window):
    config = MonitorConfig(
        window=window,
        schema=SchemaConfig(max_levels=3, integer_levels=3),
        on_error="reject_rows",
    )
    ends = sorted({0, len(table), *(place for place in where if place < len(table))})
    parts = [written(table[a:b]) for a, b in pairwise(ends)]
    whole = take([written(table)], config, TableFormat.CSV)
    for scanner in (False, True):  # whether the decoder gets to know the schema
        assert take(parts, config, TableFormat.CSV, scanner=scanner) == whole


def written(table: list[tuple[str, str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows([("x", "y"), *table])
    return text.getvalue().encode()
