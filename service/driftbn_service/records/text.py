"""JSON and CSV text as rows, without the records that cannot be read.

JSON is read as columns by Arrow where all is well, else one record after the other. Of CSV, Arrow
would decide what a cell is by all cells of a column that it sees at once, and so by where chunks
are cut. Here all cells are read as text, and each is a number if it is written like one, missing if
it is empty or ``NA``, and text otherwise.
"""

from __future__ import annotations

import csv
import importlib
import json
import math
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from driftbn.tables.cells import mixed_cells
from driftbn.tables.read import MAX_DEPTH, as_records
from driftbn_service.records.columns import check_schema, flat_table
from driftbn_service.records.formats import BYTE_ORDER_MARK, JsonItems
from driftbn_service.records.rows import (
    EXACT,
    MAX_CELLS,
    MAX_KEPT_BYTES,
    MAX_NAME_LENGTH,
    Limits,
    Place,
    Problem,
    Record,
    Rejected,
    RejectReason,
    Rows,
    check_cells,
    check_fields,
    check_name,
    table_of,
    tables_of,
)
from driftbn_service.records.scan_kernel import (
    MAX_OPENED,
    Bytes,
    Spans,
    count_names,
    find_lines,
)


def read_record(text: bytes, data: Bytes, start: int, limits: Limits) -> Record:
    """Return the record that stands in ``data`` from ``start`` on, which is ``text``.

    An object within it is taken apart, ``{"a": {"b": 1}}`` to ``{"a.b": 1}``. What has no value is
    left out: ``null``, a list, a field without a name. Raises ``Problem`` if it is none, or too
    large.
    """
    limits.check_record(len(text))
    try:
        record = orjson.loads(text)
    except orjson.JSONDecodeError:
        _explain(text)
    if type(record) is not dict:
        raise Problem(RejectReason.NOT_AN_OBJECT, f"{_kind(record)} where an object should be")
    n_written = count_names(data, start, start + len(text))
    if n_written != len(record) and n_written != n_names(record):
        _explain(text)
    if len(text) > MAX_NAME_LENGTH:  # else no name in it can be too long, however it is joined
        check_name(max(map(len, record), default=0))
    return flat(record, limits)


def flat(record: Record, limits: Limits) -> Record:
    """Return a record without objects in it, and without what has no value.

    Raises ``Problem`` if objects are nested too deep, there are too many fields, a name gets too
    long, or two fields get the same one.

    >>> flat({"a": {"b": 1, "c": None}, "d": "x", "e": [1, 2]}, Limits(100))
    {'d': 'x', 'a.b': 1}
    """
    plain = {
        name: value
        for name, value in record.items()
        if value is not None and name and type(value) is not list and type(value) is not dict
    }
    check_fields(len(plain), limits.fields)
    if len(plain) == len(record):
        return plain
    for name, value in record.items():
        if type(value) is dict:
            _add_parts(plain, name, value, 2, limits)
    return plain


def _add_parts(plain: Record, prefix: str, parts: Record, depth: int, limits: Limits) -> None:
    """Add the fields of an object; nothing is joined that would not be kept."""
    if depth > MAX_DEPTH:
        raise Problem(RejectReason.TOO_DEEP, f"objects more than {MAX_DEPTH} deep")
    for part, value in parts.items():
        if value is None or type(value) is list:
            continue
        check_name(len(prefix) + 1 + len(part))
        name = f"{prefix}.{part}"
        if type(value) is dict:
            _add_parts(plain, name, value, depth + 1, limits)
            continue
        if name in plain:
            problem = f"two fields get the name {name[:100]!r} when the record is made flat"
            raise Problem(RejectReason.DUPLICATE_KEY, problem)
        plain[name] = value
        check_fields(len(plain), limits.fields)


def n_names(record: Record) -> int:
    """Count the names of all objects in a record, however deep."""
    n_found = 0
    left: list[Any] = [record]
    while left:
        value = left.pop()
        if type(value) is dict:
            n_found += len(value)
            value = value.values()
        left += [part for part in value if type(part) is dict or type(part) is list]
    return n_found


