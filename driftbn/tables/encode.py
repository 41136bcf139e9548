"""Tables as a matrix of small integers, with a schema that was fixed before."""

from __future__ import annotations

import heapq
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from driftbn.config import MissingPolicy
from driftbn.errors import DataError
from driftbn.kernels.counting import find_levels
from driftbn.tables.cells import (
    FEW_ROWS,
    Kind,
    as_numpy,
    cells_of,
    declared_text,
    is_mixed,
    kinds_of,
    may_hold_times,
    missing_cells,
    mixed_texts,
    settled,
    time_cells,
)
from driftbn.tables.read import Table, category_values, read_table, value_at
from driftbn.tables.schema import MISSING, OTHER, Schema, Variable, VariableKind, level_key

MISSING_BYTE: Final = 255
"""Marks a missing value in byte codes; as a signed byte it is -1, the mark in wider codes."""

_TRUTHS: Final = ["false", "true"]
_N_PROBED_ROWS: Final = 256
"""Rows asked first whether a column is whole or has many values; asking all costs more."""


class Factor(NamedTuple):
    """A column as codes into a list of values, which may hold equal texts and unused values."""

    codes: bytes | NDArray[np.int32]  # [rows]: 255 is missing in bytes, -1 in the wider form
    values: Any  # value by code: a list, a range, an object array or an Arrow array
    kind: VariableKind


class Numbers(NamedTuple):
    values: NDArray[Any]  # [rows]: float64, or integers
    missing: NDArray[np.bool_] | None = None  # [rows]; None when nothing is missing

    @property
    def present(self) -> NDArray[Any]:
        return self.values if self.missing is None else self.values[~self.missing]


Column: TypeAlias = Factor | Numbers


def read_values(array: Any) -> Column:
    """Return the cells of a column, of which none is a time, as codes or numbers."""
    if isinstance(array, pa.Array):
        return _read_arrow(settled(array) if is_mixed(array) else array)
    if not isinstance(array, np.ndarray):
        return _read_coded(array.codes, category_values(array))
    kind = array.dtype.kind
    if kind == "O":
        # Pandas hashes text where it is; Arrow would copy it first (37 columns: 10 ms, not 17).
        codes, texts = sys.modules["pandas"].factorize(array)
        return make_factor(codes, texts, VariableKind.CATEGORICAL)
    if kind == "b":
        return Factor(array.tobytes(), _TRUTHS, VariableKind.BOOLEAN)
    return make_numbers(array) if kind == "f" else Numbers(array)


def _read_arrow(array: Any) -> Column:
    kind, types = array.type, pa.types
    if types.is_dictionary(kind):
        return _read_dictionary(array)
    if types.is_integer(kind):
        return _read_integers(array)
    if types.is_floating(kind):
        return make_numbers(as_numpy(array))
    if types.is_boolean(kind):
        return _read_booleans(array)
    if is_mixed(array):
        return _read_mixed(array)
    if types.is_null(kind) or types.is_temporal(kind):
        return missing_factor(len(array), VariableKind.CATEGORICAL)
    return _read_texts(array)


def _read_texts(array: Any) -> Factor:
    if len(array) > FEW_ROWS:
        return _read_dictionary(array.dictionary_encode())
    cells = array.to_pylist()
    texts = [text for text in dict.fromkeys(cells) if text is not None]
    codes = {text: code for code, text in enumerate(texts)} | {None: MISSING_BYTE}
    return Factor(bytes(map(codes.__getitem__, cells)), texts, VariableKind.CATEGORICAL)


def _read_integers(array: Any) -> Numbers:
    if not array.null_count:
        return Numbers(as_numpy(array))
    return Numbers(as_numpy(array.fill_null(0)), as_numpy(array.is_null()))


def _read_booleans(array: Any) -> Factor:
    if not array.null_count:
        return Factor(as_numpy(array).tobytes(), _TRUTHS, VariableKind.BOOLEAN)
    codes = as_numpy(array.cast("uint8").fill_null(MISSING_BYTE))
    return Factor(codes.tobytes(), _TRUTHS, VariableKind.BOOLEAN)


