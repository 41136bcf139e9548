"""CSV as tables, without the records that do not fit the header.

Arrow would decide what a cell is by all cells of a column that it sees at once, and so by where
chunks are cut. Here all cells are read as text, and each is a number if it is written like one,
missing if it is empty or ``NA``, and text otherwise.
"""

from __future__ import annotations

import csv
import importlib
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from driftbn_service.records.json_text import is_unicode
from driftbn_service.records.rows import (
    MAX_KEPT_BYTES,
    Limits,
    Place,
    Problem,
    Rejected,
    RejectReason,
    Rows,
    check_cells,
    check_name,
)
from driftbn_service.records.tables import EXACT, Column, table_of

_MARK: Final = b"\xef\xbb\xbf"
_RECORD: Final = re.compile(
    rb"""(?: [^"\r\n]++
           | (?<![^,\r\n]) (?: " (?: [^"]++ | "" )*+ " | (?P<open> " [^\r\n]*+ ) )
           | (?<=[^,\r\n]) " )++""",
    re.VERBOSE,
)
"""A record. A quote opens a cell only at its start; one that never closes ends with its line."""
_MAX_RECORDS, _MAX_CELLS = 1 << 16, 1 << 22  # that are read at a time
_LARGEST_BLOCK: Final = 2**31 - 1  # Arrow counts the bytes of a block in 32 bits
_TEXT: Final = pa.dictionary(pa.int32(), pa.string())

_WHOLE: Final = r"-?(?:0|[1-9][0-9]{0,17})"
"""At most 18 digits, which 64 bits hold."""
_NUMBER: Final = r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
"""A leading zero makes text, as in a postal code."""
_LONG: Final = r".*(?:[eE]\+?[0-9]{3}|[0-9]{200}).*"
"""A number that may be beyond what a float holds."""
_FEW: Final = 64
"""Distinct texts up to which Python is faster: Arrow compiles a pattern at each call."""


class _Record(NamedTuple):
    """Where a record stands, and whether its quotes do not close."""

    start: int
    stop: int
    is_open: bool


