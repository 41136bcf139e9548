"""The search for separators: what is known beforehand, its limits, its tallies, its plans."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from driftbn.config import Algorithm, Knowledge, LearnerConfig
from driftbn.errors import KnowledgeError
from driftbn.graphs.graph import find_cycle
from driftbn.kernels.search import (
    NO_ROOM,
    NO_SEPARATOR,
    OVER,
    PAUSED,
    PHASE,
    UNLIMITED,
    Census,
    Question,
    Search,
    Subsets,
)
from driftbn.learning.independence import IndependenceTest, Ints, Mask, places, upper


@dataclass(frozen=True, eq=False)
class KnownEdges:
    """Knowledge about the variables at hand.

    ``required[x, y]``: there is an edge from x to y. ``closed[x, y]``: none may point that way.
    """

    required: Mask
    closed: Mask

    @property
    def possible(self) -> Mask:
        """Pairs that may have an edge; the others are never tested."""
        impossible: Mask = self.closed & self.closed.T
        return ~impossible & ~np.eye(len(impossible), dtype=np.bool_)


def apply_knowledge(
    knowledge: Knowledge, names: Sequence[str], excluded: Sequence[str] = ()
) -> KnownEdges:
    """Check the knowledge and turn it into masks.

    Statements about an excluded variable are ignored: there is no node to apply them to.

    Raises KnowledgeError if a name is unknown, an edge is a loop, a name stands in two tiers, or
    required edges form a cycle or are forbidden.
    """
    place = {name: i for i, name in enumerate(names)}
    _check_names(knowledge, {*names, *excluded})
    closed = np.zeros((len(names), len(names)), np.bool_)
    required = np.zeros_like(closed)
    for later, tier in enumerate(knowledge.tiers):
        for earlier in knowledge.tiers[:later]:
            closed[np.ix_(_places(place, tier), _places(place, earlier))] = True
    for source, target in knowledge.forbidden:
        if source in place and target in place:
            closed[place[source], place[target]] = True
    for source, target in knowledge.required:
        if source not in place or target not in place:
            continue
        if closed[place[source], place[target]]:
            raise KnowledgeError("required", (source, target), "an edge that is not forbidden")
        required[place[source], place[target]] = True
    return KnownEdges(required, closed | required.T)


def knowledge_about(knowledge: Knowledge, names: Collection[str]) -> Knowledge:
    required, forbidden = (
        [edge for edge in edges if edge[0] in names and edge[1] in names]
        for edges in (knowledge.required, knowledge.forbidden)
    )
    tiers = ([name for name in tier if name in names] for tier in knowledge.tiers)
    return Knowledge(required, forbidden, tiers)


def given_first(knowledge: Knowledge, given: Collection[str], names: Collection[str]) -> Knowledge:
    """Add that no edge points from another field at one that is given."""
    others = [name for name in names if name not in given]
    closed = [(other, name) for name in given if name in names for other in others]
    return Knowledge(knowledge.required, (*knowledge.forbidden, *closed), knowledge.tiers)


def _places(place: dict[str, int], tier: Sequence[str]) -> list[int]:
    return [place[name] for name in tier if name in place]


def _check_names(knowledge: Knowledge, known: set[str]) -> None:
    tiers = [name for tier in knowledge.tiers for name in tier]
    fields = (("required", knowledge.required), ("forbidden", knowledge.forbidden))
    for field, edges in fields:
        for edge in edges:
            if edge[0] == edge[1]:
                raise KnowledgeError(field, edge, "pairs of two different variables")
            _check_known(field, edge, known)
    _check_known("tiers", tiers, known)
    for name in tiers:
        if tiers.count(name) > 1:
            raise KnowledgeError("tiers", name, "in one tier only")
    cycle = find_cycle(knowledge.required)
    if cycle:
        raise KnowledgeError("required", cycle, "edges without a directed cycle")


def _check_known(field: str, names: Sequence[str], known: set[str]) -> None:
    for name in names:
        if name not in known:
            raise KnowledgeError(field, name, f"a variable of the table: {sorted(known)[:8]}…")


TESTS_PER_LOOK = 4096  # tests between two looks at the clock: milliseconds on 5000 rows


class Overrun(enum.Enum):
    DEADLINE = "deadline"
    """The time was over."""
    TESTS = "tests"
    """The number of tests was used up."""


@dataclass(frozen=True)
class Limits:
    """How long a search may go on.

    ``clock``: returns seconds; only differences count. ``max_tests``: tests with a condition after
    which to stop, or ``None``.
    """

    clock: Callable[[], float]
    stop_at: float | None = None
    max_tests: int | None = None

    def overrun(self, test: IndependenceTest) -> Overrun | None:
        if self._tests_left(test) <= 0:
            return Overrun.TESTS
        return Overrun.DEADLINE if self.late else None

    @property
    def late(self) -> bool:
        return self.stop_at is not None and self.clock() >= self.stop_at

    def go_on(self, test: IndependenceTest) -> bool:
        return self.overrun(test) is None

    def allotment(self, test: IndependenceTest) -> int:
        """Return how many tests may run before the next look at the limits."""
        return max(1, min(TESTS_PER_LOOK, self._tests_left(test)))

    def _tests_left(self, test: IndependenceTest) -> int:
        if self.max_tests is None:
            return TESTS_PER_LOOK
        return self.max_tests - int(test.tests[1:, 0].sum())


# RDSA tallies: how often a node has helped to separate a target from others.

TALLY_DECAY = 0.5  # what the tallies of an earlier structure are worth
UNITS = 2520  # of one: 1 to 10 divide it, so 1/size is exact and sums do not depend on their order


@dataclass(frozen=True, eq=False)
class RdsaTally:
    """Relative d-separating abilities, by target and node (paper, section III).

    ``units``: tallies in units of 1/2520, shape [target, node].

    >>> tally = RdsaTally.zero(("a", "b"))
    >>> tally.value("a", "b")
    0.0
    """

    names: tuple[str, ...]
    units: Ints

    @classmethod
    def zero(cls, names: Sequence[str]) -> RdsaTally:
        return cls(tuple(names), np.zeros((len(names), len(names)), np.int64))

    def value(self, target: str, node: str) -> float:
        row, column = self.names.index(target), self.names.index(node)
        return float(self.units[row, column]) / UNITS

    def started_from(self, names: Sequence[str], decay: float) -> Ints:
        """Return decayed units for a search over ``names``; a new variable starts at zero."""
        units: Ints = np.floor(self.units * decay).astype(np.int64)
        if tuple(names) == self.names:
            return units
        place = {name: i for i, name in enumerate(self.names)}
        here = [i for i, name in enumerate(names) if name in place]
        there = [place[name] for name in names if name in place]
        started = np.zeros((len(names), len(names)), np.int64)
        started[np.ix_(here, here)] = units[np.ix_(there, there)]
        return started


def make_subsets(n_nodes: int, max_size: int, room: int = 512) -> Subsets:
    """Make an empty lister of subsets; ``room`` grows when a search needs more."""
    return Subsets(
        candidates=np.zeros(n_nodes, np.int64),
        tallies=np.zeros(n_nodes, np.int64),
        heap=np.zeros((room, 1 + max_size), np.int64),
        place=np.zeros(4, np.int64),
    )


def with_more_room(subsets: Subsets) -> Subsets:
    """Return the lister in the same state with twice the room in its heap."""
    heap = np.zeros((2 * len(subsets.heap), subsets.heap.shape[1]), np.int64)
    heap[: len(subsets.heap)] = subsets.heap
    heap[-1] = subsets.heap[-1]  # the last row is where a listing keeps its present subset
    return subsets._replace(heap=heap)


# Which sets separate which pairs, and the search that finds them.

_Place = TypeVar("_Place", int, Ints)

BLOCK = 16  # sets of one question: few enough to list in vain, many enough to stay in the kernel


class SeparatorMap(Mapping[tuple[str, str], tuple[str, ...]]):
    """For each pair found independent, the set that separates it; pairs in any order.

    Pairs that have an edge may still have a set that separated them once (``recall``): it is the
    first that the next search tries.

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
            pair = pair_index(*sorted((place[x], place[y])))
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
        low, high = sorted((self._place[pair[0]], self._place[pair[1]]))
        index = pair_index(low, high)
        if low == high or self._sizes[index] < 0:
            raise KeyError(pair)
        return tuple(sorted(self.names[z] for z in self._members[index, : self._sizes[index]]))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for y in range(len(self.names)):
            for x in range(y):
                if self._sizes[pair_index(x, y)] >= 0:
                    first, second = sorted((self.names[x], self.names[y]))
                    yield first, second

    def __len__(self) -> int:
        return int(np.count_nonzero(self._sizes >= 0))

    @property
    def arrays(self) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int8]]:
        return self._members, self._sizes

    def sizes(self, low: Ints, high: Ints) -> npt.NDArray[np.int8]:
        """Return the sizes of the separators of pairs of places; negative where there is none."""
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
        """Return members and sizes for a search over ``names``, without sets that do not fit."""
        if names == self.names and self._members.shape[1] == max_size:
            return self._members, self._sizes
        if len(self._sizes) == 0:
            empty = SeparatorMap(names)
            return np.zeros((len(empty._sizes), max_size), np.int16), empty._sizes
        now = {name: i for i, name in enumerate(names)}
        place = np.array([now.get(name, -1) for name in self.names], np.int64)
        before = np.array([self._place.get(name, -1) for name in names], np.int64)
        high, low = _all_pairs(len(names))
        one, other = before[high], before[low]
        pair = pair_index(np.minimum(one, other), np.maximum(one, other))
        sizes = np.where((one >= 0) & (other >= 0), self._sizes[pair], NO_SEPARATOR)
        n_members = recall(sizes)
        sizes[n_members > max_size] = NO_SEPARATOR
        members = np.zeros((len(sizes), max_size), np.int16)
        rows = np.flatnonzero((n_members > 0) & (n_members <= max_size))
        n_columns = min(self._members.shape[1], max_size)
        beyond = np.arange(n_columns) >= n_members[rows, None]
        found = place[self._members[pair[rows], :n_columns]]
        sizes[rows[np.any((found < 0) & ~beyond, axis=1)]] = NO_SEPARATOR
        found[beyond] = len(names)  # sorted to the end
        found.sort(axis=1)
        members[rows, :n_columns] = np.where(beyond, 0, found)
        return members, sizes

    def with_edges(self, added: Mask, lost: Mapping[tuple[int, int], Ints]) -> SeparatorMap:
        """Return the map with other edges: what separates pairs that lost theirs is given.

        Of too many members the last are kept, which in the order by data are the strongest.
        """
        members, sizes = self._members.copy(), self._sizes.copy()
        pairs = pair_index(*places(upper(added)))
        sizes[pairs] = remember(sizes[pairs])
        for (x, y), separator in lost.items():
            pair, size = pair_index(x, y), min(len(separator), members.shape[1])
            sizes[pair] = size
            members[pair, :size] = separator[len(separator) - size :]
        return SeparatorMap.from_arrays(self.names, members, sizes)


