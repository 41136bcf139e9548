"""What a window of this size can show at all."""

from __future__ import annotations

import numpy as np

from driftbn.decision.comparison import Comparison
from driftbn.decision.outcome import UndecidedPair
from driftbn.kernels.evidence import Floats
from driftbn.learning.independence import critical_values

POWERLESS = 0.1  # nats: a test that cannot see even this says nothing
MAX_UNDECIDED = 50
_NINE_OF_TEN = 1.2816  # standard deviations


def visible_statistic(dof: Floats, level: float) -> Floats:
    """Return by how much a statistic must be shifted to be seen in nine of ten cases.

    With ``k = (d - 1) / 2``, the root of a shifted chi-square less k has a standard deviation of
    about 1 around the root of its shift plus k; from the critical value to there, it is 1.28.
    The shift is right to 0.3 % from 1 to 200 degrees of freedom.

    Examples
    --------
    >>> visible_statistic(np.array([1.0]), 0.05).round(1)
    array([10.5])
    """
    largest = int(dof.max(initial=1.0))
    critical = critical_values(level, 1 << max(largest, 1).bit_length())[
        np.maximum(dof, 1.0).astype(np.int64)
    ]
    k = (np.maximum(dof, 1.0) - 1.0) / 2.0
    shift: Floats = (np.sqrt(np.maximum(critical - k, 0.0)) + _NINE_OF_TEN) ** 2 - k
    return np.where(dof >= 1.0, shift, np.inf)


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


def visible_pairs(
    comparison: Comparison, level: float, above: float = 0.0, n_most: int | None = None
) -> tuple[list[UndecidedPair], int]:
    """Return pairs with the smallest change that a test of them shows, and how many there are.

    Parameters
    ----------
    comparison
        Two groups of windows.
    level
        Level of each single test.
    above
        Only pairs with a larger change than this, in nats.
    n_most
        How many are returned at most, the worst first; ``None`` for all.
    """
    plan = comparison.plan
    nats = visible_changes(comparison, level)
    ends = np.stack([plan.tables.source[plan.n_nodes :], plan.tables.child[plan.n_nodes :]])
    low, high = ends.min(axis=0).astype(np.int64), ends.max(axis=0).astype(np.int64)
    best = np.full((plan.n_nodes, plan.n_nodes), -1.0)
    best[low, high] = np.inf
    np.minimum.at(best, (low, high), nats)
    rows, columns = np.nonzero(best > above)
    values = best[rows, columns]
    pairs = [
        UndecidedPair(plan.names[rows[i]], plan.names[columns[i]], float(values[i]))
        for i in np.lexsort((columns, rows, -values))[:n_most].tolist()
    ]
    return pairs, len(values)


def undecided_pairs(comparison: Comparison, level: float) -> tuple[tuple[UndecidedPair, ...], int]:
    """Return the pairs that no test can decide on, the worst first, and how many there are."""
    pairs, n_pairs = visible_pairs(comparison, level, POWERLESS, MAX_UNDECIDED)
    return tuple(pairs), n_pairs
