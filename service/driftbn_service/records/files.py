"""The bytes of a file from its start or a place in it, decompressed in bounded pieces."""

from __future__ import annotations

import io
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

import pyarrow as pa

from driftbn.errors import FormatError
from driftbn_service.records.columns import UNREADABLE, group_sizes, open_parquet
from driftbn_service.records.cutting import (
    CHUNK_BYTES,
    START,
    CsvRecords,
    Grammar,
    JsonItems,
    Lines,
    Mark,
    RecordCutter,
)
from driftbn_service.records.formats import TableFormat
from driftbn_service.records.sizes import (
    FILE_HEAD_BYTES,
    MAGIC,
    Footer,
    Pages,
    read_footer,
    read_messages,
    stream_end,
)

_GZIP_WINDOW: Final = 31  # zlib's number for the gzip format with the largest window
_ARROW_BYTES: Final = 1 << 16
"""Bytes that are decompressed at a time where the codec forgets what came before an error."""


class ByteReader(Protocol):
    """Bytes that may become more while they are read."""

    @property
    def n_raw(self) -> int:
        """How many bytes of the file were used so far."""

    @property
    def complete(self) -> bool:
        """Whether the bytes may end here."""

    def read(self) -> bytes:
        """Return what comes next, at most about ``CHUNK_BYTES``; nothing if no more is there.

        Raises
        ------
        FormatError
            If the file is damaged.
        """


class PlainBytes:
    """A file as it is.

    Parameters
    ----------
    descriptor
        The open file. Its own place is neither used nor moved.
    start
        Where to begin.
    stop
        Where to end, if it is not the end of the file.
    """

    complete = True

    def __init__(self, descriptor: int, start: int = 0, stop: int = sys.maxsize) -> None:
        self.n_raw = start
        self._descriptor = descriptor
        self._stop = stop

    def read(self) -> bytes:
        """Return what comes next."""
        size = min(CHUNK_BYTES, self._stop - self.n_raw)
        data = os.pread(self._descriptor, size, self.n_raw)
        self.n_raw += len(data)
        return data


class GzipBytes:
    """A gzip file of one or several members, which may still grow.

    Parameters
    ----------
    descriptor
        The open file.
    """

    def __init__(self, descriptor: int) -> None:
        self._raw = PlainBytes(descriptor)
        self._waiting = b""
        self._member: Any = None  # a zlib decompressor, whose type has no name
        self._has_more = False

    @property
    def n_raw(self) -> int:
        """How many bytes of the file were used so far."""
        return self._raw.n_raw - len(self._waiting)

    @property
    def complete(self) -> bool:
        """Whether a member has just ended."""
        return self._member is None and not self._waiting

    def read(self) -> bytes:
        """Return what comes next."""
        while self._has_more or self._waiting or self._refill():
            if self._member is None:
                self._waiting = self._waiting.lstrip(b"\0")  # padding after a member is allowed
                if self._waiting:
                    self._member = zlib.decompressobj(_GZIP_WINDOW)
                continue
            data = self._inflated()
            if data:
                return data
        return b""

    def _refill(self) -> bool:
        self._waiting = self._raw.read()
        return bool(self._waiting)

    def _inflated(self) -> bytes:
        member = self._member
        try:
            data: bytes = member.decompress(self._waiting, CHUNK_BYTES)
        except zlib.error as error:
            raise FormatError(f"the gzip data are damaged: {error}") from error
        self._waiting, self._has_more = member.unconsumed_tail, len(data) == CHUNK_BYTES
        if member.eof:
            self._waiting, self._has_more, self._member = member.unused_data, False, None
        return data


