"""Bytes of whole records to rows, with the bad ones set aside, and rows parted by key."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from driftbn.tables.cells import canonical_text, cells_of, is_mixed, mixed_texts
from driftbn.tables.encode import EncodedTable
from driftbn.tables.read import is_plain, one_array, plain_column, read_times
from driftbn.tables.schema import MISSING, Schema, Variable, VariableKind
from driftbn_service.records import sizes
from driftbn_service.records.columns import (
    check_schema,
    checked_table,
    joined,
    read_arrow,
    read_parquet,
)
from driftbn_service.records.formats import TableFormat
from driftbn_service.records.rows import (
    MAX_CELLS,
    MAX_FIELDS,
    MAX_KEPT_BYTES,
    MAX_TABLE_BYTES,
    Decoded,
    Limits,
    Place,
    Problem,
    Rejected,
    RejectReason,
    Rows,
    Undecoded,
    check_cells,
    moved,
    n_rows_of,
)
from driftbn_service.records.scanner import Scanner, ScanningDecoder
from driftbn_service.records.text import (
    array_as_lines,
    decode_csv,
    decode_lines,
    is_unicode,
    read_lines,
)

logger = logging.getLogger("driftbn.service.records")

PIECE_BYTES: Final = 1 << 21
"""Bytes of lines decoded at a time, so that room for their parts stays small."""


class Decoder:
    r"""Turns the chunks of a lane into rows that a monitor takes.

    What a record becomes depends on it alone, not on the chunk that it comes in: the package says
    what a cell is.

    Whatever comes in, ``decode`` returns: this is the door, and behind it nothing fails for what a
    record is. A record that cannot be read, or that lacks the event time or the key that it must
    have, is set aside with its place and the reason; those beside it are not harmed. Where nothing
    of a chunk can be read, it is set aside as a whole.

    Once ``use_schema`` has said what the columns are, lines of JSON go straight to codes, which is
    several times faster and comes to the same.

    All but ``use_schema`` belong to one thread.

    A record of more than ``max_record_bytes`` (from 1; not for Parquet and Arrow) is set aside, and
    so is a record or a table of more than ``max_fields`` fields; ``max_decoded_bytes`` bounds what
    the buffers of Parquet and Arrow become. After ``max_rejected`` bad records, if it is given, the
    rest of a chunk is not looked at. With a ``time_column``, or where the environment variable
    ``DRIFTBN_SCANNER`` is ``off``, there is no straight way to codes. The value of the field
    ``key`` says to which monitor a record goes.

    >>> decoder = Decoder(max_record_bytes=100)
    >>> lines = b'{"x": 1, "y": {"z": "a"}}\n{"x": 1, "x": 2}\n'
    >>> place = "line {}, byte {}".format
    >>> decoded = decoder.decode(Undecoded(lines, TableFormat.NDJSON, place))
    >>> [table.to_pylist() for table in decoded.batches]
    [[{'x': 1, 'y.z': 'a'}]]
    >>> [(record.place, record.reason.value) for record in decoded.rejected]
    [('line 1, byte 26', 'duplicate_key')]
    """

    def __init__(  # noqa: PLR0913 - limits by their names in the settings
        self,
        *,
        max_record_bytes: int,
        max_fields: int = MAX_FIELDS,
        max_decoded_bytes: int = MAX_TABLE_BYTES,
        max_rejected: int | None = None,
        time_column: str | None = None,
        key: str | None = None,
    ) -> None:
        self.limits = Limits(max_record_bytes, max_fields, max_decoded_bytes, max_rejected)
        self.time_column = time_column
        self._required = RequiredFields(time_column, key)
        self._scans = time_column is None and os.environ.get("DRIFTBN_SCANNER") != "off"
        self._scanning = ScanningDecoder(self.limits)
        self._readers: dict[TableFormat, Callable[[bytes, Place], Iterator[_Read]]] = {
            TableFormat.NDJSON: self._read_lines,
            TableFormat.JSON: self._read_json,
            TableFormat.CSV: lambda data, place: decode_csv(data, place, self.limits),
            TableFormat.PARQUET: lambda data, _: iter([([read_parquet(data, self.limits)], [])]),
            TableFormat.ARROW: lambda data, _: iter([([read_arrow(data, self.limits)], [])]),
        }

    def use_schema(self, schema: Schema | None) -> None:
        """Say what the monitor takes the columns for, or ``None`` that it is not known any more.

        From the next chunk on rows may be an ``EncodedTable`` in this schema. Not to be called
        where rows are parted by a key. May be called by any thread, again and again; it does not
        block.
        """
        if self._scans:
            self._scanning.use_schema(schema)

    def decode(self, chunk: Undecoded) -> Decoded:
        """Return the rows of a chunk, and the records that are none.

        No exception leaves it because of what is in a chunk.
        """
        try:
            return self._decode(chunk)
        except Problem as problem:
            return _set_aside(chunk, problem)
        except Exception as error:
            # The one guard: whatever Arrow, NumPy or Python raise over bytes from outside, also
            # what nobody thought of, must cost this chunk and nothing else.
            logger.exception("a chunk cannot be read and is set aside")
            return _set_aside(chunk, Problem(RejectReason.BAD_TABLE, type(error).__name__))

    def _decode(self, chunk: Undecoded) -> Decoded:
        if isinstance(chunk.data, bytes):
            batches, rejected = self._read(chunk.kind, chunk.data, chunk.place)
            place = _counted_from(chunk.place(0, 0))
        else:
            check_schema(chunk.data.schema, self.limits)
            checked = chunk.checked
            table = joined(chunk.data) if checked else checked_table(chunk.data, self.limits)
            batches, rejected, place = [table], [], chunk.place
        taken, lacking = self._with_required(batches, place)
        filled = tuple(rows for rows in taken if n_rows_of(rows))
        return Decoded(filled, sum(map(n_rows_of, filled)), (*rejected, *lacking))

    def _with_required(self, batches: Iterable[Rows], place: Place) -> _Read:
        if self._required == RequiredFields():
            return list(batches), []
        taken: list[Rows] = []
        rejected: list[Rejected] = []
        n_before = 0
        for rows in batches:
            kept, lacking = self._required.split(rows, moved(place, n_before, 0))
            taken.append(kept)
            rejected += lacking
            n_before += n_rows_of(rows)
        return taken, rejected

    def _read(self, kind: TableFormat | None, data: bytes, place: Place) -> _Read:
        assert kind is not None, "bytes have a format"
        batches: list[Rows] = []
        rejected: list[Rejected] = []
        n_cells = 0
        for rows, bad in self._readers[kind](data, place):
            n_cells += sum(map(_n_cells, rows))
            check_cells(n_cells)
            batches += rows
            rejected += bad
            if self.limits.is_enough(rejected):
                break
        return batches, rejected

    def _read_lines(self, data: bytes, place: Place) -> Iterator[_Read]:
        if len(data) > MAX_CELLS:  # else there cannot be so many lines
            check_cells(data.count(b"\n"))
        start = n_before = 0
        while start < len(data):
            stop = _piece_stop(data, start)
            rows, rejected = self._read_piece(data[start:stop], moved(place, n_before, start))
            yield rows, rejected
            n_before += sum(map(n_rows_of, rows)) + len(rejected)
            start = stop

    def _read_piece(self, data: bytes, place: Place) -> _Read:
        unicode = is_unicode(data)
        found = self._scanning.decode(data, unicode, place)
        if found is not None:
            return found
        return decode_lines(read_lines(data, unicode, self.limits), place, self.limits)

    def _read_json(self, data: bytes, place: Place) -> Iterator[_Read]:
        lines, problems = array_as_lines(data, place)
        yield from self._read_lines(lines, place)
        yield [], problems


_Read = tuple[list[Rows], list[Rejected]]


def _set_aside(chunk: Undecoded, problem: Problem) -> Decoded:
    kept = chunk.data[:MAX_KEPT_BYTES] if isinstance(chunk.data, bytes) else b""
    n_records = 1 if isinstance(chunk.data, bytes) else max(1, chunk.data.num_rows)
    place, reason, detail = chunk.place(0, 0), problem.reason, problem.detail
    return Decoded((), 0, (Rejected(place, reason, detail, kept, n_records),))


def _piece_stop(data: bytes, start: int) -> int:
    if len(data) - start <= PIECE_BYTES:
        return len(data)
    newline = data.rfind(b"\n", start, start + PIECE_BYTES)
    if newline < 0:
        newline = data.find(b"\n", start)
    return newline + 1 if newline >= 0 else len(data)


def _counted_from(start: str) -> Place:
    """Return what says where a row stands of which only the number in its chunk is known."""
    return lambda number, _: f"row {number + 1} from {start} on"


def _n_cells(rows: Rows) -> int:
    """Count the cells by what they take: eight codes are one, and so is a row without any."""
    if isinstance(rows, EncodedTable):
        return int(rows.codes.size) // 8
    return int(len(rows) * max(1, rows.num_columns))


def warm_up() -> None:
    """Decode a tiny text of each kind; the first time after installation takes half a minute."""
    sizes.warm_up()
    place = "{} {}".format
    data, _ = array_as_lines(b'[{"x":1},{"x":"a"}]', place)
    limits = Limits(len(data))
    decode_lines(read_lines(data, True, limits), place, limits)
    variables = [Variable("x", VariableKind.NUMERIC, edges=(0.5,))]
    Scanner(Schema(variables)).scan(b'{"x":1}\n', True)


# Keys, rows that are set aside, and the fields without which a record cannot be taken.

MAX_KEY_LENGTH: Final = 256
"""Characters of a key; longer ones are refused, because keys are names in files and answers."""


def part_by_key(rows: Any, field: str) -> Iterator[tuple[str | None, Any, int]]:
    """Part rows by the value of ``field``: keys as they come first, their rows, and how many.

    The rows are an Arrow table of plain columns. Keys are read as the library reads categories: 3,
    3.0 and "3" are one key; rows without one that can be used share ``None``. The field is left out
    of the rows, as it would say the same in all rows of a key.

    >>> rows = pa.table({"tenant": ["b", "a", "b", None], "x": [1, 2, 3, 4]})
    >>> [(key, part["x"].to_pylist()) for key, part, _ in part_by_key(rows, "tenant")]
    [('b', [1, 3]), ('a', [2]), (None, [4])]
    """
    texts, codes = read_keys(rows, field)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-2))
    ends = np.append(starts[1:], len(order))
    rest = rows.select([name for name in rows.column_names if name != field])
    if len(starts) > 1 and rest.num_columns:  # Arrow takes no rows of a table without columns
        rest = rest.take(pa.array(order))
    for i in np.argsort(order[starts]).tolist():  # by the first row of each key
        code, n_rows = codes[order[starts[i]]], int(ends[i] - starts[i])
        yield texts[code] if code >= 0 else None, rest.slice(starts[i], n_rows), n_rows


def read_keys(rows: Any, field: str) -> tuple[list[str], NDArray[np.int64]]:
    """Return the distinct keys of rows, and which of them each has, -1 for none.

    No key are a missing value, an empty text or one of more than 256 characters, a list and a time.
    """
    if rows.schema.get_field_index(field) < 0:
        return [], np.full(len(rows), -1)
    array = one_array(plain_column(rows[field]))
    array = mixed_texts(array).cast("string") if is_mixed(array) else array
    if pa.types.is_temporal(array.type) or pa.types.is_null(array.type) or not is_plain(array.type):
        return [], np.full(len(rows), -1)
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    places = encoded.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
    found: dict[str, int] = {}
    texts = map(_key_text, encoded.dictionary.to_pylist())
    codes = [-1 if text is None else found.setdefault(text, len(found)) for text in texts]
    return list(found), np.array([*codes, -1])[places]


def _key_text(value: object) -> str | None:
    try:
        text = canonical_text(value)
    except (TypeError, ValueError, ArithmeticError):  # a time, a list, a number of 5000 digits
        return None
    return text if text not in ("", MISSING) and len(text) <= MAX_KEY_LENGTH else None


# Rows that are not taken, and those that lack a field.

MAX_KEPT: Final = 100
"""Rows that are set aside each by itself; those after them are set aside as one."""


def set_aside(
    rows: Rows, numbers: NDArray[np.intp], place: Place, reason: RejectReason, detail: str
) -> Iterator[Rejected]:
    if not len(numbers):
        return
    texts = _texts(picked(rows, numbers[:MAX_KEPT]))
    for number, text in zip(numbers.tolist(), texts, strict=False):
        yield Rejected(place(number, 0), reason, detail, text)
    n_more = len(numbers) - len(texts)
    if n_more > 0:
        more = f"{detail}; so it is with {n_more} records from here on"
        yield Rejected(place(int(numbers[len(texts)]), 0), reason, more, b"", n_more)


def picked(rows: Rows, numbers: NDArray[np.intp]) -> Rows:
    if isinstance(rows, EncodedTable):
        return EncodedTable(rows.schema, rows.codes[:, numbers])
    # Arrow takes no rows of a table without columns, which has no field at all.
    return rows.take(pa.array(numbers)) if rows.num_columns else rows.slice(0, len(numbers))


def _texts(rows: Rows) -> list[bytes]:
    """Return rows as JSON objects; none if one of them cannot be written."""
    try:
        texts = [json.dumps(row, ensure_ascii=False, default=str) for row in _records(rows)]
    except Exception:  # it must not cost more than the look at them
        logger.exception("records that are set aside cannot be shown")
        return []
    return [text.encode("utf-8", errors="replace")[:MAX_KEPT_BYTES] for text in texts]


def _records(rows: Rows) -> list[dict[str, Any]]:
    columns = _columns(rows)
    cells = zip(*columns.values(), strict=True) if columns else [()] * n_rows_of(rows)
    pairs = (zip(columns, row, strict=True) for row in cells)
    return [{name: value for name, value in row if value is not None} for row in pairs]


def _columns(rows: pa.Table | EncodedTable) -> dict[str, list[Any]]:
    if isinstance(rows, EncodedTable):
        named = ((variable, rows.column(variable.name)) for variable in rows.schema.variables)
        return {v.name: [v.labels[code] for code in codes.tolist()] for v, codes in named}
    return {name: _shown(rows[name]) for name in rows.column_names}


def _shown(column: Any) -> list[Any]:
    if is_mixed(column):
        return cells_of(one_array(column))
    # Arrow writes any time; Python has none after the year 9999. Of intervals it is the other way.
    temporal = pa.types.is_temporal(column.type) and not pa.types.is_interval(column.type)
    found: list[Any] = (column.cast("string") if temporal else column).to_pylist()
    return found


class RequiredFields(NamedTuple):
    """The fields without which a record cannot be taken; ``None`` where a stream has none."""

    time_column: str | None = None
    key: str | None = None

    def split(self, rows: Rows, place: Place) -> tuple[Rows, list[Rejected]]:
        """Return the rows that have these fields, and the others as records set aside.

        In a table event times then are seconds since the epoch.
        """
        if isinstance(rows, EncodedTable):  # a stream that requires a field has none of these
            return rows, []
        timed, name = rows, self.time_column
        bad = np.zeros(len(rows), np.bool_)
        rejected: list[Rejected] = []
        if name is not None:
            is_there = name in rows.column_names
            times = read_times(rows[name]) if is_there else np.full(len(rows), np.nan)
            if is_there:
                timed = rows.set_column(rows.column_names.index(name), name, pa.array(times))
            bad = ~np.isfinite(times)
            detail = f"no event time in the field {name!r}"
            rejected += set_aside(rows, np.flatnonzero(bad), place, RejectReason.NO_TIME, detail)
        if self.key is not None:
            lacking = (read_keys(rows, self.key)[1] < 0) & ~bad
            detail = f"no text or number of at most 256 characters in the key field {self.key!r}"
            rejected += set_aside(rows, np.flatnonzero(lacking), place, RejectReason.NO_KEY, detail)
            bad |= lacking
        return picked(timed, np.flatnonzero(~bad)) if rejected else timed, rejected
