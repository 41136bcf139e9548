"""Facts of single fields: what is plain to see of a window, and was never so before.

They are no tests and have no level. Each fact has a size, and is told if that is beyond everything
in the field's own past (METHOD.md, section 9). They are said whatever the tests say: a field that
stands still or is empty leaves no relation to test. All of them are made of codes, so that they are
the same whichever way a record came; the codes of numbers are fine enough for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftbn.kernels.counting import N_PARTS
from driftbn.kernels.evidence import Floats, Ints
from driftbn.kernels.sequences import UNKNOWN, count_repeated, follow_moves, make_slots
from driftbn.learning import LearnedWindow
from driftbn.learning.independence import Codes
from driftbn.tables.schema import Schema
from driftbn.windows.buffer import Window

FIRST_TOLD, FIRST_SOFT = 4, 8  # windows before nothing is told, or what needs a longer past
LEAST_ROWS = 50  # of a window of which anything is told
REMEMBERED = 24  # windows that a window is compared with
RECENT = 8  # windows that standing still and roughness are compared with
SHORT_PAST = 8.0  # windows: with so many, sizes must be twice as large as with a long past
NEVER_CONSTANT = 0.1  # share of rows that never had the commonest value
CONSTANT_SHARE = 0.1  # of the fewest such rows ever: at most so many are left
MISSING_RISE = 0.05
MISSING_WINDOWS = 16
MOSTLY_MISSING = 0.5  # nothing else is said of a field that is
NEW_SHARE, NEW_ROWS = 0.002, 3
NEW_SHARE_OF_CONSTANT = 0.1  # where the field had one value nearly always
NEARLY_CONSTANT = 0.98
OTHERS_RISE = 0.05  # of the share of values that were too rare to be levels
BETWEEN_SHARE = 0.15  # of numbers that are no multiples, where all were at first
BETWEEN_RISE = 4.0  # times the most ever
LOST_SHARE = 0.1
OUTSIDE_SHARE = 0.05
OUTSIDE_BY = 0.25  # of the range so far
QUANTILES = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
UNUSUAL_QUANTILES = 2  # that must be beyond all of theirs
UNUSUAL_WIDTHS = 1.5  # of what they had so far
LEAST_LATER = 2  # windows after the numbers moved, to be compared with
LEAST_WIDTH = 0.1  # of the distance of the outermost quantiles
ALIKE = 0.7  # of how much any two rows differ neighbours do at most, where they are called alike
ROUGH_RISE = 0.2  # and the range so far
ROUGH_WINDOWS = 4  # of the recent ones in which it could be measured, at least
LEAST_VARIED = 0.02  # of any two rows so many differ: below, nothing is said of neighbours
VARIED_STEPS = 256
STRETCH, STRETCH_MOVES = 32, 10  # rows that come again, and how many differ from the one before
REPEATED_SHARE = 0.03
CYCLE_LEVELS, CYCLES = 3, 4  # of a field that always goes on in the same way, at least
STRAYED = 0.02  # records of a clock that are not what the hour says
HOURS, SECONDS_OF_HOUR, SECONDS_OF_DAY = 24, 3600, 86_400
SLOW = 0.01  # neighbours that differ: calendars and counters have no more
RISING = 0.002  # neighbours that fall: counters have no more
_SAFELY = 1024.0  # ends of cells are divided by it, so that no difference of them is infinite

Flags = npt.NDArray[np.bool_]


class FactKind(StrEnum):
    """What is plain to see of a field."""

    CONSTANT = "constant"
    """It has one value in nearly all records, and never had."""
    CLOCK = "clock"
    """It no longer follows from the hour of the day, and always did."""
    JUMPED = "jumped"
    """It went on elsewhere than always: records are missing, or a clock was set."""
    REPEATED = "repeated"
    """Values come again in the order in which they came before."""
    MISSING = "missing"
    """More records lack it than ever."""
    NEW_LEVEL = "new_level"
    """It has values that were never there before, in more records than usual."""
    LOST_LEVEL = "lost_level"
    """A common value that every window had is gone."""
    OUTSIDE = "outside"
    """Numbers lie far beyond everything that was ever there."""
    UNUSUAL = "unusual"
    """Numbers as a whole lie elsewhere, by more than they ever moved."""
    ROUGH = "rough"
    """Neighbouring records, which were always alike, are so no more."""


ELSEWHERE = (FactKind.LOST_LEVEL, FactKind.OUTSIDE, FactKind.UNUSUAL)
SOFT = (*ELSEWHERE, FactKind.ROUGH)


@dataclass(frozen=True)
class Fact:
    """A fact of one field: ``share`` of the records now, and in the window nearest to it before."""

    field: str
    kind: FactKind
    share: float
    before: float


@dataclass(frozen=True, eq=False)
class FieldKinds:
    """What the codes of each field mean.

    ``scales``: the fields whose codes are levels of cells of numbers; the others are nominal.
    ``whole``: whether their numbers were multiples of a step at first. ``low``, ``high``: the ends
    of each cell, divided by a number so that no difference is infinite. ``n_codes``: as many as the
    field with the most has.
    """

    names: tuple[str, ...]
    n_codes: int
    missing: Ints
    pooled: Flags
    scales: Ints
    whole: Flags  # [scales]
    low: Floats  # [scales, cells]
    high: Floats  # [scales, cells]

    @classmethod
    def of(cls, schema: Schema) -> FieldKinds:
        variables = schema.variables
        scales = [one for one in variables if one.scale]
        width = max((len(one.edges) + 1 for one in scales), default=1)
        ends = np.zeros((2, len(scales), width))
        for v, one in enumerate(scales):
            edges = (one.edges[0], *one.edges, one.edges[-1])
            ends[:, v, : len(edges) - 1] = edges[:-1], edges[1:]
        return cls(
            names=schema.names,
            n_codes=max((one.cardinality for one in variables), default=0),
            missing=np.array([one.missing_code for one in variables], np.int64),
            pooled=np.array([one.pooled for one in variables], np.bool_),
            scales=np.flatnonzero([one.scale > 0 for one in variables]),
            whole=np.array([one.whole for one in scales], np.bool_),
            low=ends[0] / _SAFELY,
            high=ends[1] / _SAFELY,
        )


class Measures(NamedTuple):
    """What is measured of each field, or of each with a scale, in a window; or in several."""

    rest: Floats  # share of the rows without the commonest value
    missing: Floats
    gaps: Floats  # stretches of rows without it, as a share of the rows
    new: Floats  # share of the rows with values that are none of the levels
    unlike: Floats  # share of the rows that differ from the row before
    rough: Floats  # how much neighbours differ, any two rows being 1
    varied: Floats  # how much any two rows do
    falling: Floats  # scales: share of the rows below the row before
    between: Floats  # scales: share of the rows with numbers that are no multiples
    outside: Floats  # scales: share of the rows beyond the range so far
    repeated: Floats  # share of the rows that end a stretch which was there before
    moves: Floats  # rows that differ from the row before, which may be of the window before
    broken: Floats  # of these, moves to another value than always
    within: Floats  # of these, moves between two records of one day, or of an unknown one
    strayed: Floats  # share of the rows with another value than usual at this hour
    quantiles: Floats  # scales, [scales, quantiles]


@dataclass(frozen=True, eq=False)
class FieldHistory:
    """What the fields were like in the newest windows, the oldest first.

    ``past``: the measures, each with a row a window. ``rarest``: the smallest share of each code in
    all windows but the newest, ``newest`` that in the newest. ``range``: the lowest and the highest
    cell of each scale ever, but for the newest window, which has ``newest_range``. ``hours``: the
    commonest code at each hour of the day, likewise. ``following``: which code always came after
    each. ``moved_at``: the number of the newest window in which each scale lay elsewhere than ever,
    -1 if none did. ``rows``: the newest window, up to ``last_record`` on ``last_day``.
    A window is compared with all but the newest: a fault that begins inside a window must not make
    itself usual.
    """

    past: Measures
    rarest: Floats  # [fields, codes]
    newest: Floats
    range: Ints  # [2, scales]
    newest_range: Ints
    hours: Ints  # [fields, 24]
    newest_hours: Ints
    following: Ints  # [fields, codes]
    moved_at: Ints  # [scales]
    rows: Codes
    last_record: int = -1
    last_day: int | None = None
    n_windows: int = 0

    @classmethod
    def empty(cls, kinds: FieldKinds) -> FieldHistory:
        n_fields, n_scales = len(kinds.names), len(kinds.scales)
        fields, scales = np.zeros((0, n_fields)), np.zeros((0, n_scales))
        quantiles = np.zeros((0, n_scales, len(QUANTILES)))
        shares, ends = np.ones((n_fields, kinds.n_codes)), np.repeat([[255], [0]], n_scales, axis=1)
        past = Measures(
            *(fields, fields, fields, fields, fields, fields, fields, scales, scales, scales),
            *(fields, fields, fields, fields, fields, quantiles),
        )
        hours, following = (np.full((n_fields, n), UNKNOWN) for n in (HOURS, kinds.n_codes))
        moved_at, rows = np.full(n_scales, -1), np.zeros((n_fields, 0), np.uint8)
        return cls(past, shares, shares, ends, ends, hours, hours, following, moved_at, rows)

    def with_window(
        self, rows: LearnedWindow, kinds: FieldKinds, n_new: Mapping[str, int], taken: Window
    ) -> tuple[FieldHistory, tuple[Fact, ...]]:
        """Return the history with one more window, and what is new about it."""
        if not kinds.names or rows.table.n_rows < LEAST_ROWS:
            return self, ()
        window = _Window(rows, kinds, taken, self)
        now = window.measures(n_new, self.range, self.hours)
        found = sorted(self._facts(now, window), key=lambda one: (one[0], one[1].field))
        first = {fact.field: fact for _, fact in found}  # the one that says most of each field
        moved = {fact.field for _, fact in found if fact.kind in ELSEWHERE}
        return self._remembering(now, window, moved), tuple(reversed(first.values()))

    def _facts(self, now: Measures, window: _Window) -> Iterator[tuple[float, Fact]]:
        """Yield facts, each with its rank; soft ones only where the past is long enough."""
        if self.n_windows < FIRST_TOLD:
            return
        past = Measures(*(values[:-1] for values in self.past))
        compared = _Compared(now, past, window, 1.0 + SHORT_PAST / self.n_windows)
        numbers = self.n_windows - len(self.past.rest) + np.arange(len(past.rest))
        n_levels = (self.following != UNKNOWN).sum(axis=1)
        everything, scales = range(len(window.kinds.names)), window.kinds.scales.tolist()
        later = numbers[:, None] > self.moved_at
        # Most windows are far from most facts: what these need at least is looked at first.
        kinds: Sequence[
            tuple[FactKind, Sequence[int], Floats | None, float, Callable[[], Told]]
        ] = (
            (FactKind.ROUGH, everything, now.rough, ROUGH_RISE, compared.rough),
            (FactKind.UNUSUAL, scales, None, 0.0, partial(compared.unusual, later)),
            (FactKind.NEW_LEVEL, scales, now.between, BETWEEN_SHARE, compared.between),
            (FactKind.NEW_LEVEL, scales, None, 0.0, compared.alive),
            (FactKind.NEW_LEVEL, everything, now.new, NEW_SHARE, compared.new),
            (FactKind.LOST_LEVEL, everything, None, 0.0, partial(compared.lost, self.rarest)),
            (FactKind.REPEATED, everything, now.repeated, REPEATED_SHARE, compared.repeated),
            (FactKind.OUTSIDE, scales, now.outside, OUTSIDE_SHARE, compared.outside),
            (FactKind.CONSTANT, everything, -now.rest, -CONSTANT_SHARE, compared.constant),
            (FactKind.JUMPED, everything, now.broken, 1.0, partial(compared.jumped, n_levels)),
            (FactKind.CLOCK, everything, now.strayed, STRAYED, compared.clock),
            (FactKind.MISSING, everything, now.missing, MISSING_RISE, compared.missing),
        )
        for rank, (kind, fields, size, least, compare) in enumerate(kinds):
            if kind in SOFT and self.n_windows < FIRST_SOFT:
                continue
            if size is not None and not np.any(size >= least):
                continue
            told, share, before = compare()
            for i in np.flatnonzero(told).tolist():
                name, here, then = window.kinds.names[fields[i]], float(share[i]), float(before[i])
                yield rank + abs(here - then), Fact(name, kind, round(here, 6), round(then, 6))

    def _remembering(self, now: Measures, window: _Window, moved: set[str]) -> FieldHistory:
        grown = zip(self.past, now, strict=True)
        moves = np.array([window.kinds.names[v] in moved for v in window.kinds.scales], np.bool_)
        (low, high), (newest_low, newest_high) = self.range, self.newest_range
        return FieldHistory(
            past=Measures(*(np.concatenate([old, new[None]])[-REMEMBERED:] for old, new in grown)),
            rarest=np.minimum(self.rarest, self.newest),
            newest=window.shares,
            range=np.array([np.minimum(low, newest_low), np.maximum(high, newest_high)]),
            newest_range=window.range,
            hours=np.where(self.newest_hours == UNKNOWN, self.hours, self.newest_hours),
            newest_hours=window.hours,
            following=window.following,
            moved_at=np.where(moves, self.n_windows, self.moved_at),
            rows=window.codes,
            last_record=window.last_record,
            last_day=None if window.times is None else int(window.times[-1] // SECONDS_OF_DAY),
            n_windows=self.n_windows + 1,
        )

    def state(self) -> dict[str, Any]:
        return vars(self) | {"past": self.past._asdict()}

    @classmethod
    def from_state(cls, values: Mapping[str, Any]) -> FieldHistory:
        past = values["past"]  # of which earlier versions did not know all
        known = {"gaps": np.full_like(past["missing"], np.nan), **past}
        never = np.full(past["falling"].shape[1], -1)
        return cls(**{"moved_at": never, **values, "past": Measures(**known)})


class _Window:
    """The rows of a window, and how they are spread over codes and cells."""

    def __init__(
        self, rows: LearnedWindow, kinds: FieldKinds, taken: Window, earlier: FieldHistory
    ) -> None:
        self.codes, self.kinds, self.times = rows.cells, kinds, taken.times
        self.sampled = taken.sampled is not None
        self.last_record = taken.last_record
        follows = taken.first_record == earlier.last_record + 1
        self.before = earlier.rows if follows else earlier.rows[:, :0]
        self.last_day = earlier.last_day
        self.following = earlier.following.copy()  # with what this window adds, once measured
        self.n_rows = rows.table.n_rows
        counts = np.zeros((len(kinds.names), kinds.n_codes))
        table = rows.table  # whose levels are bins where there is a scale
        counts[table.level_variables, table.level_codes] = table.evidence.totals
        for v in kinds.scales.tolist():
            counts[v] = np.bincount(self.codes[v], minlength=kinds.n_codes)
        self.shares = counts / self.n_rows
        self.cells = self.codes[kinds.scales].astype(np.int16) // N_PARTS
        shares = np.zeros((len(kinds.scales), kinds.low.shape[1] * N_PARTS))
        width = min(shares.shape[1], kinds.n_codes)
        known = np.arange(width) < kinds.missing[kinds.scales, None] - 1  # others are no numbers
        shares[:, :width] = np.where(known, self.shares[kinds.scales, :width], 0.0)
        self.cell_shares = shares.reshape(*kinds.low.shape, N_PARTS)

    @cached_property
    def by_cell(self) -> Floats:
        return np.asarray(self.cell_shares.sum(axis=2))

    @cached_property
    def range(self) -> Ints:
        """The lowest and the highest cell of each scale."""
        here, cells = self.by_cell > 0.0, np.arange(self.by_cell.shape[1])
        low, high = np.where(here, cells, 255).min(axis=1), np.where(here, cells, 0).max(axis=1)
        return np.array([low, high])

    @cached_property
    def hours(self) -> Ints:
        """The code that nearly all rows of an hour of the day have, for each field and hour."""
        found = np.full((len(self.codes), HOURS), UNKNOWN)
        if self.times is None:
            return found
        n_codes, n_of_hour = self.kinds.n_codes, np.bincount(self._hour, minlength=HOURS)
        first = n_codes * self._hour
        for row, codes in zip(found, self.codes, strict=True):
            counts = np.bincount(first + codes, minlength=HOURS * n_codes)
            by_hour = counts.reshape(HOURS, n_codes)
            sure = by_hour.max(axis=1) > (1.0 - STRAYED) * n_of_hour
            row[sure] = by_hour.argmax(axis=1)[sure]
        return found

    @cached_property
    def _hour(self) -> Ints:
        assert self.times is not None
        return np.asarray(self.times // SECONDS_OF_HOUR % HOURS, np.int64)

    def _strayed(self, hours: Ints) -> Floats:
        """Return the share with other codes than those of their hours, of the rows with known ones.

        There is none where fewer than half of the rows have.
        """
        found = np.full(len(self.codes), np.nan)
        if self.times is None or (hours == UNKNOWN).all():
            return found
        known = (hours != UNKNOWN) @ np.bincount(self._hour, minlength=HOURS) / self.n_rows
        follow = np.flatnonzero(known >= 0.5)
        usual = hours[follow][:, self._hour]
        other = _mean((usual != UNKNOWN) & (usual != self.codes[follow]))
        found[follow] = other / known[follow]
        return found

    def _in_order(self) -> tuple[Floats, Floats, Floats]:
        """Return repeated rows, moves and broken moves of each field, with the window before."""
        begin, rows = self.before.shape[1], np.concatenate([self.before, self.codes], axis=1)
        found = np.empty((3, len(rows)), np.int64)
        slots = make_slots(rows.shape[1])
        count_repeated(rows, begin, STRETCH, STRETCH_MOVES, slots, found[0])
        follow_moves(rows, begin, self.following, found[1], found[2])
        repeated, moves, broken = found.astype(np.float64)
        return repeated / self.n_rows, moves, broken

    def _within(self, moved: Flags) -> Floats:
        """Return how often each field moves where the day does not."""
        if self.times is None:
            return np.asarray(moved.sum(axis=1), np.float64)
        days = self.times // SECONDS_OF_DAY
        found = np.asarray((moved & (days[1:] == days[:-1])).sum(axis=1), np.float64)
        if self.before.size and self.last_day == days[0]:
            found += self.before[:, -1] != self.codes[:, 0]
        return found

    def measures(self, n_new: Mapping[str, int], ends: Ints, hours: Ints) -> Measures:
        kinds, shares, (low, high) = self.kinds, self.shares, ends
        new = np.array([n_new.get(name, 0) / self.n_rows for name in kinds.names])
        others = shares[np.arange(len(shares)), kinds.missing - 1]
        moved = self.codes[:, 1:] != self.codes[:, :-1]
        unlike = _mean(moved)
        repeated, moves, broken = self._in_order()
        rough, varied = self._roughness(unlike)
        return Measures(
            rest=1.0 - shares.max(axis=1),
            missing=shares[np.arange(len(shares)), kinds.missing],
            gaps=self._gaps(),
            new=np.where(kinds.pooled, others, new),
            unlike=unlike,
            rough=rough,
            varied=varied,
            falling=_mean(self.cells[:, 1:] < self.cells[:, :-1]),
            between=np.where(kinds.whole, self.cell_shares[:, :, 2:].sum(axis=(1, 2)), 0.0),
            outside=self._outside(low, high),
            repeated=repeated,
            moves=moves,
            broken=broken,
            within=self._within(moved),
            strayed=self._strayed(hours),
            quantiles=self._quantiles(),
        )

    def _gaps(self) -> Floats:
        found = np.zeros(len(self.codes))
        some = self.shares[np.arange(len(found)), self.kinds.missing] > 0.0
        lacks = self.codes[some] == self.kinds.missing[some, None]
        found[some] = (lacks[:, 1:] & ~lacks[:, :-1]).sum(axis=1) / self.n_rows
        return found

    def _outside(self, low: Ints, high: Ints) -> Floats:
        """Return the share of the rows beyond a range of cells; the next may be the rest of one.

        Farther from zero they must be so by a part of the width of the range.
        """
        if np.all((self.range[0] >= low - 1) & (self.range[1] <= high + 1)):
            return np.zeros(len(low))
        kinds, cells = self.kinds, np.arange(self.by_cell.shape[1])
        known, scale = (low <= high)[:, None], np.arange(len(low))[:, None]
        start, end = np.where(known, (low[:, None], high[:, None]), 0)
        lowest, highest = kinds.low[scale, start], kinds.high[scale, end]
        gap = OUTSIDE_BY * (highest - lowest)
        above = kinds.low >= np.where(highest > 0.0, highest + gap, highest)
        below = kinds.high <= np.where(lowest < 0.0, lowest - gap, lowest)
        beyond = ((cells > end + 1) & above) | ((cells < start - 1) & below)
        return np.asarray((self.by_cell * (known & beyond)).sum(axis=1))

    def _roughness(self, unlike: Floats) -> tuple[Floats, Floats]:
        """Return how much neighbouring rows differ, as a share of what any two rows do, and that.

        Of numbers it is their distance in cells.
        """
        scales, varied = self.kinds.scales, 1.0 - (self.shares**2).sum(axis=1)
        enough, apart = varied >= LEAST_VARIED, unlike.copy()
        enough &= not self.sampled  # what is left of a sample's neighbours differs with its share
        apart[scales] = _mean(np.abs(np.diff(self.cells)))
        upto = np.cumsum(self.by_cell, axis=1)
        varied[scales] = 2.0 * (upto * (upto[:, -1:] - upto)).sum(axis=1)  # Gini's mean difference
        rough = np.where(varied > 0.0, apart / np.maximum(varied, 1e-9), 0.0)
        # Coarse numbers take little room in a snapshot.
        return np.where(enough, rough, np.nan), np.round(varied * VARIED_STEPS) / VARIED_STEPS

    def _quantiles(self) -> Floats:
        """Return quantiles of the numbers, as if they were spread evenly inside their cells."""
        upto = np.cumsum(self.by_cell, axis=1)
        wanted = QUANTILES * upto[:, -1:]
        cell = np.minimum((upto[:, None] < wanted[..., None]).sum(axis=2), upto.shape[1] - 1)
        scale = np.arange(len(upto))[:, None]
        inside = np.maximum(self.by_cell[scale, cell], 1e-9)
        part = np.clip(1.0 - (upto[scale, cell] - wanted) / inside, 0.0, 1.0)
        low, high = self.kinds.low[scale, cell], self.kinds.high[scale, cell]
        return np.asarray(low + part * (high - low))


def _mean(values: npt.NDArray[Any]) -> Floats:
    """Return the mean of each row, 0 if it is empty."""
    return np.asarray(values.sum(axis=1) / max(values.shape[1], 1), np.float64)


def _widths(low: Floats, high: Floats) -> Floats:
    return np.maximum(high - low, LEAST_WIDTH * (high[:, -1:] - low[:, :1]))


def _lies_beyond(now: Floats, low: Floats, high: Floats, short: Floats) -> Flags:
    """Whether enough quantiles lie beyond all of theirs; with a ``short`` past by more."""
    by = np.maximum(now - high, low - now)
    beyond = (by >= UNUSUAL_WIDTHS * short * _widths(low, high)) & (by > 0.0)
    return np.asarray(beyond.sum(axis=1) >= UNUSUAL_QUANTILES)


Told = tuple[Flags, Floats, Floats]  # whether, the share now, and that before


class _Compared:
    """A window beside those before it; with a ``short`` past, sizes must be larger."""

    def __init__(self, now: Measures, past: Measures, window: _Window, short: float) -> None:
        self.now, self.past, self.window, self.short = now, past, window, short
        kinds = window.kinds
        self.moving = (past.unlike.max(axis=0) > SLOW) & (now.missing < MOSTLY_MISSING)
        self.roaming = self.moving[kinds.scales] & (past.falling.max(axis=0) > RISING)
        varied = (past.rest[:, kinds.scales] > 1.0 - NEARLY_CONSTANT).sum(axis=0)
        self.roaming &= varied >= FIRST_TOLD
        # What moves with the date only is a calendar, as a year that was always the same.
        self.dated = (past.within.max(axis=0) == 0.0) & (now.within == 0.0)

    def missing(self) -> Told:
        now, past = self.now, self.past
        more, most = self._risen(now.missing, past.missing)
        # Where it was missing for a long time on end, single records now lack it.
        oftener, _ = self._risen(now.gaps, past.gaps)
        return more | (oftener & (now.missing > most)), now.missing, most

    def _risen(self, now: Floats, past: Floats) -> tuple[Flags, Floats]:
        """Return whether shares exceed all before, the others by their range; and the largest."""
        some = past[-MISSING_WINDOWS:]
        # An outage that is over, of at most two windows, does not make the next one usual.
        worst, places = some.argmax(axis=0), np.arange(len(some))[:, None]
        counts = (np.abs(places - worst) > 1) | (worst > len(some) - 3)
        counts |= counts.sum(axis=0) < FIRST_TOLD
        most = np.where(counts, some, 0.0).max(axis=0)
        above_all = now - some.max(axis=0) >= self.short * MISSING_RISE
        return above_all & (now - most >= self.short * (most - some.min(axis=0))), most

    def constant(self) -> Told:
        rest = self.past.rest
        stood = rest < NEVER_CONSTANT
        stopped = (stood[1:] & ~stood[:-1]).any(axis=0)  # before, so that it is nothing new
        # A field that came alive is compared with the windows since.
        alive = ~stood[-FIRST_TOLD:].any(axis=0)
        least = np.where(stood & alive, 1.0, rest)[-RECENT:].min(axis=0)
        told = (self.now.rest <= CONSTANT_SHARE * least) & (least >= NEVER_CONSTANT) & ~stopped
        return told & self.moving, 1.0 - self.now.rest, 1.0 - least

    def lost(self, rarest: Floats) -> Told:
        """Whether a common value is gone; ``before``: its smallest share ever."""
        kinds, shares = self.window.kinds, self.window.shares
        gone = np.where(shares == 0.0, rarest, 0.0)
        gone[np.arange(len(gone)), kinds.missing] = 0.0
        gone[kinds.scales] = 0.0
        most = gone.max(axis=1)
        return self.moving & (most >= LOST_SHARE), np.zeros(len(most)), most

    def new(self) -> Told:
        now, most = self.now.new, self.past.new.max(axis=0)
        constant = self.past.rest.max(axis=0) < 1.0 - NEARLY_CONSTANT
        least = np.where(constant, NEW_SHARE_OF_CONSTANT, NEW_SHARE)
        told = now >= self.short * np.maximum(least, 2.0 * most)
        # Where rare values were one from the start, there are some in every window.
        range_so_far = most - self.past.new.min(axis=0)
        risen = now - most >= self.short * np.maximum(OTHERS_RISE, range_so_far)
        told = np.where(self.window.kinds.pooled, risen, told)
        return told & (now * self.window.n_rows >= NEW_ROWS) & ~self.dated, now, most

    def between(self) -> Told:
        now, most = self.now.between, self.past.between.max(axis=0)
        return now >= self.short * np.maximum(BETWEEN_SHARE, BETWEEN_RISE * most), now, most

    def alive(self) -> Told:
        """Whether numbers that were the same in nearly all rows vary more than ever."""
        scales = self.window.kinds.scales
        now, most = self.now.rest[scales], self.past.rest.max(axis=0)[scales]
        told = now >= self.short * np.maximum(NEW_SHARE_OF_CONSTANT, 2.0 * most)
        return told & ~self.dated[scales], now, most

    def outside(self) -> Told:
        now, most = self.now.outside, self.past.outside.max(axis=0)
        told = now >= self.short * np.maximum(OUTSIDE_SHARE, 2.0 * most)
        return told & self.roaming, now, most

    def unusual(self, later: Flags) -> Told:
        """Whether quantiles lie beyond all of theirs; with the share of the rows that do.

        ``later``: which windows came after the numbers had moved. They are a past of their own:
        then quantiles must lie beyond those, and apart from each window before.
        """
        kinds, now, past = self.window.kinds, self.now.quantiles, self.past.quantiles
        low, high = past.min(axis=0), past.max(axis=0)
        told = _lies_beyond(now, low, high, np.array(self.short))
        n_later = later.sum(axis=0)
        moved = np.flatnonzero(~told & (n_later >= LEAST_LATER) & (n_later < len(past)))
        if len(moved):
            own, inside = past[:, moved], later[:, moved, None]
            lowest = np.where(inside, own, np.inf).min(axis=0)
            highest = np.where(inside, own, -np.inf).max(axis=0)
            short = 1.0 + SHORT_PAST / n_later[moved, None]
            apart = np.abs(now[moved] - own) >= UNUSUAL_WIDTHS * short * _widths(lowest, highest)
            elsewhere = (apart.sum(axis=2) >= UNUSUAL_QUANTILES) | later[:, moved]
            beyond = _lies_beyond(now[moved], lowest, highest, short) & elsewhere.all(axis=0)
            found = moved[beyond]
            told[found], low[found], high[found] = True, lowest[beyond], highest[beyond]
        middle = (kinds.low + kinds.high) / 2
        away = (middle < low[:, :1]) | (middle > high[:, -1:])
        usual = np.full(len(told), 2.0 * QUANTILES[0])
        return told & self.roaming, (self.window.by_cell * away).sum(axis=1), usual

    def clock(self) -> Told:
        """Whether a field no longer follows from the hour of the day; shares of those that do."""
        now, some = self.now.strayed, self.past.strayed[-RECENT:]
        most = np.where(np.isnan(some), 0.0, some).max(axis=0)
        varied = self.past.rest.min(axis=0) >= NEVER_CONSTANT
        follows = varied & (most <= STRAYED) & ~np.isnan(some).all(axis=0)
        return follows & (now >= self.short * STRAYED), 1.0 - now, 1.0 - most

    def repeated(self) -> Told:
        now, most = self.now.repeated, self.past.repeated.max(axis=0)
        return now >= np.maximum(REPEATED_SHARE, 2.0 * self.short * most), now, most

    def jumped(self, n_levels: Ints) -> Told:
        """Whether a cycle went on elsewhere, with the share of the moves that did."""
        now, past = self.now, self.past
        cycles = (n_levels >= CYCLE_LEVELS) & (past.moves.sum(axis=0) >= CYCLES * n_levels)
        told = cycles & (past.broken.max(axis=0) == 0.0) & (now.broken > 0.0)
        return told, now.broken / np.maximum(now.moves, 1.0), np.zeros(len(told))

    def rough(self) -> Told:
        """Whether neighbours differ more; never where they could not be compared.

        Where all rows are more alike than usual, neighbours are compared with what is usual.
        """
        some, usual = self.past.rough[-RECENT:], np.median(self.past.varied[-RECENT:], axis=0)
        now = self.now.rough * np.minimum(1.0, self.now.varied / np.maximum(usual, 1e-9))
        known = ~np.isnan(some)
        most, least = np.where(known, some, 0.0).max(axis=0), np.where(known, some, 1.0).min(axis=0)
        rise = np.maximum(ROUGH_RISE, self.short * (most - least))
        told = (most <= ALIKE) & (now - most >= rise) & (known.sum(axis=0) >= ROUGH_WINDOWS)
        return told & self.moving, now, most
