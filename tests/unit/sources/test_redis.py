"""Entries of a Redis stream as bytes."""

from __future__ import annotations

import csv
import io

from driftbn_service.sources.redis import Entry, as_block, n_together
from hypothesis import given
from hypothesis import strategies as st

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


def test_a_name_that_is_no_text_harms_no_other_field() -> None:
    entries = [Entry(b"1-0", [b"a", b"1", b"\xff", b"2", b"\xfe", b"3"])]
    assert as_block("orders", None, entries).data == b'"a","\\xff","\\xfe"\n"1","2","3"\n'


def test_entries_with_ever_other_fields_are_not_put_into_one_table() -> None:
    alike = [Entry(b"%d-0" % number, [b"a", b"1", b"b", b"2"]) for number in range(100)]
    other = [Entry(b"%d-0" % number, [b"f%d" % number, b"1"]) for number in range(100)]
    assert n_together(None, alike) == 100
    assert n_together(None, other) == 12
    assert n_together("data", other) == 100
    assert n_together(None, other[:1]) == 1
