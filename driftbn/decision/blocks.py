"""Sums over blocks of rows of some windows, kept for the next test that asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from driftbn.decision.cells import n_configurations
from driftbn.kernels.deviance import N_MOMENTS, add_pair_moments, make_moment_room
from driftbn.kernels.evidence import Ints
from driftbn.kernels.tables import Counts, write_cells
from driftbn.learning.independence import Codes

KEPT_CELLS = 200_000  # of all pairs: eight megabytes

Key = tuple[tuple[int, ...], int]


class _Sums(NamedTuple):
    n_windows: int  # how many windows, the first ones, are in it
    moments: Ints


class _Kept:
    """Sums that were asked for; those asked for longest ago make room for others."""

    def __init__(self) -> None:
        self._sums: dict[Key, _Sums] = {}
        self._n_cells = 0

    def pop(self, key: Key) -> _Sums | None:
        """Take out the sums of a key, if there are any."""
        sums = self._sums.pop(key, None)
        if sums is not None:
            self._n_cells -= len(sums.moments)
        return sums

    def keep(self, key: Key, sums: _Sums) -> None:
        """Put in sums that are not there."""
        self._sums[key] = sums
        self._n_cells += len(sums.moments)
        while self._n_cells > KEPT_CELLS and len(self._sums) > 1:
            self.pop(next(iter(self._sums)))


class BlockSums:
    """Sums over blocks of rows of some windows.

    They are integers, so that it makes no difference what was kept and what is summed up again.

    Parameters
    ----------
    windows
        The rows, each ``[variables, rows]``.
    cards
        Levels of each variable.
    earlier
        Sums of the first of these windows: what they keep is taken over. Of other windows or
        levels, nothing is.
    """

    def __init__(
        self, windows: Sequence[Codes], cards: Ints, earlier: BlockSums | None = None
    ) -> None:
        self.windows = tuple(windows)
        self.cards = cards
        self._kept = _Kept()
        if earlier is not None and self._goes_on_from(earlier):
            self._kept, earlier._kept = earlier._kept, self._kept

    def _goes_on_from(self, earlier: BlockSums) -> bool:
        n_same = sum(a is b for a, b in zip(earlier.windows, self.windows, strict=False))
        return n_same == len(earlier.windows) and np.array_equal(earlier.cards, self.cards)

    @cached_property
    def n_rows(self) -> tuple[int, ...]:
        """Rows of each window."""
        return tuple(codes.shape[1] for codes in self.windows)

    def cells(self, members: tuple[int, ...]) -> Counts:
        """Return the joint codes of all rows; the last member runs fastest."""
        out = np.empty(sum(self.n_rows), np.int32)
        chosen = np.array(members, np.int64)
        begin = 0
        for codes in self.windows:
            write_cells(codes, chosen, self.cards, begin, out)
            begin += codes.shape[1]
        return out

    def of_pair(self, members: tuple[int, ...], length: int) -> Ints:
        """Return the moments of a pair, the last two members, given the others.

        They are kept as they are, so nobody may write to them.
        """
        key = members, length
        kept = self._kept.pop(key)
        if kept is None:
            n_cells = n_configurations(self.cards, members)
            kept = _Sums(0, np.zeros((n_cells, N_MOMENTS), np.int64))
        if kept.n_windows < len(self.windows):
            kept = self._with_later(kept, members, length)
        self._kept.keep(key, kept)
        return kept.moments

    def _with_later(self, kept: _Sums, members: tuple[int, ...], length: int) -> _Sums:
        """Return the sums with the windows they lack; who asked before still has the old ones."""
        moments = kept.moments.copy()
        n_x, n_y = self.cards[list(members[-2:])].tolist()
        room = make_moment_room(n_configurations(self.cards, members[:-2]), n_x, n_y, length)
        asked = np.array(members), self.cards, length, room, moments
        for codes in self.windows[kept.n_windows :]:
            add_pair_moments(codes, *asked)
        return _Sums(len(self.windows), moments)


class CombinedSums(BlockSums):
    """Sums of windows whose own are known.

    Parameters
    ----------
    windows, cards
        As in ``BlockSums``.
    added
        Sums that together have all the windows.
    taken
        Sums of windows that they have besides.
    """

    def __init__(
        self,
        windows: Sequence[Codes],
        cards: Ints,
        added: Sequence[BlockSums],
        taken: Sequence[BlockSums] = (),
    ) -> None:
        super().__init__(windows, cards)
        self._added = tuple(added)
        self._taken = tuple(taken)

    def of_pair(self, members: tuple[int, ...], length: int) -> Ints:
        """Return the moments of a pair, the last two members, given the others."""
        total = self._added[0].of_pair(members, length).copy()
        for sums in self._added[1:]:
            total += sums.of_pair(members, length)
        for sums in self._taken:
            total -= sums.of_pair(members, length)
        return total
