"""Entries of a Redis stream as bytes, and the ids that were given out."""

from __future__ import annotations

import csv
import io
import json

import pytest
from driftbn_service.sources.redis import (
    SEALED_AT,
    Entry,
    GivenIds,
    as_block,
    ids_in,
    ids_since,
)
from hypothesis import given
from hypothesis import strategies as st

FIELDS = st.dictionaries(
    st.sampled_from(["a", "b", 'c"', "d,"]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=5),
    min_size=1,
)


@pytest.mark.slow
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


def ids(numbers: range) -> list[bytes]:
    return [b"%d-%d" % (1_700_000_000_000 + number // 3, number % 3) for number in numbers]


def listed(given_ids: GivenIds) -> list[bytes]:
    return [text for part in ids_in(given_ids.save()) for text in part]


@pytest.mark.slow
@given(st.lists(st.integers(1, 300), max_size=12), st.integers(0, 2000))
def test_ids_are_kept_in_order_until_they_are_dropped(sizes: list[int], n_dropped: int) -> None:
    held, n_added = GivenIds(), 0
    for size in sizes:
        held.add(ids(range(n_added, n_added + size)))
        n_added += size
    assert listed(held) == ids(range(n_added))
    again = GivenIds(json.loads(json.dumps(held.save())))
    assert again.save()["n_given"] == n_added
    assert listed(again) == ids(range(n_added))
    held.drop(min(n_dropped, n_added))
    left = listed(held)
    # Whole packets go, so that some of a packet may stay; never too few.
    assert left == ids(range(n_added - len(left), n_added))
    assert n_added - n_dropped <= len(left) <= max(0, n_added - n_dropped) + SEALED_AT + 300
    held.drop(n_added)
    assert listed(held) == []


@pytest.mark.slow
@given(st.integers(0, 900), st.integers(0, 900))
def test_what_is_new_since_a_number_is_found(n_before: int, n_known: int) -> None:
    held = GivenIds()
    held.add(ids(range(n_before)))
    held.drop(n_before)
    held.add(ids(range(n_before, n_before + 600)))
    held.add(ids(range(n_before + 600, n_before + 650)))
    found = [text for part in ids_since(n_known, held.save()) for text in part]
    assert found == ids(range(max(n_before, n_known), n_before + 650))


def test_a_position_stays_small() -> None:
    held = GivenIds()
    for first in range(0, 100_000, 2000):
        held.add(ids(range(first, first + 2000)))
    assert len(json.dumps(held.save())) < 100_000
