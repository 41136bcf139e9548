"""Where results go: standard output or a file, as bytes in UTF-8."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from driftbn_service.errors import UsageError, blamed_on
from driftbn_service.records.inputs import STDIN
from driftbn_service.text import Line, coloured, one_line, plain


def write_lines(lines: Sequence[Line], path: str | None) -> None:
    """Write lines of text, in colour if they go to a terminal."""
    at_terminal = _to_stdout(path) and sys.stdout.isatty()
    write_text(coloured(lines) if at_terminal else plain(lines), path)


def write_text(text: str, path: str | None) -> None:
    """Write text; a lone surrogate, which UTF-8 cannot carry, is written as an escape."""
    _write(text.encode("utf-8", "backslashreplace"), path)


def write_picture(data: bytes, path: str | None) -> None:
    """Write bytes that are not text.

    Raises
    ------
    UsageError
        If they would go to a terminal.
    """
    if _to_stdout(path) and sys.stdout.isatty():
        raise UsageError("a picture cannot go to a terminal; give --output FILE")
    _write(data, path)


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
            _write(data, name)


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


def note(message: str) -> None:
    """Say something on standard error."""
    sys.stderr.write(f"driftbn: {one_line(message)}\n")


def _to_stdout(path: str | None) -> bool:
    return path is None or path == STDIN


def _write(data: bytes, path: str | None) -> None:
    if path is not None and not _to_stdout(path):
        with blamed_on(path):
            Path(path).write_bytes(data)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
