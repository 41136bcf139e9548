"""The lazy listing of subsets against the sorted list of all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from driftbn.kernels import search as kernels
from driftbn.learning.search import make_subsets, with_more_room
from tests import reference


@njit
def begin_subsets(subsets, count, size):  # type: ignore[no-untyped-def]
    """Call what only compiled code can call, as does the next function."""
    kernels.begin_subsets(subsets, count, size)


@njit
def has_room(subsets):  # type: ignore[no-untyped-def]
    return kernels.has_room(subsets)


@njit
def next_subset(subsets, out):  # type: ignore[no-untyped-def]
    return kernels.next_subset(subsets, out)


def listed(
    candidates: list[int], size: int, tallies: dict[int, int], room: int = 512
) -> list[tuple[int, ...]]:
    subsets = make_subsets(max(candidates, default=0) + 1, size, room)
    ordered = sorted(candidates)
    subsets.candidates[: len(ordered)] = ordered
    subsets.tallies[: len(ordered)] = [tallies[node] for node in ordered]
    begin_subsets(subsets, len(ordered), size)
    out = np.zeros(size, np.int64)
    found = []
    while True:
        while not has_room(subsets):
            subsets = with_more_room(subsets)
        if not next_subset(subsets, out):
            return found
        found.append(tuple(out.tolist()))


@pytest.mark.slow
@given(
    tallies=st.dictionaries(st.integers(0, 40), st.integers(0, 4), max_size=9),
    size=st.integers(1, 5),
    room=st.sampled_from([4, 5, 8, 512]),
)
@settings(max_examples=200)
def test_subsets_come_by_falling_tally_then_in_order(
    tallies: dict[int, int], size: int, room: int
) -> None:
    candidates = list(tallies)
    expected = reference.subsets_in_order(candidates, size, tallies)
    assert listed(candidates, size, tallies, room) == expected


def test_heap_grows_in_the_middle_of_a_listing() -> None:
    tallies = {node: node * node for node in range(22)}
    expected = reference.subsets_in_order(tallies, 3, tallies)
    assert listed(list(tallies), 3, tallies, room=8) == expected
