"""A file system with little room, for what must hold when a disk is full."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.services.process import missing


@contextmanager
def small_disk_at(path: Path, size: str) -> Iterator[Path]:
    """Mount a file system of a size, such as ``1m``; where that is not possible, skip the test."""
    path.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        missing(f"no file system can be mounted here: {done.stderr.strip()}")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)
