"""Overdispersion: rows in sessions and bursts make counts vary more than independent rows would.

Every two-sample test that would reject is corrected for the design effect of its own statistic,
measured on blocks of neighbouring rows (METHOD.md, section 3). The module reads in this order: the
corrected p-value; the design effect of two groups of blocks; the scores of blocks for the states
of one field given others; the scores for the association of two fields given others.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftbn.drift.plan import n_configurations
from driftbn.kernels.deviance import (
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
    StateRoom,
    count_states,
    make_room,
    make_state_room,
    pair_scores,
    sum_states,
    write_cells,
)
from driftbn.learning.independence import BLOCK_ROWS, BLOCK_ROWS_MAX, BLOCKS_PER_EFFECT, Codes

RISE_ERRORS = 3.0  # standard errors by which newer rows must be more overdispersed than older ones
NO_VARIATION = 1e-9  # below this expected sum of squares each group has one state only
LARGE_EFFECT = 1.5  # from here on rows are taken to come in bursts
TOO_LARGE_EFFECT = 20.0  # above, a window of usual size has too few bursts to tell anything by
MIN_BACKING = 5.0  # blocks with a state that the smaller group must be expected to have
FEW_WINDOWS = 4  # older ones; fewer say too little of scatter, so longer blocks are looked at
MIN_LONG_BLOCKS = 6
KEPT_CELLS = 200_000  # of the sums kept for all pairs: eight megabytes


@dataclass(frozen=True)
class Dispersion:
    """How much more a test statistic varies than for independent rows.

    ``effect``: the design effect, at least 1: the statistic is this many times too large.
    ``concentration``: how far it is concentrated in few directions, from 1 to the degrees of
    freedom. ``blocks_dof``: degrees of freedom with which the effect was estimated. ``directions``:
    number of directions in which the scores vary. Where two fields nearly determine each other the
    sum of squares of the scores is far above the degrees of freedom of the test. It is concentrated
    then, and yet the test loses none of its degrees of freedom.
    """

    effect: float
    concentration: float
    blocks_dof: float
    directions: float = 1.0


def corrected_p_value(
    statistic: float, mean: float, variance: float, dispersion: Dispersion
) -> float:
    """Return the p-value of a statistic with this mean and variance under independent rows.

    The reference distribution is F: in the numerator the Satterthwaite degrees of freedom of the
    statistic, fewer the more its dispersion is concentrated; in the denominator those with which
    the design effect was estimated.
    """
    from scipy.special import fdtrc  # noqa: PLC0415 - a fifth of a second to import

    most_dof = 2.0 * mean * mean / variance
    dof = max(most_dof / dispersion.concentration, min(most_dof, dispersion.directions))
    ratio = max(statistic, 0.0) / (mean * dispersion.effect)  # rounding may leave it below
    return float(fdtrc(dof, dispersion.blocks_dof, ratio))


class BlockScores(ABC):
    """Centred contributions of blocks of rows to a test, over the windows of one group.

    ``expected``: expected sum of squares of the scores for independent rows, which is that of
    single rows. ``n_compared``: rows that have a part in the test.
    """

    def __init__(self, n_rows: Sequence[int], expected: float, n_compared: int) -> None:
        self.n_rows = n_rows
        self.expected = expected
        self.n_compared = n_compared
        self._known: dict[int, float] = {}

    def n_blocks(self, length: int) -> int:
        """Return the number of blocks of this many rows; none spans two windows."""
        return sum([-(-n // length) for n in self.n_rows])

    def squares(self, length: int) -> float:
        """Return the sum of squares of the scores of blocks of this many rows."""
        if length not in self._known:
            self._known[length] = self._squares(length)
        return self._known[length]

    @abstractmethod
    def _squares(self, length: int) -> float:
        """Compute ``squares``; called once for each length."""

    @abstractmethod
    def scores(self, length: int) -> Floats:
        """Return the scores of blocks of this many rows, ``[blocks, cells]``."""


class TwoSampleDispersion:
    """The dispersion of a test that compares two groups of windows.

    It is estimated on both groups pooled, unless the newer rows are clearly more overdispersed than
    the older ones. Then each group is weighted by the size of the other, as in the variance of a
    difference of two means, and the degrees of freedom come from the newer blocks only.
    """

    def __init__(self, older: BlockScores, newer: BlockScores) -> None:
        self._older = older
        self._newer = newer
        self._longer = len(older.n_rows) < FEW_WINDOWS

    @cached_property
    def _pooled(self) -> _Blocks:
        return _Blocks.long_enough(self._older, self._newer, longer=self._longer)

    @cached_property
    def _rise(self) -> tuple[_Blocks, _Blocks] | None:
        """The blocks of each group by itself, if the newer are clearly more overdispersed."""
        if min(self._older.expected, self._newer.expected) < NO_VARIATION:
            return None
        before, after = (
            _Blocks.long_enough(group, longer=self._longer) for group in (self._older, self._newer)
        )

        def is_clear(dof: float) -> bool:
            error = float(np.sqrt(2.0 / dof))
            return after.effect > before.effect * (1.0 + RISE_ERRORS * error)

        # The dearer number only where the cheaper upper limit of it does not settle the question.
        if is_clear(after.most_dof) and is_clear(after.dispersion.blocks_dof):
            return before, after
        return None

    @cached_property
    def effect(self) -> float:
        """The design effect, at least 1."""
        if self._rise is None:
            return self._pooled.effect
        before, after = self._rise
        n_older, n_newer = self._older.n_compared, self._newer.n_compared
        crosswise = before.effect * n_newer + after.effect * n_older
        return max(self._pooled.effect, crosswise / (n_older + n_newer))

    @cached_property
    def dispersion(self) -> Dispersion:
        """Effect, concentration and degrees of freedom; concentration takes most of the time."""
        pooled = self._pooled.dispersion
        if self._rise is None:
            return pooled
        risen = self._rise[1].dispersion
        return Dispersion(
            effect=self.effect,
            concentration=max(risen.concentration, pooled.concentration),
            blocks_dof=min(risen.blocks_dof, pooled.blocks_dof),
            directions=min(risen.directions, pooled.directions),
        )

    def p_value(
        self,
        statistics: tuple[float, float, float],
        exact_to: float,
        scattered: Callable[[float], float] = lambda _: 0.0,
    ) -> tuple[float, float]:
        """Return the corrected p-value of a statistic and its design effect.

        ``statistics``: the statistic with its mean and variance for independent rows.
        ``scattered``: the p-value of scatter beyond a design effect; the larger one counts. Lower
        limits of the p-value come first, each dearer than the one before. As soon as one is above
        ``exact_to`` it is returned: the rest could only raise it further. (A p-value above 0.1 may
        be lowered by concentration, but stays above 0.1.)
        """
        for lower_limit in (self._of_older_blocks, self._of_pooled_blocks, self._of_each_group):
            dispersion = lower_limit()
            p = corrected_p_value(*statistics, dispersion)
            if p > exact_to:
                return p, dispersion.effect
        p = scattered(self.effect)
        if p <= exact_to:
            p = max(p, corrected_p_value(*statistics, self.dispersion))
        return p, self.effect

    def _of_older_blocks(self) -> Dispersion:
        """Return what the older blocks show, as if the newer ones added nothing.

        Longer blocks may show less than shorter ones, where neighbours vary in opposite directions.
        So this is a lower limit only if the shortest blocks are long enough whatever the newer
        scores are: by Cauchy-Schwarz, the squared sum of ``BLOCK_ROWS`` single scores is at most
        ``BLOCK_ROWS`` times the sum of their squares.
        """
        older, newer = self._older, self._newer
        blocks = _Blocks((older, newer), BLOCK_ROWS, 1.0)
        none = Dispersion(1.0, 1.0, blocks.most_dof)
        if older.expected + newer.expected < NO_VARIATION:
            return none
        squares = older.squares(BLOCK_ROWS)
        largest = _effect(squares + BLOCK_ROWS * newer.expected, blocks.groups, BLOCK_ROWS)
        if not _is_long_enough(BLOCK_ROWS, largest):
            return none
        effect = _effect(squares, blocks.groups, BLOCK_ROWS)
        return Dispersion(max(1.0, effect), 1.0, blocks.most_dof)

    def _of_pooled_blocks(self) -> Dispersion:
        return Dispersion(self._pooled.effect, 1.0, self._pooled.most_dof)

    def _of_each_group(self) -> Dispersion:
        return Dispersion(self.effect, 1.0, self._pooled.most_dof)


class _Blocks(NamedTuple):
    """Blocks of one length, and the design effect that they show."""

    groups: tuple[BlockScores, ...]
    length: int
    effect: float

    @classmethod
    def long_enough(cls, *groups: BlockScores, longer: bool) -> _Blocks:
        """Double the length of the blocks until they are long enough for their effect.

        Still ``longer`` ones are looked at where asked for.
        """
        length = BLOCK_ROWS
        if sum(group.expected for group in groups) < NO_VARIATION:
            return cls(groups, length, 1.0)
        while True:
            effect = _effect(sum(group.squares(length) for group in groups), groups, length)
            if _is_long_enough(length, effect):
                break
            length *= 2
        blocks = cls(groups, length, max(1.0, effect * (1.0 + (effect - 1.0) / (2.0 * length))))
        return blocks._or_longer() if longer else blocks

    def _or_longer(self) -> _Blocks:
        """Return longer blocks if they show a clearly larger effect: of modes that last longer."""
        best, groups, length = self, self.groups, 2 * self.length
        expected = sum(group.expected for group in groups)
        n_rows = min(min(group.n_rows) for group in groups)
        while length <= n_rows:
            n_blocks = sum(group.n_blocks(length) for group in groups)
            if n_blocks < MIN_LONG_BLOCKS:
                break
            effect = _effect(sum(group.squares(length) for group in groups), groups, length)
            if effect > best.effect * (1.0 + 2.0 * math.sqrt(2.0 / (n_blocks * expected))):
                best = _Blocks(groups, length, effect)
            length *= 2
        return best

    @property
    def _free(self) -> int:
        return max(sum(group.n_blocks(self.length) for group in self.groups) - 2, 1)

    @property
    def most_dof(self) -> float:
        """Degrees of freedom of the effect if nothing is concentrated."""
        return self._free * max(1.0, sum(group.expected for group in self.groups))

    @property
    def dispersion(self) -> Dispersion:
        expected = sum(group.expected for group in self.groups)
        if expected < NO_VARIATION:
            return Dispersion(1.0, 1.0, self._free)
        concentration = _concentration(
            np.concatenate([group.scores(self.length) for group in self.groups]), expected
        )
        directions = max(1.0, expected / concentration)
        return Dispersion(self.effect, concentration, self._free * directions, directions)


def _effect(squares: float, groups: tuple[BlockScores, ...], length: int) -> float:
    """Return the ratio of a sum of squares to the one expected for independent rows."""
    expected = sum(group.expected for group in groups)
    n_blocks = sum(group.n_blocks(length) for group in groups)
    return squares / expected * n_blocks / max(n_blocks - 2, 1)


def _is_long_enough(length: int, effect: float) -> bool:
    return length >= BLOCKS_PER_EFFECT * effect or length >= BLOCK_ROWS_MAX


def _concentration(scores: Floats, expected: float) -> float:
    own = np.einsum("bc,bc->b", scores, scores)
    total = float(np.sum(own))
    if total == 0.0:
        return 1.0
    scores = scores[:, scores.any(axis=0)]
    gram = scores @ scores.T if len(scores) < scores.shape[1] else scores.T @ scores
    crossed = float(np.sum(gram * gram) - np.sum(own * own))
    return float(np.clip(expected * crossed / total**2, 1.0, max(expected, 1.0)))


def _divided(value: Floats | Ints, by: Floats | Ints) -> Floats:
    return np.divide(value, by, out=np.zeros(np.broadcast(value, by).shape), where=by != 0)


class GroupRows(NamedTuple):
    """The rows of some windows, each as the number of its configuration and state."""

    cells: Counts
    n_rows: Sequence[int]  # of each window


class StateRows(NamedTuple):
    groups: tuple[GroupRows, GroupRows]  # the newer ones last
    n_configurations: int
    n_states: int
    largest_effect: float = 1.0  # of all fields in the newer rows


def corrected_state_test(
    rows: StateRows,
    statistics: Floats,
    logs: Floats,
    exact_to: float,
    scattered: Callable[[float], float] = lambda _: 0.0,
) -> tuple[float, float]:
    """Return p-value and design effect of the states of one field given others.

    Where the rows come in bursts, states that few blocks have are pooled, or left out: one burst
    more or less is no change.

    ``statistics``: deviance with its mean and variance for independent rows. ``logs``: values of n
    ln n. ``exact_to``: of a p-value above this only a lower limit is computed.
    """
    shape = rows.n_configurations, rows.n_states
    totals = [
        np.bincount(group.cells, minlength=shape[0] * shape[1]).reshape(shape)
        for group in rows.groups
    ]
    number, configuration = pool_rare_states(*totals)
    cells = Cells(number.astype(np.int32), configuration.astype(np.int32))
    blocks = _StateBlocks(rows.groups, cells)
    dispersion = blocks.dispersion
    effect = dispersion.effect
    if max(effect, rows.largest_effect) > LARGE_EFFECT:
        backed = _well_backed(
            blocks, MIN_BACKING if effect > LARGE_EFFECT else 0.0, rows.largest_effect
        )
        if backed.starts.size == 0:
            return 1.0, effect
        a, b = (np.ascontiguousarray(sums[:, K], np.int32) for sums in backed.sums)
        statistics = np.empty(4)
        compare_ragged(backed.starts, backed.lengths, a, b, logs, statistics)
        if statistics[VARIANCE] <= 0.0:
            return 1.0, effect
        dispersion = backed.dispersion
    value, mean, variance = statistics[:3].tolist()
    return dispersion.p_value((value, mean, variance), exact_to, scattered)


def pool_rare_states(a: Ints, b: Ints) -> tuple[Ints, Ints]:
    """Return for each cell its number once rare states are pooled, and their configurations.

    The rules are those of the deviance: a configuration with too few rows is left out (-1).
    """
    n_a, n_b = a.sum(axis=1), b.sum(axis=1)
    smaller = np.minimum(n_a, n_b)
    used = smaller >= MIN_ROWS
    least = MIN_EXPECTED * (n_a + n_b) / np.maximum(smaller, 1)
    rare = a + b < least[:, None]
    n_states = a.shape[1]
    target = np.arange(a.size).reshape(a.shape)
    firsts = np.argmax(rare, axis=1) + n_states * np.arange(len(a))
    target = np.where(rare, firsts[:, None], target)
    target[~used] = -1
    kept = np.unique(target[target >= 0])
    number = np.full(a.size + 1, -1)
    number[kept] = np.arange(len(kept))
    return number[target.ravel()], kept // n_states


@dataclass(frozen=True)
class _StateBlocks:
    """Sums over blocks of the rows of two groups, for cells numbered as given."""

    groups: tuple[GroupRows, GroupRows]
    cells: Cells

    @cached_property
    def dispersion(self) -> TwoSampleDispersion:
        return TwoSampleDispersion(_StateScores(self, 0), _StateScores(self, 1))

    @cached_property
    def begins(self) -> tuple[Ints, ...]:
        """Where the windows of each group begin, and the end."""
        return tuple(np.cumsum([0, *group.n_rows]) for group in self.groups)

    @cached_property
    def _room(self) -> StateRoom:
        return make_state_room(self.cells)

    def sums_of(self, group: int, length: int) -> Ints:
        out = np.zeros((len(self._room.cell), N_SUMS), np.int64)
        rows, begins = self.groups[group].cells, self.begins[group]
        sum_states(rows, begins, length, self.cells, self._room, out)
        return out

    @cached_property
    def sums(self) -> tuple[Ints, Ints]:
        return self.sums_of(0, BLOCK_ROWS), self.sums_of(1, BLOCK_ROWS)

    @cached_property
    def weight(self) -> Floats:
        older, newer = self.sums
        return np.asarray(1.0 / np.maximum(older[:, K] + newer[:, K], 1))

    @cached_property
    def starts(self) -> Ints:
        of_cell = self.cells.configuration
        first = np.ones(min(len(of_cell), 1), np.bool_)
        return np.flatnonzero(np.concatenate((first, of_cell[1:] != of_cell[:-1])))

    @cached_property
    def lengths(self) -> Ints:
        return np.append(self.starts[1:], len(self.cells.configuration)) - self.starts

    def whole(self, of_cells: Ints) -> Ints:
        """Return for each cell the sum over its configuration."""
        sums: Ints = np.add.reduceat(of_cells, self.starts).repeat(self.lengths)
        return sums

    def renumbered(self, number: Ints, configuration: Counts) -> _StateBlocks:
        """Return the same rows with other numbers of the cells, -1 for those left out."""
        new = np.append(number, -1).astype(np.int32)[self.cells.number]
        return _StateBlocks(self.groups, Cells(new, configuration))


class _StateScores(BlockScores):
    """U(s, j) = (n_b(s, j) - n_b(s) P(j | s)) / sqrt(n(s, j)) of each block b."""

    def __init__(self, blocks: _StateBlocks, group: int) -> None:
        self._blocks = blocks
        self._group = group
        table = blocks.sums[group][:, K]
        rows = blocks.whole(table)
        self._share = _divided(table, rows)
        expected = float(np.sum(table * (1.0 - self._share) * blocks.weight))
        super().__init__(blocks.groups[group].n_rows, expected, int(table.sum()))

    def _squares(self, length: int) -> float:
        blocks, group = self._blocks, self._group
        sums = blocks.sums[group] if length == BLOCK_ROWS else blocks.sums_of(group, length)
        squares = sums[:, KK] - 2.0 * self._share * sums[:, KN]
        squares += self._share**2 * blocks.whole(sums[:, KN])
        return max(float((squares * blocks.weight).sum()), 0.0)

    def scores(self, length: int) -> Floats:
        blocks, group = self._blocks, self._group
        counts = np.zeros((self.n_blocks(length), len(self._share)))
        rows, begins = blocks.groups[group].cells, blocks.begins[group]
        count_states(rows, begins, length, blocks.cells, counts)
        whole = np.add.reduceat(counts, blocks.starts, axis=1)
        counts -= np.repeat(whole, blocks.lengths, axis=1) * self._share
        counts *= np.sqrt(blocks.weight)
        return counts


def _well_backed(blocks: _StateBlocks, least: float, largest_effect: float) -> _StateBlocks:
    """Pool the states of a configuration that few blocks have; leave out what is still rare."""
    rare = _is_rare(blocks, least, largest_effect)
    if rare.any():
        blocks = _rare_pooled(blocks, rare)
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

    The newer rows say little of the dispersion of a rare state that few of their blocks have, fewer
    than expected: it is taken to be as overdispersed as the most overdispersed field.
    """
    older, newer = blocks.sums
    n_a, n_b = (blocks.whole(sums[:, K]) for sums in blocks.sums)
    both = older[:, K] + newer[:, K]
    backing = (older[:, BLOCKS] + newer[:, BLOCKS]) * _divided(np.minimum(n_a, n_b), n_a + n_b)
    rows = both * _divided(n_b, n_a + n_b)
    hidden = (newer[:, BLOCKS] < MIN_BACKING) & (rows < MIN_BACKING * largest_effect)
    hidden &= (newer[:, K] < rows) & (2.0 * both < n_a + n_b)
    rare: npt.NDArray[np.bool_] = (backing < least) | hidden
    return rare


