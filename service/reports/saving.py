"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from service.errors import UsageError, blamed_on
from service.tables import STDIN


def save(outputs: Sequence[tuple[str, bytes]]) -> None:
    """Write outputs to their files; none is touched before all of them are on the disk.

    Parameters
    ----------
    outputs
        Names with contents; ``-`` is standard output.

    Raises
    ------
    InputError
        If a file cannot be written. What was there before is still there.
    """
    written: list[tuple[Path, Path]] = []
    try:
        for name, data in outputs:
            if name != STDIN:
                with blamed_on(name):
                    written += _laid_down(Path(name), data)
        for part, path in written:
            with blamed_on(str(path)):
                part.replace(path)
    finally:
        for part, _ in written:
            part.unlink(missing_ok=True)
    for name, data in outputs:
        if name == STDIN:
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()


def check_names(names: Sequence[str]) -> None:
    """Check that no two outputs go to the same place.

    Raises
    ------
    UsageError
        If two do.
    """
    places = [name if name == STDIN else os.path.realpath(name) for name in names]
    for place, name in zip(places, names, strict=True):
        if places.count(place) > 1:
            where = "standard output" if name == STDIN else name
            raise UsageError(f"two outputs cannot both go to {where}")


def _laid_down(path: Path, data: bytes) -> list[tuple[Path, Path]]:
    """Write beside a file; return the part and where it belongs. A pipe is written to as it is."""
    path = path.resolve()
    if path.is_dir():
        raise IsADirectoryError(None, "is a directory")
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return []
    part = path.with_name(f".{path.name[:200]}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise
    return [(part, path)]
