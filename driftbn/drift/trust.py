"""How far the decision can be trusted on its stream (METHOD.md, 8).

Power: the smallest change that a window of this size shows. Shadow windows: the decision on
permuted rows, in which nothing can have changed, which measures the rate of false alarms.
Calibration: a report of both to the user.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from driftbn.drift.comparison import Comparison, PooledWindows
from driftbn.drift.dispersion import TOO_LARGE_EFFECT
from driftbn.drift.outcome import UndecidedPair
from driftbn.drift.reference import Regime
from driftbn.kernels.evidence import Floats
from driftbn.learning.independence import Codes, critical_values

POWERLESS = 0.1  # nats: a test that cannot see even this says nothing
MAX_UNDECIDED = 50
PERMUTED_ROWS = 256  # neighbours that stay together in a shadow window, so that sessions do
MIN_SHADOW_REFERENCE = 4  # windows in the reference
SEEN_PAIRS = 0.9  # share of the pairs of fields in which a change is to be seen

_NORMAL_90 = 1.2816  # quantile of the standard normal for a power of nine in ten
_NORMAL_95 = 1.959964  # standard errors on each side of a 95 % interval


def visible_statistic(dof: Floats, level: float) -> Floats:
    """Return the noncentrality of chi-square that is seen in nine of ten cases.

    With ``k = (dof - 1) / 2``, the square root of a noncentral chi-square less k is about normal
    around the root of its noncentrality plus k, with standard deviation 1. The result is right to
    0.3 % from 1 to 200 degrees of freedom.

    >>> visible_statistic(np.array([1.0]), 0.05).round(1)
    array([10.5])
    """
    # A power of two, so that one list of critical values serves many windows.
    critical = critical_values(level, 1 << max(int(dof.max(initial=1.0)), 1).bit_length())
    whole = np.maximum(dof, 0.0).astype(np.int64)
    k = (np.maximum(whole, 1) - 1.0) / 2.0
    found: Floats = (np.sqrt(np.maximum(critical[whole] - k, 0.0)) + _NORMAL_90) ** 2 - k
    return found


def visible_changes(comparison: Comparison, level: float) -> Floats:
    """Return the smallest change, in nats, that each pair test shows in nine of ten cases.

    Where windows or neighbouring rows differ by more than chance, it is as many times larger.
    """
    n_a, n_b = comparison.older.n_rows, comparison.newer.n_rows
    shift = visible_statistic(comparison.pair_statistics[1], level) * comparison.pair_factors
    return shift * (n_a + n_b) / (2.0 * n_a * n_b)


def visible_pairs(
    comparison: Comparison, level: float, above: float = 0.0, n_most: int | None = None
) -> tuple[list[UndecidedPair], int]:
    """Return pairs with the smallest change that a test of them shows, and how many there are.

    ``above``: only pairs with a larger change than this, in nats. ``n_most``: how many are returned
    at most, the worst first; ``None`` for all.
    """
    plan = comparison.plan
    nats = visible_changes(comparison, level)
    if not np.any(nats > above):
        return [], 0
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


def visible_to(changes: Sequence[float], share: float) -> float:
    """Return the change that is seen in this share of the pairs; infinite without any.

    ``changes``: the smallest that is seen in each pair.
    """
    if not changes:
        return math.inf
    return sorted(changes)[max(0, math.ceil(share * len(changes)) - 1)]


def falls_due(index: int, share: float) -> bool:
    """Return whether something done for a share of the windows, evenly spaced, is done for this.

    >>> [index for index in range(8) if falls_due(index, 0.25)]
    [3, 7]
    """
    return int((index + 1) * share) > int(index * share)


@dataclass
class Shadow:
    """Counts the false alarms on shadow windows.

    Rows of the reference and of the present window are permuted, in blocks of neighbouring rows so
    that sessions stay together. Whatever the stream does, such windows differ by chance only.

    ``share``: share of the windows judged a second time. ``n_windows``, ``n_alarms``: shadow
    windows so far, and those called drift.
    """

    share: float
    n_windows: int = 0
    n_alarms: int = 0

    def is_due(self, index: int, regime: Regime) -> bool:
        return falls_due(index, self.share) and len(regime.windows) >= MIN_SHADOW_REFERENCE

    def judge(
        self,
        index: int,
        regime: Regime,
        window: PooledWindows,
        is_drift: Callable[[Comparison, int], bool],
    ) -> None:
        """Permute the rows, judge them, and count.

        ``index``: number of the window; it seeds the permutation. ``is_drift``: says whether a
        comparison at a scale is called drift.
        """
        codes = [*regime.windows, *window.windows]
        pool = regime.pool.counts + window.counts
        n_rows = window.n_rows
        rows = _permuted(codes, np.random.default_rng([index, len(codes)]))
        self.n_windows += 1
        counts, n_counted = np.zeros_like(pool), 0
        for scale in regime.config.scales:
            n_taken = scale * n_rows
            if n_taken + n_rows > rows.shape[1]:
                break
            counts = counts + regime.plan.count_rows(rows[:, n_counted:n_taken])
            n_counted = n_taken
            taken, left = (
                [np.ascontiguousarray(part) for part in _windows(rows_of, n_rows)]
                for rows_of in (rows[:, :n_taken], rows[:, n_taken:])
            )
            newer = PooledWindows(regime.plan, counts, taken, window.effects)
            older = PooledWindows(regime.plan, pool - counts, left)
            compared = Comparison(
                older,
                newer,
                dependent_rows=regime.config.dependent_rows,
                scatter=regime.scatter(regime.pool),
            )
            if is_drift(compared, scale):
                self.n_alarms += 1
                break


def _windows(rows: Codes, n_rows: int) -> list[Codes]:
    return [rows[:, begin : begin + n_rows] for begin in range(0, rows.shape[1], n_rows)]


def _permuted(windows: list[Codes], rng: np.random.Generator) -> Codes:
    """Return all rows, blocks in random order."""
    whole = np.concatenate(windows, axis=1)
    n_blocks = -(-whole.shape[1] // PERMUTED_ROWS)
    starts = (rng.permutation(n_blocks) * PERMUTED_ROWS).tolist()
    return np.concatenate([whole[:, start : start + PERMUTED_ROWS] for start in starts], axis=1)


def wilson_interval(n_hits: int, n: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share; all of 0 to 1 where nothing is known.

    >>> [round(limit, 3) for limit in wilson_interval(1, 100)]
    [0.002, 0.054]
    """
    if n == 0:
        return 0.0, 1.0
    z2 = _NORMAL_95**2
    share = n_hits / n
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    margin = _NORMAL_95 * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(0.0, centre - margin), min(1.0, centre + margin)


