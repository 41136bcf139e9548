"""Facts of single fields: what is plain to see of a window, and was never so before.

They are no tests and have no level. Each fact has a size, and is told if that is beyond everything
in the field's own past (METHOD.md, section 9). They are said whatever the tests say: a field that
stands still or is empty leaves no relation to test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftbn.kernels.evidence import Floats, Ints
from driftbn.learning.independence import Codes

FIRST_TOLD = 8  # windows before nothing is told
REMEMBERED = 24  # windows that a window is compared with
SHORT_PAST = 8.0  # windows: with so many, sizes must be twice as large as with a long past
NEVER_CONSTANT = 0.1  # share of rows that never had the commonest value
CONSTANT_SHARE = 0.1  # of the fewest such rows ever: at most so many are left
MISSING_RISE = 0.05
MISSING_WINDOWS = 16
NEW_SHARE, NEW_ROWS = 0.002, 3
NEW_SHARE_OF_CONSTANT = 0.1  # where the field had one value nearly always
NEARLY_CONSTANT = 0.98
LOST_SHARE = 0.1
ALIKE = 0.5  # neighbours that differ: at most this share wherever records are called alike
ROUGH_RISE = 0.02
SLOW = 0.01  # neighbours that differ: calendars and counters have no more


class FactKind(StrEnum):
    """What is plain to see of a field."""

    CONSTANT = "constant"
    """It has one value in nearly all records, and never had."""
    MISSING = "missing"
    """More records lack it than ever."""
    NEW_LEVEL = "new_level"
    """It has values that were never there before, in more records than usual."""
    LOST_LEVEL = "lost_level"
    """A common value that every window had is gone."""
    ROUGH = "rough"
    """Neighbouring records, which were always alike, are so no more."""


@dataclass(frozen=True)
class Fact:
    """A fact of one field: ``share`` of the records now, and in the window nearest to it before."""

    field: str
    kind: FactKind
    share: float
    before: float


class FieldKinds(NamedTuple):
    """What the codes of each field mean."""

    names: tuple[str, ...]
    missing: Ints  # the code of a missing value
    nominal: npt.NDArray[np.bool_]  # whether codes are values, and not ranges of numbers


@dataclass(frozen=True, eq=False)
class FieldHistory:
    """What the fields were like in the newest windows, the oldest first.

    Each of the four arrays has a row a window: the share of rows without the commonest value, with
    none, with new values, and unlike the row before. ``rarest``: the smallest share of each code
    in all windows but the newest, ``newest`` that in the newest.
    A window is compared with all but the newest: a fault that begins inside a window must not make
    itself usual.
    """

    rest: Floats
    missing: Floats
    new: Floats
    unlike: Floats
    rarest: Floats
    newest: Floats
    n_windows: int = 0

    @classmethod
    def empty(cls, n_fields: int) -> FieldHistory:
        none = np.zeros((0, n_fields))
        return cls(none, none, none, none, np.zeros((n_fields, 0)), np.zeros((n_fields, 0)))

    def with_window(
        self, codes: Codes, kinds: FieldKinds, n_new: Mapping[str, int]
    ) -> tuple[FieldHistory, tuple[Fact, ...]]:
        """Return the history with one more window, and what is new about it."""
        if not kinds.names:
            return self, ()
        now = _measured(codes, kinds, n_new)
        found = sorted(self._facts(now, kinds), key=lambda told: (-told[0], told[1].field))
        return self._remembering(now), tuple(fact for _, fact in found)

    def _facts(self, now: _Measured, kinds: FieldKinds) -> list[tuple[float, Fact]]:
        if self.n_windows < FIRST_TOLD:
            return []
        short = 1.0 + SHORT_PAST / self.n_windows
        rest, missing, new, unlike = (
            values[:-1] for values in (self.rest, self.missing, self.new, self.unlike)
        )
        slow = unlike.max(axis=0) <= SLOW
        least, most_missing = rest.min(axis=0), missing[-MISSING_WINDOWS:].max(axis=0)
        missing_range = most_missing - missing[-MISSING_WINDOWS:].min(axis=0)
        rise, known = now.missing - most_missing, now.missing < 0.5
        constant = (now.rest <= CONSTANT_SHARE * least) & (least >= NEVER_CONSTANT) & ~slow & known
        is_missing = rise >= short * np.maximum(MISSING_RISE, missing_range)
        smallest = np.where(
            rest.max(axis=0) < 1 - NEARLY_CONSTANT, NEW_SHARE_OF_CONSTANT, NEW_SHARE
        )
        is_new = (now.new >= short * np.maximum(smallest, 2.0 * new.max(axis=0))) & now.enough_new
        lost = self._lost_share(now, kinds)
        is_lost = (lost >= LOST_SHARE) & ~slow & known
        roughest = unlike.max(axis=0)
        rough = (now.unlike >= short * 2.0 * roughest) & (roughest <= ALIKE) & ~slow & known
        rough &= now.unlike - roughest >= ROUGH_RISE
        kinds_told = (
            (FactKind.MISSING, is_missing, now.missing, most_missing, 4.0),
            (FactKind.CONSTANT, constant, 1.0 - now.rest, 1.0 - least, 3.0),
            (FactKind.LOST_LEVEL, is_lost, np.zeros(len(lost)), lost, 2.0),
            (FactKind.NEW_LEVEL, is_new, now.new, new.max(axis=0), 1.0),
            (FactKind.ROUGH, rough, now.unlike, roughest, 0.0),
        )
        return [
            (rank + abs(share[v] - before[v]), _fact(kinds.names[v], kind, share[v], before[v]))
            for kind, told, share, before, rank in kinds_told
            for v in np.flatnonzero(told).tolist()
        ]

    def _lost_share(self, now: _Measured, kinds: FieldKinds) -> Floats:
        """Return the smallest share ever of the commonest value that is gone."""
        n_codes = max(now.shares.shape[1], self.rarest.shape[1])
        gone = np.where(_wide(now.shares, n_codes) == 0.0, _wide(self.rarest, n_codes), 0.0)
        gone[np.arange(len(gone)), np.minimum(kinds.missing, n_codes - 1)] = 0.0
        return np.where(kinds.nominal, gone.max(axis=1, initial=0.0), 0.0)

    def _remembering(self, now: _Measured) -> FieldHistory:
        rarest, n_codes = self.newest, max(self.newest.shape[1], self.rarest.shape[1])
        if self.n_windows > 1:
            rarest = np.minimum(_wide(self.rarest, n_codes), _wide(self.newest, n_codes))
        return FieldHistory(
            rest=_appended(self.rest, now.rest),
            missing=_appended(self.missing, now.missing),
            new=_appended(self.new, now.new),
            unlike=_appended(self.unlike, now.unlike),
            rarest=rarest,
            newest=now.shares,
            n_windows=self.n_windows + 1,
        )

    def state(self) -> dict[str, Any]:
        return dict(vars(self))

    @classmethod
    def from_state(cls, values: Mapping[str, Any]) -> FieldHistory:
        return cls(**values)


class _Measured(NamedTuple):
    rest: Floats
    missing: Floats
    new: Floats
    unlike: Floats
    shares: Floats  # of each code, [fields, codes]
    enough_new: npt.NDArray[np.bool_]


def _measured(codes: Codes, kinds: FieldKinds, n_new: Mapping[str, int]) -> _Measured:
    n_fields, n_rows = codes.shape
    n_codes = int(codes.max(initial=0)) + 1
    shares = np.array([np.bincount(row, minlength=n_codes) for row in codes]) / n_rows
    new = np.array([n_new.get(name, 0) for name in kinds.names], float)
    at = np.minimum(kinds.missing, n_codes - 1)
    missing = np.where(kinds.missing < n_codes, shares[np.arange(n_fields), at], 0.0)
    unlike = (codes[:, 1:] != codes[:, :-1]).mean(axis=1) if n_rows > 1 else np.zeros(n_fields)
    return _Measured(
        1.0 - shares.max(axis=1), missing, new / n_rows, unlike, shares, new >= NEW_ROWS
    )


def _fact(name: str, kind: FactKind, share: float, before: float) -> Fact:
    return Fact(name, kind, round(float(share), 6), round(float(before), 6))


def _appended(values: Floats, now: Floats) -> Floats:
    return np.concatenate([values, now[None]])[-REMEMBERED:]


def _wide(shares: Floats, n_codes: int) -> Floats:
    return np.pad(shares, ((0, 0), (0, max(0, n_codes - shares.shape[1]))))
