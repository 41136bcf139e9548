"""Cells of CSV as values whose types do not depend on what else is in a chunk.

A cell is a number if it is written like one, missing if it is empty or ``NA``, and text otherwise.
Arrow would decide by all cells of a column that it sees at once, and so by where chunks are cut.
"""

from __future__ import annotations

import csv
import importlib
import math
import re
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from driftbn.encoding.canonical import canonical_text
from driftbn.event_times import read_times
from driftbn.intake import as_records
from driftbn_service.records.json_text import EXACT, Record, as_batches, is_unicode
from driftbn_service.records.rows import (
    MAX_CELLS,
    MAX_KEPT_BYTES,
    Limits,
    Place,
    Problem,
    Rejected,
    RejectReason,
    Rows,
    check_cells,
    check_name,
    moved,
)
from driftbn_service.records.scan_kernel import Bytes, CsvRecords, find_csv_records

_WHOLE: Final = r"-?(?:0|[1-9][0-9]{0,17})"
"""At most 18 digits, which 64 bits hold."""
_NUMBER: Final = r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
"""A leading zero makes text, as in a postal code."""
_LONG: Final = r".*(?:[eE]\+?[0-9]{3}|[0-9]{200}).*"
"""A number that may be beyond what a float holds."""
_FEW: Final = 64
"""Distinct texts up to which Python is faster: Arrow compiles a pattern at each call."""


class _Cells(NamedTuple):
    """A column of texts."""

    texts: Any  # the distinct ones, an Arrow array
    indices: Any  # [rows]: which of them, an Arrow array; null where a cell is missing
    numbers: NDArray[np.bool_]  # [distinct]: whether it is written like a number
    whole: NDArray[np.bool_]  # [distinct]: whether that is whole, and 64 bits hold it

    @property
    def mixed(self) -> bool:
        """Whether some cells are numbers and some are not."""
        return bool(self.numbers.any() and not self.numbers.all())


def typed_rows(
    table: pa.Table, time_column: str | None = None, *, known: bool = False
) -> list[Rows]:
    """Return a table of texts with the type that each cell has by itself.

    Where a column holds numbers and text the rows are dicts. If the schema is known, a number
    among texts becomes its canonical text instead, which then stands for the same. Cells of the
    column of event times become seconds.

    Parameters
    ----------
    table
        Columns of dictionary-encoded text.
    time_column
        The column with event times, if there is one.
    known
        Whether the monitor has its schema.

    Examples
    --------
    >>> texts = {"a": ["1", "2"], "b": ["0.50", "x"], "c": ["07", None]}
    >>> table = pa.table({name: pa.array(t).dictionary_encode() for name, t in texts.items()})
    >>> [rows.to_pydict() for rows in typed_rows(table, known=True)]
    [{'a': [1, 2], 'b': ['0.5', 'x'], 'c': ['07', None]}]
    >>> typed_rows(table)
    [[{'a': 1, 'b': 0.5, 'c': '07'}, {'a': 2, 'b': 'x'}]]
    """
    named = zip(table.column_names, table.columns, strict=True)
    columns = {name: _read_cells(column) for name, column in named}
    times = columns.get(time_column or "")
    others = [cells for cells in columns.values() if cells is not times]
    if not columns or any((cells.mixed and not known) or _is_wide(cells) for cells in others):
        return [*as_batches(_records(columns, len(table)))]
    typed = {
        name: _times(cells) if cells is times and cells.mixed else _column(cells)
        for name, cells in columns.items()
    }
    return [as_records(pa.table(typed))]


def _read_cells(column: Any) -> _Cells:
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    texts = array.dictionary
    numbers = _matches(texts, _NUMBER)
    if not numbers.any():
        return _Cells(texts, array.indices, numbers, numbers)
    whole = _matches(texts, _WHOLE)
    for place in np.flatnonzero(_matches(texts, _LONG) & numbers).tolist():
        numbers[place] = math.isfinite(float(texts[place].as_py()))
    return _Cells(texts, array.indices, numbers, whole)


def _matches(texts: Any, pattern: str) -> NDArray[np.bool_]:
    """Return which texts match a pattern from end to end."""
    if len(texts) <= _FEW:
        match = re.compile(pattern).fullmatch
        return np.array([match(text) is not None for text in texts.to_pylist()], np.bool_)
    found = pc.match_substring_regex(texts, f"^(?:{pattern})$")
    return np.array(found.to_numpy(zero_copy_only=False), np.bool_)


def _column(cells: _Cells) -> Any:
    texts, indices = cells.texts, cells.indices
    if not len(texts):
        return pa.nulls(len(indices))
    if not cells.numbers.any():
        return pa.DictionaryArray.from_arrays(indices, texts)
    if cells.numbers.all():
        kind = pa.int64() if cells.whole.all() else pa.float64()
        return texts.cast(kind).take(indices)
    canonical = texts.to_pylist()
    for place in np.flatnonzero(cells.numbers).tolist():
        canonical[place] = canonical_text(_number(cells, place))
    return pa.DictionaryArray.from_arrays(indices, pa.array(canonical))


def _times(cells: _Cells) -> Any:
    """Return the event times of a column in which some are numbers and some are text."""
    return pa.array(read_times(_values(cells))).take(cells.indices)


def _is_wide(cells: _Cells) -> bool:
    """Whether there are fractions and whole numbers that lose digits as floats."""
    if not cells.numbers.all() or not cells.whole.any() or cells.whole.all():
        return False
    whole = cells.texts.filter(pa.array(cells.whole)).cast(pa.int64()).to_numpy()
    return bool(np.abs(whole).max() > EXACT)


def _records(columns: dict[str, _Cells], n_rows: int) -> list[Record]:
    """Return rows as dicts, without what is missing."""
    records: list[Record] = [{} for _ in range(n_rows)]
    for name, cells in columns.items():
        values = _values(cells)
        for record, place in zip(records, cells.indices.to_pylist(), strict=True):
            if place is not None:
                record[name] = values[place]
    return records


def _values(cells: _Cells) -> list[Any]:
    """Return the distinct values of a column, numbers as such."""
    values: list[Any] = cells.texts.to_pylist()
    for place in np.flatnonzero(cells.numbers).tolist():
        values[place] = _number(cells, place)
    return values


def _number(cells: _Cells, place: int) -> int | float:
    text = cells.texts[place].as_py()
    return int(text) if cells.whole[place] else float(text)


# CSV as rows, without the records that do not fit the header.

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
