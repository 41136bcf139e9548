"""Which variables a table has: kinds, levels and bins of its columns, and which to leave out."""

from __future__ import annotations

import heapq
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbn.config import SchemaConfig
from driftbn.errors import DataError
from driftbn.kernels.counting import Partitions, rank_by_appearance
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


def infer_schema(table: Table, config: SchemaConfig) -> tuple[Schema, NDArray[np.uint8]]:
    """Infer a schema and return it with the codes of the table.

    Raises DataError if a cell cannot be read, or is missing where that is rejected.
    """
    kept: list[Inferred] = []
    found: Inferred | Exclusion
    excluded: list[Exclusion] = []
    for name in sorted(table.columns):
        if name in table.unread:
            raise table.unread[name].error(name, min(table.unread[name].problems))
        array = table.columns[name]
        if _holds_times(name, array):
            found = Exclusion(name, ExclusionReason.TEMPORAL, "holds times")
        else:
            found = _infer(name, read_values(array), config)
        if isinstance(found, Inferred):
            found = _if_common(found)
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


def _infer(name: str, column: Column, config: SchemaConfig) -> Inferred | Exclusion:
    if isinstance(column, Factor):
        positions = used(column)
        id_like = _id_like_factor(name, column, len(positions), config)
        return id_like or _infer_factor(name, column, positions, config)
    few = distinct(column, config.integer_levels)
    if few is not None and len(positions := used(few)) <= config.integer_levels:
        return _infer_factor(name, few, positions, config)
    present = column.present
    id_like = _id_like_numbers(name, present, config)
    return id_like or _infer_numbers(name, column, present, config)


def _if_common(found: Inferred) -> Inferred | Exclusion:
    """Leave out a variable that has values, but too few for any test."""
    n_rows = len(found.row)
    n_present = n_rows - found.row.count(found.variable.missing_code)
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
    name: str, column: Numbers, present: NDArray[Any], config: SchemaConfig
) -> Inferred | Exclusion:
    edges = quantile_edges(present.astype(np.float64, copy=False), config.numeric_bins)
    if not edges and config.keep_constant:
        value = float(present[0])  # has a bin of its own
        edges = _finite((math.nextafter(value, -math.inf), value))
    elif not edges and column.missing is None:
        return Exclusion(name, ExclusionReason.CONSTANT, f"always {canonical_text(present[0])}")
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
    row = encode_factor(variable, factor, positions, texts)
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
    chosen = codes if len(picked) == len(codes) else codes[picked]
    ranks = np.empty((len(picked), min(n_ranked, codes.shape[1])), np.uint8)
    rank_by_appearance(Partitions(chosen, ranks, np.empty(256, np.uint8)))
    groups: dict[bytes, list[int]] = {}
    for row, ranked in zip(picked, ranks, strict=True):
        groups.setdefault(ranked.tobytes(), []).append(row)
    return [group for group in groups.values() if len(group) > 1]


def _is_telling(row: NDArray[np.uint8]) -> bool:
    counts = np.sort(np.bincount(row))
    return len(counts) > 1 and bool(counts[-2] >= MIN_SECOND_ROWS)
