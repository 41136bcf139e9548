"""Bytes of whole records to rows, with the bad ones set aside."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from driftbn.errors import FormatError
from driftbn.tables.encode import EncodedTable
from driftbn.tables.schema import Schema, Variable, VariableKind
from driftbn_service.records import sizes
from driftbn_service.records.columns import (
    check_schema,
    checked_table,
    flat_table,
    read_arrow,
    read_parquet,
)
from driftbn_service.records.formats import TableFormat
from driftbn_service.records.routing import RequiredFields
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

_VERSION: Final = 1
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

    ``kind`` is the format of chunks that do not name their own. A record of more than
    ``max_record_bytes`` (from 1; not for Parquet and Arrow) is set aside, and so is a record or a
    table of more than ``max_fields`` fields; ``max_decoded_bytes`` bounds what the buffers of
    Parquet and Arrow become. After ``max_rejected`` bad records, if it is given, the rest of a
    chunk is not looked at. ``state`` is what ``state`` returned for the last chunk that was worked
    through. With a ``time_column`` there is no straight way to codes. The value of the field
    ``key`` says to which monitor a record goes. ``scan`` is whether lines of JSON may go straight
    to codes: they may, unless the environment variable ``DRIFTBN_SCANNER`` is ``off``. Raises
    ``FormatError`` if the state is of another version.

    >>> from driftbn_service.sources.base import Chunk
    >>> decoder = Decoder(TableFormat.NDJSON, max_record_bytes=100)
    >>> lines = b'{"x": 1, "y": {"z": "a"}}\n{"x": 1, "x": 2}\n'
    >>> place = "line {}, byte {}".format
    >>> decoded = decoder.decode(Chunk("", lines, TableFormat.NDJSON, {}, place))
    >>> [table.to_pylist() for table in decoded.batches]
    [[{'x': 1, 'y.z': 'a'}]]
    >>> [(record.place, record.reason.value) for record in decoded.rejected]
    [('line 1, byte 26', 'duplicate_key')]
    """

    def __init__(  # noqa: PLR0913 - limits by their names in the settings
        self,
        kind: TableFormat | None,
        *,
        max_record_bytes: int,
        max_fields: int = MAX_FIELDS,
        max_decoded_bytes: int = MAX_TABLE_BYTES,
        max_rejected: int | None = None,
        state: Mapping[str, Any] | None = None,
        time_column: str | None = None,
        key: str | None = None,
        scan: bool | None = None,
    ) -> None:
        self.kind = kind
        self.limits = Limits(max_record_bytes, max_fields, max_decoded_bytes, max_rejected)
        self.time_column = time_column
        self._required = RequiredFields(time_column, key)
        if state is not None and state.get("version") != _VERSION:
            found = state.get("version")
            raise FormatError(f"decoder state version is {found!r}: it must be {_VERSION}")
        self._scans = time_column is None and (_scanner_is_on() if scan is None else scan)
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

    def state(self) -> dict[str, Any]:
        """Return what must be known to decode the chunks that follow, as JSON values.

        No record depends on those before it, so there is nothing but a version number.
        """
        return {"version": _VERSION}

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
            table = flat_table(chunk.data) if checked else checked_table(chunk.data, self.limits)
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
        kind = kind or self.kind
        if kind is None:
            raise Problem(RejectReason.BAD_TABLE, "bytes of which the format is not known")
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


def _scanner_is_on() -> bool:
    return os.environ.get("DRIFTBN_SCANNER", "on") != "off"


_Read = tuple[list[Rows], list[Rejected]]


def _set_aside(chunk: Undecoded, problem: Problem) -> Decoded:
    """Return a chunk that is set aside as a whole."""
    kept = chunk.data[:MAX_KEPT_BYTES] if isinstance(chunk.data, bytes) else b""
    n_records = 1 if isinstance(chunk.data, bytes) else max(1, chunk.data.num_rows)
    place, reason, detail = chunk.place(0, 0), problem.reason, problem.detail
    return Decoded((), 0, (Rejected(place, reason, detail, kept, n_records),))


def _piece_stop(data: bytes, start: int) -> int:
    """Return where a piece of whole lines ends."""
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
