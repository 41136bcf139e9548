"""Segments: files to which states are appended and in which nothing is ever changed."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import struct
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from driftbn_service.checkpoint.errors import CheckpointError, DamagedError
from driftbn_service.checkpoint.files import descriptor_of, sync_directory, write_at
from driftbn_service.checkpoint.layout import segment_path
from driftbn_service.checkpoint.manifest import Place

MAGIC: Final = b"driftbn-segment\n"
SEGMENT_BYTES: Final = 8 << 20
"""A segment that has so many is left, so that the room of old states comes back in pieces."""

# Of the state of an Alarm monitor with windows of 5000 rows, 1.7 MB, zstd at level 3 makes 155 kB
# in 3.2 ms; at level 1 291 kB in 4.7 ms (its window does not reach from one table of codes to the
# next like it), lz4 599 kB in 2.4 ms, zlib at level 1 334 kB in 15 ms.
_CODEC: Final = ("zstd", 3)
_STATE_LENGTH: Final = struct.Struct(">Q")
_CHECKSUM_DIGITS: Final = 16


def record_of(state: bytes) -> bytes:
    """Return a state as it is stored: compressed, after its length."""
    return _STATE_LENGTH.pack(len(state)) + bytes(pa.Codec(*_CODEC).compress(state, asbytes=True))


def state_of(record: bytes) -> bytes:
    """Return the state that ``record_of`` was given.

    Examples
    --------
    >>> state_of(record_of(b"abc"))
    b'abc'
    """
    (length,) = _STATE_LENGTH.unpack_from(record)
    compressed = record[_STATE_LENGTH.size :]
    return bytes(pa.Codec(*_CODEC).decompress(compressed, length, asbytes=True))


def checksum_of(record: bytes) -> str:
    """Return the first digits of the SHA-256 of a record."""
    return hashlib.sha256(record).hexdigest()[:_CHECKSUM_DIGITS]


class SegmentReader:
    """Reads records of one segment, each checked.

    Parameters
    ----------
    path
        The segment.
    descriptor
        It, open.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def check_length(self, places: Iterable[Place]) -> None:
        """Make sure that a segment is long enough to hold records.

        Raises
        ------
        DamagedError
            If it is not.
        """
        end = max(place.offset + place.length for place in places)
        n_bytes = os.fstat(self._descriptor).st_size
        if n_bytes < end:
            raise DamagedError(self.path, f"it is cut off: it needs {end} bytes and has {n_bytes}")

    def read(self, place: Place) -> bytes:
        """Return a record.

        Raises
        ------
        DamagedError
            If it is not what was written.
        """
        record = os.pread(self._descriptor, place.length, place.offset)
        if checksum_of(record) != place.checksum:
            raise DamagedError(self.path, f"the checksum at byte {place.offset} is wrong")
        return record


@contextlib.contextmanager
def reader_of(directory: Path, segment: int) -> Iterator[SegmentReader]:
    """Open a segment to read from it.

    Raises
    ------
    DamagedError
        If it is not there or the disk cannot read it.
    CheckpointError
        If the operating system refuses for another reason.
    """
    path = segment_path(directory, segment)
    try:
        with descriptor_of(path, os.O_RDONLY) as descriptor:
            yield SegmentReader(path, descriptor)
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> CheckpointError:
    """Return what is wrong with a file that the operating system does not read."""
    if isinstance(error, FileNotFoundError):
        return DamagedError(path, "it is missing")
    kind = DamagedError if error.errno == errno.EIO else CheckpointError
    return kind(path, f"it cannot be read: {error.strerror}")


class Segments:
    """The segments of a directory.

    Parameters
    ----------
    directory
        Where they are.
    numbers
        Those that are there; never written to again, since after a crash nobody knows how they end.

    Attributes
    ----------
    sizes
        Bytes of every segment.
    """

    def __init__(self, directory: Path, numbers: Collection[int]) -> None:
        self.directory = directory
        self.sizes = {n: segment_path(directory, n).stat().st_size for n in numbers}
        self._next = max(numbers, default=0) + 1
        self._current: int | None = None
        self._files: dict[int, int] = {}
        self._durable: dict[int, int] = {}
        self._suspect: dict[int, int] = {}
        self._n_new = 0

    @property
    def current(self) -> int | None:
        """The segment that is being written."""
        return self._current

    def append(self, record: bytes) -> Place:
        """Write a record, which is durable after the next ``sync``.

        Raises
        ------
        OSError
            If there is no room. Nothing has changed then.
        """
        number = self._open_segment()
        offset = self.sizes[number]
        try:
            write_at(self._files[number], record, offset)
        except OSError:
            self._cut(number, offset)
            raise
        self.sizes[number] = offset + len(record)
        return Place(number, offset, len(record), checksum_of(record))

    def read(self, place: Place) -> bytes:
        """Return a record.

        Raises
        ------
        CheckpointError
            If it cannot be read or is not what was written.
        """
        with reader_of(self.directory, place.segment) as segment:
            return segment.read(place)

    def sync(self) -> None:
        """Make all that was appended durable.

        Raises
        ------
        OSError
            If that fails. Records for which ``is_suspect`` holds must be appended once more.
        """
        for number, descriptor in tuple(self._files.items()):
            if self._durable[number] == self.sizes[number]:
                continue
            try:
                os.fsync(descriptor)
            except OSError:
                # The kernel takes the pages for written now, and a later fsync would succeed
                # without them.
                self._suspect[number] = self._durable[number]
                self._leave(number)
                raise
            self._durable[number] = self.sizes[number]
            if number != self._current:
                self._leave(number)
        if self._n_new:
            sync_directory(self.directory)
            self._n_new = 0

    @property
    def any_suspect(self) -> bool:
        """Whether there are records that may not have reached the disk and never will."""
        return bool(self._suspect)

    def is_suspect(self, place: Place) -> bool:
        """Return whether a record may not have reached the disk and never will."""
        return place.offset >= self._suspect.get(place.segment, place.offset + 1)

    def trust(self) -> None:
        """Take it that no suspect record is needed any more."""
        self._suspect.clear()

    def delete_all_but(self, numbers: Collection[int]) -> None:
        """Delete segments, but not the one being written.

        Raises
        ------
        OSError
            If one cannot be deleted; it is tried again by the next call.
        """
        for number in sorted(self.sizes.keys() - set(numbers) - {self._current}):
            segment_path(self.directory, number).unlink(missing_ok=True)
            self._leave(number)
            del self.sizes[number]

    def close(self) -> None:
        """Let go of the files; what is not durable may be lost."""
        for number in tuple(self._files):
            self._leave(number)

    def _open_segment(self) -> int:
        number = self._current
        if number is not None and self.sizes[number] < SEGMENT_BYTES:
            return number
        number = self._next
        path = segment_path(self.directory, number)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            write_at(descriptor, MAGIC, 0)
        except OSError:
            os.close(descriptor)
            with contextlib.suppress(OSError):  # written anew by the next try
                path.unlink()
            raise
        self._files[number], self._durable[number] = descriptor, 0
        self.sizes[number] = len(MAGIC)
        self._current, self._next = number, number + 1
        self._n_new += 1
        return number

    def _cut(self, number: int, n_bytes: int) -> None:
        """Give back the room of a record that was not written whole."""
        with contextlib.suppress(OSError):  # the next record is written over it
            os.ftruncate(self._files[number], n_bytes)

    def _leave(self, number: int) -> None:
        if number in self._files:
            os.close(self._files.pop(number))
            del self._durable[number]
        if number == self._current:
            self._current = None
