"""How two fields go together given others, where rows come in bursts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from driftbn._kernels.blocks import PairShares, make_room, pair_scores, pair_squares
from driftbn._kernels.evidence import Floats, Ints
from driftbn.decision.cells import divided
from driftbn.decision.dependence import BlockScores, DependenceOfGroups

Table = npt.NDArray[np.int32] | Floats


class PairScores(BlockScores):
    """What blocks of rows add to the interaction of two fields with the groups.

    Parameters
    ----------
    windows
        For each row stratum, x and y as one number.
    table
        The rows of all windows, ``[strata, x, y]``.
    weight
        What a row weighs in each cell.
    """

    def __init__(self, windows: Sequence[Ints], table: Floats, weight: Floats) -> None:
        super().__init__(windows, _expected_square(table, weight), int(table.sum()))
        self._begins = np.cumsum([0, *(len(cells) for cells in windows)])
        n = table.sum((1, 2), keepdims=True)
        first = divided(table.sum(2, keepdims=True), n)
        second = divided(table.sum(1, keepdims=True), n)
        constant = 2.0 * first * second - divided(table, n)
        shares = first[:, :, 0], second[:, 0], constant, weight
        self._shares = PairShares(*map(np.ascontiguousarray, shares))

    @cached_property
    def _cells(self) -> Ints:
        return np.concatenate(list(self.windows))

    def _squares(self, length: int) -> float:
        room = make_room(*self._shares.weight.shape)
        return float(pair_squares(self._cells, self._begins, length, self._shares, room))

    def scores(self, length: int) -> Floats:
        """Return ``[blocks, cells]``."""
        room = make_room(*self._shares.weight.shape)
        out = np.zeros((self.n_blocks(length), self._shares.weight.size))
        pair_scores(self._cells, self._begins, length, self._shares, room, out)
        return out


def dependence_of_pair(
    windows: tuple[Sequence[Ints], Sequence[Ints]], tables: tuple[Table, Table]
) -> DependenceOfGroups:
    """Measure the dependence in how two fields go together, in two groups of windows.

    Parameters
    ----------
    windows
        The rows of both groups, each as number of stratum, x and y.
    tables
        Their counts, ``[strata, x, y]``.
    """
    a, b = (table.astype(np.float64) for table in tables)
    both = a + b
    margins = both.sum(2, keepdims=True) * both.sum(1, keepdims=True)
    weight = np.sqrt(divided(both.sum((1, 2), keepdims=True), margins))
    weight *= ((a.sum((1, 2)) > 0) & (b.sum((1, 2)) > 0))[:, None, None]
    return DependenceOfGroups(PairScores(windows[0], a, weight), PairScores(windows[1], b, weight))


def _expected_square(table: Floats, weight: Floats) -> float:
    """Return the sum of squares of the scores for independent rows."""
    n = table.sum((1, 2), keepdims=True)
    p = divided(table, n)
    p_x, p_y = p.sum(2, keepdims=True), p.sum(1, keepdims=True)
    constant = 2.0 * p_x * p_y - p
    square = p * (1.0 - p_x - p_y + constant) ** 2
    square += (p_x - p) * (constant - p_y) ** 2 + (p_y - p) * (constant - p_x) ** 2
    square += (1.0 - p_x - p_y + p) * constant**2
    return float(np.sum(n * square * weight**2))
