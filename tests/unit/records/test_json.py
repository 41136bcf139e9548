import json

import pytest
from driftbn_service.records import RejectReason, decoder

from tests.decoding import TableFormat, column_of, decode, rows_of

GOOD = b'{"a":1,"b":"x"}'
BAD = [
    (b'{"a":1', "not_json"),
    (b"{'a':1}", "not_json"),
    (b'{"a":1,}', "not_json"),
    (b'{"a":01}', "not_json"),
    (b'{"a":1} x', "not_json"),
    (b'{"a":1}{"a":2}', "not_json"),
    (b'{"a":"x\x01y"}', "not_json"),
    (b'{"a":1}\x00', "not_json"),
    (b"nonsense", "not_json"),
    (b"3", "not_an_object"),
    (b'"text"', "not_an_object"),
    (b"null", "not_an_object"),
    (b"[1, 2]", "not_an_object"),
    (b'[{"a":1}]', "not_an_object"),
    (b'{"a":"\xff"}', "invalid_utf8"),
    (b'{"\xc3":1}', "invalid_utf8"),
    (b'{"a":"\xed\xa0\x80"}', "invalid_utf8"),
    (b'{"a":"\\ud800"}', "invalid_utf8"),
    (b'{"a":NaN}', "not_a_number"),
    (b'{"a":-Infinity}', "not_a_number"),
    (b'{"a":1e400}', "not_a_number"),
    (b'{"a":' + b"9" * 900 + b"}", "not_a_number"),
    (b'{"a":1,"a":1}', "duplicate_key"),
    (b'{"a":1,"\\u0061":2}', "duplicate_key"),
    (b'{"b":{"c":1,"c":2}}', "duplicate_key"),
    (b'{"b":[{"c":1,"c":2}]}', "duplicate_key"),
    (b'{"b.c":1,"b":{"c":2}}', "duplicate_key"),
    (b'{"a":{"b":{"c":{"d":{"e":1}}}}}', "too_deep"),
    (b'{"a":"' + b"x" * 2000 + b'"}', "too_large"),
]


@pytest.mark.parametrize(("bad", "reason"), BAD, ids=range(len(BAD)))
@pytest.mark.parametrize("kind", [TableFormat.NDJSON, TableFormat.JSON])
def test_a_bad_record_is_set_aside_with_its_place_and_the_rest_goes_on(bad, reason, kind):
    data = b"\n".join([GOOD, b"", bad, GOOD]) + b"\n"
    decoded = decode(data, kind)
    assert rows_of(decoded) == [{"a": 1, "b": "x"}] * 2
    assert decoded.n_rows == 2
    (found,) = decoded.rejected
    assert (found.reason.value, found.place) == (reason, "1@17")
    assert found.record == bad[:4096]
    assert found.detail


@pytest.mark.parametrize(("bad", "reason"), BAD[1:])  # the first would take what follows along
def test_so_is_an_item_of_an_array(bad, reason):
    data = b"[" + b" ,\n".join([GOOD, bad, GOOD]) + b"]\n"
    decoded = decode(data, TableFormat.JSON)
    assert rows_of(decoded) == [{"a": 1, "b": "x"}] * 2
    assert [(found.reason.value, found.place) for found in decoded.rejected] == [(reason, "1@19")]


def test_details_do_not_tell_what_a_record_holds():
    for bad, _ in BAD:
        (found,) = decode(bad.replace(b"text", b"secret")).rejected
        assert "secret" not in found.detail


def test_nothing_gives_nothing():
    for data in (b"", b"\n", b" \r\n\t\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"):
        decoded = decode(data)
        assert (decoded.batches, decoded.n_rows, decoded.rejected) == ((), 0, ())
    assert decode(b"[]", TableFormat.JSON).rejected == ()
    assert decode(b" [ ] ", TableFormat.JSON).n_rows == 0


def test_byte_order_marks_blank_lines_and_returns_are_no_matter():
    data = b"\xef\xbb\xbf" + GOOD + b"\r\n\r\n  \n\xef\xbb\xbf" + GOOD + b" \t\r\n"
    assert rows_of(decode(data)) == [{"a": 1, "b": "x"}] * 2


@pytest.mark.parametrize("text", ["2024-01-01", "2024-01-01T10:00:00Z", "2024-01-01 10:00:00.5"])
def test_text_that_looks_like_a_time_stays_text(text):
    data = json.dumps({"a": text, "b": {"c": text, "n": 1}, "x": 2}).encode()
    assert rows_of(decode(data)) == [{"a": text, "b.c": text, "b.n": 1, "x": 2}]


def test_objects_are_taken_apart_four_deep():
    data = b'{"a":{"b":{"c":{"d":1},"e":"x"}},"f":{}}\n{"a":null}\n'
    assert rows_of(decode(data)) == [{"a.b.c.d": 1, "a.b.e": "x"}, {}]


