"""A regime: the windows that are the reference, their graph, and the tests that follow from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from driftbn.config import DecisionConfig
from driftbn.drift.comparison import Comparison, PooledWindows
from driftbn.drift.dispersion import BlockSums, CombinedSums
from driftbn.drift.plan import LevelMap, TestPlan, make_plan, plan_of, with_cards
from driftbn.graphs.graph import Edge
from driftbn.kernels.tables import Counts
from driftbn.learning import LearnedWindow, StructureLearner
from driftbn.learning.independence import Codes
from driftbn.snapshot import dag_values, learned_values, read_dag, read_learned

RELEARNED_AT = (2, 4, 8, 16, 32, 64)  # windows in the reference
REFERENCE_ALPHA = 0.001  # of the independence tests on all windows of the reference

Parents = dict[int, frozenset[int]]


def parents_of(nodes: Sequence[str], edges: Iterable[Edge]) -> Parents:
    """Return the parents of each node, all by their place in ``nodes``."""
    place = {name: i for i, name in enumerate(nodes)}
    found: Parents = {v: frozenset() for v in range(len(nodes))}
    for source, target in edges:
        found[place[target]] |= {place[source]}
    return found


@dataclass(frozen=True, eq=False)
class _Recent:
    codes: Codes
    counts: Counts
    in_reference: bool
    sums: BlockSums


class Regime:
    """The reference, growing up to its full size, and the newest windows.

    ``number``: running number of the regime in the stream.
    """

    def __init__(
        self, number: int, config: DecisionConfig, learner: StructureLearner, window: LearnedWindow
    ) -> None:
        self.number = number
        self.config = config
        self._learner = learner
        self.levels = LevelMap(len(window.names))
        self.levels.learn(window.codes)
        self.learned = window.learned
        self.dag = window.learned.dag
        codes = self.levels.apply(window.codes)
        self.plan = make_plan(self.dag, self.levels.cards, codes.shape[1])
        self.windows: list[Codes] = [codes]
        counts = self.plan.count(window.table, codes, self.levels)
        self.pool = PooledWindows(self.plan, counts, self.windows)
        sums = BlockSums([codes], self.plan.tables.cards)
        self.recent: list[_Recent] = [_Recent(codes, counts, in_reference=True, sums=sums)]

    def branch(self) -> Regime:
        branch = copy(self)  # rows and counts are shared: nobody writes to them
        branch.levels = LevelMap.from_array(self.levels.number)
        branch.windows = list(self.windows)
        branch.recent = list(self.recent)
        return branch

    @property
    def parents(self) -> Parents:
        return parents_of(self.plan.names, self.dag.edges)

    @property
    def full(self) -> bool:
        return len(self.windows) >= self.config.reference_windows

    @property
    def _rows_per_window(self) -> int:
        return self.pool.n_rows // len(self.windows)

    def counted(self, window: LearnedWindow) -> PooledWindows:
        """Return a window counted by the tests of this regime."""
        if self.levels.learn_packed(window.table):
            self._recount(with_cards(self.plan, self.levels.cards, self._rows_per_window))
        codes = self.levels.apply(window.codes)
        counts = self.plan.count(window.table, codes, self.levels)
        return PooledWindows(self.plan, counts, [codes], window.effects)

    def compare(self, window: PooledWindows) -> Comparison:
        return Comparison(self.pool, window, dependent_rows=self.config.dependent_rows)

    def compare_at(self, scale: int, window: PooledWindows) -> Comparison | None:
        """Compare the newest windows, ``window`` last, with the reference before them."""
        if scale == 1:
            return self.compare(window)
        newest = self.recent[-(scale - 1) :]
        held = [recent for recent in newest if recent.in_reference]
        if len(newest) < scale - 1 or len(held) >= len(self.windows):
            return None
        counts = window.counts.copy()
        for recent in newest:
            counts += recent.counts
        windows = [*(recent.codes for recent in newest), *window.windows]
        sums = self._combined(windows, [*(recent.sums for recent in newest), window.sums])
        newer = PooledWindows(self.plan, counts, windows, window.effects, sums)
        return Comparison(self._without(held), newer, dependent_rows=self.config.dependent_rows)

    def _without(self, newest: list[_Recent]) -> PooledWindows:
        if not newest:
            return self.pool
        counts = self.pool.counts.copy()
        for recent in newest:
            counts -= recent.counts
        windows = self.windows[: -len(newest)]
        sums = self._combined(windows, [self.pool.sums], [recent.sums for recent in newest])
        return PooledWindows(self.plan, counts, windows, sums=sums)

    def _combined(
        self, windows: list[Codes], added: list[BlockSums], subtracted: Sequence[BlockSums] = ()
    ) -> BlockSums:
        return CombinedSums(windows, self.plan.tables.cards, added, subtracted)

    def absorb(self, window: PooledWindows) -> None:
        """Take in a window in which nothing has changed: into the reference while it grows."""
        grows = not self.full
        self.recent.append(_Recent(window.windows[0], window.counts, grows, window.sums))
        # The last one is always kept, to say what one window shows.
        del self.recent[: -max(max(self.config.scales) - 1, 1)]
        if not grows:
            return
        self.windows.append(window.windows[0])
        sums = BlockSums(self.windows, self.plan.tables.cards, self.pool.sums)
        counts = self.pool.counts + window.counts
        self.pool = PooledWindows(self.plan, counts, self.windows, sums=sums)
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
        config = replace(self._learner.config, alpha=REFERENCE_ALPHA, deadline_seconds=None)
        found = self._learner.with_config(config).learn_window(
            pooled, self.plan.names, dependent_rows=self.config.dependent_rows
        )
        if found.learned.overrun is not None:
            return
        self.learned = found.learned
        self.dag = found.learned.dag
        plan = make_plan(self.dag, self.levels.cards, self._rows_per_window)
        counts = plan.count(found.table, pooled, LevelMap.identity(len(pooled)))
        self._adopt(plan, counts)

    def _recount(self, plan: TestPlan) -> None:
        """Count all rows again, by other tests."""
        self._adopt(plan, plan.count_rows(np.concatenate(self.windows, axis=1)))

    def _adopt(self, plan: TestPlan, counts: Counts) -> None:
        """Go over to other tests, by which the whole reference has these counts."""
        self.plan = plan
        self.pool = PooledWindows(plan, counts, self.windows)
        self.recent = [
            replace(
                recent,
                counts=plan.count_rows(recent.codes),
                sums=BlockSums([recent.codes], plan.tables.cards),
            )
            for recent in self.recent
        ]

    def state(self) -> dict[str, Any]:
        """Return the regime as plain values and arrays; counts are left out, as rows give them."""
        tables = self.plan.tables
        return {
            "number": self.number,
            "learned": learned_values(self.learned),
            "dag": dag_values(self.dag),
            "levels": self.levels.number,
            "cards": tables.cards,
            "members": tables.members,
            "sizes": tables.size,
            "children": tables.child,
            "sources": tables.source,
            "windows": list(self.windows),
            "recent": [recent.codes for recent in self.recent],
            "recent_in_reference": [recent.in_reference for recent in self.recent],
        }

    @classmethod
    def from_state(
        cls, values: Mapping[str, Any], config: DecisionConfig, learner: StructureLearner
    ) -> Regime:
        regime = cls.__new__(cls)
        regime.number = values["number"]
        regime.config = config
        regime._learner = learner
        regime.levels = LevelMap.from_array(values["levels"])
        regime.learned = read_learned(values["learned"])
        regime.dag = read_dag(values["dag"])
        plan = _read_plan(regime.learned.graph.nodes, values)
        regime.windows = [np.ascontiguousarray(codes) for codes in values["windows"]]
        uncounted, no_sums = np.zeros(0, np.int32), BlockSums([], plan.tables.cards)
        regime.recent = [
            _Recent(np.ascontiguousarray(codes), uncounted, held, no_sums)
            for codes, held in zip(values["recent"], values["recent_in_reference"], strict=True)
        ]
        regime._recount(plan)  # which counts and sums the newest windows too
        return regime


def _read_plan(names: tuple[str, ...], values: Mapping[str, Any]) -> TestPlan:
    members, sizes = values["members"].tolist(), values["sizes"].tolist()
    sets = [tuple(row[:size]) for row, size in zip(members, sizes, strict=True)]
    ends = list(zip(values["sources"].tolist(), values["children"].tolist(), strict=True))
    return plan_of(names, ends, sets, values["cards"])
