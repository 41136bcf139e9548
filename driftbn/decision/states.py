"""States of one field given others, where rows come in bursts.

The statistic of a test is corrected for its design effect. Where that is large, states that are
backed by few bursts are put together, or left out: one burst more or less is no change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftbn.decision.cells import divided
from driftbn.decision.dependence import BLOCK_ROWS, BlockScores, DependenceOfGroups
from driftbn.kernels.deviance import (
    MIN_BOTH,
    MIN_EXPECTED,
    MIN_ROWS,
    VARIANCE,
    compare_ragged,
)
from driftbn.kernels.evidence import Floats, Ints
from driftbn.kernels.tables import (
    BLOCKS,
    KK,
    KN,
    N_SUMS,
    Cells,
    Counts,
    K,
    count_states,
    make_state_room,
    sum_states,
)

LARGE_EFFECT = 1.5  # from here on rows are taken to come in bursts
MIN_BACKING = 5.0  # blocks with a state that the smaller group must be expected to have


class GroupRows(NamedTuple):
    """The rows of some windows, each as number of configuration and state."""

    cells: Counts
    n_rows: Sequence[int]  # of each window

    @property
    def begins(self) -> Ints:
        """Where each window begins, and the end."""
        return np.cumsum([0, *self.n_rows])


class StateRows(NamedTuple):
    """The rows of two groups of windows."""

    groups: tuple[GroupRows, GroupRows]  # the newer ones last
    n_configurations: int
    n_states: int
    largest_effect: float = 1.0  # of all fields in the newer rows


@dataclass(frozen=True)
class _Blocks:
    """Sums over blocks of the rows of two groups, with cells numbered anew."""

    groups: tuple[GroupRows, GroupRows]
    cells: Cells

    def sums_of(self, group: int, length: int) -> Ints:
        rows, room = self.groups[group], make_state_room(self.cells)
        out = np.zeros((len(room.cell), N_SUMS), np.int64)
        sum_states(rows.cells, rows.begins, length, self.cells, room, out)
        return out

    @cached_property
    def sums(self) -> tuple[Ints, Ints]:
        return self.sums_of(0, BLOCK_ROWS), self.sums_of(1, BLOCK_ROWS)

    @cached_property
    def starts(self) -> Ints:
        """First cell of each configuration."""
        return _starts(self.cells.configuration)

    @cached_property
    def lengths(self) -> Ints:
        return np.append(self.starts[1:], len(self.cells.configuration)) - self.starts

    def whole(self, of_cells: Ints) -> Ints:
        """Return for each cell the sum over its configuration."""
        return np.repeat(np.add.reduceat(of_cells, self.starts), self.lengths)

    def renumbered(self, number: Ints, configuration: Counts) -> _Blocks:
        """Return the same rows with other numbers of the cells, -1 for those left out."""
        new = np.append(number, -1).astype(np.int32)[self.cells.number]
        return _Blocks(self.groups, Cells(new, configuration))


def check_states(
    rows: StateRows, statistics: Floats, logs: Floats, most: float
) -> tuple[float, float]:
    """Return p-value and design effect of a test.

    Parameters
    ----------
    rows
        What was tested.
    statistics
        Deviance with its mean and variance for independent rows.
    logs
        Values of n ln n.
    most
        A p-value above this is given by what is cheap to know of it.
    """
    shape = rows.n_configurations, rows.n_states
    totals = [
        np.bincount(group.cells, minlength=shape[0] * shape[1]).reshape(shape)
        for group in rows.groups
    ]
    number, configuration = merge_states(*totals)
    cells = Cells(number.astype(np.int32), configuration.astype(np.int32))
    blocks = _Blocks(rows.groups, cells)
    found = _dependence(blocks)
    if max(found.effect, rows.largest_effect) > LARGE_EFFECT:
        least = MIN_BACKING if found.effect > LARGE_EFFECT else 0.0
        backed = _well_backed(blocks, least, rows.largest_effect)
        if backed.starts.size == 0:
            return 1.0, found.effect
        a, b = (np.ascontiguousarray(sums[:, K], np.int32) for sums in backed.sums)
        statistics = np.empty(4)
        compare_ragged(backed.starts, backed.lengths, a, b, logs, statistics)
        if statistics[VARIANCE] <= 0.0:
            return 1.0, found.effect
        found = found if backed is blocks else _dependence(backed)
    value, mean, variance = statistics[:3].tolist()
    return found.p_value(value, mean, variance, most)


def merge_states(a: Ints, b: Ints) -> tuple[Ints, Ints]:
    """Return for each cell its number after rare states are put together, and configurations.

    The rules are those of the statistic: a configuration with too few rows is left out (-1).
    """
    n_a, n_b = a.sum(axis=1), b.sum(axis=1)
    both = a + b
    n = n_a + n_b
    used = (np.minimum(n_a, n_b) >= MIN_ROWS) & (n >= MIN_BOTH)
    least = MIN_EXPECTED * n / np.maximum(np.minimum(n_a, n_b), 1)
    rare = both < least[:, None]
    n_states = a.shape[1]
    target = np.arange(a.size).reshape(a.shape)
    firsts = np.argmax(rare, axis=1) + n_states * np.arange(len(a))
    target = np.where(rare, firsts[:, None], target)
    target[~used] = -1
    kept = np.unique(target[target >= 0])
    number = np.full(a.size + 1, -1)
    number[kept] = np.arange(len(kept))
    return number[target.ravel()], kept // n_states


def _starts(configuration: Counts) -> Ints:
    changes = configuration[1:] != configuration[:-1]
    return np.flatnonzero(np.concatenate((np.ones(min(len(configuration), 1), np.bool_), changes)))


class _StateScores(BlockScores):
    """What blocks of rows add to the comparison of states."""

    def __init__(self, blocks: _Blocks, group: int) -> None:
        self._blocks = blocks
        self._group = group
        table = blocks.sums[group][:, K]
        rows = blocks.whole(table)
        self._weight = 1.0 / np.maximum(blocks.sums[0][:, K] + blocks.sums[1][:, K], 1)
        self._share = divided(table, rows)
        expected = float(np.sum(table * (1.0 - self._share) * self._weight))
        super().__init__(blocks.groups[group].n_rows, expected, int(table.sum()))

    def _squares(self, length: int) -> float:
        blocks, group = self._blocks, self._group
        sums = blocks.sums[group] if length == BLOCK_ROWS else blocks.sums_of(group, length)
        squares = sums[:, KK] - 2.0 * self._share * sums[:, KN]
        squares += self._share**2 * blocks.whole(sums[:, KN])
        return max(float(np.sum(squares * self._weight)), 0.0)

    def scores(self, length: int) -> Floats:
        """Return ``[blocks, cells]``."""
        blocks, rows = self._blocks, self._blocks.groups[self._group]
        counts = np.zeros((self.n_blocks(length), len(self._share)))
        count_states(rows.cells, rows.begins, length, blocks.cells, counts)
        whole = np.add.reduceat(counts, blocks.starts, axis=1)
        counts -= np.repeat(whole, blocks.lengths, axis=1) * self._share
        counts *= np.sqrt(self._weight)
        return counts


def _dependence(blocks: _Blocks) -> DependenceOfGroups:
    return DependenceOfGroups(_StateScores(blocks, 0), _StateScores(blocks, 1))


def _well_backed(blocks: _Blocks, least: float, largest_effect: float) -> _Blocks:
    """Put states together that few blocks have, and leave out what is still rare."""
    rare = _is_rare(blocks, least, largest_effect)
    if rare.any():
        blocks = _regrouped(blocks, rare)
        rare = _is_rare(blocks, least, largest_effect)
    n_kept = blocks.whole((~rare).astype(np.int64))
    kept = np.flatnonzero(~rare & (n_kept > 1))
    if len(kept) == len(rare):
        return blocks
    number = np.full(len(rare), -1)
    number[kept] = np.arange(len(kept))
    return blocks.renumbered(number, blocks.cells.configuration[kept])


def _is_rare(blocks: _Blocks, least: float, largest_effect: float) -> npt.NDArray[np.bool_]:
    """Return which cells fewer than ``least`` blocks are expected to have in the smaller group.

    A rare state that few blocks of the newer rows have, fewer than expected, shows nothing of how
    bursty it is there: it is taken to be as bursty as the burstiest field.
    """
    older, newer = blocks.sums
    n_a, n_b = (blocks.whole(sums[:, K]) for sums in blocks.sums)
    both = older[:, K] + newer[:, K]
    backing = (older[:, BLOCKS] + newer[:, BLOCKS]) * divided(np.minimum(n_a, n_b), n_a + n_b)
    rows = both * divided(n_b, n_a + n_b)
    hidden = (newer[:, BLOCKS] < MIN_BACKING) & (rows < MIN_BACKING * largest_effect)
    hidden &= (newer[:, K] < rows) & (2.0 * both < n_a + n_b)
    rare: npt.NDArray[np.bool_] = (backing < least) | hidden
    return rare


def _regrouped(blocks: _Blocks, rare: npt.NDArray[np.bool_]) -> _Blocks:
    """Return the same rows with the rare cells of each configuration as one, the last."""
    of_cell = blocks.cells.configuration
    order = np.lexsort((rare, of_cell))
    of_cell, rare = of_cell[order], rare[order]
    same = (of_cell[1:] == of_cell[:-1]) & rare[1:] & rare[:-1]
    begins = np.concatenate(([True], ~same))
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(begins) - 1
    return blocks.renumbered(number, of_cell[begins])
