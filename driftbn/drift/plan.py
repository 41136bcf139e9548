"""Which tests a regime makes: fixed by the reference before a window is seen (METHOD.md, 1)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from driftbn.graphs.graph import Dag
from driftbn.kernels.evidence import Ints
from driftbn.kernels.tables import MASKS_MAX, Coded, Counts, Splits, Tables, count_tables
from driftbn.learning.independence import Codes, PackedTable

NODE_CELLS_MAX = 8192
ROWS_PER_CONFIGURATION = 10  # in the table of a node
ROWS_PER_CELL = 5  # in the table of a pair

_UNSEEN = 255  # a schema has at most 252 codes
_NO_LEVELS = np.zeros((0, 0), np.int32)
_CONFIGURATIONS_MAX = 2**62  # so that no number of a configuration overflows


@dataclass(frozen=True, eq=False)
class TestPlan:
    """The tests of a regime.

    One table for each node given its parents: does it still follow them as before? Then one for
    each source and child given the child's other parents: are the two still associated as before?
    Every pair is tested in both directions, unless that is the same test: the parents of one end
    may be too many for the rows.

    ``tables``: what to count; the tables of the nodes come first.
    """

    __test__ = False  # not a test case

    names: tuple[str, ...]
    tables: Tables

    @property
    def n_nodes(self) -> int:
        return len(self.names)

    @property
    def n_pair_tests(self) -> int:
        return len(self.tables.child) - self.n_nodes

    @property
    def n_cells(self) -> int:
        return int(self.tables.first[-1])

    @property
    def n_node_cells(self) -> int:
        return int(self.tables.first[self.n_nodes])

    def conditioning_set(self, table: int) -> tuple[int, ...]:
        return tuple(self.tables.members[table, : self.tables.size[table]].tolist())

    def pair_of(self, index: int) -> tuple[int, int]:
        t = self.n_nodes + index
        return int(self.tables.source[t]), int(self.tables.child[t])

    def pair_table(self, index: int, counts: Counts) -> Counts:
        """Return the counts of a pair test, ``[strata, child, source]``."""
        tables, t = self.tables, self.n_nodes + index
        cells = counts[int(tables.first[t]) : int(tables.first[t + 1])]
        source, child = self.pair_of(index)
        return cells.reshape(-1, int(tables.cards[child]), int(tables.cards[source]))

    @cached_property
    def _tests_by_pair(self) -> dict[tuple[int, int], list[int]]:
        found: dict[tuple[int, int], list[int]] = {}
        sources = self.tables.source[self.n_nodes :].tolist()
        children = self.tables.child[self.n_nodes :].tolist()
        for index, (x, y) in enumerate(zip(sources, children, strict=True)):
            found.setdefault((min(x, y), max(x, y)), []).append(index)
        return found

    def tests_of_pair(self, x: int, y: int) -> list[int]:
        return self._tests_by_pair[min(x, y), max(x, y)]

    def count(self, table: PackedTable, codes: Codes, levels: LevelMap | None) -> Counts:
        """Count all tables of a window; ``codes`` are already numbered by ``levels``.

        Without ``levels`` tables of nodes are counted row by row, and the packed table, which may
        be of other codes, is not read.
        """
        counts = np.empty(self.n_cells, np.int32)
        n_masks = 0 if levels is None else MASKS_MAX
        splits = Splits(
            masks=np.empty((n_masks, table.evidence.bits.shape[1]), np.uint64),
            total=np.zeros(MASKS_MAX, np.int64),
            row_code=np.empty(codes.shape[1], np.int32),
        )
        coded = Coded(codes, _NO_LEVELS if levels is None else levels.places(table))
        count_tables(self.tables, coded, table.evidence, splits, counts)
        return counts

    def count_rows(self, codes: Codes) -> Counts:
        """Count all tables of rows whose codes are numbered already."""
        rows = np.ascontiguousarray(codes)
        return self.count(PackedTable(rows, self.names), rows, LevelMap.identity(len(rows)))


def make_plan(dag: Dag, cards: Ints, n_rows: int) -> TestPlan:
    """Lay down the tests for windows of about ``n_rows`` rows."""
    place = {name: i for i, name in enumerate(dag.nodes)}
    parents: list[list[int]] = [[] for _ in dag.nodes]
    for parent, node in dag.edges:
        parents[place[node]].append(place[parent])
    nodes = range(len(dag.nodes))
    sets = [node_conditioning_set(v, parents[v], cards, n_rows) for v in nodes]
    given = [_pair_conditioning_sets(v, parents[v], cards, n_rows) for v in nodes]
    source, child = _pair_ends(parents, given)
    sets += [given[y][x] for x, y in zip(source.tolist(), child.tolist(), strict=True)]
    source = np.append(np.full(len(nodes), -1), source)
    child = np.append(np.arange(len(nodes)), child)
    return plan_of(dag.nodes, source, child, sets, cards)


def _pair_ends(parents: list[list[int]], given: list[list[tuple[int, ...]]]) -> tuple[Ints, Ints]:
    """Return source and child of each pair test; ``given``: the sets, by child and source."""
    number = {members: i for i, members in enumerate(dict.fromkeys(chain(*given)))}
    shape = len(parents), len(parents)
    same = np.array([number[members] for row in given for members in row]).reshape(shape)
    is_edge = np.zeros(shape, np.bool_)
    for child, its_parents in enumerate(parents):
        is_edge[child, its_parents] = True
    is_second = ~is_edge & (np.triu(np.ones(shape, np.bool_)) | is_edge.T)
    children, sources = np.nonzero(~(is_second & (same == same.T)))
    return sources, children


def node_conditioning_set(
    v: int, parents: Sequence[int], cards: Ints, n_rows: int
) -> tuple[int, ...]:
    """Return the parents given which a node is compared: as many as the rows are enough for."""
    room = min(n_rows // ROWS_PER_CONFIGURATION, NODE_CELLS_MAX // int(cards[v]))
    return trimmed(parents, cards, room)


def _pair_conditioning_sets(
    child: int, parents: list[int], cards: Ints, n_rows: int
) -> list[tuple[int, ...]]:
    """Return for each source the other parents of the child given which the pair is compared."""
    room = n_rows // (ROWS_PER_CELL * int(cards[child]))
    every = cards.tolist()
    usual = {card: trimmed(parents, cards, room // card) for card in set(every)}
    found = [usual[card] for card in every]
    for source in parents:
        others = [v for v in parents if v != source]
        found[source] = trimmed(others, cards, room // every[source])
    return found


def with_cards(plan: TestPlan, cards: Ints, n_rows: int) -> TestPlan:
    """Return the same tests over more levels.

    A conditioning set is trimmed if its configurations have become too many for the rows: less than
    one row a cell of a pair, or less than one row a configuration of a node.
    """
    tables = plan.tables
    trim = cache(lambda members, room: trimmed(members, cards, room))
    n_cells = np.where(tables.source < 0, 1, cards[tables.source] * cards[tables.child])
    sets = map(trim, member_sets(tables.members, tables.size), (n_rows // n_cells).tolist())
    return plan_of(plan.names, tables.source, tables.child, list(sets), cards)


def member_sets(
    members: npt.NDArray[np.int16], size: npt.NDArray[np.int8]
) -> Iterator[tuple[int, ...]]:
    """Yield the conditioning set of each table."""
    for row, n_members in zip(members.tolist(), size.tolist(), strict=True):
        yield tuple(row[:n_members])


def plan_of(
    names: tuple[str, ...],
    source: npt.NDArray[np.integer],
    child: npt.NDArray[np.integer],
    sets: Sequence[tuple[int, ...]],
    cards: Ints,
) -> TestPlan:
    """Return the plan of given tables: source (-1 for a node's own table), child and set."""
    size = np.array([len(members) for members in sets], np.int8)
    width = int(size.max(initial=0))
    members = np.zeros((len(sets), max(width, 1)), np.int16)
    members[np.arange(members.shape[1]) < size[:, None]] = list(chain.from_iterable(sets))
    strata = np.ones(len(sets), np.int64)
    for m in range(width):
        strata *= np.where(size > m, cards[members[:, m]], 1)
    cells = strata * cards[child] * np.where(source >= 0, cards[source], 1)
    order = np.lexsort((np.arange(len(sets)), *members.T[::-1], size, child))
    tables = Tables(
        members=members,
        size=size,
        child=np.ascontiguousarray(child, np.int16),
        source=np.ascontiguousarray(source, np.int16),
        strata=strata.astype(np.int32),
        first=np.concatenate(([0], np.cumsum(cells))).astype(np.int64),
        cards=np.ascontiguousarray(cards, np.int64),
        order=order.astype(np.int64),
    )
    return TestPlan(names, tables)


class LevelMap:
    """Numbers the codes by first occurrence in a regime, so that tables have no empty levels.

    A new code gets the next number, so old numbers stay.

    >>> levels = LevelMap(1)
    >>> levels.learn(np.array([[3, 0, 3]], np.uint8))
    True
    >>> levels.apply(np.array([[0, 3]], np.uint8)), levels.cards
    (array([[0, 1]], dtype=uint8), array([2]))
    >>> levels.learn(np.array([[1]], np.uint8)), levels.cards
    (True, array([3]))
    """

    def __init__(self, n_variables: int) -> None:
        self._number = np.full((n_variables, 256), _UNSEEN, np.uint8)

    @classmethod
    def from_array(cls, number: npt.NDArray[np.uint8]) -> LevelMap:
        """Return the map that gave this array as its ``number``."""
        levels = cls(0)
        levels._number = number.copy()
        return levels

    @classmethod
    def identity(cls, n_variables: int) -> LevelMap:
        """Return the map of codes that are numbered already."""
        return cls.from_array(np.tile(np.arange(256, dtype=np.uint8), (n_variables, 1)))

    @property
    def number(self) -> npt.NDArray[np.uint8]:
        """For each variable and code its number, 255 if it has none."""
        return self._number

    @property
    def cards(self) -> npt.NDArray[np.int64]:
        """How many codes of each variable have a number."""
        known: npt.NDArray[np.int64] = np.count_nonzero(self._number != _UNSEEN, axis=1)
        return known

    def learn(self, codes: Codes) -> bool:
        """Give numbers to new codes, smaller first; return whether there are any."""
        grown = False
        for v, row in enumerate(codes):
            present = np.flatnonzero(np.bincount(row, minlength=1))
            new = present[self._number[v, present] == _UNSEEN]
            if len(new):
                self._add(v, new)
                grown = True
        return grown

    def learn_packed(self, table: PackedTable) -> bool:
        """Do as ``learn`` does, with the codes that a packed table has found."""
        variables = table.level_variables
        new = self._number[variables, table.level_codes] == _UNSEEN
        for v in np.unique(variables[new]).tolist():
            self._add(v, np.sort(table.level_codes[new & (variables == v)]))
        return bool(new.any())

    def _add(self, v: int, codes: npt.NDArray[np.integer]) -> None:
        known = int(np.count_nonzero(self._number[v] != _UNSEEN))
        self._number[v, codes] = np.arange(known, known + len(codes), dtype=np.uint8)

    def apply(self, codes: Codes) -> Codes:
        """Return the numbers of codes that have all been learned."""
        identity = np.arange(256, dtype=np.uint8)
        other = (self._number != identity) & (self._number != _UNSEEN)
        moved = np.flatnonzero(other.any(axis=1)).tolist()
        if not moved:
            return codes
        numbers = codes.copy()
        for v in moved:
            numbers[v] = self._number[v, codes[v]]
        return numbers

    def places(self, table: PackedTable) -> npt.NDArray[np.int32]:
        """Return for each variable and number its level in a packed table; -1 if absent."""
        variables = table.level_variables
        level = np.full((len(table.names), int(self.cards.max(initial=1))), -1, np.int32)
        level[variables, self._number[variables, table.level_codes]] = np.arange(len(variables))
        return level


def n_configurations(cards: Ints, members: Sequence[int]) -> int:
    """Return how many configurations some fields have, which may be more than 64 bits hold.

    >>> n_configurations(np.array([2, 5, 4]), (0, 1)), n_configurations(np.array([4]), [0] * 40)
    (10, 1208925819614629174706176)
    """
    return math.prod(cards[list(members)].tolist())


def trimmed(members: Sequence[int], cards: Ints, room: int) -> tuple[int, ...]:
    """Leave out the member with the most levels until there are at most ``room`` configurations.

    >>> trimmed([0, 1, 2], np.array([2, 5, 3]), 6)
    (0, 2)
    """
    kept = sorted(members)
    n_left = n_configurations(cards, kept)
    while kept and n_left > room:
        largest = max(kept, key=lambda v: (int(cards[v]), v))
        kept.remove(largest)
        n_left //= int(cards[largest])
    return tuple(kept)


def joint_codes(codes: Codes, cards: Ints, members: Iterable[int]) -> Ints:
    """Return for each row the number of its configuration; the last member runs fastest.

    Where there are too many configurations to number, those of the given rows alone are numbered,
    in the same order.

    >>> joint_codes(np.array([[0, 1], [2, 0]], np.uint8), np.array([2, 3]), (0, 1))
    array([2, 3])
    """
    code, n_numbers = np.zeros(codes.shape[1], np.int64), 1
    for v in members:
        card = int(cards[v])
        if n_numbers * card > _CONFIGURATIONS_MAX:
            present, code = np.unique(code, return_inverse=True)
            n_numbers = len(present)
        n_numbers *= card
        code *= card
        code += codes[v]
    return code