def _rare_pooled(blocks: _StateBlocks, rare: npt.NDArray[np.bool_]) -> _StateBlocks:
    """Return the same rows with the rare cells of each configuration as one, the last."""
    of_cell = blocks.cells.configuration
    order = np.lexsort((rare, of_cell))
    of_cell, rare = of_cell[order], rare[order]
    same = (of_cell[1:] == of_cell[:-1]) & rare[1:] & rare[:-1]
    begins = np.concatenate(([True], ~same))
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(begins) - 1
    return blocks.renumbered(number, of_cell[begins])


PairKey = tuple[tuple[int, ...], int]  # members and block length


class _Moments(NamedTuple):
    n_windows: int  # how many windows, the first ones, are summed
    values: Ints


class _Cache:
    """Moments of the pairs asked for; the least recently used are dropped."""

    def __init__(self) -> None:
        self._moments: dict[PairKey, _Moments] = {}
        self._n_cells = 0

    def pop(self, key: PairKey) -> _Moments | None:
        moments = self._moments.pop(key, None)
        if moments is not None:
            self._n_cells -= len(moments.values)
        return moments

    def keep(self, key: PairKey, moments: _Moments) -> None:
        self._moments[key] = moments
        self._n_cells += len(moments.values)
        while self._n_cells > KEPT_CELLS and len(self._moments) > 1:
            self.pop(next(iter(self._moments)))


