"""Tables as a matrix of small integers, with the schema inferred or fixed before."""

from __future__ import annotations

import heapq
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from driftbn.columns import (
    MISSING_BYTE,
    Column,
    Factor,
    Numbers,
    Table,
    Times,
    canonical_text,
    distinct,
    n_distinct,
    read_column,
    read_table,
    texts_of,
    used,
)
from driftbn.errors import DataError
from driftbn.schema import (
    MISSING,
    OTHER,
    Exclusion,
    ExclusionReason,
    MissingPolicy,
    Schema,
    SchemaConfig,
    Variable,
    VariableKind,
    level_key,
    sorted_levels,
)

MAX_NAMED_LEVELS: Final = 8
"""New levels named in one event; more are counted only, so an event stays small."""
_N_SIGNATURE_ROWS: Final = 256
"""Rows compared before all are; two different columns seldom agree on so many."""
_N_COMPARED_EDGES: Final = 12
"""Edges up to which comparing with each is faster than a binary search per value."""
_RESERVED: Final = frozenset((OTHER, MISSING))
_LARGEST: Final = sys.float_info.max


class SchemaEventKind(StrEnum):
    """How a table differs from the schema it was encoded with."""

    NEW_LEVEL = "new_level"
    """Values that are none of the levels; they were encoded as ``__other__``."""
    NEW_COLUMN = "new_column"
    """A column that the schema neither has nor excludes; it was left out."""
    MISSING_COLUMN = "missing_column"
    """A variable without a column; it was encoded as ``__missing__``."""


@dataclass(frozen=True)
class SchemaEvent:
    """One difference between a table and its schema.

    Parameters
    ----------
    kind
        What differs.
    column
        The column or variable.
    levels
        For new levels their texts in canonical order, the first eight.
    n_levels
        How many new levels there are.
    n_rows
        How many rows are concerned.
    """

    kind: SchemaEventKind
    column: str
    levels: tuple[str, ...] = ()
    n_levels: int = 0
    n_rows: int = 0


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """A table as codes.

    Parameters
    ----------
    schema
        What the codes mean.
    codes
        ``uint8 [variables, rows]``, C-contiguous; row ``i`` belongs to ``schema.variables[i]``.
    events
        Differences from a fixed schema, by column name; empty when the schema was inferred.
    """

    schema: Schema
    codes: NDArray[np.uint8] = field(repr=False)
    events: tuple[SchemaEvent, ...] = ()

    @property
    def n_rows(self) -> int:
        """The number of rows of the table."""
        return int(self.codes.shape[1])

    def column(self, name: str) -> NDArray[np.uint8]:
        """Return the codes of one variable.

        Raises
        ------
        UnknownVariableError
            If no variable has this name.
        """
        row: NDArray[np.uint8] = self.codes[self.schema.index(name)]
        return row


class _Inferred(NamedTuple):
    variable: Variable
    row: bytes
    observed: list[int]


def infer_and_encode(
    data: object, config: SchemaConfig | None = None, *, names: Sequence[str] | None = None
) -> EncodedTable:
    """Infer a schema from a table and encode the table with it, in one pass.

    Variables are sorted by name and levels by ``level_key``, so neither the order of rows nor that
    of columns matters. A constant, duplicate, id-like, temporal or empty column is left out and
    listed in ``schema.excluded``. With a single row every column is constant, and none is left.

    Parameters
    ----------
    data
        A pandas DataFrame, an Arrow table or record batch, a list of dicts (an absent key is a
        missing value), a dict of columns, or a 2-D array.
    config
        How to infer; the defaults of ``SchemaConfig`` if not given.
    names
        Column names of a 2-D array.

    Raises
    ------
    DataError
        If the table is empty or ragged, a name is not allowed or taken twice, a cell holds
        something other than text, a number, a boolean or a missing value, or a value is missing
        under ``MissingPolicy.REJECT``.

    Examples
    --------
    >>> table = infer_and_encode({"size": [3, "3", 3.0, 10], "ok": [True, False, None, True]})
    >>> [variable.levels for variable in table.schema.variables]
    [('false', 'true'), ('3', '10')]
    >>> table.codes.tolist()
    [[1, 0, 3, 1], [0, 0, 0, 1]]
    """
    config = config or SchemaConfig()
    table = read_table(data, names)
    kept: list[_Inferred] = []
    excluded: list[Exclusion] = []
    for name in sorted(table.columns):
        found = _infer(name, read_column(name, table.columns[name]), config)
        if isinstance(found, Exclusion):
            excluded.append(found)
        else:
            kept.append(found)
    twins = _duplicates(kept)
    excluded += twins.values()
    kept = [item for item in kept if item.variable.name not in twins]
    schema = Schema([item.variable for item in kept], excluded, config.missing)
    return EncodedTable(schema, _matrix([item.row for item in kept], table.n_rows))


