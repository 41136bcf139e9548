"""Records from files: one, those of a directory, or those that match a glob."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Final

from driftbn.errors import FormatError
from driftbn_service.records.cutting import START
from driftbn_service.records.files import MAX_RECORD_BYTES, IncompleteError, Part, TableReader
from driftbn_service.settings import FilesSourceSettings
from driftbn_service.sources.base import Chunk, LaneListener, Position, SourceError
from driftbn_service.sources.catalog import (
    Catalog,
    PathError,
    PathKind,
    TrackedFile,
    Trouble,
    find_files,
    kind_of,
)

if TYPE_CHECKING:
    from driftbn_service.settings import StreamSettings
    from driftbn_service.state import Journal

logger = logging.getLogger("driftbn.service.sources.files")

GRACE_SECONDS: Final = 60.0
"""How long a file that was renamed or deleted is followed if no other comes in its place."""


def make(stream: StreamSettings, journal: Journal | None = None) -> FilesSource:
    """Return the source of a stream that is in files."""
    assert isinstance(stream.source, FilesSourceSettings)  # the factory chose by its kind
    return FilesSource(stream.source, max_record_bytes=stream.max_record_bytes)


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
    and the next file goes on. Only if no file at all could be read is that the end.

    Parameters
    ----------
    settings
        Which files, and whether to follow them.
    max_record_bytes
        Longer records are cut off, to be refused.
    clock
        Returns seconds.
    """

    def __init__(
        self,
        settings: FilesSourceSettings,
        *,
        max_record_bytes: int = MAX_RECORD_BYTES,
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
        self._drained = False
        self._closed = threading.Event()
        self._busy = threading.Lock()

    @property
    def drained(self) -> bool:
        """Whether all files are read; never with ``follow``."""
        return self._drained

    @property
    def ready(self) -> bool:
        """Whether there is something to read or to wait for: a single file must be there."""
        return not self._is_missing and not self._closed.is_set()

    def open(self, listener: LaneListener) -> None:
        """Find the files.

        Raises
        ------
        SourceError
            If there are none, and they are not waited for.
        """
        self._catalog.restore(listener.opened("") or {})
        self._scan()

    def poll(self, timeout: float) -> Chunk | None:
        """Return the next records, or ``None`` if none came within ``timeout`` seconds.

        Raises
        ------
        SourceError
            If none of the files can be read.
        """
        deadline = self._clock() + timeout
        with self._busy:
            while not self._closed.is_set() and not self._drained:
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
        is_absent = error.trouble is Trouble.ABSENT
        if is_absent:
            self._catalog.update((), now)
        can_read = is_absent and any(file.can_be_read for file in self._catalog)
        waits = self._settings.follow and error.trouble is not Trouble.WRONG
        if not can_read and not waits:
            raise SourceError(self.name, error.problem, fatal=True) from error
        may_be_empty = is_absent and kind_of(self._settings.path) is not PathKind.FILE
        self._is_missing = not can_read and not may_be_empty
        if error.problem != self._told:
            self._told = error.problem
            logger.warning("%s; waiting", error)
        return is_absent

    def _line_up(self, now: float) -> None:
        in_place = {file.at for file in self._catalog if not file.is_left and file.size}
        for file in self._catalog.in_order():
            replaced = file.path in in_place or now - file.left_at >= GRACE_SECONDS
            ended = not self._settings.follow or (file.is_left and replaced)
            if file.can_be_read and (ended or (file.size and file.state != file.settled)):
                self._queue.append((file, ended))
        self._n_waiting = sum(file.n_left for file, _ in self._queue)

    def _next_chunk(self) -> Chunk | None:
        while self._queue and not self._closed.is_set():
            file, ended = self._queue[0]
            n_left, start = file.n_left, self._start()
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

    def _start(self) -> Position | None:
        """Return where the next chunk begins; of many files, others may come before it later."""
        is_single = kind_of(self._settings.path) is PathKind.FILE
        return self._catalog.position() if is_single else None

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
            "",
            part.data,
            part.kind,
            self._catalog.position(),
            lambda record, byte: f"{path}, {where(record, byte)}",
            max(0, self._n_waiting),
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
        is_single = kind_of(self._settings.path) is PathKind.FILE
        if is_single and file.mark == START:
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
        self._drained = True
        if self._problem is not None and not self._has_read:
            raise SourceError(self.name, f"no file could be read; {self._problem}", fatal=True)