def _read_dictionary(array: Any) -> Factor:
    indices = array.indices
    if indices.null_count:
        indices = indices.cast("int32").fill_null(-1)
    return _read_coded(as_numpy(indices), array.dictionary)


def _read_coded(codes: NDArray[Any], values: Any) -> Factor:
    if len(values) <= MISSING_BYTE and not isinstance(values, list):
        values = values.to_pylist()
    return make_factor(codes, values, VariableKind.CATEGORICAL)


def _read_mixed(array: Any) -> Column:
    """Return mixed cells as floats if all are numbers and not all whole, else by their texts."""
    if set(kinds_of(array).tolist()) <= {Kind.FLOAT, MISSING_BYTE}:
        floats = [np.nan if cell is None else float(cell) for cell in cells_of(array)]
        return make_numbers(np.array(floats, np.float64))
    coded = mixed_texts(array).dictionary_encode()
    texts = [text.decode("utf-8", "surrogatepass") for text in coded.dictionary.to_pylist()]
    indices = as_numpy(coded.indices.fill_null(-1))
    return make_factor(indices, np.array(texts, object), VariableKind.CATEGORICAL)


def make_factor(codes: NDArray[Any], values: Any, kind: VariableKind) -> Factor:
    """Return a factor with codes as bytes if they fit; -1 wraps to the mark of a missing value."""
    if len(values) > MISSING_BYTE:
        return Factor(codes.astype(np.int32, copy=False), values, kind)
    narrow = codes if codes.itemsize == 1 else codes.astype(np.uint8)
    return Factor(narrow.tobytes(), values, kind)


def make_numbers(values: NDArray[Any]) -> Numbers:
    """Return floats of any width as a column of numbers; NaN is missing."""
    values = values.astype(np.float64, copy=False)
    missing = np.isnan(values)
    return Numbers(values, missing if missing.any() else None)


def missing_factor(n_rows: int, kind: VariableKind) -> Factor:
    return Factor(bytes([MISSING_BYTE]) * n_rows, [], kind)


def used(factor: Factor) -> list[int]:
    """Return the positions of the values that occur, rising."""
    codes = factor.codes
    if isinstance(codes, bytes):
        # One memchr each, which ends at the first hit: 0.1 us, where a bincount takes 10.
        return [position for position in range(len(factor.values)) if position in codes]
    found: list[int] = np.flatnonzero(np.bincount(codes + 1)[1:]).tolist()
    return found


def counts_of(factor: Factor) -> list[int]:
    codes, n_values = factor.codes, len(factor.values)
    if isinstance(codes, bytes):
        counts = np.bincount(np.frombuffer(codes, np.uint8), minlength=n_values)[:n_values]
    else:
        counts = np.bincount(codes + 1, minlength=n_values + 1)[1:]
    found: list[int] = counts.tolist()
    return found


def n_missing(factor: Factor) -> int:
    codes = factor.codes
    return codes.count(MISSING_BYTE) if isinstance(codes, bytes) else int((codes < 0).sum())


def texts_of(factor: Factor, positions: Sequence[int] | None = None) -> list[str]:
    """Return the canonical texts of the values at some positions, or of all."""
    values = factor.values
    if isinstance(values, range):
        return [str(values[p]) for p in positions] if positions is not None else [*map(str, values)]
    if positions is None:
        picked = values if isinstance(values, list | np.ndarray) else values.to_pylist()
    elif isinstance(values, list | np.ndarray):
        picked = [values[position] for position in positions]
    else:
        picked = values.take(pa.array(positions, "int64")).to_pylist()
    return [
        value if type(value) is str and value[-2:] != ".0" else declared_text(value)
        for value in picked
    ]


