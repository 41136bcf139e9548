"""Where results go: standard output or a file, as bytes in UTF-8."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from service.errors import UsageError, blamed_on
from service.tables import STDIN
from service.text import Line, coloured, one_line, plain


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
