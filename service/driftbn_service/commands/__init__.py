"""One file a command; here what they share: options in, lines, files, progress and pictures out."""

from __future__ import annotations

import argparse
import contextlib
import csv
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

from driftbn.config import Knowledge, LearnerConfig, field_texts, field_types
from driftbn.errors import ConfigError, KnowledgeError
from driftbn.explain import Explanation
from driftbn.explain.sentences import shortened
from driftbn.explain.svg import Drawing
from driftbn.graphs.graph import Edge
from driftbn_service.errors import UsageError, blamed_on, naming_the_extra
from driftbn_service.records.files import STDIN
from driftbn_service.records.formats import TableFormat

_METAVARS = {int: "N", float: "X", str: "FIELD"}


@dataclass(frozen=True)
class ReadingOptions:
    columns: tuple[str, ...] = ()  # none for all
    input_format: TableFormat | None = None  # None to go by their extensions

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> ReadingOptions:
        kind = arguments.input_format
        return cls(
            tuple(name for text in arguments.columns for name in listed_names("columns", text)),
            None if kind is None else TableFormat(kind),
        )


@dataclass(frozen=True, kw_only=True)
class LearnOptions(ReadingOptions):
    config: LearnerConfig
    required: tuple[str, ...] = ()  # edges as written, ``SOURCE:TARGET``
    forbidden: tuple[str, ...] = ()
    tiers: tuple[tuple[str, ...], ...] = ()  # from causes to effects

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> LearnOptions:
        return cls(
            config=LearnerConfig(**given_settings(arguments, LearnerConfig)),
            required=tuple(arguments.required),
            forbidden=tuple(arguments.forbidden),
            tiers=tuple(listed_names("tier", text) for text in arguments.tier),
            **vars(ReadingOptions.from_arguments(arguments)),
        )

    def knowledge(self, names: Sequence[str]) -> Knowledge:
        """Return what is known of the edges of a table with these columns.

        Raises ``KnowledgeError`` if an edge has no colon, or its colons can be read in two ways.
        """
        return Knowledge(
            required=[_edge("required", text, names) for text in self.required],
            forbidden=[_edge("forbidden", text, names) for text in self.forbidden],
            tiers=self.tiers,
        )


def add_setting_options(group: argparse._ArgumentGroup, config: type, names: Sequence[str]) -> None:
    """Declare an option for each of these settings, as its class of the library describes it."""
    for name in names:
        kind = field_types(config)[name].kind
        text = field_texts(config)[name].replace("``", "").replace("%", "%%")
        option = f"--{name.replace('_', '-')}"
        if kind is bool:
            group.add_argument(option, action="store_true", default=None, help=text)
        elif kind is tuple:
            group.add_argument(option, type=_listed, metavar="A,B,…", help=text)
        elif issubclass(kind, Enum):
            group.add_argument(option, choices=[member.value for member in kind], help=text)
        else:
            group.add_argument(option, type=kind, metavar=_METAVARS[kind], help=text)


def _listed(text: str) -> tuple[str, ...]:
    """Return names with commas between them; quoted as in CSV where they hold one."""
    return tuple(next(csv.reader([text]), ()))


def given_settings(arguments: argparse.Namespace, config: type) -> dict[str, Any]:
    values = {name: getattr(arguments, name, None) for name in field_types(config)}
    return {name: value for name, value in values.items() if value is not None}


def add_learning_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that ``LearnOptions.from_arguments`` reads."""
    names = [name for name in field_types(LearnerConfig) if name != "warm"]
    add_setting_options(parser.add_argument_group("learning"), LearnerConfig, names)
    _add_knowledge_options(parser)
    add_reading_options(parser)


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options for reading tables, which ``ReadingOptions.from_arguments`` reads."""
    table = parser.add_argument_group("reading tables")
    table.add_argument(
        "--columns",
        action="append",
        default=[],
        metavar="A,B,…",
        help="columns to use; quote names with commas as in CSV",
    )
    table.add_argument(
        "--input-format",
        choices=[kind.value for kind in TableFormat],
        help="otherwise told by the extension",
    )


def _add_knowledge_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is known beforehand (repeat as needed)")
    for option, text in (
        ("--required", "an edge that is there"),
        ("--forbidden", "a direction that is not possible"),
    ):
        group.add_argument(option, action="append", default=[], metavar="A:B", help=text)
    group.add_argument(
        "--tier",
        action="append",
        default=[],
        metavar="A,B,…",
        help="names of one group; no edge points from a later group to an earlier one",
    )


def listed_names(field: str, text: str) -> tuple[str, ...]:
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise ConfigError(field, text, f"a list of names as in CSV ({error})") from error
    names = tuple(name for row in rows for name in row)
    if not names or not all(names):
        raise ConfigError(field, text, "a list of names, none of them empty")
    return names


def _edge(field: str, text: str, names: Sequence[str]) -> tuple[str, str]:
    """Split ``SOURCE:TARGET`` at the colon that leaves two columns; names may hold colons too."""
    colons = [i for i, c in enumerate(text) if c == ":"]
    splits = [(text[:i], text[i + 1 :]) for i in colons]
    if not splits:
        raise KnowledgeError(field, text, "two names with a colon between them")
    known = [split for split in splits if split[0] in names and split[1] in names]
    if len(known) > 1:
        raise KnowledgeError(field, text, f"clear; it can mean any of {known}")
    return known[0] if known else splits[0]


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

    >>> shown("heart rate"), shown("a\nb"), shown("a -> b"), shown(" x")
    ('heart rate', '"a\\nb"', '"a -> b"', '" x"')
    """
    odd = not name or not name.isprintable() or name != name.strip()
    marks = ('"', "\\", ",", " - ", "->")
    return json.dumps(name) if odd or any(mark in name for mark in marks) else name


def one_line(message: str) -> str:
    r"""Return a message as one line of bounded length.

    >>> one_line("first\n  second")
    'first second'
    """
    return shortened(" ".join(message.split()), MAX_MESSAGE)


def edge_text(edge: Edge, directed: bool) -> str:
    """Return ``a -> b`` or ``a - b``.

    >>> edge_text(("a", "b"), directed=False)
    'a - b'
    """
    return f"{shown(edge[0])} {'->' if directed else '-'} {shown(edge[1])}"


def word_lines(words: Explanation, *, in_full: bool = False) -> list[Line]:
    """Return words as lines: the headline, and the rest below it."""
    head, *rest = (words.in_full() if in_full else str(words)).split("\n\n")
    lines = [Line(text, Style.HEAD) for text in head.splitlines()]
    return lines + [Line(text, Style.NOTE) for part in rest for text in ("", *part.splitlines())]


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
    at_terminal = path in (None, STDIN) and sys.stdout.isatty()
    write_text(coloured(lines) if at_terminal else plain(lines), path)


def write_text(text: str, path: str | None) -> None:
    """Write text; a lone surrogate, which UTF-8 cannot carry, is written as an escape."""
    save([(path or STDIN, text.encode("utf-8", "backslashreplace"))])


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
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()


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


def moving_note(words: str) -> None:
    """Write over the note before; below it where standard error is no terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{words:<79}\r")
    elif words:
        sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


def note(message: str) -> None:
    sys.stderr.write(f"driftbn: {one_line(message)}\n")


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


def png_renderer(path: str | None) -> Callable[[Drawing], bytes]:
    """Return what makes a PNG of a drawing; asked for first, before any other work is done.

    Raises ``UsageError`` if the picture would go to a terminal.
    """
    if path in (None, STDIN) and sys.stdout.isatty():
        raise UsageError("a picture cannot go to a terminal; give a file")
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
