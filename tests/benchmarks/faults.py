"""Nine faults of real pipelines, put into a table from one row on.

A fault changes a few fields between two rows and nothing else; the same table, kind, place and seed
give the same fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

LEVELS = 30  # a whole number with at most so many values has levels, as text has
GROUPS = 20  # a field with at most so many values makes groups
MISSING_SHARE = 0.3
NEW_SHARE = 0.2
LEAST_CHANGED = 0.1  # of the rows: a fault that changes fewer is none, and another field is taken
_UNITS: tuple[Callable[[pd.Series], pd.Series], ...] = (
    lambda x: x * 1000,
    lambda x: x / 1000,
    lambda x: x * 1.609344,
    lambda x: x * 0.3048,
    lambda x: x * 1.8 + 32,
    lambda x: (x - 32) / 1.8,
)


@dataclass(frozen=True)
class Fields:
    """What may be broken in a table: ``given`` fields (calendar, clock) are not, but for the clock.

    ``clock``: the field with the hour. ``group``: the field within whose levels rows are permuted.
    """

    window: int
    given: tuple[str, ...] = ()
    clock: str | None = None
    group: str | None = None


@dataclass(frozen=True)
class Fault:
    """``fields`` are broken in the rows from ``start`` up to ``stop``."""

    kind: str
    fields: tuple[str, ...]
    start: int
    stop: int
    seed: int

    def rows(self, table: pd.DataFrame, about: Fields, begin: int, end: int) -> pd.DataFrame:
        """Return the rows from ``begin`` up to ``end`` as the fault leaves them."""
        start, stop = max(self.start, begin), min(self.stop, end)
        part = table.iloc[begin:end].copy()
        if start >= stop:
            return part
        whole = Rows(table, self.start, stop, about, np.random.default_rng(self.seed))
        for name, values in BREAK[self.kind](whole, self.fields).items():
            broken = values.iloc[start - stop :]
            pieces = [part[name].iloc[: start - begin], broken, part[name].iloc[stop - begin :]]
            part[name] = pd.concat([piece for piece in pieces if len(piece)]).to_numpy()
        return part


@dataclass(frozen=True)
class Rows:
    """The rows of a table that are to be broken."""

    table: pd.DataFrame
    start: int
    stop: int
    about: Fields
    rng: np.random.Generator

    def __getitem__(self, name: str) -> pd.Series:
        return self.table[name].iloc[self.start : self.stop]

    def before(self, name: str) -> pd.Series:
        """Return the values of the window's length before the fault."""
        return self.table[name].iloc[max(0, self.start - self.about.window) : self.start]


Broken = dict[str, pd.Series]


