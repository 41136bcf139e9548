"""Which variables a table has: kinds, levels and bins of its columns, and which to leave out."""

from __future__ import annotations

import heapq
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbn.config import MAX_LEVELS, SchemaConfig
from driftbn.errors import DataError
from driftbn.kernels.counting import N_PARTS, NEAR_WHOLE, Partitions, rank_by_appearance
from driftbn.tables.cells import ALLOWED, canonical_text, is_mixed, may_hold_times, time_cells
from driftbn.tables.encode import (
    Column,
    EncodedTable,
    Factor,
    Numbers,
    check_missing,
    counts_of,
    distinct,
    encode_factor,
    encode_numbers,
    n_distinct,
    n_missing,
    read_values,
    stack,
    texts_of,
    used,
)
from driftbn.tables.read import Table, read_table
from driftbn.tables.schema import (
    OTHER,
    RESERVED,
    Exclusion,
    ExclusionReason,
    Schema,
    Variable,
    VariableKind,
    is_rare,
    level_key,
    sorted_levels,
)

ID_LIKE_MIN_ROWS: Final = 50
"""Present values below which no column is called id-like."""

_LARGEST: Final = sys.float_info.max


class Inferred(NamedTuple):
    variable: Variable
    row: bytes


def infer_schema(
    table: Table, config: SchemaConfig, *, grid: bool = False
) -> tuple[Schema, NDArray[np.uint8]]:
    """Infer a schema and return it with the codes of the table.

    ``grid``: whether the bins of numbers are to be the cells of ``grid_variable``, which ``Bins``
    puts together.

    Raises DataError if a cell cannot be read, or is missing where that is rejected.
    """
    kept: list[Inferred] = []
    found: Inferred | Exclusion
    excluded: list[Exclusion] = []
    for name in sorted(table.columns):
        if name in table.unread:
            raise table.error(name, min(table.unread[name]))
        array = table.columns[name]
        if _holds_times(name, array):
            found = Exclusion(name, ExclusionReason.TEMPORAL, "holds times")
        else:
            found = _if_common(_infer(name, read_values(array), config, grid=grid))
        if isinstance(found, Exclusion):
            excluded.append(found)
        else:
            kept.append(found)
    variables = [item.variable for item in kept]
    codes = stack([item.row for item in kept], table.n_rows)
    copies = {} if config.keep_duplicates else find_duplicates(codes)
    for copy, original in copies.items():
        detail = f"same as {variables[original].name!r}"
        excluded.append(Exclusion(variables[copy].name, ExclusionReason.DUPLICATE, detail))
    if copies:
        codes = np.delete(codes, list(copies), axis=0)
        variables = [variable for row, variable in enumerate(variables) if row not in copies]
    return Schema(variables, excluded, config.missing), codes


def _holds_times(name: str, array: Any) -> bool:
    """Whether a column is one of times; they may not stand among other values."""
    if not may_hold_times(array) or not is_mixed(array):
        return may_hold_times(array)
    times = time_cells(array)
    if times.any() and times.sum() < len(array) - array.null_count:
        problem = f"a time among other values; {ALLOWED}"
        raise DataError(problem, column=name, row=int(np.argmax(times)))
    return bool(times.any())


