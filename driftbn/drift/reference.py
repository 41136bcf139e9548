"""A regime: the windows that are the reference, their graph, and the tests that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace

import numpy as np

from driftbn.decision.settings import DecisionConfig
from driftbn.drift.comparison import Comparison, Group
from driftbn.drift.dispersion import BlockSums, CombinedSums, design_effects
from driftbn.drift.edits import Parents, parents_of
from driftbn.drift.plan import LevelMap, TestPlan, make_plan, with_cards
from driftbn.encoding.duplicates import find_duplicates
from driftbn.graphs.graph import Dag, Pdag
from driftbn.kernels.evidence import Floats
from driftbn.kernels.tables import Counts
from driftbn.learning import LearnedStructure, StructureLearner
from driftbn.learning.independence import ChiSquareTest, Codes

RELEARNED_AT = (2, 4, 8, 16, 32, 64)  # windows in the reference


@dataclass(frozen=True, eq=False)
class _Recent:
    codes: Codes
    counts: Counts
    in_reference: bool
    sums: BlockSums


@dataclass(frozen=True, eq=False)
class RegimeParts:
    """What a regime is made of, without what follows from it.

    Parameters
    ----------
    number
        Running number of the regime.
    learned, dag
        What was learned of the reference, and its DAG.
    levels
        Numbers of the codes.
    plan
        The tests.
    windows, recent
        Numbered codes of the reference, and of the newest windows.
    recent_in_reference
        For each of the newest windows whether it is in the reference.
    """

    number: int
    learned: LearnedStructure
    dag: Dag
    levels: LevelMap
    plan: TestPlan
    windows: tuple[Codes, ...]
    recent: tuple[Codes, ...]
    recent_in_reference: tuple[bool, ...]


class Regime:
    """The reference, growing up to its full size, and the newest windows.

    Parameters
    ----------
    number
        Running number of the regime in the stream.
    config
        How windows are judged.
    learner
        Learns the graph of the reference.
    window
        The first window.
    """

    def __init__(
        self, number: int, config: DecisionConfig, learner: StructureLearner, window: WindowEvidence
    ) -> None:
        self.number = number
        self.config = config
        self._learner = learner
        self._tail = _tail(config)
        self.levels = LevelMap(len(window.names))
        self.levels.learn(window.codes)
        self.learned = window.learned
        self.dag = window.learned.dag
        codes = self.levels.apply(window.codes)
        self.plan = make_plan(self.dag, self.levels.cards, codes.shape[1])
        self.windows: list[Codes] = [codes]
        counts = self.plan.count(window.test, codes, self.levels)
        self.pool = Group(self.plan, counts, self.windows)
        sums = BlockSums([codes], self.plan.tables.cards)
        self.recent: list[_Recent] = [_Recent(codes, counts, in_reference=True, sums=sums)]

    @classmethod
    def from_parts(
        cls, parts: RegimeParts, config: DecisionConfig, learner: StructureLearner
    ) -> Regime:
        """Return the regime that gave these parts."""
        regime = cls.__new__(cls)
        regime.number = parts.number
        regime.config = config
        regime._learner = learner
        regime._tail = _tail(config)
        regime.levels = parts.levels
        regime.learned = parts.learned
        regime.dag = parts.dag
        regime.plan = parts.plan
        regime.windows = list(parts.windows)
        regime.recent = [
            _Recent(codes, np.zeros(0, np.int32), held, BlockSums([codes], parts.plan.tables.cards))
            for codes, held in zip(parts.recent, parts.recent_in_reference, strict=True)
        ]
        regime._recount(parts.plan)
        return regime

    def branch(self) -> Regime:
        """Return a regime that goes on from here and leaves this one as it is."""
        branch = copy(self)  # rows and counts are shared: nobody writes to them
        branch.levels = LevelMap.from_array(self.levels.number)
        branch.windows = list(self.windows)
        branch.recent = list(self.recent)
        return branch

    def parts(self) -> RegimeParts:
        """Return what the regime is made of."""
        return RegimeParts(
            number=self.number,
            learned=self.learned,
            dag=self.dag,
            levels=self.levels,
            plan=self.plan,
            windows=tuple(self.windows),
            recent=tuple(recent.codes for recent in self.recent),
            recent_in_reference=tuple(recent.in_reference for recent in self.recent),
        )

    @property
    def parents(self) -> Parents:
        """The parents of each variable in the graph of the reference."""
        return parents_of(self.plan.names, self.dag.edges)

    @property
    def full(self) -> bool:
        """Whether the reference takes no more windows."""
        return len(self.windows) >= self.config.reference_windows

    @property
    def _rows_per_window(self) -> int:
        return self.pool.n_rows // len(self.windows)

    def read(self, window: WindowEvidence) -> Group:
        """Count a window by the tests of this regime."""
        if self.levels.learn_from(window.test):
            self._recount(with_cards(self.plan, self.levels.cards, self._rows_per_window))
        codes = self.levels.apply(window.codes)
        counts = self.plan.count(window.test, codes, self.levels)
        return Group(self.plan, counts, [codes], window.effects)

    def compare(self, group: Group) -> Comparison:
        """Compare one window with the whole reference."""
        return Comparison(self.pool, group, discount=self.config.dependent_rows)

    def compare_at(self, scale: int, group: Group) -> Comparison | None:
        """Compare the newest windows, ``group`` last, with the reference before them."""
        if scale == 1:
            return self.compare(group)
        newest = self.recent[-(scale - 1) :]
        held = sum(recent.in_reference for recent in newest)
        if len(newest) < scale - 1 or held >= len(self.windows):
            return None
        counts = group.counts.copy()
        for recent in newest:
            counts += recent.counts
        windows = [*(recent.codes for recent in newest), *group.windows]
        older = self._without([recent for recent in newest if recent.in_reference])
        sums = self._combined(windows, [*(recent.sums for recent in newest), group.sums])
        newer = Group(self.plan, counts, windows, group.effects, sums)
        return Comparison(older, newer, discount=self.config.dependent_rows)

    def _without(self, newest: list[_Recent]) -> Group:
        """Return the reference without its newest windows."""
        if not newest:
            return self.pool
        counts = self.pool.counts.copy()
        for recent in newest:
            counts -= recent.counts
        windows = self.windows[: -len(newest)]
        sums = self._combined(windows, [self.pool.sums], [recent.sums for recent in newest])
        return Group(self.plan, counts, windows, sums=sums)

    def _combined(
        self, windows: list[Codes], added: list[BlockSums], taken: Sequence[BlockSums] = ()
    ) -> BlockSums:
        return CombinedSums(windows, self.plan.tables.cards, added, taken)

    def join(self, group: Group) -> None:
        """Take a window in which nothing has changed: into the reference while it grows."""
        joins = not self.full
        self.recent.append(_Recent(group.windows[0], group.counts, joins, group.sums))
        del self.recent[: -self._tail]
        if not joins:
            return
        self.windows.append(group.windows[0])
        sums = BlockSums(self.windows, self.plan.tables.cards, self.pool.sums)
        self.pool = Group(self.plan, self.pool.counts + group.counts, self.windows, sums=sums)
        if len(self.windows) in RELEARNED_AT or self.full:
            self._relearn()

    def trim(self, n_windows: int) -> None:
        """Keep only the newest windows of the reference, as an archived regime does."""
        if len(self.windows) <= n_windows:
            return
        self.windows = self.windows[-n_windows:]
        self.recent = []
        self._recount(self.plan)

    def _relearn(self) -> None:
        """Learn the graph on all windows of the reference; few spurious edges, and more power."""
        pooled = np.concatenate(self.windows, axis=1)
        config = replace(
            self._learner.config, alpha=self.config.reference_alpha, deadline_seconds=None
        )
        learner = StructureLearner(config, self._learner.knowledge)
        found = learn_rows(
            learner, pooled, self.plan.names, dependent_rows=self.config.dependent_rows
        )
        if found.learned.overrun is not None:
            return
        self.learned = found.learned
        self.dag = found.learned.dag
        plan = make_plan(self.dag, self.levels.cards, self._rows_per_window)
        natural = LevelMap.natural(len(pooled))
        whole = Group(plan, plan.count(found.test, pooled, natural), self.windows)
        self._take(whole)

    def _recount(self, plan: TestPlan) -> None:
        """Count all rows again, by other tests."""
        counts = plan.count_rows(np.concatenate(self.windows, axis=1))
        self._take(Group(plan, counts, self.windows))

    def _take(self, whole: Group) -> None:
        self.plan = whole.plan
        self.pool = whole
        plan, cards = self.plan, self.plan.tables.cards
        self.recent = [
            replace(
                recent,
                counts=plan.count_rows(recent.codes),
                sums=BlockSums([recent.codes], cards),
            )
            for recent in self.recent
        ]


def _tail(config: DecisionConfig) -> int:
    """Return how many of the newest windows are kept: the last one always, to say what it shows."""
    return max(max(config.scales) - 1, 1)


# A window as it is judged: its rows packed, its graph learned, its dependence measured.


@dataclass(frozen=True, eq=False)
class WindowEvidence:
    """A window as it is judged.

    Parameters
    ----------
    codes
        Rows, ``[variables, rows]``, variables sorted by name.
    test
        The packed test on them.
    learned
        What was learned.
    effects
        Design effect of each variable.
    twins
        For each variable that says the same as an earlier one, that one.
    """

    codes: Codes
    test: ChiSquareTest
    learned: LearnedStructure
    effects: Floats
    twins: dict[int, int] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Variables, sorted."""
        return self.test.names


