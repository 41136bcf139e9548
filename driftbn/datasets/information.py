"""Information of tables in nats.

Tables of a child with a singled-out parent are arrays
``[configurations of the other parents, parent, child]``, short ``[o, p, c]``;
weights ``[o, p]`` are the probabilities of their rows.
"""

from __future__ import annotations

import numpy as np
from scipy.special import rel_entr

from driftbn.network import FloatArray


def normalised(weights: FloatArray, fallback: FloatArray | None = None) -> FloatArray:
    """Normalise the last axis; where it sums to 0 the fallback stands, or equal shares."""
    total = weights.sum(axis=-1, keepdims=True)
    shares = np.empty(weights.shape)
    shares[:] = 1 / weights.shape[-1] if fallback is None else fallback
    np.divide(weights, total, out=shares, where=total > 0)
    return shares


def averaged(weights: FloatArray, table: FloatArray) -> FloatArray:
    """Return P(child | others) ``[o, c]``."""
    mean: FloatArray = np.einsum("op,opc->oc", normalised(weights), table)
    return mean


def information(weights: FloatArray, table: FloatArray) -> float:
    """Return I(child; parent | others)."""
    mean = averaged(weights, table)[:, np.newaxis, :]
    return _expected(weights, rel_entr(table, mean).sum(axis=-1))


def divergence(weights: FloatArray, before: FloatArray, after: FloatArray) -> float:
    """Return the mean Jensen-Shannon divergence of the rows of two tables."""
    middle = (before + after) / 2
    both = rel_entr(before, middle).sum(axis=-1) + rel_entr(after, middle).sum(axis=-1)
    return _expected(weights, both / 2)


def _expected(weights: FloatArray, values: FloatArray) -> float:
    possible = weights > 0  # elsewhere a value may be infinite
    return max(0.0, float(weights[possible] @ values[possible]))