def encode(data: object, schema: Schema, *, names: Sequence[str] | None = None) -> EncodedTable:
    """Encode a table with a schema that is fixed, as a monitor does with each batch.

    An unknown level becomes ``__other__``, an absent column ``__missing__`` throughout, and a
    column that the schema does not know is left out; each is an event and none an error. So is text
    that is no number in a numeric variable.

    Parameters
    ----------
    data
        Any table that ``infer_and_encode`` takes.
    schema
        The variables to encode.
    names
        Column names of a 2-D array.

    Raises
    ------
    DataError
        As for ``infer_and_encode``; also if a variable's column holds times.

    Examples
    --------
    >>> schema = infer_and_encode({"x": ["a", "b"]}).schema
    >>> table = encode({"x": ["b", "c", None], "y": [1, 2, 3]}, schema)
    >>> schema["x"].labels, table.codes.tolist()
    (('a', 'b', '__other__', '__missing__'), [[1, 2, 3]])
    >>> [(event.kind.value, event.column, event.levels) for event in table.events]
    [('new_level', 'x', ('c',)), ('new_column', 'y', ())]
    """
    table = read_table(data, names)
    events = _new_columns(table, schema)
    rows: list[bytes] = []
    for variable in schema.variables:
        name = variable.name
        if name not in table.columns:
            if schema.missing is MissingPolicy.REJECT:
                raise DataError(
                    "the column is absent, and missing values are rejected", column=name
                )
            rows.append(bytes([variable.missing_code]) * table.n_rows)
            events.append(SchemaEvent(SchemaEventKind.MISSING_COLUMN, name, n_rows=table.n_rows))
            continue
        row, event = _encode(variable, read_column(name, table.columns[name]))
        _check_missing(name, variable, row, schema.missing)
        rows.append(row)
        if event is not None:
            events.append(event)
    events.sort(key=lambda event: event.column)
    return EncodedTable(schema, _matrix(rows, table.n_rows), tuple(events))


