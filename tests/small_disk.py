"""A file system with little room, for what must hold when a disk is full."""

from __future__ import annotations

import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from driftbn_service.state import Store

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


@contextmanager
def small_files(max_bytes: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, before[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def limit_pages(store: Store, n_pages: int) -> None:
    """Let SQLite's own limit of pages stand for the disk; it never is below what there is."""
    store._database._writer.execute(f"PRAGMA max_page_count = {max(1, n_pages)}")