def quantile_edges(values: NDArray[np.float64], n_bins: int) -> tuple[float, ...]:
    """Return inner edges that cut ``values`` into at most ``n_bins`` bins, none of them empty.

    Edges are values of the data, at ranks ``ceil(i * n / n_bins)``. A value that covers several of
    these ranks, or is the largest, gets a bin of its own: its predecessor becomes an edge as well.
    Infinite edges are drawn in to the largest finite float.

    >>> quantile_edges(np.arange(8.0), 4)
    (1.0, 3.0, 5.0)
    >>> quantile_edges(np.array([0.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 9.0]), 4)
    (0.0, 5.0)
    """
    ordered = np.sort(values)  # with three ranks still faster than np.partition
    n_values = len(ordered)
    points = ordered[[-(-i * n_values // n_bins) - 1 for i in range(1, n_bins)]].tolist()
    edges: set[float] = set()
    for point in sorted(set(points)):
        if point < ordered[-1]:
            edges.add(point)
        if point == ordered[-1] or points.count(point) > 1:
            n_below = int(np.searchsorted(ordered, point))
            edges.update(ordered[n_below - 1 : n_below].tolist() if n_below else ())
    return _finite(edges)


_CELLS: Final = (8, 7, 6, 4, 2, 1)
"""Cells of the grid to a bin, as many as there is room for."""
_BEYOND: Final = tuple(i / 4 for i in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 512, 4096))
"""Widths of their range by which edges lie beyond it."""
_FAR_BEYOND: Final = (0.25, 1.0, 4.0, 16.0)
"""The same on a side of zero where there was no value at first."""
_SMALLER: Final = tuple(2.0**-i for i in (2, 2.5, 3, 3.5, 4, 5, 6, 8, 12))
"""Shares of the largest at which edges lie on the way to zero."""
_MOST_DIGITS: Final = 9
_MOST_SCALED: Final = 2.0**40
_STEPS: Final = 1000
"""Steps to the range of values that are no multiples of anything."""


def grid_variable(name: str, values: NDArray[np.float64], n_bins: int) -> Variable:
    """Return a variable of which good bins can be put together, whatever comes later.

    Its edges hold all that ``quantile_edges`` returns. Beyond the range of the values they lie ever
    farther apart, and so they do on the way to zero: when its unit changes, a field is still in
    several cells. Values with few decimal digits are counted in units of the last one.

    A grid of so many bins that its levels are more than a variable may have is none: the bins then
    are those of ``quantile_edges`` and stay as they are.
    """
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    outer = (math.nextafter(low, -math.inf), low, high, *_outer_edges(low, high))
    grids = (_finite((*quantile_edges(values, n * n_bins), *outer)) for n in _CELLS)
    fitting = (grid for grid in grids if N_PARTS * (len(grid) + 1) <= MAX_LEVELS)
    edges = next(fitting, None)
    if edges is None:
        return Variable(name, VariableKind.NUMERIC, edges=quantile_edges(values, n_bins))
    scale, whole = _scale(finite, high / 2 - low / 2)
    return Variable(name, VariableKind.NUMERIC, edges=edges, scale=scale, whole=whole)


def _outer_edges(low: float, high: float) -> Iterator[float]:
    largest = max(abs(low), abs(high)) or 1.0
    half = high / 2 - low / 2 or largest / 2  # of the range, which itself may be infinite
    for end, out, steps in (
        (low, -2 * half, _BEYOND if low < 0 else _FAR_BEYOND),
        (high, 2 * half, _BEYOND if high > 0 else _FAR_BEYOND),
    ):
        yield from (end + out * by for by in steps)
    if low >= 0 or high <= 0:
        yield from (math.copysign(largest * by, low + high) for by in _SMALLER)


def _scale(values: NDArray[np.float64], half_range: float) -> tuple[float, bool]:
    """Return the smallest power of ten that makes all values whole, or else one of many steps."""
    for n_digits in range(_MOST_DIGITS + 1):
        scaled = values * 10.0**n_digits
        if np.abs(scaled).max(initial=0.0) >= _MOST_SCALED:
            break
        if (np.abs(scaled - np.floor(scaled + 0.5)) <= NEAR_WHOLE / 50).all():
            return 10.0**n_digits, True
    steps = _STEPS / 2 / half_range if half_range > 0 else 1.0
    return (steps if math.isfinite(steps) else 1.0), False


@dataclass(frozen=True)
class Bins:
    """How the cells of a grid are put together, so that each field has a few bins of equal size.

    ``n_cells``: of each variable, 0 where codes are not those of cells and stay as they are.
    ``cuts``: the last cell of each bin but the last one.

    >>> edges = (1.0, 2.0, 3.0, 4.0)
    >>> schema = Schema([Variable("x", VariableKind.NUMERIC, edges=edges, scale=1.0, whole=True)])
    >>> codes = 4 * np.array([[0, 0, 1, 2, 3, 4]], np.uint8)
    >>> bins = Bins.of(schema, codes, 2)
    >>> bins.cuts, bins.apply(codes)
    (((1,),), array([[0, 0, 0, 1, 1, 1]], dtype=uint8))
    """

    n_bins: int
    n_cells: tuple[int, ...]
    cuts: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, schema: Schema, codes: NDArray[np.uint8], n_bins: int) -> Bins:
        """Return bins that some rows fill evenly."""
        n_cells = tuple(len(one.edges) + 1 if one.scale else 0 for one in schema.variables)
        empty = cls.as_they_are(len(n_cells))
        empty = replace(empty, n_bins=n_bins, n_cells=n_cells)
        return replace(empty, cuts=tuple(_cuts(one, n_bins) for one in empty._counts(codes)))

    @classmethod
    def as_they_are(cls, n_variables: int) -> Bins:
        """Return the bins of a schema that was given, and is not a grid."""
        return cls(1, (0,) * n_variables, ((),) * n_variables)

    @classmethod
    def from_state(cls, values: Mapping[str, Any]) -> Bins:
        """Return the bins whose fields, as JSON has them, these are."""
        cuts = tuple(map(tuple, values["cuts"]))
        return cls(values["n_bins"], tuple(values["n_cells"]), cuts)

    def renewed(self, codes: NDArray[np.uint8]) -> Bins:
        """Return these bins, with new ones for the fields whose bins are uneven by now."""
        counts, cuts = self._counts(codes), list(self.cuts)
        for v, (cells, present) in enumerate(zip(self.n_cells, counts, strict=True)):
            starts = [0, *(cut + 1 for cut in cuts[v])]
            if cells and 2 * self.n_bins * np.add.reduceat(present, starts).min() < present.sum():
                cuts[v] = _cuts(present, self.n_bins)
        return self if tuple(cuts) == self.cuts else replace(self, cuts=tuple(cuts))

    def _counts(self, codes: NDArray[np.uint8]) -> list[NDArray[np.int64]]:
        """Return for each variable how many rows are in each of its cells."""
        widths = [N_PARTS * n_cells for n_cells in self.n_cells]
        pairs = zip(codes, widths, strict=True)
        return [_filled(row, width).reshape(-1, N_PARTS).sum(axis=1) for row, width in pairs]

    def apply(self, codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return rows of cells as rows of bins."""
        if not any(self.n_cells):
            return codes
        pairs = zip(codes, self._tables, strict=True)
        rows = [row.tobytes().translate(table) for row, table in pairs]
        return stack(rows, codes.shape[1])

    @cached_property
    def _tables(self) -> list[bytes | None]:
        """The bin of each level of a cell; the reserved levels follow the bins."""
        tables: list[bytes | None] = [None] * len(self.cuts)
        for v, (n_cells, cuts) in enumerate(zip(self.n_cells, self.cuts, strict=True)):
            if n_cells:
                bins = np.searchsorted(cuts, np.arange(256) // N_PARTS)
                bins[N_PARTS * n_cells :] = len(cuts) + 1
                bins[N_PARTS * n_cells + 1 :] = len(cuts) + 2
                tables[v] = bins.astype(np.uint8).tobytes()
        return tables


def _filled(row: NDArray[np.uint8], width: int) -> NDArray[np.int64]:
    return np.bincount(row, minlength=width)[:width] if width else np.zeros(0, np.int64)


def _cuts(counts: NDArray[np.int64], n_bins: int) -> tuple[int, ...]:
    """Return the cells after which to cut, by the rule of ``quantile_edges``.

    A single cell that has all rows becomes a bin between two others.
    """
    filled = np.flatnonzero(counts).tolist()
    if not filled:
        return ()
    first, last = filled[0], filled[-1]
    if first == last:
        return tuple(cut for cut in (first - 1, first) if 0 <= cut < len(counts) - 1)
    n_rows = int(counts.sum())
    ranks = [-(-i * n_rows // n_bins) for i in range(1, n_bins)]
    cells = np.searchsorted(np.cumsum(counts), ranks).tolist()
    cuts = {cell for cell in cells if cell < last}
    alone = {cell for cell in cells if cell > first and (cell == last or cells.count(cell) > 1)}
    return tuple(sorted(cuts | {filled[filled.index(cell) - 1] for cell in alone}))


def _infer(name: str, column: Column, config: SchemaConfig, *, grid: bool) -> Inferred | Exclusion:
    if isinstance(column, Factor):
        positions = used(column)
        id_like = _id_like_factor(name, column, len(positions), config)
        return id_like or _infer_factor(name, column, positions, config)
    few = distinct(column, config.integer_levels)
    if few is not None and len(positions := used(few)) <= config.integer_levels:
        return _infer_factor(name, few, positions, config)
    present = column.present
    id_like = _id_like_numbers(name, present, config)
    return id_like or _infer_numbers(name, column, config, grid=grid)


def _if_common(found: Inferred | Exclusion) -> Inferred | Exclusion:
    """Leave out a variable that has values, but too few for any test."""
    if isinstance(found, Exclusion):
        return found
    n_rows, missing = len(found.row), found.variable.missing_code
    n_present = n_rows - found.row.count(missing) if missing in found.row else n_rows
    if n_present and is_rare(n_present, n_rows):
        detail = f"a value in {n_present} of {n_rows} rows"
        return Exclusion(found.variable.name, ExclusionReason.RARE, detail)
    return found


def _id_like_factor(
    name: str, factor: Factor, n_values: int, config: SchemaConfig
) -> Exclusion | None:
    if n_values <= config.id_like_ratio * ID_LIKE_MIN_ROWS:
        return None
    return _id_like(name, n_values, len(factor.codes) - n_missing(factor), config)


def _id_like_numbers(name: str, present: NDArray[Any], config: SchemaConfig) -> Exclusion | None:
    if present.dtype.kind == "f":
        return None
    span = int(present.max()) - int(present.min()) + 1
    if span <= config.id_like_ratio * len(present):
        return None
    return _id_like(name, n_distinct(present), len(present), config)


def _id_like(name: str, n_values: int, n_present: int, config: SchemaConfig) -> Exclusion | None:
    if n_present < ID_LIKE_MIN_ROWS or n_values <= config.id_like_ratio * n_present:
        return None
    detail = f"{n_values} distinct values in {n_present} rows"
    return Exclusion(name, ExclusionReason.ID_LIKE, detail)


def _infer_numbers(
    name: str, column: Numbers, config: SchemaConfig, *, grid: bool
) -> Inferred | Exclusion:
    present = column.present.astype(np.float64, copy=False)
    if grid:
        variable = grid_variable(name, present, config.numeric_bins)
    else:
        edges = quantile_edges(present, config.numeric_bins)
        if not edges and config.keep_constant:
            value = float(present[0])  # has a bin of its own
            edges = _finite((math.nextafter(value, -math.inf), value))
        elif not edges and column.missing is None:
            always = f"always {canonical_text(column.present[0])}"
            return Exclusion(name, ExclusionReason.CONSTANT, always)
        variable = Variable(name, VariableKind.NUMERIC, edges=edges)
    row = encode_numbers(variable, column)
    check_missing(variable, row, config.missing)
    return Inferred(variable, row)


def _finite(edges: Iterable[float]) -> tuple[float, ...]:
    """Return edges in order, each once, infinite ones drawn in to the largest finite float."""
    return tuple(sorted({min(max(edge, -_LARGEST), _LARGEST) + 0.0 for edge in edges}))


def _infer_factor(
    name: str, factor: Factor, positions: Sequence[int], config: SchemaConfig
) -> Inferred | Exclusion:
    texts = texts_of(factor, positions)
    levels, pooled = _levels(factor, positions, texts, config.max_levels)
    variable = Variable(name, factor.kind, levels, pooled=pooled)
    row = encode_factor(variable, factor)
    check_missing(variable, row, config.missing)
    missing = variable.missing_code in row
    if len(levels) + pooled + missing > 1 or config.keep_constant:
        return Inferred(variable, row)
    if missing:
        return Exclusion(name, ExclusionReason.ALL_MISSING, "no row has a value")
    return Exclusion(name, ExclusionReason.CONSTANT, f"always {texts[0]}")


def _levels(
    factor: Factor, positions: Sequence[int], texts: Sequence[str], n_most: int
) -> tuple[tuple[str, ...], bool]:
    """Return the levels in order, and whether there are others beside them."""
    if factor.kind is VariableKind.INTEGER and len(texts) <= n_most:
        return tuple(texts), False  # whole numbers come rising and each once
    found = set(texts) - RESERVED
    if len(found) <= n_most:
        return sorted_levels(found), OTHER in texts
    return sorted_levels(_most_frequent(factor, positions, texts, n_most)), True


def _most_frequent(
    factor: Factor, positions: Sequence[int], texts: Sequence[str], n_kept: int
) -> set[str]:
    """Return the commonest levels, ties by ``level_key``; the reserved ones do not compete."""
    counts = counts_of(factor)
    totals: dict[str, int] = {}
    for position, text in zip(positions, texts, strict=True):
        totals[text] = totals.get(text, 0) + counts[position]
    candidates = totals.keys() - RESERVED
    return set(heapq.nsmallest(n_kept, candidates, key=lambda t: (-totals[t], level_key(t))))


def infer_and_encode(
    data: object, config: SchemaConfig | None = None, *, names: Sequence[str] | None = None
) -> EncodedTable:
    """Infer a schema from a table and encode the table with it, in one pass.

    Variables are sorted by name and levels by ``level_key``, so neither the order of rows nor that
    of columns matters. A constant, duplicate, id-like, temporal, rare or empty column is left out
    and listed in ``schema.excluded``. With a single row every column is constant, and none is left.

    ``data``: any table that ``read_table`` takes; an absent key of a dict is a missing value.
    ``names``: column names of a 2-D array.

    Raises DataError if the table is empty or ragged, a name is not allowed or taken twice, a cell
    holds something other than text, a number, a boolean or a missing value, or a value is missing
    under ``MissingPolicy.REJECT``.

    >>> table = infer_and_encode({"size": [3, "3", 3.0, 10], "ok": [True, False, None, True]})
    >>> [variable.levels for variable in table.schema.variables]
    [('false', 'true'), ('3', '10')]
    >>> table.codes.tolist()
    [[1, 0, 3, 1], [0, 0, 0, 1]]
    """
    return EncodedTable(*infer_schema(read_table(data, names), config or SchemaConfig()))


MIN_SECOND_ROWS: Final = 5
"""Rows that the second most frequent level of a duplicate has at least.

Rarer columns may coincide by chance, such as two flags that are both set in the same single row,
and nothing can be said of them.
"""
_N_SIGNATURE_ROWS: Final = 256
"""Rows compared before all are; two different columns seldom agree on so many."""


def find_duplicates(codes: NDArray[np.uint8]) -> dict[int, int]:
    """Return for each row of codes that repeats an earlier one the first such row.

    Rows are the same if they part the table alike, whatever the codes of the parts. A row whose
    second most frequent code stands in fewer than ``MIN_SECOND_ROWS`` places is never a duplicate.

    >>> flags = np.tile(np.array([[0, 0, 1], [1, 1, 0], [0, 1, 1]], np.uint8), 5)
    >>> find_duplicates(flags)
    {1: 0}
    """
    alike = _groups(range(len(codes)), codes, _N_SIGNATURE_ROWS)
    return {
        row: original
        for candidates in alike
        for original, *copies in _groups(candidates, codes, codes.shape[1])
        if _is_telling(codes[original])
        for row in copies
    }


def _groups(rows: Iterable[int], codes: NDArray[np.uint8], n_ranked: int) -> list[list[int]]:
    """Return the groups of rows that part the first places alike; a row by itself is none."""
    picked = list(rows)
    ranks = np.empty((len(picked), min(n_ranked, codes.shape[1])), np.uint8)
    rank_by_appearance(Partitions(codes[picked], ranks, np.empty(256, np.uint8)))
    groups: dict[bytes, list[int]] = {}
    for row, ranked in zip(picked, ranks, strict=True):
        groups.setdefault(ranked.tobytes(), []).append(row)
    return [group for group in groups.values() if len(group) > 1]


def _is_telling(row: NDArray[np.uint8]) -> bool:
    counts = np.sort(np.bincount(row))
    return len(counts) > 1 and bool(counts[-2] >= MIN_SECOND_ROWS)
