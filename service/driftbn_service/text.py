"""Words for people: names made safe to print, and lines with a style for terminals."""

from __future__ import annotations

import importlib
import io
import json
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from driftbn.explain.words import printable
from driftbn.graphs.graph import Dag, Edge, Pdag

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
    """Something that is new."""
    REMOVED = "red"
    """Something that is gone."""
    REVERSED = "orange3"
    """An edge whose direction is another."""


@dataclass(frozen=True)
class Line:
    """One line of output."""

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
    """Return the edges of a graph that have a direction."""
    return graph.edges if isinstance(graph, Dag) else graph.directed_edges


def plain(lines: Iterable[Line]) -> str:
    """Return the lines for a pipe or a file."""
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
