"""Tables of counts: all pairs of levels at once, and what margins leave of a table."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from driftbn._kernels.bits import count_two
from driftbn._kernels.evidence import Evidence, Ints
from driftbn.compiled import inlined, kernel

BLOCK_WORDS = 256  # of all level sets at once: 400 such blocks stay in a second-level cache


@kernel
def count_pairs(evidence: Evidence) -> None:
    """Fill ``evidence.joint`` with the counts of every two levels of different variables."""
    first, bits, joint = evidence.first, evidence.bits, evidence.joint
    n_variables = first.shape[0] - 1
    n_words = bits.shape[1]
    for begin in range(0, n_words, BLOCK_WORDS):
        end = min(begin + BLOCK_WORDS, n_words)
        for x in range(n_variables):
            for y in range(x + 1, n_variables):
                for a in range(first[x], first[x + 1] - 1):
                    for b in range(first[y], first[y + 1] - 1):
                        joint[a, b] += count_two(bits[a, begin:end], bits[b, begin:end])
    for x in range(n_variables):
        for y in range(x + 1, n_variables):
            _complete_pair(evidence, x, y)


@inlined
def _complete_pair(evidence: Evidence, x: int, y: int) -> None:
    """Derive the last row and column of a pair's table from the totals, and mirror it."""
    first, totals, joint = evidence.first, evidence.totals, evidence.joint
    last_x = first[x + 1] - 1
    last_y = first[y + 1] - 1
    for a in range(first[x], last_x):
        rest = totals[a]
        for b in range(first[y], last_y):
            rest -= joint[a, b]
        joint[a, last_y] = rest
    for b in range(first[y], last_y + 1):
        rest = totals[b]
        for a in range(first[x], last_x):
            rest -= joint[a, b]
            joint[b, a] = joint[a, b]
        joint[last_x, b] = rest
        joint[b, last_x] = rest


@inlined
def count_by_rows(
    x: npt.NDArray[np.uint8], y: npt.NDArray[np.uint8], n_x: int, n_y: int, cells: Ints
) -> None:
    cells[: n_x * n_y] = 0
    for r in range(x.shape[0]):
        cells[np.int64(x[r]) * n_y + y[r]] += 1


@inlined
def n_levels_met(counts: npt.NDArray[np.int32], begin: int, end: int) -> int:
    met = 0
    for level in range(begin, end):
        met += counts[level] > 0
    return met


@inlined
def complete_stratum(
    cells: Ints, margin_x: npt.NDArray[np.int32], margin_y: npt.NDArray[np.int32]
) -> None:
    """Derive the last row and column of one stratum from its margins."""
    n_x = margin_x.shape[0]
    n_y = margin_y.shape[0]
    for i in range(n_x - 1):
        rest = np.int64(margin_x[i])
        for j in range(n_y - 1):
            rest -= cells[i * n_y + j]
        cells[i * n_y + n_y - 1] = rest
    for j in range(n_y):
        rest = np.int64(margin_y[j])
        for i in range(n_x - 1):
            rest -= cells[i * n_y + j]
        cells[(n_x - 1) * n_y + j] = rest