@dataclass(frozen=True)
class VisibleChange:
    """The smallest change of one pair of fields that a window shows in nine of ten cases.

    ``source``, ``target``: the fields, smaller name first. ``nats``: the change; infinite if no
    test is possible.
    """

    source: str
    target: str
    nats: float


@dataclass(frozen=True)
class CalibrationReport:
    """How far a monitor can be trusted on its stream.

    Parameters
    ----------
    window_rows
        Rows of a window.
    reference_windows
        Windows in the reference.
    alpha
        Share of stationary windows that may be called drift.
    design_effects
        By field, how much more its counts vary than those of independent rows, in the last window.
    shadow_windows, shadow_alarms
        Windows judged with their rows permuted, so that nothing can have changed, and those
        called drift.
    visible
        For every pair of fields the smallest change that one window shows, worst first.
    wanted
        The change that should be seen, in nats.
    """

    window_rows: int
    reference_windows: int
    alpha: float
    design_effects: tuple[tuple[str, float], ...]
    shadow_windows: int
    shadow_alarms: int
    visible: tuple[VisibleChange, ...]
    wanted: float

    @property
    def largest_design_effect(self) -> float:
        """The largest design effect of any field."""
        return max((effect for _, effect in self.design_effects), default=1.0)

    @property
    def false_alarm_rate(self) -> float | None:
        """Share of the shadow windows called drift; ``None`` before the first."""
        return self.shadow_alarms / self.shadow_windows if self.shadow_windows else None

    @property
    def false_alarm_interval(self) -> tuple[float, float]:
        """95 % interval of that share."""
        return wilson_interval(self.shadow_alarms, self.shadow_windows)

    def visible_to(self, share: float) -> float:
        """Return the change that is seen in this share of the pairs.

        Examples
        --------
        >>> pairs = tuple(VisibleChange("a", str(i), i / 100) for i in range(4, 0, -1))
        >>> CalibrationReport(500, 8, 0.01, (), 0, 0, pairs, 0.01).visible_to(0.5)
        0.02
        """
        return visible_to([change.nats for change in self.visible], share)

    def recommended_rows(self, share: float = SEEN_PAIRS) -> int | None:
        """Return the rows of a window that shows the wanted change in this share of the pairs.

        What is visible falls as one over the rows, with the same number of windows in the
        reference. ``None`` if no window does.
        """
        now = self.visible_to(share)
        if not math.isfinite(now):
            return None
        return max(1, math.ceil(self.window_rows * now / self.wanted))

    @property
    def advice(self) -> tuple[str, ...]:
        """What to change, in plain words; empty if nothing."""
        found = []
        if self.largest_design_effect > TOO_LARGE_EFFECT:
            effect = self.largest_design_effect
            found.append(
                f"Neighbouring records repeat each other up to {effect:.0f} times; "
                "use larger windows."
            )
        if self.shadow_windows and self.false_alarm_interval[0] > self.alpha:
            found.append(
                f"False alarms come more often than the {self.alpha:g} asked for; "
                "lower alpha or use larger windows."
            )
        rows = self.recommended_rows() if self.visible else self.window_rows
        if rows is None:
            found.append("Some pairs of fields cannot be tested at any window size.")
        elif rows > self.window_rows:
            found.append(
                f"To see a change of {self.wanted:g} nats in nine of ten pairs, "
                f"use windows of {rows} records."
            )
        return tuple(found)
