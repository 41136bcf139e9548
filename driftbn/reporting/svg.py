"""The picture of a report: the graph with what changed in it, as inline SVG."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

from driftbn.decision.outcome import ChangeType
from driftbn.graph import Dag, Edge
from driftbn.reporting.labels import PULL, Box, free_place, places_on, text_width
from driftbn.reporting.words import counted, shortened

if TYPE_CHECKING:
    from driftbn.layout import Layout, Point
    from driftbn.report import WindowReport

MAX_NODES = 60
"""Nodes of a picture; of a larger graph only what is around confirmed changes is drawn."""
MAX_LABEL = 28
"""Characters of a name that are shown."""
TARGET, CHANGED = "◎", "≠"
"""Marks at the names of the target, and of fields that follow another rule."""

_HEIGHT = 30.0  # pixels, as are all lengths below
_MARGIN = 12.0
_BOLD = 1.12  # how much wider bold letters are
_SHRINK = 0.7  # how far a picture may shrink on a narrow screen before it scrolls
_HEAD = (12.0, 8.0)  # lengths of the arrow heads of confirmed and other lines


class LineKind(Enum):
    """What a line says; the value is its class in the style sheet."""

    KEPT = "kept"
    GAINED = "gained"
    LOST = "lost"
    TURNED = "turned"

    @property
    def sign(self) -> str:
        """The mark on the line, so that nobody needs to tell colours apart."""
        return {"kept": "", "gained": "+", "lost": "−", "turned": "⇄"}[self.value]  # noqa: RUF001


_KINDS = {
    ChangeType.ADDED: LineKind.GAINED,
    ChangeType.REMOVED: LineKind.LOST,
    ChangeType.REVERSED: LineKind.TURNED,
}


@dataclass(frozen=True)
class Line:
    """An edge to draw: what became of it, whether a test confirms that, whether it has a head."""

    edge: Edge
    kind: LineKind
    confirmed: bool = False
    directed: bool = True


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
    lines = lines_of(report)
    nodes = sorted({*report.dag.nodes, *(name for line in lines for name in line.edge)})
    shown = set(nodes)
    if len(nodes) > max_nodes:
        shown = set(_near_changes(report, nodes, lines)[:max_nodes])
    if not shown:
        return Picture("", _why_none(report, nodes))
    drawn = [line for line in lines if {*line.edge} <= shown]
    n_left = len(nodes) - len(shown)
    note = ""
    if n_left:
        left = counted(n_left, "other field is", "other fields are")
        note = f"Only the surroundings of the confirmed changes are drawn; {left} left out."
    kinds = frozenset((line.kind, line.confirmed) for line in drawn)
    moved = {change.name for change in report.decision.node_changes}
    changed = {CHANGED} if shown & moved else set()
    marks = frozenset(changed | ({TARGET} if report.target in shown else set()))
    return Picture(_Drawing(report, sorted(shown), drawn).svg(), note, kinds, marks)


def lines_of(report: WindowReport) -> list[Line]:
    """Return the lines of a report's picture: plain ones first, confirmed changes last."""
    confirmed = {edge.pair: edge for edge in report.decision.edges}
    raw = dict.fromkeys(report.diff.added, LineKind.GAINED)
    raw |= dict.fromkeys(report.diff.reversed, LineKind.TURNED)
    told = set(report.graph.directed_edges)
    found = []
    for edge in report.dag.edges:
        kind = raw.get(edge, LineKind.KEPT)
        found.append(Line(edge, kind, directed=edge in told or kind is LineKind.TURNED))
    found += [Line(edge, LineKind.LOST) for edge in report.diff.removed]
    found = [line for line in found if (min(line.edge), max(line.edge)) not in confirmed]
    found.sort(key=lambda line: (line.kind is not LineKind.KEPT, line.edge))
    return found + [
        Line((edge.source, edge.target), _KINDS[edge.change], True, edge.directed)
        for edge in sorted(confirmed.values(), key=lambda edge: edge.pair)
    ]


def _near_changes(report: WindowReport, nodes: list[str], lines: list[Line]) -> list[str]:
    """Return the nodes of confirmed changes, strongest first, and then their neighbours."""
    decision, known = report.decision, set(nodes)
    ends = [name for edge in decision.edges for name in (edge.source, edge.target)]
    centre = dict.fromkeys(name for name in (*ends, *decision.nodes) if name in known)
    near = sorted(
        {
            other
            for line in lines
            for name, other in (line.edge, line.edge[::-1])
            if name in centre and other not in centre
        }
    )
    return [*centre, *near]


