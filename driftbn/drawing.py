"""Pictures of graphs and of their differences, as PNG."""

from __future__ import annotations

import importlib
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import networkx as nx

from driftbn.diff import StructureDiff, compare
from driftbn.errors import MissingExtraError
from driftbn.graph import Dag, Edge, Pdag
from driftbn.layout import Layout, Point, Spacing, arrange
from driftbn.learning import extend_to_dag

MAX_PIXELS = 12_000
"""Longest side of a picture; a larger one is drawn with fewer dots per inch."""
MAX_LABEL = 28
"""Characters of a name that are shown."""

_DOTS_PER_INCH = 120
_FONT = "DejaVu Sans"  # comes with matplotlib, so it is the same on every machine
_LARGE_POINTS, _SMALL_POINTS = 9.0, 6.0  # labels of small and of large graphs
_TITLE_POINTS = 11.0
_KEY_POINTS = 9.0
_MAX_TITLE = 100  # characters
_MARGIN = 0.3  # inches
_NODE_FACE = "#f4f6f8"
_INK = "#333333"


@dataclass(frozen=True)
class _Pen:
    """How a line looks; colours after Okabe and Ito, told apart by all common kinds of sight."""

    label: str
    colour: str
    width: float = 1.2
    dashed: bool = False


_PLAIN = _Pen("edge", "#4d4d4d")
_KEPT = _Pen("kept", "#a6a6a6", 1.0)
_ADDED = _Pen("added", "#009e73", 2.2)
_REMOVED = _Pen("removed", "#cc3311", 1.8, dashed=True)
_REVERSED = _Pen("reversed", "#e69f00", 2.2)
_TURNED = _Pen("directed or undirected", "#0072b2", 1.0)


@dataclass(frozen=True)
class _Line:
    """An edge to draw, and whether it has an arrow head at its target."""

    edge: Edge
    directed: bool
    pen: _Pen


def draw_graph(graph: Pdag | Dag, *, title: str | None = None) -> bytes:
    r"""Draw a graph as a PNG, causes above effects; undirected edges have no arrow head.

    Equal graphs and titles give equal bytes with the same version of matplotlib.

    Parameters
    ----------
    graph
        What to draw.
    title
        A line above the picture.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> draw_graph(Dag("ab", [("a", "b")]))[:4]
    b'\x89PNG'
    """
    lines = [_Line(edge, True, _PLAIN) for edge in _directed(graph)]
    lines += [_Line(edge, False, _PLAIN) for edge in _undirected(graph)]
    return _Picture(graph.nodes, lines).png(title, {}, [])


def draw_diff(previous: Pdag | Dag, current: Pdag | Dag) -> bytes:
    r"""Draw how one graph differs from another as a PNG, with a legend and the Hamming distance.

    Parameters
    ----------
    previous, current
        The graphs; their nodes may differ. All edges of both are drawn, as they are now or, if
        removed, as they were.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> draw_diff(Dag("ab"), Dag("ab", [("a", "b")]))[:4]
    b'\x89PNG'
    """
    diff = compare(previous, current)
    pens = {edge: _ADDED for edge in diff.added} | {edge: _REVERSED for edge in diff.reversed}
    pens |= {edge: _TURNED for edge in (*diff.directed, *diff.undirected)}
    lines = [_Line(edge, True, pens.get(edge, _KEPT)) for edge in _directed(current)]
    lines += [_Line(edge, False, pens.get(edge, _KEPT)) for edge in _undirected(current)]
    gone = set(diff.removed)
    lines += [_Line(edge, True, _REMOVED) for edge in _directed(previous) if edge in gone]
    lines += [_Line(edge, False, _REMOVED) for edge in _undirected(previous) if edge in gone]
    frames = dict.fromkeys(diff.nodes_added, _ADDED) | dict.fromkeys(diff.nodes_removed, _REMOVED)
    nodes = sorted({*previous.nodes, *current.nodes})
    return _Picture(nodes, lines).png(_diff_title(diff), frames, _legend(lines))


def _diff_title(diff: StructureDiff) -> str:
    return (
        f"Hamming distance {diff.hamming}"
        f" (skeleton {diff.skeleton}, contradictions {diff.contradictions})"
    )


def _legend(lines: Sequence[_Line]) -> list[tuple[_Pen, int]]:
    pens = (_KEPT, _ADDED, _REMOVED, _REVERSED, _TURNED)
    return [(pen, sum(line.pen is pen for line in lines)) for pen in pens]


