"""Files read piece by piece: lines, rows of CSV, items of an array, rows of a table."""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Self

import pyarrow as pa

from driftbn.errors import DataError, FormatError
from driftbn.tables.encode import EncodedTable
from driftbn_service.errors import blamed_on
from driftbn_service.records.columns import UNREADABLE, group_sizes, open_parquet
from driftbn_service.records.decoder import Decoder
from driftbn_service.records.formats import (
    CHUNK_BYTES,
    START,
    CsvRecords,
    Form,
    JsonItems,
    Lines,
    Mark,
    RecordCutter,
    TableFormat,
    form_of,
    inflated,
)
from driftbn_service.records.rows import Decoded, RejectReason, Undecoded
from driftbn_service.records.sizes import (
    FILE_HEAD_BYTES,
    MAGIC,
    Footer,
    Pages,
    read_footer,
    read_messages,
    stream_end,
)

ROWS: Final = 32_768
"""Rows of a table that are given at a time, unless they are wide."""
MAX_MEMORY_BYTES: Final = 256 << 20
"""What a message of Arrow or the pages of a row group may become: both are read as a whole."""
_TABLE_BYTES: Final = 16 << 20
_FOOTER_BYTES: Final = 8 << 20
"""The largest footer of a Parquet file."""


class IncompleteError(FormatError):
    """A file breaks off: somebody may still be writing it."""


# Three ways to read bytes, at most about ``CHUNK_BYTES`` at a time and none if no more is there;
# ``n_raw`` says how many of the file were used so far.


class PlainBytes:
    """A file as it is, which may become more while it is read.

    The place of the open file itself is neither used nor moved.
    """

    def __init__(self, descriptor: int, start: int = 0, stop: int = sys.maxsize) -> None:
        self.n_raw = start
        self._descriptor = descriptor
        self._stop = stop

    def read(self) -> bytes:
        size = min(CHUNK_BYTES, self._stop - self.n_raw)
        data = os.pread(self._descriptor, size, self.n_raw)
        self.n_raw += len(data)
        return data


class InflatedBytes:
    """A compressed file, which must be whole. The place of the open file is moved."""

    def __init__(self, descriptor: int, codec: str) -> None:
        self.n_raw = 0
        self._codec = codec
        self._file = io.FileIO(descriptor, "rb", closefd=False)
        self._file.seek(0)
        self._blocks = inflated(self._file, codec)
        self._problem: FormatError | None = None

    def read(self) -> bytes:
        """Return what comes next; what stands right before a damaged place may be lost.

        Raises ``FormatError`` if the file is damaged or breaks off.
        """
        blocks: list[bytes] = []
        try:
            while sum(map(len, blocks)) < CHUNK_BYTES and (block := next(self._blocks, b"")):
                blocks.append(block)
                self.n_raw = self._file.tell()
        except OSError as error:
            self._problem = _broken_off(self._codec, error)
        if self._problem is not None and not blocks:
            raise self._problem
        return b"".join(blocks)


def _broken_off(codec: str, error: OSError) -> FormatError:
    if "Truncated" not in str(error):
        return FormatError(f"the {codec} data are damaged: {error}")
    return IncompleteError(
        f"the {codec} data break off before their end: a compressed file is read when it is whole"
    )


class StreamBytes:
    def __init__(self, stream: io.BufferedReader) -> None:
        self.n_raw = 0
        self._stream = stream

    def read(self) -> bytes:
        data = self._stream.read1(CHUNK_BYTES)
        self.n_raw += len(data)
        return data


ByteReader = PlainBytes | InflatedBytes | StreamBytes


def _open_bytes(descriptor: int, codec: str | None, start: int = 0) -> ByteReader:
    """Return the bytes of an open file, decompressed; what is not, from a place on."""
    return PlainBytes(descriptor, start) if codec is None else InflatedBytes(descriptor, codec)


@dataclass(frozen=True, kw_only=True)
class Part(Undecoded):
    mark: Mark  # where the file goes on: bytes and lines of a text, rows of a table as ``n_bytes``


