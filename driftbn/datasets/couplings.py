"""Couplings of a parent and its child: tables ``[o, p, c]`` under which P(child | others) stays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from driftbn.datasets.information import normalised
from driftbn.network import FloatArray


def ordered_coupling(weights: FloatArray, base: FloatArray, before: FloatArray) -> FloatArray:
    """Couple the two monotonely, the parent's states in the order of the child's mean code."""
    pair = before.sum(axis=0)
    mean_code = normalised(pair) @ np.arange(pair.shape[1])
    by_mean = np.argsort(mean_code, kind="stable")
    return _coupling(normalised(weights), base, by_mean, np.arange(base.shape[1]))


def drawn_coupling(shares: FloatArray, base: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Couple the two monotonely, the states of both in random order."""
    return _coupling(shares, base, rng.permutation(shares.shape[1]), rng.permutation(base.shape[1]))


def _coupling(
    shares: FloatArray,
    base: FloatArray,
    parent_order: npt.NDArray[np.intp],
    child_order: npt.NDArray[np.intp],
) -> FloatArray:
    """Return a table ``[o, p, c]`` that rises with the parent, and averages to ``base``.

    Both distributions are laid along the unit interval; what overlaps goes together.
    """
    parent_end = np.cumsum(shares[:, parent_order], axis=1)[:, :, np.newaxis]
    child_end = np.cumsum(base[:, child_order], axis=1)[:, np.newaxis, :]
    parent_start = parent_end - shares[:, parent_order, np.newaxis]
    child_start = child_end - base[:, np.newaxis, child_order]
    overlap = np.minimum(parent_end, child_end) - np.maximum(parent_start, child_start)
    together = np.zeros((*shares.shape, base.shape[1]))
    together[:, parent_order[:, np.newaxis], child_order] = np.maximum(overlap, 0)
    return normalised(together, base[:, np.newaxis, :])


def greedy_coupling(shares: FloatArray, base: FloatArray) -> FloatArray:
    """Return a table ``[o, p, c]`` that averages to ``base`` and tells much of the parent.

    The largest remaining masses of both are put together until nothing remains: the greedy
    minimum-entropy coupling (Kocaoglu, Dimakis, Vishwanath and Hassibi 2017).
    """
    rows = np.arange(len(shares))
    left, right = shares.copy(), base.copy()
    together = np.zeros((*shares.shape, base.shape[1]))
    for _ in range(shares.shape[1] + base.shape[1]):
        p, c = left.argmax(axis=1), right.argmax(axis=1)
        mass = np.minimum(left[rows, p], right[rows, c])
        together[rows, p, c] += mass
        left[rows, p] -= mass
        right[rows, c] -= mass
    return normalised(together, base[:, np.newaxis, :])
