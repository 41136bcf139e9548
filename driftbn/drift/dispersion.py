"""Rows that come in sessions and bursts: how much more their counts vary than if independent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftbn.drift.plan import divided, n_configurations
from driftbn.kernels.deviance import (
    MIN_BOTH,
    MIN_EXPECTED,
    MIN_ROWS,
    N_MOMENTS,
    VARIANCE,
    add_pair_moments,
    compare_ragged,
    expected_squares,
    make_margins,
    make_moment_room,
    pair_squares,
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
    PairShares,
    count_states,
    make_room,
    make_state_room,
    pair_scores,
    sum_states,
    write_cells,
)
from driftbn.learning.independence import ChiSquareTest, Codes

BLOCK_ROWS = 64  # one word of a bit set
BLOCK_ROWS_MAX = 512
CLEARLY = 3.0  # standard errors by which newer rows must be burstier to be taken for it
BLOCKS_PER_EFFECT = 4  # blocks grow until they are this many times as long as the effect
NO_SPREAD = 1e-9  # each group has one state only: blocks have nothing to say


@dataclass(frozen=True)
class Dependence:
    """What blocks of rows say of one test.

    Parameters
    ----------
    effect
        The design effect, at least 1: the statistic is this many times too large.
    concentration
        How much of it comes from few directions, from 1 to the degrees of freedom.
    blocks_dof
        Degrees of freedom with which the effect is known.
    directions
        In how many directions the scores vary. Where two fields nearly determine each other, their
        sum of squares is far above the degrees of freedom of the test: then it is concentrated
        without any of these being lost.
    """

    effect: float
    concentration: float
    blocks_dof: float
    directions: float = 1.0


def corrected_p_value(
    statistic: float, mean: float, variance: float, dependence: Dependence
) -> float:
    """Return the p-value of a statistic with this mean and variance for independent rows."""
    from scipy.special import fdtrc  # noqa: PLC0415 - a fifth of a second to import

    most_dof = 2.0 * mean * mean / variance
    dof = max(most_dof / dependence.concentration, min(most_dof, dependence.directions))
    ratio = max(statistic, 0.0) / (mean * dependence.effect)  # rounding may leave it below
    return float(fdtrc(dof, dependence.blocks_dof, ratio))


class BlockScores(ABC):
    """What blocks of the rows of some windows add to a test, centred.

    Parameters
    ----------
    n_rows
        Rows of each window.
    expected
        The sum of squares of the scores for independent rows, which is that of single rows.
    n_compared
        Rows that have a part in the test.
    """

    def __init__(self, n_rows: Sequence[int], expected: float, n_compared: int) -> None:
        self.n_rows = n_rows
        self.expected = expected
        self.n_compared = n_compared
        self._known: dict[int, float] = {}

    def n_blocks(self, length: int) -> int:
        """Return the number of blocks of so many rows; none has rows of two windows."""
        return sum([-(-n // length) for n in self.n_rows])

    def squares(self, length: int) -> float:
        """Return the sum of squares of the scores of blocks of so many rows."""
        if length not in self._known:
            self._known[length] = self._squares(length)
        return self._known[length]

    @abstractmethod
    def _squares(self, length: int) -> float:
        """Compute ``squares``; called once for each length."""

    @abstractmethod
    def scores(self, length: int) -> Floats:
        """Return the scores of blocks of so many rows, ``[blocks, cells]``."""


class DependenceOfGroups:
    """The dependence in two groups of windows that are compared.

    The two are taken together, unless newer rows are clearly burstier than older ones. Then each
    group counts by the size of the other, as in the variance of a difference of two means, and
    what is known of the dependence comes from the newer blocks only.

    Parameters
    ----------
    older, newer
        What their blocks add to the test.
    """

    def __init__(self, older: BlockScores, newer: BlockScores) -> None:
        self._older = older
        self._newer = newer

    @cached_property
    def _together(self) -> _Blocks:
        return _Blocks.long_enough(self._older, self._newer)

    @cached_property
    def _risen(self) -> tuple[_Blocks, _Blocks] | None:
        return _risen(self._older, self._newer)

    @cached_property
    def effect(self) -> float:
        """The design effect, at least 1."""
        if self._risen is None:
            return self._together.effect
        before, after = self._risen
        n_older, n_newer = self._older.n_compared, self._newer.n_compared
        crosswise = before.effect * n_newer + after.effect * n_older
        return max(self._together.effect, crosswise / (n_older + n_newer))

    @cached_property
    def dependence(self) -> Dependence:
        """All of it; how concentrated it is takes most of the time."""
        pooled = self._together.dependence
        if self._risen is None:
            return pooled
        risen = self._risen[1].dependence
        return Dependence(
            effect=self.effect,
            concentration=max(risen.concentration, pooled.concentration),
            blocks_dof=min(risen.blocks_dof, pooled.blocks_dof),
            directions=min(risen.directions, pooled.directions),
        )

    def p_value(
        self, statistic: float, mean: float, variance: float, most: float
    ) -> tuple[float, float]:
        """Return the corrected p-value of a statistic and its design effect.

        Both are measured no further than until the p-value is above ``most``: what newer rows add,
        whether they are burstier, and how concentrated it all is, could only raise them. (A
        p-value above 0.1 may be lowered by concentration, but stays above it.)
        """
        for measured in (self._of_older, self._of_both, self._of_each):
            lightest = measured()
            least = corrected_p_value(statistic, mean, variance, lightest)
            if least > most:
                return least, lightest.effect
        return corrected_p_value(statistic, mean, variance, self.dependence), self.effect

    def _of_older(self) -> Dependence:
        """Return what older blocks alone make of it, as if newer ones added nothing.

        Longer blocks may show less than these, where neighbours go opposite ways: older ones count
        only if, whatever the newer ones are, no longer blocks are asked for. The square of a sum
        is at most as many times the sum of squares as it has terms.
        """
        older, newer = self._older, self._newer
        blocks = _Blocks((older, newer), BLOCK_ROWS, 1.0)
        if older.expected + newer.expected < NO_SPREAD:
            return Dependence(1.0, 1.0, blocks.most_dof)
        least = older.squares(BLOCK_ROWS)
        most = _effect(least + BLOCK_ROWS * newer.expected, blocks.groups, BLOCK_ROWS)
        if not _is_long_enough(BLOCK_ROWS, most):
            return Dependence(1.0, 1.0, blocks.most_dof)
        effect = _effect(least, blocks.groups, BLOCK_ROWS)
        return Dependence(max(1.0, effect), 1.0, blocks.most_dof)

    def _of_both(self) -> Dependence:
        return Dependence(self._together.effect, 1.0, self._together.most_dof)

    def _of_each(self) -> Dependence:
        return Dependence(self.effect, 1.0, self._together.most_dof)


class _Blocks(NamedTuple):
    """Blocks that are long enough for their effect."""

    groups: tuple[BlockScores, ...]
    length: int
    effect: float

    @classmethod
    def long_enough(cls, *groups: BlockScores) -> _Blocks:
        """Make blocks longer until they are long enough."""
        length = BLOCK_ROWS
        if sum(group.expected for group in groups) < NO_SPREAD:
            return cls(groups, length, 1.0)
        while True:
            effect = _effect(sum(group.squares(length) for group in groups), groups, length)
            if _is_long_enough(length, effect):
                break
            length *= 2
        return cls(groups, length, max(1.0, effect * (1.0 + (effect - 1.0) / (2.0 * length))))

    @property
    def _free(self) -> int:
        return max(sum(group.n_blocks(self.length) for group in self.groups) - 2, 1)

    @property
    def most_dof(self) -> float:
        """Degrees of freedom if nothing is concentrated."""
        return self._free * max(1.0, sum(group.expected for group in self.groups))

    @property
    def dependence(self) -> Dependence:
        expected = sum(group.expected for group in self.groups)
        if expected < NO_SPREAD:
            return Dependence(1.0, 1.0, self._free)
        concentration = _concentration(
            np.concatenate([group.scores(self.length) for group in self.groups]), expected
        )
        directions = max(1.0, expected / concentration)
        return Dependence(self.effect, concentration, self._free * directions, directions)


def _effect(squares: float, groups: tuple[BlockScores, ...], length: int) -> float:
    """Return how many times as large as for independent rows a sum of squares of blocks is."""
    expected = sum(group.expected for group in groups)
    n_blocks = sum(group.n_blocks(length) for group in groups)
    return squares / expected * n_blocks / max(n_blocks - 2, 1)


def _is_long_enough(length: int, effect: float) -> bool:
    return length >= BLOCKS_PER_EFFECT * effect or length >= BLOCK_ROWS_MAX


def _risen(older: BlockScores, newer: BlockScores) -> tuple[_Blocks, _Blocks] | None:
    """Return the blocks of each group by itself, if those of the newer are clearly burstier."""
    if min(older.expected, newer.expected) < NO_SPREAD:
        return None
    before, after = _Blocks.long_enough(older), _Blocks.long_enough(newer)

    def is_clear(dof: float) -> bool:
        return after.effect > before.effect * (1.0 + CLEARLY * float(np.sqrt(2.0 / dof)))

    if is_clear(after.most_dof) and is_clear(after.dependence.blocks_dof):
        return before, after
    return None


def _concentration(scores: Floats, expected: float) -> float:
    own = np.einsum("bc,bc->b", scores, scores)
    total = float(np.sum(own))
    if total == 0.0:
        return 1.0
    scores = scores[:, scores.any(axis=0)]
    gram = scores @ scores.T if len(scores) < scores.shape[1] else scores.T @ scores
    crossed = float(np.sum(gram * gram) - np.sum(own * own))
    return float(np.clip(expected * crossed / total**2, 1.0, max(expected, 1.0)))


def design_effects(test: ChiSquareTest) -> Floats:
    """Return for each variable how much more its counts vary than those of independent rows.

    It is 1 unless it is two standard errors above 1.
    """
    evidence = test.evidence
    n_rows = test.n_rows
    n_words = -(-n_rows // BLOCK_ROWS)
    first = evidence.first[:-1]
    n_levels = np.diff(evidence.first)
    counts = np.bitwise_count(evidence.bits[:, :n_words]).astype(np.float64)
    rows = np.full(n_words, float(BLOCK_ROWS))
    rows[-1] = n_rows - BLOCK_ROWS * (n_words - 1)
    share = evidence.totals[:, None] / n_rows
    scores = (counts - rows * share) / np.sqrt(evidence.totals[:, None])
    expected = np.maximum(n_levels - 1, 1)
    effects = np.ones(len(n_levels))
    open_ones = n_levels > 1
    length = BLOCK_ROWS
    while True:
        n_blocks = scores.shape[1]
        total = np.add.reduceat(np.sum(scores * scores, axis=1), first)
        now = total / expected * n_blocks / max(n_blocks - 2, 1)
        error = np.sqrt(2.0 / (n_blocks * expected))
        found = np.where(now > 1.0 + 2.0 * error, now * (1.0 + (now - 1.0) / (2.0 * length)), 1.0)
        effects = np.where(open_ones, np.maximum(found, 1.0), effects)
        open_ones &= length < BLOCKS_PER_EFFECT * now
        if length >= BLOCK_ROWS_MAX or not open_ones.any() or n_blocks < 8:
            return effects
        scores = np.add.reduceat(scores, np.arange(0, n_blocks, 2), axis=1)
        length *= 2


# Sums over blocks of rows of some windows, kept for the next test that asks for them.

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


# How two fields go together given others, where rows come in bursts.


class PairScores(BlockScores):
    """What blocks of rows add to the interaction of two fields with the groups.

    Parameters
    ----------
    sums
        Over the blocks of the windows.
    members
        The fields; the last two are the pair.
    table
        The rows of all windows, ``[strata, x, y]``.
    other
        The rows that they are compared with.
    """

    def __init__(
        self, sums: BlockSums, members: tuple[int, ...], table: Counts, other: Counts
    ) -> None:
        self._sums = sums
        self._members = members
        self._table = table
        self._other = other
        self._margins = make_margins(*table.shape[1:])
        expected = expected_squares(*self._flat(), self._margins)
        super().__init__(sums.n_rows, expected, sum(sums.n_rows))

    def _flat(self) -> tuple[Counts, Counts, int, int]:
        return self._table.ravel(), self._other.ravel(), *self._table.shape[1:]

    def _squares(self, length: int) -> float:
        moments = self._sums.of_pair(self._members, length)
        return pair_squares(*self._flat(), moments, self._margins)

    def scores(self, length: int) -> Floats:
        """Return ``[blocks, cells]``."""
        cells, begins = self._sums.cells(self._members), np.cumsum([0, *self.n_rows])
        room = make_room(*self._table.shape)
        out = np.zeros((self.n_blocks(length), self._table.size))
        pair_scores(cells, begins, length, self._shares(), room, out)
        return out

    def _shares(self) -> PairShares:
        table, both = self._table.astype(np.float64), (self._table + self._other).astype(np.float64)
        n = table.sum((1, 2), keepdims=True)
        first = divided(table.sum(2, keepdims=True), n)
        second = divided(table.sum(1, keepdims=True), n)
        constant = 2.0 * first * second - divided(table, n)
        margins = both.sum(2, keepdims=True) * both.sum(1, keepdims=True)
        weight = np.sqrt(divided(both.sum((1, 2), keepdims=True), margins))
        weight *= (n > 0) & (self._other.sum((1, 2), keepdims=True) > 0)
        shares = first[:, :, 0], second[:, 0], constant, weight
        return PairShares(*map(np.ascontiguousarray, shares))


def dependence_of_pair(
    sums: tuple[BlockSums, BlockSums], members: tuple[int, ...], tables: tuple[Counts, Counts]
) -> DependenceOfGroups:
    """Measure the dependence in how two fields go together, in two groups of windows.

    Parameters
    ----------
    sums
        Over the blocks of both groups.
    members
        The fields; the last two are the pair, the others are given.
    tables
        Counts of both groups, ``[strata, x, y]``.
    """
    a, b = tables
    return DependenceOfGroups(
        PairScores(sums[0], members, a, b), PairScores(sums[1], members, b, a)
    )


# States of one field given others, where rows come in bursts.

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
class _StateBlocks:
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

    def renumbered(self, number: Ints, configuration: Counts) -> _StateBlocks:
        """Return the same rows with other numbers of the cells, -1 for those left out."""
        new = np.append(number, -1).astype(np.int32)[self.cells.number]
        return _StateBlocks(self.groups, Cells(new, configuration))


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
    blocks = _StateBlocks(rows.groups, cells)
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

    def __init__(self, blocks: _StateBlocks, group: int) -> None:
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


def _dependence(blocks: _StateBlocks) -> DependenceOfGroups:
    return DependenceOfGroups(_StateScores(blocks, 0), _StateScores(blocks, 1))


def _well_backed(blocks: _StateBlocks, least: float, largest_effect: float) -> _StateBlocks:
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


def _is_rare(blocks: _StateBlocks, least: float, largest_effect: float) -> npt.NDArray[np.bool_]:
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


def _regrouped(blocks: _StateBlocks, rare: npt.NDArray[np.bool_]) -> _StateBlocks:
    """Return the same rows with the rare cells of each configuration as one, the last."""
    of_cell = blocks.cells.configuration
    order = np.lexsort((rare, of_cell))
    of_cell, rare = of_cell[order], rare[order]
    same = (of_cell[1:] == of_cell[:-1]) & rare[1:] & rare[:-1]
    begins = np.concatenate(([True], ~same))
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(begins) - 1
    return blocks.renumbered(number, of_cell[begins])