class BlockSums:
    """Sums over blocks of rows of some windows.

    They are integers, so that it makes no difference which were kept and which are summed again.

    ``windows``: the rows, each ``[variables, rows]``. ``earlier``: sums whose cache is taken over,
    if their windows are the first of these and their levels the same.
    """

    def __init__(
        self, windows: Sequence[Codes], cards: Ints, earlier: BlockSums | None = None
    ) -> None:
        self.windows = tuple(windows)
        self.cards = cards
        self._kept = _Cache()
        if earlier is not None and self._continues(earlier):
            self._kept, earlier._kept = earlier._kept, self._kept

    def _continues(self, earlier: BlockSums) -> bool:
        n_same = sum(a is b for a, b in zip(earlier.windows, self.windows, strict=False))
        return n_same == len(earlier.windows) and np.array_equal(earlier.cards, self.cards)

    @cached_property
    def n_rows(self) -> tuple[int, ...]:
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
        """Return the moments of a pair, the last two members, given the others; read only."""
        key = members, length
        kept = self._kept.pop(key)
        if kept is None:
            n_cells = n_configurations(self.cards, members)
            kept = _Moments(0, np.zeros((n_cells, N_MOMENTS), np.int64))
        if kept.n_windows < len(self.windows):
            kept = self._with_later(kept, members, length)
        self._kept.keep(key, kept)
        return kept.values

    def _with_later(self, kept: _Moments, members: tuple[int, ...], length: int) -> _Moments:
        """Return the moments with the windows they lack, in an array of their own."""
        moments = kept.values.copy()
        n_x, n_y = self.cards[list(members[-2:])].tolist()
        room = make_moment_room(n_configurations(self.cards, members[:-2]), n_x, n_y, length)
        for codes in self.windows[kept.n_windows :]:
            add_pair_moments(codes, np.array(members), self.cards, length, room, moments)
        return _Moments(len(self.windows), moments)


