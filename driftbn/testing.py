"""Stand-ins for data and time, for tests of searches and monitors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from driftbn.errors import ConfigError, GraphError
from driftbn.graphs.graph import Dag
from driftbn.learning.independence import IndependenceTest


class DSeparationOracle(IndependenceTest):
    """Answers independence questions from a graph instead of from data.

    It has the seam that a search uses, `first_separator`, and never errs: a search that is sound
    must find the CPDAG of the graph with it.

    >>> oracle = DSeparationOracle(Dag("abc", [("a", "b"), ("b", "c")]))
    >>> oracle.first_separator(0, 2, [(), (1,)])
    1
    >>> oracle.first_separator(0, 1, [(), (2,)]) is None
    True
    """

    def __init__(self, dag: Dag) -> None:
        self.names = dag.nodes
        position = {name: i for i, name in enumerate(dag.nodes)}
        # Sets of nodes are bit masks: node i is bit i of a Python integer.
        self._family = [
            _mask((i, *(position[parent] for parent in dag.parents(name))))
            for i, name in enumerate(dag.nodes)
        ]
        self._member_of = [
            _mask((i, *(position[child] for child in dag.children(name))))
            for i, name in enumerate(dag.nodes)
        ]
        self._ancestors = [0] * len(dag.nodes)
        for name in dag.topological_order():
            i = position[name]
            self._ancestors[i] = 1 << i
            for parent in dag.parents(name):
                self._ancestors[i] |= self._ancestors[position[parent]]

    def first_separator(
        self, x: int, y: int, sets: npt.NDArray[np.integer] | Sequence[Sequence[int]]
    ) -> int | None:
        """Return the position of the first set that d-separates ``x`` and ``y``, if any does.

        ``sets``: conditioning sets in the order to try them: an array ``[sets, members]`` or a
        sequence of tuples of positions in ``names``. A matrix without columns is so many empty
        sets.

        Raises ConfigError if a position is not that of a node. Raises GraphError if ``x`` and ``y``
        are the same node or stand in a set.
        """
        # Numpy's integers would overflow in shifts.
        x, y = self._checked("x", x), self._checked("y", y)
        if x == y:
            raise GraphError(f"x and y are the same node {self.names[x]!r}")
        if self._family[x] >> y & 1 or self._family[y] >> x & 1:
            return None
        members = sets.tolist() if isinstance(sets, np.ndarray) else sets
        for k, given in enumerate(members):
            if self._separated(x, y, [self._checked("sets", member) for member in given]):
                return k
        return None

    def _checked(self, field: str, node: int) -> int:
        if not 0 <= node < len(self.names):
            raise ConfigError(field, node, f"from 0 to {len(self.names) - 1}")
        return int(node)

    def _separated(self, x: int, y: int, given: Sequence[int]) -> bool:
        """Search for ``y`` from ``x`` in the moral graph of the ancestors, around ``given``.

        Lauritzen, Dawid, Larsen and Leimer 1990, proposition 3. In the moral graph a node and its
        parents are a clique, so a node reaches the whole family of itself and of each of its
        children; each family is entered once.
        """
        relevant = self._ancestors[x] | self._ancestors[y]
        for member in given:
            relevant |= self._ancestors[member]
        open_nodes = relevant & ~_mask(given)
        if not open_nodes >> x & open_nodes >> y & 1:
            raise GraphError(f"{self.names[x]!r} or {self.names[y]!r} stands in its own separator")
        reached = waiting = 1 << x
        entered = 0
        while waiting:
            found = 0
            for node in _bits(waiting):
                for child in _bits(self._member_of[node] & relevant & ~entered):
                    entered |= 1 << child
                    found |= self._family[child]
            waiting = found & open_nodes & ~reached
            reached |= waiting
            if reached >> y & 1:
                return False
        return True


def _mask(members: Sequence[int]) -> int:
    mask = 0
    for member in members:
        mask |= 1 << member
    return mask


def _bits(mask: int) -> Iterator[int]:
    """Yield the positions of the bits that are set, lowest first."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
