"""CSV as rows, without the records that do not fit the header."""

from __future__ import annotations

import csv
import importlib
from collections import Counter
from collections.abc import Callable, Container, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from service.decoding.decoded import MAX_KEPT_BYTES, Place, Problem, Rejected, RejectReason, Rows
from service.decoding.json_lines import is_unicode, too_large
from service.decoding.kernels import CsvRecords, find_csv_records

_MARK: Final = b"\xef\xbb\xbf"
_LARGEST_BLOCK: Final = 2**31 - 1  # Arrow counts the bytes of a block in 32 bits
_TEXT: Final = pa.dictionary(pa.int32(), pa.string())


class _Body(NamedTuple):
    """A chunk of CSV without its header."""

    data: bytes
    records: CsvRecords

    def record(self, number: int) -> bytes:
        return self.data[self.records.starts[number] : self.records.stops[number]]


def decode_csv(
    data: bytes, place: Place, max_record_bytes: int, typed: Callable[[pa.Table], list[Rows]]
) -> tuple[list[Rows], list[Rejected]]:
    """Return the rows of CSV with a header, and its bad records.

    Parameters
    ----------
    data, place, max_record_bytes
        As a decoder has them.
    typed
        Gives the cells of a table of texts their types.

    Raises
    ------
    Problem
        If the header cannot be read.
    """
    data = data.removeprefix(_MARK)
    records = _find_records(data)
    if not len(records.starts):
        raise Problem(RejectReason.BAD_TABLE, "CSV without a header")
    names = _names(data[records.starts[0] : records.stops[0]])
    body = _after_header(data, records)
    bad = _bad_records(body, len(names), max_record_bytes)
    tables, unread = _read_records(body, bad, names)
    problem = Problem(RejectReason.BAD_CSV_ROW, "cannot be read as a row of CSV")
    bad |= dict.fromkeys(unread, problem)
    rejected = [_rejected(body, number, place, bad[number]) for number in sorted(bad)]
    return [rows for table in tables for rows in typed(table)], rejected


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


def _names(header: bytes) -> list[str]:
    """Return the names of the columns."""
    try:
        (names,) = csv.reader([header.decode()], strict=True)
    except (UnicodeDecodeError, csv.Error, ValueError) as error:
        raise Problem(RejectReason.BAD_TABLE, f"the header cannot be read: {error}") from None
    twice = [name for name, count in Counter(names).items() if count > 1 and name]
    if twice:
        detail = f"the header has the name {twice[0][:100]!r} twice"
        raise Problem(RejectReason.BAD_TABLE, detail)
    return names


def _after_header(data: bytes, records: CsvRecords) -> _Body:
    stop = int(records.stops[0])
    stop += 2 if data[stop : stop + 2] == b"\r\n" else 1
    starts, stops = records.starts[1:] - stop, records.stops[1:] - stop
    return _Body(data[stop:], CsvRecords(starts, stops, records.n_fields[1:]))


def _find_records(data: bytes) -> CsvRecords:
    n_most = data.count(b"\n") + data.count(b"\r") + 1
    records = CsvRecords(*(np.empty(n_most, np.int64) for _ in CsvRecords._fields))
    n_records = find_csv_records(np.frombuffer(data, np.uint8), records)
    return CsvRecords(*(part[:n_records] for part in records))


def _bad_records(body: _Body, n_fields: int, max_bytes: int) -> dict[int, Problem]:
    """Return what is wrong with the records that have the wrong size or are no text."""
    records = body.records
    sizes = records.stops - records.starts
    suspects = (records.n_fields != n_fields) | (sizes > max_bytes)
    if not is_unicode(body.data):
        suspects[:] = True
    found: dict[int, Problem] = {}
    for number in np.flatnonzero(suspects).tolist():
        if sizes[number] > max_bytes:
            found[number] = too_large(int(sizes[number]), max_bytes)
        elif not is_unicode(body.record(number)):
            found[number] = Problem(RejectReason.INVALID_UTF8, "bytes that are not UTF-8")
        elif records.n_fields[number] != n_fields:
            detail = f"{records.n_fields[number]} fields, where the header has {n_fields}"
            found[number] = Problem(RejectReason.BAD_CSV_ROW, detail)
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
