"""What commands write: lines for people, files, progress, and pictures."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from importlib import resources
from pathlib import Path
from typing import Any, Final

from driftbn.explain.svg import Drawing
from driftbn.explain.words import printable
from driftbn.graphs.graph import Dag, Edge, Pdag
from driftbn_service.errors import UsageError, blamed_on
from driftbn_service.optional_parts import naming_the_extra
from driftbn_service.records.files import STDIN

MAX_MESSAGE = 500
"""Characters of an error that are shown; Arrow likes to quote whole rows."""


class Style(Enum):
    """What a line is; the value is how rich shows it."""

    HEAD = "bold"
    """What the output is about."""
    EDGE = ""
    """An edge of a graph; at a terminal several stand side by side."""
    NOTE = "dim"
    """Cost and circumstances."""
    WARNING = "yellow"
    """Something that limits what the result means."""
    ADDED = "green"
    REMOVED = "red"
    REVERSED = "orange3"


@dataclass(frozen=True)
class Line:
    text: str
    style: Style = Style.EDGE


def shown(name: str) -> str:
    r"""Return a name so that it can be read back from a line and cannot move a cursor.

    Examples
    --------
    >>> shown("heart rate"), shown("a\nb"), shown("a -> b"), shown(" x")
    ('heart rate', '"a\\nb"', '"a -> b"', '" x"')
    """
    odd = not name or not name.isprintable() or name != name.strip()
    marks = ('"', "\\", ",", " - ", "->")
    return json.dumps(name) if odd or any(mark in name for mark in marks) else name


def one_line(message: str) -> str:
    r"""Return a message as one line of bounded length.

    Examples
    --------
    >>> one_line("first\n  second")
    'first second'
    """
    flat = printable(" ".join(message.split()))
    return flat if len(flat) <= MAX_MESSAGE else f"{flat[: MAX_MESSAGE - 1]}…"


def edge_text(edge: Edge, directed: bool) -> str:
    """Return ``a -> b`` or ``a - b``.

    Examples
    --------
    >>> edge_text(("a", "b"), directed=False)
    'a - b'
    """
    return f"{shown(edge[0])} {'->' if directed else '-'} {shown(edge[1])}"


def directed_edges(graph: Dag | Pdag) -> tuple[Edge, ...]:
    return graph.edges if isinstance(graph, Dag) else graph.directed_edges


def plain(lines: Iterable[Line]) -> str:
    return "".join(f"{line.text}\n" for line in lines)


def coloured(lines: Sequence[Line]) -> str:
    """Return the lines for a terminal; runs of plain edges become columns."""
    rich_text = importlib.import_module("rich.text")
    columns = importlib.import_module("rich.columns")
    console = importlib.import_module("rich.console").Console(
        file=io.StringIO(),
        force_terminal=True,
        no_color="NO_COLOR" in os.environ,
        highlight=False,
        width=shutil.get_terminal_size().columns,
    )
    edges: list[object] = []
    for line in (*lines, None):
        if line is not None and line.style is Style.EDGE:
            edges.append(rich_text.Text(line.text))
            continue
        if edges:
            console.print(columns.Columns(edges, padding=(0, 4), column_first=True))
            edges = []
        if line is not None:
            console.print(rich_text.Text(line.text, style=line.style.value), soft_wrap=True)
    return str(console.file.getvalue())


# Where results go: standard output or a file, as bytes in UTF-8.


def write_lines(lines: Sequence[Line], path: str | None) -> None:
    at_terminal = _to_stdout(path) and sys.stdout.isatty()
    write_text(coloured(lines) if at_terminal else plain(lines), path)


def write_text(text: str, path: str | None) -> None:
    """Write text; a lone surrogate, which UTF-8 cannot carry, is written as an escape."""
    _write(text.encode("utf-8", "backslashreplace"), path)


def write_picture(data: bytes, path: str | None) -> None:
    """Write bytes that are not text; ``UsageError`` if they would go to a terminal."""
    if _to_stdout(path) and sys.stdout.isatty():
        raise UsageError("a picture cannot go to a terminal; give --output FILE")
    _write(data, path)


def save(outputs: Sequence[tuple[str, bytes]]) -> None:
    """Write outputs to their files; none is touched before all of them are on the disk.

    Raises ``InputError`` if a file cannot be written. What was there before is still there.
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
    """Check that no two outputs go to the same place; ``UsageError`` if two do."""
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


# A bar on standard error that tells how far long work is; only a terminal sees it.


class Progress:
    """A bar that makes way where something else is written; each input counts 1."""

    def __init__(self, total: float, *, quiet: bool = False) -> None:
        self._bar: Any = None
        if quiet or not sys.stderr.isatty():
            return
        rich = importlib.import_module("rich.progress")
        console = importlib.import_module("rich.console").Console(file=sys.stderr)
        self._bar = rich.Progress(
            rich.TextColumn("{task.description}"),
            rich.BarColumn(),
            rich.TaskProgressColumn(),
            rich.TimeElapsedColumn(),
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, done: float | None, words: str) -> None:
        """Say how much of the work is done, ``None`` if nobody knows, and what is done now."""
        if self._bar is not None:
            unknown = {"total": None} if done is None else {"completed": done}
            self._bar.update(self._task, description=words, **unknown)
            self._bar.refresh()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the bar away while the body writes to the terminal."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()


# Drawings as PNG, rendered by resvg with DejaVu Sans, whatever fonts a machine has.

MAX_PIXELS: Final = 6000
"""Longest side of a picture; a larger drawing shrinks."""
_ZOOM: Final = 1.5  # pixels of a unit: sharp on dense screens too


def png_renderer() -> Callable[[Drawing], bytes]:
    """Return what makes a PNG of a drawing; asked for first, before any other work is done."""
    with naming_the_extra("a picture"):
        resvg = importlib.import_module("resvg_py")
        fonts = importlib.import_module("ziafont.fonts")  # scripts it lacks come from the system

    def render(drawing: Drawing) -> bytes:
        zoom = min(_ZOOM, MAX_PIXELS / max(drawing.width, drawing.height))
        with resources.as_file(resources.files(fonts) / "DejaVuSans.ttf") as font:
            png: bytes = resvg.svg_to_bytes(
                svg_string=drawing.document(), zoom=zoom, font_files=[str(font)]
            )
        return png

    return render