class TextReader:
    """Lines, rows of CSV or items of an array.

    The source begins ``n_to_skip`` bytes before ``mark``. Records longer than ``max_record_bytes``
    are cut off. ``grows`` says whether more may be appended, and all is given once all bytes of the
    file are used: it ``is_exact``.
    """

    def __init__(  # noqa: PLR0913
        self,
        source: ByteReader,
        grammar: Lines,
        max_record_bytes: int,
        mark: Mark = START,
        *,
        n_to_skip: int = 0,
        grows: bool = False,
    ) -> None:
        self.grows = self.is_exact = grows
        self._bytes = source
        self._n_to_skip = n_to_skip
        self._cutter = RecordCutter(grammar, max_record_bytes, mark, begun=mark.n_bytes > 0)

    @property
    def n_raw(self) -> int:
        """How many bytes of the file were used so far, less those that wait for their line end."""
        n_raw = self._bytes.n_raw
        return n_raw - self._cutter.n_held if self.is_exact else n_raw

    def read(self, *, ended: bool) -> Part | None:
        """Return what comes next; ``None`` if no more is there.

        ``ended`` says that the file will not grow: what is left at its end is then a record. Raises
        ``FormatError`` if it is damaged or something else.
        """
        piece = self._cutter.take()
        while piece is None and self._fill():
            piece = self._cutter.take()
        if piece is None and (ended or not self.grows):
            piece = self._cutter.take(ended=True)
        if piece is None:
            return None
        where = piece.where
        return Part(piece.data, piece.kind, lambda _, byte: where(byte), mark=piece.end)

    def _fill(self) -> bool:
        data = self._bytes.read()
        n_old = min(self._n_to_skip, len(data))
        self._n_to_skip -= n_old
        self._cutter.push(data[n_old:])
        return bool(data)


class TableReader:
    """Rows of Parquet or Arrow IPC.

    The place of the open file is moved; ``n_bytes`` of the mark counts rows. What is read as a
    whole may take ``max_bytes`` of memory, ``MAX_MEMORY_BYTES`` unless given.
    """

    is_exact = False

    def __init__(
        self,
        descriptor: int,
        form: Form,
        mark: Mark = START,
        max_bytes: int | None = None,
    ) -> None:
        kind, codec = form
        self._max_bytes = MAX_MEMORY_BYTES if max_bytes is None else max_bytes
        self._bytes = _open_bytes(descriptor, codec)
        self._file = io.FileIO(descriptor, "rb", closefd=False)
        self._n_rows = mark.n_bytes
        self._share = 0.0
        is_stream = kind is TableFormat.ARROW and (
            codec is not None or os.pread(descriptor, len(MAGIC), 0) != MAGIC
        )
        self.grows = is_stream and codec is None
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
        """Return what comes next; ``None`` if no more is there.

        Raises ``IncompleteError`` if the file breaks off; once it has grown, another reader may go
        on. Raises ``FormatError`` if it is damaged or something else.
        """
        table = next(self._tables, None)
        if table is None:
            return None
        first = self._n_rows + 1
        self._n_rows += table.num_rows
        mark = Mark(self._n_rows)
        return Part(table, None, lambda row, _: f"row {first + row}", mark=mark)

    def _parquet_tables(self) -> Iterator[pa.Table]:
        descriptor = self._file.fileno()

        def read_at(start: int, size: int) -> bytes:
            return os.pread(descriptor, size, start)

        with _raising(IncompleteError, "no Parquet file, or not yet whole"):
            footer = read_footer(read_at, self._size, _FOOTER_BYTES)
            file = open_parquet(pa.PythonFile(self._file, mode="r"), footer)
        first, n_skipped = _from_row(footer, self._n_rows)
        n_read, n_rows = self._n_rows - n_skipped, max(1, footer.n_rows)
        with _raising(FormatError, "the Parquet data are damaged"):
            for i in range(first, len(footer.groups)):
                n_at_a_time = self._rows_at_a_time(file, footer, i, Pages(read_at))
                for batch in file.iter_batches(n_at_a_time, row_groups=[i]):
                    n_read += batch.num_rows
                    self._share = n_read / n_rows
                    yield from _after(pa.Table.from_batches([batch]), n_skipped)
                    n_skipped = max(0, n_skipped - batch.num_rows)

    def _file_tables(self) -> Iterator[pa.Table]:
        """Yield the rows of the stream that an Arrow file has between its head and its footer."""
        descriptor, size = self._file.fileno(), self._size
        end = stream_end(os.pread(descriptor, 16, max(0, size - 16)), size)
        if end is None:
            raise IncompleteError("no Arrow file, or not yet whole")
        self._bytes = PlainBytes(descriptor, FILE_HEAD_BYTES, end)
        with _raising(FormatError, "the Arrow data are damaged"):
            yield from self._batches()

    def _stream_tables(self) -> Iterator[pa.Table]:
        with _raising(IncompleteError, "no Arrow stream, or not yet whole"):
            yield from self._batches()

    def _batches(self) -> Iterator[pa.Table]:
        n_skipped = self._n_rows
        size = max(1, self._size)
        read = io.BufferedReader(_Pulled(self._bytes.read)).read
        messages = _checked_messages(read, self._max_bytes)
        stream = _Pulled(lambda: next(messages, b""))
        for batch in pa.ipc.open_stream(pa.PythonFile(stream, mode="r")):
            self._share = min(1.0, self._bytes.n_raw / size)
            yield from _after(pa.Table.from_batches([batch]), n_skipped)
            n_skipped = max(0, n_skipped - batch.num_rows)

    def _rows_at_a_time(self, file: Any, footer: Footer, number: int, pages: Pages) -> int:
        """Return how many rows of a row group fit into memory, by what its pages become."""
        group = footer.groups[number]
        sizes = group_sizes(file.schema_arrow, footer, group, pages)
        _check_memory("the pages of a row group", sizes.page_bytes, self._max_bytes)
        return min(_rows_of(group.n_rows, sizes.n_bytes), _rows_of(1, sizes.row_bytes))

    @property
    def _size(self) -> int:
        return os.fstat(self._file.fileno()).st_size


