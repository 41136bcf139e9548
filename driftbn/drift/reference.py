"""A regime: the windows that are the reference, their graph, and the tests that follow from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np

from driftbn.config import DecisionConfig, WarmStart
from driftbn.drift.comparison import Comparison, Part, PooledWindows, bursts
from driftbn.drift.dispersion import TOO_LARGE_EFFECT, BlockSums, CombinedSums
from driftbn.drift.plan import LevelMap, TestPlan, make_plan, member_sets, plan_of, with_cards
from driftbn.drift.scatter import Carried, LaterWindows, Scatter, Spread
from driftbn.graphs.graph import Edge
from driftbn.kernels.evidence import Floats
from driftbn.kernels.tables import Counts
from driftbn.learning import LearnedStructure, LearnedWindow, StructureLearner
from driftbn.learning.independence import Codes, PackedTable
from driftbn.snapshot import dag_values, learned_values, read_dag, read_learned
from driftbn.tables.infer import Bins

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


def _added(windows: Sequence[PooledWindows]) -> Counts:
    total = windows[0].counts.copy()
    for window in windows[1:]:
        total += window.counts
    return total


class _Recent(NamedTuple):
    window: PooledWindows
    in_reference: bool


class Regime:
    """The reference, growing up to its full size, and the newest windows.

    ``number``: running number of the regime in the stream. ``carried``: what earlier regimes knew
    of scatter.
    """

    def __init__(
        self,
        number: int,
        config: DecisionConfig,
        learner: StructureLearner,
        window: LearnedWindow,
        carried: Carried | None = None,
    ) -> None:
        self.number = number
        self.config = config
        self._learner = learner
        self.bins = window.bins
        self.levels = LevelMap(len(window.names))
        self.levels.learn(window.codes)
        self.learned = window.learned
        self.dag = window.learned.dag
        self.effects = window.effects  # of each field, the mean of the windows taken in
        codes = self.levels.apply(window.codes)
        self.plan = make_plan(self.dag, self.levels.cards, codes.shape[1])
        counts = self.plan.count(window.table, codes, self.levels)
        first = PooledWindows(self.plan, counts, [codes], cells=window.cells)
        self._set_reference([first])
        self.recent: list[_Recent] = [_Recent(first, in_reference=True)]
        self.carried = carried
        self.later: LaterWindows | None = None
        self.waiting = False  # whether the newest window is not yet in the reference, and will be
        self.relearned: LearnedStructure | None = None  # with the newest window, if it was time

    def _set_reference(self, windows: Sequence[PooledWindows]) -> None:
        self._set_pool(_added(windows), [window.part for window in windows])

    def _set_pool(
        self, counts: Counts, parts: Sequence[Part], earlier: BlockSums | None = None
    ) -> None:
        rows = [part.rows for part in parts]
        sums = BlockSums(rows, self.plan.tables.cards, earlier)
        self.pool = PooledWindows(self.plan, counts, rows, sums=sums, parts=parts)
        self._scatter: dict[int, Scatter] = {}
        # Of earlier regimes, for these tests: how far windows lay apart, and regimes.
        self._before: tuple[Spread, Scatter | None] | None = None
        self._compared: Comparison | None = None

    def branch(self) -> Regime:
        branch = copy(self)  # rows and counts are shared: nobody writes to them
        branch.levels = LevelMap.from_array(self.levels.number)
        branch.recent = list(self.recent)
        branch._scatter = dict(self._scatter)
        branch.relearned = None
        return branch

    @property
    def windows(self) -> tuple[Codes, ...]:
        """The rows of the reference, a window each."""
        return self.pool.windows

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
        rows, table, by_rows = window.codes, window.table, False
        if window.bins != self.bins:
            rows, by_rows = self.bins.apply(window.cells), not self.plan.n_pair_tests
            if not by_rows:  # to count nodes alone takes less time than packing
                table = PackedTable(rows, window.names)
        if self.levels.learn(rows) if by_rows else self.levels.learn_packed(table):
            self._make_room()
        codes = self.levels.apply(rows)
        counts = self.plan.count(table, codes, None if by_rows else self.levels)
        return PooledWindows(self.plan, counts, [codes], window.effects, cells=window.cells)

    def compare(self, window: PooledWindows) -> Comparison:
        if self._compared is None or self._compared.newer is not window:
            self._compared = self._comparison(self.pool, window)
        return self._compared

    def compare_at(self, scale: int, window: PooledWindows) -> Comparison | None:
        """Compare the newest windows, ``window`` last, with the reference before them."""
        if scale == 1:
            return self.compare(window)
        newest = self.recent[-(scale - 1) :]
        held = [recent.window for recent in newest if recent.in_reference]
        if len(newest) < scale - 1 or len(held) >= len(self.windows):
            return None
        taken = [*(recent.window for recent in newest), window]
        windows = [one.windows[0] for one in taken]
        sums = self._combined(windows, [one.sums for one in taken])
        newer = PooledWindows(self.plan, _added(taken), windows, window.effects, sums)
        return self._comparison(self._without(held), newer)

    def _comparison(self, older: PooledWindows, newer: PooledWindows) -> Comparison:
        return Comparison(
            older,
            newer,
            dependent_rows=self.config.dependent_rows,
            scatter=self.scatter(older),
            declared=self.config.given,
        )

    def _without(self, newest: Sequence[PooledWindows]) -> PooledWindows:
        if not newest:
            return self.pool
        kept = self.pool.parts[: -len(newest)]
        rows = [part.rows for part in kept]
        sums = self._combined(rows, [self.pool.sums], [one.sums for one in newest])
        counts = self.pool.counts - _added(newest)
        return PooledWindows(self.plan, counts, rows, sums=sums, parts=kept)

    def _combined(
        self, windows: list[Codes], added: list[BlockSums], subtracted: Sequence[BlockSums] = ()
    ) -> BlockSums:
        return CombinedSums(windows, self.plan.tables.cards, added, subtracted)

    def scatter(self, older: PooledWindows) -> Scatter:
        """Return how far tests against some windows of the reference are off without a change."""
        n_windows = len(older.windows)
        if n_windows not in self._scatter:
            spread, jumps = self._spread(older), None
            if self.carried is not None:
                before, jumps = self._known_before(self.carried)
                spread = spread.plus(before)
            weights = None if self.later is None else self.later.weights
            known = np.where(self.effects > TOO_LARGE_EFFECT, 1.0, self.effects)
            effects = 1.0 + bursts(self.plan, known)
            self._scatter[n_windows] = Scatter(self.plan.n_nodes, spread, effects, jumps, weights)
        return self._scatter[n_windows]

    def _known_before(self, carried: Carried) -> tuple[Spread, Scatter | None]:
        if self._before is None:
            carried, jumps = carried.onto(self.plan), None
            if len(carried.jumps) > 1:
                dof = self._spread(self.pool).plus(carried.spread).dof
                jumps = Scatter(self.plan.n_nodes, carried.jumped._replace(dof=dof))
            self._before = carried.spread, jumps
        return self._before

    def _spread(self, older: PooledWindows) -> Spread:
        return older.spread if self.later is None else older.spread.plus(self.later.spread)

    def hand_on(self, jump: Floats | None = None) -> Carried:
        """Return what is known of scatter, and how far each test jumped when it was left."""
        return self._carried_with(self._spread(self.pool), () if jump is None else (jump,))

    def _carried_with(self, spread: Spread, jumps: tuple[Floats, ...] = ()) -> Carried:
        if self.carried is None:
            return Carried.of(self.plan, spread, jumps)
        carried = self.carried.onto(self.plan)
        return Carried.of(self.plan, spread.plus(carried.spread), (*carried.jumps, *jumps))

    def take_over(self, carried: Carried) -> None:
        """Learn of the jumps since the regime was left; what else was carried came from here."""
        own = Carried.of(self.plan, Spread(*np.zeros((3, len(self.plan.tables.child)))))
        own = own if self.carried is None else self.carried.onto(self.plan)
        self.carried = replace(own, jumps=carried.onto(self.plan).jumps)
        self._scatter, self._before, self._compared = {}, None, None

    def absorb(self, window: PooledWindows, *, suspicious: bool = False) -> None:
        """Take in a window in which nothing has changed: into the reference while it grows.

        One that is ``suspicious`` waits until the next is stable too: a change that begins inside
        it must not make itself usual.
        """
        effects = window.effects
        if self.waiting:
            self.waiting = False
            self.recent[-1] = self.recent[-1]._replace(in_reference=True)
            self._grow(self.recent[-1].window)
            if window.plan is not self.plan:
                if self.levels.learn(self.bins.apply(window.cells)):
                    self._make_room()
                window = self._counted(window.cells)
        grows = not self.full
        self.waiting = grows and suspicious
        if grows:
            self.effects = self.effects + (effects - self.effects) / (len(self.windows) + 1)
            self._scatter = {}
        self.recent.append(_Recent(window, grows and not suspicious))
        # The last one is always kept, to say what one window shows.
        del self.recent[: -max(max(self.config.scales) - 1, 1)]
        if not grows:
            self._learn_scatter(window)
        elif not suspicious:
            self._grow(window)

    def _grow(self, window: PooledWindows) -> None:
        pool = self.pool
        self._set_pool(pool.counts + window.counts, [*pool.parts, window.part], pool.sums)
        if len(self.windows) in RELEARNED_AT or self.full:
            self._relearn()

    def _learn_scatter(self, window: PooledWindows) -> None:
        excess = self.compare(window).excess
        before = self.later or LaterWindows(np.zeros(len(excess)))
        self.later = before.with_window(excess, max(self.config.scales) - 1)
        if self.later.n_taken > before.n_taken:
            self._scatter = {}
            if self.later.refit_due:
                known = self.scatter(self.pool)
                fitted = Scatter(self.plan.n_nodes, known.spread, known.effects)
                self.later = replace(self.later, weights=fitted.weights)
                self._scatter = {}

    def trim(self, n_windows: int) -> None:
        """Keep only the newest windows of the reference, as an archived regime does."""
        if len(self.windows) <= n_windows:
            return
        self.recent, self.waiting = [], False
        self._set_reference([self._counted(part.cells) for part in self.pool.parts[-n_windows:]])

    def baseline(self, n_windows: int) -> Regime:
        """Return the newest windows with the tests of nodes alone, which say how far others are."""
        kept = self.branch()
        kept.trim(n_windows)
        kept.recent, kept.carried, kept.later = [], None, None
        nodes = np.arange(self.plan.n_nodes)
        sets = [self.plan.conditioning_set(v) for v in nodes.tolist()]
        none = np.full(len(nodes), -1)
        kept._recount(plan_of(self.plan.names, none, nodes, sets, self.levels.cards))
        return kept

    def _relearn(self) -> None:
        """Learn the graph on all windows of the reference; few spurious edges, and more power.

        The tallies of the graph before order the search. What separated pairs is not recalled: most
        rows are the same as then, and a set that once separated by chance would do so again.
        """
        cells = np.concatenate([part.cells for part in self.pool.parts], axis=1)
        bins = self.bins.renewed(cells)
        # Not repaired: a score takes a rare effect for a parent, and its root for a mechanism.
        config = replace(self._learner.config, alpha=REFERENCE_ALPHA, repair=False)
        if config.warm is WarmStart.TALLIES_AND_SEPARATORS:
            config = replace(config, warm=WarmStart.TALLIES)
        found = self._learner.with_config(config).learn_window(
            cells,
            self.plan.names,
            self.learned,
            bins=bins,
            dependent_rows=self.config.dependent_rows,
        )
        self.relearned = found.learned
        if found.learned.overrun is not None:
            return
        if bins is not self.bins:
            self.bins, self.levels = bins, LevelMap(len(cells))
            for rows in (found.codes, *(bins.apply(one.window.cells) for one in self.recent)):
                self.levels.learn(rows)
        self.learned = found.learned
        self.dag = found.learned.dag
        if self.later is not None:  # by the names of fields it outlasts these tests
            later = self.later.spread._replace(dof=self.pool.spread.dof)
            self.carried, self.later = self._carried_with(later), None
        self._recount(make_plan(self.dag, self.levels.cards, self._rows_per_window))

    def _make_room(self) -> None:
        """Widen the tables of the same tests, as there are new levels."""
        self._recount(with_cards(self.plan, self.levels.cards, self._rows_per_window))

    def _recount(self, plan: TestPlan) -> None:
        """Go over to other tests, by which all windows are counted again."""
        self.plan = plan
        held = [part.cells for part in self.pool.parts]
        newest = [recent.window.cells for recent in self.recent]
        rows = {id(cells): cells for cells in (*held, *newest)}
        counted = {key: self._counted(cells) for key, cells in rows.items()}
        self._set_reference([counted[id(cells)] for cells in held])
        self.recent = [
            recent._replace(window=counted[id(cells)])
            for recent, cells in zip(self.recent, newest, strict=True)
        ]

    def _counted(self, cells: Codes) -> PooledWindows:
        rows = np.ascontiguousarray(self.levels.apply(self.bins.apply(cells)))
        return PooledWindows(self.plan, self.plan.count_rows(rows), [rows], cells=cells)

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
            "bins": asdict(self.bins),
            "effects": self.effects,
            "windows": [part.cells for part in self.pool.parts],
            "recent": [recent.window.cells for recent in self.recent],
            "recent_in_reference": [recent.in_reference for recent in self.recent],
            "carried": None if self.carried is None else self.carried.state(),
            "waiting": self.waiting,
            "later": None if self.later is None else self.later.state(),
        }

    @classmethod
    def from_state(
        cls, values: Mapping[str, Any], config: DecisionConfig, learner: StructureLearner
    ) -> Regime:
        regime = cls.__new__(cls)
        regime.number = values["number"]
        regime.config = config
        regime._learner = learner
        regime.bins = Bins.from_state(values["bins"])
        regime.levels = LevelMap.from_array(values["levels"])
        regime.learned = read_learned(values["learned"])
        regime.dag = read_dag(values["dag"])
        plan = _read_plan(regime.learned.graph.nodes, values)
        held, recent = values["windows"], values["recent"]
        in_reference = values["recent_in_reference"]
        regime.plan = plan
        regime.effects = values.get("effects", np.ones(plan.n_nodes))
        counted = [regime._counted(codes) for codes in held]
        regime._set_reference(counted)
        # The newest windows that are in the reference are its last.
        last = counted[len(held) - sum(in_reference) :]
        regime.recent = [
            _Recent(last.pop(0) if is_held else regime._counted(codes), is_held)
            for codes, is_held in zip(recent, in_reference, strict=True)
        ]
        regime.waiting = values["waiting"]
        regime.relearned = None
        regime.carried = values["carried"] and Carried.from_state(values["carried"])
        regime.later = values["later"] and LaterWindows.from_state(values["later"])
        return regime


def _read_plan(names: tuple[str, ...], values: Mapping[str, Any]) -> TestPlan:
    sets = list(member_sets(values["members"], values["sizes"]))
    return plan_of(names, values["sources"], values["children"], sets, values["cards"])