def _directed(graph: Pdag | Dag) -> tuple[Edge, ...]:
    return graph.edges if isinstance(graph, Dag) else graph.directed_edges


def _undirected(graph: Pdag | Dag) -> tuple[Edge, ...]:
    return () if isinstance(graph, Dag) else graph.undirected_edges


def _downwards(nodes: Iterable[str], lines: Iterable[_Line]) -> Dag:
    """Return a DAG with all the edges: where arrows form a cycle, the last of them point up."""
    graph = nx.DiGraph()
    graph.add_nodes_from(nodes)
    free: list[Edge] = []
    for line in lines:
        source, target = line.edge
        if not line.directed:
            free.append(line.edge)
        elif nx.has_path(graph, target, source):
            graph.add_edge(target, source)
        else:
            graph.add_edge(source, target)
    return extend_to_dag(Pdag(graph.nodes, graph.edges, free))


class _Picture:
    """A drawing in inches, y downwards."""

    def __init__(self, nodes: Sequence[str], lines: Sequence[_Line]) -> None:
        self._agg = _imported("matplotlib.backends.backend_agg")
        self._figure_module = _imported("matplotlib.figure")
        self._patches = _imported("matplotlib.patches")
        self._path = _imported("matplotlib.path").Path
        self._fonts = _imported("matplotlib.font_manager")
        self._lines = lines
        self._points = _font_points(len(nodes))
        self._font = self._fonts.FontProperties(family=_FONT, size=self._points)
        self._face = self._fonts.get_font(self._fonts.findfont(self._font))
        self._labels = {node: _label(node, self._face, MAX_LABEL) for node in nodes}
        self._measure = self._agg.RendererAgg(1, 1, 72)  # 72 dots per inch: a dot is a point
        em = self._points / 72
        self._height = 1.9 * em
        self._widths = {node: self._text_width(self._labels[node]) + 1.4 * em for node in nodes}
        self._em = em
        spacing = Spacing(self._height, node_gap=1.3 * em, layer_gap=4.2 * em)
        self._layout: Layout = arrange(_downwards(nodes, lines), self._widths, spacing)

    def _text_width(self, text: str, points: float | None = None) -> float:
        font = self._font.copy()
        font.set_size(points or self._points)
        width, _, _ = self._measure.get_text_width_height_descent(text, font, ismath=False)
        return float(width) / 72

    def png(
        self, title: str | None, frames: dict[str, _Pen], legend: list[tuple[_Pen, int]]
    ) -> bytes:
        """Return the picture; ``frames`` are outlines of nodes that differ from the usual."""
        shown = _label(title or "", self._face, _MAX_TITLE)
        above = 0.45 if shown else 0.0
        keys = self._legend_keys(legend)
        heading = self._text_width(shown, _TITLE_POINTS)
        width = max(self._layout.width, heading, keys[-1][0] if keys else 0.0) + 2 * _MARGIN
        below = 0.45 if keys else 0.0
        height = self._layout.height + above + below + 2 * _MARGIN
        dots = min(_DOTS_PER_INCH, MAX_PIXELS / max(width, height))
        figure = self._figure_module.Figure(figsize=(width, height), dpi=dots, facecolor="white")
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, width), ylim=(height, 0))
        axes.set_axis_off()
        self._write(axes, (width / 2, _MARGIN + 0.1), shown, _TITLE_POINTS)
        origin = ((width - self._layout.width) / 2, _MARGIN + above)
        for line in self._lines:
            self._draw_line(axes, line, origin)
        for node in self._labels:
            self._draw_node(axes, node, origin, frames.get(node))
        self._draw_legend(axes, keys, (width, height - _MARGIN))
        target = io.BytesIO()
        self._agg.FigureCanvasAgg(figure).print_png(target, metadata={"Software": None})
        return target.getvalue()

    def _write(self, axes: Any, at: Point, text: str, points: float, align: str = "center") -> None:
        font = self._font.copy()
        font.set_size(points)
        axes.text(
            *at,
            text,
            fontproperties=font,
            color=_INK,
            ha=align,
            va="center_baseline",
            parse_math=False,
            usetex=False,
            zorder=4,
        )

    def _draw_node(self, axes: Any, node: str, origin: Point, frame: _Pen | None) -> None:
        x, y = (sum(pair) for pair in zip(self._layout.centres[node], origin, strict=True))
        width, height = self._widths[node], self._height
        box = self._patches.FancyBboxPatch(
            (x - width / 2, y - height / 2),
            width,
            height,
            boxstyle=f"round,pad=0,rounding_size={height * 0.3}",
            facecolor=_NODE_FACE,
            edgecolor=frame.colour if frame else "#8a939b",
            linewidth=frame.width if frame else 0.8,
            linestyle="--" if frame and frame.dashed else "-",
            zorder=3,
        )
        axes.add_patch(box)
        self._write(axes, (x, y), self._labels[node], self._points)

    def _draw_line(self, axes: Any, line: _Line, origin: Point) -> None:
        source, target = line.edge
        down = (source, target) in self._layout.routes
        route = self._layout.routes[(source, target) if down else (target, source)]
        points = [(x + origin[0], y + origin[1]) for x, y in (route if down else route[::-1])]
        head = (0.55 + 0.12 * line.pen.width) * self._em
        if line.directed:
            tip = points[-1]
            points[-1] = (tip[0], tip[1] - math.copysign(head, tip[1] - points[-2][1]))
            self._draw_head(axes, points[-1], tip, line.pen)
        codes, vertices = [self._path.MOVETO], [points[0]]
        for a, b in pairwise(points):
            middle = 0.45 * (b[1] - a[1])
            codes += [self._path.CURVE4] * 3
            vertices += [(a[0], a[1] + middle), (b[0], b[1] - middle), b]
        self._stroke(axes, self._path(vertices, codes), line.pen)

    def _draw_head(self, axes: Any, base: Point, tip: Point, pen: _Pen) -> None:
        half = 0.42 * abs(tip[1] - base[1])
        corners = [tip, (base[0] - half, base[1]), (base[0] + half, base[1])]
        axes.add_patch(
            self._patches.Polygon(corners, closed=True, color=pen.colour, linewidth=0, zorder=2.5)
        )

    def _stroke(self, axes: Any, path: Any, pen: _Pen) -> None:
        axes.add_patch(
            self._patches.PathPatch(
                path,
                fill=False,
                edgecolor=pen.colour,
                linewidth=pen.width * self._points / _LARGE_POINTS,
                linestyle=(0, (4, 2)) if pen.dashed else "-",
                capstyle="butt",
                zorder=1 if pen is _KEPT else 2,
            )
        )

    def _legend_keys(self, legend: list[tuple[_Pen, int]]) -> list[tuple[float, _Pen | None, str]]:
        """Return where each key begins, and at last where all end."""
        keys: list[tuple[float, _Pen | None, str]] = []
        at = 0.0
        for pen, count in legend:
            text = f"{pen.label} ({count})"
            keys.append((at, pen, text))
            at += 0.42 + self._text_width(text, _KEY_POINTS) + 0.25
        return [*keys, (at - 0.25, None, "")] if keys else []

    def _draw_legend(
        self, axes: Any, keys: list[tuple[float, _Pen | None, str]], corner: Point
    ) -> None:
        start = (corner[0] - keys[-1][0]) / 2 if keys else 0.0
        y = corner[1] - 0.1
        for at, pen, text in keys:
            if pen is not None:
                x = start + at
                self._stroke(axes, self._path([(x, y), (x + 0.34, y)]), pen)
                self._write(axes, (x + 0.42, y), text, _KEY_POINTS, align="left")


def _font_points(n_nodes: int) -> float:
    """Return the size of labels: largest up to 50 nodes, smallest from 200 on."""
    shrunk = _LARGE_POINTS - (_LARGE_POINTS - _SMALL_POINTS) * (n_nodes - 50) / 150
    return min(_LARGE_POINTS, max(_SMALL_POINTS, shrunk))


def _label(name: str, face: Any, length: int) -> str:
    """Return a name as it is shown: one line, not too long, only what the font has."""
    shown = _printable(name)
    if len(shown) > length:
        shown = f"{shown[: length - 1]}…"
    return "".join(c if face.get_char_index(ord(c)) else "\ufffd" for c in shown)


def _printable(text: str) -> str:
    """Write what has no picture, such as a line break, as Python would."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _imported(module: str) -> Any:
    """Import a part of matplotlib when a picture is first asked for."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError("drawing", "plots") from error
