"""JSON text as rows: columns by Arrow where all is well, else one record after the other."""

from __future__ import annotations

import importlib
import secrets
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from driftbn.intake import as_records
from driftbn_service.decoding.columns import check_schema, flat_table
from driftbn_service.decoding.decoded import (
    MAX_KEPT_BYTES,
    Place,
    Problem,
    Rejected,
    RejectReason,
    Rows,
)
from driftbn_service.decoding.json_records import EXACT, Record, as_batches, read_record
from driftbn_service.decoding.kernels import (
    MAX_OPENED,
    Bytes,
    Lines,
    count_fields,
    find_lines,
    items_as_lines,
)
from driftbn_service.decoding.limits import MAX_CELLS, Limits

_MARK = b"\xef\xbb\xbf"
_BLANK = b" \t\r\n"
_LARGEST_BLOCK = 2**31 - 1  # Arrow counts the bytes of a block in 32 bits
_HASH_KEY: Final = np.uint64(secrets.randbits(64))
"""Where hashes of names begin, so that nobody can think of names with equal ones."""


class Text(NamedTuple):
    """Records of a chunk, one a line."""

    data: bytes
    array: Bytes  # the same bytes
    lines: Lines
    is_unicode: bool

    @property
    def n_records(self) -> int:
        """The number of lines that are not blank."""
        return len(self.lines.starts)

    def record(self, number: int) -> bytes:
        """Return the bytes of one record."""
        return self.data[self.lines.starts[number] : self.lines.stops[number]]


def read_lines(data: bytes, unicode: bool) -> Text:
    """Find the lines of a text."""
    array = np.frombuffer(data, np.uint8)
    n_most = data.count(b"\n") + 1
    lines = Lines(
        np.empty(n_most, np.int64), np.empty(n_most, np.int64), np.empty(n_most, np.bool_)
    )
    n_lines = find_lines(array, lines)
    found = Lines(lines.starts[:n_lines], lines.stops[:n_lines], lines.plain[:n_lines])
    return Text(data, array, found, unicode)


def is_unicode(data: bytes) -> bool:
    """Whether bytes are UTF-8."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def array_as_lines(data: bytes, place: Place) -> tuple[bytes, list[Rejected]]:
    """Write an array of objects, or a single one, as a text with a record a line.

    Records keep the bytes that they start at. Also returns what is wrong with the array itself;
    text that is neither passes as it is.
    """
    start = len(data) - len(data.removeprefix(_MARK).lstrip(_BLANK))
    if data[start : start + 1] == b"{":
        first, _, rest = data[start:].partition(b"\n")
        several = not rest.strip(_BLANK) or first.rstrip(_BLANK).endswith(b"}")
        return data if several else data.replace(b"\n", b" "), []
    if data[start : start + 1] != b"[":
        return data, []
    lines = np.full(len(data), ord(" "), np.uint8)
    end, n_empty = items_as_lines(np.frombuffer(data, np.uint8), start + 1, lines)
    problems = ["a comma without an item before or after it"] if n_empty else []
    if end == -1:
        problems.append("the array does not end")
    if end >= 0 and data[end + 1 :].strip(_BLANK):
        problems.append("text after the end of the array")
    reason, kept = RejectReason.NOT_JSON, data[:MAX_KEPT_BYTES]
    return lines.tobytes(), [Rejected(place(0, start), reason, p, kept) for p in problems]


def decode_lines(text: Text, place: Place, limits: Limits) -> tuple[list[Rows], list[Rejected]]:
    """Return the rows of a text, and its bad records."""
    table = _read_table(text, limits)
    if table is not None:
        return [table], []
    rows, rejected = decode_records(text, range(text.n_records), place, limits)
    return [*as_batches([row for row in rows if row is not None])], rejected


def decode_records(
    text: Text, numbers: Iterable[int], place: Place, limits: Limits
) -> tuple[list[Record | None], list[Rejected]]:
    """Return some records one by one, ``None`` for a bad one."""
    rows: list[Record | None] = []
    rejected: list[Rejected] = []
    starts, stops = text.lines.starts.tolist(), text.lines.stops.tolist()
    for number in numbers:
        start, stop = starts[number], stops[number]
        record = text.data[start:stop]
        try:
            rows.append(read_record(record, text.array, start, limits))
        except Problem as problem:
            rows.append(None)
            kept = record[:MAX_KEPT_BYTES]
            found = Rejected(place(number, start), problem.reason, problem.detail, kept)
            rejected.append(found)
            if limits.is_enough(rejected):
                break
    return rows, rejected


def _read_table(text: Text, limits: Limits) -> Rows | None:
    """Return all records as columns; ``None`` if some must be looked at one by one."""
    lines = text.lines
    if not text.is_unicode or not lines.plain.all() or len(text.data) >= _LARGEST_BLOCK:
        return None
    if not text.n_records or (lines.stops - lines.starts).max() > limits.record_bytes:
        return None
    try:
        table = _parse_all(text, limits)
        # More rows than lines: two objects stand on one.
        if table is None or len(table) != text.n_records:
            return None
        check_schema(table.schema, limits)
        flat = flat_table(table)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError, Problem):
        return None
    if not all(map(_is_exact, flat.columns)):
        return None
    # One record stands for all that are empty: nobody writes into it.
    return as_records(flat) if flat.num_columns else [{}] * text.n_records


def _parse_all(text: Text, limits: Limits) -> pa.Table | None:
    """Return the lines as a table; ``None`` if they have too few fields in common for one.

    Arrow makes room for every field in every row, so how many there are must be known before.
    """
    n_most = min(limits.fields, MAX_CELLS // text.n_records)
    slots = np.zeros(1 << (4 * n_most).bit_length(), np.uint64)
    paths = np.full(MAX_OPENED + 1, _HASH_KEY)
    if count_fields(text.array, paths, slots, n_most) > n_most:
        return None
    table = _parse(text.data, ())
    times = [field for field in table.schema if _holds_times(field.type)]
    # Arrow takes text that looks like a time for one where all of a column does.
    return _parse(text.data, [_untimed(field) for field in times]) if times else table


def _parse(data: bytes, fields: Sequence[pa.Field]) -> pa.Table:
    arrow = importlib.import_module("pyarrow.json")
    return arrow.read_json(
        pa.BufferReader(data),
        read_options=arrow.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=arrow.ParseOptions(explicit_schema=pa.schema(fields) if fields else None),
    )


def _untimed(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _without_times(field.type))


def _holds_times(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_holds_times(field.type) for field in kind)
    return bool(pa.types.is_temporal(kind))


def _without_times(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_untimed(field) for field in kind])
    return pa.string() if pa.types.is_temporal(kind) else kind


def _is_exact(column: Any) -> bool:
    """Whether no float may have been ``NaN`` or a whole number that lost its last digits."""
    if not pa.types.is_floating(column.type):
        return True
    values = column.fill_null(0.0).to_numpy()
    return bool(np.abs(values).max(initial=0.0) < EXACT)
