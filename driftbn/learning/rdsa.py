"""RDSA tallies: how often a node has helped to separate a target from others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from driftbn._kernels.subsets import Subsets

Ints = npt.NDArray[np.int64]

UNITS = 2520  # of one: 1 to 10 divide it, so 1/size is exact and sums do not depend on their order


@dataclass(frozen=True, eq=False)
class RdsaTally:
    """Relative d-separating abilities, by target and node (paper, section III).

    Parameters
    ----------
    names
        Variables, sorted.
    units
        Tallies in units of 1/2520, shape [target, node].

    Examples
    --------
    >>> tally = RdsaTally.zero(("a", "b"))
    >>> tally.value("a", "b")
    0.0
    """

    names: tuple[str, ...]
    units: Ints

    @classmethod
    def zero(cls, names: Sequence[str]) -> RdsaTally:
        """Return a tally in which nothing has happened."""
        return cls(tuple(names), np.zeros((len(names), len(names)), np.int64))

    def value(self, target: str, node: str) -> float:
        """Return RDSA of ``node`` for ``target``."""
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
