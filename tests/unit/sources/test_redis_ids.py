"""Ids that were given out and not acknowledged."""

from __future__ import annotations

import json

from driftbn_service.sources.redis import (
    SEALED_AT,
    GivenIds,
    entry_id,
    ids_in,
    ids_since,
    pack,
    unpack,
)
from hypothesis import given
from hypothesis import strategies as st

IDS = st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))


def ids(numbers: range) -> list[bytes]:
    return [b"%d-%d" % (1_700_000_000_000 + number // 3, number % 3) for number in numbers]


def listed(given_ids: GivenIds) -> list[bytes]:
    return [text for part in ids_in(given_ids.save()) for text in part]


@given(st.lists(IDS, min_size=1))
def test_packed_ids_come_back(pairs: list[tuple[int, int]]) -> None:
    texts = [b"%d-%d" % pair for pair in pairs]
    assert unpack(pack(texts)) == texts


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


@given(st.integers(0, 900), st.integers(0, 900))
def test_what_is_new_since_a_number_is_found(n_before: int, n_known: int) -> None:
    held = GivenIds()
    held.add(ids(range(n_before)))
    held.drop(n_before)
    held.add(ids(range(n_before, n_before + 600)))
    held.add(ids(range(n_before + 600, n_before + 650)))
    found = [text for part in ids_since(n_known, held.save()) for text in part]
    assert found == ids(range(max(n_before, n_known), n_before + 650))


def test_only_what_was_given_out_is_found_among_others() -> None:
    held = GivenIds()
    held.add(ids(range(0, 1000)))
    held.add(ids(range(2000, 2010)))
    asked = ids(range(990, 2005, 5))
    expected = {*ids(range(990, 1000, 5)), *ids(range(2000, 2005, 5))}
    assert held.among(asked) == expected
    assert held.among([]) == set()
    assert held.newest == entry_id(ids(range(2009, 2010))[0])


def test_ids_behind_the_end_of_the_stream_are_forgotten() -> None:
    held = GivenIds()
    held.add(ids(range(0, 500)))
    held.add(ids(range(500, 510)))
    (last,) = ids(range(299, 300))
    held.drop_after(entry_id(last))
    assert listed(held) == ids(range(300))
    assert held.newest == entry_id(last)


def test_a_position_stays_small() -> None:
    held = GivenIds()
    for first in range(0, 100_000, 2000):
        held.add(ids(range(first, first + 2000)))
    assert len(json.dumps(held.save())) < 100_000
