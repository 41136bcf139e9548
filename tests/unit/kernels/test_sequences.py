"""Stretches that come again and moves that break, looked for row by row."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from driftbn.kernels.sequences import UNKNOWN, count_repeated, follow_moves, make_slots

N_CODES = 4


def drawn_rows(seed: int) -> np.ndarray:
    """Draw two fields, one of which repeats some of its rows."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, N_CODES, (2, int(rng.integers(1, 80)))).astype(np.uint8)
    rows[1, len(rows[1]) // 2 :] = rows[1, : (len(rows[1]) + 1) // 2]
    return rows


def repeated(row: list[int], begin: int, length: int, least_moves: int) -> int:
    seen, found = set(), 0
    for end in range(length, len(row) + 1):
        stretch = tuple(row[end - length : end])
        n_moves = sum(a != b for a, b in pairwise(stretch))
        if n_moves < least_moves:
            continue
        found += end - 1 >= begin and stretch in seen
        seen.add(stretch)
    return found


def broken(row: list[int], begin: int) -> tuple[int, int]:
    following: dict[int, int] = {}
    moves = [(a, b) for a, b in pairwise(row[max(begin, 1) - 1 :]) if a != b]
    return len(moves), sum(following.setdefault(a, b) != b for a, b in moves)


@given(st.integers(0, 2**32 - 1), st.integers(0, 40), st.integers(2, 6), st.integers(0, 3))
def test_stretches_that_come_again_are_counted(
    seed: int, begin: int, length: int, least_moves: int
) -> None:
    rows, out = drawn_rows(seed), np.empty(2, np.int64)
    count_repeated(rows, begin, length, least_moves, make_slots(rows.shape[1]), out)
    assert out.tolist() == [repeated(row, begin, length, least_moves) for row in rows.tolist()]


@given(st.integers(0, 2**32 - 1), st.integers(0, 40))
def test_moves_to_another_level_than_the_first_are_broken(seed: int, begin: int) -> None:
    rows, found = drawn_rows(seed), np.empty((2, 2), np.int64)
    following = np.full((2, N_CODES), UNKNOWN)
    follow_moves(rows, begin, following, found[0], found[1])
    assert found.T.tolist() == [list(broken(row, begin)) for row in rows.tolist()]
