"""Events appended to a file, one JSON object a line, each exactly once."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from driftbn_service.events import Event
from driftbn_service.outlets.base import Outlet, OutletError, RecentEvents, fingerprint_in
from driftbn_service.settings import FileOutletSettings

logger = logging.getLogger("driftbn.service.outlets.file")

LOOK_BACK_BYTES: Final = 16 << 20
"""How much of the end of a file is searched for events that are there already."""


class FileOutlet(Outlet):
    """Appends events to a file and has them on disk before they count as delivered.

    Before it writes it reads what was added since it last looked, by itself before a crash or by
    another process, and leaves out events that are there. A last line that a crash tore is cut off.
    When the file was moved away, a new one is begun.
    """

    def __init__(self, settings: FileOutletSettings) -> None:
        super().__init__(settings.name)
        self.path = Path(settings.path)
        self._file: int | None = None
        self._read_until = 0
        self._recent = RecentEvents()

    def open(self) -> None:
        with self._blamed(), self._locked() as file:
            self._catch_up(file)

    def send(self, events: Sequence[Event]) -> None:
        """Append what is not there yet, all of it or nothing.

        Where it cannot be written, as on a full disk, the file is as it was before.
        """
        with self._blamed(), self._locked() as file:
            self._catch_up(file)
            new = {event.fingerprint: event for event in events}
            lines = [
                event.to_json() + b"\n"
                for fingerprint, event in new.items()
                if fingerprint not in self._recent
            ]
            # Even without lines: what a crash left there may not be on the disk itself yet.
            self._append(file, b"".join(lines))
            self._recent.add(new)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.close()
            problem = f"cannot write {self.path}: {error.strerror or error}"
            raise OutletError(self.name, problem) from error

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Have the file at the path, and nobody else who writes to it as we do."""
        file = self._at_path()
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield file
        finally:
            if self._file is not None:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def _at_path(self) -> int:
        if self._file is not None and not self._is_at_path(self._file):
            logger.info("the file was moved away; a new one is begun", extra={"outlet": self.name})
            self.close()
        if self._file is None:
            self._file = os.open(
                self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644
            )
            _sync_directory(self.path.parent)
            self._read_until = max(0, os.fstat(self._file).st_size - LOOK_BACK_BYTES)
        return self._file

    def _is_at_path(self, file: int) -> bool:
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(file))
        except FileNotFoundError:
            return False

    def _catch_up(self, file: int) -> None:
        """Read what was added, and mend the end of the file if it was torn."""
        size = os.fstat(file).st_size
        if size < self._read_until:  # emptied in its place, as some rotations do
            self._read_until = 0
        added = _read(file, max(self._read_until, size - LOOK_BACK_BYTES), size)
        *lines, torn = added.split(b"\n")
        if torn:
            if fingerprint_in(torn) is not None:
                lines.append(torn)
                self._append(file, b"\n")
            else:
                logger.warning(
                    "the last line of %s was torn by a crash and is cut off",
                    self.path,
                    extra={"outlet": self.name, "n_bytes": len(torn)},
                )
                os.ftruncate(file, size - len(torn))
        self._recent.add(filter(None, map(fingerprint_in, lines)))
        self._read_until = os.fstat(file).st_size

    def _append(self, file: int, data: bytes) -> None:
        """Write and sync; if that fails, take back what was written of it."""
        size = os.fstat(file).st_size
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(file, left) :]
            os.fsync(file)
        except OSError:
            os.ftruncate(file, size)
            raise
        self._read_until = size + len(data)


def _read(file: int, start: int, end: int) -> bytes:
    parts = []
    while start < end and (part := os.pread(file, end - start, start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _sync_directory(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
