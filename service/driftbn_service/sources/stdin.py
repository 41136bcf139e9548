"""Records from standard input."""

from __future__ import annotations

import fcntl
import logging
import os
import select
import sys
import zlib
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import Any, BinaryIO, Final, NoReturn

from driftbn.errors import FormatError
from driftbn_service.records.formats import (
    CHUNK_BYTES,
    CsvRecords,
    Lines,
    Mark,
    Piece,
    RecordCutter,
    TableFormat,
)
from driftbn_service.settings import StdinSourceSettings
from driftbn_service.sources.base import Chunk, LaneListener, Position, SourceError

logger = logging.getLogger("driftbn.service.sources.stdin")

_HEADER_ENCODING: Final = "latin-1"  # gives every byte back


class StdinSource:
    """Whole lines from a pipe, as they come.

    A pipe cannot be read twice. After a restart the source goes on with what comes next; with
    ``skip_seen`` it takes it that the same input is fed again, passes over what it has seen and
    compares it by a checksum. ``stream_file``, standard input unless given, must have a descriptor
    and is not closed. Records longer than ``max_record_bytes`` are cut off, to be refused.
    """

    name = "standard input"

    def __init__(
        self,
        settings: StdinSourceSettings,
        stream_file: BinaryIO | None = None,
        *,
        max_record_bytes: int,
    ) -> None:
        self._settings = settings
        self._file = stream_file
        self._max_record_bytes = max_record_bytes
        self._descriptor = -1
        self._cutter = RecordCutter(Lines(), max_record_bytes)
        self._n_to_skip = 0
        self._skipped_crc = 0
        self._expected_crc: int | None = None
        self._ended = False
        self.drained = False

    @property
    def ready(self) -> bool:
        return self._descriptor >= 0

    def open(self, listener: LaneListener) -> None:
        file = self._file if self._file is not None else getattr(sys.stdin, "buffer", None)
        if file is None or file.closed:
            problem = "it is closed; pipe records into the command, or choose another source.kind"
            raise SourceError(self.name, problem, fatal=True)
        self._resume(listener.opened(""))
        self._descriptor = file.fileno()
        with suppress(OSError):  # a file or a terminal has no such buffer
            # A pipe holds 64 KiB unless asked: sixteen reads for a chunk, each of which would wait
            # for its turn beside the thread that learns.
            fcntl.fcntl(self._descriptor, fcntl.F_SETPIPE_SZ, CHUNK_BYTES)

    def poll(self, timeout: float) -> Chunk | None:
        """Return the lines that are there, or ``None`` if none came within ``timeout`` seconds.

        Raises ``SourceError`` if reading fails, or ``skip_seen`` is set and the input is not the
        same.
        """
        deadline, late = monotonic() + timeout, False
        while not self.drained:
            piece = self._take()
            if piece is not None:
                return self._chunk(piece)
            if self._ended:
                self.drained = True
            elif late or not self._fill(max(0.0, deadline - monotonic())):
                break
            late = monotonic() >= deadline
        return None

    def release(self, lane: str, position: Position) -> None:
        """Do nothing: what came through a pipe is gone."""

    def close(self) -> None:
        """Read no more; the input itself stays open, since it is not ours."""
        self._descriptor = -1

    def _resume(self, position: Position | None) -> None:
        position = position or {}
        seen = Mark(position.get("bytes", 0), position.get("lines", 0), position.get("crc", 0))
        again = self._settings.skip_seen and seen.n_bytes > 0
        if again:
            self._n_to_skip, self._expected_crc = seen.n_bytes, position.get("crc")
            logger.info("passing over what was seen of the input", extra={"n_bytes": seen.n_bytes})
        limit = self._max_record_bytes
        header = position.get("header", "").encode(_HEADER_ENCODING)
        is_csv = self._settings.format is TableFormat.CSV
        self._cutter = RecordCutter(
            CsvRecords(limit, header) if is_csv else Lines(),
            limit,
            seen,
            begun=again,
            with_crc=self._settings.skip_seen,
        )

    def _take(self) -> Piece | None:
        try:
            return self._cutter.take(ended=self._ended)
        except FormatError as error:
            raise SourceError(self.name, str(error), fatal=True) from error

    def _chunk(self, piece: Piece) -> Chunk:
        position: dict[str, Any] = {"bytes": piece.end.n_bytes, "lines": piece.end.n_lines}
        if self._settings.skip_seen:
            position["crc"] = piece.end.crc
        if piece.header:
            position["header"] = piece.header.decode(_HEADER_ENCODING)
        name = self.name

        def place(_: int, byte: int) -> str:
            return f"{name}, {piece.where(byte)}"

        return Chunk(piece.data, piece.kind, place, position=position)

    def _fill(self, timeout: float) -> bool:
        """Read what is there, up to about a chunk; ``False`` if nothing came in time."""
        n_read = 0
        new = []  # joined at once: a pipe gives what it holds
        while n_read < CHUNK_BYTES and not self._ended:
            found, _, _ = select.select([self._descriptor], [], [], 0 if n_read else timeout)
            data = self._read(CHUNK_BYTES - n_read) if found else None
            if data is None:
                break
            n_read += len(data)
            self._ended = not data
            new.append(self._passed_over(data) if self._n_to_skip else data)
        self._cutter.push(b"".join(new))
        return n_read > 0 or self._ended

    def _read(self, n_bytes: int) -> bytes | None:
        """Return what is there, nothing at the end, ``None`` if somebody else was faster."""
        try:
            return os.read(self._descriptor, n_bytes)
        except BlockingIOError:
            return None
        except OSError as error:
            raise SourceError(self.name, error.strerror or str(error), fatal=True) from error

    def _passed_over(self, data: bytes) -> bytes:
        if not data:
            self._refuse(f"ends {self._n_to_skip} bytes before")
        old, new = data[: self._n_to_skip], data[self._n_to_skip :]
        self._n_to_skip -= len(old)
        self._skipped_crc = zlib.crc32(old, self._skipped_crc)
        if not self._n_to_skip:
            if self._expected_crc is None:
                logger.warning("skip_seen was not set before: what was passed over is not checked")
            elif self._expected_crc != self._skipped_crc:
                self._refuse("differs before")
            self._cutter.mark = replace(self._cutter.mark, crc=self._skipped_crc)
        return new

    def _refuse(self, how: str) -> NoReturn:
        problem = (
            f"with skip_seen the same input must be fed again, but this one {how} byte "
            f"{self._cutter.mark.n_bytes}, up to which it was read; feed that one, or set "
            "skip_seen = false to go on with what comes"
        )
        raise SourceError(self.name, problem, fatal=True)
