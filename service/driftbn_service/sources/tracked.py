"""A file known by what it is, not by its name, and how far it was read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from driftbn.errors import FormatError
from driftbn_service.sources.lines import START, Mark
from driftbn_service.sources.paths import NOTHING_READ, Fingerprint, Found
from driftbn_service.sources.readers import FileReader, Part, open_reader
from driftbn_service.tables import GZIP_MAGIC, SUFFIXES, TableFormat, suffix_and_codec


@dataclass(eq=False)
class TrackedFile:
    """A file and how far it was read.

    Parameters
    ----------
    path
        The name it was first found under; files are read in the order of these.
    device, inode, fingerprint
        What it is known by.
    mark
        Up to where it was read.
    done_size
        How large it was when it was read to its end, if it is done: if it has another size, it
        is not.
    """

    path: str
    device: int
    inode: int
    fingerprint: Fingerprint = NOTHING_READ
    mark: Mark = START
    done_size: int | None = None

    at: str | None = None
    """Where it is now; ``None`` if it has no name that is known."""
    is_left: bool = False
    """Whether it is not among the files to read any more: renamed, replaced or deleted."""
    size: int = 0
    changed_ns: int = 0
    settled: tuple[int, int] | None = None
    """Size and time of change when it was last read to its end."""
    left_at: float = 0.0
    """When it was left, or had grown since."""
    told: str | None = None
    """The problem that was last told of it."""
    descriptor: int = -1
    reader: FileReader | None = field(default=None, repr=False)
    _stored: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def done(self) -> bool:
        """Whether it will not be read any more."""
        return self.done_size is not None

    @property
    def n_raw(self) -> int:
        """How many bytes of the file were read."""
        return self.fingerprint.n_bytes

    @property
    def can_be_read(self) -> bool:
        """Whether there is something to open, and it is not done."""
        return not self.done and (self.at is not None or self.descriptor >= 0)

    @property
    def state(self) -> tuple[int, int]:
        """Size and time of change as last seen."""
        return self.size, self.changed_ns

    @property
    def n_left(self) -> int:
        """How many bytes of it are not read yet."""
        return 0 if self.done else max(0, self.size - self.n_raw)

    @property
    def is_at_end(self) -> bool:
        """Whether it is known without another read that nothing is left of what was seen."""
        is_exact = self.reader is not None and self.reader.is_exact
        return is_exact and self.n_left == 0

    def stored(self) -> Mapping[str, Any]:
        """Return what a position has of it, as plain values."""
        if self._stored is None:
            self._stored = {
                "path": self.path,
                "device": self.device,
                "inode": self.inode,
                "raw": self.fingerprint.n_bytes,
                "fingerprint": self.fingerprint.digest,
                "offset": self.mark.n_bytes,
                "lines": self.mark.n_lines,
                "done_size": self.done_size,
            }
        return self._stored

    @classmethod
    def restored(cls, stored: Mapping[str, Any]) -> TrackedFile:
        """Return the file that ``stored`` was made of."""
        return cls(
            stored["path"],
            stored["device"],
            stored["inode"],
            Fingerprint(stored["raw"], stored["fingerprint"]),
            Mark(stored["offset"], stored["lines"]),
            stored["done_size"],
        )

    def see(self, found: Found) -> None:
        """Take note of where it is and how large."""
        self.at, self.is_left = found.path, False
        self.size, self.changed_ns = found.size, found.changed_ns
        if self.done and self.done_size != found.size:
            self.done_size, self._stored = None, None

    def move(self, device: int) -> None:
        """Take note that its device has another number now."""
        self.device, self._stored = device, None

    def look(self) -> bool:
        """Take note of how large it is, of one that is open; say whether it has grown."""
        status = os.fstat(self.descriptor)
        has_grown = status.st_size > self.size
        self.size, self.changed_ns = status.st_size, status.st_mtime_ns
        return has_grown

    def read(self, kind: TableFormat | None, max_record_bytes: int, *, ended: bool) -> Part | None:
        """Return what comes next; ``None`` if no more is there.

        Raises
        ------
        OSError
            If it cannot be opened or read.
        FormatError
            If it is damaged, breaks off or is something else.
        """
        self.open()
        if self.reader is None:
            form = self._form(kind)
            self.reader = open_reader(self.descriptor, form, max_record_bytes, self.mark)
        part = self.reader.read(ended=ended)
        if part is not None:
            self.mark = part.mark
            self.fingerprint = Fingerprint.of(self.descriptor, self.reader.n_raw)
            self._stored = None
        return part

    def finish(self) -> None:
        """Read it no more."""
        self.done_size, self._stored = self.size, None
        self.close()

    def rewind(self) -> None:
        """Let go of what reads it, and keep it open; the next read begins at its mark."""
        self.reader = None

    def open(self) -> None:
        """Open it if it is not.

        Raises
        ------
        OSError
            If it cannot be opened, or is not there any more.
        """
        if self.descriptor >= 0:
            return
        if self.at is None:
            raise FileNotFoundError(f"{self.path} is not there any more")
        descriptor = os.open(self.at, os.O_RDONLY | os.O_CLOEXEC)
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) != (self.device, self.inode):
            os.close(descriptor)
            raise FileNotFoundError(f"{self.at} is another file now")
        self.descriptor = descriptor

    def close(self) -> None:
        """Close it; it can be opened again."""
        self.reader = None
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _form(self, kind: TableFormat | None) -> tuple[TableFormat, str | None]:
        start = os.pread(self.descriptor, len(GZIP_MAGIC), 0)
        suffix, codec = suffix_and_codec(self.path, start)
        kind = kind or SUFFIXES.get(suffix)
        if kind is None:
            allowed = ", ".join(member.value for member in TableFormat)
            raise FormatError(
                f"the extension {suffix!r} tells no format; set source.format to one of {allowed}"
            )
        return kind, codec