def decode_csv(
    data: bytes, place: Place, limits: Limits
) -> Iterator[tuple[list[Rows], list[Rejected]]]:
    """Yield the rows of CSV with a header and its bad records, some thousand records at a time.

    In ``place`` bytes are counted after the header. Raises ``Problem`` if the header cannot be
    read.
    """
    data = data.removeprefix(_MARK)
    header = next(_records(data, 0, len(data)), None)
    if header is None:
        raise Problem(RejectReason.BAD_TABLE, "CSV without a header")
    names = _names(data[header.start : header.stop], limits)
    check_cells(max(data.count(b"\n"), data.count(b"\r")) * len(names))
    first = header.stop + (2 if data[header.stop : header.stop + 2] == b"\r\n" else 1)
    n_at_a_time = max(1, min(_MAX_RECORDS, _MAX_CELLS // len(names)))
    n_before = 0
    for start, stop, are_lines in _pieces(data, first, n_at_a_time, limits):
        if are_lines:
            table, misfits = _parse(data[start:stop], names)
            if not misfits:
                yield [_typed(table, names)], []
                n_before += len(table)
                continue
        found = _records(data, start, stop)
        while records := list(islice(found, n_at_a_time)):
            table, bad = _read(data, records, names, limits)
            rejected = [
                Rejected(
                    place(n_before + number, records[number].start - first),
                    problem.reason,
                    problem.detail,
                    data[records[number].start : records[number].stop][:MAX_KEPT_BYTES],
                )
                for number, problem in sorted(bad.items())[: limits.rejected]
            ]
            yield [table], rejected
            n_before += len(records)


def _records(data: bytes, start: int, stop: int) -> Iterator[_Record]:
    """Find records one by one, whatever stands in quotes."""
    for match in _RECORD.finditer(data, start, stop):
        yield _Record(*match.span(), match["open"] is not None)


def _pieces(
    data: bytes, start: int, n_records: int, limits: Limits
) -> Iterator[tuple[int, int, bool]]:
    """Cut into pieces of so many lines where every record is a line, which Arrow can be given."""
    text = data[start:]
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
    longest = int(np.diff(ends, prepend=-1, append=len(text)).max())
    if b'"' in text or longest > limits.record_bytes or not is_unicode(text):
        yield start, len(data), False
        return
    stops = [int(end) + 1 for end in ends[n_records - 1 :: n_records]]
    for first, last in pairwise([0, *stops, len(text)]):
        if first < last:
            yield start + first, start + last, True


def _names(header: bytes, limits: Limits) -> list[str]:
    limits.check_record(len(header))
    try:
        (names,) = csv.reader([header.decode()], strict=True)
    except (UnicodeDecodeError, csv.Error, ValueError) as error:
        raise Problem(RejectReason.BAD_TABLE, f"the header cannot be read: {error}") from None
    limits.check_fields(len(names))
    check_name(max(map(len, names)))
    twice = [name for name, count in Counter(names).items() if count > 1 and name]
    if twice:
        detail = f"the header has the name {twice[0][:100]!r} twice"
        raise Problem(RejectReason.BAD_TABLE, detail)
    return names


def _read(
    data: bytes, records: Sequence[_Record], names: Sequence[str], limits: Limits
) -> tuple[pa.Table, dict[int, Problem]]:
    """Return the records that fit the header as a table, and what is wrong with the others."""
    bad = _bad_records(data, records, limits)
    good = [number for number in range(len(records)) if number not in bad]
    if not bad:
        text = data[records[0].start : records[-1].stop]
    else:
        text = b"\n".join(data[records[i].start : records[i].stop] for i in good)
    table, misfits = _parse(text, names)
    if len(table) + len(misfits) != len(good):  # what Arrow takes for a record is something else
        raise Problem(RejectReason.BAD_TABLE, "cannot be read as CSV")
    bad |= {good[number]: problem for number, problem in misfits.items()}
    return _typed(table, names), bad


def _bad_records(data: bytes, records: Sequence[_Record], limits: Limits) -> dict[int, Problem]:
    """Return what is wrong with records that are too long, no text or do not end."""
    unicode = is_unicode(data[records[0].start : records[-1].stop])
    found: dict[int, Problem] = {}
    for number, (start, stop, is_open) in enumerate(records):
        if stop - start > limits.record_bytes:
            found[number] = limits.long_record(stop - start)
        elif is_open:
            found[number] = Problem(RejectReason.BAD_CSV_ROW, "a quote that does not close")
        elif not unicode and not is_unicode(data[start:stop]):
            found[number] = Problem(RejectReason.INVALID_UTF8, "bytes that are not UTF-8")
    return found


def _parse(data: bytes, names: Sequence[str]) -> tuple[pa.Table, dict[int, Problem]]:
    """Read all cells as text; what does not fit the header is told by its number."""
    misfits: dict[int, Problem] = {}

    def skip(row: Any) -> str:
        detail = f"{row.actual_columns} fields, where the header has {row.expected_columns}"
        misfits[row.number - 1] = Problem(RejectReason.BAD_CSV_ROW, detail)
        return "skip"

    arrow = importlib.import_module("pyarrow.csv")
    columns = [f"{number}" for number in range(len(names))]  # a header may leave names empty
    if not data:
        return pa.table({name: pa.array([], _TEXT) for name in columns}), {}
    if not data.endswith((b"\n", b"\r")):
        data += b"\n"  # Arrow takes an empty cell at the very end for one in quotes
    table = arrow.read_csv(
        pa.BufferReader(data),
        read_options=arrow.ReadOptions(
            column_names=columns, use_threads=False, block_size=min(len(data) + 1, _LARGEST_BLOCK)
        ),
        parse_options=arrow.ParseOptions(newlines_in_values=True, invalid_row_handler=skip),
        convert_options=arrow.ConvertOptions(
            column_types=dict.fromkeys(columns, _TEXT),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return table, misfits


def _typed(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return a table of texts with the type that each cell has by itself."""
    named = zip(names, table.columns, strict=True)
    return table_of(len(table), [_column(name, column) for name, column in named if name])


def _column(name: str, column: pa.ChunkedArray) -> Column:
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    texts, indices = array.dictionary, array.indices
    numbers = _matches(texts, _NUMBER)
    if not numbers.any():
        return Column.plain(name, array if len(texts) else pa.nulls(len(array)))
    for place in np.flatnonzero(_matches(texts, _LONG) & numbers).tolist():
        numbers[place] = math.isfinite(float(texts[place].as_py()))
    whole = _matches(texts, _WHOLE)
    if numbers.all() and not _loses_digits(texts, whole):
        kind = pa.int64() if whole.all() else pa.float64()
        return Column.plain(name, texts.cast(kind).take(indices))
    values: list[Any] = texts.to_pylist()
    for place in np.flatnonzero(numbers).tolist():
        values[place] = int(values[place]) if whole[place] else float(values[place])
    tokens = pa.array([orjson.dumps(value).decode() for value in values], pa.string())
    return Column.mixed(name, pa.DictionaryArray.from_arrays(indices, tokens))


def _matches(texts: Any, pattern: str) -> NDArray[np.bool_]:
    """Return which texts match a pattern from end to end."""
    if len(texts) <= _FEW:
        match = re.compile(pattern).fullmatch
        return np.array([match(text) is not None for text in texts.to_pylist()], np.bool_)
    found = pc.match_substring_regex(texts, f"^(?:{pattern})$")
    return np.array(found.to_numpy(zero_copy_only=False), np.bool_)


def _loses_digits(texts: Any, whole: NDArray[np.bool_]) -> bool:
    """Whether there are fractions and whole numbers that are not exact as floats."""
    if not whole.any() or whole.all():
        return False
    numbers = texts.filter(pa.array(whole)).cast(pa.int64()).to_numpy()
    return bool(np.abs(numbers).max() > EXACT)