def recall(sizes: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    """Return the sizes with those of sets that separated a pair once in the place of none.

    >>> recall(np.array([2, 0, -1, -3, -4], np.int8)).tolist()
    [2, 0, -1, 1, 2]
    """
    return np.where(sizes < NO_SEPARATOR, 2 * NO_SEPARATOR - sizes, sizes)


def remember(sizes: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    """Return how sizes are written down for pairs that have an edge; ``recall`` undoes it."""
    return np.where(sizes > NO_SEPARATOR, 2 * NO_SEPARATOR - sizes, sizes)


@lru_cache(maxsize=8)
def _all_pairs(n_nodes: int) -> tuple[Ints, Ints]:
    """Return the larger and the smaller places of the list of all pairs."""
    high, low = np.tril_indices(n_nodes, -1)
    return high.astype(np.int64), low.astype(np.int64)


@dataclass(frozen=True, eq=False)
class Skeleton:
    """What a search has found.

    ``adjacent``: edges, a symmetric matrix. ``dependent``: pairs that no empty set separates.
    ``separators``, ``tallies``: what separates the other pairs, and the RDSA tallies at the end.
    ``finished``: whether the search came to its end; if not, ``adjacent`` has edges not yet ruled
    out. ``search``: goes on with a census of separators.
    """

    names: tuple[str, ...]
    adjacent: Mask
    dependent: Mask
    separators: SeparatorMap
    tallies: RdsaTally
    finished: bool
    search: Search


def make_search(  # noqa: PLR0913 - what is known from before may be left out
    test: IndependenceTest,
    config: LearnerConfig,
    known: KnownEdges,
    max_sets: int | None,
    census_size: int,
    tallies: RdsaTally | None = None,
    separators: SeparatorMap | None = None,
) -> Search:
    """Make a search that has every possible edge; tallies and separators of an earlier one help.

    PC takes all pairs of one size before the next size; an edge that goes still serves the sets of
    its size, but in the original PC it is gone at once. FSBN and SSBN (paper, section IV) run LSPC
    node by node; each member of a separator gains 1 (line 16, equation 2) or 1/size (equation 4).
    """
    n_nodes, max_size = len(test.names), config.max_conditioning
    by_node = config.algorithm in (Algorithm.FSBN, Algorithm.SSBN)
    gain = np.zeros(max_size + 1, np.int64)
    if by_node:
        even = config.algorithm is Algorithm.FSBN
        gain[1:] = UNITS if even else UNITS // np.arange(1, max_size + 1)
    nothing = np.zeros((n_nodes, n_nodes), np.int64)
    n_pairs = n_nodes * (n_nodes - 1) // 2
    separator = np.zeros((n_pairs, max_size), np.int16)
    separator_size = np.full(n_pairs, NO_SEPARATOR, np.int8)
    recalled, recalled_size = separator, separator_size
    if separators is not None:
        recalled, recalled_size = separators.started_from(test.names, max_size)
    adjacent = known.possible
    return Search(
        adjacent=adjacent,
        pool=adjacent.copy(),
        fixed=known.required | known.required.T,
        tallies=tallies.started_from(test.names, TALLY_DECAY) if tallies else nothing.copy(),
        strength=test.strength if by_node else nothing,
        gain=gain,
        recalled=recalled,
        recalled_size=recall(recalled_size),
        separator=separator,
        separator_size=separator_size,
        covered=np.zeros((n_nodes, n_nodes), np.int16),
        queue=np.zeros(n_nodes, np.int64),
        subsets=make_subsets(n_nodes, max(max_size, census_size)),
        question=Question(
            pair=np.zeros(2, np.int64),
            sets=np.zeros((BLOCK, max(max_size, census_size)), np.int64),
            span=np.zeros(3, np.int64),
        ),
        cursor=np.zeros(9, np.int64),
        plan=np.array(
            [
                by_node,
                config.algorithm is Algorithm.PC,
                max_size,
                UNLIMITED if max_sets is None else max_sets,
                census_size,
            ],
            np.int64,
        ),
        census=_NO_CENSUS,
    )


def make_census(low: Ints, high: Ints, n_nodes: int) -> Census:
    """Make a census of pairs, of which the empty set was asked by the search."""
    n_pairs = len(low)
    pair = np.arange(n_pairs)
    sides = np.concatenate(
        (np.stack((low, high, pair), axis=1), np.stack((high, low, pair), axis=1))
    )
    return Census(
        sides=sides[np.lexsort((sides[:, 1], sides[:, 0]))],
        asked=np.ones(n_pairs, np.int64),
        asked_with=np.zeros((n_pairs, n_nodes), np.int32),
        found=np.zeros(n_pairs, np.int64),
        found_with=np.zeros((n_pairs, n_nodes), np.int32),
    )


_NO_CENSUS = make_census(np.zeros(0, np.int64), np.zeros(0, np.int64), 0)


def with_census(search: Search, census: Census) -> Search:
    """Return a search that is over and goes on with a census."""
    search.cursor[:] = 0
    search.cursor[PHASE] = OVER
    search.question.span[:] = 0
    return search._replace(census=census)


def find_skeleton(test: IndependenceTest, search: Search, limits: Limits) -> Skeleton:
    """Remove every edge for which a separator is found; ``test.begin`` was called before.

    Order 0 is one call for all pairs: for PC it is the first level, and in LSPC it comes out
    the same because no later step looks at another target's order 0.
    """
    free = search.adjacent & ~search.fixed
    dependent = free.copy()
    test.remove_independent(dependent)
    _separate_by_nothing(search, free & ~dependent)
    finished = _run(test, search, limits) if limits.go_on(test) else False
    kept = np.flatnonzero((search.separator_size == NO_SEPARATOR) & (search.recalled_size > 0))
    search.separator[kept] = search.recalled[kept]  # of pairs that have an edge now
    search.separator_size[kept] = remember(search.recalled_size[kept])
    return Skeleton(
        names=test.names,
        adjacent=search.adjacent,
        dependent=dependent | (search.adjacent & search.fixed),
        separators=SeparatorMap.from_arrays(test.names, search.separator, search.separator_size),
        tallies=RdsaTally(test.names, search.tallies),
        finished=finished,
        search=search,
    )


def _separate_by_nothing(search: Search, independent: Mask) -> None:
    """Write down the empty set as the separator of the pairs found independent at order 0."""
    search.adjacent[independent] = False
    below = np.tri(len(independent), k=-1, dtype=np.bool_)  # in the order of the list of all pairs
    search.separator_size[independent[below]] = 0


def _run(test: IndependenceTest, search: Search, limits: Limits) -> bool:
    while True:
        state = test.pursue_search(search, limits.allotment(test))
        if state == NO_ROOM:
            search = search._replace(subsets=with_more_room(search.subsets))
        elif state != PAUSED:
            return True
        elif not limits.go_on(test):
            return False


def pair_index(low: _Place, high: _Place) -> _Place:
    """Return the place of pairs in a list of all pairs."""
    return high * (high - 1) // 2 + low
