"""Which files a path means, and how a file is known again under another name."""

from __future__ import annotations

import glob
import hashlib
import os
import stat
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from driftbn.errors import DriftbnError
from driftbn_service.tables import SUFFIXES, suffix_and_codec

PRINT_BYTES: Final = 256
"""Bytes at each end by which a file is told from another with the same inode."""


class Trouble(Enum):
    """Why a path cannot be read."""

    ABSENT = auto()
    """Nothing is there, as yet or any more."""
    DENIED = auto()
    """The operating system does not let us see what is there."""
    WRONG = auto()
    """What is there is no file to read."""


class PathError(DriftbnError):
    """A path means nothing that can be read.

    Attributes
    ----------
    path, problem
        The path, and what is wrong with it.
    trouble
        The same for a program.
    """

    def __init__(self, path: str, problem: str, trouble: Trouble) -> None:
        self.path = path
        self.problem = problem
        self.trouble = trouble
        super().__init__(f"{path}: {problem}")


class PathKind(Enum):
    """What a path means."""

    FILE = auto()
    """One file."""
    DIRECTORY = auto()
    """All files in it whose extension tells a format; neither hidden ones nor directories."""
    GLOB = auto()
    """All files that match; ``**`` stands for any directories."""


@dataclass(frozen=True)
class Found:
    """A file that is there.

    Parameters
    ----------
    path
        Where.
    device, inode
        What it is known by.
    size, changed_ns
        Its bytes, and when it was last written.
    """

    path: str
    device: int
    inode: int
    size: int
    changed_ns: int

    @classmethod
    def of(cls, path: str, status: os.stat_result) -> Found:
        """Return what the operating system says of a file."""
        return cls(path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def kind_of(path: str) -> PathKind:
    """Return what a path means; a file that is there is meant even if its name is a pattern."""
    if os.path.isdir(path):
        return PathKind.DIRECTORY
    if glob.has_magic(path) and not os.path.lexists(path):
        return PathKind.GLOB
    return PathKind.FILE


def find_files(path: str) -> tuple[Found, ...]:
    """Return the files that a path means, sorted by name.

    Raises
    ------
    PathError
        If there are none, or the file cannot be one.
    """
    kind = kind_of(path)
    if kind is PathKind.FILE:
        return (_one_file(path),)
    try:
        names = _names(path) if kind is PathKind.DIRECTORY else glob.glob(path, recursive=True)
    except OSError as error:
        problem = f"{_why(error)}; let this user list the directory"
        raise PathError(path, problem, Trouble.DENIED) from error
    found = [file for name in sorted(names) if (file := _regular(name)) is not None]
    if not found:
        known = ", ".join(sorted(SUFFIXES))
        problem = (
            f"there is no file in the directory with one of the extensions {known}; for others "
            "give a glob and source.format"
            if kind is PathKind.DIRECTORY
            else "no file matches"
        )
        raise PathError(path, problem, Trouble.ABSENT)
    return tuple(found)


def find_inode(directory: str, device: int, inode: int) -> str | None:
    """Return the name under which a file is in a directory; ``None`` if it is not."""
    try:
        with os.scandir(directory or ".") as entries:
            names = sorted(entry.path for entry in entries if entry.inode() == inode)
    except OSError:  # then it is not to be found there
        return None
    for name in names:
        found = _regular(name)
        if found is not None and found.device == device:
            return name
    return None


@dataclass(frozen=True)
class Fingerprint:
    """What the part of a file that was read begins and ends with.

    It tells whether a file is still the one that was read, though it has grown: an inode is soon
    used again for another file, and a file may be emptied and written anew.

    Parameters
    ----------
    n_bytes
        The length of that part.
    digest
        A checksum of its first and last ``PRINT_BYTES`` bytes.
    """

    n_bytes: int = 0
    digest: str = ""

    @classmethod
    def of(cls, descriptor: int, n_bytes: int) -> Fingerprint:
        """Return that of the first bytes of an open file."""
        n_end = min(n_bytes, PRINT_BYTES)
        ends = os.pread(descriptor, n_end, 0) + os.pread(descriptor, n_end, n_bytes - n_end)
        return cls(n_bytes, hashlib.blake2b(ends, digest_size=16).hexdigest())

    def is_of(self, descriptor: int) -> bool:
        """Say whether an open file begins with this."""
        return self.n_bytes == 0 or Fingerprint.of(descriptor, self.n_bytes) == self


NOTHING_READ: Final = Fingerprint()


def _one_file(path: str) -> Found:
    try:
        status = os.stat(path)
    except FileNotFoundError as error:
        problem = "there is no such file; give a file, a directory or a glob"
        raise PathError(path, problem, Trouble.ABSENT) from error
    except OSError as error:
        raise PathError(path, f"{_why(error)}; let this user read it", Trouble.DENIED) from error
    if not stat.S_ISREG(status.st_mode):
        problem = 'it is no regular file; pipe it into the command with source.kind = "stdin"'
        raise PathError(path, problem, Trouble.WRONG)
    return Found.of(path, status)


def _names(directory: str) -> list[str]:
    with os.scandir(directory) as entries:
        names = [entry.path for entry in entries if not entry.name.startswith(".")]
    return [name for name in names if suffix_and_codec(name, b"")[0] in SUFFIXES]


def _regular(path: str) -> Found | None:
    try:
        status = os.stat(path)
    except OSError:  # gone since it was listed, or a link to nowhere
        return None
    return Found.of(path, status) if stat.S_ISREG(status.st_mode) else None


def _why(error: OSError) -> str:
    return error.strerror or str(error)