def quantile_edges(values: NDArray[np.float64], n_bins: int) -> tuple[float, ...]:
    """Return inner edges that cut ``values`` into at most ``n_bins`` bins, none of them empty.

    Edges are values of the data, at ranks ``ceil(i * n / n_bins)``. A value that covers several of
    these ranks, or is the largest, gets a bin of its own: its predecessor becomes an edge as well.
    Infinite edges are drawn in to the largest finite float.

    Examples
    --------
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
    return tuple(sorted({min(max(edge, -_LARGEST), _LARGEST) + 0.0 for edge in edges}))


def _infer(name: str, column: Column, config: SchemaConfig) -> _Inferred | Exclusion:
    if isinstance(column, Times):
        return Exclusion(name, ExclusionReason.TEMPORAL, f"holds {column.type_name}")
    if isinstance(column, Factor):
        positions = used(column)
        return _id_like_factor(name, column, len(positions), config) or _infer_factor(
            name, column, positions, config
        )
    few = distinct(column, config.integer_levels)
    if few is not None and len(positions := used(few)) <= config.integer_levels:
        return _infer_factor(name, few, positions, config)
    present = column.values if column.missing is None else column.values[~column.missing]
    return _id_like_numbers(name, present, config) or _infer_numbers(
        name, column, present.astype(np.float64, copy=False), config
    )


def _id_like_factor(
    name: str, factor: Factor, n_values: int, config: SchemaConfig
) -> Exclusion | None:
    if n_values <= config.id_like_ratio * config.id_like_min_rows:
        return None
    n_present = len(factor.codes) - _n_missing(factor)
    return _id_like(name, n_values, n_present, config)


def _id_like_numbers(name: str, present: NDArray[Any], config: SchemaConfig) -> Exclusion | None:
    if present.dtype.kind == "f":
        return None
    span = int(present.max()) - int(present.min()) + 1
    if span <= config.id_like_ratio * len(present):
        return None
    return _id_like(name, n_distinct(present), len(present), config)


def _id_like(name: str, n_values: int, n_present: int, config: SchemaConfig) -> Exclusion | None:
    if n_present < config.id_like_min_rows or n_values <= config.id_like_ratio * n_present:
        return None
    detail = f"{n_values} distinct values in {n_present} rows"
    return Exclusion(name, ExclusionReason.ID_LIKE, detail)


def _infer_numbers(
    name: str, column: Numbers, present: NDArray[np.float64], config: SchemaConfig
) -> _Inferred | Exclusion:
    edges = quantile_edges(present, config.numeric_bins)
    variable = Variable(name, VariableKind.NUMERIC, edges=edges)
    row = _bin_row(variable, column)
    observed = list(range(len(variable.levels)))
    if column.missing is not None:
        observed.append(variable.missing_code)
        _check_missing(name, variable, row, config.missing)
    if len(observed) == 1:
        return Exclusion(name, ExclusionReason.CONSTANT, f"always {canonical_text(present[0])}")
    return _Inferred(variable, row, observed)


def _infer_factor(
    name: str, factor: Factor, positions: list[int], config: SchemaConfig
) -> _Inferred | Exclusion:
    texts = texts_of(factor, positions)
    found = set(texts) - _RESERVED
    levels = found
    if len(found) > config.max_levels:
        levels = _most_frequent(factor, positions, texts, config.max_levels)
    pooled = OTHER in texts or len(levels) < len(found)
    # Whole numbers come rising and each once, so they need no sorting.
    in_order = factor.kind is VariableKind.INTEGER and not pooled
    variable = Variable(
        name, factor.kind, tuple(texts) if in_order else sorted_levels(levels), pooled=pooled
    )
    other, missing = variable.other_code, variable.missing_code
    lookup = {text: code for code, text in enumerate(variable.levels)}
    lookup[MISSING] = missing
    codes = [lookup.get(text, other) for text in texts]
    row = _translate(factor, positions, codes, missing)
    observed = set(codes)
    if missing in row:
        observed.add(missing)
        _check_missing(name, variable, row, config.missing)
    if len(observed) > 1:
        return _Inferred(variable, row, sorted(observed))
    if missing in observed:
        return Exclusion(name, ExclusionReason.ALL_MISSING, "no row has a value")
    return Exclusion(name, ExclusionReason.CONSTANT, f"always {texts[0]}")


def _n_missing(factor: Factor) -> int:
    codes = factor.codes
    return codes.count(MISSING_BYTE) if isinstance(codes, bytes) else int((codes < 0).sum())


def _counts(factor: Factor) -> list[int]:
    """Count the rows of each value."""
    codes = factor.codes
    wide = np.frombuffer(codes, np.uint8) if isinstance(codes, bytes) else codes + 1
    counts: list[int] = np.bincount(wide, minlength=len(factor.values) + 1).tolist()
    return counts if isinstance(codes, bytes) else counts[1:]


def _most_frequent(
    factor: Factor, positions: Sequence[int], texts: Sequence[str], n_kept: int
) -> set[str]:
    """Return the commonest levels, ties by ``level_key``; the reserved ones do not compete."""
    counts = _counts(factor)
    totals: dict[str, int] = {}
    for position, text in zip(positions, texts, strict=True):
        totals[text] = totals.get(text, 0) + counts[position]
    candidates = totals.keys() - _RESERVED
    return set(heapq.nsmallest(n_kept, candidates, key=lambda t: (-totals[t], level_key(t))))


def _translate(
    factor: Factor, positions: Sequence[int], codes: Sequence[int], missing_code: int
) -> bytes:
    """Return the row of a factor whose values at ``positions`` have these ``codes``."""
    if isinstance(factor.codes, bytes):
        if positions == codes and MISSING_BYTE not in factor.codes:
            return factor.codes
        table = bytearray(256)
        for position, code in zip(positions, codes, strict=True):
            table[position] = code
        table[MISSING_BYTE] = missing_code
        return factor.codes.translate(table)
    lookup = np.zeros(len(factor.values) + 1, np.uint8)
    lookup[positions] = codes
    lookup[-1] = missing_code  # where the mark -1 points
    return lookup[factor.codes].tobytes()


def _bin_row(variable: Variable, column: Numbers) -> bytes:
    values = column.values.astype(np.float64, copy=False)
    if len(variable.edges) <= _N_COMPARED_EDGES:
        codes = np.zeros(len(values), np.uint8)
        for edge in variable.edges:
            codes += values > edge
    else:
        codes = np.searchsorted(np.array(variable.edges), values).astype(np.uint8)
    if column.missing is not None:
        codes[column.missing] = variable.missing_code
    return codes.tobytes()


def _check_missing(name: str, variable: Variable, row: bytes, policy: MissingPolicy) -> None:
    if policy is MissingPolicy.REJECT and variable.missing_code in row:
        first = row.find(variable.missing_code)
        raise DataError(
            "the value is missing, and missing values are rejected", column=name, row=first
        )


def _duplicates(kept: Sequence[_Inferred]) -> dict[str, Exclusion]:
    """Find rows that are an earlier one up to the names of the levels."""
    groups: dict[object, list[tuple[_Inferred, bytes]]] = {}
    for item in kept:
        firsts = sorted([(item.row.find(code), code) for code in item.observed])
        table = bytearray(256)
        for rank, (_, code) in enumerate(firsts):
            table[code] = rank
        head = item.row[:_N_SIGNATURE_ROWS].translate(table)
        signature = (tuple(first for first, _ in firsts), head)
        groups.setdefault(signature, []).append((item, bytes(table)))
    twins: dict[str, Exclusion] = {}
    for group in groups.values():
        originals: dict[bytes, str] = {}
        for item, relabelling in group if len(group) > 1 else ():
            name = item.variable.name
            original = originals.setdefault(item.row.translate(relabelling), name)
            if original != name:
                detail = f"same as {original!r}"
                twins[name] = Exclusion(name, ExclusionReason.DUPLICATE, detail)
    return twins


def _encode(variable: Variable, column: Column) -> tuple[bytes, SchemaEvent | None]:
    if isinstance(column, Times):
        problem = (
            f"{column.type_name} for a variable that is {variable.kind}; it must not hold times"
        )
        raise DataError(problem, column=variable.name)
    if isinstance(column, Numbers):
        if variable.kind is VariableKind.NUMERIC:
            return _bin_row(variable, column), None
        column = cast(Factor, distinct(column))  # only a limit makes it None
    positions = used(column)
    texts = texts_of(column, positions)
    codes = [variable.code_of(text) for text in texts]
    row = _translate(column, positions, codes, variable.missing_code)
    if variable.pooled or variable.other_code not in codes:
        return row, None
    return row, _new_level_event(variable, column, dict(zip(positions, texts, strict=True)))


def _new_level_event(
    variable: Variable, factor: Factor, texts: dict[int, str]
) -> SchemaEvent | None:
    other = variable.other_code
    new = {p: t for p, t in texts.items() if variable.code_of(t) == other and t != OTHER}
    if not new:
        return None
    counts, levels = _counts(factor), set(new.values())
    return SchemaEvent(
        SchemaEventKind.NEW_LEVEL,
        variable.name,
        levels=tuple(heapq.nsmallest(MAX_NAMED_LEVELS, levels, key=level_key)),
        n_levels=len(levels),
        n_rows=sum(counts[position] for position in new),
    )


def _new_columns(table: Table, schema: Schema) -> list[SchemaEvent]:
    known = {*schema.names, *(exclusion.name for exclusion in schema.excluded)}
    return [
        SchemaEvent(SchemaEventKind.NEW_COLUMN, name, n_rows=table.n_rows)
        for name in sorted(table.columns.keys() - known)
    ]


def _matrix(rows: Sequence[bytes], n_rows: int) -> NDArray[np.uint8]:
    codes = np.empty((len(rows), n_rows), np.uint8)
    for position, row in enumerate(rows):
        codes[position] = np.frombuffer(row, np.uint8)
    return codes
