"""When a search must stop: a deadline by a given clock, and a number of tests."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from driftbn.learning.base import IndependenceTest

TESTS_PER_LOOK = 4096  # tests between two looks at the clock: milliseconds on 5000 rows


class Overrun(enum.Enum):
    """Which limit has stopped a search."""

    DEADLINE = "deadline"
    """The time was over."""
    TESTS = "tests"
    """The number of tests was used up."""


@dataclass(frozen=True)
class Limits:
    """How long a search may go on.

    Parameters
    ----------
    clock
        Returns seconds; only differences count.
    stop_at
        Time of the clock at which to stop, or ``None``.
    max_tests
        Tests after which to stop, or ``None``.
    """

    clock: Callable[[], float]
    stop_at: float | None = None
    max_tests: int | None = None

    def overrun(self, test: IndependenceTest) -> Overrun | None:
        """Return the limit that is reached, if any."""
        if self.max_tests is not None and int(test.tests[:, 0].sum()) >= self.max_tests:
            return Overrun.TESTS
        if self.stop_at is not None and self.clock() >= self.stop_at:
            return Overrun.DEADLINE
        return None

    def go_on(self, test: IndependenceTest) -> bool:
        """Whether no limit is reached."""
        return self.overrun(test) is None

    def allotment(self, test: IndependenceTest) -> int:
        """Return how many tests may run before the next look at the limits."""
        if self.max_tests is None:
            return TESTS_PER_LOOK
        return max(1, min(TESTS_PER_LOOK, self.max_tests - int(test.tests[:, 0].sum())))
