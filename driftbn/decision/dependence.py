"""Rows that come in sessions and bursts: how much more their counts vary than if independent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from driftbn.kernels.evidence import Floats
from driftbn.learning.independence import ChiSquareTest

BLOCK_ROWS = 64  # one word of a bit set
BLOCK_ROWS_MAX = 512
CLEARLY = 3.0  # standard errors by which newer rows must be burstier to be taken for it
BLOCKS_PER_EFFECT = 4  # blocks grow until they are this many times as long as the effect
NO_SPREAD = 1e-9  # each group has one state only: blocks have nothing to say


@dataclass(frozen=True)
class Dependence:
    """What blocks of rows say of one test.

    Parameters
    ----------
    effect
        The design effect, at least 1: the statistic is this many times too large.
    concentration
        How much of it comes from few directions, from 1 to the degrees of freedom.
    blocks_dof
        Degrees of freedom with which the effect is known.
    directions
        In how many directions the scores vary. Where two fields nearly determine each other, their
        sum of squares is far above the degrees of freedom of the test: then it is concentrated
        without any of these being lost.
    """

    effect: float
    concentration: float
    blocks_dof: float
    directions: float = 1.0


def corrected_p_value(
    statistic: float, mean: float, variance: float, dependence: Dependence
) -> float:
    """Return the p-value of a statistic with this mean and variance for independent rows."""
    from scipy.special import fdtrc  # noqa: PLC0415 - a fifth of a second to import

    most_dof = 2.0 * mean * mean / variance
    dof = max(most_dof / dependence.concentration, min(most_dof, dependence.directions))
    ratio = max(statistic, 0.0) / (mean * dependence.effect)  # rounding may leave it below
    return float(fdtrc(dof, dependence.blocks_dof, ratio))


class BlockScores(ABC):
    """What blocks of the rows of some windows add to a test, centred.

    Parameters
    ----------
    n_rows
        Rows of each window.
    expected
        The sum of squares of the scores for independent rows, which is that of single rows.
    n_compared
        Rows that have a part in the test.
    """

    def __init__(self, n_rows: Sequence[int], expected: float, n_compared: int) -> None:
        self.n_rows = n_rows
        self.expected = expected
        self.n_compared = n_compared
        self._known: dict[int, float] = {}

    def n_blocks(self, length: int) -> int:
        """Return the number of blocks of so many rows; none has rows of two windows."""
        return sum([-(-n // length) for n in self.n_rows])

    def squares(self, length: int) -> float:
        """Return the sum of squares of the scores of blocks of so many rows."""
        if length not in self._known:
            self._known[length] = self._squares(length)
        return self._known[length]

    @abstractmethod
    def _squares(self, length: int) -> float:
        """Compute ``squares``; called once for each length."""

    @abstractmethod
    def scores(self, length: int) -> Floats:
        """Return the scores of blocks of so many rows, ``[blocks, cells]``."""


class DependenceOfGroups:
    """The dependence in two groups of windows that are compared.

    The two are taken together, unless newer rows are clearly burstier than older ones. Then each
    group counts by the size of the other, as in the variance of a difference of two means, and
    what is known of the dependence comes from the newer blocks only.

    Parameters
    ----------
    older, newer
        What their blocks add to the test.
    """

    def __init__(self, older: BlockScores, newer: BlockScores) -> None:
        self._older = older
        self._newer = newer

    @cached_property
    def _together(self) -> _Blocks:
        return _Blocks.long_enough(self._older, self._newer)

    @cached_property
    def _risen(self) -> tuple[_Blocks, _Blocks] | None:
        return _risen(self._older, self._newer)

    @cached_property
    def effect(self) -> float:
        """The design effect, at least 1."""
        if self._risen is None:
            return self._together.effect
        before, after = self._risen
        n_older, n_newer = self._older.n_compared, self._newer.n_compared
        crosswise = before.effect * n_newer + after.effect * n_older
        return max(self._together.effect, crosswise / (n_older + n_newer))

    @cached_property
    def dependence(self) -> Dependence:
        """All of it; how concentrated it is takes most of the time."""
        pooled = self._together.dependence
        if self._risen is None:
            return pooled
        risen = self._risen[1].dependence
        return Dependence(
            effect=self.effect,
            concentration=max(risen.concentration, pooled.concentration),
            blocks_dof=min(risen.blocks_dof, pooled.blocks_dof),
            directions=min(risen.directions, pooled.directions),
        )

    def p_value(
        self, statistic: float, mean: float, variance: float, most: float
    ) -> tuple[float, float]:
        """Return the corrected p-value of a statistic and its design effect.

        Both are measured no further than until the p-value is above ``most``: what newer rows add,
        whether they are burstier, and how concentrated it all is, could only raise them. (A
        p-value above 0.1 may be lowered by concentration, but stays above it.)
        """
        for measured in (self._of_older, self._of_both, self._of_each):
            lightest = measured()
            least = corrected_p_value(statistic, mean, variance, lightest)
            if least > most:
                return least, lightest.effect
        return corrected_p_value(statistic, mean, variance, self.dependence), self.effect

    def _of_older(self) -> Dependence:
        """Return what older blocks alone make of it, as if newer ones added nothing.

        Longer blocks may show less than these, where neighbours go opposite ways: older ones count
        only if, whatever the newer ones are, no longer blocks are asked for. The square of a sum
        is at most as many times the sum of squares as it has terms.
        """
        older, newer = self._older, self._newer
        blocks = _Blocks((older, newer), BLOCK_ROWS, 1.0)
        if older.expected + newer.expected < NO_SPREAD:
            return Dependence(1.0, 1.0, blocks.most_dof)
        least = older.squares(BLOCK_ROWS)
        most = _effect(least + BLOCK_ROWS * newer.expected, blocks.groups, BLOCK_ROWS)
        if not _is_long_enough(BLOCK_ROWS, most):
            return Dependence(1.0, 1.0, blocks.most_dof)
        effect = _effect(least, blocks.groups, BLOCK_ROWS)
        return Dependence(max(1.0, effect), 1.0, blocks.most_dof)

    def _of_both(self) -> Dependence:
        return Dependence(self._together.effect, 1.0, self._together.most_dof)

    def _of_each(self) -> Dependence:
        return Dependence(self.effect, 1.0, self._together.most_dof)


class _Blocks(NamedTuple):
    """Blocks that are long enough for their effect."""

    groups: tuple[BlockScores, ...]
    length: int
    effect: float

    @classmethod
    def long_enough(cls, *groups: BlockScores) -> _Blocks:
        """Make blocks longer until they are long enough."""
        length = BLOCK_ROWS
        if sum(group.expected for group in groups) < NO_SPREAD:
            return cls(groups, length, 1.0)
        while True:
            effect = _effect(sum(group.squares(length) for group in groups), groups, length)
            if _is_long_enough(length, effect):
                break
            length *= 2
        return cls(groups, length, max(1.0, effect * (1.0 + (effect - 1.0) / (2.0 * length))))

    @property
    def _free(self) -> int:
        return max(sum(group.n_blocks(self.length) for group in self.groups) - 2, 1)

    @property
    def most_dof(self) -> float:
        """Degrees of freedom if nothing is concentrated."""
        return self._free * max(1.0, sum(group.expected for group in self.groups))

    @property
    def dependence(self) -> Dependence:
        expected = sum(group.expected for group in self.groups)
        if expected < NO_SPREAD:
            return Dependence(1.0, 1.0, self._free)
        concentration = _concentration(
            np.concatenate([group.scores(self.length) for group in self.groups]), expected
        )
        directions = max(1.0, expected / concentration)
        return Dependence(self.effect, concentration, self._free * directions, directions)


def _effect(squares: float, groups: tuple[BlockScores, ...], length: int) -> float:
    """Return how many times as large as for independent rows a sum of squares of blocks is."""
    expected = sum(group.expected for group in groups)
    n_blocks = sum(group.n_blocks(length) for group in groups)
    return squares / expected * n_blocks / max(n_blocks - 2, 1)


def _is_long_enough(length: int, effect: float) -> bool:
    return length >= BLOCKS_PER_EFFECT * effect or length >= BLOCK_ROWS_MAX


def _risen(older: BlockScores, newer: BlockScores) -> tuple[_Blocks, _Blocks] | None:
    """Return the blocks of each group by itself, if those of the newer are clearly burstier."""
    if min(older.expected, newer.expected) < NO_SPREAD:
        return None
    before, after = _Blocks.long_enough(older), _Blocks.long_enough(newer)

    def is_clear(dof: float) -> bool:
        return after.effect > before.effect * (1.0 + CLEARLY * float(np.sqrt(2.0 / dof)))

    if is_clear(after.most_dof) and is_clear(after.dependence.blocks_dof):
        return before, after
    return None


def _concentration(scores: Floats, expected: float) -> float:
    own = np.einsum("bc,bc->b", scores, scores)
    total = float(np.sum(own))
    if total == 0.0:
        return 1.0
    scores = scores[:, scores.any(axis=0)]
    gram = scores @ scores.T if len(scores) < scores.shape[1] else scores.T @ scores
    crossed = float(np.sum(gram * gram) - np.sum(own * own))
    return float(np.clip(expected * crossed / total**2, 1.0, max(expected, 1.0)))


def design_effects(test: ChiSquareTest) -> Floats:
    """Return for each variable how much more its counts vary than those of independent rows.

    It is 1 unless it is two standard errors above 1.
    """
    evidence = test.evidence
    n_rows = test.n_rows
    n_words = -(-n_rows // BLOCK_ROWS)
    first = evidence.first[:-1]
    n_levels = np.diff(evidence.first)
    counts = np.bitwise_count(evidence.bits[:, :n_words]).astype(np.float64)
    rows = np.full(n_words, float(BLOCK_ROWS))
    rows[-1] = n_rows - BLOCK_ROWS * (n_words - 1)
    share = evidence.totals[:, None] / n_rows
    scores = (counts - rows * share) / np.sqrt(evidence.totals[:, None])
    expected = np.maximum(n_levels - 1, 1)
    effects = np.ones(len(n_levels))
    open_ones = n_levels > 1
    length = BLOCK_ROWS
    while True:
        n_blocks = scores.shape[1]
        total = np.add.reduceat(np.sum(scores * scores, axis=1), first)
        now = total / expected * n_blocks / max(n_blocks - 2, 1)
        error = np.sqrt(2.0 / (n_blocks * expected))
        found = np.where(now > 1.0 + 2.0 * error, now * (1.0 + (now - 1.0) / (2.0 * length)), 1.0)
        effects = np.where(open_ones, np.maximum(found, 1.0), effects)
        open_ones &= length < BLOCKS_PER_EFFECT * now
        if length >= BLOCK_ROWS_MAX or not open_ones.any() or n_blocks < 8:
            return effects
        scores = np.add.reduceat(scores, np.arange(0, n_blocks, 2), axis=1)
        length *= 2