def distinct(numbers: Numbers, whole_at_most: int | None = None) -> Factor | None:
    """Return numbers as codes, values rising.

    Whole numbers within a range of 255 are coded by offset, so some values may be unused. With
    ``whole_at_most`` the answer is ``None`` as soon as a value is not whole or more differ.
    """
    values, missing, present = numbers.values, numbers.missing, numbers.present
    if not len(present):
        return missing_factor(len(values), VariableKind.INTEGER)
    whole = _all_whole(present)
    if whole_at_most is not None and not whole:
        return None
    low, high = present.min().item(), present.max().item()
    if whole and high - low < MISSING_BYTE:
        codes = values if low == 0 and missing is None else _offsets(values, int(low))
        found: Sequence[Any] = range(int(low), int(high) + 1)
    elif whole_at_most is not None and n_distinct(present[:_N_PROBED_ROWS]) > whole_at_most:
        return None
    else:
        ordered = np.sort(present)
        unique = ordered[np.append(True, ordered[1:] != ordered[:-1])]
        codes, found = np.searchsorted(unique, values), unique.tolist()
    if missing is not None:
        codes[missing] = MISSING_BYTE if len(found) <= MISSING_BYTE else -1
    return make_factor(codes, found, VariableKind.INTEGER if whole else VariableKind.NUMERIC)


def n_distinct(values: NDArray[Any]) -> int:
    """Count distinct values by sorting, which beats ``numpy.unique`` tenfold at 5000 rows."""
    ordered = np.sort(values)
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + min(1, len(ordered))


def _offsets(values: NDArray[Any], low: int) -> NDArray[Any]:
    if values.dtype.kind != "f":
        codes = values.astype(np.uint8)
        codes -= np.uint8(low % 256)  # both wrap, so the difference holds
        return codes
    with np.errstate(invalid="ignore"):  # NaN has no byte; the caller overwrites it
        return (values - low).astype(np.uint8)


def _all_whole(values: NDArray[Any]) -> bool:
    if values.dtype.kind != "f":
        return True
    parts = (values[:_N_PROBED_ROWS], values)
    return all(np.isfinite(part).all() and (part == np.floor(part)).all() for part in parts)


_N_COMPARED_EDGES: Final = 4
"""Edges up to which comparing with each is faster than a binary search per value."""


def encode_factor(variable: Variable, factor: Factor) -> bytes:
    codes = factor.codes
    if isinstance(codes, bytes):
        texts = tuple(texts_of(factor))
        if variable.kind is not VariableKind.NUMERIC:
            return codes.translate(_translation(variable.levels, texts))
        found = bytes(map(variable.code_of, texts))
        return codes.translate(_table(found, variable.missing_code))
    positions = used(factor)
    lookup = np.zeros(len(factor.values) + 1, np.uint8)
    lookup[positions] = [variable.code_of(text) for text in texts_of(factor, positions)]
    lookup[-1] = variable.missing_code  # where the mark -1 points
    return lookup[codes].tobytes()


@lru_cache(maxsize=4096)
def _translation(levels: tuple[str, ...], texts: tuple[str, ...]) -> bytes:
    """Return the code of each text. The batches of a source have the same ones, mostly."""
    codes = {text: code for code, text in enumerate((*levels, OTHER, MISSING))}
    other = len(levels)
    return _table(bytes(codes.get(text, other) for text in texts), codes[MISSING])


def _table(codes: bytes, missing: int) -> bytes:
    return codes + bytes([missing]) * (256 - len(codes))


def encode_numbers(variable: Variable, column: Numbers) -> bytes:
    values = np.ascontiguousarray(column.values, np.float64)
    if not variable.scale and len(variable.edges) <= _N_COMPARED_EDGES:
        codes = np.zeros(len(values), np.uint8)
        for edge in variable.edges:
            codes += values > edge
    else:
        codes = np.empty(len(values), np.uint8)
        edges = np.array(variable.edges, np.float64)
        find_levels(edges, variable.scale, variable.whole, values, codes)
    if column.missing is not None:
        codes[column.missing] = variable.missing_code
    return codes.tobytes()


