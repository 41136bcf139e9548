import json

import pyarrow as pa
import pytest
from driftbn_service.records import Decoder, RejectReason

from tests.decoding import TableFormat, chunk, rows_of

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


def decoded_by(data, kind=None, **fields):
    return Decoder(max_record_bytes=100, **fields).decode(chunk(data, kind))


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
