"""The picture of what changed in a graph, drawn on a sheet."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from driftbn.report import WindowReport
from driftbn.reporting.labels import FONT, PULL
from driftbn.reporting.scene import (
    CHANGED,
    MAX_NODES,
    TARGET,
    Drawing,
    Line,
    LineKind,
    Scene,
    scene_of,
)
from service.reports.canvas import PANEL, SOFT, Area, Canvas, Pen, Point, Stroke

NODE, FRAME = "#ffffff", "#0b62b0"
"""Colours of a node, and of the frame of one that follows another rule."""
COLOURS: Final = {
    LineKind.KEPT: "#8b959f",
    LineKind.ADDED: "#00795a",
    LineKind.REMOVED: "#c22f10",
    LineKind.REVERSED: "#8f5f00",
}
_DASHES: Final = {LineKind.REMOVED: (6.0, 4.0), LineKind.REVERSED: (11.0, 4.0, 2.0, 4.0)}
# Nodes at most, and edges away from a change, that are tried until names can be read.
_CUTS: Final = ((MAX_NODES, 1), (24, 4), (24, 3), (24, 2), (16, 1), (8, 1))
_LARGEST: Final = 1.35  # a small graph is not blown up more than so
_PALE: Final = 0.65


def drawing_for(
    report: WindowReport, room: tuple[float, float], legible: float
) -> tuple[Scene, Drawing | None]:
    """Choose as much of a graph as can be read in the room there is.

    Parameters
    ----------
    report
        What to draw.
    room
        Width and height.
    legible
        Size of letters that can still be read.

    Returns
    -------
    tuple
        What is drawn, whose note says what is left out, and the drawing; ``None`` if there is none.
    """
    best: tuple[Scene, Drawing] | None = None
    for n_nodes, steps in _CUTS:
        scene = scene_of(report, n_nodes, steps=steps)
        if not scene.nodes:
            break
        drawing = Drawing(scene)
        if best is None or _scale(drawing, room) > _scale(best[1], room):
            best = (scene, drawing)
        if _scale(drawing, room) * FONT >= legible:
            break
    return best if best is not None else (scene_of(report), None)


def _scale(drawing: Drawing, room: tuple[float, float]) -> float:
    return min(room[0] / drawing.width, room[1] / drawing.height, _LARGEST)


def paint_graph(canvas: Canvas, drawing: Drawing, area: Area) -> None:
    """Draw a graph in the middle of an area, as large as fits."""
    scale = _scale(drawing, (area.width, area.height))
    left = area.x + (area.width - scale * drawing.width) / 2
    top = area.y + (area.height - scale * drawing.height) / 2
    painter = _Painter(canvas, drawing, scale, (left, top))
    for line in drawing.scene.lines:
        painter.line(line)
    for node in drawing.labels:
        painter.node(node)
    painter.signs()


class _Painter:
    """Draws parts of a graph at their place on the sheet."""

    def __init__(self, canvas: Canvas, drawing: Drawing, scale: float, origin: Point) -> None:
        self._canvas, self._drawing = canvas, drawing
        self._scale, self._origin = scale, origin

    def _at(self, point: Point) -> Point:
        left, top = self._origin
        return left + self._scale * point[0], top + self._scale * point[1]

    def line(self, line: Line) -> None:
        points = self._drawing.route(line)
        stroke = stroke_of(line.kind, line.confirmed, self._scale)
        if line.directed:
            (x, y), size = points[-1], 12.0 if line.confirmed else 8.0
            base = y - size if y > points[-2][1] else y + size
            points[-1] = (x, base)
            corners = [(x, y), (x - 0.42 * size, base), (x + 0.42 * size, base)]
            self._canvas.polygon(map(self._at, corners), stroke.colour, stroke.alpha)
        self._canvas.curve([self._at(point) for point in _bent(points)], stroke)

    def node(self, node: str) -> None:
        box, scene = self._drawing.box(node), self._drawing.scene
        x, y = self._at((box.x - box.width / 2, box.y - box.height / 2))
        area = Area(x, y, self._scale * box.width, self._scale * box.height)
        changed = node in scene.changed
        edge, width = (FRAME, 3.0) if changed else (SOFT, 1.0)
        self._canvas.rectangle(area, NODE, edge, width * self._scale, 7 * self._scale)
        pen = Pen(FONT * self._scale, bold=node == scene.target, align="center")
        self._canvas.text(self._at((box.x, box.y)), self._drawing.labels[node], pen)

    def signs(self) -> None:
        for line, text, place in self._drawing.signs():
            pen = Pen(13 * self._scale, COLOURS[line.kind], line.confirmed, "center")
            self._canvas.text(self._at(place), text, pen, halo=PANEL)


def _bent(points: Sequence[Point]) -> list[Point]:
    """Return the points of the curve through the points of a route."""
    found = [points[0]]
    for a, b in pairwise(points):
        pull = PULL * (b[1] - a[1])
        found += [(a[0], a[1] + pull), (b[0], b[1] - pull), b]
    return found


def stroke_of(kind: LineKind, confirmed: bool, scale: float = 1.0) -> Stroke:
    """Return how a line looks; what may be chance is thin and pale."""
    pale = not confirmed and kind is not LineKind.KEPT
    dashes = tuple(scale * part for part in _DASHES.get(kind, ()))
    width = (3.6 if confirmed else 1.2) * scale
    return Stroke(COLOURS[kind], width, dashes, _PALE if pale else 1.0)


def legend_of(scene: Scene) -> list[tuple[LineKind | None, bool, str]]:
    """Return the keys of a picture: the line if it is one, whether confirmed, and its meaning."""
    keys: list[tuple[LineKind | None, bool, str]] = []
    for confirmed in (True, False):
        for kind in LineKind:
            if (kind, confirmed) in scene.kinds:
                keys.append((kind, confirmed, _meaning(kind, confirmed)))
    if any(not line.directed for line in scene.lines):
        keys.append((None, False, "no arrow head: direction not known"))
    if CHANGED in scene.marks:
        keys.append((None, False, f"{CHANGED} another rule or other shares"))
    if TARGET in scene.marks:
        keys.append((None, False, f"{TARGET} target"))
    return keys


def _meaning(kind: LineKind, confirmed: bool) -> str:
    if kind is LineKind.KEPT:
        return "kept"
    return f"{kind.sign} {kind.value}, {'confirmed' if confirmed else 'may be chance'}"
