"""CSV as rows, without the records that do not fit the header."""

from __future__ import annotations

import csv
import importlib
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from driftbn_service.decoding.decoded import (
    MAX_KEPT_BYTES,
    Place,
    Problem,
    Rejected,
    RejectReason,
    Rows,
    moved,
)
from driftbn_service.decoding.json_lines import is_unicode
from driftbn_service.decoding.kernels import Bytes, CsvRecords, find_csv_records
from driftbn_service.decoding.limits import MAX_CELLS, Limits, check_cells, check_name

_MARK: Final = b"\xef\xbb\xbf"
_LARGEST_BLOCK: Final = 2**31 - 1  # Arrow counts the bytes of a block in 32 bits
_MAX_RECORDS, _MAX_CELLS = 1 << 16, 1 << 22  # that are read at a time
_TEXT: Final = pa.dictionary(pa.int32(), pa.string())


class _Body(NamedTuple):
    """A chunk of CSV without its header."""

    data: bytes
    records: CsvRecords

    def record(self, number: int) -> bytes:
        return self.data[self.records.starts[number] : self.records.stops[number]]


def decode_csv(
    data: bytes, place: Place, limits: Limits, typed: Callable[[pa.Table], list[Rows]]
) -> Iterator[tuple[list[Rows], list[Rejected]]]:
    """Yield the rows of CSV with a header and its bad records, some thousand records at a time.

    Parameters
    ----------
    data, place
        As a decoder has them.
    limits
        What a record may hold.
    typed
        Gives the cells of a table of texts their types.

    Raises
    ------
    Problem
        If the header cannot be read, or there are too many cells.
    """
    data = data.removeprefix(_MARK)
    array = np.frombuffer(data, np.uint8)
    header, _ = _find_records(array, 0, 1)
    if not len(header.starts):
        raise Problem(RejectReason.BAD_TABLE, "CSV without a header")
    limits.check_fields(int(header.n_fields[0]))
    names = _names(data[header.starts[0] : header.stops[0]], limits)
    first = start = _after_line(data, int(header.stops[0]))
    _check_cells(data, array, start, len(names))
    n_before = 0
    while start < len(data):
        records, stop = _find_records(array, start, _n_at_a_time(len(names)))
        body = _Body(data[start:stop], records)
        yield _read_body(body, names, moved(place, n_before, start - first), limits, typed)
        n_before += len(records.starts)
        start = stop


def _read_body(
    body: _Body,
    names: Sequence[str],
    place: Place,
    limits: Limits,
    typed: Callable[[pa.Table], list[Rows]],
) -> tuple[list[Rows], list[Rejected]]:
    bad = _bad_records(body, len(names), limits)
    tables, unread = ([], []) if limits.is_enough(bad) else _read_records(body, bad, names)
    problem = Problem(RejectReason.BAD_CSV_ROW, "cannot be read as a row of CSV")
    bad |= dict.fromkeys(unread, problem)
    rejected = [_rejected(body, number, place, bad[number]) for number in sorted(bad)]
    return [rows for table in tables for rows in typed(table)], rejected


