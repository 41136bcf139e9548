"""Codes numbered by first appearance in a regime, so that tables hold no empty levels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from driftbn.learning.independence import ChiSquareTest, Codes

_UNSEEN = 255  # a schema has at most 252 codes


class LevelMap:
    """Numbers the codes that occurred; a new one is put at the end, so old numbers stay.

    Parameters
    ----------
    n_variables
        Rows of the code matrices.

    Examples
    --------
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
    def natural(cls, n_variables: int) -> LevelMap:
        """Return the map of codes that are numbers already."""
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
        """Give numbers to codes not met before, smaller first; return whether there are any."""
        grown = False
        for v, row in enumerate(codes):
            met = np.flatnonzero(np.bincount(row, minlength=1))
            new = met[self._number[v, met] == _UNSEEN]
            if len(new):
                self._add(v, new)
                grown = True
        return grown

    def learn_from(self, test: ChiSquareTest) -> bool:
        """Do as ``learn`` does, with the codes that a test has found."""
        first = test.evidence.first
        variables = np.repeat(np.arange(len(first) - 1), np.diff(first))
        new = self._number[variables, test.level_codes] == _UNSEEN
        for v in np.unique(variables[new]).tolist():
            self._add(v, np.sort(test.level_codes[new & (variables == v)]))
        return bool(new.any())

    def _add(self, v: int, codes: npt.NDArray[np.integer]) -> None:
        known = int(np.count_nonzero(self._number[v] != _UNSEEN))
        self._number[v, codes] = np.arange(known, known + len(codes), dtype=np.uint8)

    def apply(self, codes: Codes) -> Codes:
        """Return the numbers of codes that have all been learned."""
        natural = np.arange(256, dtype=np.uint8)
        other = (self._number != natural) & (self._number != _UNSEEN)
        moved = np.flatnonzero(other.any(axis=1)).tolist()
        if not moved:
            return codes
        numbers = codes.copy()
        for v in moved:
            numbers[v] = self._number[v, codes[v]]
        return numbers

    def places(self, test: ChiSquareTest) -> npt.NDArray[np.int32]:
        """Return for each variable and number its level in a test's bit sets; -1 if absent."""
        first = test.evidence.first
        variables = np.repeat(np.arange(len(first) - 1), np.diff(first))
        level = np.full((len(first) - 1, int(self.cards.max(initial=1))), -1, np.int32)
        level[variables, self._number[variables, test.level_codes]] = np.arange(len(variables))
        return level
