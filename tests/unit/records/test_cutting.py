from __future__ import annotations

import csv
import io
import json
import tracemalloc

import pytest
from driftbn_service.records.formats import (
    CsvRecords,
    JsonItems,
    Lines,
    Piece,
    RecordCutter,
)
from hypothesis import given
from hypothesis import strategies as st

from driftbn.errors import FormatError

LIMIT = 40
GRAMMARS = {
    "lines": Lines,
    "csv": lambda: CsvRecords(LIMIT),
    "json": lambda: JsonItems(LIMIT),
}

parts = st.lists(st.integers(1, 60), min_size=1, max_size=30)
arrays = st.text(alphabet='[]{},"\\ \n1', max_size=80).map(lambda text: f"[{text}".encode())
texts = st.binary(max_size=400) | arrays
values = st.text(alphabet='ab",\n\\{}[]: é', max_size=12)
records = st.lists(st.dictionaries(st.sampled_from("xyz"), values, max_size=3), max_size=12)
rows = st.lists(
    st.tuples(st.text(alphabet='ab", é', min_size=1, max_size=9), st.text(alphabet='a"\n,b')),
    max_size=12,
)


def pieces(grammar: Lines, text: bytes, sizes: list[int]) -> list[Piece]:
    """Push a text in parts of the given sizes, the last of them again and again."""
    cutter = RecordCutter(grammar, LIMIT)
    found, start, turn = [], 0, 0
    while start < len(text):
        size = sizes[min(turn, len(sizes) - 1)]
        cutter.push(text[start : start + size])
        start, turn = start + size, turn + 1
        while (piece := cutter.take()) is not None:
            found.append(piece)
    while (piece := cutter.take(ended=True)) is not None:
        found.append(piece)
    return found


def bodies(found: list[Piece]) -> bytes:
    """What came out; a record that is too long stands by itself, without a line end."""
    return b"".join(p.body if p.body.endswith(b"\n") else p.body + b"\n" for p in found)


def csv_bytes(listed: list[tuple[str, ...]]) -> bytes:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(listed)
    return file.getvalue().encode()


@given(texts, parts, st.sampled_from(sorted(GRAMMARS)))
def test_how_a_text_arrives_does_not_change_its_records(
    text: bytes, sizes: list[int], name: str
) -> None:
    def outcome(sizes: list[int]) -> bytes | str:
        try:
            return bodies(pieces(GRAMMARS[name](), text, sizes))
        except FormatError as error:
            return str(error)

    assert outcome(sizes) == outcome([len(text) + 1])


@pytest.mark.slow
@given(records, parts)
def test_lines_are_given_whole_or_cut_off_if_too_long(
    listed: list[dict[str, str]], sizes: list[int]
) -> None:
    lines = [json.dumps(record).encode() for record in listed]
    expected = b"".join(line[: LIMIT + 1] + b"\n" for line in lines)
    assert bodies(pieces(Lines(), b"\n".join(lines), sizes)) == expected


@pytest.mark.slow
@given(records, parts, st.sampled_from([None, 1]))
def test_items_of_an_array_become_lines(
    listed: list[dict[str, str]], sizes: list[int], indent: int | None
) -> None:
    text = json.dumps(listed, indent=indent).encode()
    found = [
        line for line in bodies(pieces(JsonItems(LIMIT), text, sizes)).splitlines() if line.strip()
    ]
    assert len(found) == len(listed)
    for line, record in zip(found, listed, strict=True):
        assert len(line) > LIMIT or json.loads(line) == record


@given(rows, parts)
def test_rows_of_csv_are_cut_only_outside_of_quotes(
    listed: list[tuple[str, ...]], sizes: list[int]
) -> None:
    text = csv_bytes([("x", "y"), *listed])
    found = pieces(CsvRecords(LIMIT), text, sizes)
    assert all(piece.header == b"x,y\n" for piece in found)
    long = [piece for piece in found if len(piece.body) > LIMIT and b"\n" not in piece.body]
    if not long:
        read = [
            tuple(row)
            for piece in found
            for row in csv.reader(io.StringIO(piece.body.decode(), newline=""))
        ]
        assert read == listed


@given(texts, parts, st.sampled_from(sorted(GRAMMARS)), st.data())
def test_marks_count_bytes_and_lines_and_reading_goes_on_at_any(
    text: bytes, sizes: list[int], name: str, data: st.DataObject
) -> None:
    grammar = GRAMMARS[name]()
    try:
        found = pieces(grammar, text, sizes)
    except FormatError:
        return
    if not found:
        return
    for piece in found:
        for place in (piece.start, piece.end):
            assert place.n_lines == text[: place.n_bytes].count(b"\n")
    n_before = data.draw(st.integers(1, len(found)))
    mark = found[n_before - 1].end
    cutter = RecordCutter(grammar, LIMIT, mark, begun=True)
    cutter.push(text[mark.n_bytes :])
    rest = []
    while (piece := cutter.take()) or (piece := cutter.take(ended=True)):
        rest.append(piece)
    assert bodies(found[:n_before]) + bodies(rest) == bodies(found)
    assert found[-1].end == (rest[-1].end if rest else mark)


def test_a_long_line_does_not_fill_memory() -> None:
    cutter = RecordCutter(Lines(), 1 << 20)
    block = b"x" * (1 << 20)
    tracemalloc.start()
    try:
        for _ in range(100):
            cutter.push(block)
            assert cutter.take() is None
        cutter.push(b'x\n{"a": 1}\n')
        long, good = cutter.take(), cutter.take()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert long is not None
    assert good is not None
    assert len(long.body) == (1 << 20) + 1
    assert long.end.n_bytes == 100 * len(block) + 2
    assert good.body == b'{"a": 1}\n'
    assert good.where(0) == "line 2"
    assert peak < 8 << 20


@pytest.mark.parametrize("stray", [b"}", b"}}]", b"]}", b"},{", b"]]}"])
def test_a_bracket_that_nothing_opened_ends_no_reading(stray):
    text = b'[{"a": 1}' + stray + b', {"a": 2}]]'
    for size in (1, 100):
        assert b'{"a": 1}' in bodies(pieces(JsonItems(LIMIT), text, [size]))


def test_a_quote_that_never_closes_costs_one_row() -> None:
    good = b"1,2\n" * 30
    for tail in (good, good[:20]):  # far from the end, and near it
        found = pieces(CsvRecords(LIMIT), b'x,y\n5,"6\n' + tail, [9])
        assert bodies(found[1:]) == tail
        assert found[0].end.n_bytes == len(b'x,y\n5,"6\n')


def test_a_header_that_is_too_long_is_an_error() -> None:
    with pytest.raises(FormatError, match="header is longer than max_record_bytes = 40"):
        pieces(CsvRecords(LIMIT), b"x" * 100, [10])


def test_a_header_that_is_known_is_not_a_row_if_it_comes_again() -> None:
    for text, rows_left in ((b"x,y\r\n1,2\n", b"1,2\n"), (b"1,2\n3,4\n", b"1,2\n3,4\n")):
        found = pieces(CsvRecords(LIMIT, b"x,y\n"), text, [3])
        assert bodies(found) == rows_left
        assert found[0].header == b"x,y\n"