class CodecBytes:
    """A file in a codec of Arrow, which does not go on after it has met the end of the file.

    When the file has grown, it is decompressed from its start once more.

    Parameters
    ----------
    descriptor
        The open file. Its place is moved.
    codec
        Such as ``zstd``.
    """

    def __init__(self, descriptor: int, codec: str) -> None:
        self.complete = True
        self._descriptor = descriptor
        self._codec = codec
        self._n_given = 0
        self._size = -1  # of the file when its end was met
        self._file: io.FileIO | None = None
        self._stream: Any = None

    @property
    def n_raw(self) -> int:
        """How many bytes of the file were used so far, or a little more."""
        return max(self._size, 0) if self._file is None else self._file.tell()

    def read(self) -> bytes:
        """Return what comes next."""
        if self._stream is None:
            size = os.fstat(self._descriptor).st_size
            if size == self._size:
                return b""
            self._size = size
            self._reopen()
        parts: list[bytes] = []
        while self._stream is not None and len(parts) * _ARROW_BYTES < CHUNK_BYTES:
            parts.append(self._next())
            self._n_given += len(parts[-1])
        return b"".join(parts)

    def _next(self) -> bytes:
        data = self._piece(_ARROW_BYTES)
        if data is None:  # the error has taken with it what came before it
            self._reopen()
            data = b"".join(iter(lambda: self._piece(1) or b"", b""))
            self._shut(complete=False)
        elif not data:
            self._shut(complete=True)
        return data

    def _reopen(self) -> None:
        self._file = io.FileIO(self._descriptor, "rb", closefd=False)
        self._file.seek(0)
        self._stream = pa.CompressedInputStream(pa.PythonFile(self._file, mode="r"), self._codec)
        n_left = self._n_given
        while n_left:
            data = self._piece(min(n_left, _ARROW_BYTES))
            if not data:
                raise FormatError(f"the {self._codec} data are not the ones read before")
            n_left -= len(data)

    def _shut(self, *, complete: bool) -> None:
        self._file = self._stream = None
        self.complete = complete

    def _piece(self, n_bytes: int) -> bytes | None:
        """Return the next bytes, nothing at the end, ``None`` where the file breaks off."""
        try:
            data: bytes = self._stream.read(n_bytes)
        except OSError:
            return None
        return data


def open_bytes(descriptor: int, codec: str | None) -> ByteReader:
    """Return the bytes of an open file from their start, decompressed."""
    if codec is None:
        return PlainBytes(descriptor)
    return GzipBytes(descriptor) if codec == "gzip" else CodecBytes(descriptor, codec)


# One open file read piece by piece: lines, rows of CSV, items of an array, rows of a table.

ROWS: Final = 32_768
"""Rows of a table that are given at a time, unless they are wide."""
_TABLE_BYTES: Final = 16 << 20
MAX_MEMORY_BYTES: Final = 256 << 20
"""What a message of Arrow or the pages of a row group may become: both are read as a whole."""
_FOOTER_BYTES: Final = 8 << 20
"""The largest footer of a Parquet file."""


class IncompleteError(FormatError):
    """A file breaks off: somebody may still be writing it."""


@dataclass(frozen=True)
class Part:
    """Records of a file that follow each other.

    Parameters
    ----------
    data, kind
        As in a chunk.
    mark
        Where the file goes on: bytes and lines of a text, rows of a table as ``n_bytes``.
    where
        Says where in the file a record stands, as in a chunk.
    """

    data: bytes | pa.Table = field(repr=False)
    kind: TableFormat | None
    mark: Mark
    where: Callable[[int, int], str] = field(repr=False)


class FileReader(Protocol):
    """An open file; the descriptor belongs to whoever opened it."""

    @property
    def grows(self) -> bool:
        """Whether more may be appended to such a file."""

    @property
    def is_exact(self) -> bool:
        """Whether all is given once all bytes of the file are used."""

    @property
    def n_raw(self) -> int:
        """How many bytes of the file were used so far, about."""

    def read(self, *, ended: bool) -> Part | None:
        """Return what comes next; ``None`` if no more is there.

        Parameters
        ----------
        ended
            Whether the file will not grow: what is left at its end is then a record.

        Raises
        ------
        IncompleteError
            If the file breaks off; once it has grown, one may go on.
        FormatError
            If it is damaged or something else.
        """


class TextReader:
    """Lines, rows of CSV or items of an array.

    Parameters
    ----------
    descriptor
        The open file.
    kind, codec
        Its format and how it is compressed.
    max_record_bytes
        Longer records are cut off.
    mark
        Where to go on.
    """

    grows = True

    def __init__(
        self,
        descriptor: int,
        kind: TableFormat,
        codec: str | None,
        max_record_bytes: int,
        mark: Mark = START,
    ) -> None:
        grammar = _grammar(kind, max_record_bytes)
        if mark.n_bytes:
            _see_start(grammar, open_bytes(descriptor, codec))
        is_plain = codec is None
        self.is_exact = is_plain
        self._bytes = (
            PlainBytes(descriptor, mark.n_bytes) if is_plain else open_bytes(descriptor, codec)
        )
        self._n_to_skip = 0 if is_plain else mark.n_bytes
        self._cutter = RecordCutter(grammar, max_record_bytes, mark, begun=mark.n_bytes > 0)

    @property
    def n_raw(self) -> int:
        """How many bytes of the file were used so far, less those that wait for their line end."""
        n_raw = self._bytes.n_raw
        return n_raw - self._cutter.n_held if self.is_exact else n_raw

    def read(self, *, ended: bool) -> Part | None:
        """Return what comes next."""
        piece = self._cutter.take()
        while piece is None and self._fill():
            piece = self._cutter.take()
        if piece is None and ended:
            if not self._bytes.complete:
                raise IncompleteError("the compressed data break off before their end")
            piece = self._cutter.take(ended=True)
        if piece is None:
            return None
        where = piece.where
        return Part(piece.data, piece.kind, piece.end, lambda _, byte: where(byte))

    def _fill(self) -> bool:
        data = self._bytes.read()
        n_old = min(self._n_to_skip, len(data))
        self._n_to_skip -= n_old
        self._cutter.push(data[n_old:])
        return bool(data)


