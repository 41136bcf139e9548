"""Sums over blocks of rows of a pair, and the squares that follow from them, row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbn.kernels.deviance import (
    FG,
    KF,
    KG,
    KK,
    KN,
    N_MOMENTS,
    add_pair_moments,
    expected_squares,
    make_margins,
    make_moment_room,
    pair_squares,
)

Shape = tuple[int, int, int]  # strata, levels of the first field and of the second

seeds = st.integers(0, 2**32 - 1)
shapes = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
sizes = st.lists(st.integers(0, 40), min_size=1, max_size=4)
lengths = st.sampled_from([1, 3, 8, 64])


def draw_rows(shape: Shape, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Draw stratum, first and second field of rows; some levels do not occur."""
    weights = rng.dirichlet(np.full(int(np.prod(shape)), 0.5))
    weights[rng.random(weights.size) < 0.2] = 0.0
    weights[0] += 1e-3
    cells = rng.choice(weights.size, n_rows, p=weights / weights.sum())
    return np.array(np.unravel_index(cells, shape)).astype(np.uint8)


def blocks_of(windows: list[np.ndarray], length: int) -> list[np.ndarray]:
    return [
        rows[:, begin : begin + length]
        for rows in windows
        for begin in range(0, rows.shape[1], length)
    ]


def moments_of(windows: list[np.ndarray], shape: Shape, length: int) -> np.ndarray:
    """Sum up the products of what each block has, cell by cell."""
    out = np.zeros((*shape, N_MOMENTS), np.int64)
    for block in blocks_of(windows, length):
        rows = [tuple(row) for row in block.T.tolist()]
        for s, i, j in np.ndindex(shape):
            k = sum(row == (s, i, j) for row in rows)
            f = sum(row[:2] == (s, i) for row in rows)
            g = sum((row[0], row[2]) == (s, j) for row in rows)
            n = sum(row[0] == s for row in rows)
            out[s, i, j, [KK, KF, KG, KN, FG]] += (k * k, k * f, k * g, k * n, f * g)
    return out.reshape(-1, N_MOMENTS)


def add_all(windows: list[np.ndarray], shape: Shape, length: int) -> np.ndarray:
    """Add the moments of windows by the kernel; the room must be left as it was."""
    out = np.zeros((int(np.prod(shape)), N_MOMENTS), np.int64)
    room = make_moment_room(*shape, length)
    for rows in windows:
        add_pair_moments(rows, np.arange(3), np.array(shape), length, room, out)
    for counts in room[:4]:
        assert not counts.any()
    return out


def table_of(windows: list[np.ndarray], shape: Shape) -> np.ndarray:
    table = np.zeros(shape, np.int32)
    for rows in windows:
        np.add.at(table, tuple(rows.astype(np.int64)), 1)
    return table