def check_missing(variable: Variable, row: bytes, policy: MissingPolicy) -> None:
    """Refuse a row with a missing value if the policy does.

    Raises DataError if there is one; it names the first.
    """
    if policy is MissingPolicy.REJECT and variable.missing_code in row:
        problem = "the value is missing, and missing values are rejected"
        raise DataError(problem, column=variable.name, row=row.find(variable.missing_code))


def stack(rows: Sequence[bytes], n_rows: int) -> NDArray[np.uint8]:
    """Return rows of codes as a matrix ``[variables, rows]`` that may be written to."""
    # Joined in one go, which takes a sixth of the time of copying row by row.
    codes = np.frombuffer(bytearray().join(rows), np.uint8)
    return codes.reshape(len(rows), n_rows)


MAX_NAMED_LEVELS: Final = 8
"""New levels named in one event; more are counted only, so an event stays small."""


class SchemaEventKind(StrEnum):
    NEW_LEVEL = "new_level"
    """Values that are none of the levels; they were encoded as ``__other__``."""
    NEW_COLUMN = "new_column"
    """A column that the schema neither has nor excludes for good; it was left out."""
    MISSING_COLUMN = "missing_column"
    """A variable without a column; it was encoded as ``__missing__``."""
    MISSING_VALUES = "missing_values"
    """A variable that has no value in more rows than ever."""
    OTHER_SCALE = "other_scale"
    """Numbers of another size than ever, as where a unit has changed."""


