"""The picture of a report: the graph with what changed in it, as inline SVG."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

from driftbn.reporting.labels import PULL
from driftbn.reporting.scene import MAX_NODES, Drawing, Line, LineKind, scene_of
from driftbn.reporting.words import counted, shortened

if TYPE_CHECKING:
    from driftbn.report import WindowReport

_SHRINK = 0.7  # how far a picture may shrink on a narrow screen before it scrolls
_HEAD = (12.0, 8.0)  # lengths of the arrow heads of confirmed and other lines, in pixels


@dataclass(frozen=True)
class Picture:
    """What is drawn of a report.

    Parameters
    ----------
    svg
        The drawing; empty if there is none.
    note
        What is left out of it, or why there is none; empty if all is drawn.
    kinds
        The kinds of lines in it, each with whether it is confirmed.
    marks
        The marks at names in it.
    """

    svg: str
    note: str = ""
    kinds: frozenset[tuple[LineKind, bool]] = frozenset()
    marks: frozenset[str] = frozenset()


def picture_of(report: WindowReport, max_nodes: int = MAX_NODES) -> Picture:
    """Draw the graph of a report with its confirmed changes and its raw differences.

    Parameters
    ----------
    report
        What to draw.
    max_nodes
        Of a graph with more nodes, so many around confirmed changes are drawn.
    """
    scene = scene_of(report, max_nodes)
    if not scene.nodes:
        return Picture("", scene.note)
    return Picture(_svg(Drawing(scene)), scene.note, scene.kinds, scene.marks)


def _svg(drawing: Drawing) -> str:
    lines = drawing.scene.lines
    parts = [_line(drawing, line) for line in lines]
    parts += [_node(drawing, node) for node in drawing.labels]
    parts += [
        f'<text class="sign {_classes(line)}" x="{x:.1f}" y="{y:.1f}">{text}</text>'
        for line, text, (x, y) in drawing.signs()
    ]
    changes = counted(sum(line.confirmed for line in lines), "confirmed change")
    title = f"Graph of {counted(len(drawing.labels), 'field')} with {changes}"
    width, height = drawing.width, drawing.height
    return (
        f'<svg class="graph" role="img" viewBox="0 0 {width:.1f} {height:.1f}"'
        f' style="width:{width:.0f}px;min-width:{_SHRINK * width:.0f}px">'
        f"<title>{title}</title>{''.join(parts)}</svg>"
    )


def _line(drawing: Drawing, line: Line) -> str:
    points = drawing.route(line)
    head = ""
    if line.directed:
        (x, y), size = points[-1], _HEAD[0 if line.confirmed else 1]
        base = y - size if y > points[-2][1] else y + size
        points[-1] = (x, base)
        half = 0.42 * size
        corners = f"{x:.1f},{y:.1f} {x - half:.1f},{base:.1f} {x + half:.1f},{base:.1f}"
        head = f'<polygon points="{corners}"/>'
    path = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for a, b in pairwise(points):
        pull = PULL * (b[1] - a[1])
        path.append(
            f"C{a[0]:.1f} {a[1] + pull:.1f} {b[0]:.1f} {b[1] - pull:.1f} {b[0]:.1f} {b[1]:.1f}"
        )
    source, target = (escape(shortened(name)) for name in line.edge)
    arrow = "→" if line.directed else "–"  # noqa: RUF001 - a dash for a line without a head
    title = f"<title>{source} {arrow} {target}: {_said(line)}</title>"
    return f'<g class="{_classes(line)}">{title}<path d="{"".join(path)}"/>{head}</g>'


def _node(drawing: Drawing, node: str) -> str:
    box, scene = drawing.box(node), drawing.scene
    classes = "node" + " changed" * (node in scene.changed) + " aim" * (node == scene.target)
    return (
        f'<g class="{classes}"><title>{escape(shortened(node))}</title>'
        f'<rect x="{box.x - box.width / 2:.1f}" y="{box.y - box.height / 2:.1f}"'
        f' width="{box.width:.1f}" height="{box.height:.0f}" rx="7"/>'
        f'<text x="{box.x:.1f}" y="{box.y:.1f}">{escape(drawing.labels[node])}</text></g>'
    )


def _classes(line: Line) -> str:
    return f"line {line.kind.value}{' confirmed' if line.confirmed else ''}"


def _said(line: Line) -> str:
    if line.kind is LineKind.KEPT:
        return "kept"
    return f"{line.kind.value}, {'confirmed' if line.confirmed else 'not confirmed'}"