FileReader = TextReader | TableReader
"""Reads an open file; the descriptor belongs to whoever opened it."""


class _Pulled(io.RawIOBase):
    """Bytes as a file of Python: ``pull`` returns those that come next, or none at the end."""

    def __init__(self, pull: Callable[[], bytes]) -> None:
        self._pull = pull
        self._waiting = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._waiting = self._waiting or memoryview(self._pull())
        n_bytes = min(len(buffer), len(self._waiting))
        buffer[:n_bytes] = self._waiting[:n_bytes]
        self._waiting = self._waiting[n_bytes:]
        return n_bytes


def _checked_messages(read: Callable[[int], bytes], max_bytes: int) -> Iterator[bytes]:
    """Yield the messages of an Arrow stream; each is looked at first, and may become so much."""
    messages = read_messages(read, max_bytes)
    while True:
        try:
            message = next(messages, None)
        except ValueError as error:
            raise FormatError(f"no Arrow stream, or a damaged one ({error})") from error
        if message is None:
            return
        _check_memory("an Arrow message", max(message.n_bytes, message.n_cells), max_bytes)
        yield message.data


def open_reader(
    descriptor: int,
    form: Form,
    max_record_bytes: int,
    mark: Mark = START,
    max_bytes: int | None = None,
) -> FileReader:
    """Return a reader of an open file from a mark on.

    The caller closes the file. Records of a text longer than ``max_record_bytes`` are cut off. What
    must be read of a table as a whole may take ``max_bytes`` of memory, ``MAX_MEMORY_BYTES`` unless
    given. Raises ``FormatError`` if such a file cannot be read.
    """
    kind, codec = form
    if kind not in TEXTS:
        return TableReader(descriptor, form, mark, max_bytes)
    grammar = grammar_of(kind, max_record_bytes)
    if mark.n_bytes:
        _see_start(grammar, _open_bytes(descriptor, codec))
    source = _open_bytes(descriptor, codec, mark.n_bytes)
    n_to_skip = 0 if codec is None else mark.n_bytes
    return TextReader(
        source, grammar, max_record_bytes, mark, n_to_skip=n_to_skip, grows=codec is None
    )


TEXTS: Final = (TableFormat.NDJSON, TableFormat.JSON, TableFormat.CSV)
"""Formats that are cut into records."""


def grammar_of(kind: TableFormat, max_record_bytes: int) -> Lines:
    if kind is TableFormat.CSV:
        return CsvRecords(max_record_bytes)
    return JsonItems(max_record_bytes) if kind is TableFormat.JSON else Lines()


def _see_start(grammar: Lines, source: ByteReader) -> None:
    """Let a grammar see the start of a text, where the header stands."""
    text = data = source.read()
    while grammar.prefix(text, ended=not data) is None and data:
        data = source.read()
        text += data


def _from_row(footer: Footer, n_rows: int) -> tuple[int, int]:
    """Return the first row group in which rows are left, and how many rows of it are not."""
    for number, group in enumerate(footer.groups):
        if n_rows < group.n_rows:
            return number, n_rows
        n_rows -= group.n_rows
    return len(footer.groups), 0