def _n_at_a_time(n_fields: int) -> int:
    return max(1, min(_MAX_RECORDS, _MAX_CELLS // n_fields))


def _check_cells(data: bytes, array: Bytes, start: int, n_fields: int) -> None:
    """Count the records, where there may be too many: it is the parsing that takes long."""
    if (data.count(b"\n") + data.count(b"\r")) * n_fields <= MAX_CELLS:
        return
    n_records = 0
    while start < len(data):
        records, start = _find_records(array, start, _MAX_RECORDS)
        n_records += len(records.starts)
    check_cells(n_records * n_fields)


def _read_records(
    body: _Body, bad: Container[int], names: Sequence[str]
) -> tuple[list[pa.Table], list[int]]:
    """Return the records that are not bad as tables of text, and those that cannot be read."""
    n_records = len(body.records.starts)
    if not bad and n_records:
        try:
            table = _parse(body.data, names)
            if len(table) == n_records:
                return [table], []
        except pa.ArrowInvalid:
            pass
    kept = [number for number in range(n_records) if number not in bad]
    return _parse_each(body, kept, names) if kept else ([], [])


def _names(header: bytes, limits: Limits) -> list[str]:
    """Return the names of the columns."""
    limits.check_record(len(header))
    try:
        (names,) = csv.reader([header.decode()], strict=True)
    except (UnicodeDecodeError, csv.Error, ValueError) as error:
        raise Problem(RejectReason.BAD_TABLE, f"the header cannot be read: {error}") from None
    check_name(max(map(len, names)))
    twice = [name for name, count in Counter(names).items() if count > 1 and name]
    if twice:
        detail = f"the header has the name {twice[0][:100]!r} twice"
        raise Problem(RejectReason.BAD_TABLE, detail)
    return names


def _after_line(data: bytes, stop: int) -> int:
    return stop + (2 if data[stop : stop + 2] == b"\r\n" else 1)


def _find_records(array: Bytes, start: int, n_most: int) -> tuple[CsvRecords, int]:
    """Return records from a place on, which they count from, and the place after them."""
    records = CsvRecords(*(np.empty(n_most, np.int64) for _ in CsvRecords._fields))
    n_records, stop = find_csv_records(array[start:], records)
    return CsvRecords(*(part[:n_records] for part in records)), start + stop


def _bad_records(body: _Body, n_fields: int, limits: Limits) -> dict[int, Problem]:
    """Return what is wrong with the records that have the wrong size or are no text."""
    records = body.records
    sizes = records.stops - records.starts
    suspects = (records.n_fields != n_fields) | (sizes > limits.record_bytes)
    if not is_unicode(body.data):
        suspects[:] = True
    found: dict[int, Problem] = {}
    for number in np.flatnonzero(suspects).tolist():
        if sizes[number] > limits.record_bytes:
            found[number] = limits.long_record(int(sizes[number]))
        elif not is_unicode(body.record(number)):
            found[number] = Problem(RejectReason.INVALID_UTF8, "bytes that are not UTF-8")
        elif records.n_fields[number] != n_fields:
            detail = f"{records.n_fields[number]} fields, where the header has {n_fields}"
            found[number] = Problem(RejectReason.BAD_CSV_ROW, detail)
        if limits.is_enough(found):
            break
    return found


def _rejected(body: _Body, number: int, place: Place, problem: Problem) -> Rejected:
    where = place(number, int(body.records.starts[number]))
    return Rejected(where, problem.reason, problem.detail, body.record(number)[:MAX_KEPT_BYTES])


def _parse(data: bytes, names: Sequence[str]) -> pa.Table:
    """Read all cells as text."""
    arrow = importlib.import_module("pyarrow.csv")
    columns = [f"{number}" for number in range(len(names))]  # a header may leave names empty
    table = arrow.read_csv(
        pa.BufferReader(data),
        read_options=arrow.ReadOptions(
            column_names=columns, use_threads=False, block_size=min(len(data) + 1, _LARGEST_BLOCK)
        ),
        parse_options=arrow.ParseOptions(newlines_in_values=True),
        convert_options=arrow.ConvertOptions(
            column_types=dict.fromkeys(columns, _TEXT),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    kept = [number for number, name in enumerate(names) if name]
    return table.select(kept).rename_columns([names[number] for number in kept])


def _parse_each(
    body: _Body, numbers: Sequence[int], names: Sequence[str]
) -> tuple[list[pa.Table], list[int]]:
    """Read records, in ever smaller parts where they cannot be read; return also those."""
    try:
        table = _parse(b"\n".join(map(body.record, numbers)), names)
        if len(table) == len(numbers):
            return [table], []
    except pa.ArrowInvalid:
        pass
    if len(numbers) == 1:
        return [], list(numbers)
    middle = len(numbers) // 2
    first, first_bad = _parse_each(body, numbers[:middle], names)
    second, second_bad = _parse_each(body, numbers[middle:], names)
    return first + second, first_bad + second_bad
