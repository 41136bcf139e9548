"""Tables as a matrix of small integers, with the schema inferred or fixed before."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from driftbn.encoding.canonical import is_missing
from driftbn.encoding.codes import check_missing, encode_factor, encode_numbers, stack
from driftbn.encoding.columns import read_column
from driftbn.encoding.factors import (
    Column,
    Factor,
    Numbers,
    Times,
    counts_of,
    distinct,
    texts_of,
    used,
)
from driftbn.encoding.inference import infer_schema
from driftbn.encoding.tables import Table, read_table
from driftbn.errors import DataError
from driftbn.schema import MissingPolicy, Schema, SchemaConfig
from driftbn.variables import OTHER, Variable, VariableKind, level_key

MAX_NAMED_LEVELS: Final = 8
"""New levels named in one event; more are counted only, so an event stays small."""


class SchemaEventKind(StrEnum):
    """How a table differs from the schema it was encoded with."""

    NEW_LEVEL = "new_level"
    """Values that are none of the levels; they were encoded as ``__other__``."""
    NEW_COLUMN = "new_column"
    """A column that the schema neither has nor excludes for good; it was left out."""
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

    def check(self) -> None:
        """Look whether the codes are such as the schema has; kernels trust them.

        Raises
        ------
        DataError
            If their type or shape is another, or a code stands for no level.
        """
        codes, schema = self.codes, self.schema
        if codes.dtype != np.uint8 or codes.ndim != 2 or len(codes) != len(schema):
            problem = f"codes must be uint8 [{len(schema)} variables, rows]"
            raise DataError(f"{problem}, not {codes.dtype} of shape {codes.shape}")
        largest = codes.max(axis=1, initial=0).tolist()
        for variable, code in zip(schema.variables, largest, strict=True):
            allowed = variable.cardinality - (schema.missing is MissingPolicy.REJECT)
            if code >= allowed:
                problem = f"code {code} is not allowed: it must be below {allowed}"
                raise DataError(problem, column=variable.name)


def infer_and_encode(
    data: object, config: SchemaConfig | None = None, *, names: Sequence[str] | None = None
) -> EncodedTable:
    """Infer a schema from a table and encode the table with it, in one pass.

    Variables are sorted by name and levels by ``level_key``, so neither the order of rows nor that
    of columns matters. A constant, duplicate, id-like, temporal, rare or empty column is left out
    and listed in ``schema.excluded``. With a single row every column is constant, and none is left.

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
    return EncodedTable(*infer_schema(read_table(data, names), config or SchemaConfig()))


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
        if variable.name in table.columns:
            row, event = _encode(variable, read_column(variable.name, table.columns[variable.name]))
            check_missing(variable, row, schema.missing)
        else:
            row, event = _absent(variable, table.n_rows, schema.missing)
        rows.append(row)
        if event is not None:
            events.append(event)
    events.sort(key=lambda event: event.column)
    return EncodedTable(schema, stack(rows, table.n_rows), tuple(events))


def _new_columns(table: Table, schema: Schema) -> list[SchemaEvent]:
    """Return the columns that are new, and those that were too rare and have values."""
    n_rows = {
        name: _n_values(table.columns[name]) if name in schema.rare else table.n_rows
        for name in table.columns.keys() - set(schema.expected)
    }
    new = SchemaEventKind.NEW_COLUMN
    return [SchemaEvent(new, name, n_rows=n) for name, n in n_rows.items() if n]


def _n_values(raw: Any) -> int:
    """Count the cells of a raw column that have a value, whether or not it can be read."""
    if hasattr(raw, "null_count"):
        return len(raw) - int(raw.null_count)
    return sum(value is not None and not is_missing(value) for value in raw)


def _absent(variable: Variable, n_rows: int, policy: MissingPolicy) -> tuple[bytes, SchemaEvent]:
    name = variable.name
    if policy is MissingPolicy.REJECT:
        raise DataError("the column is absent, and missing values are rejected", column=name)
    event = SchemaEvent(SchemaEventKind.MISSING_COLUMN, name, n_rows=n_rows)
    return bytes([variable.missing_code]) * n_rows, event


def _encode(variable: Variable, column: Column) -> tuple[bytes, SchemaEvent | None]:
    if isinstance(column, Times):
        kind = variable.kind
        problem = f"{column.type_name} for a variable that is {kind}; it must not hold times"
        raise DataError(problem, column=variable.name)
    if isinstance(column, Numbers):
        if variable.kind is VariableKind.NUMERIC:
            return encode_numbers(variable, column), None
        column = cast(Factor, distinct(column))  # only a limit makes it None
    positions = used(column)
    texts = texts_of(column, positions)
    row = encode_factor(variable, column, positions, texts)
    if variable.pooled or variable.other_code not in row:
        return row, None
    return row, _new_level(variable, column, dict(zip(positions, texts, strict=True)))


def _new_level(variable: Variable, factor: Factor, texts: dict[int, str]) -> SchemaEvent | None:
    other = variable.other_code
    new = {p: t for p, t in texts.items() if variable.code_of(t) == other and t != OTHER}
    if not new:
        return None
    counts, levels = counts_of(factor), set(new.values())
    return SchemaEvent(
        SchemaEventKind.NEW_LEVEL,
        variable.name,
        levels=tuple(heapq.nsmallest(MAX_NAMED_LEVELS, levels, key=level_key)),
        n_levels=len(levels),
        n_rows=sum(counts[position] for position in new),
    )
