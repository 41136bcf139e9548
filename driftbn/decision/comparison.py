"""Two groups of windows compared: the tests of both families and their p-values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from driftbn._kernels.deviance import (
    DEVIANCE,
    MEAN,
    MIN_BOTH,
    MIN_EXPECTED,
    MIN_ROWS,
    VARIANCE,
    compare_ends,
    compare_nodes,
    compare_pairs,
)
from driftbn._kernels.evidence import Floats, Ints
from driftbn._kernels.tables import Counts
from driftbn.decision.dependence import Dependence, block_counts, corrected_p_value, measure
from driftbn.decision.plan import TestPlan
from driftbn.learning.independence import Codes

LOG_TABLE = 1 << 16  # n ln n is looked up to here and computed beyond

_N = np.arange(LOG_TABLE, dtype=np.float64)
N_LOG_N: Floats = _N * np.log(np.maximum(_N, 1.0))
N_LOG_N.setflags(write=False)


class Group:
    """Some windows taken together: their counts, and their rows in order of time."""

    def __init__(self, counts: Counts, windows: Sequence[Codes]) -> None:
        self.counts = counts
        self.windows = tuple(windows)

    @property
    def n_rows(self) -> int:
        """Rows of all windows."""
        return sum(codes.shape[1] for codes in self.windows)


class Comparison:
    """Tests whether group ``b`` follows the same relations as group ``a``.

    Parameters
    ----------
    plan
        The tests.
    a, b
        The older and the newer windows.
    discount
        Whether dependence between rows is taken out of tests that reject.
    """

    def __init__(self, plan: TestPlan, a: Group, b: Group, *, discount: bool = True) -> None:
        self.plan = plan
        self.a = a
        self.b = b
        self.discount = discount
        self._node_dependence: dict[int, tuple[float, float]] = {}
        self._edge_dependence: dict[int, tuple[float, float]] = {}

    @cached_property
    def node_statistics(self) -> Floats:
        """For each node deviance, mean, variance and rows compared."""
        out = np.empty((self.plan.n_nodes, 4))
        chosen = np.arange(self.plan.n_nodes)
        compare_nodes(
            self.plan.tables, chosen, self.a.counts, self.b.counts, N_LOG_N, out
        )
        return out

    @cached_property
    def node_p_values(self) -> Floats:
        """For each node the p-value for independent rows; 1 where nothing can be compared."""
        return deviance_p_values(self.node_statistics)

    @cached_property
    def pair_statistics(self) -> Floats:
        """For each pair the interaction with the groups, and its degrees of freedom."""
        out = np.empty((self.plan.n_pairs, 2))
        compare_pairs(
            self.plan.tables, self.plan.n_nodes, self.a.counts, self.b.counts, N_LOG_N, out
        )
        return out

    @cached_property
    def pair_p_values(self) -> Floats:
        """For each pair the p-value of its interaction; 1 where it has no degrees of freedom."""
        from scipy.special import chdtrc  # noqa: PLC0415 - a fifth of a second to import

        value, dof = self.pair_statistics.T
        p = np.ones(len(dof))
        tested = np.flatnonzero((dof >= 1) & (value > dof))
        p[tested] = chdtrc(dof[tested], value[tested])
        return p

    def node_p_value(self, v: int) -> tuple[float, float]:
        """Return p-value and design effect of a node, with dependence taken out if it rejects."""
        p = float(self.node_p_values[v])
        if not self.discount or p > 0.05 / self.plan.n_nodes:
            return p, 1.0
        if v not in self._node_dependence:
            found = self._dependence_of_states((self.plan.node_sets[v], v))
            deviance, mean, variance = self.node_statistics[v, :3]
            corrected = corrected_p_value(deviance, mean, variance, found)
            self._node_dependence[v] = max(p, corrected), found.effect
        return self._node_dependence[v]

    def edge_p_value(self, index: int) -> tuple[float, float]:
        """Return p-value and design effect of a pair, with dependence taken out if it rejects."""
        if index not in self._edge_dependence:
            self._edge_dependence[index] = self._edge_p_value(index)
        return self._edge_dependence[index]

    def _edge_p_value(self, index: int) -> tuple[float, float]:
        p_interaction = float(self.pair_p_values[index])
        ends = self.end_statistics(index)
        p_ends = deviance_p_values(ends)
        p = max(p_interaction, min(1.0, 2.0 * float(p_ends.min())))
        if not self.discount or p > 0.01 / self.plan.n_nodes:
            return p, 1.0
        found = self._dependence_of_pair(index)
        value, dof = self.pair_statistics[index]
        p_interaction = max(p_interaction, corrected_p_value(value, dof, 2.0 * dof, found))
        x, y = self.plan.pair(index)
        given = self.plan.pair_sets[index]
        corrected = []
        for end, (members, v) in enumerate((((*given, y), x), ((*given, x), y))):
            if ends[end, VARIANCE] <= 0.0:
                corrected.append(1.0)
                continue
            of_end = self._dependence_of_states((members, v))
            corrected.append(
                max(float(p_ends[end]), corrected_p_value(*ends[end, :3].tolist(), of_end))
            )
        return max(p_interaction, min(1.0, 2.0 * min(corrected))), found.effect

    def end_statistics(self, index: int) -> Floats:
        """Return the statistics of x given set and y, and of y given set and x."""
        out = np.empty((2, 4))
        chosen = np.array([self.plan.n_nodes + index])
        compare_ends(self.plan.tables, chosen, self.a.counts, self.b.counts, N_LOG_N, out)
        return out

    def _cells(self, members: Sequence[int]) -> tuple[list[npt.NDArray[np.int64]], int, int]:
        """Return for each window, those of ``a`` first, the joint code of its rows."""
        cards = self.plan.tables.cards
        coded = []
        for codes in (*self.a.windows, *self.b.windows):
            code = np.zeros(codes.shape[1], np.int64)
            for v in members:
                code *= cards[v]
                code += codes[v]
            coded.append(code)
        return coded, int(np.prod(cards[list(members)])), len(self.a.windows)

    def _dependence_of_states(self, test: tuple[tuple[int, ...], int]) -> Dependence:
        members, v = test
        n_states = int(self.plan.tables.cards[v])
        cells, n_cells, n_old = self._cells((*members, v))
        groups = (cells[:n_old], cells[n_old:])
        totals = [sum(np.bincount(c, minlength=n_cells) for c in group) for group in groups]
        merged, configuration = merge_states(*(t.reshape(-1, n_states) for t in totals))
        return _dependence_of_states(groups, merged, configuration)

    def _dependence_of_pair(self, index: int) -> Dependence:
        x, y = self.plan.pair(index)
        cells, n_cells, n_old = self._cells((*self.plan.pair_sets[index], x, y))
        cards = self.plan.tables.cards
        shape = (-1, int(cards[x]), int(cards[y]))
        blocks = [block_counts(group, n_cells) for group in (cells[:n_old], cells[n_old:])]
        sums = [sum(np.sum(b, axis=0) for b in group).reshape(shape) for group in blocks]
        both = sums[0] + sums[1]
        weight = np.sqrt(
            _divided(
                both.sum((1, 2), keepdims=True),
                both.sum(2, keepdims=True) * both.sum(1, keepdims=True),
            )
        )
        weight *= (sums[0].sum((1, 2)) > 0)[:, None, None] & (sums[1].sum((1, 2)) > 0)[
            :, None, None
        ]
        scores: list[Floats] = []
        expected = 0.0
        for group, table in zip(blocks, sums, strict=True):
            for counts in group:
                scores.append(_pair_scores(counts.reshape(-1, *table.shape), table, weight))
            expected += _expected_square(table, weight)
        return measure(scores, expected)


def deviance_p_values(statistics: Floats) -> Floats:
    """Return p-values of rows of deviance, mean and variance, by the gamma with these moments."""
    from scipy.special import gammaincc  # noqa: PLC0415 - a fifth of a second to import

    value, mean, variance = statistics[:, DEVIANCE], statistics[:, MEAN], statistics[:, VARIANCE]
    p = np.ones(len(value))
    tested = np.flatnonzero(variance > 0.0)
    shape = mean[tested] ** 2 / variance[tested]
    p[tested] = gammaincc(shape, value[tested] * mean[tested] / variance[tested])
    return p


def merge_states(a: Ints, b: Ints) -> tuple[Ints, Ints]:
    """Return for each cell its number after rare states are put together, and configurations.

    The rules are those of the statistic: a configuration with too few rows is left out (-1).
    """
    n_a, n_b = a.sum(axis=1), b.sum(axis=1)
    both = a + b
    n = n_a + n_b
    used = (np.minimum(n_a, n_b) >= MIN_ROWS) & (n >= MIN_BOTH)
    least = MIN_EXPECTED * n / np.maximum(np.minimum(n_a, n_b), 1)
    rare = both < least[:, None]
    n_states = a.shape[1]
    target = np.arange(a.size).reshape(a.shape)
    firsts = np.argmax(rare, axis=1) + n_states * np.arange(len(a))
    target = np.where(rare, firsts[:, None], target)
    target[~used] = -1
    kept = np.unique(target[target >= 0])
    number = np.full(a.size + 1, -1)
    number[kept] = np.arange(len(kept))
    return number[target.ravel()], kept // n_states


def _dependence_of_states(
    groups: tuple[list[npt.NDArray[np.int64]], list[npt.NDArray[np.int64]]],
    merged: Ints,
    configuration: Ints,
) -> Dependence:
    n_cells = len(configuration)
    starts = np.flatnonzero(np.concatenate(([True], configuration[1:] != configuration[:-1])))
    lengths = np.diff(np.concatenate((starts, [n_cells])))
    blocks = [block_counts([merged[c] for c in group], n_cells) for group in groups]
    sums = [sum(np.sum(b, axis=0) for b in group) for group in blocks]
    scale = 1.0 / np.sqrt(np.maximum(sums[0] + sums[1], 1.0))
    scores: list[Floats] = []
    expected = 0.0
    for group, table in zip(blocks, sums, strict=True):
        rows = np.repeat(np.add.reduceat(table, starts), lengths)
        share = _divided(table, rows)
        expected += float(np.sum(rows * share * (1.0 - share) * scale**2))
        for counts in group:
            here = np.repeat(np.add.reduceat(counts, starts, axis=1), lengths, axis=1)
            scores.append((counts - here * share) * scale)
    return measure(scores, expected)


def _pair_scores(counts: Floats, table: Floats, weight: Floats) -> Floats:
    """Return what each block ``[blocks, strata, x, y]`` adds to the interaction, centred."""
    n = table.sum((1, 2), keepdims=True)
    p_x = _divided(table.sum(2, keepdims=True), n)
    p_y = _divided(table.sum(1, keepdims=True), n)
    constant = 2.0 * p_x * p_y - _divided(table, n)
    scores = (
        counts
        - p_x * counts.sum(2, keepdims=True)
        - p_y * counts.sum(3, keepdims=True)
        + constant * counts.sum((2, 3), keepdims=True)
    )
    flat: Floats = (scores * weight).reshape(len(counts), -1)
    return flat


def _expected_square(table: Floats, weight: Floats) -> float:
    """Return the sum of squares of ``_pair_scores`` for independent rows."""
    n = table.sum((1, 2), keepdims=True)
    p = _divided(table, n)
    p_x, p_y = p.sum(2, keepdims=True), p.sum(1, keepdims=True)
    constant = 2.0 * p_x * p_y - p
    square = p * (1.0 - p_x - p_y + constant) ** 2
    square += (p_x - p) * (constant - p_y) ** 2 + (p_y - p) * (constant - p_x) ** 2
    square += (1.0 - p_x - p_y + p) * constant**2
    return float(np.sum(n * square * weight**2))


def _divided(value: npt.NDArray[np.float64] | Ints, by: npt.NDArray[np.float64] | Ints) -> Floats:
    """Divide; 0 where the divisor is 0."""
    return np.divide(value, by, out=np.zeros(np.broadcast_shapes(value.shape, by.shape)), where=by != 0)
