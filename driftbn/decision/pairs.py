"""How two fields go together given others, where rows come in bursts."""

from __future__ import annotations

import numpy as np

from driftbn.decision.blocks import BlockSums
from driftbn.decision.cells import divided
from driftbn.decision.dependence import BlockScores, DependenceOfGroups
from driftbn.kernels.deviance import expected_squares, make_margins, pair_squares
from driftbn.kernels.evidence import Floats
from driftbn.kernels.tables import Counts, PairShares, make_room, pair_scores


class PairScores(BlockScores):
    """What blocks of rows add to the interaction of two fields with the groups.

    Parameters
    ----------
    sums
        Over the blocks of the windows.
    members
        The fields; the last two are the pair.
    table
        The rows of all windows, ``[strata, x, y]``.
    other
        The rows that they are compared with.
    """

    def __init__(
        self, sums: BlockSums, members: tuple[int, ...], table: Counts, other: Counts
    ) -> None:
        self._sums = sums
        self._members = members
        self._table = table
        self._other = other
        self._margins = make_margins(*table.shape[1:])
        expected = expected_squares(*self._flat(), self._margins)
        super().__init__(sums.n_rows, expected, sum(sums.n_rows))

    def _flat(self) -> tuple[Counts, Counts, int, int]:
        return self._table.ravel(), self._other.ravel(), *self._table.shape[1:]

    def _squares(self, length: int) -> float:
        moments = self._sums.of_pair(self._members, length)
        return pair_squares(*self._flat(), moments, self._margins)

    def scores(self, length: int) -> Floats:
        """Return ``[blocks, cells]``."""
        cells, begins = self._sums.cells(self._members), np.cumsum([0, *self.n_rows])
        room = make_room(*self._table.shape)
        out = np.zeros((self.n_blocks(length), self._table.size))
        pair_scores(cells, begins, length, self._shares(), room, out)
        return out

    def _shares(self) -> PairShares:
        table, both = self._table.astype(np.float64), (self._table + self._other).astype(np.float64)
        n = table.sum((1, 2), keepdims=True)
        first = divided(table.sum(2, keepdims=True), n)
        second = divided(table.sum(1, keepdims=True), n)
        constant = 2.0 * first * second - divided(table, n)
        margins = both.sum(2, keepdims=True) * both.sum(1, keepdims=True)
        weight = np.sqrt(divided(both.sum((1, 2), keepdims=True), margins))
        weight *= (n > 0) & (self._other.sum((1, 2), keepdims=True) > 0)
        shares = first[:, :, 0], second[:, 0], constant, weight
        return PairShares(*map(np.ascontiguousarray, shares))


def dependence_of_pair(
    sums: tuple[BlockSums, BlockSums], members: tuple[int, ...], tables: tuple[Counts, Counts]
) -> DependenceOfGroups:
    """Measure the dependence in how two fields go together, in two groups of windows.

    Parameters
    ----------
    sums
        Over the blocks of both groups.
    members
        The fields; the last two are the pair, the others are given.
    tables
        Counts of both groups, ``[strata, x, y]``.
    """
    a, b = tables
    return DependenceOfGroups(
        PairScores(sums[0], members, a, b), PairScores(sums[1], members, b, a)
    )
