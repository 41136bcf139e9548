"""Records from files: one, those of a directory, or those that match a glob.

First the files that a path means: found, known again under another name, followed, and gone.
"""

from __future__ import annotations

import glob
import hashlib
import logging
import os
import stat
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final, NamedTuple

from driftbn.errors import DriftbnError, FormatError
from driftbn_service.records.files import (
    FileReader,
    IncompleteError,
    Part,
    TableReader,
    open_reader,
)
from driftbn_service.records.formats import (
    PROBED_BYTES,
    START,
    SUFFIXES,
    Mark,
    TableFormat,
    form_of,
    suffix_and_codec,
)
from driftbn_service.settings import FilesSourceSettings
from driftbn_service.sources.base import Chunk, LaneListener, Position, SourceError

PRINT_BYTES: Final = 256
"""Bytes at each end by which a file is told from another with the same inode."""


class PathError(DriftbnError):
    """A path means nothing that can be read.

    ``problem`` says what is wrong to people. What is ``absent`` is not there as yet or any more,
    and what is ``wrong`` is no file to read; else the operating system does not let us see it.
    """

    def __init__(
        self, path: str, problem: str, *, absent: bool = False, wrong: bool = False
    ) -> None:
        self.path = path
        self.problem = problem
        self.absent = absent
        self.wrong = wrong
        super().__init__(f"{path}: {problem}")


class Found(NamedTuple):
    path: str
    status: os.stat_result

    @property
    def identity(self) -> tuple[int, int]:
        """What a file is known by: device and inode."""
        return self.status.st_dev, self.status.st_ino


def is_single(path: str) -> bool:
    """Whether a path means one file; one that is there is meant even if its name is a pattern."""
    if os.path.isdir(path):
        return False
    return not glob.has_magic(path) or os.path.lexists(path)


def find_files(path: str) -> tuple[Found, ...]:
    """Return the files that a path means, sorted by name.

    Of a directory, that is those whose extension tells a format, neither hidden ones nor
    directories; in a glob, ``**`` stands for any directories. Raises ``PathError`` if there are
    none, or the file cannot be one.
    """
    if is_single(path):
        return (_one_file(path),)
    is_directory = os.path.isdir(path)
    try:
        names = _names(path) if is_directory else glob.glob(path, recursive=True)
    except OSError as error:
        raise PathError(path, f"{_why(error)}; let this user list the directory") from error
    found = [file for name in sorted(names) if (file := _regular(name)) is not None]
    if not found:
        known = ", ".join(sorted(SUFFIXES))
        problem = (
            f"there is no file in the directory with one of the extensions {known}; for others "
            "give a glob and source.format"
            if is_directory
            else "no file matches"
        )
        raise PathError(path, problem, absent=True)
    return tuple(found)


def find_again(directory: str, identity: tuple[int, int]) -> str | None:
    """Return the name under which a file is in a directory; ``None`` if it is not."""
    try:
        with os.scandir(directory or ".") as entries:
            names = sorted(entry.path for entry in entries if entry.inode() == identity[1])
    except OSError:  # then it is not to be found there
        return None
    for name in names:
        found = _regular(name)
        if found is not None and found.identity == identity:
            return name
    return None


@dataclass(frozen=True)
class Fingerprint:
    """What the part of a file that was read begins and ends with.

    It tells whether a file is still the one that was read, though it has grown: an inode is soon
    used again for another file, and a file may be emptied and written anew.
    """

    n_bytes: int = 0  # the length of that part
    digest: str = ""  # a checksum of its first and last ``PRINT_BYTES`` bytes

    @classmethod
    def of(cls, descriptor: int, n_bytes: int) -> Fingerprint:
        """Return that of the first bytes of an open file."""
        n_end = min(n_bytes, PRINT_BYTES)
        ends = os.pread(descriptor, n_end, 0) + os.pread(descriptor, n_end, n_bytes - n_end)
        return cls(n_bytes, hashlib.blake2b(ends, digest_size=16).hexdigest())

    def is_of(self, descriptor: int) -> bool:
        return self.n_bytes == 0 or Fingerprint.of(descriptor, self.n_bytes) == self


NOTHING_READ: Final = Fingerprint()


