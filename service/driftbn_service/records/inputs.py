"""Files and standard input as commands read them: by the readers and the decoder of the daemon."""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final, Self

import pyarrow as pa

from driftbn.errors import DataError, FormatError
from driftbn.tables.encode import EncodedTable
from driftbn_service.errors import blamed_on
from driftbn_service.records.decoder import Decoder
from driftbn_service.records.files import (
    TEXTS,
    FileReader,
    StreamBytes,
    TextReader,
    grammar_of,
    open_reader,
)
from driftbn_service.records.formats import Form, TableFormat, form_of, inflated
from driftbn_service.records.rows import Decoded, RejectReason

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
            None, max_record_bytes=_MAX_RECORD_BYTES, max_fields=_MAX_FIELDS,
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
