"""One open file read piece by piece: lines, rows of CSV, items of an array, rows of a table."""

from __future__ import annotations

import importlib
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa

from driftbn.errors import FormatError
from service.sources.inflate import ByteReader, PlainBytes, open_bytes
from service.sources.json_items import JsonItems
from service.sources.lines import START, CsvRecords, Grammar, Lines, Mark, RecordCutter
from service.tables import TableFormat

ROWS: Final = 32_768
"""Rows of a table that are given at a time, unless they are wide."""
_TABLE_BYTES: Final = 16 << 20
_ARROW_FILE_MAGIC: Final = b"ARROW1"


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
            codec is not None
            or os.pread(descriptor, len(_ARROW_FILE_MAGIC), 0) != _ARROW_FILE_MAGIC
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
        return int(self._share * os.fstat(self._file.fileno()).st_size)

    def read(self, *, ended: bool) -> Part | None:
        """Return what comes next."""
        table = next(self._tables, None)
        if table is None:
            return None
        first = self._n_rows + 1
        self._n_rows += table.num_rows
        return Part(table, None, Mark(self._n_rows), lambda row, _: f"row {first + row}")

    def _parquet_tables(self) -> Iterator[pa.Table]:
        parquet = importlib.import_module("pyarrow.parquet")
        with _incomplete("no Parquet file, or not yet whole"):
            file = parquet.ParquetFile(pa.PythonFile(self._file, mode="r"))
        groups, n_skipped = _from_row(file.metadata, self._n_rows)
        n_read, n_rows = self._n_rows - n_skipped, max(1, file.metadata.num_rows)
        batches = file.iter_batches(_rows_at_a_time(file.metadata), row_groups=groups)
        with _damaged("Parquet"):
            for batch in batches if groups else ():
                n_read += batch.num_rows
                self._share = n_read / n_rows
                yield from _after(pa.Table.from_batches([batch]), n_skipped)
                n_skipped = max(0, n_skipped - batch.num_rows)

    def _file_tables(self) -> Iterator[pa.Table]:
        with _incomplete("no Arrow file, or not yet whole"):
            file = pa.ipc.open_file(pa.PythonFile(self._file, mode="r"))
        n_skipped, n_batches = self._n_rows, file.num_record_batches
        with _damaged("Arrow"):
            for i in range(n_batches):
                batch = file.get_batch(i)
                self._share = (i + 1) / n_batches
                yield from _after(pa.Table.from_batches([batch]), n_skipped)
                n_skipped = max(0, n_skipped - batch.num_rows)

    def _stream_tables(self) -> Iterator[pa.Table]:
        n_skipped = self._n_rows
        size = max(1, os.fstat(self._file.fileno()).st_size)
        with _incomplete("no Arrow stream, or not yet whole"):
            stream = io.BufferedReader(_RawStream(self._bytes))
            for batch in pa.ipc.open_stream(pa.PythonFile(stream, mode="r")):
                self._share = min(1.0, self._bytes.n_raw / size)
                yield from _after(pa.Table.from_batches([batch]), n_skipped)
                n_skipped = max(0, n_skipped - batch.num_rows)


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


def _from_row(metadata: Any, n_rows: int) -> tuple[list[int], int]:
    """Return the row groups in which rows are left, and how many rows of the first are not."""
    for group in range(metadata.num_row_groups):
        n_in_group = metadata.row_group(group).num_rows
        if n_rows < n_in_group:
            return list(range(group, metadata.num_row_groups)), n_rows
        n_rows -= n_in_group
    return [], 0


def _rows_at_a_time(metadata: Any) -> int:
    n_bytes = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    return _rows_of(int(metadata.num_rows), int(n_bytes))


def _rows_of(n_rows: int, n_bytes: int) -> int:
    return max(1, min(ROWS, _TABLE_BYTES * n_rows // max(1, n_bytes)))


def _after(table: pa.Table, n_skipped: int) -> Iterator[pa.Table]:
    """Yield a table in slices, without its first rows."""
    n_rows = _rows_of(table.num_rows, table.nbytes)
    for start in range(n_skipped, table.num_rows, n_rows):
        yield table.slice(start, n_rows)


@contextmanager
def _incomplete(problem: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise IncompleteError(f"{problem} ({error})") from error


@contextmanager
def _damaged(what: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"the {what} data are damaged ({error})") from error
