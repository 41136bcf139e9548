"""Two groups of windows compared: the tests of both families and their p-values.

The statistics are in METHOD.md, section 2. A test is made in two steps. Screening gives every test
a p-value that is cheap and may be too small where rows are dependent. Those that reject are then
corrected for the dispersion of their own statistic (section 3), which can only raise a p-value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftbn.drift.dispersion import (
    BlockSums,
    GroupRows,
    StateRows,
    TwoSampleDispersion,
    corrected_state_test,
    pair_dispersion,
)
from driftbn.drift.plan import TestPlan, n_configurations, node_conditioning_set
from driftbn.drift.scatter import (
    LEAST_DOF,
    SCATTER_P,
    Scatter,
    Spread,
    at_least_usual,
    poisson_excess,
)
from driftbn.kernels.deviance import (
    DEVIANCE,
    MEAN,
    VARIANCE,
    compare_ends,
    compare_nodes,
    compare_ragged,
    measure_association,
    measure_change,
    write_gamma_tails,
)
from driftbn.kernels.evidence import Floats, Ints
from driftbn.kernels.sequences import find_clocks
from driftbn.kernels.tables import Counts
from driftbn.learning.independence import Codes, critical_values, n_log_n_table

# Over the number of fields: p-values up to here are corrected for dispersion.
NODE_REJECTS = 0.05
PAIR_REJECTS = 0.01
SCREENING_SHARE = 0.5  # of the marginal dispersion of fields that screening corrects for
FIRST_LOGS = 1 << 16


@lru_cache(maxsize=4)
def _logs_below(size: int) -> Floats:
    return n_log_n_table(size)


def logs_up_to(n_rows: int) -> Floats:
    """Return n ln n for all counts of this many rows, and more: one table serves many windows."""
    return _logs_below(max(FIRST_LOGS, 1 << n_rows.bit_length()))


MIN_CLOCK_LEVELS = 3
MIN_CLOCK_MOVES = 12  # more than levels: by chance all go the same way once in 4096
CLOCK_SHARE = 0.98  # of the moves: a clock may be set, and records may be missing

Clocks = npt.NDArray[np.bool_]


def clocks_in(codes: Codes) -> Clocks:
    """Return which fields of rows in order can only go on, as clocks, calendars and counters.

    After a level always comes the same other one (a cycle), or each level has one stretch of rows
    only (a counter or date).
    """
    found, n_codes = np.zeros(len(codes), np.bool_), int(codes.max(initial=0)) + 1
    if n_codes >= MIN_CLOCK_LEVELS:
        room = np.empty((n_codes, n_codes + 2), np.int64)
        find_clocks(codes, MIN_CLOCK_LEVELS, MIN_CLOCK_MOVES, CLOCK_SHARE, room, found)
    return found


class Part(NamedTuple):
    """What is kept of one window of a reference, to say how far its windows lie apart.

    Its other tables may be large, and no comparison asks for them again. ``cells``: the rows before
    bins were made of them.
    """

    rows: Codes
    cells: Codes
    node_counts: Counts
    information: Floats


class PooledWindows:
    """Some windows pooled, as they are compared with others.

    ``windows``: the rows in order of time. ``effects``: marginal design effect of each variable; 1
    if not given. ``sums``: sums over blocks of their rows, if known. ``parts``: what is kept
    of each window, where it matters how far they lie apart. ``cells``: the rows of a single one
    before bins were made of them.
    """

    def __init__(  # noqa: PLR0913
        self,
        plan: TestPlan,
        counts: Counts,
        windows: Sequence[Codes],
        effects: Floats | None = None,
        sums: BlockSums | None = None,
        parts: Sequence[Part] = (),
        cells: Codes | None = None,
    ) -> None:
        self.plan = plan
        self.cells = windows[0] if cells is None else cells
        self.parts = tuple(parts)
        self._expected: dict[float, Floats] = {}
        self.counts = counts
        self.windows = tuple(windows)
        self.n_rows: int = sum([codes.shape[1] for codes in self.windows])
        self.effects = np.ones(plan.n_nodes) if effects is None else effects
        self.sums = BlockSums(windows, plan.tables.cards) if sums is None else sums

    @property
    def part(self) -> Part:
        """What a reference keeps of a single window."""
        (rows,) = self.windows
        return Part(
            rows, self.cells, self.counts[: self.plan.n_node_cells].copy(), self.information
        )

    @cached_property
    def clocks(self) -> Clocks:
        """Which fields are clocks or counters in these windows."""
        return clocks_in(np.concatenate(self.windows, axis=1))

    @cached_property
    def information(self) -> Floats:
        """For each pair test half of its G and the degrees of freedom, shape [2, pair tests]."""
        out = np.empty((2, self.plan.n_pair_tests))
        tables, n_nodes = self.plan.tables, self.plan.n_nodes
        logs = logs_up_to(self.n_rows)
        measure_association(tables, n_nodes, self.counts, logs, out[0], out[1])
        return out

    def expected_information(self, share: float) -> Floats:
        """Return the mean of G of each pair test in a share of the rows, were they independent.

        It is that of chance alone: what the fields have in common is left out.
        """
        if share not in self._expected:
            mean, dof = np.empty(self.plan.n_pair_tests), np.empty(self.plan.n_pair_tests)
            tables, n_nodes = self.plan.tables, self.plan.n_nodes
            excess = poisson_excess(share, len(logs_up_to(self.n_rows)) - 1)
            measure_association(tables, n_nodes, self.counts, excess, mean, dof)
            self._expected[share] = mean
        return self._expected[share]

    @cached_property
    def spread(self) -> Spread:
        """How far the windows lie apart, for each test."""
        n_windows = len(self.parts)
        n_tests = len(self.plan.tables.child)
        if n_windows < 2:
            return Spread(*np.zeros((3, n_tests)))
        n_nodes = self.plan.n_nodes
        excess, dof = np.zeros(n_tests), np.zeros(n_tests)
        excess[:n_nodes], dof[:n_nodes] = self._node_spread()
        excess[n_nodes:], dof[n_nodes:] = self._pair_spread()
        n = np.where(dof > 0.0, n_windows - 1.0, 0.0)
        excess = np.where(dof > 0.0, excess, 0.0)
        return Spread(at_least_usual(excess, n * dof), n, dof)

    def _node_spread(self) -> tuple[Floats, Floats]:
        """Compare each window with the others, by nodes."""
        n_nodes, n_windows = self.plan.n_nodes, len(self.parts)
        chosen, out = np.arange(n_nodes), np.empty((n_windows, n_nodes, 4))
        logs, whole = logs_up_to(self.n_rows), self.counts[: self.plan.n_node_cells]
        for part, statistics in zip(self.parts, out, strict=True):
            rest = whole - part.node_counts
            compare_nodes(self.plan.tables, chosen, rest, part.node_counts, logs, statistics)
        value, mean = (of.reshape(n_windows, -1) for of in standardized(out.reshape(-1, 4)))
        excess = (1.0 - 1.0 / n_windows) * at_least_usual(value - mean, mean).sum(axis=0)
        dof = mean.mean(axis=0)
        return excess, np.where(dof < LEAST_DOF, 0.0, dof)

    def _pair_spread(self) -> tuple[Floats, Floats]:
        """Compare the associations in all windows with each other."""
        n_free = len(self.parts) - 1.0
        parts = np.sum([part.information for part in self.parts], axis=0)
        value, counted = parts - self.information
        mean = len(self.parts) * self.expected_information(1.0 / len(self.parts))
        mean -= self.expected_information(1.0)
        # Two fields that all but determine each other have the mean 0, and wander all the same.
        dof = np.maximum(mean / n_free, 1.0)
        return 2.0 * value - n_free * dof, np.where(counted < n_free, 0.0, dof)


def bursts(plan: TestPlan, effects: Floats) -> Floats:
    """Return by how much bursts make each test too large, less 1, by the effects of its fields."""
    tables, excess = plan.tables, effects - 1.0
    sources = np.where(tables.source < 0, tables.child, tables.source)
    return np.asarray(np.sqrt(excess[sources] * excess[tables.child]))


def standardized(statistics: Floats) -> tuple[Floats, Floats]:
    """Return deviances scaled to the mean of a chi-square, and its degrees of freedom."""
    value, mean, variance = statistics[:, [DEVIANCE, MEAN, VARIANCE]].T
    tested = (variance > 0.0) & (mean > 0.0)
    dof = np.divide(2.0 * mean * mean, variance, out=np.zeros(len(mean)), where=tested)
    return np.divide(value * dof, mean, out=np.zeros(len(mean)), where=tested), dof


class _Corrected(NamedTuple):
    p: float
    effect: float
    exact_to: float  # a larger p is a lower limit

    def suffices(self, exact_to: float) -> bool:
        """Return whether they would be the same if computed exactly up to this."""
        return self.p <= self.exact_to or exact_to <= self.exact_to


class Comparison:
    """Tests whether newer windows follow the same relations as older ones.

    ``dependent_rows``: whether tests that reject are corrected for dispersion. So that
    overdispersed rows do not make all of them reject, screening corrects for half of the marginal
    dispersion. ``scatter``: how far the older windows lie apart, if that is known. ``declared``:
    names of fields that are said to be given.
    """

    def __init__(
        self,
        older: PooledWindows,
        newer: PooledWindows,
        *,
        dependent_rows: bool = True,
        scatter: Scatter | None = None,
        declared: tuple[str, ...] = (),
    ) -> None:
        self.plan = older.plan
        self.older = older
        self.newer = newer
        self.dependent_rows = dependent_rows
        self._scatter = scatter
        self._declared = declared
        self._logs = logs_up_to(older.n_rows + newer.n_rows)
        self._nodes: dict[int, _Corrected] = {}
        self._pairs: dict[int, _Corrected] = {}
        self._dispersion: dict[int, TwoSampleDispersion] = {}

    @property
    def has_tests(self) -> bool:
        """Whether the rows are enough for any test."""
        return bool(np.any(self.node_statistics[:, VARIANCE] > 0.0)) or bool(
            np.any(self.pair_statistics[1] >= 1.0)
        )

    @cached_property
    def given(self) -> Clocks:
        """Which fields are given: how they come, and go together, is no drift.

        A clock that does not go on as before in the newer windows is broken, and not given.
        """
        given = np.array([name in self._declared for name in self.plan.names], np.bool_)
        clocks = np.flatnonzero(self.older.clocks)
        if len(clocks):
            windows = (*self.older.windows, *self.newer.windows)
            rows = np.concatenate([codes[clocks] for codes in windows], axis=1)
            given[clocks] |= clocks_in(rows)
        return given

    @cached_property
    def _overdispersed(self) -> bool:
        return self.dependent_rows and bool(np.any(self.newer.effects > 1.0))

    @cached_property
    def _bursts(self) -> Floats:
        return bursts(self.plan, self.newer.effects)

    # --- scatter: by how much more than by chance windows differ anyway

    @cached_property
    def _strength(self) -> float:
        """By how much scatter counts more for pooled windows than for one: they are one draw."""
        n_older, n_newer = len(self.older.windows), len(self.newer.windows)
        return (1.0 + 1.0 / n_older) / (1.0 / n_newer + 1.0 / n_older)

    @cached_property
    def _pair_means(self) -> Floats:
        """For each pair test the mean of its interaction for independent rows; may be below 1."""
        share = min(1.0, len(self.newer.windows) / len(self.older.windows))
        return self.older.expected_information(share)

    @cached_property
    def excess(self) -> Floats:
        """By how much each test, nodes first, is above its mean for independent rows."""
        value, mean = standardized(self.node_statistics)
        value = np.concatenate([value, self.pair_statistics[0]])
        mean = np.concatenate([mean, np.maximum(self._pair_means, 1.0)])
        return at_least_usual(value - mean, mean)

    def _scattered_nodes(self, nodes: Ints, effects: Floats | None = None) -> Floats:
        if self._scatter is None or not len(nodes):
            return np.zeros(len(nodes))
        value, dof = standardized(self.node_statistics[nodes])
        return self._scatter.p_values(nodes, value, dof, self._strength, effects)

    def _scattered_pairs(self, pairs: Ints, effects: Floats | None = None) -> Floats:
        if self._scatter is None or not len(pairs):
            return np.zeros(len(pairs))
        tests, value = self.plan.n_nodes + pairs, self.pair_statistics[0, pairs]
        dof = np.maximum(self._pair_means[pairs], 1.0)
        return self._scatter.p_values(tests, value, dof, self._strength, effects)

    # --- the family of mechanisms: each node given its parents

    @cached_property
    def node_statistics(self) -> Floats:
        """For each node deviance, mean, variance and rows compared."""
        out = np.empty((self.plan.n_nodes, 4))
        chosen = np.arange(self.plan.n_nodes)
        a, b = self.older.counts, self.newer.counts
        compare_nodes(self.plan.tables, chosen, a, b, self._logs, out)
        return out

    @cached_property
    def _node_chances(self) -> Floats:
        """For each node the p-value if windows differ by chance only."""
        statistics = self.node_statistics
        if self._overdispersed:
            statistics = statistics.copy()
            statistics[:, DEVIANCE] /= 1.0 + SCREENING_SHARE * self._bursts[: self.plan.n_nodes]
        return deviance_p_values(statistics)

    @cached_property
    def node_p_values(self) -> Floats:
        """For each node the p-value by screening; 1 where nothing can be compared."""
        p = self._node_chances.copy()
        low = np.flatnonzero(p <= SCATTER_P)
        p[low] = np.maximum(p[low], self._scattered_nodes(low))
        return p

    def node_p_value(self, v: int, exact_to: float = 1.0) -> tuple[float, float]:
        """Return p-value and design effect of a node, corrected for dispersion if it rejects.

        They are exact where the p-value is at most ``exact_to`` and at most one over the number of
        nodes. Above, they are lower limits.
        """
        p = float(self.node_p_values[v])
        if not self.dependent_rows or p > NODE_REJECTS / self.plan.n_nodes:
            return p, 1.0
        exact_to = min(exact_to, 1.0 / self.plan.n_nodes)
        if v not in self._nodes or not self._nodes[v].suffices(exact_to):
            given = self.plan.conditioning_set(v)
            corrected, effect = self._corrected_states(
                self.node_statistics[v],
                given,
                v,
                exact_to,
                lambda effect: float(self._scattered_nodes(np.array([v]), np.array([effect]))[0]),
            )
            self._nodes[v] = _Corrected(max(p, corrected), effect, exact_to)
        return self._nodes[v][:2]

    def node_given(self, v: int, members: Sequence[int]) -> tuple[float, float]:
        """Return p-value and effect in nats of a node given any others, as far as rows suffice."""
        plan = self.plan
        cards = plan.tables.cards
        given = node_conditioning_set(v, members, cards, self.newer.n_rows)
        n_states = int(cards[v])
        n_cells = n_states * n_configurations(cards, given)
        a, b = (
            np.bincount(group.sums.cells((*given, v)), minlength=n_cells).astype(np.int32)
            for group in (self.older, self.newer)
        )
        starts = np.arange(0, n_cells, n_states)
        statistics = np.empty(4)
        compare_ragged(starts, np.full(len(starts), n_states), a, b, self._logs, statistics)
        p = float(deviance_p_values(statistics[None])[0])
        if self.dependent_rows and p <= NODE_REJECTS / plan.n_nodes:
            p = max(p, self._corrected_states(statistics, given, v, 1.0 / plan.n_nodes)[0])
        return p, float(self._effects_of(statistics[None])[0])

    @cached_property
    def node_effects(self) -> Floats:
        """How far the table of each node is apart, in nats per record."""
        return self._effects_of(self.node_statistics)

    def _effects_of(self, statistics: Floats) -> Floats:
        """Return how far the tables of nodes are apart, in nats per record."""
        above = np.maximum(0.0, statistics[:, DEVIANCE] - statistics[:, MEAN])
        n_a, n_b = self.older.n_rows, self.newer.n_rows
        return np.asarray(above * (n_a + n_b) / (2.0 * n_a * n_b))

    def _corrected_states(
        self,
        statistics: Floats,
        members: tuple[int, ...],
        v: int,
        exact_to: float,
        scattered: Callable[[float], float] = lambda _: 0.0,
    ) -> tuple[float, float]:
        """Return corrected p-value and design effect of the states of v given others."""
        if statistics[VARIANCE] <= 0.0:
            return 1.0, 1.0
        cards = self.plan.tables.cards
        older, newer = (
            GroupRows(group.sums.cells((*members, v)), group.sums.n_rows)
            for group in (self.older, self.newer)
        )
        largest = float(self.newer.effects.max(initial=1.0))
        rows = StateRows((older, newer), n_configurations(cards, members), int(cards[v]), largest)
        return corrected_state_test(rows, statistics, self._logs, exact_to, scattered)

    # --- the family of associations: each source and child given the child's other parents

    @cached_property
    def pair_statistics(self) -> Floats:
        """For each pair test the interaction with the groups and its dof, [2, pair tests]."""
        out: Floats = self.older.information.copy()
        tables, n_nodes = self.plan.tables, self.plan.n_nodes
        a, b = self.older.counts, self.newer.counts
        measure_change(tables, n_nodes, a, b, self._logs, out[0], out[1])
        out[0] *= 2.0
        return out

    def _pair_discounts(self, pairs: Ints) -> Floats:
        """For pair tests by how much their statistics are too large at least."""
        return 1.0 + SCREENING_SHARE * self._bursts[self.plan.n_nodes + pairs]

    @property
    def pair_factors(self) -> Floats:
        """For each pair test how many times as far as by chance it moves without a change."""
        factors = np.ones(len(self.plan.tables.child))
        if self._scatter is not None:
            factors = self._scatter.factors * self._scatter.effects
        if self._overdispersed:
            factors = np.maximum(factors, 1.0 + self._bursts)
        return factors[self.plan.n_nodes :]

    @cached_property
    def _pair_chances(self) -> Floats:
        """For each pair test the p-value of its interaction if windows differ by chance only."""
        value, dof = self.pair_statistics
        # A power of two, so that one list of critical values serves many windows.
        most_dof = 1 << int(dof.max(initial=1.0)).bit_length()
        critical = critical_values(min(0.5, 1.0 / max(len(dof), 1)), most_dof)
        screen = critical[np.maximum(dof, 0.0).astype(np.int64)]
        suspects = np.flatnonzero(value > screen)
        left = value[suspects]
        if self._overdispersed:
            left = left / self._pair_discounts(suspects)
            still = np.flatnonzero(left > screen[suspects])
            suspects, left = suspects[still], left[still]
        p = np.ones(len(dof))
        p[suspects] = chi_square_p(left, dof[suspects])
        return p

    @cached_property
    def pair_p_values(self) -> Floats:
        """For each pair test the p-value of its interaction by screening.

        One above one over the number of tests is given as 1, which it is once corrected for them.
        """
        p = self._pair_chances.copy()
        suspects = np.flatnonzero(p < 1.0)
        p[suspects] = np.maximum(p[suspects], self._scattered_pairs(suspects))
        return p

    def is_suspicious(self, node_level: float, pair_level: float) -> bool:
        """Whether a test rejects at its level unless windows differ by more than chance."""
        nodes, pairs = self._node_chances, self._pair_chances
        return bool(nodes.min(initial=1.0) <= node_level or pairs.min(initial=1.0) <= pair_level)

    def pair_p_value(self, index: int, exact_to: float = 1.0) -> tuple[float, float]:
        """Return p-value and design effect of a pair test, corrected for dispersion if it rejects.

        They are exact where the p-value is at most ``exact_to`` and at most one over the number of
        pair tests. Above, they are lower limits.
        """
        exact_to = min(exact_to, 1.0 / self.plan.n_pair_tests)
        if index not in self._pairs or not self._pairs[index].suffices(exact_to):
            corrected = self._corrected_pair(index, exact_to)
            self._pairs[index] = _Corrected(*corrected, exact_to)
        return self._pairs[index][:2]

    def screening_pair_p_value(self, index: int) -> float:
        """Return the p-value of a pair test by screening: its interaction and its ends."""
        value, dof = self.pair_statistics[:, index].tolist()
        if dof < 1.0:
            return 1.0
        ends = self.end_statistics(index)
        if self._overdispersed:
            discount = float(self._pair_discounts(np.array([index]))[0])
            value /= discount
            ends[:, DEVIANCE] /= discount
        p_ends = deviance_p_values(ends)
        p_interaction = float(chi_square_p(value, dof))
        p_scatter = float(self._scattered_pairs(np.array([index]))[0])
        return max(p_interaction, p_scatter, min(1.0, 2.0 * float(p_ends.min())))

    def end_statistics(self, index: int) -> Floats:
        """Return the statistics of source given set and child, and of child given the rest."""
        out = np.empty((2, 4))
        chosen = np.array([self.plan.n_nodes + index])
        a, b = self.older.counts, self.newer.counts
        compare_ends(self.plan.tables, chosen, a, b, self._logs, out)
        return out

    def _corrected_pair(self, index: int, exact_to: float) -> tuple[float, float]:
        rejects = PAIR_REJECTS / self.plan.n_nodes
        if self.dependent_rows and exact_to <= rejects:
            p, effect = self._corrected_interaction(index, exact_to)
            if p > exact_to:
                return p, effect  # the ends could only raise it
        p = self.screening_pair_p_value(index)
        if not self.dependent_rows or p > rejects:
            return p, 1.0
        corrected, effect = self._corrected_interaction(index, exact_to)
        p = max(p, corrected)
        source, child = self.plan.pair_of(index)
        given = self.plan.conditioning_set(self.plan.n_nodes + index)
        ends = self.end_statistics(index)
        p_ends = 1.0
        for statistics, other, v in ((ends[0], child, source), (ends[1], source, child)):
            if p <= exact_to and 2.0 * p_ends > p:
                p_end, _ = self._corrected_states(statistics, (*given, other), v, exact_to / 2.0)
                p_ends = min(p_ends, p_end)
        return max(p, min(1.0, 2.0 * p_ends)), effect

    def _corrected_interaction(self, index: int, exact_to: float) -> tuple[float, float]:
        """Return corrected p-value and design effect of an interaction with the groups."""
        if index not in self._dispersion:
            source, child = self.plan.pair_of(index)
            given = self.plan.conditioning_set(self.plan.n_nodes + index)
            groups = self.older, self.newer
            a, b = (self.plan.pair_table(index, group.counts) for group in groups)
            sums = self.older.sums, self.newer.sums
            self._dispersion[index] = pair_dispersion(sums, (*given, child, source), (a, b))
        value, dof = self.pair_statistics[:, index].tolist()

        def scattered(effect: float) -> float:
            return float(self._scattered_pairs(np.array([index]), np.array([effect]))[0])

        return self._dispersion[index].p_value((value, dof, 2.0 * dof), exact_to, scattered)


def chi_square_p(value: Floats | float, dof: Floats | float) -> Floats:
    from scipy.special import chdtrc  # noqa: PLC0415 - a fifth of a second to import

    return np.asarray(chdtrc(dof, np.maximum(value, 0.0)), np.float64)


def deviance_p_values(statistics: Floats) -> Floats:
    """Return p-values of rows of deviance, mean and variance, by the gamma with these moments."""
    p = np.empty(len(statistics))
    write_gamma_tails(statistics, p)
    return p
