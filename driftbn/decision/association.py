"""How strongly two fields go together, measured on counts or on rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from driftbn.decision.cells import joint_codes, n_configurations
from driftbn.decision.outcome import Association
from driftbn.kernels.evidence import Ints
from driftbn.learning.independence import Codes

CONFIDENCE = 1.96  # standard errors on each side of a 95 % interval


@dataclass(frozen=True)
class Tie:
    """Two fields given others, in some rows.

    Parameters
    ----------
    raw
        Conditional mutual information of the counts, in nats.
    spread
        Variance of what one row adds to it.
    dof
        Degrees of freedom.
    n_rows
        Number of rows.
    """

    raw: float
    spread: float
    dof: float
    n_rows: float

    @property
    def nats(self) -> float:
        """The information less what independent fields would show; not below 0."""
        return max(0.0, self.raw - self.dof / (2.0 * max(self.n_rows, 1.0)))

    def p_value(self, effect: float = 1.0) -> float:
        """Return the p-value of independence, with a design effect taken out."""
        from scipy.special import chdtrc  # noqa: PLC0415 - a fifth of a second to import

        if self.dof < 1.0:
            return 1.0
        return float(chdtrc(self.dof, max(0.0, 2.0 * self.n_rows * self.raw / effect)))

    @property
    def association(self) -> Association:
        """The information with its interval."""
        if self.n_rows == 0:
            return Association(0.0, 0.0, float("inf"))
        variance = max(self.spread, 0.0) / self.n_rows + self.dof / (2.0 * self.n_rows**2)
        margin = CONFIDENCE * float(np.sqrt(variance))
        return Association(self.nats, max(0.0, self.nats - margin), self.nats + margin)


def tie_of(table: npt.NDArray[np.int32] | Ints) -> Tie:
    """Return the tie in a table of counts ``[strata, x, y]``."""
    counts = table.astype(np.float64)
    n = float(counts.sum())
    if n == 0.0:
        return Tie(0.0, 0.0, 0.0, 0.0)
    strata = counts.sum((1, 2), keepdims=True)
    rows, columns = counts.sum(2, keepdims=True), counts.sum(1, keepdims=True)
    ratio = np.ones_like(counts)
    np.divide(counts * strata, rows * columns, out=ratio, where=counts > 0)
    logs = np.log(ratio)
    raw = float(np.sum(counts * logs)) / n
    spread = float(np.sum(counts * logs**2)) / n - raw**2
    met = [np.maximum((margin > 0).sum((1, 2)) - 1, 0) for margin in (rows, columns)]
    return Tie(raw, spread, float(np.sum(met[0] * met[1])), n)


def measure_tie(
    windows: Sequence[Codes], cards: Ints, pair: tuple[int, int], given: Sequence[int]
) -> Tie:
    """Return the tie of a pair in the rows of some windows, given other fields."""
    n_x, n_y = int(cards[pair[0]]), int(cards[pair[1]])
    n_strata = n_configurations(cards, given)
    counts = np.zeros(n_strata * n_x * n_y, np.int64)
    for codes in windows:
        cells = joint_codes(codes, cards, (*given, *pair))
        counts += np.bincount(cells, minlength=len(counts))
    return tie_of(counts.reshape(n_strata, n_x, n_y))
