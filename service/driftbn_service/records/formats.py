"""How records are written down: formats, compressions, and where in a text a record ends."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import PurePath
from typing import Any, Final

import numpy as np
import pyarrow as pa

from driftbn.errors import FormatError
from driftbn_service.records.scan_kernel import ITEMS, Items, cut_items

_GZIP_MAGIC: Final = b"\x1f\x8b"
PROBED_BYTES: Final = len(_GZIP_MAGIC)
"""How much of the start of a file ``suffix_and_codec`` looks at."""
_CODECS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_BLOCK_BYTES: Final = 1 << 12
"""Bytes that are decompressed at a time: so many before a damaged place are lost."""


class TableFormat(StrEnum):
    """How a table is written down."""

    CSV = "csv"
    """Comma-separated with a header; an unquoted empty cell or ``NA`` is missing."""
    NDJSON = "ndjson"
    """One JSON object a line."""
    JSON = "json"
    """An array of JSON objects; one object a line is read too."""
    PARQUET = "parquet"
    """Apache Parquet."""
    ARROW = "arrow"
    """Arrow IPC, as a file (Feather) or as a stream."""


SUFFIXES: Final = {
    ".csv": TableFormat.CSV,
    ".ndjson": TableFormat.NDJSON,
    ".jsonl": TableFormat.NDJSON,
    ".json": TableFormat.JSON,
    ".parquet": TableFormat.PARQUET,
    ".pq": TableFormat.PARQUET,
    ".arrow": TableFormat.ARROW,
    ".arrows": TableFormat.ARROW,
    ".feather": TableFormat.ARROW,
    ".ipc": TableFormat.ARROW,
}


def suffix_and_codec(path: str, start: bytes) -> tuple[str, str | None]:
    """Return what a file is by its name, and how it is compressed by its name or first bytes."""
    suffixes = [suffix.lower() for suffix in PurePath(path).suffixes]
    codec = _CODECS.get(suffixes[-1]) if suffixes else None
    if codec is not None:
        suffixes.pop()
    elif start.startswith(_GZIP_MAGIC):
        codec = "gzip"
    return suffixes[-1] if suffixes else "", codec


def form_of(path: str, start: bytes, kind: TableFormat | None, option: str) -> Form:
    """Return the format of a file, by its extension unless it is given, and its codec.

    ``start`` is what the file begins with; ``option`` is how a user gives the format, for the
    error. Raises ``FormatError`` if nothing tells the format.
    """
    suffix, codec = suffix_and_codec(path, start)
    kind = kind or SUFFIXES.get(suffix)
    if kind is None:
        told = f"the extension {suffix!r} tells no format" if suffix else "there is no extension"
        allowed = ", ".join(member.value for member in TableFormat)
        raise FormatError(f"{told}; set {option} to one of {allowed}")
    return kind, codec


Form = tuple[TableFormat, str | None]
"""A format, and the codec if it is compressed."""


def inflated(source: Any, codec: str) -> Iterator[bytes]:
    """Yield what compressed bytes become, some at a time.

    The source is a file of Arrow or Python, or bytes; a codec is, for example, ``zstd``. Raises
    ``OSError`` if the bytes break off or are something else.
    """
    raw = pa.BufferReader(source) if isinstance(source, bytes) else pa.PythonFile(source, mode="r")
    with pa.CompressedInputStream(raw, codec) as stream:
        while block := stream.read(_BLOCK_BYTES):
            yield block


# A text is cut into pieces of whole records, however it arrives.

CHUNK_BYTES: Final = 1 << 20
"""Bytes that are read at a time: enough that what each piece costs is little."""
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

# Whole records: a quote opens only where a field begins, so that a stray one does no harm.
_CSV_RECORDS: Final = re.compile(
    rb"""(?: [^"\n]*+
             (?: (?: (?<![^,\r\n]) " (?: [^"]++ | "" )*+ " | (?<=[^,\r\n]) " ) [^"\n]*+ )*+
             \n )*+""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Mark:
    """A place between two records of a text."""

    n_bytes: int = 0  # before it
    n_lines: int = 0  # before it
    crc: int = 0  # CRC-32 of the bytes before it; 0 where nobody asked for it

    def after(self, data: bytes, *, with_crc: bool) -> Mark:
        n_lines = data.count(b"\n")
        crc = zlib.crc32(data, self.crc) if with_crc else 0
        return Mark(self.n_bytes + len(data), self.n_lines + n_lines, crc)


START: Final = Mark()


@dataclass(frozen=True)
class Piece:
    """Records that follow each other in a text."""

    body: bytes = field(repr=False)  # the records, for an array one a line
    # What must stand before them: the first line of CSV with its line end, else nothing.
    header: bytes = field(repr=False)
    kind: TableFormat  # the format of header and body
    start: Mark  # where the records stand in the text
    end: Mark
    by_line: bool = True  # whether the lines of the body are those of the text

    @property
    def data(self) -> bytes:
        """The records as a text of their own."""
        return self.header + self.body if self.header else self.body

    def where(self, byte: int) -> str:
        """Say where a byte of the body stands in the text."""
        if self.by_line:
            n_lines = self.body.count(b"\n", 0, byte)
            return f"line {self.start.n_lines + n_lines + 1}"
        return f"byte {self.start.n_bytes + byte}"


class Lines:
    """Where records of a text begin and end: a line each, unless a subclass says otherwise."""

    kind = TableFormat.NDJSON
    header = b""
    by_line = True

    def prefix(self, text: bytes, *, ended: bool) -> int | None:
        """Return the bytes before the first record; ``None`` if that shows only later.

        Raises ``FormatError`` if the text cannot be of this kind.
        """
        if len(text) < len(BYTE_ORDER_MARK) and BYTE_ORDER_MARK.startswith(text) and not ended:
            return None
        return len(BYTE_ORDER_MARK) if text.startswith(BYTE_ORDER_MARK) else 0

    def whole(self, text: bytes, start: int, stop: int) -> int:
        """Return where the last record ends of those that lie between; ``start`` if none does."""
        return max(start, text.rfind(b"\n", start, stop) + 1)

    def last(self, text: bytes) -> int:
        """Return where the first record ends, of which nothing more will come."""
        return len(text)

    def skip(self, text: bytes, *, first: bool) -> int:
        """Return where a record that is too long ends; 0 if that is further on.

        Called with one part of the record after the other; ``first`` for the first of them.
        """
        return text.find(b"\n") + 1

    def lines(self, text: bytes) -> bytes:
        """Return records as they are handed on; must keep the length."""
        return text

    @property
    def problem(self) -> str | None:
        """What is wrong with the text as a whole, once all of its records were handed on."""
        return None


class CsvRecords(Lines):
    """Rows of CSV, in which a quoted field may contain line ends.

    A row that is longer than allowed is most likely one with a quote that never closes: reading
    goes on after its first line, so that it does not take all rows behind it with it. No header may
    be longer than ``max_record_bytes``. A text that begins anew with a known ``header`` has it once
    more.
    """

    kind = TableFormat.CSV

    def __init__(self, max_record_bytes: int, header: bytes = b"") -> None:
        self.header = header
        self._max_record_bytes = max_record_bytes

    def prefix(self, text: bytes, *, ended: bool) -> int | None:
        """Pass over the header, and remember it."""
        start = super().prefix(text, ended=ended)
        if start is None:
            return None
        start = len(text) - len(text[start:].lstrip(b"\r\n"))
        end = self._first(text, start) or (len(text) if ended else 0)
        if (end or len(text)) - start > self._max_record_bytes + 1:
            raise FormatError(
                f"the header is longer than max_record_bytes = {self._max_record_bytes}: is it CSV?"
            )
        if start == end or not end:
            return start if ended else None
        first = text[start:end].rstrip(b"\r\n") + b"\n"
        if self.header and first != self.header:
            return start
        self.header = first
        return end

    def whole(self, text: bytes, start: int, stop: int) -> int:
        """Look for the last line end that is in no quotes."""
        if text.find(b'"', start, stop) < 0:
            return super().whole(text, start, stop)
        match = _CSV_RECORDS.match(text, start, stop)
        return start if match is None else match.end()

    def last(self, text: bytes) -> int:
        """Take all, or the first line if its quotes never close."""
        closed = text + b"\n"
        if self.whole(closed, 0, len(closed)) == len(closed):
            return len(text)
        return self.skip(text, first=True) or len(text)

    def _first(self, text: bytes, start: int) -> int:
        """Return the end of the first row; 0 if it is further on."""
        end = text.find(b"\n", start) + 1
        while end and self.whole(text, start, end) != end:
            end = text.find(b"\n", end) + 1
        return end


class RecordCutter:
    """Cuts a text that arrives in parts of any size into pieces of whole records.

    Where it is cut does not depend on the parts: the same text gives the same records. A record
    longer than ``max_record_bytes`` is given by itself and only its first ``max_record_bytes + 1``
    bytes: enough to be refused, and no more is kept of it. The text begins at ``mark``, which is
    behind the header if it has ``begun``. ``with_crc`` gives marks a checksum.
    """

    def __init__(
        self,
        grammar: Lines,
        max_record_bytes: int,
        mark: Mark = START,
        *,
        begun: bool = False,
        with_crc: bool = False,
    ) -> None:
        self.grammar = grammar
        self.mark = mark
        self.begun = begun
        self._limit = max_record_bytes
        self._with_crc = with_crc
        self._text = b""
        self._rest = b""  # what came after the last line end: apart, so that lines are copied once
        self._long: Piece | None = None  # what is kept of a record that is too long

    @property
    def n_held(self) -> int:
        """How many bytes wait for the end of their record."""
        return len(self._text) + len(self._rest)

    def push(self, data: bytes) -> None:
        end = data.rfind(b"\n") + 1
        if end:
            self._text = b"".join((self._text, self._rest, memoryview(data)[:end]))
            self._rest = b""
        self._rest += data[end:]

    def take(self, *, ended: bool = False) -> Piece | None:
        """Return the next records, or ``None`` until more is pushed.

        ``ended`` says that nothing more will come. Raises ``FormatError`` if the text cannot be
        what it should be.
        """
        if not self.begun and not self._begin(ended=ended):
            return None
        if self._long is not None or not self.grammar.by_line:
            self._join()
        if self._long is not None:
            return self._pass_over(ended=ended)
        end = self._whole()
        if end:
            return self._cut(end)
        self._join()
        if len(self._text) > self._limit:
            # In one line: of a row that never closes its quotes the next ones follow once more.
            kept = self._text[: self._limit + 1].replace(b"\n", b" ")
            self._long = self._piece(kept, self.mark)
            return self._pass_over(ended=ended, first=True)
        if ended and self._text:
            return self._cut(self.grammar.last(self._text))
        if ended and self.grammar.problem is not None:
            raise FormatError(self.grammar.problem)
        return None

    def _join(self) -> None:
        """Put all together: there may be the end of a record without one of a line."""
        self._text, self._rest = self._text + self._rest, b""

    def _begin(self, *, ended: bool) -> bool:
        self._join()
        n_bytes = self.grammar.prefix(self._text, ended=ended)
        if n_bytes is not None:
            self.begun = True
            self._drop(n_bytes)
        return self.begun

    def _whole(self) -> int:
        """Return the end of the last whole record before one that is too long."""
        end, n_bytes = 0, len(self._text)
        while end < n_bytes:
            # No record in such a window can be too long, so none has to be looked at by itself.
            further = self.grammar.whole(self._text, end, min(n_bytes, end + self._limit + 1))
            if further == end:
                break
            end = further
        return end

    def _cut(self, end: int) -> Piece:
        start = self.mark
        return self._piece(self._drop(end), start)

    def _piece(self, text: bytes, start: Mark) -> Piece:
        grammar = self.grammar
        body = grammar.lines(text)
        return Piece(body, grammar.header, grammar.kind, start, self.mark, grammar.by_line)

    def _pass_over(self, *, ended: bool, first: bool = False) -> Piece | None:
        end = self.grammar.skip(self._text, first=first)
        self._drop(end or len(self._text))
        if self._long is None or not (end or ended):
            return None
        long, self._long = self._long, None
        return replace(long, end=self.mark)

    def _drop(self, n_bytes: int) -> bytes:
        dropped, self._text = self._text[:n_bytes], self._text[n_bytes:]
        self.mark = self.mark.after(dropped, with_crc=self._with_crc)
        return dropped


class JsonItems(Lines):
    """Items of an array, each handed on as a line; a text that begins otherwise has lines.

    What follows the end of the array is read as one more item, and refused as such unless it is
    blank. At most ``max_record_bytes`` of white space may stand before the array.
    """

    kind = TableFormat.NDJSON
    by_line = False

    def __init__(self, max_record_bytes: int) -> None:
        self._max_record_bytes = max_record_bytes
        self._skipping = ITEMS
        self._is_closed = self._is_open = False  # neither before an item was handed on
        self._items = ITEMS

    @property
    def problem(self) -> str | None:
        if self._items.n_blank:
            return "a comma without an item before or after it"
        return "the array does not end" if self._is_open else None

    def prefix(self, text: bytes, *, ended: bool) -> int | None:
        """Pass over the opening bracket, and see whether there is one."""
        start = super().prefix(text, ended=ended)
        if start is None:
            return None
        rest = text[start:].lstrip()
        if not rest and not ended and len(text) <= self._max_record_bytes:
            return None
        self.by_line = not rest.startswith(b"[")
        return start if self.by_line else len(text) - len(rest) + 1

    def whole(self, text: bytes, start: int, stop: int) -> int:
        """Look for the last comma or bracket between items."""
        if self.by_line:
            return super().whole(text, start, stop)
        array = np.frombuffer(text, np.uint8)[start:stop]
        _, last, _ = cut_items(array, array.copy(), ITEMS)
        return start + last

    def skip(self, text: bytes, *, first: bool) -> int:
        if self.by_line:
            return super().skip(text, first=first)
        array = np.frombuffer(text, np.uint8)
        begun = ITEMS if first else self._skipping
        end, _, self._skipping = cut_items(array, array.copy(), begun)
        if end and not self._is_closed:
            self._is_closed = text[end - 1 : end] == b"]"
            self._is_open = not self._is_closed
            self._items = self._items._replace(n_items=self._items.n_items + 1)
        return end

    def lines(self, text: bytes) -> bytes:
        """Write a line end for each comma or bracket between items, and none elsewhere."""
        if self.by_line:
            return text
        array = np.frombuffer(text, np.uint8)
        lines, start, is_over = array.copy(), 0, True
        while is_over and start < len(text):  # what follows an array is read as one more
            before = ITEMS if self._is_closed else self._items
            _, last, items = cut_items(array[start:], lines[start:], before)
            if not self._is_closed:
                self._note(items, is_blank=not text[start:].strip())
            start, is_over = start + last, items.depth == 0
        return lines.tobytes()

    def _note(self, items: Items, *, is_blank: bool) -> None:
        """Remember how far the array was read, up to its end."""
        self._is_closed = items.depth == 0
        self._is_open = items.depth == 1 and not items.in_text and (self._is_open or not is_blank)
        self._items = ITEMS._replace(n_items=items.n_items, n_blank=items.n_blank)