def _why_none(report: WindowReport, nodes: list[str]) -> str:
    if not nodes:
        return "There are no fields to draw."
    edges = counted(len(report.dag.edges), "dependency", "dependencies")
    return (
        f"No change was confirmed; the graph of {counted(len(nodes), 'field')} and {edges} is too"
        " large to be read as a picture and is not drawn."
    )


class _Drawing:
    """A graph in pixels, y downwards."""

    def __init__(self, report: WindowReport, nodes: list[str], lines: list[Line]) -> None:
        self._lines = lines
        self._changed = {change.name for change in report.decision.node_changes}
        self._target = report.target
        self._labels = {node: self._label(node) for node in nodes}
        self._widths = {node: self._width(node) for node in nodes}
        self._layout = _arranged(_downwards(report.dag, nodes, lines), self._widths)

    def _label(self, node: str) -> str:
        aim = f"{TARGET} " if node == self._target else ""
        changed = f" {CHANGED}" if node in self._changed else ""
        return f"{aim}{shortened(node, MAX_LABEL)}{changed}"

    def _width(self, node: str) -> float:
        bold = _BOLD if node == self._target else 1.0
        return bold * text_width(self._labels[node]) + 22

    def svg(self) -> str:
        width = self._layout.width + 2 * _MARGIN
        height = self._layout.height + 2 * _MARGIN
        parts = [self._line(line) for line in self._lines]
        parts += [self._node(node) for node in self._labels]
        parts += self._signs()
        return (
            f'<svg class="graph" role="img" viewBox="0 0 {width:.1f} {height:.1f}"'
            f' style="width:{width:.0f}px;min-width:{_SHRINK * width:.0f}px">'
            f"<title>{self._title()}</title>{''.join(parts)}</svg>"
        )

    def _title(self) -> str:
        n_confirmed = sum(line.confirmed for line in self._lines)
        changes = counted(n_confirmed, "confirmed change")
        return f"Graph of {counted(len(self._labels), 'field')} with {changes}"

    def _route(self, line: Line) -> list[Point]:
        """Return the points of a line from its source to its target."""
        down = line.edge in self._layout.routes
        route = self._layout.routes[line.edge if down else line.edge[::-1]]
        return [(x + _MARGIN, y + _MARGIN) for x, y in (route if down else route[::-1])]

    def _line(self, line: Line) -> str:
        points = self._route(line)
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

    def _signs(self) -> list[str]:
        """Write the signs on the lines, confirmed ones first, where there is room."""
        taken = [self._box(node) for node in self._labels]
        found = []
        for line in sorted(self._lines, key=lambda line: not line.confirmed):
            if not line.kind.sign:
                continue
            text = f"{line.kind.sign} {line.kind.value}" if line.confirmed else line.kind.sign
            x, y = free_place(places_on(self._route(line)), text_width(text), taken)
            found.append(
                f'<text class="sign {_classes(line)}" x="{x:.1f}" y="{y:.1f}">{text}</text>'
            )
        return found

    def _box(self, node: str) -> Box:
        x, y = self._layout.centres[node]
        return Box(x + _MARGIN, y + _MARGIN, self._widths[node], _HEIGHT)

    def _node(self, node: str) -> str:
        box = self._box(node)
        classes = "node" + " changed" * (node in self._changed) + " aim" * (node == self._target)
        return (
            f'<g class="{classes}"><title>{escape(shortened(node))}</title>'
            f'<rect x="{box.x - box.width / 2:.1f}" y="{box.y - box.height / 2:.1f}"'
            f' width="{box.width:.1f}" height="{box.height:.0f}" rx="7"/>'
            f'<text x="{box.x:.1f}" y="{box.y:.1f}">{escape(self._labels[node])}</text></g>'
        )


def _classes(line: Line) -> str:
    return f"line {line.kind.value}{' confirmed' if line.confirmed else ''}"


def _said(line: Line) -> str:
    if line.kind is LineKind.KEPT:
        return "kept"
    return f"{line.kind.value}, {'confirmed' if line.confirmed else 'not confirmed'}"


def _downwards(dag: Dag, nodes: list[str], lines: list[Line]) -> Dag:
    """Return all lines as one DAG in the order of ``dag``; what points against it points up."""
    order = {node: i for i, node in enumerate(dag.topological_order())}
    last = len(order)
    edges = {
        (a, b) if (order.get(a, last), a) < (order.get(b, last), b) else (b, a)
        for a, b in (line.edge for line in lines)
    }
    return Dag(nodes, edges)


def _arranged(dag: Dag, widths: dict[str, float]) -> Layout:
    # Here because a layout imports networkx, and most who import a report never draw one.
    from driftbn.layout import Spacing, arrange  # noqa: PLC0415

    return arrange(dag, widths, Spacing(_HEIGHT, node_gap=22.0, layer_gap=58.0))