class CombinedSums(BlockSums):
    """Sums over windows, computed from sums that are known.

    ``added``: sums that together have all the windows. ``subtracted``: sums of the windows that
    they have besides.
    """

    def __init__(
        self,
        windows: Sequence[Codes],
        cards: Ints,
        added: Sequence[BlockSums],
        subtracted: Sequence[BlockSums] = (),
    ) -> None:
        super().__init__(windows, cards)
        self._added = tuple(added)
        self._subtracted = tuple(subtracted)

    def of_pair(self, members: tuple[int, ...], length: int) -> Ints:
        """Return the moments of a pair, the last two members, given the others."""
        total = self._added[0].of_pair(members, length).copy()
        for sums in self._added[1:]:
            total += sums.of_pair(members, length)
        for sums in self._subtracted:
            total -= sums.of_pair(members, length)
        return total


class PairScores(BlockScores):
    """Contributions of blocks to the interaction of two fields with the groups.

    U(s, i, j) = (n_b(s, i, j) - P(i | s) n_b(s, j) - P(j | s) n_b(s, i)
    + (2 P(i | s) P(j | s) - P(i, j | s)) n_b(s)) sqrt(n(s) / (n(s, i) n(s, j))) of each block b.

    ``members``: the fields; the last two are the pair. ``table``: counts of all windows, ``[strata,
    x, y]``. ``other``: counts of the group they are compared with.
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
        cells, begins = self._sums.cells(self._members), np.cumsum([0, *self.n_rows])
        room = make_room(*self._table.shape)
        out = np.zeros((self.n_blocks(length), self._table.size))
        pair_scores(cells, begins, length, self._shares(), room, out)
        return out

    def _shares(self) -> PairShares:
        table, both = self._table.astype(np.float64), (self._table + self._other).astype(np.float64)
        n = table.sum((1, 2), keepdims=True)
        first = _divided(table.sum(2, keepdims=True), n)
        second = _divided(table.sum(1, keepdims=True), n)
        constant = 2.0 * first * second - _divided(table, n)
        margins = both.sum(2, keepdims=True) * both.sum(1, keepdims=True)
        weight = np.sqrt(_divided(both.sum((1, 2), keepdims=True), margins))
        weight *= (n > 0) & (self._other.sum((1, 2), keepdims=True) > 0)
        shares = first[:, :, 0], second[:, 0], constant, weight
        return PairShares(*map(np.ascontiguousarray, shares))


def pair_dispersion(
    sums: tuple[BlockSums, BlockSums], members: tuple[int, ...], tables: tuple[Counts, Counts]
) -> TwoSampleDispersion:
    """Return the dispersion of how the last two members are associated given the others.

    ``members``: the fields; the last two are the pair. ``tables``: counts of both groups,
    ``[strata, x, y]``.
    """
    a, b = tables
    return TwoSampleDispersion(
        PairScores(sums[0], members, a, b), PairScores(sums[1], members, b, a)
    )
