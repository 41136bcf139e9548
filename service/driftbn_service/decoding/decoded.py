"""What decoding gives: rows in their order, and the records that could not be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

import pyarrow as pa

from driftbn.records import EncodedTable

MAX_KEPT_BYTES: Final = 4096
"""Bytes of a rejected record that are kept: enough to see what is wrong with it."""

_CELL_BYTES: Final = 100  # of a dict, with its share of the key and the value

Rows: TypeAlias = pa.Table | list[dict[str, Any]] | EncodedTable
"""Rows that a monitor takes."""
Place: TypeAlias = Callable[[int, int], str]
"""Says where a record stands, from its number in the chunk and the byte it starts at."""


def moved(place: Place, n_records: int, n_bytes: int) -> Place:
    """Return what says where a record stands that comes after others."""
    return lambda number, byte: place(number + n_records, byte + n_bytes)


class RejectReason(StrEnum):
    """Why a record was set aside."""

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
    """A record that was set aside, or many alike.

    Parameters
    ----------
    place
        Where it stands in its source, for people.
    reason
        Why, as one of few words.
    detail
        Why, for people; never what the record holds.
    record
        Its first 4096 bytes; nothing where there are many.
    n_records
        How many there are; ``place`` is that of the first.
    """

    place: str
    reason: RejectReason
    detail: str
    record: bytes = field(repr=False)
    n_records: int = 1


@dataclass(frozen=True)
class Decoded:
    """The rows of a chunk.

    Parameters
    ----------
    batches
        The rows, in the order of their records.
    n_rows
        How many there are in all.
    rejected
        The records that are not among them: in their order those that cannot be read, and then
        those that lack a field.
    """

    batches: tuple[Rows, ...] = field(repr=False)
    n_rows: int
    rejected: tuple[Rejected, ...] = ()

    @property
    def n_rejected(self) -> int:
        """How many records are not among the rows."""
        return sum(item.n_records for item in self.rejected)


def n_rows_of(rows: Rows) -> int:
    """Return how many rows there are."""
    return rows.n_rows if isinstance(rows, EncodedTable) else len(rows)


def n_bytes_of(rows: Rows) -> int:
    """Return about how much memory rows take."""
    if isinstance(rows, list):
        return _CELL_BYTES * (sum(map(len, rows)) + len(rows))
    return int(rows.codes.nbytes if isinstance(rows, EncodedTable) else rows.nbytes)


def cut(rows: Rows, start: int, stop: int) -> Rows:
    """Return the rows from one up to another, not copied.

    Examples
    --------
    >>> cut([{"x": 1}, {"x": 2}, {"x": 3}], 1, 3)
    [{'x': 2}, {'x': 3}]
    """
    if (start, stop) == (0, n_rows_of(rows)):
        return rows
    if isinstance(rows, EncodedTable):
        return EncodedTable(rows.schema, rows.codes[:, start:stop])
    return rows[start:stop] if isinstance(rows, list) else rows.slice(start, stop - start)


class Problem(Exception):  # noqa: N818 - never leaves the package
    """What is wrong with one record; it becomes a ``Rejected``."""

    def __init__(self, reason: RejectReason, detail: str) -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(detail)
