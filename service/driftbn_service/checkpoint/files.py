"""Writing so that a crash at any moment leaves the old or the new, and nothing between."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

TEMPORARY: Final = ".tmp"
"""Ends the name of a file that is being written."""


@contextmanager
def descriptor_of(path: Path, flags: int) -> Iterator[int]:
    """Open a file for as long as the body runs."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o666)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write_at(descriptor: int, data: bytes, offset: int) -> None:
    """Write all of the bytes to a place in a file."""
    rest = memoryview(data)
    while rest:
        n_written = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[n_written:], offset + n_written


def replace_file(path: Path, data: bytes) -> None:
    """Write a file that is durable and whole on return.

    Raises
    ------
    OSError
        If it cannot be written. The old one, if there is one, is as it was, unless nothing but the
        last step has failed, which makes the new one durable.
    """
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        with descriptor_of(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as descriptor:
            write_at(descriptor, data, 0)
            os.fsync(descriptor)
        os.rename(temporary, path)
    except OSError:
        # What is half written takes the room that others need; the error itself is passed on.
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names of new and renamed files durable."""
    with descriptor_of(path, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)