class TableReader:
    """Rows of Parquet or Arrow IPC.

    Parameters
    ----------
    descriptor
        The open file. Its place is moved.
    kind, codec
        Its format and how it is compressed.
    mark
        Where to go on; ``n_bytes`` counts rows.
    """

    is_exact = False

    def __init__(
        self, descriptor: int, kind: TableFormat, codec: str | None, mark: Mark = START
    ) -> None:
        self._bytes = open_bytes(descriptor, codec)
        self._file = io.FileIO(descriptor, "rb", closefd=False)
        self._n_rows = mark.n_bytes
        self._share = 0.0
        is_stream = kind is TableFormat.ARROW and (
            codec is not None or os.pread(descriptor, len(MAGIC), 0) != MAGIC
        )
        self.grows = is_stream
        if is_stream:
            self._tables = self._stream_tables()
        elif codec is not None:
            raise FormatError(
                "a Parquet file that is compressed as a whole cannot be read piece by piece; "
                "decompress it (Parquet compresses its columns itself)"
            )
        else:
            parquet = kind is TableFormat.PARQUET
            self._tables = self._parquet_tables() if parquet else self._file_tables()

    @property
    def n_raw(self) -> int:
        """How many bytes of the file belong to the rows read so far, about."""
        return int(self._share * self._size)

    def read(self, *, ended: bool) -> Part | None:
        """Return what comes next."""
        table = next(self._tables, None)
        if table is None:
            return None
        first = self._n_rows + 1
        self._n_rows += table.num_rows
        return Part(table, None, Mark(self._n_rows), lambda row, _: f"row {first + row}")

    def _parquet_tables(self) -> Iterator[pa.Table]:
        read_at = partial(_read_at, self._file.fileno())
        with _incomplete("no Parquet file, or not yet whole"):
            footer = read_footer(read_at, self._size, _FOOTER_BYTES)
            file = open_parquet(pa.PythonFile(self._file, mode="r"), footer)
        first, n_skipped = _from_row(footer, self._n_rows)
        n_read, n_rows = self._n_rows - n_skipped, max(1, footer.n_rows)
        with _damaged("Parquet"):
            for i in range(first, len(footer.groups)):
                n_at_a_time = _rows_at_a_time(file, footer, i, Pages(read_at))
                for batch in file.iter_batches(n_at_a_time, row_groups=[i]):
                    n_read += batch.num_rows
                    self._share = n_read / n_rows
                    yield from _after(pa.Table.from_batches([batch]), n_skipped)
                    n_skipped = max(0, n_skipped - batch.num_rows)

    def _file_tables(self) -> Iterator[pa.Table]:
        """Yield the rows of the stream that an Arrow file has between its head and its footer."""
        descriptor, size = self._file.fileno(), self._size
        end = stream_end(_read_at(descriptor, max(0, size - 16), 16), size)
        if end is None:
            raise IncompleteError("no Arrow file, or not yet whole")
        self._bytes = PlainBytes(descriptor, FILE_HEAD_BYTES, end)
        with _damaged("Arrow"):
            yield from self._batches()

    def _stream_tables(self) -> Iterator[pa.Table]:
        with _incomplete("no Arrow stream, or not yet whole"):
            yield from self._batches()

    def _batches(self) -> Iterator[pa.Table]:
        n_skipped = self._n_rows
        size = max(1, self._size)
        messages = _MessageStream(io.BufferedReader(_RawStream(self._bytes)).read)
        for batch in pa.ipc.open_stream(pa.PythonFile(messages, mode="r")):
            self._share = min(1.0, self._bytes.n_raw / size)
            yield from _after(pa.Table.from_batches([batch]), n_skipped)
            n_skipped = max(0, n_skipped - batch.num_rows)

    @property
    def _size(self) -> int:
        return os.fstat(self._file.fileno()).st_size


