"""What a window of this size can show at all."""

from __future__ import annotations

import numpy as np

from driftbn._kernels.evidence import Floats
from driftbn.decision.comparison import Comparison
from driftbn.decision.outcome import UndecidedPair
from driftbn.learning.independence import critical_values

POWERLESS = 0.1  # nats: a test that cannot see even this says nothing
MAX_UNDECIDED = 50
_NINE_OF_TEN = 1.2816  # standard deviations


def visible_statistic(dof: Floats, level: float) -> Floats:
    """Return by how much a statistic must be shifted to be seen in nine of ten cases.

    The shift ``s`` solves ``c = d + s - 1.28 sqrt(2 d + 4 s)``: the critical value lies so many
    standard deviations below the mean of the shifted chi-square.

    Examples
    --------
    >>> visible_statistic(np.array([1.0]), 0.05).round(1)
    array([10.3])
    """
    largest = int(dof.max(initial=1.0))
    critical = critical_values(level, max(largest, 1))[np.maximum(dof, 1.0).astype(np.int64)]
    z2 = _NINE_OF_TEN**2
    excess = critical - dof
    root = excess + 2.0 * z2 + _NINE_OF_TEN * np.sqrt(4.0 * excess + 4.0 * z2 + 2.0 * dof)
    shift: Floats = np.where(dof >= 1.0, root, np.inf)
    return shift


def visible_changes(comparison: Comparison, level: float) -> Floats:
    """Return for each tie the smallest change, in nats, that its test shows in nine of ten cases.

    Parameters
    ----------
    comparison
        Two groups of windows.
    level
        Level of each single test.
    """
    n_a, n_b = comparison.a.n_rows, comparison.b.n_rows
    shift = visible_statistic(comparison.tie_statistics[1], level)
    return shift * (n_a + n_b) / (2.0 * n_a * n_b)


def visible_pairs(comparison: Comparison, level: float) -> list[UndecidedPair]:
    """Return for every pair the smallest change that a test of it shows, the worst pair first."""
    plan = comparison.plan
    nats = visible_changes(comparison, level)
    ends = np.stack([plan.tables.source[plan.n_nodes :], plan.tables.child[plan.n_nodes :]])
    low, high = ends.min(axis=0).astype(np.int64), ends.max(axis=0).astype(np.int64)
    best = np.full((plan.n_nodes, plan.n_nodes), -1.0)
    best[low, high] = np.inf
    np.minimum.at(best, (low, high), nats)
    rows, columns = np.nonzero(best >= 0.0)
    values = best[rows, columns]
    return [
        UndecidedPair(plan.names[rows[i]], plan.names[columns[i]], float(values[i]))
        for i in np.lexsort((columns, rows, -values)).tolist()
    ]


def undecided_pairs(comparison: Comparison, level: float) -> tuple[tuple[UndecidedPair, ...], int]:
    """Return the pairs that no test can decide on, the worst first, and how many there are."""
    found = [pair for pair in visible_pairs(comparison, level) if pair.visible_change > POWERLESS]
    return tuple(found[:MAX_UNDECIDED]), len(found)
