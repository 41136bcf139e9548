"""What decoding gives: rows in their order, and the records that could not be read.

Rows are codes or an Arrow table. No type of Arrow holds numbers and text together: such a mixed
column has each cell as JSON, and its field says so. A monitor is given no such column: ``unmixed``
makes tables of it in which each cell is what it was, so that what a record means does not depend on
the records beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from driftbn.errors import DataError
from driftbn.tables.cells import canonical_text
from driftbn.tables.encode import EncodedTable
from driftbn.tables.read import as_records
from driftbn_service.records.formats import TableFormat

MAX_KEPT_BYTES: Final = 4096
"""Bytes of a rejected record that are kept: enough to see what is wrong with it."""

Rows: TypeAlias = pa.Table | EncodedTable
"""Rows of plain columns, of which some may be mixed, or codes."""
Place: TypeAlias = Callable[[int, int], str]
"""Says where a record stands, from its number in the chunk and the byte it starts at."""


def moved(place: Place, n_records: int, n_bytes: int) -> Place:
    """Return what says where a record stands that comes after others."""
    return lambda number, byte: place(number + n_records, byte + n_bytes)


@dataclass(frozen=True)
class Undecoded:
    """Whole records that follow each other, as they come."""

    # Bytes in ``kind``, or columns. CSV carries its header every time.
    data: bytes | pa.Table = field(repr=False)
    kind: TableFormat | None  # the format of the bytes; ``None`` for columns
    # Says where a record stands, for people; for CSV bytes are counted without the header.
    place: Place = field(repr=False, compare=False)
    # Whether columns are known to be sound, and need not be looked at cell by cell.
    checked: bool = False


class RejectReason(StrEnum):
    NOT_JSON = "not_json"
    """A line or an item that is no JSON text."""
    NOT_AN_OBJECT = "not_an_object"
    """JSON, but a list, a text or a number where an object should be."""
    INVALID_UTF8 = "invalid_utf8"
    """Bytes or an escape that stand for no character."""
    TOO_LARGE = "too_large"
    """More bytes, fields or cells, or a longer name, than a limit allows; the detail names it."""
    TOO_DEEP = "too_deep"
    """Objects nested more than four deep, or lists more than a parser can take."""
    NOT_A_NUMBER = "not_a_number"
    """``NaN``, ``Infinity`` or a number that no float can hold."""
    DUPLICATE_KEY = "duplicate_key"
    """A name that an object, or the flat record made of it, has twice."""
    BAD_CSV_ROW = "bad_csv_row"
    """More or fewer fields than the header has, or quotes that do not close."""
    BAD_TABLE = "bad_table"
    """A header, Parquet or Arrow data of which nothing can be read."""
    NO_TIME = "no_time"
    """No event time in the field that must have one, or something that is none."""
    NO_KEY = "no_key"
    """No key in the field that must have one, or something that cannot be one."""
    UNFIT = "unfit"
    """A value that its field cannot have, as the records before it say what that is."""
    TOO_MANY_KEYS = "too_many_keys"
    """A new key, where there are as many as there may be."""
    MONITOR_FAILED = "monitor_failed"
    """Its monitor failed over it or has failed before."""


@dataclass(frozen=True)
class Rejected:
    """A record that was set aside, or many alike."""

    place: str  # where it stands in its source, for people
    reason: RejectReason  # why, as one of few words
    detail: str  # why, for people; never what the record holds
    record: bytes = field(repr=False)  # its first 4096 bytes; nothing where there are many
    n_records: int = 1  # how many there are; ``place`` is that of the first


@dataclass(frozen=True)
class Decoded:
    batches: tuple[Rows, ...] = field(repr=False)  # in the order of their records
    n_rows: int  # in all
    # The records that are not among them: in their order those that cannot be read, and then those
    # that lack a field.
    rejected: tuple[Rejected, ...] = ()

    @property
    def n_rejected(self) -> int:
        return sum(item.n_records for item in self.rejected)


def n_rows_of(rows: Rows) -> int:
    return rows.n_rows if isinstance(rows, EncodedTable) else len(rows)


def n_bytes_of(rows: Rows) -> int:
    return int(rows.codes.nbytes if isinstance(rows, EncodedTable) else rows.nbytes)


def cut(rows: Rows, start: int, stop: int) -> Rows:
    """Return the rows from one up to another, not copied."""
    if (start, stop) == (0, n_rows_of(rows)):
        return rows
    if isinstance(rows, EncodedTable):
        return EncodedTable(rows.schema, rows.codes[:, start:stop])
    return rows.slice(start, stop - start)


class Problem(Exception):  # noqa: N818 - never leaves the package
    """What is wrong with one record; it becomes a ``Rejected``."""

    def __init__(self, reason: RejectReason, detail: str) -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(detail)


# What a record and a table may hold, so that work is bounded by what was sent.

MAX_FIELDS: Final = 2000
"""Fields of a record or a table unless the stream says otherwise."""
MAX_DEPTH: Final = 4
"""Objects within each other that are taken apart: names have four parts at most."""
MAX_NAME_LENGTH: Final = 256
"""Characters of the name of a field, with those of the objects around it."""
MAX_CELLS: Final = 1 << 24
"""Rows times fields of a body or chunk: cells that are empty take next to nothing to send."""
MAX_TABLE_BYTES: Final = 64 << 20
"""Bytes that a body or chunk may take as a table unless somebody says otherwise."""


@dataclass(frozen=True)
class Limits:
    """What may be decoded at a time."""

    record_bytes: int  # bytes of a record as text
    fields: int = MAX_FIELDS  # fields of a record, or columns of a table
    # Bytes that a table may take once its buffers are decompressed.
    table_bytes: int = MAX_TABLE_BYTES
    # Bad records after which decoding stops, where one of them is enough to refuse all.
    rejected: int | None = None

    def check_record(self, n_bytes: int) -> None:
        if n_bytes > self.record_bytes:
            raise self.long_record(n_bytes)

    def long_record(self, n_bytes: int) -> Problem:
        detail = f"{n_bytes} bytes or more, where max_record_bytes allows {self.record_bytes}"
        return Problem(RejectReason.TOO_LARGE, detail)

    def is_enough(self, rejected: Sized) -> bool:
        """Whether so many records are bad that the rest need not be looked at."""
        return self.rejected is not None and len(rejected) >= self.rejected

    def check_fields(self, n_fields: int) -> None:
        check_fields(n_fields, self.fields)

    def check_bytes(self, n_bytes: int) -> None:
        if n_bytes > self.table_bytes:
            detail = (
                f"a table of {n_bytes} bytes or more, where max_decoded_bytes allows"
                f" {self.table_bytes}: send fewer records at a time"
            )
            raise Problem(RejectReason.TOO_LARGE, detail)


def check_fields(n_fields: int, max_fields: int) -> None:
    if n_fields > max_fields:
        detail = f"{n_fields} fields or more, where max_fields allows {max_fields}"
        raise Problem(RejectReason.TOO_LARGE, detail)


def check_name(n_characters: int) -> None:
    if n_characters > MAX_NAME_LENGTH:
        raise long_name(n_characters)


def long_name(n_characters: int) -> Problem:
    detail = f"a name of {n_characters} characters, where a field may have {MAX_NAME_LENGTH}"
    return Problem(RejectReason.TOO_LARGE, detail)


def check_cells(n_cells: int) -> None:
    """Raise a ``Problem`` if a body or chunk has too many cells."""
    if n_cells > MAX_CELLS:
        detail = (
            f"{n_cells} cells or more, where a body or chunk may have {MAX_CELLS}: send fewer"
            " records at a time"
        )
        raise Problem(RejectReason.TOO_LARGE, detail)


# Records as Arrow tables.

EXACT: Final = 2**53
"""Beyond it a float does not hold every whole number."""
_MAX_TABLE_CELLS: Final = 1 << 22
"""Cells of a table that records become: those that share no field make mostly empty ones."""
_FEW_CELLS, _SPARSE = 1 << 12, 8  # beyond so many, a table has at most so many cells a value
_MARK, _MARK_VALUE = b"driftbn.cells", b"json"
_TEXT, _TRUTH, _NUMBER, _WIDE, _WIDER = range(1, 6)  # classes of cells; 0 is a missing one

Record = dict[str, Any]


class Cells(NamedTuple):
    values: list[Any]  # the distinct ones
    places: NDArray[np.int64]  # [rows]: which of them; -1 where a cell is missing

    def classes(self) -> NDArray[np.int8]:
        """Return of each row what its cell can share a column with; 0 if it is missing."""
        found = np.array([*map(_class_of, self.values), 0], np.int8)
        return found[self.places]

    def between(self, start: int, stop: int) -> list[Any]:
        values = [*self.values, None]
        return [values[place] for place in self.places[start:stop].tolist()]


def _class_of(value: object) -> int:
    if isinstance(value, str):
        return _TEXT
    if isinstance(value, bool):
        return _TRUTH
    if isinstance(value, int) and not -EXACT <= value <= EXACT:
        return _WIDE if value < 2**63 else _WIDER
    return _NUMBER


def tables_of(records: Sequence[Record]) -> list[pa.Table]:
    """Return records as a table, or as several if they have few fields in common.

    >>> (table,) = tables_of([{"x": 1}, {"x": "b", "y": True}])
    >>> [part.to_pydict() for part in unmixed(table, known=False)]
    [{'x': [1], 'y': [None]}, {'x': ['b'], 'y': [True]}]
    >>> [part.to_pydict() for part in unmixed(table, known=True)]
    [{'x': ['1', 'b'], 'y': [None, True]}]
    """
    if not records:
        return []
    names = list(dict.fromkeys(chain.from_iterable(records)))
    n_most = min(_MAX_TABLE_CELLS, max(_FEW_CELLS, _SPARSE * sum(map(len, records))))
    if len(records) * len(names) > n_most and len(records) > 1:
        middle = len(records) // 2
        return tables_of(records[:middle]) + tables_of(records[middle:])
    columns = [_column(name, [record.get(name) for record in records]) for name in names]
    return [table_of(len(records), columns)]


class Column(NamedTuple):
    """A column of a table to be made."""

    field: pa.Field
    cells: pa.Array | pa.ChunkedArray

    @classmethod
    def plain(cls, name: str, cells: pa.Array) -> Column:
        return cls(pa.field(name, cells.type), cells)

    @classmethod
    def mixed(cls, name: str, tokens: pa.DictionaryArray) -> Column:
        """Return a column whose cells are given as JSON."""
        return cls(pa.field(name, tokens.type, metadata={_MARK: _MARK_VALUE}), tokens)


def table_of(n_rows: int, columns: Iterable[Column]) -> pa.Table:
    """Return columns as a table that was made of records, of which none may have a field."""
    listed = list(columns)
    if not listed:  # only a selection has rows without columns
        return as_records(pa.table({"": pa.nulls(n_rows)})).select([])
    return as_records(_table(listed))


def _table(columns: Sequence[Column]) -> pa.Table:
    schema = pa.schema([column.field for column in columns])
    return pa.Table.from_arrays([column.cells for column in columns], schema=schema)


def _column(name: str, values: list[Any]) -> Column:
    array = _plain_array(values)
    if array is None:
        tokens = [None if value is None else orjson.dumps(value).decode() for value in values]
        return Column.mixed(name, pa.array(tokens, pa.string()).dictionary_encode())
    return Column.plain(name, array)


def _plain_array(values: Sequence[Any]) -> pa.Array | None:
    """Return cells as an array; ``None`` if Arrow has no type that holds all of them."""
    types = set(map(type, values)) - {type(None)}
    if len(types) > 1 and types != {int, float}:
        return None
    try:
        return pa.array(values, pa.float64() if float in types else None)
    except (pa.ArrowInvalid, OverflowError):  # a whole number that it does not hold
        wide = types == {int} and min(value for value in values if value is not None) >= 0
        return pa.array(values, pa.uint64()) if wide else None


def is_mixed(field: pa.Field) -> bool:
    """Whether the cells of a field are JSON."""
    return bool(field.metadata) and field.metadata.get(_MARK) == _MARK_VALUE


def without_marks(table: pa.Table) -> pa.Table:
    """Return a table from outside, whose fields say nothing of themselves."""
    if not any(map(is_mixed, table.schema)):
        return table
    fields = [field.remove_metadata() for field in table.schema]
    return pa.Table.from_arrays(table.columns, schema=pa.schema(fields, table.schema.metadata))


def cells_of(table: pa.Table, name: str) -> Any:
    """Return a column as the library reads it: what is mixed as a list of values."""
    column = table.column(name)
    return _read(column).between(0, len(column)) if is_mixed(table.field(name)) else column


def _read(column: pa.ChunkedArray) -> Cells:
    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(array, pa.ChunkedArray):  # of no chunks, or of more than Arrow makes one
        array = pa.concat_arrays(column.unify_dictionaries().chunks)
    places = array.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
    return Cells([orjson.loads(token) for token in array.dictionary.to_pylist()], places)


def unmixed(rows: Rows, *, known: bool) -> Iterator[Rows]:
    """Yield rows as a monitor takes them.

    If the schema of the monitor is ``known``, a mixed column becomes the canonical text of each
    cell, which means the same to it. Else the rows are cut where a cell is of another kind than
    those before it, because a schema is inferred from the rows that have come.
    """
    if isinstance(rows, EncodedTable) or not _mixed_names(rows):
        yield rows
        return
    columns = {name: _read(rows.column(name)) for name in _mixed_names(rows)}
    if known:
        yield _replaced(rows, {name: _texts(cells) for name, cells in columns.items()})
        return
    changes = [_changes(cells.classes()) for cells in columns.values()]
    for start, stop in pairwise([0, *sorted(set(chain.from_iterable(changes))), len(rows)]):
        parts = {name: _plain_array(cells.between(start, stop)) for name, cells in columns.items()}
        yield _replaced(rows.slice(start, stop - start), parts)


def for_inference(table: pa.Table) -> pa.Table:
    """Return a table as a whole: what is mixed is floats if all are numbers, and else text."""
    columns = {name: _read(table.column(name)) for name in _mixed_names(table)}
    return _replaced(table, {name: _numbers_or_texts(cells) for name, cells in columns.items()})


def canonical_column(table: pa.Table, name: str) -> pa.Array | pa.ChunkedArray:
    """Return a column in which cells that mean the same are equal, if it is mixed."""
    column = table.column(name)
    return _texts(_read(column)) if is_mixed(table.field(name)) else column


def _mixed_names(table: pa.Table) -> list[str]:
    return [field.name for field in table.schema if is_mixed(field)]


def _changes(classes: NDArray[np.int8]) -> list[int]:
    """Return the rows whose cell is of another class than the last one before it."""
    present = np.flatnonzero(classes)
    differs = np.diff(classes[present], prepend=classes[present[:1]]) != 0
    return [int(row) for row in present[differs]]


def _texts(cells: Cells) -> pa.Array:
    texts = pa.array([canonical_text(value) for value in cells.values], pa.string())
    indices = pa.array(cells.places.astype(np.int32), mask=cells.places < 0)
    return pa.DictionaryArray.from_arrays(indices, texts)


def _numbers_or_texts(cells: Cells) -> pa.Array:
    if not {_NUMBER, _WIDE, _WIDER}.issuperset(map(_class_of, cells.values)):
        return _texts(cells)
    values = np.array([*map(float, cells.values), np.nan])
    return pa.array(values[cells.places], from_pandas=True)


def _replaced(table: pa.Table, columns: dict[str, Any]) -> pa.Table:
    for name, array in columns.items():
        table = table.set_column(table.column_names.index(name), name, array)
    return table


def one_table(batches: Sequence[pa.Table], max_fields: int | None = None) -> pa.Table:
    """Return the tables of a body or a file as one.

    Raises ``Problem`` if there are more fields than ``max_fields``, or too many cells. Raises
    ``DataError`` if there are no rows, or none has a field.

    >>> parts = tables_of([{"x": 1}]) + tables_of([{"x": "b"}, {"y": True}])
    >>> table = one_table(parts)
    >>> for_inference(table).to_pydict()
    {'x': ['1', 'b', None], 'y': [None, None, True]}
    """
    if not batches:
        raise DataError("there are no rows; there must be at least one")
    names = dict.fromkeys(chain.from_iterable(batch.column_names for batch in batches))
    if max_fields is not None:
        _check_size(sum(map(len, batches)), len(names), max_fields)
    if not names:
        raise DataError("no record has a field: there must be at least one")
    if len(batches) == 1:
        return batches[0]
    joined = [_joined(name, [_part(batch, name) for batch in batches]) for name in names]
    found = _table(joined)
    is_of_records = any(as_records(b).schema.metadata == b.schema.metadata for b in batches)
    return as_records(found) if is_of_records else found


def _check_size(n_rows: int, n_fields: int, max_fields: int) -> None:
    check_fields(n_fields, max_fields)
    if n_fields * n_rows > MAX_CELLS:
        raise Problem(
            RejectReason.TOO_LARGE,
            f"{n_rows} records with {n_fields} different fields are too much for one"
            f" table of at most {MAX_CELLS} cells: send fewer at a time",
        )


def _part(table: pa.Table, name: str) -> Column:
    if name not in table.column_names:
        return Column.plain(name, pa.chunked_array([pa.nulls(len(table))]))
    return Column(table.field(name), table.column(name))


def _joined(name: str, parts: list[Column]) -> Column:
    kinds = {part.field.type for part in parts if not pa.types.is_null(part.field.type)}
    n_mixed = sum(is_mixed(part.field) for part in parts)
    if not n_mixed and kinds == {pa.int64(), pa.float64()}:
        kinds = {pa.float64()}
    if n_mixed or len(kinds) > 1:
        return _column(name, [cell for part in parts for cell in _listed(part)])
    kind = kinds.pop() if kinds else pa.null()
    try:
        columns = [c if c.type == kind else c.cast(kind) for c in (part.cells for part in parts)]
    except pa.ArrowInvalid:  # a whole number that floating point does not hold
        return _column(name, [cell for part in parts for cell in _listed(part)])
    return Column.plain(
        name, pa.chunked_array(list(chain.from_iterable(c.chunks for c in columns)), kind)
    )


def _listed(part: Column) -> list[Any]:
    if is_mixed(part.field):
        return _read(part.cells).between(0, len(part.cells))
    found: list[Any] = part.cells.to_pylist()
    return found
