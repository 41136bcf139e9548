"""Two groups of windows compared: the tests of both families and their p-values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from driftbn._kernels.deviance import (
    DEVIANCE,
    MEAN,
    VARIANCE,
    compare_ends,
    compare_nodes,
    compare_ragged,
    measure_association,
    measure_change,
)
from driftbn._kernels.evidence import Floats
from driftbn._kernels.tables import Counts
from driftbn.decision.cells import joint_codes
from driftbn.decision.dependence import DependenceOfGroups
from driftbn.decision.pairs import dependence_of_pair
from driftbn.decision.plan import TestPlan, node_set
from driftbn.decision.states import StateRows, check_states
from driftbn.learning.independence import Codes, critical_values, n_log_n_table

FIRST_TABLE = 1 << 16
FIRST_SHARE = 0.5  # of the dependence that single fields show is taken out at first look


class _LogTable:
    """Values of n ln n from 0 on, made longer when more rows are compared."""

    def __init__(self) -> None:
        self._values = n_log_n_table(FIRST_TABLE)

    def up_to(self, n_rows: int) -> Floats:
        """Return values for all counts of so many rows."""
        if n_rows >= len(self._values):
            self._values = n_log_n_table(2 * n_rows)
        return self._values


_LOGS = _LogTable()


class Group:
    """Some windows taken together.

    Parameters
    ----------
    plan
        By what they were counted.
    counts
        The counts.
    windows
        The rows in order of time.
    effects
        Design effect of each variable; 1 if not given.
    """

    def __init__(
        self,
        plan: TestPlan,
        counts: Counts,
        windows: Sequence[Codes],
        effects: Floats | None = None,
    ) -> None:
        self.plan = plan
        self.counts = counts
        self.windows = tuple(windows)
        self.effects = np.ones(plan.n_nodes) if effects is None else effects

    @property
    def n_rows(self) -> int:
        """Rows of all windows."""
        return sum(codes.shape[1] for codes in self.windows)

    @cached_property
    def information(self) -> Floats:
        """For each test of a tie half of its G and the degrees of freedom, shape [2, ties]."""
        out = np.empty((2, self.plan.n_ties))
        tables, n_nodes = self.plan.tables, self.plan.n_nodes
        logs = _LOGS.up_to(self.n_rows)
        measure_association(tables, n_nodes, self.counts, logs, out[0], out[1])
        return out


class Comparison:
    """Tests whether group ``b`` follows the same relations as group ``a``.

    Dependence between rows is measured for tests that reject, which takes time. So that bursty
    rows do not make all of them reject, half of what the single fields show of it is taken
    out before.

    Parameters
    ----------
    a, b
        The older and the newer windows.
    discount
        Whether dependence between rows is taken out of tests that reject.
    """

    def __init__(self, a: Group, b: Group, *, discount: bool = True) -> None:
        self.plan = a.plan
        self.a = a
        self.b = b
        self.discount = discount
        self._logs = _LOGS.up_to(a.n_rows + b.n_rows)
        self._nodes: dict[int, tuple[float, float]] = {}
        self._ties: dict[int, tuple[float, float]] = {}

    @cached_property
    def node_statistics(self) -> Floats:
        """For each node deviance, mean, variance and rows compared."""
        out = np.empty((self.plan.n_nodes, 4))
        chosen = np.arange(self.plan.n_nodes)
        compare_nodes(self.plan.tables, chosen, self.a.counts, self.b.counts, self._logs, out)
        return out

    @property
    def has_tests(self) -> bool:
        """Whether the rows are enough for any test."""
        return bool(np.any(self.node_statistics[:, VARIANCE] > 0.0)) or bool(
            np.any(self.tie_statistics[1] >= 1.0)
        )

    @cached_property
    def node_p_values(self) -> Floats:
        """For each node the p-value at first look; 1 where nothing can be compared."""
        statistics = self.node_statistics
        if self._bursty:
            statistics = statistics.copy()
            statistics[:, DEVIANCE] /= 1.0 + FIRST_SHARE * (self.b.effects - 1.0)
        return deviance_p_values(statistics)

    @cached_property
    def _bursty(self) -> bool:
        return self.discount and bool(np.any(self.b.effects > 1.0))

    @cached_property
    def _tie_discounts(self) -> Floats:
        """For each tie by how much its statistic is too large at least."""
        tables, n_nodes = self.plan.tables, self.plan.n_nodes
        excess = np.sqrt(self.b.effects - 1.0)
        both: Floats = excess[tables.source[n_nodes:]] * excess[tables.child[n_nodes:]]
        return 1.0 + FIRST_SHARE * both

    @cached_property
    def tie_statistics(self) -> Floats:
        """For each tie its interaction with the groups and the degrees of freedom, [2, ties]."""
        found: Floats = self.a.information.copy()
        tables, n_nodes = self.plan.tables, self.plan.n_nodes
        measure_change(
            tables, n_nodes, self.a.counts, self.b.counts, self._logs, found[0], found[1]
        )
        found[0] *= 2.0
        return found

    @cached_property
    def tie_p_values(self) -> Floats:
        """For each tie the p-value of its interaction at first look.

        One above one over the number of ties is given as 1: corrected for all ties, it is.
        """
        value, dof = self.tie_statistics
        if self._bursty:
            value = value / self._tie_discounts
        # A power of two: so that one list of critical values serves many windows.
        most_dof = 1 << int(dof.max(initial=1.0)).bit_length()
        screen = critical_values(min(0.5, 1.0 / max(len(dof), 1)), most_dof)
        p = np.ones(len(dof))
        suspects = np.flatnonzero(value > screen[np.maximum(dof, 0.0).astype(np.int64)])
        p[suspects] = chi_square_p(value[suspects], dof[suspects])
        return p

    def node_p_value(self, v: int) -> tuple[float, float]:
        """Return p-value and design effect of a node, with dependence taken out if it rejects."""
        p = float(self.node_p_values[v])
        if not self.discount or p > 0.05 / self.plan.n_nodes:
            return p, 1.0
        if v not in self._nodes:
            test = self.node_statistics[v], self.plan.given(v), v
            corrected, effect = self._check(*test, self.plan.n_nodes)
            self._nodes[v] = max(p, corrected), effect
        return self._nodes[v]

    def tie_p_value(self, index: int) -> tuple[float, float]:
        """Return p-value and design effect of a tie, with dependence taken out if it rejects."""
        if index not in self._ties:
            self._ties[index] = self._tie_p_value(index)
        return self._ties[index]

    def plain_tie_p_value(self, index: int) -> float:
        """Return the p-value of a tie at first look, both of its parts."""
        value, dof = self.tie_statistics[:, index].tolist()
        if dof < 1.0:
            return 1.0
        ends = self.end_statistics(index)
        if self._bursty:
            value /= float(self._tie_discounts[index])
            ends[:, DEVIANCE] /= float(self._tie_discounts[index])
        p_ends = deviance_p_values(ends)
        p_interaction = float(chi_square_p(value, dof))
        return max(p_interaction, min(1.0, 2.0 * float(p_ends.min())))

    def _tie_p_value(self, index: int) -> tuple[float, float]:
        p = self.plain_tie_p_value(index)
        if not self.discount or p > 0.01 / self.plan.n_nodes:
            return p, 1.0
        found = self._dependence_of_tie(index)
        value, dof = self.tie_statistics[:, index].tolist()
        p_interaction = max(p, found.p_value(value, dof, 2.0 * dof, self.plan.n_ties))
        if p_interaction * self.plan.n_ties >= 1.0:
            return p_interaction, found.effect  # the other parts could only raise it
        source, child = self.plan.tie(index)
        given = self.plan.given(self.plan.n_nodes + index)
        ends = self.end_statistics(index)
        p_ends = [
            self._check(ends[0], (*given, child), source, self.plan.n_ties)[0],
            self._check(ends[1], (*given, source), child, self.plan.n_ties)[0],
        ]
        return max(p_interaction, min(1.0, 2.0 * min(p_ends))), found.effect

    def states_given(self, v: int, members: Sequence[int]) -> tuple[float, float]:
        """Return p-value and effect in nats of a node given any others, as far as rows suffice.

        Dependence is taken out of the p-value if it rejects.
        """
        plan = self.plan
        given = node_set(v, members, plan.tables.cards, self.b.n_rows)
        cells, n_cells, n_old = self._cells((*given, v))
        a, b = (
            np.bincount(np.concatenate(group), minlength=n_cells).astype(np.int32)
            for group in (cells[:n_old], cells[n_old:])
        )
        n_states = int(plan.tables.cards[v])
        starts = np.arange(0, n_cells, n_states)
        statistics = np.empty(4)
        compare_ragged(starts, np.full(len(starts), n_states), a, b, self._logs, statistics)
        p = float(deviance_p_values(statistics[None])[0])
        if self.discount and p <= 0.05 / plan.n_nodes:
            p = max(p, self._check(statistics, given, v, plan.n_nodes)[0])
        return p, self.effect_of(statistics)

    def effect_of(self, statistics: Floats) -> float:
        """Return how far the tables of a node are apart, in nats per record."""
        deviance, mean = statistics[[DEVIANCE, MEAN]].tolist()
        n_a, n_b = self.a.n_rows, self.b.n_rows
        return max(0.0, float(deviance - mean)) * (n_a + n_b) / (2.0 * n_a * n_b)

    def end_statistics(self, index: int) -> Floats:
        """Return the statistics of source given set and child, and of child given the rest."""
        out = np.empty((2, 4))
        chosen = np.array([self.plan.n_nodes + index])
        compare_ends(self.plan.tables, chosen, self.a.counts, self.b.counts, self._logs, out)
        return out

    def _cells(self, members: Sequence[int]) -> tuple[list[npt.NDArray[np.int64]], int, int]:
        """Return for each window, those of ``a`` first, the joint code of its rows."""
        cards = self.plan.tables.cards
        windows = (*self.a.windows, *self.b.windows)
        coded = [joint_codes(codes, cards, members) for codes in windows]
        return coded, int(np.prod(cards[list(members)])), len(self.a.windows)

    def _check(
        self, statistics: Floats, members: tuple[int, ...], v: int, n_tests: int
    ) -> tuple[float, float]:
        """Return p-value and design effect of the states of v given others."""
        if statistics[VARIANCE] <= 0.0:
            return 1.0, 1.0
        cells, n_cells, n_old = self._cells((*members, v))
        n_states = int(self.plan.tables.cards[v])
        groups = cells[:n_old], cells[n_old:]
        largest = float(self.b.effects.max(initial=1.0))
        rows = StateRows(groups, n_cells // n_states, n_states, largest)
        return check_states(rows, statistics, self._logs, n_tests)

    def _dependence_of_tie(self, index: int) -> DependenceOfGroups:
        source, child = self.plan.tie(index)
        table = self.plan.n_nodes + index
        cells, _, n_old = self._cells((*self.plan.given(table), child, source))
        tables = self.plan.tables
        span = slice(int(tables.first[table]), int(tables.first[table + 1]))
        shape = (-1, int(tables.cards[child]), int(tables.cards[source]))
        a, b = (group.counts[span].reshape(shape) for group in (self.a, self.b))
        return dependence_of_pair((cells[:n_old], cells[n_old:]), (a, b))


def chi_square_p(value: Floats | float, dof: Floats | float) -> Floats:
    """Return the probability that chi-square exceeds a value."""
    from scipy.special import chdtrc  # noqa: PLC0415 - a fifth of a second to import

    return np.asarray(chdtrc(dof, np.maximum(value, 0.0)), np.float64)


def deviance_p_values(statistics: Floats) -> Floats:
    """Return p-values of rows of deviance, mean and variance, by the gamma with these moments."""
    from scipy.special import gammaincc  # noqa: PLC0415 - a fifth of a second to import

    value = np.maximum(statistics[:, DEVIANCE], 0.0)  # rounding may leave it below
    mean, variance = statistics[:, MEAN], statistics[:, VARIANCE]
    p = np.ones(len(value))
    tested = np.flatnonzero(variance > 0.0)
    shape = mean[tested] ** 2 / variance[tested]
    p[tested] = gammaincc(shape, value[tested] * mean[tested] / variance[tested])
    return p
