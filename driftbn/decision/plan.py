"""Which tests a regime makes: fixed by the reference before a window is seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from driftbn.decision.cells import trimmed
from driftbn.decision.levels import LevelMap
from driftbn.graphs.graph import Dag
from driftbn.kernels.evidence import Ints
from driftbn.kernels.tables import MASKS_MAX, Coded, Counts, Splits, Tables, count_tables
from driftbn.learning.independence import ChiSquareTest, Codes

NODE_CELLS_MAX = 8192
ROWS_PER_CONFIGURATION = 10  # in the table of a node
ROWS_PER_CELL = 5  # in the table of a pair


@dataclass(frozen=True, eq=False)
class TestPlan:
    """The tests of a regime.

    One table for each node, given its parents: does it still follow them as before? Then one for
    each source and child, given the child's other parents: do the two still go together as before?
    Every pair is tested both ways, unless that is the same test: the parents of one end may be too
    many for the rows.

    Parameters
    ----------
    names
        Variables, sorted.
    tables
        What to count; the tables of the nodes come first.
    """

    __test__ = False  # not a test case

    names: tuple[str, ...]
    tables: Tables

    @property
    def n_nodes(self) -> int:
        """Number of variables, and of tables of nodes."""
        return len(self.names)

    @property
    def n_ties(self) -> int:
        """Number of tests of a source and a child."""
        return len(self.tables.child) - self.n_nodes

    @property
    def n_cells(self) -> int:
        """Number of cells of all tables."""
        return int(self.tables.first[-1])

    def given(self, table: int) -> tuple[int, ...]:
        """Return the set of a table."""
        return tuple(self.tables.members[table, : self.tables.size[table]].tolist())

    def tie(self, index: int) -> tuple[int, int]:
        """Return source and child of a test."""
        t = self.n_nodes + index
        return int(self.tables.source[t]), int(self.tables.child[t])

    @cached_property
    def _ties_of_pair(self) -> dict[tuple[int, int], list[int]]:
        found: dict[tuple[int, int], list[int]] = {}
        sources = self.tables.source[self.n_nodes :].tolist()
        children = self.tables.child[self.n_nodes :].tolist()
        for index, (x, y) in enumerate(zip(sources, children, strict=True)):
            found.setdefault((min(x, y), max(x, y)), []).append(index)
        return found

    def ties_of(self, x: int, y: int) -> list[int]:
        """Return the tests of a pair."""
        return self._ties_of_pair[min(x, y), max(x, y)]

    def count(self, test: ChiSquareTest, codes: Codes, levels: LevelMap) -> Counts:
        """Count all tables of a window; ``codes`` are already numbered by ``levels``."""
        counts = np.empty(self.n_cells, np.int32)
        splits = Splits(
            masks=np.empty((MASKS_MAX, test.evidence.bits.shape[1]), np.uint64),
            total=np.zeros(MASKS_MAX, np.int64),
            row_code=np.empty(codes.shape[1], np.int32),
        )
        coded = Coded(codes, levels.places(test))
        count_tables(self.tables, coded, test.evidence, splits, counts)
        return counts

    def count_rows(self, codes: Codes) -> Counts:
        """Count all tables of rows whose codes are numbers already."""
        rows = np.ascontiguousarray(codes)
        return self.count(ChiSquareTest(rows, self.names), rows, LevelMap.natural(len(rows)))


def make_plan(dag: Dag, cards: Ints, n_rows: int) -> TestPlan:
    """Lay down the tests for windows of about ``n_rows`` rows."""
    place = {name: i for i, name in enumerate(dag.nodes)}
    parents: list[list[int]] = [[] for _ in dag.nodes]
    for parent, node in dag.edges:
        parents[place[node]].append(place[parent])
    n_nodes = len(dag.nodes)
    sets = [node_set(v, parents[v], cards, n_rows) for v in range(n_nodes)]
    ends = [(-1, v) for v in range(n_nodes)]
    for child in range(n_nodes):
        room = n_rows // (ROWS_PER_CELL * cards[child])
        cut = {card: trimmed(parents[child], cards, room // card) for card in set(cards.tolist())}
        for source in range(n_nodes):
            if source == child:
                continue
            given = cut[int(cards[source])]
            if source in parents[child]:
                others = [v for v in parents[child] if v != source]
                given = trimmed(others, cards, int(room // cards[source]))
            elif (source > child or child in parents[source]) and given == _other_way(
                source, child, parents, cards, n_rows
            ):
                continue
            sets.append(given)
            ends.append((source, child))
    return plan_of(dag.nodes, ends, sets, cards)


def plan_of(
    names: tuple[str, ...], ends: list[tuple[int, int]], sets: list[tuple[int, ...]], cards: Ints
) -> TestPlan:
    """Return the plan of given tables: source (-1 for a node's own table), child and set."""
    return TestPlan(names, _make_tables(ends, sets, cards))


def with_cards(plan: TestPlan, cards: Ints, n_rows: int) -> TestPlan:
    """Return the same tests over more levels.

    A set whose levels have become more than rows can fill, so that a pair has less than a row for
    each cell or a node less than a row for each configuration, is trimmed.
    """
    tables = plan.tables
    ends = list(zip(tables.source.tolist(), tables.child.tolist(), strict=True))
    sets = []
    for t, (source, child) in enumerate(ends):
        n_cells = 1 if source < 0 else int(cards[source] * cards[child])
        sets.append(trimmed(plan.given(t), cards, n_rows // n_cells))
    return plan_of(plan.names, ends, sets, cards)


def node_set(v: int, parents: Sequence[int], cards: Ints, n_rows: int) -> tuple[int, ...]:
    """Return the parents given which a node is compared: as many as the rows are enough for."""
    room = min(n_rows // ROWS_PER_CONFIGURATION, NODE_CELLS_MAX // int(cards[v]))
    return trimmed(parents, cards, room)


def _other_way(
    source: int, child: int, parents: list[list[int]], cards: Ints, n_rows: int
) -> tuple[int, ...]:
    room = n_rows // (ROWS_PER_CELL * int(cards[source]) * int(cards[child]))
    return trimmed([v for v in parents[source] if v != child], cards, room)


def _make_tables(ends: list[tuple[int, int]], sets: list[tuple[int, ...]], cards: Ints) -> Tables:
    width = max((len(members) for members in sets), default=0)
    members = np.zeros((len(sets), max(width, 1)), np.int16)
    size = np.array([len(given) for given in sets], np.int8)
    for m in range(width):
        longer = np.flatnonzero(size > m)
        members[longer, m] = [sets[t][m] for t in longer]
    source, child = np.array(ends, np.int16).reshape(-1, 2).T
    strata = np.ones(len(sets), np.int64)
    for m in range(width):
        strata *= np.where(size > m, cards[members[:, m]], 1)
    cells = strata * cards[child] * np.where(source >= 0, cards[source], 1)
    order = np.lexsort((np.arange(len(sets)), *members.T[::-1], size, child))
    return Tables(
        members=members,
        size=size,
        child=np.ascontiguousarray(child),
        source=np.ascontiguousarray(source),
        strata=strata.astype(np.int32),
        first=np.concatenate(([0], np.cumsum(cells))).astype(np.int64),
        cards=np.ascontiguousarray(cards, np.int64),
        order=order.astype(np.int64),
    )