class _MessageStream(io.RawIOBase):
    """An Arrow stream as a file of Python, of which each message is looked at before it is given.

    Parameters
    ----------
    read
        Returns the next so many bytes of the stream, or fewer at its end.
    """

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._messages = read_messages(read, MAX_MEMORY_BYTES)
        self._waiting = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._waiting = self._waiting or self._next()
        n_bytes = min(len(buffer), len(self._waiting))
        buffer[:n_bytes] = self._waiting[:n_bytes]
        self._waiting = self._waiting[n_bytes:]
        return n_bytes

    def _next(self) -> memoryview:
        try:
            message = next(self._messages, None)
        except ValueError as error:
            raise FormatError(f"no Arrow stream, or a damaged one ({error})") from error
        if message is None:
            return memoryview(b"")
        _check_memory("an Arrow message", max(message.n_bytes, message.n_cells))
        return memoryview(message.data)


class _RawStream(io.RawIOBase):
    """Bytes of a reader as a file of Python."""

    def __init__(self, source: ByteReader) -> None:
        self._source = source
        self._waiting = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._waiting = self._waiting or self._source.read()
        n_bytes = min(len(buffer), len(self._waiting))
        buffer[:n_bytes] = self._waiting[:n_bytes]
        self._waiting = self._waiting[n_bytes:]
        return n_bytes


def open_reader(
    descriptor: int, form: tuple[TableFormat, str | None], max_record_bytes: int, mark: Mark
) -> FileReader:
    """Return a reader of an open file from a mark on.

    Parameters
    ----------
    descriptor
        The open file; the caller closes it.
    form
        The format, and the codec if the file is compressed.
    max_record_bytes
        Longer records of a text are cut off.
    mark
        Where to go on.

    Raises
    ------
    FormatError
        If such a file cannot be read.
    """
    kind, codec = form
    if kind in (TableFormat.PARQUET, TableFormat.ARROW):
        return TableReader(descriptor, kind, codec, mark)
    return TextReader(descriptor, kind, codec, max_record_bytes, mark)


def _grammar(kind: TableFormat, max_record_bytes: int) -> Grammar:
    if kind is TableFormat.CSV:
        return CsvRecords(max_record_bytes)
    return JsonItems(max_record_bytes) if kind is TableFormat.JSON else Lines()


def _see_start(grammar: Grammar, source: ByteReader) -> None:
    """Let a grammar see the start of a text, where the header stands."""
    text = data = source.read()
    while grammar.prefix(text, ended=not data) is None and data:
        data = source.read()
        text += data


def _read_at(descriptor: int, start: int, size: int) -> bytes:
    return os.pread(descriptor, size, start)


def _from_row(footer: Footer, n_rows: int) -> tuple[int, int]:
    """Return the first row group in which rows are left, and how many rows of it are not."""
    for number, group in enumerate(footer.groups):
        if n_rows < group.n_rows:
            return number, n_rows
        n_rows -= group.n_rows
    return len(footer.groups), 0


def _rows_at_a_time(file: Any, footer: Footer, number: int, pages: Pages) -> int:
    """Return how many rows of a row group fit into memory, by what its pages become."""
    group = footer.groups[number]
    sizes = group_sizes(file, footer, group, pages)
    _check_memory("the pages of a row group", sizes.page_bytes)
    return min(_rows_of(group.n_rows, sizes.n_bytes), _rows_of(1, sizes.row_bytes))


def _check_memory(what: str, n_bytes: int) -> None:
    if n_bytes > MAX_MEMORY_BYTES:
        raise FormatError(
            f"{what} would take {n_bytes} bytes of memory, where {MAX_MEMORY_BYTES} are allowed:"
            " write fewer rows at a time"
        )


def _rows_of(n_rows: int, n_bytes: int) -> int:
    return max(1, min(ROWS, _TABLE_BYTES * n_rows // max(1, n_bytes)))


def _after(table: pa.Table, n_skipped: int) -> Iterator[pa.Table]:
    """Yield a table in slices, without its first rows."""
    table.validate()  # or the next look at bytes from outside may end the process
    n_rows = _rows_of(table.num_rows, table.nbytes)
    for start in range(n_skipped, table.num_rows, n_rows):
        yield table.slice(start, n_rows)


@contextmanager
def _incomplete(problem: str) -> Iterator[None]:
    try:
        yield
    except FormatError:
        raise
    except UNREADABLE as error:
        raise IncompleteError(f"{problem} ({error})") from error


@contextmanager
def _damaged(what: str) -> Iterator[None]:
    try:
        yield
    except FormatError:
        raise
    except UNREADABLE as error:
        raise FormatError(f"the {what} data are damaged ({error})") from error