def test_a_list_is_no_value_nor_is_a_field_without_a_name():
    assert rows_of(decode(b'{"a":[1,2],"b":1,"":7}\n{"a":"x"}\n')) == [{"b": 1}, {"a": "x"}]
    assert rows_of(decode(b'{"a":[1,2],"b":1}\n{"a":[3],"":2}\n')) == [{"b": 1}, {}]


def test_fields_that_differ_in_type_go_together():
    data = b'{"a":1}\n{"a":"x"}\n{"a":true}\n{"a":{"b":2}}\n{"a":0.5}\n'
    assert rows_of(decode(data)) == [{"a": 1}, {"a": "x"}, {"a": True}, {"a.b": 2}, {"a": 0.5}]


def test_large_whole_numbers_keep_their_digits_beside_fractions():
    data = b'{"a":9007199254740993}\n{"a":0.5}\n{"a":9007199254740995}\n{"b":1}\n'
    (table,) = decode(data).batches
    assert column_of(table, "a") == [9007199254740993, 0.5, 9007199254740995, None]


@pytest.mark.parametrize("n_bytes", [1, 20, 50])
def test_a_large_chunk_is_decoded_in_pieces(monkeypatch, n_bytes):
    data = b"\n".join([GOOD, b"oops", GOOD, b"", GOOD, b'{"a":', GOOD]) + b"\n"
    whole = decode(data)
    monkeypatch.setattr(decoder, "PIECE_BYTES", n_bytes)
    pieces = decode(data)
    assert len(pieces.batches) > 1
    assert rows_of(pieces) == rows_of(whole)
    assert pieces.n_rows == 4
    assert pieces.rejected == whole.rejected
    assert [found.place for found in pieces.rejected] == ["1@16", "4@54"]


def test_deep_nesting_harms_nobody():
    for opened, closed in ((b"[", b"]"), (b'{"a":', b"}")):
        for depth in (100, 2000, 300_000):
            bad = b'{"a":' + opened * depth + b"1" + closed * depth + b"}"
            decoded = decode(GOOD + b"\n" + bad + b"\n" + GOOD, limit=10**8)
            assert rows_of(decoded)[0] == {"a": 1, "b": "x"}
            if depth > 100 or opened != b"[":
                assert [found.reason for found in decoded.rejected] == [RejectReason.TOO_DEEP]


@pytest.mark.slow
def test_a_line_of_100_megabytes_is_set_aside_with_its_start():
    data = GOOD + b'\n{"a":"' + b"x" * 10**8 + b'"}\n' + GOOD
    decoded = decode(data, limit=1 << 20)
    assert decoded.n_rows == 2
    (found,) = decoded.rejected
    assert (found.reason, len(found.record)) == (RejectReason.TOO_LARGE, 4096)
    assert "max_record_bytes" in found.detail


def test_a_record_may_have_just_as_many_bytes_as_allowed():
    assert decode(GOOD, limit=len(GOOD)).n_rows == 1
    assert decode(GOOD, limit=len(GOOD) - 1).n_rows == 0


class TestArrays:
    def test_items_may_stand_as_they_like(self):
        data = b' [\n  {\n    "a": 1,\n    "b": "],[{\\"}"\n  },{"a":2},\r\n{"a":3}]\n'
        assert rows_of(decode(data, TableFormat.JSON)) == [
            {"a": 1, "b": '],[{"}'},
            {"a": 2},
            {"a": 3},
        ]

    def test_a_single_object_may_take_several_lines(self):
        decoded = decode(b'{\n "a": 1,\n "b": {"c": 2}\n}\n', TableFormat.JSON)
        assert rows_of(decoded) == [{"a": 1, "b.c": 2}]

    @pytest.mark.parametrize(
        ("data", "n_rows", "problem"),
        [
            (b'[{"a":1},]', 1, "comma"),
            (b'[,{"a":1}]', 1, "comma"),
            (b'[{"a":1},,{"a":1}]', 2, "comma"),
            (b'[{"a":1}', 1, "does not end"),
            (b'[{"a":1}] x', 1, "Expecting value"),
            (b'[{"a":1},{"a":2}},{"a":3}]', 2, "Extra data"),
            (b'[{"a":1},{"a":', 1, "Expecting value"),
        ],
    )
    def test_what_is_wrong_with_an_array_harms_no_item(self, data, n_rows, problem):
        decoded = decode(data, TableFormat.JSON)
        assert decoded.n_rows == n_rows
        (found,) = decoded.rejected
        assert found.reason is RejectReason.NOT_JSON
        assert problem in found.detail

    def test_a_line_break_within_a_text_is_refused(self):
        decoded = decode(b'[{"a":"x\ny"},{"a":"z"}]', TableFormat.JSON)
        assert rows_of(decoded) == [{"a": "z"}]
        assert [found.reason for found in decoded.rejected] == [RejectReason.NOT_JSON]