def learn_rows(
    learner: StructureLearner,
    codes: Codes,
    names: Sequence[str],
    previous: LearnedStructure | None = None,
    *,
    dependent_rows: bool = True,
) -> WindowEvidence:
    """Learn the graph of some rows, with dependence between neighbouring rows taken out.

    A variable that says the same as an earlier one has no part in the search: it hangs on that one
    by an edge without direction, and nothing else can be said of it.
    """
    config = learner.config
    test = ChiSquareTest(codes, names, config.alpha, config.statistic)
    effects = design_effects(test) if dependent_rows else np.ones(len(names))
    twins = find_duplicates(codes)
    if not twins:
        _discount(test, effects)
        return WindowEvidence(codes, test, learner.learn_from(test, previous), effects)
    single = [v for v in range(len(names)) if v not in twins]
    kept = [names[v] for v in single]
    of_single = ChiSquareTest(codes[single], kept, config.alpha, config.statistic)
    _discount(of_single, effects[single])
    learned = learner.learn_from(of_single, previous, [names[v] for v in twins])
    graph = Pdag(
        names,
        learned.graph.directed_edges,
        (
            *learned.graph.undirected_edges,
            *((names[first], names[copy]) for copy, first in twins.items()),
        ),
    )
    return WindowEvidence(codes, test, replace(learned, graph=graph), effects, twins)


def _discount(test: ChiSquareTest, effects: Floats) -> None:
    if np.any(effects > 1.0):
        test.discount(dict(zip(test.names, effects.tolist(), strict=True)))
