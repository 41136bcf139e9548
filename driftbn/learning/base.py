"""What learners share: the seam to independence tests and the cost of a search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from driftbn._kernels.census import Census, ask_census, tell_census
from driftbn._kernels.pursuit import PAUSED
from driftbn._kernels.search import BEGIN, END, READY, WIDTH, Question, Search, ask, tell

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_EMPTY_SET = np.empty((1, 0), np.int64)


def places(mask: Mask) -> tuple[Ints, Ints]:
    """Return rows and columns of the true entries; ten times as fast as ``nonzero`` if few are."""
    rows, columns = np.divmod(np.flatnonzero(mask), mask.shape[1])
    return rows, columns


class IndependenceTest(ABC):
    """Answers which of several sets separates two variables; all that a search asks for.

    A subclass must set ``names`` (sorted) and implement ``first_separator``. The other methods are
    built on it and may be replaced by faster ones. A test that can tell that a set says nothing
    about a pair, as one on data can, may leave such sets out of a census.
    """

    names: tuple[str, ...]

    @abstractmethod
    def first_separator(self, x: int, y: int, sets: Sequence[Sequence[int]] | Ints) -> int | None:
        """Return the index of the first set given which x and y are independent, if any.

        Called many thousand times in a search; variables are given by their place in ``names``.
        """

    def p_value(self, x: int, y: int, members: Sequence[int]) -> float:
        """Return how well independence of x and y given ``members`` fits; 0 or 1 if exact."""
        return 0.0 if self.first_separator(x, y, [tuple(members)]) is None else 1.0

    def begin(self, max_size: int) -> None:
        """Start counting tests; called once before a search with sets of at most this size."""
        self.tests = np.zeros((max_size + 1, 2), np.int64)

    def remove_independent(self, adjacent: Mask) -> None:
        """Take from ``adjacent`` all pairs that are independent without condition."""
        for x, y in np.argwhere(np.triu(adjacent)).tolist():
            self.tests[0, 0] += 1
            if self.first_separator(x, y, _EMPTY_SET) is not None:
                adjacent[x, y] = adjacent[y, x] = False

    def pursue_search(self, search: Search, n_tests: int) -> int:
        """Answer the questions of a search for about ``n_tests`` tests; return its state."""
        limit = self.tests[:, 0].sum() + n_tests
        while self.tests[:, 0].sum() < limit:
            state = ask(search)
            if state != READY:
                return int(state)
            tell(search, self._answer(search.question))
        return PAUSED

    def pursue_census(self, census: Census, n_tests: int) -> int:
        """Answer the questions of a census for about ``n_tests`` tests; return its state."""
        limit = self.tests[:, 0].sum() + n_tests
        while self.tests[:, 0].sum() < limit:
            state = ask_census(census)
            if state != READY:
                return int(state)
            tell_census(census, self._answer(census.question))
        return PAUSED

    def _answer(self, question: Question) -> int:
        begin, end, size = (int(question.span[i]) for i in (BEGIN, END, WIDTH))
        x, y = int(question.pair[0]), int(question.pair[1])
        found = self.first_separator(x, y, question.sets[begin:end, :size])
        self.tests[size, 0] += end - begin if found is None else found + 1
        return -1 if found is None else begin + found


@dataclass(frozen=True)
class SearchCost:
    """What it cost to learn a structure.

    Parameters
    ----------
    tests
        Tests of the search for the skeleton, by size of the conditioning set.
    undecided
        How many of them had too few rows to tell, by size; taken for independent.
    orientation_tests
        Tests asked to direct edges, by size.
    seconds
        Time from codes to graph, by the clock that was given.
    warm
        Whether the search started from an earlier structure.

    Examples
    --------
    >>> SearchCost(tests=(10, 5), undecided=(0, 1), orientation_tests=(0, 2)).weighted
    35
    """

    tests: tuple[int, ...]
    undecided: tuple[int, ...] = ()
    orientation_tests: tuple[int, ...] = ()
    seconds: float = 0.0
    warm: bool = False

    @property
    def weighted(self) -> int:
        """Sum of 2 + size over the search's tests, the cost measure of the paper's section V."""
        return _weighted(self.tests)

    @property
    def orientation_weighted(self) -> int:
        """The same sum over the tests asked to direct edges."""
        return _weighted(self.orientation_tests)

    @property
    def n_tests(self) -> int:
        """Number of all tests."""
        return sum(self.tests) + sum(self.orientation_tests)


def _weighted(tests: tuple[int, ...]) -> int:
    return sum((2 + size) * count for size, count in enumerate(tests))
