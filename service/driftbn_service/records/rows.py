"""What decoding gives: rows in their order, and the records that could not be read.

Rows are codes or an Arrow table. A column that holds numbers and text together is one of the
library's mixed cells, in which each is what it was, so that what a record means does not depend on
the records beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import Any, Final, TypeAlias

import pyarrow as pa

from driftbn.errors import DataError
from driftbn.tables.cells import mixed_cells, unified
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
        detail = f"a name of {n_characters} characters, where a field may have {MAX_NAME_LENGTH}"
        raise Problem(RejectReason.TOO_LARGE, detail)


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

Record = dict[str, Any]


def tables_of(records: Sequence[Record]) -> list[pa.Table]:
    """Return records as a table, or as several if they have few fields in common.

    >>> (table,) = tables_of([{"x": 1}, {"x": 2, "y": True}])
    >>> table.to_pydict()
    {'x': [1, 2], 'y': [None, True]}
    """
    if not records:
        return []
    names = list(dict.fromkeys(chain.from_iterable(records)))
    n_most = min(_MAX_TABLE_CELLS, max(_FEW_CELLS, _SPARSE * sum(map(len, records))))
    if len(records) * len(names) > n_most and len(records) > 1:
        middle = len(records) // 2
        return tables_of(records[:middle]) + tables_of(records[middle:])
    columns = {name: _column([record.get(name) for record in records]) for name in names}
    return [table_of(len(records), columns)]


def table_of(n_rows: int, columns: Mapping[str, Any]) -> pa.Table:
    """Return columns as a table that was made of records, of which none may have a field."""
    if not columns:  # only a selection has rows without columns
        return as_records(pa.table({"": pa.nulls(n_rows)})).select([])
    return as_records(pa.table(columns))


def _column(values: list[Any]) -> pa.Array:
    types = set(map(type, values)) - {type(None)}
    if len(types) <= 1 or types == {int, float}:
        with suppress(pa.ArrowInvalid, OverflowError):  # a whole number that it does not hold
            return pa.array(values, pa.float64() if float in types else None)
    return mixed_cells(values)[0]


def one_table(batches: Sequence[pa.Table], max_fields: int | None = None) -> pa.Table:
    """Return the tables of a body or a file as one.

    Raises ``Problem`` if there are more fields than ``max_fields``, or too many cells. Raises
    ``DataError`` if there are no rows, or none has a field.

    >>> parts = tables_of([{"x": 1}]) + tables_of([{"x": 0.5}, {"y": True}])
    >>> one_table(parts).to_pydict()
    {'x': [1.0, 0.5, None], 'y': [None, None, True]}
    """
    if not batches:
        raise DataError("there are no rows; there must be at least one")
    names = dict.fromkeys(chain.from_iterable(batch.column_names for batch in batches))
    if max_fields is not None:
        check_fields(len(names), max_fields)
        n_rows = sum(map(len, batches))
        if len(names) * n_rows > MAX_CELLS:
            raise Problem(
                RejectReason.TOO_LARGE,
                f"{n_rows} records with {len(names)} different fields are too much for one"
                f" table of at most {MAX_CELLS} cells: send fewer at a time",
            )
    if not names:
        raise DataError("no record has a field: there must be at least one")
    if len(batches) == 1:
        return batches[0]
    found = pa.table({name: _joined(name, batches) for name in names})
    is_of_records = any(as_records(b).schema.metadata == b.schema.metadata for b in batches)
    return as_records(found) if is_of_records else found


def _joined(name: str, batches: Sequence[pa.Table]) -> pa.Array | pa.ChunkedArray:
    kinds = {batch.schema.field(name).type for batch in batches if name in batch.column_names}
    kinds.discard(pa.null())
    kind = kinds.pop() if len(kinds) == 1 else pa.null()
    chunks: list[pa.Array] = []
    for batch in batches:
        is_there = name in batch.column_names and batch.schema.field(name).type != pa.null()
        chunks += batch.column(name).chunks if is_there else [pa.nulls(len(batch), kind)]
    return unified(chunks) if kinds else pa.chunked_array(chunks, kind)