def _check_memory(what: str, n_bytes: int, max_bytes: int) -> None:
    if n_bytes > max_bytes:
        raise FormatError(
            f"{what} would take {n_bytes} bytes of memory, where {max_bytes} are allowed:"
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
def _raising(kind: type[FormatError], problem: str) -> Iterator[None]:
    try:
        yield
    except FormatError:
        raise
    except UNREADABLE as error:
        raise kind(f"{problem} ({error})") from error


# What commands are given, a file or standard input, by the readers and the decoder of the daemon.

STDIN: Final = "-"
"""The path that means standard input."""
DEFAULT_ROWS: Final = 10_000
"""Rows of a batch unless the user says otherwise: enough that what each batch costs is little."""
_MAX_RECORD_BYTES, _MAX_FIELDS, _MAX_BYTES = 1 << 26, 1 << 16, 1 << 40
"""Limits far above those of the daemon: the file is the user's own."""


@dataclass(frozen=True)
class Batch:
    data: pa.Table = field(repr=False)
    first_row: int  # number of the first of them in the input, from 0
    # How much of the input has been read, about, from 0 to 1; ``None`` if that is not known.
    share: float | None = None
    n_unread: int = 0  # records before them that cannot be read, since the last batch


class Input:
    """A file or standard input; to be used as a context.

    The file may be compressed; ``-`` is standard input. Without ``kind`` the extension tells the
    format. ``name`` is the path as given, or ``standard input``. Raises ``InputError`` if it cannot
    be opened.
    """

    def __init__(self, path: str, kind: TableFormat | None = None) -> None:
        self.name = "standard input" if path == STDIN else path
        self._path, self._kind = path, kind
        self._open = ExitStack()
        with blamed_on(self.name):
            file: Any = sys.stdin.buffer if path == STDIN else self._open.enter_context(_file(path))
            self._file = file if hasattr(file, "peek") else io.BufferedReader(file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def start(self) -> bytes:
        """Return the first bytes, of a file decompressed, without passing over them."""
        with blamed_on(self.name):
            codec = self._form(TableFormat.JSON)[1]
            if self._path == STDIN or codec is None:
                return self._peeked()
            with _file(self._path) as again:
                return next(inflated(again, codec), b"")

    def _peeked(self) -> bytes:
        start: bytes = self._file.peek(1)
        return start

    def read_all(self) -> bytes:
        """Return all bytes, decompressed. Raises ``InputError`` if they cannot be read."""
        with blamed_on(self.name):
            codec = self._form(TableFormat.JSON)[1]
            return self._file.read() if codec is None else b"".join(inflated(self._file, codec))

    def batches(
        self,
        columns: Sequence[str] = (),
        n_rows: int = DEFAULT_ROWS,
        *,
        time_column: str | None = None,
        lenient: bool = False,
    ) -> Iterator[Batch]:
        """Yield the rows, so that a large file need not fit into memory.

        Only ``columns`` are kept, if any are given. A batch has at most ``n_rows`` rows.
        ``lenient`` leaves out records that cannot be read. Raises ``InputError`` if it cannot be
        read, its format is unknown, or a column is not there.
        """
        first_row = n_unread = 0
        decoder = Decoder(
            max_record_bytes=_MAX_RECORD_BYTES, max_fields=_MAX_FIELDS,
            max_decoded_bytes=_MAX_BYTES, time_column=time_column,
        )  # fmt: skip
        with blamed_on(self.name):
            reader, size = self._reader()
            for part in iter(lambda: reader.read(ended=True), None):
                decoded = decoder.decode(part)
                if decoded.rejected and not lenient:
                    raise _refusal(decoded)
                n_unread += decoded.n_rejected
                for table in decoded.batches:
                    assert not isinstance(table, EncodedTable)  # which takes a schema
                    kept = _selected(table, columns, check=not first_row) if columns else table
                    for start in range(0, len(kept), n_rows):
                        share = min(1.0, reader.n_raw / size) if size else None
                        rows = kept.slice(start, n_rows)
                        yield Batch(rows, first_row, share, n_unread)
                        first_row, n_unread = first_row + len(rows), 0

    def _reader(self) -> tuple[FileReader, int]:
        """Return what reads it, and how many bytes there are; 0 if that is not known."""
        if not self.start().strip():
            raise DataError("the input is empty; there must be a table in it")
        kind, codec = self._form(self._kind)
        if self._path == STDIN and codec is None and kind in TEXTS:
            grammar = grammar_of(kind, _MAX_RECORD_BYTES)
            return TextReader(StreamBytes(self._file), grammar, _MAX_RECORD_BYTES), 0
        if self._path == STDIN:
            self._file = self._open.enter_context(_copy_of(self._file))
        size = self._file.seek(0, io.SEEK_END)
        descriptor, form = self._file.fileno(), (kind, codec)
        return open_reader(descriptor, form, _MAX_RECORD_BYTES, max_bytes=_MAX_BYTES), size

    def _form(self, kind: TableFormat | None) -> Form:
        return form_of(self._path, self._peeked(), kind, "--input-format")


def _file(path: str) -> io.BufferedReader:
    return open(path, "rb")


def _copy_of(stream: io.BufferedReader) -> Any:
    """Return a file with what comes through a pipe, which can be read in any order."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the input closes it
    shutil.copyfileobj(stream, file)
    file.flush()
    return file


def _refusal(decoded: Decoded) -> FormatError:
    first = decoded.rejected[0]
    whole = first.reason is RejectReason.BAD_TABLE
    return FormatError(first.detail if whole else f"{first.place}: {first.detail}")


def _selected(table: pa.Table, columns: Sequence[str], *, check: bool) -> pa.Table:
    known = table.column_names
    for name in columns if check else ():
        if name not in known:
            raise DataError(f"there is no column {name!r}; there are {known[:8]}")
    return table.select([name for name in known if name in columns])
