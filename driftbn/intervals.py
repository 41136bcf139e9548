"""Intervals of shares."""

from __future__ import annotations

import math

_CONFIDENCE = 1.959964  # standard deviations on each side of 95 %


def wilson_interval(n_hits: int, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a share by Wilson's rule; all of 0 to 1 where nothing is known.

    Examples
    --------
    >>> [round(limit, 3) for limit in wilson_interval(1, 100)]
    [0.002, 0.054]
    """
    if n == 0:
        return 0.0, 1.0
    z2 = _CONFIDENCE**2
    share = n_hits / n
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    margin = _CONFIDENCE * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(0.0, centre - margin), min(1.0, centre + margin)
