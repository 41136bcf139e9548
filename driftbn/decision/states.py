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
from driftbn.decision.dependence import Dependence, block_counts, corrected_p_value, measure

LARGE_EFFECT = 1.5  # from here on rows are taken to come in bursts
MIN_BACKING = 5.0  # blocks with a state that the smaller group must be expected to have

Cells = npt.NDArray[np.int64]


class StateRows(NamedTuple):
    """The rows of two groups of windows, each as number of configuration and state."""

    groups: tuple[Sequence[Cells], Sequence[Cells]]
    n_configurations: int
    n_states: int


class _Blocks(NamedTuple):
    """Counts in blocks of rows; cells of one configuration stand together."""

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


def check_states(rows: StateRows, statistics: Floats, logs: Floats) -> tuple[float, float]:
    """Return p-value and design effect of a test.

    Parameters
    ----------
    rows
        What was tested.
    statistics
        Deviance with its mean and variance for independent rows.
    logs
        Values of n ln n.
    """
    shape = rows.n_configurations, rows.n_states
    totals = [
        np.bincount(np.concatenate(list(group)), minlength=shape[0] * shape[1]).reshape(shape)
        for group in rows.groups
    ]
    merged, configuration = merge_states(*totals)
    blocks = _Blocks(
        (
            block_counts([merged[cells] for cells in rows.groups[0]], len(configuration)),
            block_counts([merged[cells] for cells in rows.groups[1]], len(configuration)),
        ),
        _starts(configuration),
    )
    found = _dependence(blocks)
    if found.effect > LARGE_EFFECT:
        blocks = _well_backed(blocks)
        if blocks.starts.size == 0:
            return 1.0, found.effect
        a, b = (table.astype(np.int32) for table in blocks.tables)
        statistics = np.empty(4)
        compare_ragged(blocks.starts, blocks.lengths, a, b, logs, statistics)
        if statistics[VARIANCE] <= 0.0:
            return 1.0, found.effect
        found = _dependence(blocks)
    value, mean, variance = statistics[:3].tolist()
    return corrected_p_value(value, mean, variance, found), found.effect


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


def _dependence(blocks: _Blocks) -> Dependence:
    starts, lengths, tables = blocks.starts, blocks.lengths, blocks.tables
    scale = 1.0 / np.sqrt(np.maximum(tables[0] + tables[1], 1.0))
    scores: list[Floats] = []
    expected = 0.0
    for group, table in zip(blocks.groups, tables, strict=True):
        rows = np.repeat(np.add.reduceat(table, starts), lengths)
        share = divided(table, rows)
        expected += float(np.sum(rows * share * (1.0 - share) * scale**2))
        for counts in group:
            here = np.repeat(np.add.reduceat(counts, starts, axis=1), lengths, axis=1)
            scores.append((counts - here * share) * scale)
    return measure(scores, expected)


def _well_backed(blocks: _Blocks) -> _Blocks:
    """Put states together that few blocks have, and leave out what is still rare."""
    pooled = _regrouped(blocks, _is_rare(blocks))
    rare = _is_rare(pooled)
    kept = np.flatnonzero(~rare)
    of_cell = np.repeat(np.arange(len(pooled.starts)), pooled.lengths)[kept]
    useful = np.flatnonzero(np.bincount(of_cell, minlength=len(pooled.starts))[of_cell] > 1)
    kept, of_cell = kept[useful], of_cell[useful]
    old, new = ([window[:, kept] for window in group] for group in pooled.groups)
    return _Blocks((old, new), _starts(of_cell))


def _is_rare(blocks: _Blocks) -> npt.NDArray[np.bool_]:
    """Return which cells few blocks are expected to have in the smaller group."""
    starts, lengths = blocks.starts, blocks.lengths
    n_a, n_b = (np.add.reduceat(table, starts) for table in blocks.tables)
    smaller = divided(np.minimum(n_a, n_b), n_a + n_b)
    backing = np.sum(
        [np.count_nonzero(window, axis=0) for group in blocks.groups for window in group], axis=0
    )
    rare: npt.NDArray[np.bool_] = backing * np.repeat(smaller, lengths) < MIN_BACKING
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
    return _Blocks((old, new), _starts(of_cell[order][begins]))


def divided(value: Floats | Ints, by: Floats | Ints) -> Floats:
    """Divide; 0 where the divisor is 0."""
    shape = np.broadcast_shapes(value.shape, by.shape)
    return np.divide(value, by, out=np.zeros(shape), where=by != 0)
