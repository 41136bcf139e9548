"""Which tables a regime counts: fixed by the reference before a window is seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from driftbn._kernels.evidence import Ints
from driftbn._kernels.tables import MASK_CELLS, Coded, Counts, Splits, Tables, count_tables
from driftbn.decision.levels import LevelMap
from driftbn.learning import LearnedStructure
from driftbn.learning.independence import ChiSquareTest, Codes

NODE_CELLS_MAX = 8192
ROWS_PER_CONFIGURATION = 10  # in the table of a node
ROWS_PER_CELL = 5  # in the table of a pair


@dataclass(frozen=True, eq=False)
class TestPlan:
    """The tests of a regime: one table for each node, then one for each pair.

    Parameters
    ----------
    names
        Variables, sorted.
    node_sets
        For each node the parents that it is compared given.
    pair_sets
        For each pair, in the order of ``pairs``, the set that it is compared given.
    cards
        Levels of each variable.
    """

    __test__ = False  # not a test case

    names: tuple[str, ...]
    node_sets: tuple[tuple[int, ...], ...]
    pair_sets: tuple[tuple[int, ...], ...]
    tables: Tables

    @property
    def n_nodes(self) -> int:
        """Number of variables, and of tables of nodes."""
        return len(self.names)

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        return len(self.pair_sets)

    @property
    def n_cells(self) -> int:
        """Number of cells of all tables."""
        return int(self.tables.first[-1])

    def pair(self, index: int) -> tuple[int, int]:
        """Return the variables of a pair, the smaller first."""
        t = self.n_nodes + index
        return int(self.tables.x[t]), int(self.tables.y[t])

    def count(self, test: ChiSquareTest, codes: Codes, levels: LevelMap) -> Counts:
        """Count all tables of a window; ``codes`` are already numbered by ``levels``."""
        counts = np.empty(self.n_cells, np.int32)
        n_words = test.evidence.bits.shape[1]
        splits = Splits(
            masks=np.empty((MASK_CELLS, n_words), np.uint64),
            total=np.zeros(MASK_CELLS, np.int64),
            scratch=np.empty(n_words, np.uint64),
            row_code=np.empty(codes.shape[1], np.int32),
        )
        coded = Coded(codes, levels.places(test))
        count_tables(self.tables, coded, test.evidence, splits, counts)
        return counts


def make_plan(learned: LearnedStructure, cards: Ints, n_rows: int) -> TestPlan:
    """Lay down the tests for windows of about ``n_rows`` rows."""
    names = learned.graph.nodes
    place = {name: i for i, name in enumerate(names)}
    parents: list[list[int]] = [[] for _ in names]
    for source, target in learned.dag.edges:
        parents[place[target]].append(place[source])
    node_sets = tuple(_node_set(v, sorted(parents[v]), cards, n_rows) for v in range(len(names)))
    pairs = [(x, y) for y in range(len(names)) for x in range(y)]
    pair_sets = tuple(
        _trimmed(
            _pair_set(x, y, parents, learned, names, place),
            cards,
            int(n_rows // (ROWS_PER_CELL * cards[x] * cards[y])),
        )
        for x, y in pairs
    )
    ends = [(v, -1) for v in range(len(names))] + pairs
    tables = _make_tables(ends, [*node_sets, *pair_sets], cards)
    return TestPlan(names, node_sets, pair_sets, tables)


def with_cards(plan: TestPlan, cards: Ints) -> TestPlan:
    """Return the same tests over more levels."""
    ends = list(zip(plan.tables.x.tolist(), plan.tables.y.tolist(), strict=True))
    tables = _make_tables(ends, [*plan.node_sets, *plan.pair_sets], cards)
    return TestPlan(plan.names, plan.node_sets, plan.pair_sets, tables)


def _node_set(v: int, parents: list[int], cards: Ints, n_rows: int) -> tuple[int, ...]:
    room = min(n_rows // ROWS_PER_CONFIGURATION, NODE_CELLS_MAX // int(cards[v]))
    return _trimmed(tuple(parents), cards, room)


def _pair_set(
    x: int,
    y: int,
    parents: list[list[int]],
    learned: LearnedStructure,
    names: tuple[str, ...],
    place: dict[str, int],
) -> tuple[int, ...]:
    for source, child in ((x, y), (y, x)):
        if source in parents[child]:
            return tuple(v for v in parents[child] if v != source)
    return tuple(place[name] for name in learned.separators.get((names[x], names[y]), ()))


def _trimmed(members: tuple[int, ...], cards: Ints, room: int) -> tuple[int, ...]:
    """Leave out the member with the most levels until there are at most ``room`` configurations."""
    kept = sorted(members)
    while kept and int(np.prod(cards[kept])) > room:
        kept.remove(max(kept, key=lambda v: (int(cards[v]), v)))
    return tuple(kept)


def _make_tables(
    ends: list[tuple[int, int]], sets: list[tuple[int, ...]], cards: Ints
) -> Tables:
    width = max((len(members) for members in sets), default=0)
    listed = np.zeros((len(sets), max(width, 1)), np.int16)
    for t, members in enumerate(sets):
        listed[t, : len(members)] = members
    size = np.array([len(members) for members in sets], np.int8)
    x, y = np.array(ends, np.int16).reshape(-1, 2).T
    cells = cards[x] * np.where(y >= 0, cards[y], 1)
    for m in range(width):
        cells = cells * np.where(size > m, cards[listed[:, m]], 1)
    order = np.lexsort((np.arange(len(sets)), *listed.T[::-1], size))
    return Tables(
        members=listed,
        size=size,
        x=np.ascontiguousarray(x),
        y=np.ascontiguousarray(y),
        first=np.concatenate(([0], np.cumsum(cells))).astype(np.int64),
        cards=np.ascontiguousarray(cards, np.int64),
        order=order.astype(np.int64),
    )
