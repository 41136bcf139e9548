"""All files of a source: found, found again under other names, and gone."""

from __future__ import annotations

import logging
import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from driftbn_service.sources.paths import Found, find_inode
from driftbn_service.sources.tracked import TrackedFile

logger = logging.getLogger(f"driftbn.{__name__}")

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
        """Take over the files of a position."""
        for stored in position.get("files", ()):
            file = self._add(TrackedFile.restored(stored))
            self._restored[file.path, file.inode] = file

    def position(self) -> dict[str, Any]:
        """Return all that is needed to go on, as plain values."""
        return {"files": [file.stored() for file in self._files]}

    def in_order(self) -> list[TrackedFile]:
        """Return the files by name; of those with the same name the one found first."""
        return sorted(self._files, key=lambda file: file.path)

    def update(self, found: tuple[Found, ...], now: float) -> None:
        """Take note of the files that are there, and of those that are not any more."""
        seen: set[int] = set()
        for item in found:
            file = self._known(item)
            if file is None:
                file = self._add(TrackedFile(item.path, item.device, item.inode))
            if id(file) not in seen:  # else it is a second name of the same file
                seen.add(id(file))
                file.see(item)
        for file in [file for file in self._files if id(file) not in seen]:
            self._leave(file, now)

    def forget(self, file: TrackedFile) -> None:
        """Know a file no more."""
        file.close()
        self._files.remove(file)
        if self._by_identity.get((file.device, file.inode)) is file:
            del self._by_identity[file.device, file.inode]

    def keep_open(self, file: TrackedFile) -> None:
        """Let a file stay open, and close the one that was not read for the longest time."""
        self._open[id(file)] = file
        self._open.move_to_end(id(file))
        if len(self._open) > MAX_OPEN:
            _, oldest = self._open.popitem(last=False)
            if not oldest.is_left:  # that one may have no name to be opened by
                oldest.close()

    def close(self) -> None:
        """Close all files."""
        for file in self._files:
            file.close()

    def _add(self, file: TrackedFile) -> TrackedFile:
        self._files.append(file)
        self._by_identity[file.device, file.inode] = file
        return file

    def _known(self, found: Found) -> TrackedFile | None:
        """Return the file if it is the one that was known, else ``None`` and forget that one."""
        file = self._by_identity.get((found.device, found.inode)) or self._moved(found)
        if file is None or file.state == (found.size, found.changed_ns):
            return file
        if found.size >= file.n_raw and _begins_alike(file, found):
            return file
        problem = "is shorter than what was read of it"
        if found.size >= file.n_raw:
            problem = "has other contents than those that were read"
        logger.warning("%s %s: reading it from its start", found.path, problem)
        self.forget(file)
        return None

    def _moved(self, found: Found) -> TrackedFile | None:
        """Return a file whose device has got another number, as it may after a reboot."""
        file = self._restored.pop((found.path, found.inode), None)
        if file is None or file.at is not None or not _begins_alike(file, found):
            return None
        del self._by_identity[file.device, file.inode]
        file.move(found.device)
        self._by_identity[file.device, file.inode] = file
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
        file.at = find_inode(os.path.dirname(file.path), file.device, file.inode)
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
