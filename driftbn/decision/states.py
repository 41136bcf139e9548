"""States of one field given others, where rows come in bursts.

The statistic of a test is corrected for its design effect. Where that is large, states that are
backed by few bursts are put together, or left out: one burst more or less is no change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftbn._kernels.deviance import (
    MIN_BOTH,
    MIN_EXPECTED,
    MIN_ROWS,
    VARIANCE,
    compare_ragged,
)
from driftbn._kernels.evidence import Floats, Ints
from driftbn.decision.cells import divided
from driftbn.decision.dependence import (
    BLOCK_ROWS,
    BlockScores,
    DependenceOfGroups,
    block_counts,
)

LARGE_EFFECT = 1.5  # from here on rows are taken to come in bursts
MIN_BACKING = 5.0  # blocks with a state that the smaller group must be expected to have

Cells = npt.NDArray[np.int64]


class StateRows(NamedTuple):
    """The rows of two groups of windows, each as number of configuration and state."""

    groups: tuple[Sequence[Cells], Sequence[Cells]]  # the newer ones last
    n_configurations: int
    n_states: int
    largest_effect: float = 1.0  # of all fields in the newer rows


class _Blocks(NamedTuple):
    """Counts in blocks of rows; cells of one configuration stand together."""

    rows: tuple[Sequence[Cells], Sequence[Cells]]  # the windows that they were counted in
    groups: tuple[list[Floats], list[Floats]]  # each window [blocks, cells]
    starts: Ints  # first cell of each configuration

    @property
    def lengths(self) -> Ints:
        n_cells = self.groups[0][0].shape[1]
        return np.append(self.starts[1:], n_cells) - self.starts

    @property
    def tables(self) -> tuple[Floats, Floats]:
        a, b = (np.sum([np.sum(w, axis=0) for w in group], axis=0) for group in self.groups)
        return a, b


def check_states(
    rows: StateRows, statistics: Floats, logs: Floats, n_tests: int
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
    n_tests
        A p-value above one over this is given by what is cheap to know of it.
    """
    shape = rows.n_configurations, rows.n_states
    totals = [
        np.bincount(np.concatenate(list(group)), minlength=shape[0] * shape[1]).reshape(shape)
        for group in rows.groups
    ]
    merged, configuration = merge_states(*totals)
    blocks = _Blocks(
        rows.groups,
        (
            block_counts([merged[cells] for cells in rows.groups[0]], len(configuration)),
            block_counts([merged[cells] for cells in rows.groups[1]], len(configuration)),
        ),
        _starts(configuration),
    )
    found = _dependence(blocks)
    if max(found.effect, rows.largest_effect) > LARGE_EFFECT:
        least = MIN_BACKING if found.effect > LARGE_EFFECT else 0.0
        blocks = _well_backed(blocks, least, rows.largest_effect)
        if blocks.starts.size == 0:
            return 1.0, found.effect
        a, b = (table.astype(np.int32) for table in blocks.tables)
        statistics = np.empty(4)
        compare_ragged(blocks.starts, blocks.lengths, a, b, logs, statistics)
        if statistics[VARIANCE] <= 0.0:
            return 1.0, found.effect
        found = _dependence(blocks)
    value, mean, variance = statistics[:3].tolist()
    return found.p_value(value, mean, variance, n_tests), found.effect


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


def _starts(configuration: Ints) -> Ints:
    changes = configuration[1:] != configuration[:-1]
    return np.flatnonzero(np.concatenate((np.ones(min(len(configuration), 1), np.bool_), changes)))


