"""Two groups of windows compared: the tests of both families and their p-values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from driftbn.drift.dispersion import (
    BlockSums,
    DependenceOfGroups,
    GroupRows,
    StateRows,
    check_states,
    dependence_of_pair,
)
from driftbn.drift.plan import TestPlan, n_configurations, node_set
from driftbn.kernels.deviance import (
    DEVIANCE,
    MEAN,
    VARIANCE,
    compare_ends,
    compare_nodes,
    compare_ragged,
    measure_association,
    measure_change,
)
from driftbn.kernels.evidence import Floats
from driftbn.kernels.tables import Counts
from driftbn.learning.independence import Codes, critical_values, n_log_n_table

# Over the number of fields: dependence is taken out of p-values up to here.
NODE_REJECTS = 0.05
TIE_REJECTS = 0.01
FIRST_SHARE = 0.5  # of the dependence that single fields show is taken out at first look


class _Corrected(NamedTuple):
    p: float
    effect: float
    most: float  # up to here they are exact

    def is_enough(self, most: float) -> bool:
        """Return whether they would be the same if asked to be exact up to this."""
        return self.p <= self.most or most <= self.most


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
        self._logs = LOGS.up_to(a.n_rows + b.n_rows)
        self._nodes: dict[int, _Corrected] = {}
        self._ties: dict[int, _Corrected] = {}
        self._dependence: dict[int, DependenceOfGroups] = {}

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

    def node_p_value(self, v: int, most: float = 1.0) -> tuple[float, float]:
        """Return p-value and design effect of a node, with dependence taken out if it rejects.

        They are exact up to ``most`` and up to one over the number of nodes; above, they may be
        less than they are.
        """
        p = float(self.node_p_values[v])
        if not self.discount or p > NODE_REJECTS / self.plan.n_nodes:
            return p, 1.0
        most = min(most, 1.0 / self.plan.n_nodes)
        if v not in self._nodes or not self._nodes[v].is_enough(most):
            test = self.node_statistics[v], self.plan.given(v), v
            corrected, effect = self._check(*test, most)
            self._nodes[v] = _Corrected(max(p, corrected), effect, most)
        return self._nodes[v][:2]

    def tie_p_value(self, index: int, most: float = 1.0) -> tuple[float, float]:
        """Return p-value and design effect of a tie, with dependence taken out if it rejects.

        They are exact up to ``most`` and up to one over the number of ties; above, they may be
        less than they are.
        """
        most = min(most, 1.0 / self.plan.n_ties)
        if index not in self._ties or not self._ties[index].is_enough(most):
            self._ties[index] = _Corrected(*self._tie_p_value(index, most), most)
        return self._ties[index][:2]

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

    def _tie_p_value(self, index: int, most: float) -> tuple[float, float]:
        rejects = TIE_REJECTS / self.plan.n_nodes
        if self.discount and most <= rejects:
            p, effect = self._interaction(index, most)
            if p > most:
                return p, effect  # the other parts could only raise it
        p = self.plain_tie_p_value(index)
        if not self.discount or p > rejects:
            return p, 1.0
        corrected, effect = self._interaction(index, most)
        p = max(p, corrected)
        source, child = self.plan.tie(index)
        given = self.plan.given(self.plan.n_nodes + index)
        ends = self.end_statistics(index)
        p_ends = 1.0
        for statistics, other, v in ((ends[0], child, source), (ends[1], source, child)):
            if p <= most and 2.0 * p_ends > p:
                p_ends = min(p_ends, self._check(statistics, (*given, other), v, most / 2.0)[0])
        return max(p, min(1.0, 2.0 * p_ends)), effect

    def states_given(self, v: int, members: Sequence[int]) -> tuple[float, float]:
        """Return p-value and effect in nats of a node given any others, as far as rows suffice.

        Dependence is taken out of the p-value if it rejects.
        """
        plan = self.plan
        given = node_set(v, members, plan.tables.cards, self.b.n_rows)
        n_states = int(plan.tables.cards[v])
        n_cells = n_states * n_configurations(plan.tables.cards, given)
        a, b = (
            np.bincount(group.sums.cells((*given, v)), minlength=n_cells).astype(np.int32)
            for group in (self.a, self.b)
        )
        starts = np.arange(0, n_cells, n_states)
        statistics = np.empty(4)
        compare_ragged(starts, np.full(len(starts), n_states), a, b, self._logs, statistics)
        p = float(deviance_p_values(statistics[None])[0])
        if self.discount and p <= NODE_REJECTS / plan.n_nodes:
            p = max(p, self._check(statistics, given, v, 1.0 / plan.n_nodes)[0])
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

    def _check(
        self, statistics: Floats, members: tuple[int, ...], v: int, most: float
    ) -> tuple[float, float]:
        """Return p-value and design effect of the states of v given others."""
        if statistics[VARIANCE] <= 0.0:
            return 1.0, 1.0
        cards = self.plan.tables.cards
        a, b = (GroupRows(g.sums.cells((*members, v)), g.sums.n_rows) for g in (self.a, self.b))
        largest = float(self.b.effects.max(initial=1.0))
        rows = StateRows((a, b), n_configurations(cards, members), int(cards[v]), largest)
        return check_states(rows, statistics, self._logs, most)

    def _interaction(self, index: int, most: float) -> tuple[float, float]:
        """Return p-value and design effect of the interaction of a tie with the groups."""
        if index not in self._dependence:
            self._dependence[index] = self._dependence_of_tie(index)
        value, dof = self.tie_statistics[:, index].tolist()
        return self._dependence[index].p_value(value, dof, 2.0 * dof, most)

    def _dependence_of_tie(self, index: int) -> DependenceOfGroups:
        source, child = self.plan.tie(index)
        table = self.plan.n_nodes + index
        members = (*self.plan.given(table), child, source)
        tables = self.plan.tables
        span = slice(int(tables.first[table]), int(tables.first[table + 1]))
        shape = (-1, int(tables.cards[child]), int(tables.cards[source]))
        a, b = (group.counts[span].reshape(shape) for group in (self.a, self.b))
        return dependence_of_pair((self.a.sums, self.b.sums), members, (a, b))


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


# Some windows taken together, as they are compared with others.

FIRST_TABLE = 1 << 16


class LogTable:
    """Values of n ln n from 0 on, made longer when more rows are compared."""

    def __init__(self) -> None:
        self._values = n_log_n_table(FIRST_TABLE)

    def up_to(self, n_rows: int) -> Floats:
        """Return values for all counts of so many rows."""
        if n_rows >= len(self._values):
            self._values = n_log_n_table(2 * n_rows)
        return self._values


LOGS = LogTable()


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
    sums
        Sums over blocks of their rows, if some are known.
    """

    def __init__(
        self,
        plan: TestPlan,
        counts: Counts,
        windows: Sequence[Codes],
        effects: Floats | None = None,
        sums: BlockSums | None = None,
    ) -> None:
        self.plan = plan
        self.counts = counts
        self.windows = tuple(windows)
        self.effects = np.ones(plan.n_nodes) if effects is None else effects
        self.sums = BlockSums(windows, plan.tables.cards) if sums is None else sums

    @property
    def n_rows(self) -> int:
        """Rows of all windows."""
        return sum(codes.shape[1] for codes in self.windows)

    @cached_property
    def information(self) -> Floats:
        """For each test of a tie half of its G and the degrees of freedom, shape [2, ties]."""
        out = np.empty((2, self.plan.n_ties))
        tables, n_nodes = self.plan.tables, self.plan.n_nodes
        logs = LOGS.up_to(self.n_rows)
        measure_association(tables, n_nodes, self.counts, logs, out[0], out[1])
        return out