@dataclass(frozen=True)
class SchemaEvent:
    """One difference between a table and its schema.

    ``levels``: for new levels their texts in canonical order, the first eight. ``n_rows``: how many
    rows are concerned.
    """

    kind: SchemaEventKind
    column: str
    levels: tuple[str, ...] = ()
    n_levels: int = 0
    n_rows: int = 0


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """A table as codes.

    ``codes``: ``uint8 [variables, rows]``, C-contiguous; row ``i`` belongs to
    ``schema.variables[i]``. ``events``: differences from a fixed schema, by column name; empty when
    the schema was inferred.
    """

    schema: Schema
    codes: NDArray[np.uint8] = field(repr=False)
    events: tuple[SchemaEvent, ...] = ()

    @property
    def n_rows(self) -> int:
        return int(self.codes.shape[1])

    def column(self, name: str) -> NDArray[np.uint8]:
        """Return the codes of one variable.

        Raises UnknownVariableError if no variable has this name.
        """
        row: NDArray[np.uint8] = self.codes[self.schema.index(name)]
        return row

    def check(self) -> None:
        """Look whether the codes are such as the schema has; kernels trust them.

        Raises DataError if their type or shape is another, or a code stands for no level.
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


def encode(data: object, schema: Schema, *, names: Sequence[str] | None = None) -> EncodedTable:
    """Encode a table with a schema that is fixed, as a monitor does with each batch.

    An unknown level becomes ``__other__``, an absent column ``__missing__`` throughout, and a
    column that the schema does not know is left out; each is an event and none an error. So is text
    that is no number in a numeric variable.

    ``names``: column names of a 2-D array.

    Raises DataError as for ``infer_and_encode``; also if a variable's column holds times.

    >>> schema = Schema([Variable("x", VariableKind.CATEGORICAL, ("a", "b"))])
    >>> table = encode({"x": ["b", "c", None], "y": [1, 2, 3]}, schema)
    >>> schema["x"].labels, table.codes.tolist()
    (('a', 'b', '__other__', '__missing__'), [[1, 2, 3]])
    >>> [(event.kind.value, event.column, event.levels) for event in table.events]
    [('new_level', 'x', ('c',)), ('new_column', 'y', ())]
    """
    return encode_table(read_table(data, names, skip=schema.ignored), schema)


def encode_table(table: Table, schema: Schema) -> EncodedTable:
    """Encode a table that was read; see ``encode``."""
    events = _new_columns(table, schema)
    rows: list[bytes] = []
    for variable in schema.variables:
        array = table.columns.get(variable.name)
        if array is None:
            row, event = _absent(variable, table, schema.missing)
        else:
            _check_cells(variable, table)
            row, event = _encode(variable, read_values(array))
            check_missing(variable, row, schema.missing)
        rows.append(row)
        if event is not None:
            events.append(event)
    events.sort(key=lambda event: event.column)
    return EncodedTable(schema, stack(rows, table.n_rows), tuple(events))


def refused_rows(table: Table, schema: Schema) -> NDArray[np.bool_]:
    refused = np.zeros(table.n_rows, np.bool_)
    for name in schema.names:
        array = table.columns.get(name)
        if array is not None:
            array = table.array(name)
            refused |= time_cells(array)
            refused[list(table.unread.get(name, ()))] = True
        if schema.missing is MissingPolicy.REJECT:
            refused |= True if array is None else missing_cells(array)
    return refused


def _check_cells(variable: Variable, table: Table) -> None:
    name, array = variable.name, table.columns[variable.name]
    if name in table.unread:
        raise table.error(name, min(table.unread[name]))
    if not may_hold_times(array):
        return
    times = time_cells(array)
    if times.any():
        row = int(np.argmax(times))
        problem = f"a time for a variable that is {variable.kind}; it must not hold times"
        raise DataError(problem, column=name, row=row, value=value_at(array, row))


def _new_columns(table: Table, schema: Schema) -> list[SchemaEvent]:
    """Return the columns that are new, and those that were too rare and have values."""
    n_rows = {
        name: table.n_values(name) if table.of_records or name in schema.rare else table.n_rows
        for name in table.columns.keys() - set(schema.expected)
    }
    new = SchemaEventKind.NEW_COLUMN
    return [SchemaEvent(new, name, n_rows=n) for name, n in n_rows.items() if n]


def _absent(
    variable: Variable, table: Table, policy: MissingPolicy
) -> tuple[bytes, SchemaEvent | None]:
    name, n_rows = variable.name, table.n_rows
    if policy is MissingPolicy.REJECT:
        raise DataError("the column is absent, and missing values are rejected", column=name)
    row = bytes([variable.missing_code]) * n_rows
    if table.of_records:
        return row, None
    return row, SchemaEvent(SchemaEventKind.MISSING_COLUMN, name, n_rows=n_rows)


def _encode(variable: Variable, column: Column) -> tuple[bytes, SchemaEvent | None]:
    if isinstance(column, Numbers):
        if variable.kind is VariableKind.NUMERIC:
            return encode_numbers(variable, column), None
        column = cast(Factor, distinct(column))  # only a limit makes it None
    row = encode_factor(variable, column)
    if variable.pooled or variable.other_code not in row:
        return row, None
    return row, _new_level(variable, column)


def _new_level(variable: Variable, factor: Factor) -> SchemaEvent | None:
    other, positions = variable.other_code, used(factor)
    texts = zip(positions, texts_of(factor, positions), strict=True)
    new = {p: t for p, t in texts if variable.code_of(t) == other and t != OTHER}
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


MAX_EVENTS: Final = 1000
"""Events that are kept of a window, by column name: fields may be new in every record."""


def merged_events(
    events: tuple[SchemaEvent, ...], more: tuple[SchemaEvent, ...]
) -> tuple[SchemaEvent, ...]:
    """Return the events of several batches, each kind and column once.

    Of more new levels than are named it is only said that there are more, because which of them
    two batches share is not known. Of more events than are kept, the last by name are left out,
    whatever the batches were.
    """
    found = {(event.column, event.kind): event for event in events}
    for event in more:
        known = found.get((event.column, event.kind), replace(event, levels=(), n_rows=0))
        levels = sorted({*known.levels, *event.levels}, key=level_key)
        n_levels = max(len(levels), known.n_levels, event.n_levels)
        found[event.column, event.kind] = replace(
            event,
            levels=tuple(levels[:MAX_NAMED_LEVELS]),
            n_levels=min(n_levels, MAX_NAMED_LEVELS + 1),
            n_rows=known.n_rows + event.n_rows,
        )
    return tuple(found[key] for key in sorted(found)[:MAX_EVENTS])
