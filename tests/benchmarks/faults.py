"""Nine faults of real pipelines, put into a table from one row on.

A fault changes a few fields between two rows and nothing else; the same table, kind, place and seed
give the same fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd
from pandas.api import types

MANY = 30  # a number with more values is measured; one with fewer, if whole, has levels
MISSING_SHARE = 0.3
NEW_SHARE = 0.2
LEAST_CHANGED = 0.1  # of the values: where a fault would change fewer, another field is taken
_UNITS = ((1000, 0), (0.001, 0), (1.609344, 0), (0.3048, 0), (1.8, 32), (1 / 1.8, -32 / 1.8))


@dataclass(frozen=True)
class Source:
    """What a table holds.

    ``time``: the column with event times. ``left_out``: columns that are labels of the stream, not
    fields of it. ``given``: calendar fields, which are not broken; ``clock``, the field with the
    hour, is by one fault only. ``group``: the field within whose levels rows are permuted.
    ``design``: whether constants of the method may be chosen on this stream.
    """

    window: int = 1000
    time: str | None = None
    left_out: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    clock: str | None = None
    group: str | None = None
    design: bool = False


@dataclass(frozen=True)
class Fault:
    """``fields`` are broken in the rows from ``start`` up to ``stop``."""

    kind: str
    fields: tuple[str, ...]
    start: int
    stop: int
    seed: int

    def rows(self, table: pd.DataFrame, source: Source, begin: int, end: int) -> pd.DataFrame:
        """Return the rows from ``begin`` up to ``end`` as the fault leaves them."""
        start, stop = max(self.start, begin), min(self.stop, end)
        found = table.iloc[begin:end].copy()
        for name in self.fields if start < stop else ():
            # From the first broken row on, so that windows do not depend on how rows are cut.
            part = Part(table, self.start, stop, source, name, self.fields)
            broken = BREAK[self.kind](part, part.values, np.random.default_rng(self.seed))
            before, after = found[name].iloc[: start - begin], found[name].iloc[stop - begin :]
            pieces = [part for part in (before, broken.iloc[start - stop :], after) if len(part)]
            found[name] = pd.concat(pieces).to_numpy()
        return found


@dataclass(frozen=True)
class Part:
    """The rows that break in one field."""

    table: pd.DataFrame
    start: int
    stop: int
    source: Source
    name: str
    fields: tuple[str, ...]

    @property
    def values(self) -> pd.Series:
        return self.table[self.name].iloc[self.start : self.stop]

    @property
    def before(self) -> pd.Series:
        """The values of one window before."""
        return self.table[self.name].iloc[self.start - self.source.window : self.start]

    @property
    def new_level(self) -> object:
        known = self.table[self.name]
        return known.max() + 1 if types.is_numeric_dtype(known) else "level_x"


def permuted(part: Part, values: pd.Series, rng: np.random.Generator) -> pd.Series:
    """Permute among the rows of a window that agree in the group."""
    keys: list[object] = [np.arange(part.start, part.stop) // part.source.window]
    if part.source.group not in (None, part.name):
        keys.append(part.table[part.source.group].iloc[part.start : part.stop].to_numpy())
    found = values.to_numpy().copy()
    for rows in values.groupby(keys, dropna=False).indices.values():
        found[rows] = found[rng.permutation(rows)]
    return pd.Series(found, dtype=values.dtype)


def stuck(part: Part, values: pd.Series, rng: np.random.Generator) -> pd.Series:
    """Repeat the last value before the fault."""
    return pd.Series([part.before.dropna().iloc[-1]] * len(values), dtype=values.dtype)


def unit(part: Part, values: pd.Series, rng: np.random.Generator) -> pd.Series:
    factor, shift = _UNITS[rng.integers(len(_UNITS))]
    return values * factor + shift


def renamed(part: Part, values: pd.Series, rng: np.random.Generator) -> pd.Series:
    """Write the commonest level otherwise."""
    return values.where(values != part.before.mode()[0], part.new_level)


def new_category(part: Part, values: pd.Series, rng: np.random.Generator) -> pd.Series:
    return values.where(rng.random(len(values)) >= NEW_SHARE, part.new_level)


def missing(part: Part, values: pd.Series, rng: np.random.Generator) -> pd.Series:
    whole = types.is_bool_dtype(values) or types.is_integer_dtype(values)
    kept = values.astype(object) if whole else values  # whole numbers do not become fractions
    return kept.mask(rng.random(len(values)) < MISSING_SHARE, None)


def shifted_join(part: Part, values: pd.Series, rng: np.random.Generator) -> pd.Series:
    """Take the values of earlier rows: 1/20 to 1/4 of a window."""
    by = int(rng.integers(part.source.window // 20, part.source.window // 4))
    return part.table[part.name].iloc[part.start - by : part.stop - by]


def shifted_hour(part: Part, values: pd.Series, rng: np.random.Generator) -> pd.Series:
    """Turn the clock by 1, 2 or 5 of 24 hours."""
    hours = np.sort(part.table[part.name].unique())
    by = round(rng.choice([1, 2, 5]) * len(hours) / 24)
    return pd.Series(hours[(np.searchsorted(hours, values) + by) % len(hours)])


def swapped(part: Part, values: pd.Series, rng: np.random.Generator) -> pd.Series:
    (other,) = (name for name in part.fields if name != part.name)
    return part.table[other].iloc[part.start : part.stop]


BREAK: dict[str, Callable[[Part, pd.Series, np.random.Generator], pd.Series]] = {
    "permuted": permuted,
    "stuck": stuck,
    "unit": unit,
    "renamed": renamed,
    "join": shifted_join,
    "new category": new_category,
    "missing": missing,
    "hour": shifted_hour,
    "swapped": swapped,
}
KINDS = tuple(BREAK)


def drawn_fault(
    table: pd.DataFrame, source: Source, fault: Fault, choices: Sequence[tuple[str, ...]]
) -> Fault | None:
    """Return the fault in the first fields that it changes enough, if there are any."""
    faults = (replace(fault, fields=fields) for fields in choices)
    return next((f for f in faults if changed_share(table, source, f) >= LEAST_CHANGED), None)


def seed_of(*parts: object) -> int:
    """Return a seed made of names and numbers, the same in each process."""
    return int.from_bytes("/".join(map(str, parts)).encode(), "big") % (2**63 - 25)


def changed_share(table: pd.DataFrame, source: Source, fault: Fault) -> float:
    """Return the smallest share of changed values among the fields, in the first window."""
    begin, end = fault.start, min(fault.start + source.window, fault.stop)
    clean, broken = table.iloc[begin:end], fault.rows(table, source, begin, end)
    shares = []
    for name in fault.fields:
        before, now = clean[name].astype(object), broken[name].astype(object)
        shares.append(float(((before != now) & ~(before.isna() & now.isna())).mean()))
    return min(shares)


def candidates(table: pd.DataFrame, source: Source, kind: str) -> Iterator[tuple[str, ...]]:
    """Yield the fields, or pairs of them, that can have a fault, in the order of the table."""
    given = (*source.given, source.clock, source.time)
    free = [name for name in table.columns if name not in given]
    texts = [name for name in free if types.is_string_dtype(table[name])]
    numbers = [n for n in free if types.is_numeric_dtype(table[n]) and table[n].nunique() > MANY]
    match kind:
        case "hour":
            yield from [(source.clock,)] if source.clock else []
        case "unit":
            yield from ((name,) for name in numbers)
        case "renamed" | "new category":
            whole = [name for name in free if types.is_integer_dtype(table[name])]
            yield from ((name,) for name in (*texts, *whole) if name not in numbers)
        case "swapped":
            yield from (*combinations(numbers, 2), *combinations(texts, 2))
        case "join":
            yield from combinations(free, 2)
        case _:
            yield from ((name,) for name in free)
