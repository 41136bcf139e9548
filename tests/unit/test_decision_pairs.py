"""How two fields go together given others, where rows come in bursts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbn.decision.blocks import BlockSums
from driftbn.decision.pairs import PairScores, dependence_of_pair
from tests import reference_decision as reference

SHAPES = st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(1, 4))


def draw_windows(
    shape: tuple[int, int, int], sizes: list[int], copies: int, rng: np.random.Generator
) -> list[np.ndarray]:
    weights = rng.dirichlet(np.full(int(np.prod(shape)), 0.7))
    drawn = [rng.choice(weights.size, -(-n // copies), p=weights) for n in sizes]
    return [np.repeat(cells, copies)[:n] for cells, n in zip(drawn, sizes, strict=True)]


def table_of(windows: list[np.ndarray], shape: tuple[int, int, int]) -> np.ndarray:
    return np.bincount(np.concatenate(windows), minlength=int(np.prod(shape))).reshape(shape)


def sums_of(windows: list[np.ndarray], shape: tuple[int, int, int]) -> BlockSums:
    """Return the sums of rows with one field for stratum, x and y each."""
    codes = [np.array(np.unravel_index(cells, shape), np.uint8) for cells in windows]
    return BlockSums(codes, np.array(shape))


def row_scores(cells: np.ndarray, table: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return what single rows add to each cell, by the formula."""
    scores = np.zeros((len(cells), table.size))
    for row, cell in enumerate(cells.tolist()):
        s, x, y = np.unravel_index(cell, table.shape)
        p = table[s] / table[s].sum()
        for i, j in np.ndindex(p.shape):
            p_i, p_j = p[i].sum(), p[:, j].sum()
            score = float((i, j) == (x, y)) - p_i * (j == y) - p_j * (i == x)
            score += 2.0 * p_i * p_j - p[i, j]
            scores[row, np.ravel_multi_index((s, i, j), table.shape)] = score * weight[s, i, j]
    return scores


@given(seed=st.integers(0, 2**32 - 1), shape=SHAPES, length=st.sampled_from([64, 128]))
@settings(max_examples=25)
def test_scores_of_blocks_are_those_of_their_rows_added_up(
    seed: int, shape: tuple[int, int, int], length: int
) -> None:
    rng = np.random.default_rng(seed)
    windows = draw_windows(shape, [150, 64, 1], 1, rng)
    table, other = (
        table_of(drawn, shape).astype(np.int32)
        for drawn in (windows, draw_windows(shape, [90], 1, rng))
    )
    both = table + other
    margins = both.sum(2, keepdims=True) * both.sum(1, keepdims=True)
    weight = np.sqrt(both.sum((1, 2), keepdims=True) / np.maximum(margins, 1))
    weight *= (table.sum((1, 2)) * other.sum((1, 2)) > 0)[:, None, None]
    found = PairScores(sums_of(windows, shape), (0, 1, 2), table, other)
    rows = [row_scores(cells, table, weight) for cells in windows]
    expected = np.array(
        [u[i : i + length].sum(axis=0) for u in rows for i in range(0, len(u), length)]
    )
    assert found.n_blocks(length) == len(expected)
    np.testing.assert_allclose(found.scores(length), expected, atol=1e-12)
    assert found.squares(length) == pytest.approx(float((expected**2).sum()), abs=1e-12)
    assert found.expected == pytest.approx(sum(float((u**2).sum()) for u in rows), abs=1e-12)
    assert found.n_compared == 215


@pytest.mark.parametrize(("copies", "copies_before"), [(1, 1), (5, 5), (5, 1), (1, 5)])
@pytest.mark.parametrize("seed", range(4))
def test_dependence_of_a_pair_is_that_of_its_rows(
    seed: int, copies: int, copies_before: int
) -> None:
    rng = np.random.default_rng(seed)
    cards, shape = [2, 3, 2], (2, 3, 2)
    old = draw_windows(shape, [300, 290, 310], copies_before, rng)
    new = draw_windows(shape, [305], copies, rng)
    tables = tuple(table_of(group, shape).astype(np.int32) for group in (old, new))
    sums = sums_of(old, shape), sums_of(new, shape)
    found = dependence_of_pair(sums, (0, 1, 2), (tables[0], tables[1]))
    codes = [[np.array(np.unravel_index(cells, shape)) for cells in group] for group in (old, new)]
    expected = reference.effect_on_tie((codes[0], codes[1]), cards, (0, 1, 2))
    assert found.effect == pytest.approx(expected.effect)
    assert found.dependence.concentration == pytest.approx(expected.concentration)
    assert found.dependence.blocks_dof == pytest.approx(expected.blocks_dof)
