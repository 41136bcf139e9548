"""Rows that come in sessions and bursts: how much more their counts vary than if independent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from driftbn._kernels.evidence import Floats
from driftbn.learning.independence import ChiSquareTest

BLOCK_ROWS = 64  # one word of a bit set
BLOCK_ROWS_MAX = 512
BLOCKS_PER_EFFECT = 4  # blocks grow until they are this many times as long as the effect
NO_SPREAD = 1e-9  # each group has one state only: blocks have nothing to say

Ids = npt.NDArray[np.int64]


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
    """

    effect: float
    concentration: float
    blocks_dof: float


def corrected_p_value(
    statistic: float, mean: float, variance: float, dependence: Dependence
) -> float:
    """Return the p-value of a statistic with this mean and variance for independent rows."""
    from scipy.special import fdtrc  # noqa: PLC0415 - a fifth of a second to import

    dof = 2.0 * mean * mean / (variance * dependence.concentration)
    ratio = max(statistic, 0.0) / (mean * dependence.effect)  # rounding may leave it below
    return float(fdtrc(dof, dependence.blocks_dof, ratio))


def block_counts(windows: Sequence[Ids], n_cells: int) -> list[Floats]:
    """Return for each window the counts of its cells in blocks of 64 rows; cell -1 is left out."""
    counts = []
    for cells in windows:
        block = np.arange(len(cells)) // BLOCK_ROWS
        n_blocks = -(-len(cells) // BLOCK_ROWS)
        kept = cells >= 0
        flat = np.bincount(block[kept] * n_cells + cells[kept], minlength=n_blocks * n_cells)
        counts.append(flat.reshape(n_blocks, n_cells).astype(np.float64))
    return counts


def measure(scores: Sequence[Floats], expected: float) -> Dependence:
    """Measure the dependence in the scores of a test.

    Parameters
    ----------
    scores
        For each window ``[blocks, cells]``: what each block adds to the test, centred.
    expected
        The sum of squares of these for independent rows.
    """
    if expected < NO_SPREAD:
        return Dependence(1.0, 1.0, max(sum(len(u) for u in scores) - 2, 1))
    length = BLOCK_ROWS
    while True:
        total = sum(float(np.sum(u * u)) for u in scores)
        n_blocks = sum(len(u) for u in scores)
        effect = total / expected * n_blocks / max(n_blocks - 2, 1)
        if length >= BLOCKS_PER_EFFECT * effect or length >= BLOCK_ROWS_MAX:
            break
        scores = [_paired(u) for u in scores]
        length *= 2
    effect = max(1.0, effect * (1.0 + (effect - 1.0) / (2.0 * length)))
    concentration = _concentration(np.concatenate(list(scores)), total, expected)
    return Dependence(
        effect=effect,
        concentration=concentration,
        blocks_dof=max(n_blocks - 2, 1) * max(1.0, expected / concentration),
    )


def _paired(scores: Floats) -> Floats:
    """Put every two neighbouring blocks together."""
    n_blocks = len(scores)
    return np.add.reduceat(scores, np.arange(0, n_blocks, 2), axis=0)


def _concentration(scores: Floats, total: float, expected: float) -> float:
    if total == 0.0:
        return 1.0
    gram = scores @ scores.T if len(scores) < scores.shape[1] else scores.T @ scores
    own = np.sum(scores * scores, axis=1)
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