def permuted(rows: Rows, fields: tuple[str, ...]) -> Broken:
    """Permute the values among the rows of a window that agree in the group."""
    (name,) = fields
    values, window = rows[name], rows.about.window
    keys: list[object] = [np.arange(rows.start, rows.stop) // window]
    if rows.about.group not in (None, name):
        keys.append(rows[rows.about.group].to_numpy())
    found = values.to_numpy().copy()
    for at in values.groupby(keys, dropna=False).indices.values():
        found[at] = found[rows.rng.permutation(at)]
    return {name: pd.Series(found, dtype=values.dtype)}


def stuck(rows: Rows, fields: tuple[str, ...]) -> Broken:
    """Repeat the last value before the fault."""
    (name,) = fields
    last = rows.before(name).dropna().iloc[-1]
    return {name: pd.Series([last] * (rows.stop - rows.start), dtype=rows[name].dtype)}


def unit(rows: Rows, fields: tuple[str, ...]) -> Broken:
    """Measure in another unit."""
    (name,) = fields
    return {name: _UNITS[rows.rng.integers(len(_UNITS))](rows[name].astype(float))}


def renamed(rows: Rows, fields: tuple[str, ...]) -> Broken:
    """Write the commonest level otherwise."""
    (name,) = fields
    values = rows[name]
    return {name: values.where(values != rows.before(name).mode()[0], _new_level(rows, name))}


def new_category(rows: Rows, fields: tuple[str, ...]) -> Broken:
    """Put a level never seen into a fifth of the rows."""
    (name,) = fields
    kept = rows.rng.random(rows.stop - rows.start) >= NEW_SHARE
    return {name: rows[name].where(kept, _new_level(rows, name))}


def _new_level(rows: Rows, name: str) -> object:
    known = rows.table[name]
    return "level_x" if not pd.api.types.is_numeric_dtype(known) else known.max() + 1


def missing(rows: Rows, fields: tuple[str, ...]) -> Broken:
    """Lose 30 % of the values."""
    (name,) = fields
    values = rows[name]
    if pd.api.types.is_bool_dtype(values) or pd.api.types.is_integer_dtype(values):
        values = values.astype(object)  # not numbers with a fraction
    return {name: values.mask(rows.rng.random(len(values)) < MISSING_SHARE, None)}


def shifted_join(rows: Rows, fields: tuple[str, ...]) -> Broken:
    """Join the fields from earlier rows: 1/20 to 1/4 of a window."""
    window = rows.about.window
    by = int(rows.rng.integers(window // 20, window // 4))
    return {name: rows.table[name].iloc[rows.start - by : rows.stop - by] for name in fields}


def shifted_hour(rows: Rows, fields: tuple[str, ...]) -> Broken:
    """Turn the clock by 1, 2 or 5 of 24 hours."""
    (name,) = fields
    hours = np.sort(rows.table[name].unique())
    by = round(rows.rng.choice([1, 2, 5]) * len(hours) / 24)
    return {name: pd.Series(hours[(np.searchsorted(hours, rows[name]) + by) % len(hours)])}


def swapped(rows: Rows, fields: tuple[str, ...]) -> Broken:
    one, other = fields
    return {one: rows[other], other: rows[one]}


BREAK: dict[str, Callable[[Rows, tuple[str, ...]], Broken]] = {
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


def draw(
    table: pd.DataFrame, about: Fields, kind: str, start: int, stop: int, seed: int, turn: int
) -> Fault | None:
    """Return a fault that changes its rows; fields differ from turn to turn, where there are more.

    ``None`` if no field of the table can have it there.
    """
    order = list(candidates(table, about, kind))
    np.random.default_rng([seed, KINDS.index(kind)]).shuffle(order)
    for i in range(len(order)):
        fields = order[(turn + i) % len(order)]
        fault = Fault(kind, fields, start, stop, hash_of(seed, kind, start))
        if changed_share(table, about, fault) >= LEAST_CHANGED:
            return fault
    return None


def hash_of(*parts: object) -> int:
    """Return a seed made of names and numbers, the same in each process."""
    return int.from_bytes(bytes("/".join(map(str, parts)), "utf-8"), "big") % (2**63 - 25)


def changed_share(table: pd.DataFrame, about: Fields, fault: Fault) -> float:
    """Return the smallest share of changed values among the fields, in the first window."""
    begin, end = fault.start, min(fault.start + about.window, fault.stop, len(table))
    clean, broken = table.iloc[begin:end], fault.rows(table, about, begin, end)
    names = list(fault.fields)
    same = [
        (clean[name].to_numpy() == broken[name].to_numpy())
        | (clean[name].isna().to_numpy() & broken[name].isna().to_numpy())
        for name in names
    ]
    return min(1.0 - float(np.mean(column.astype(bool))) for column in same)


def candidates(table: pd.DataFrame, about: Fields, kind: str) -> Iterator[tuple[str, ...]]:
    """Yield the fields, or groups of them, that can have a fault, in the order of the table."""
    free = [name for name in table.columns if name not in (*about.given, about.clock)]
    numbers = [name for name in free if _is_number(table[name])]
    match kind:
        case "hour":
            yield from [(about.clock,)] if about.clock else []
        case "unit":
            yield from ((name,) for name in numbers)
        case "renamed" | "new category":
            yield from ((name,) for name in free if _has_levels(table[name]))
        case "swapped":
            texts = [name for name in free if pd.api.types.is_string_dtype(table[name])]
            yield from (*combinations(numbers, 2), *combinations(texts, 2))
        case "join":
            yield from combinations(free, 2)
        case _:
            yield from ((name,) for name in free)


def _is_number(values: pd.Series) -> bool:
    plain = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
    return plain and values.nunique() > LEVELS


def _has_levels(values: pd.Series) -> bool:
    whole = pd.api.types.is_integer_dtype(values) and values.nunique() <= LEVELS
    return whole or pd.api.types.is_string_dtype(values)
