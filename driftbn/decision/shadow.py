"""The false-alarm rate as it is: the decision on windows in which nothing can have changed.

Rows of the reference and of the present window are dealt out anew, in blocks of neighbouring rows
so that sessions stay together. Whatever the stream does, such windows differ by chance only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from driftbn.decision.comparison import Comparison
from driftbn.decision.group import Group
from driftbn.decision.regime import Regime
from driftbn.learning.independence import Codes

BLOCK_ROWS = 256  # neighbours that stay together
MIN_WINDOWS = 4  # in the reference


def gets_unit(index: int, share: float) -> bool:
    """Return whether a share of each window, summed up, comes to one more whole with this one.

    Examples
    --------
    >>> [index for index in range(8) if gets_unit(index, 0.25)]
    [3, 7]
    """
    return int((index + 1) * share) > int(index * share)


@dataclass
class Shadow:
    """Counts the false alarms on windows dealt out anew.

    Parameters
    ----------
    share
        Share of the windows looked at.
    n_windows, n_alarms
        Windows looked at so far, and those called drift.
    """

    share: float
    n_windows: int = 0
    n_alarms: int = 0

    def is_due(self, index: int, regime: Regime) -> bool:
        """Whether this window is looked at."""
        return gets_unit(index, self.share) and len(regime.windows) >= MIN_WINDOWS

    def look(
        self, index: int, regime: Regime, group: Group, is_drift: Callable[[Comparison, int], bool]
    ) -> None:
        """Deal out the rows, judge them, and count.

        Parameters
        ----------
        index
            Number of the window; it decides how the rows are dealt out.
        regime
            Gives the rows of the reference, and the tests.
        group
            The present window.
        is_drift
            Says whether a comparison at a scale is called drift.
        """
        codes = [*regime.windows, *group.windows]
        pool = regime.pool.counts + group.counts
        n_rows = group.n_rows
        dealt = _dealt(codes, np.random.default_rng([index, len(codes)]))
        self.n_windows += 1
        counts, n_counted = np.zeros_like(pool), 0
        for scale in regime.config.scales:
            n_taken = scale * n_rows
            if n_taken + n_rows > dealt.shape[1]:
                break
            counts = counts + regime.plan.count_rows(dealt[:, n_counted:n_taken])
            n_counted = n_taken
            taken, left = dealt[:, :n_taken], dealt[:, n_taken:]
            newer = Group(regime.plan, counts, [np.ascontiguousarray(taken)], group.effects)
            older = Group(regime.plan, pool - counts, [np.ascontiguousarray(left)])
            discount = regime.config.dependent_rows
            if is_drift(Comparison(older, newer, discount=discount), scale):
                self.n_alarms += 1
                break


def _dealt(windows: list[Codes], rng: np.random.Generator) -> Codes:
    """Return all rows, blocks in random order."""
    whole = np.concatenate(windows, axis=1)
    n_blocks = -(-whole.shape[1] // BLOCK_ROWS)
    starts = (rng.permutation(n_blocks) * BLOCK_ROWS).tolist()
    return np.concatenate([whole[:, start : start + BLOCK_ROWS] for start in starts], axis=1)
