"""Which sets separate which pairs, and the search that finds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from driftbn._kernels.pursuit import PAUSED
from driftbn._kernels.search import NO_ROOM, NO_SEPARATOR, Question, Search
from driftbn.learning.base import IndependenceTest, Ints, Mask
from driftbn.learning.limits import Limits
from driftbn.learning.rdsa import RdsaTally, make_subsets, with_more_room

BLOCK = 16  # sets of one question: few enough to list in vain, many enough to stay in the kernel


class SeparatorMap(Mapping[tuple[str, str], tuple[str, ...]]):
    """For each pair found independent, the set that separates it; pairs in any order.

    Examples
    --------
    >>> separators = SeparatorMap(("a", "b", "c"), {("c", "a"): ("b",)})
    >>> separators["a", "c"]
    ('b',)
    >>> ("a", "b") in separators
    False
    """

    def __init__(
        self,
        names: Sequence[str],
        found: Mapping[tuple[str, str], Sequence[str]] | None = None,
    ) -> None:
        place = {name: i for i, name in enumerate(names)}
        width = max((len(members) for members in (found or {}).values()), default=0)
        n_pairs = len(names) * (len(names) - 1) // 2
        members_of = np.zeros((n_pairs, width), np.int16)
        sizes = np.full(n_pairs, NO_SEPARATOR, np.int8)
        for (x, y), members in (found or {}).items():
            pair = _pair_index(place[x], place[y])
            sizes[pair] = len(members)
            members_of[pair, : len(members)] = sorted(place[name] for name in members)
        self._take(tuple(names), members_of, sizes)

    @classmethod
    def from_arrays(
        cls, names: tuple[str, ...], members: npt.NDArray[np.int16], sizes: npt.NDArray[np.int8]
    ) -> SeparatorMap:
        """Wrap the arrays of a search without a copy."""
        separators = cls.__new__(cls)
        separators._take(names, members, sizes)
        return separators

    def _take(
        self, names: tuple[str, ...], members: npt.NDArray[np.int16], sizes: npt.NDArray[np.int8]
    ) -> None:
        self.names = names
        self._members = members
        self._sizes = sizes
        self._place = {name: i for i, name in enumerate(names)}

    def __getitem__(self, pair: tuple[str, str]) -> tuple[str, ...]:
        x, y = self._place[pair[0]], self._place[pair[1]]
        if x == y or self._sizes[_pair_index(x, y)] == NO_SEPARATOR:
            raise KeyError(pair)
        index = _pair_index(x, y)
        return tuple(self.names[z] for z in self._members[index, : self._sizes[index]])

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for y in range(len(self.names)):
            for x in range(y):
                if self._sizes[_pair_index(x, y)] != NO_SEPARATOR:
                    yield self.names[x], self.names[y]

    def __len__(self) -> int:
        return int(np.count_nonzero(self._sizes != NO_SEPARATOR))

    @property
    def arrays(self) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int8]]:
        """Members and sizes, as ``from_arrays`` takes them."""
        return self._members, self._sizes

    def sizes(self, low: Ints, high: Ints) -> npt.NDArray[np.int8]:
        """Return the sizes of the separators of pairs of places; -1 where there is none."""
        return self._sizes[pair_index(low, high)]

    def membership(self, low: Ints, high: Ints) -> Mask:
        """Return for each pair of places which variables its separator holds."""
        holds = np.zeros((len(low), len(self.names)), np.bool_)
        pairs = pair_index(low, high)
        for column in range(self._members.shape[1]):
            rows = np.flatnonzero(self._sizes[pairs] > column)
            holds[rows, self._members[pairs[rows], column]] = True
        return holds

    def started_from(
        self, names: tuple[str, ...], max_size: int
    ) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int8]]:
        """Return members and sizes for a search over ``names``, without sets that do not fit.

        Both lists of names are sorted, so a pair and the members of a set keep their order.
        """
        if names == self.names and self._members.shape[1] == max_size:
            return self._members, self._sizes
        now = {name: i for i, name in enumerate(names)}
        place = np.array([now.get(name, -1) for name in self.names], np.int64)
        high, low = np.tril_indices(len(self.names), -1)  # in the order of the list of all pairs
        kept = (self._sizes >= 0) & (self._sizes <= max_size) & (place[low] >= 0)
        kept &= place[high] >= 0
        n_columns = self._members.shape[1]
        inside = np.arange(n_columns) < self._sizes[:, None]
        members = place[self._members]
        kept &= np.all((members >= 0) | ~inside, axis=1)
        target = pair_index(place[low[kept]], place[high[kept]])
        n_pairs = len(names) * (len(names) - 1) // 2
        sizes = np.full(n_pairs, NO_SEPARATOR, np.int8)
        sizes[target] = self._sizes[kept]
        members_of = np.zeros((n_pairs, max_size), np.int16)
        width = min(n_columns, max_size)
        members_of[target, :width] = np.where(inside, members, 0)[kept, :width]
        return members_of, sizes


@dataclass(frozen=True)
class SearchPlan:
    """How a search walks through targets and sizes, and how it credits separators.

    Parameters
    ----------
    by_node
        All sizes of one target before the next target (LSPC), else all targets of one size (PC).
    stable
        Sets come from the neighbours as they were when the size began.
    credit
        Units that each member of a separator gains, by the separator's size.
    """

    by_node: bool
    stable: bool
    credit: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Skeleton:
    """What a search has found.

    Parameters
    ----------
    names
        Variables, sorted.
    adjacent
        Edges, a symmetric matrix.
    separators, tallies
        What separates the other pairs, and the RDSA tallies at the end.
    finished
        Whether the search came to its end; if not, ``adjacent`` has edges not yet ruled out.
    """

    names: tuple[str, ...]
    adjacent: Mask
    separators: SeparatorMap
    tallies: RdsaTally
    finished: bool


@dataclass(frozen=True, eq=False)
class SearchStart:
    """Where a search starts: possible edges, edges not to test, and what is known from before."""

    adjacent: Mask
    fixed: Mask
    tallies: Ints
    recalled: npt.NDArray[np.int16]
    recalled_size: npt.NDArray[np.int8]

    @classmethod
    def cold(cls, n_nodes: int, max_size: int) -> SearchStart:
        """Start with every edge possible and nothing known."""
        n_pairs = n_nodes * (n_nodes - 1) // 2
        return cls(
            adjacent=~np.eye(n_nodes, dtype=np.bool_),
            fixed=np.zeros((n_nodes, n_nodes), np.bool_),
            tallies=np.zeros((n_nodes, n_nodes), np.int64),
            recalled=np.zeros((n_pairs, max_size), np.int16),
            recalled_size=np.full(n_pairs, NO_SEPARATOR, np.int8),
        )


def find_skeleton(
    test: IndependenceTest,
    plan: SearchPlan,
    start: SearchStart,
    max_sets: int | None,
    limits: Limits,
) -> Skeleton:
    """Remove every edge for which a separator is found; ``test.begin`` was called before.

    Order 0 is one call for all pairs: for PC it is the first level, and in LSPC it comes out
    the same because no later step looks at another target's order 0.
    """
    search = _make_search(plan, start, max_sets)
    free = search.adjacent & ~start.fixed
    dependent = free.copy()
    test.remove_independent(dependent)
    _separate_by_nothing(search, free & ~dependent)
    finished = _run(test, search, limits) if limits.go_on(test) else False
    names = test.names
    return Skeleton(
        names=names,
        adjacent=search.adjacent,
        separators=SeparatorMap.from_arrays(names, search.separator, search.separator_size),
        tallies=RdsaTally(names, search.tallies),
        finished=finished,
    )


def _run(test: IndependenceTest, search: Search, limits: Limits) -> bool:
    while True:
        state = test.pursue_search(search, limits.allotment(test))
        if state == NO_ROOM:
            search = search._replace(subsets=with_more_room(search.subsets))
        elif state != PAUSED:
            return True
        elif not limits.go_on(test):
            return False


def _make_search(plan: SearchPlan, start: SearchStart, max_sets: int | None) -> Search:
    n_nodes = len(start.adjacent)
    max_size = len(plan.credit) - 1
    n_pairs = n_nodes * (n_nodes - 1) // 2
    unlimited = np.iinfo(np.int64).max
    return Search(
        adjacent=start.adjacent.copy(),
        pool=start.adjacent.copy(),
        fixed=start.fixed,
        tallies=start.tallies.copy(),
        gain=np.array(plan.credit, np.int64),
        recalled=start.recalled,
        recalled_size=start.recalled_size,
        separator=np.zeros((n_pairs, max_size), np.int16),
        separator_size=np.full(n_pairs, NO_SEPARATOR, np.int8),
        covered=np.zeros((n_nodes, n_nodes), np.int16),
        subsets=make_subsets(n_nodes, max_size),
        question=make_question(max_size),
        cursor=np.zeros(5, np.int64),
        plan=np.array(
            [plan.by_node, plan.stable, max_size, unlimited if max_sets is None else max_sets],
            np.int64,
        ),
    )


def make_question(max_size: int) -> Question:
    """Make room for a question."""
    return Question(
        pair=np.zeros(2, np.int64),
        sets=np.zeros((BLOCK, max_size), np.int64),
        span=np.zeros(3, np.int64),
    )


def _separate_by_nothing(search: Search, independent: Mask) -> None:
    """Write down the empty set as the separator of the pairs found independent at order 0."""
    search.adjacent[independent] = False
    below = np.tri(len(independent), k=-1, dtype=np.bool_)  # in the order of the list of all pairs
    search.separator_size[independent[below]] = 0


def pair_index(low: Ints, high: Ints) -> Ints:
    """Return the places of pairs in a list of all pairs."""
    index: Ints = high * (high - 1) // 2 + low
    return index


def _pair_index(x: int, y: int) -> int:
    low, high = min(x, y), max(x, y)
    return high * (high - 1) // 2 + low