def _one_file(path: str) -> Found:
    try:
        status = os.stat(path)
    except FileNotFoundError as error:
        problem = "there is no such file; give a file, a directory or a glob"
        raise PathError(path, problem, absent=True) from error
    except OSError as error:
        raise PathError(path, f"{_why(error)}; let this user read it") from error
    if not stat.S_ISREG(status.st_mode):
        problem = 'it is no regular file; pipe it into the command with source.kind = "stdin"'
        raise PathError(path, problem, wrong=True)
    return Found(path, status)


def _names(directory: str) -> list[str]:
    with os.scandir(directory) as entries:
        names = [entry.path for entry in entries if not entry.name.startswith(".")]
    return [name for name in names if suffix_and_codec(name, b"")[0] in SUFFIXES]


def _regular(path: str) -> Found | None:
    try:
        status = os.stat(path)
    except OSError:  # gone since it was listed, or a link to nowhere
        return None
    return Found(path, status) if stat.S_ISREG(status.st_mode) else None


def _why(error: OSError) -> str:
    return error.strerror or str(error)


# A file known by what it is, not by its name, and how far it was read.


@dataclass(eq=False)
class TrackedFile:
    """A file and how far it was read."""

    path: str  # the name it was first found under; files are read in the order of these
    identity: tuple[int, int]  # device and inode: what it is known by, with the next
    fingerprint: Fingerprint = NOTHING_READ
    mark: Mark = START  # up to where it was read
    # How large it was when it was read to its end, if it is done: if it has another size, it is
    # not.
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
        return self.done_size is not None

    @property
    def n_raw(self) -> int:
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
                "device": self.identity[0],
                "inode": self.identity[1],
                "raw": self.fingerprint.n_bytes,
                "fingerprint": self.fingerprint.digest,
                "offset": self.mark.n_bytes,
                "lines": self.mark.n_lines,
                "done_size": self.done_size,
            }
        return self._stored

    @classmethod
    def restored(cls, stored: Mapping[str, Any]) -> TrackedFile:
        return cls(
            stored["path"],
            (stored["device"], stored["inode"]),
            Fingerprint(stored["raw"], stored["fingerprint"]),
            Mark(stored["offset"], stored["lines"]),
            stored["done_size"],
        )

    def see(self, found: Found) -> None:
        self.at, self.is_left = found.path, False
        self.size, self.changed_ns = found.status.st_size, found.status.st_mtime_ns
        if self.done and self.done_size != self.size:
            self.done_size, self._stored = None, None

    def move(self, identity: tuple[int, int]) -> None:
        self.identity, self._stored = identity, None

    def look(self) -> bool:
        """Take note of how large it is, of one that is open; say whether it has grown."""
        status = os.fstat(self.descriptor)
        has_grown = status.st_size > self.size
        self.size, self.changed_ns = status.st_size, status.st_mtime_ns
        return has_grown

    def read(self, kind: TableFormat | None, max_record_bytes: int, *, ended: bool) -> Part | None:
        """Return what comes next; ``None`` if no more is there.

        Raises ``OSError`` if it cannot be opened or read. Raises ``FormatError`` if it is damaged,
        breaks off or is something else.
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
        self.done_size, self._stored = self.size, None
        self.close()

    def rewind(self) -> None:
        """Let go of what reads it, and keep it open; the next read begins at its mark."""
        self.reader = None

    def open(self) -> None:
        """Open it if it is not.

        Raises ``OSError`` if it cannot be opened, or is not there any more.
        """
        if self.descriptor >= 0:
            return
        if self.at is None:
            raise FileNotFoundError(f"{self.path} is not there any more")
        descriptor = os.open(self.at, os.O_RDONLY | os.O_CLOEXEC)
        if Found(self.at, os.fstat(descriptor)).identity != self.identity:
            os.close(descriptor)
            raise FileNotFoundError(f"{self.at} is another file now")
        self.descriptor = descriptor

    def close(self) -> None:
        self.reader = None
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _form(self, kind: TableFormat | None) -> tuple[TableFormat, str | None]:
        start = os.pread(self.descriptor, PROBED_BYTES, 0)
        return form_of(self.path, start, kind, "source.format")


# All files of a source: found, found again under other names, and gone.

logger = logging.getLogger("driftbn.service.sources.files")

MAX_OPEN: Final = 100
"""Files that are kept open; more are opened again when there is something to read."""
FORGET_SECONDS: Final = 3600.0
"""How long a file that is gone is remembered: a file system may be away for a while."""


class Catalog:
    """The files of a source, in the order in which they were found."""

    def __init__(self) -> None:
        self._files: list[TrackedFile] = []
        self._by_identity: dict[tuple[int, int], TrackedFile] = {}
        self._restored: dict[tuple[str, int], TrackedFile] = {}
        self._open: OrderedDict[int, TrackedFile] = OrderedDict()

    def __iter__(self) -> Iterator[TrackedFile]:
        return iter(self._files)

    def restore(self, position: Mapping[str, Any]) -> None:
        for stored in position.get("files", ()):
            file = self._add(TrackedFile.restored(stored))
            self._restored[file.path, file.identity[1]] = file

    def position(self) -> dict[str, Any]:
        """Return all that is needed to go on, as plain values."""
        return {"files": [file.stored() for file in self._files]}

    def update(self, found: tuple[Found, ...], now: float) -> None:
        """Take note of the files that are there, and of those that are not any more."""
        seen: set[int] = set()
        for item in found:
            file = self._known(item)
            if file is None:
                file = self._add(TrackedFile(item.path, item.identity))
            if id(file) not in seen:  # else it is a second name of the same file
                seen.add(id(file))
                file.see(item)
        for file in [file for file in self._files if id(file) not in seen]:
            self._leave(file, now)

    def forget(self, file: TrackedFile) -> None:
        file.close()
        self._files.remove(file)
        if self._by_identity.get(file.identity) is file:
            del self._by_identity[file.identity]

    def keep_open(self, file: TrackedFile) -> None:
        """Let a file stay open, and close the one that was not read for the longest time."""
        self._open[id(file)] = file
        self._open.move_to_end(id(file))
        if len(self._open) > MAX_OPEN:
            _, oldest = self._open.popitem(last=False)
            if not oldest.is_left:  # that one may have no name to be opened by
                oldest.close()

    def close(self) -> None:
        for file in self._files:
            file.close()

    def _add(self, file: TrackedFile) -> TrackedFile:
        self._files.append(file)
        self._by_identity[file.identity] = file
        return file

    def _known(self, found: Found) -> TrackedFile | None:
        """Return the file if it is the one that was known, else ``None`` and forget that one."""
        file = self._by_identity.get(found.identity) or self._moved(found)
        size = found.status.st_size
        if file is None or file.state == (size, found.status.st_mtime_ns):
            return file
        if size >= file.n_raw and _begins_alike(file, found):
            return file
        problem = "is shorter than what was read of it"
        if size >= file.n_raw:
            problem = "has other contents than those that were read"
        logger.warning("%s %s: reading it from its start", found.path, problem)
        self.forget(file)
        return None

    def _moved(self, found: Found) -> TrackedFile | None:
        """Return a file whose device has got another number, as it may after a reboot."""
        file = self._restored.pop((found.path, found.identity[1]), None)
        if file is None or file.at is not None or not _begins_alike(file, found):
            return None
        del self._by_identity[file.identity]
        file.move(found.identity)
        self._by_identity[file.identity] = file
        return file

    def _leave(self, file: TrackedFile, now: float) -> None:
        """Take note that a file is not among those to read."""
        if not file.is_left:
            file.is_left, file.left_at = True, now
            file.at = None
            if not file.done and file.descriptor < 0:
                self._find_again(file)
        if file.descriptor >= 0 and file.look():
            file.left_at = now
        if not file.can_be_read and now - file.left_at >= FORGET_SECONDS:
            self.forget(file)

    def _find_again(self, file: TrackedFile) -> None:
        """Open a file under the name it has now, if it is still in its directory."""
        file.at = find_again(os.path.dirname(file.path), file.identity)
        try:
            file.open()
            if not file.fingerprint.is_of(file.descriptor):
                raise FileNotFoundError("there is another file in its place")
            file.look()
        except OSError as error:
            file.close()
            file.at = None
            if file.n_left or not file.size:  # of one never seen since the start nobody knows
                logger.warning(
                    "%s is gone, read up to byte %d: what else was in it is lost (%s)",
                    file.path, file.n_raw, error,
                )  # fmt: skip


def _begins_alike(file: TrackedFile, found: Found) -> bool:
    """Say whether a file that was found begins with what was read of the known one."""
    if file.descriptor >= 0:
        return file.fingerprint.is_of(file.descriptor)
    try:
        descriptor = os.open(found.path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # whoever reads it next is told why it cannot be
        return True
    try:
        return file.fingerprint.is_of(descriptor)
    finally:
        os.close(descriptor)


# The source.

GRACE_SECONDS: Final = 60.0
"""How long a file that was renamed or deleted is followed if no other comes in its place."""


class FilesSource:
    """Reads files in the order of their names, each from its start to its end.

    With ``follow`` it goes on with what is appended and with files that appear. A last line
    without line end is then no record until its end has come. A file that was renamed or replaced
    is read to its end before the one in its place; a file that is shorter than what was read of
    it, or begins otherwise, is read from its start. Files are looked at every ``poll_seconds``.
    What is rotated twice between two looks, or while nobody reads, is found only if ``path`` is a
    glob that matches the rotated names too, such as ``app.log*``; compressed copies of what was
    read must not match, for they are other files.

    A file that turns out to be damaged is left: what was read of it counts, the error is logged,
    and the next file goes on. Only if no file at all could be read is that the end. Records longer
    than ``max_record_bytes`` are cut off, to be refused.
    """

    def __init__(
        self,
        settings: FilesSourceSettings,
        *,
        max_record_bytes: int,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.name = f"files {settings.path}"
        self._settings = settings
        self._max_record_bytes = max_record_bytes
        self._clock = clock
        self._catalog = Catalog()
        self._queue: deque[tuple[TrackedFile, bool]] = deque()  # with whether it has ended
        self._n_waiting = 0
        self._next_scan = 0.0
        self._is_missing = True
        self._told: str | None = None
        self._problem: str | None = None
        self._has_read = False
        self.drained = False
        self._closed = threading.Event()
        self._busy = threading.Lock()

    @property
    def ready(self) -> bool:
        """Whether there is something to read or to wait for: a single file must be there."""
        return not self._is_missing and not self._closed.is_set()

    def open(self, listener: LaneListener) -> None:
        self._catalog.restore(listener.opened("") or {})
        self._scan()

    def poll(self, timeout: float) -> Chunk | None:
        """Return the next records, or ``None`` if none came within ``timeout`` seconds.

        Raises ``SourceError`` if none of the files can be read.
        """
        deadline = self._clock() + timeout
        with self._busy:
            while not self._closed.is_set() and not self.drained:
                chunk = self._next_chunk()
                if chunk is not None:
                    return chunk
                if not self._settings.follow:
                    self._end()
                elif not self._wait(deadline):
                    break
                else:
                    self._scan()
        return None

    def release(self, lane: str, position: Position) -> None:
        """Do nothing: files are not ours to delete."""

    def close(self) -> None:
        """Close all files; a poll under way returns at once. May be called by any thread."""
        self._closed.set()
        with self._busy:
            self._catalog.close()

    def _wait(self, deadline: float) -> bool:
        """Wait for the next look at the files; ``False`` if that is after the deadline."""
        until = min(self._next_scan, deadline)
        self._closed.wait(max(0.0, until - self._clock()))
        return self._clock() >= self._next_scan

    def _scan(self) -> None:
        """Look which files are there, and line up those that have something to read."""
        now = self._clock()
        self._next_scan = now + self._settings.poll_seconds
        try:
            found = find_files(self._settings.path)
        except PathError as error:
            if self._miss(error, now):
                self._line_up(now)
            return
        self._told = None
        self._is_missing = False
        self._catalog.update(found, now)
        self._line_up(now)

    def _miss(self, error: PathError, now: float) -> bool:
        """Take note that no file is there; ``False`` if what was there is not to be seen."""
        if error.absent:
            self._catalog.update((), now)
        can_read = error.absent and any(file.can_be_read for file in self._catalog)
        waits = self._settings.follow and not error.wrong
        if not can_read and not waits:
            raise SourceError(self.name, error.problem, fatal=True) from error
        may_be_empty = error.absent and not is_single(self._settings.path)
        self._is_missing = not can_read and not may_be_empty
        if error.problem != self._told:
            self._told = error.problem
            logger.warning("%s; waiting", error)
        return error.absent

    def _line_up(self, now: float) -> None:
        in_place = {file.at for file in self._catalog if not file.is_left and file.size}
        # By name; of those with the same name the one found first.
        for file in sorted(self._catalog, key=lambda file: file.path):
            replaced = file.path in in_place or now - file.left_at >= GRACE_SECONDS
            ended = not self._settings.follow or (file.is_left and replaced)
            if file.can_be_read and (ended or (file.size and file.state != file.settled)):
                self._queue.append((file, ended))
        self._n_waiting = sum(file.n_left for file, _ in self._queue)

    def _next_chunk(self) -> Chunk | None:
        while self._queue and not self._closed.is_set():
            file, ended = self._queue[0]
            n_left = file.n_left
            # Of many files, others may come before the next chunk later.
            start = self._catalog.position() if is_single(self._settings.path) else None
            part = self._read(file, ended=ended)
            self._n_waiting -= n_left - file.n_left
            if part is None or (not ended and file.is_at_end):
                self._queue.popleft()
                self._n_waiting -= file.n_left
                self._settle(file)
            if part is not None:
                self._has_read = True
                return self._chunk(file, part, start)
        return None

    def _settle(self, file: TrackedFile) -> None:
        """Take note that a file is read as far as it goes."""
        is_read = file.descriptor >= 0 or file.done  # else it is tried again
        file.settled = file.state if is_read else None
        if file.done and file.is_left:
            self._catalog.forget(file)
        elif file.descriptor >= 0:
            self._catalog.keep_open(file)

    def _chunk(self, file: TrackedFile, part: Part, start: Position | None) -> Chunk:
        path, where = file.path, part.place
        return Chunk(
            part.data,
            part.kind,
            lambda record, byte: f"{path}, {where(record, byte)}",
            position=self._catalog.position(),
            n_behind=max(0, self._n_waiting),
            behind_in_bytes=True,
            start=start,
        )

    def _read(self, file: TrackedFile, *, ended: bool) -> Part | None:
        """Return the next part of a file; after the last one it is done, or waits for more."""
        try:
            part = file.read(self._settings.format, self._max_record_bytes, ended=ended)
        except FormatError as error:
            if isinstance(error, IncompleteError) and not ended:
                self._tell_once(file, f"{error}; waiting for more of it")
                file.rewind()
            else:
                self._give_up(file, str(error))
                file.finish()
            return None
        except OSError as error:
            self._miss_file(file, error)
            return None
        except Exception as error:  # whatever is in a file, it costs that file and nothing else
            logger.exception("%s cannot be read", file.path)
            self._give_up(file, f"it cannot be read ({type(error).__name__})")
            file.finish()
            return None
        self._has_read = True
        if part is None:
            self._at_end(file, ended=ended)
        return part

    def _at_end(self, file: TrackedFile, *, ended: bool) -> None:
        file.told = None
        if ended or (file.reader is not None and not file.reader.grows):
            file.finish()
        elif isinstance(file.reader, TableReader):  # one that has ended does not begin again
            file.rewind()

    def _give_up(self, file: TrackedFile, problem: str) -> None:
        """Leave a file; a single one of which nothing was read is an error."""
        if is_single(self._settings.path) and file.mark == START:
            raise SourceError(self.name, problem, fatal=True)
        self._problem = f"{file.path}: {problem}"
        logger.error("%s: %s; what was read of it counts, and it is left", file.path, problem)

    def _miss_file(self, file: TrackedFile, error: OSError) -> None:
        """Do without a file that cannot be opened; with ``follow`` it is tried again."""
        file.close()
        problem = error.strerror or str(error)
        if not isinstance(error, FileNotFoundError):
            problem += "; let this user read it"
        if not self._settings.follow:
            self._give_up(file, problem)
        elif not isinstance(error, FileNotFoundError):  # else the next look shows where it is
            self._tell_once(file, f"{problem}; trying again")

    def _tell_once(self, file: TrackedFile, problem: str) -> None:
        if problem != file.told:
            file.told = problem
            logger.warning("%s: %s", file.path, problem)

    def _end(self) -> None:
        self.drained = True
        if self._problem is not None and not self._has_read:
            raise SourceError(self.name, f"no file could be read; {self._problem}", fatal=True)