def _explain(text: bytes) -> NoReturn:
    """Raise what is wrong with a text that is no JSON, or has a name twice.

    The parser of the standard library is slower, but it can be asked.
    """
    try:
        decoded = text.decode()
    except UnicodeDecodeError as error:
        detail = f"byte {error.start} of the record is not UTF-8"
        raise Problem(RejectReason.INVALID_UTF8, detail) from None
    try:
        json.loads(
            decoded,
            parse_constant=_refuse_constant,
            parse_float=_checked_float,
            parse_int=_checked_float,
            object_pairs_hook=_checked_pairs,
        )
    except RecursionError:
        raise Problem(RejectReason.TOO_DEEP, "nested too deep for the parser") from None
    except json.JSONDecodeError as error:
        raise Problem(RejectReason.NOT_JSON, f"{error.msg} at character {error.pos}") from None
    # The stricter parser refuses two things that the other takes.
    if "\\u" in decoded:
        raise Problem(RejectReason.INVALID_UTF8, "an escape is half of a surrogate pair")
    raise Problem(RejectReason.TOO_DEEP, "nested too deep for the parser")


def _refuse_constant(name: str) -> NoReturn:
    raise Problem(RejectReason.NOT_A_NUMBER, f"{name} is no JSON number")


def _checked_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise Problem(RejectReason.NOT_A_NUMBER, "a number is too large for a float")
    return value


def _checked_pairs(pairs: list[tuple[str, Any]]) -> Record:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise Problem(RejectReason.DUPLICATE_KEY, f"the name {twice[:100]!r} is there twice")
    return found


def _kind(value: object) -> str:
    names = {list: "a list", str: "a text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


_BLANK = b" \t\r\n"
_MANY_RECORDS: Final = 1 << 15
_LARGEST_BLOCK = 2**31 - 1  # Arrow counts the bytes of a block in 32 bits
_HASH_KEY: Final = np.uint64(secrets.randbits(64))
"""Where hashes of names begin, so that nobody can think of names with equal ones."""


class Text(NamedTuple):
    """Records of a chunk, one a line."""

    data: bytes
    array: Bytes  # the same bytes
    lines: Spans
    is_unicode: bool
    is_wide: bool = False  # whether there are more fields than a table of them may have

    @property
    def n_records(self) -> int:
        return len(self.lines.starts)


def read_lines(data: bytes, unicode: bool, limits: Limits) -> Text:
    array = np.frombuffer(data, np.uint8)
    n_lines = data.count(b"\n") + 1
    room = Spans(
        np.empty(n_lines, np.int64), np.empty(n_lines, np.int64), np.empty(n_lines, np.bool_)
    )
    n_most = min(limits.fields, MAX_CELLS // n_lines)
    paths = np.full(MAX_OPENED + 1, _HASH_KEY)
    slots = np.zeros(1 << (4 * n_most).bit_length(), np.uint64)
    n_lines, n_fields = find_lines(array, room, paths, slots, n_most)
    lines = Spans(room.starts[:n_lines], room.stops[:n_lines], room.plain[:n_lines])
    return Text(data, array, lines, unicode, n_fields > n_most)


def is_unicode(data: bytes) -> bool:
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
    start = len(data) - len(data.removeprefix(BYTE_ORDER_MARK).lstrip(_BLANK))
    if data[start : start + 1] == b"{":
        first, _, rest = data[start:].partition(b"\n")
        several = not rest.strip(_BLANK) or first.rstrip(_BLANK).endswith(b"}")
        return data if several else data.replace(b"\n", b" "), []
    if data[start : start + 1] != b"[":
        return data, []
    grammar = JsonItems(len(data))
    n_before = grammar.prefix(data, ended=True) or 0
    lines = b" " * n_before + grammar.lines(data[n_before:])
    if grammar.problem is None:
        return lines, []
    kept = data[:MAX_KEPT_BYTES]
    return lines, [Rejected(place(0, start), RejectReason.NOT_JSON, grammar.problem, kept)]


def decode_lines(text: Text, place: Place, limits: Limits) -> tuple[list[Rows], list[Rejected]]:
    """Return the rows of a text, and its bad records."""
    table = _read_table(text, limits)
    if table is not None:
        return [table], []
    rows, rejected = decode_records(text, range(text.n_records), place, limits)
    records = [row for row in rows if row is not None]
    _check_width(records, limits)
    return tables_of(records), rejected


def _check_width(records: list[Record], limits: Limits) -> None:
    """Raise a ``Problem`` if many records have few fields in common.

    Their tables would be nearly empty, and take a thousand times as long as dense ones.
    """
    if len(records) <= _MANY_RECORDS:
        return
    n_fields = len(set(chain.from_iterable(records)))
    if n_fields * len(records) > MAX_CELLS:
        check_fields(n_fields, limits.fields)
        check_cells(n_fields * len(records))


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
    """Return all records as columns; ``None`` if some must be looked at one by one.

    Arrow makes room for every field in every row, so how many there are must be known before.
    """
    lines = text.lines
    if not text.is_unicode or not lines.plain.all() or len(text.data) >= _LARGEST_BLOCK:
        return None
    if not text.n_records or (lines.stops - lines.starts).max() > limits.record_bytes:
        return None
    if text.is_wide:
        return None
    try:
        table = _parse_all(text.data)
        if len(table) != text.n_records:  # two objects stand on one line
            return None
        check_schema(table.schema, limits)
        flat = flat_table(table)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError, Problem):
        return None
    if not all(map(_is_exact, flat.columns)):
        return None
    return as_records(flat) if flat.num_columns else table_of(text.n_records, {})


def _parse_all(data: bytes) -> pa.Table:
    table = _parse(data, ())
    # Arrow takes text that looks like a time for one where all of a column does.
    untimed = [(_untimed(field), field) for field in table.schema]
    texts = [text for text, field in untimed if text != field]
    return _parse(data, texts) if texts else table


def _parse(data: bytes, fields: Sequence[pa.Field]) -> pa.Table:
    arrow = importlib.import_module("pyarrow.json")
    return arrow.read_json(
        pa.BufferReader(data),
        read_options=arrow.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=arrow.ParseOptions(explicit_schema=pa.schema(fields) if fields else None),
    )


def _untimed(field: pa.Field) -> pa.Field:
    """Return a field with text where there are times, in the objects within it too."""
    kind = field.type
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct(map(_untimed, kind)))
    return field.with_type(pa.string()) if pa.types.is_temporal(kind) else field


