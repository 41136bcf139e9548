"""The bytes of a file from its start or a place in it, decompressed in bounded pieces."""

from __future__ import annotations

import io
import os
import sys
import zlib
from typing import Any, Final, Protocol

import pyarrow as pa

from driftbn.errors import FormatError
from driftbn_service.sources.lines import CHUNK_BYTES

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