def scores_of(block: np.ndarray, own: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Add up what the rows of a block give to each cell of the interaction, centred."""
    scores = np.zeros(own.shape)
    both = own + other
    for s, x, y in block.T.tolist():
        if other[s].sum() == 0:
            continue
        p = own[s] / own[s].sum()
        for i, j in np.ndindex(p.shape):
            margins = both[s, i].sum() * both[s, :, j].sum()
            if margins == 0:
                continue
            p_i, p_j = p[i].sum(), p[:, j].sum()
            away = ((x == i) - p_i) * ((y == j) - p_j) - (p[i, j] - p_i * p_j)
            scores[s, i, j] += away * np.sqrt(both[s].sum() / margins)
    return scores


@given(seed=seeds, shape=shapes, sizes=sizes, length=lengths)
@settings(max_examples=40)
def test_moments_are_the_products_of_the_counts_of_blocks(
    seed: int, shape: Shape, sizes: list[int], length: int
) -> None:
    rng = np.random.default_rng(seed)
    windows = [draw_rows(shape, n, rng) for n in sizes]
    np.testing.assert_array_equal(
        add_all(windows, shape, length), moments_of(windows, shape, length)
    )


@pytest.mark.parametrize("members", [(3, 1), (0, 3, 1), (2, 0, 1, 3)])
def test_members_stand_anywhere_and_all_but_two_make_strata(members: tuple[int, ...]) -> None:
    cards = np.array([2, 3, 2, 4])
    rng = np.random.default_rng(1)
    codes = rng.integers(0, cards[:, None], (4, 50)).astype(np.uint8)
    of_members = cards[list(members)].tolist()
    shape = (int(np.prod(of_members[:-2], dtype=int)), *of_members[-2:])
    stratum = np.zeros(50, np.int64)
    for v in members[:-2]:
        stratum = stratum * cards[v] + codes[v]
    out = np.zeros((int(np.prod(shape)), N_MOMENTS), np.int64)
    room = make_moment_room(*shape, 16)
    add_pair_moments(codes, np.array(members), cards, 16, room, out)
    rows = np.stack([stratum, codes[members[-2]], codes[members[-1]]]).astype(np.uint8)
    np.testing.assert_array_equal(out, moments_of([rows], shape, 16))


def test_products_of_a_long_block_do_not_overflow() -> None:
    n_rows = 100_000
    rows = np.zeros((3, n_rows), np.uint8)
    found = add_all([rows], (1, 1, 2), n_rows)
    assert found.tolist() == [[n_rows**2] * N_MOMENTS, [0] * N_MOMENTS]


def test_a_field_with_all_levels_is_numbered_as_others() -> None:
    shape = (252, 2, 252)
    cells = np.array([0, 251, 251, 100]), np.array([0, 1, 1, 1]), np.array([251, 251, 0, 7])
    found = add_all([np.array(cells).astype(np.uint8)], shape, 64).reshape(*shape, N_MOMENTS)
    assert found[251, 1, 251, [KK, KF, KG, KN, FG]].tolist() == [1, 2, 1, 2, 2]
    assert found[..., KK].sum() == 4
    assert found[0, 0, 251].tolist() == [1] * N_MOMENTS


@pytest.mark.slow
@given(seed=seeds, shape=shapes, sizes=sizes, n_other=st.integers(0, 60), length=lengths)
@settings(max_examples=40)
def test_squares_are_those_of_the_scores_of_blocks(
    seed: int, shape: Shape, sizes: list[int], n_other: int, length: int
) -> None:
    rng = np.random.default_rng(seed)
    windows = [draw_rows(shape, n, rng) for n in sizes]
    own, other = table_of(windows, shape), table_of([draw_rows(shape, n_other, rng)], shape)
    scores = [scores_of(block, own, other) for block in blocks_of(windows, length)]
    asked = own.ravel(), other.ravel(), *shape[1:]
    found = pair_squares(*asked, moments_of(windows, shape, length), make_margins(*shape[1:]))
    assert found == pytest.approx(sum(float((u * u).sum()) for u in scores), rel=1e-9, abs=1e-10)
    rows = [scores_of(row, own, other) for row in blocks_of(windows, 1)]
    expected = expected_squares(*asked, make_margins(*shape[1:]))
    assert expected == pytest.approx(sum(float((u * u).sum()) for u in rows), rel=1e-9, abs=1e-10)


def test_squares_do_not_depend_on_what_was_in_the_room_before() -> None:
    shape = (3, 2, 4)
    rng = np.random.default_rng(4)
    windows = [draw_rows(shape, 150, rng)]
    own, other = table_of(windows, shape), table_of([draw_rows(shape, 90, rng)], shape)
    asked = own.ravel(), other.ravel(), 2, 4
    moments = moments_of(windows, shape, 64)
    clean, dirty = make_margins(2, 4), np.full((8, 4), 1e9)
    assert pair_squares(*asked, moments, dirty) == pair_squares(*asked, moments, clean) > 0.0
    dirty[:] = 1e9
    assert expected_squares(*asked, dirty) == expected_squares(*asked, clean) > 0.0


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 1, 4), (2, 5, 1)])
def test_a_field_of_one_level_has_no_squares(shape: Shape) -> None:
    rng = np.random.default_rng(5)
    windows = [draw_rows(shape, 200, rng)]
    own, other = table_of(windows, shape), table_of([draw_rows(shape, 100, rng)], shape)
    asked = own.ravel(), other.ravel(), *shape[1:]
    margins = make_margins(*shape[1:])
    assert expected_squares(*asked, margins) == pytest.approx(0.0, abs=1e-12)
    squares = pair_squares(*asked, moments_of(windows, shape, 64), margins)
    assert squares == pytest.approx(0.0, abs=1e-9)
    assert squares >= 0.0


def test_strata_that_one_group_lacks_have_no_squares() -> None:
    shape = (2, 2, 2)
    rng = np.random.default_rng(6)
    rows = draw_rows(shape, 100, rng)
    rows[0] = 0
    own = table_of([rows], shape)
    moments = moments_of([rows], shape, 16)
    for table, other in ((own, own[::-1].copy()), (own, np.zeros_like(own))):
        asked = table.ravel(), other.ravel(), 2, 2
        assert expected_squares(*asked, make_margins(2, 2)) == 0.0
        assert pair_squares(*asked, moments, make_margins(2, 2)) == 0.0