def _is_exact(column: Any) -> bool:
    """Whether no float may have been ``NaN`` or a whole number that lost its last digits."""
    if not pa.types.is_floating(column.type):
        return True
    values = column.fill_null(0.0).to_numpy()
    return bool(np.abs(values).max(initial=0.0) < EXACT)


# CSV.

_RECORD: Final = re.compile(
    rb"""(?: [^"\r\n]++
           | (?<![^,\r\n]) (?: " (?: [^"]++ | "" )*+ " | (?P<open> " [^\r\n]*+ ) )
           | (?<=[^,\r\n]) " )++""",
    re.VERBOSE,
)
"""A record. A quote opens a cell only at its start; one that never closes ends with its line."""
_MAX_RECORDS, _MAX_CELLS = 1 << 16, 1 << 22  # that are read at a time
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
    data = data.removeprefix(BYTE_ORDER_MARK)
    header = next(_records(data, 0, len(data)), None)
    if header is None:
        raise Problem(RejectReason.BAD_TABLE, "CSV without a header")
    names = _header_names(data[header.start : header.stop], limits)
    check_cells(max(data.count(b"\n"), data.count(b"\r")) * len(names))
    first = header.stop + (2 if data[header.stop : header.stop + 2] == b"\r\n" else 1)
    n_at_a_time = max(1, min(_MAX_RECORDS, _MAX_CELLS // len(names)))
    n_before = 0
    for start, stop, are_lines in _pieces(data, first, n_at_a_time, limits):
        if are_lines:
            table, misfits = _parse_csv(data[start:stop], names)
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


def _header_names(header: bytes, limits: Limits) -> list[str]:
    limits.check_record(len(header))
    try:
        (names,) = csv.reader([header.decode()], strict=True)
    except (UnicodeDecodeError, csv.Error, ValueError) as error:
        raise Problem(RejectReason.BAD_TABLE, f"the header cannot be read: {error}") from None
    check_fields(len(names), limits.fields)
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
    table, misfits = _parse_csv(text, names)
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


def _parse_csv(data: bytes, names: Sequence[str]) -> tuple[pa.Table, dict[int, Problem]]:
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
    return table_of(len(table), {name: _column(column) for name, column in named if name})


def _column(column: pa.ChunkedArray) -> pa.Array:
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    texts, indices = array.dictionary, array.indices
    numbers = _matches(texts, _NUMBER)
    if not numbers.any():
        return array if len(texts) else pa.nulls(len(array))
    for place in np.flatnonzero(_matches(texts, _LONG) & numbers).tolist():
        numbers[place] = math.isfinite(float(texts[place].as_py()))
    whole = _matches(texts, _WHOLE)
    if numbers.all() and not _loses_digits(texts, whole):
        kind = pa.int64() if whole.all() else pa.float64()
        return texts.cast(kind).take(indices)
    values: list[Any] = texts.to_pylist()
    for place in np.flatnonzero(numbers).tolist():
        values[place] = int(values[place]) if whole[place] else float(values[place])
    return mixed_cells(values, exact=True)[0].take(indices)


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
