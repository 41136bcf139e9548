"""Entries of a Redis stream as bytes."""

from __future__ import annotations

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from service.sources.redis_records import as_block
from service.sources.redis_stream import Entry

FIELDS = st.dictionaries(
    st.sampled_from(["a", "b", 'c"', "d,"]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=5),
    min_size=1,
)


@given(st.lists(FIELDS, min_size=1, max_size=8))
def test_fields_survive_as_a_table(rows: list[dict[str, str]]) -> None:
    entries = [
        Entry(b"%d-0" % number, [part.encode() for pair in row.items() for part in pair])
        for number, row in enumerate(rows)
    ]
    block = as_block("orders", None, entries)
    text = io.StringIO(block.data.decode(), newline="")
    found = list(csv.DictReader(text, strict=True))
    # The reader cannot tell an empty value from none; the bytes can, see below.
    assert [{name: value for name, value in row.items() if value} for row in found] == [
        {name: value for name, value in row.items() if value} for row in rows
    ]
    assert block.place(len(rows) - 1, 0) == f"stream orders entry {len(rows) - 1}-0"


def test_an_empty_value_is_not_a_missing_one() -> None:
    entries = [Entry(b"1-0", [b"a", b"", b"b", b"x"]), Entry(b"2-0", [b"b", b"y"])]
    assert as_block("orders", None, entries).data == b'"a","b"\n"","x"\n,"y"\n'


def test_an_entry_without_the_payload_is_told_from_a_blank_one() -> None:
    entries = [Entry(b"1-0", [b"other", b"x"]), Entry(b"2-0", [b"other", b"x", b"data", b"{}"])]
    assert as_block("orders", "data", entries).data == b"null\n{}\n"