class _StateScores(BlockScores):
    """What blocks of rows add to the comparison of states."""

    def __init__(self, blocks: _Blocks, group: int) -> None:
        starts, lengths, tables = blocks.starts, blocks.lengths, blocks.tables
        scale = 1.0 / np.sqrt(np.maximum(tables[0] + tables[1], 1.0))
        table = tables[group]
        rows = np.repeat(np.add.reduceat(table, starts), lengths)
        share = divided(table, rows)
        expected = float(np.sum(rows * share * (1.0 - share) * scale**2))
        super().__init__(blocks.rows[group], expected, int(table.sum()))
        self._scores: dict[int, list[Floats]] = {BLOCK_ROWS: []}
        for counts in blocks.groups[group]:
            here = np.repeat(np.add.reduceat(counts, starts, axis=1), lengths, axis=1)
            self._scores[BLOCK_ROWS].append((counts - here * share) * scale)

    def _windows_at(self, length: int) -> list[Floats]:
        if length not in self._scores:
            self._scores[length] = [
                np.add.reduceat(scores, np.arange(0, len(scores), 2), axis=0)
                for scores in self._windows_at(length // 2)
            ]
        return self._scores[length]

    def _squares(self, length: int) -> float:
        return sum(float(np.sum(scores * scores)) for scores in self._windows_at(length))

    def scores(self, length: int) -> Floats:
        """Return ``[blocks, cells]``."""
        return np.concatenate(self._windows_at(length))


def _dependence(blocks: _Blocks) -> DependenceOfGroups:
    return DependenceOfGroups(_StateScores(blocks, 0), _StateScores(blocks, 1))


def _well_backed(blocks: _Blocks, least: float, largest_effect: float) -> _Blocks:
    """Put states together that few blocks have, and leave out what is still rare."""
    pooled = _regrouped(blocks, _is_rare(blocks, least, largest_effect))
    rare = _is_rare(pooled, least, largest_effect)
    kept = np.flatnonzero(~rare)
    of_cell = np.repeat(np.arange(len(pooled.starts)), pooled.lengths)[kept]
    useful = np.flatnonzero(np.bincount(of_cell, minlength=len(pooled.starts))[of_cell] > 1)
    kept, of_cell = kept[useful], of_cell[useful]
    old, new = ([window[:, kept] for window in group] for group in pooled.groups)
    return _Blocks(blocks.rows, (old, new), _starts(of_cell))


def _is_rare(blocks: _Blocks, least: float, largest_effect: float) -> npt.NDArray[np.bool_]:
    """Return which cells fewer than ``least`` blocks are expected to have in the smaller group.

    A rare state that few blocks of the newer rows have, fewer than expected, shows nothing of how
    bursty it is there: it is taken to be as bursty as the burstiest field.
    """
    starts, lengths, tables = blocks.starts, blocks.lengths, blocks.tables
    n_a, n_b = (np.add.reduceat(table, starts) for table in tables)
    smaller = divided(np.minimum(n_a, n_b), n_a + n_b)
    older, newer = (
        np.sum([np.count_nonzero(window, axis=0) for window in group], axis=0)
        for group in blocks.groups
    )
    few = (older + newer) * np.repeat(smaller, lengths) < least
    both = tables[0] + tables[1]
    rows = both * np.repeat(divided(n_b, n_a + n_b), lengths)
    hidden = (newer < MIN_BACKING) & (rows < MIN_BACKING * largest_effect)
    hidden &= (tables[1] < rows) & (2.0 * both < np.repeat(n_a + n_b, lengths))
    rare: npt.NDArray[np.bool_] = few | hidden
    return rare


def _regrouped(blocks: _Blocks, rare: npt.NDArray[np.bool_]) -> _Blocks:
    """Return the same counts with the rare cells of each configuration as one."""
    of_cell = np.repeat(np.arange(len(blocks.starts)), blocks.lengths)
    order = np.lexsort((rare, of_cell))  # rare ones last in their configuration
    first_rare = rare[order] & np.concatenate(
        ([True], (of_cell[order][1:] != of_cell[order][:-1]) | ~rare[order][:-1])
    )
    begins = np.flatnonzero(~rare[order] | first_rare)
    old, new = (
        [np.add.reduceat(window[:, order], begins, axis=1) for window in group]
        for group in blocks.groups
    )
    return _Blocks(blocks.rows, (old, new), _starts(of_cell[order][begins]))
