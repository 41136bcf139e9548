"""Paths from one table to another, and the search along them for a wanted strength or amount."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from driftbn.datasets.information import averaged
from driftbn.errors import ConfigError
from driftbn.network import FloatArray

N_DRAWS = 8
"""Random tables tried before the strongest known one, or before giving up."""

_CLOSE_ENOUGH = 1e-9  # relative error of a strength at which bisection ends
_MAX_HALVINGS = 100

TablePath = Callable[[float], FloatArray]
"""From 0, the table as it is, to 1, as far as it can go."""


def mixture(start: FloatArray, end: FloatArray) -> TablePath:
    """Go straight from one table to the other."""
    # Relative entropy is convex and 0 at the start, so measures rise along a mixture.
    return lambda weight: (1 - weight) * start + weight * end


def tilt(weights: FloatArray, base: FloatArray, towards: FloatArray) -> TablePath:
    """Lean from ``base`` ``[o, c]`` along a direction that P(child | others) does not feel.

    Each configuration of the others goes as far as its probabilities stay non-negative.
    """
    direction = towards - averaged(weights, towards)[:, np.newaxis, :]
    direction[weights == 0] = 0
    start = np.broadcast_to(base[:, np.newaxis, :], direction.shape)
    room = np.full(direction.shape, np.inf)
    # Differences of rounding size are no direction.
    np.divide(start, -direction, out=room, where=direction < -1e-12)
    limit = room.min(axis=(1, 2), keepdims=True)
    direction[np.isinf(limit[:, 0, 0])] = 0
    limit[np.isinf(limit)] = 0
    furthest = limit.max()
    return lambda weight: np.maximum(start + np.minimum(weight * furthest, limit) * direction, 0)


def reach(
    paths: Iterable[TablePath], measure: Callable[[FloatArray], float], field: str, wanted: float
) -> FloatArray:
    """Go along the first path whose end measures enough, until ``wanted`` is measured.

    Paths are functions of 0 to 1; the measure is 0 at their beginning and rises along them.
    """
    greatest = 0.0
    for path in paths:
        at_end = measure(path(1.0))
        greatest = max(greatest, at_end)
        if at_end >= wanted:
            return _bisected(path, measure, wanted)
    raise ConfigError(field, wanted, f"at most {greatest:.6g} nats here")


def _bisected(path: TablePath, measure: Callable[[FloatArray], float], wanted: float) -> FloatArray:
    low, high = 0.0, 1.0
    for _ in range(_MAX_HALVINGS):
        middle = (low + high) / 2
        table = path(middle)
        value = measure(table)
        if abs(value - wanted) <= _CLOSE_ENOUGH * wanted:
            return table
        low, high = (middle, high) if value < wanted else (low, middle)
    return path(high)


def check_positive(field: str, value: float) -> None:
    """Refuse a strength or amount that is not positive and finite."""
    if not (value > 0 and math.isfinite(value)):
        raise ConfigError(field, value, "a positive number of nats")
