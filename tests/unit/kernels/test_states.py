"""Sums over blocks of rows of how many have each state, row by row."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbn.kernels.tables import (
    BLOCKS,
    KK,
    KN,
    N_SUMS,
    Cells,
    K,
    count_states,
    make_state_room,
    sum_states,
    write_cells,
)

seeds = st.integers(0, 2**32 - 1)
sizes = st.lists(st.integers(0, 40), min_size=0, max_size=4)
lengths = st.sampled_from([1, 3, 8, 64])


def draw_cells(n_before: int, rng: np.random.Generator) -> Cells:
    """Draw which cells are one, which are left out, and which make a configuration."""
    n_after = int(rng.integers(1, n_before + 1))
    number = rng.integers(-1, n_after, n_before)
    configuration = np.cumsum(rng.random(n_after) < 0.4)
    return Cells(number.astype(np.int32), configuration.astype(np.int32))


def blocks_of(rows: np.ndarray, begins: np.ndarray, length: int) -> list[list[int]]:
    return [
        rows[start : min(start + length, end)].tolist()
        for begin, end in pairwise(begins.tolist())
        for start in range(begin, end, length)
    ]


def draw_rows(seed: int, sizes: list[int]) -> tuple[np.ndarray, np.ndarray, Cells]:
    """Draw rows, where windows begin, and the cells."""
    rng = np.random.default_rng(seed)
    n_before = int(rng.integers(1, 12))
    rows = rng.integers(0, n_before, sum(sizes)).astype(np.int32)
    return rows, np.cumsum([0, *sizes]), draw_cells(n_before, rng)


@given(seed=seeds, sizes=sizes, length=lengths)
@settings(max_examples=60)
def test_sums_are_those_of_the_counts_of_blocks(seed: int, sizes: list[int], length: int) -> None:
    rows, begins, cells = draw_rows(seed, sizes)
    expected = np.zeros((len(cells.configuration), N_SUMS), np.int64)
    for block in blocks_of(rows, begins, length):
        count = Counter(int(cells.number[cell]) for cell in block)
        del count[-1]
        whole: Counter[int] = Counter()
        for cell, k in count.items():
            whole[int(cells.configuration[cell])] += k
        for cell, k in count.items():
            n = whole[int(cells.configuration[cell])]
            expected[cell, [K, BLOCKS, KK, KN]] += (k, 1, k * k, k * n)
    out, room = np.full_like(expected, 5), make_state_room(cells)
    sum_states(rows, begins, length, cells, room, out)
    np.testing.assert_array_equal(out - 5, expected)
    assert not room.cell.any()
    assert not room.configuration.any()


@given(seed=seeds, sizes=sizes, length=lengths)
@settings(max_examples=60)
def test_states_are_counted_block_by_block(seed: int, sizes: list[int], length: int) -> None:
    rows, begins, cells = draw_rows(seed, sizes)
    blocks = blocks_of(rows, begins, length)
    out = np.zeros((len(blocks), len(cells.configuration)))
    count_states(rows, begins, length, cells, out)
    for found, block in zip(out, blocks, strict=True):
        numbers = [int(cells.number[cell]) for cell in block]
        assert found.tolist() == [numbers.count(cell) for cell in range(len(found))]


@given(seed=seeds, sizes=sizes)
@settings(max_examples=60)
def test_rows_are_numbered_by_their_members_the_last_one_fastest(
    seed: int, sizes: list[int]
) -> None:
    rng = np.random.default_rng(seed)
    cards = rng.integers(1, 6, 5)
    members = rng.permutation(5)[: rng.integers(0, 5)]
    windows = [rng.integers(0, cards[:, None], (5, n)).astype(np.uint8) for n in sizes]
    out = np.full(sum(sizes) + 2, -9, np.int32)
    begin = 1
    for codes in windows:
        write_cells(codes, members, cards, begin, out)
        begin += codes.shape[1]
    whole = np.concatenate([np.zeros((5, 0), np.uint8), *windows], axis=1)
    shape = tuple(cards[members].tolist())
    expected = [
        int(np.ravel_multi_index(tuple(row), shape)) if shape else 0 for row in whole[members].T
    ]
    assert out.tolist() == [-9, *expected, -9]


def test_cells_that_are_all_left_out_have_no_sums() -> None:
    cells = Cells(np.full(4, -1, np.int32), np.zeros(0, np.int32))
    room, out = make_state_room(cells), np.zeros((0, N_SUMS), np.int64)
    assert [len(counts) for counts in room] == [0, 0, 0]
    sum_states(np.array([0, 3, 1], np.int32), np.array([0, 3]), 64, cells, room, out)
    counts = np.zeros((1, 0))
    count_states(np.array([0, 3, 1], np.int32), np.array([0, 3]), 64, cells, counts)


@pytest.mark.parametrize("length", [64, 100_000])
def test_squares_of_long_blocks_do_not_overflow(length: int) -> None:
    cells = Cells(np.zeros(1, np.int32), np.zeros(1, np.int32))
    out = np.zeros((1, N_SUMS), np.int64)
    rows = np.zeros(20 * length, np.int32)
    sum_states(rows, np.array([0, len(rows)]), length, cells, make_state_room(cells), out)
    assert out.tolist() == [[20 * length, 20, 20 * length**2, 20 * length**2]]
