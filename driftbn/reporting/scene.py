"""What the picture of a report shows and where: any way of drawing starts from this."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from driftbn.graph import Dag, Edge
from driftbn.reporting.labels import Box, free_place, places_on, text_width
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


class LineKind(Enum):
    """What a line says; the value is its class in the style sheet."""

    KEPT = "kept"
    ADDED = "added"
    REMOVED = "removed"
    REVERSED = "reversed"

    @property
    def sign(self) -> str:
        """The mark on the line, so that nobody needs to tell colours apart."""
        return {"kept": "", "added": "+", "removed": "−", "reversed": "⇄"}[self.value]  # noqa: RUF001


@dataclass(frozen=True)
class Line:
    """An edge to draw: what became of it, whether a test confirms that, whether it has a head."""

    edge: Edge
    kind: LineKind
    confirmed: bool = False
    directed: bool = True


@dataclass(frozen=True)
class Scene:
    """The part of a graph that is drawn.

    Parameters
    ----------
    nodes
        Names, sorted; none if there is nothing to draw.
    lines
        Plain ones first, confirmed changes last.
    note
        What is left out, or why there is nothing; empty if all is drawn.
    changed
        Fields that follow another rule.
    target
        The field that the user cares for, if one was named.
    dag
        The whole graph, whose order says what stands above what.
    """

    nodes: tuple[str, ...]
    lines: tuple[Line, ...]
    note: str
    changed: frozenset[str]
    target: str | None
    dag: Dag = field(repr=False)

    @property
    def kinds(self) -> frozenset[tuple[LineKind, bool]]:
        """The kinds of lines, each with whether it is confirmed."""
        return frozenset((line.kind, line.confirmed) for line in self.lines)

    @property
    def marks(self) -> frozenset[str]:
        """The marks at names."""
        changed = {CHANGED} if self.changed.intersection(self.nodes) else set()
        return frozenset(changed | ({TARGET} if self.target in self.nodes else set()))


def scene_of(report: WindowReport, max_nodes: int = MAX_NODES, *, steps: int = 1) -> Scene:
    """Choose what to draw of the graph of a report with its confirmed changes and differences.

    Parameters
    ----------
    report
        What to draw.
    max_nodes
        Of a graph with more nodes, so many around confirmed changes are drawn.
    steps
        How many edges away from a change that may be.
    """
    lines = lines_of(report)
    nodes = sorted({*report.dag.nodes, *(name for line in lines for name in line.edge)})
    shown = set(nodes)
    if len(nodes) > max_nodes:
        shown = set(_near_changes(report, nodes, lines, steps)[:max_nodes])
    n_left = len(nodes) - len(shown)
    note = "" if shown else _why_none(report, nodes)
    if shown and n_left:
        left = counted(n_left, "other field is", "other fields are")
        note = f"Only the surroundings of the confirmed changes are drawn; {left} left out."
    return Scene(
        tuple(sorted(shown)),
        tuple(line for line in lines if {*line.edge} <= shown),
        note,
        frozenset(change.name for change in report.decision.node_changes),
        report.target,
        report.dag,
    )


def lines_of(report: WindowReport) -> list[Line]:
    """Return the lines of a report's picture: plain ones first, confirmed changes last."""
    confirmed = {edge.pair: edge for edge in report.decision.edges}
    raw = dict.fromkeys(report.diff.added, LineKind.ADDED)
    raw |= dict.fromkeys(report.diff.reversed, LineKind.REVERSED)
    told = set(report.graph.directed_edges)
    found = []
    for edge in report.dag.edges:
        kind = raw.get(edge, LineKind.KEPT)
        found.append(Line(edge, kind, directed=edge in told or kind is LineKind.REVERSED))
    found += [Line(edge, LineKind.REMOVED) for edge in report.diff.removed]
    found = [line for line in found if (min(line.edge), max(line.edge)) not in confirmed]
    found.sort(key=lambda line: (line.kind is not LineKind.KEPT, line.edge))
    return found + [
        Line((edge.source, edge.target), LineKind(edge.change.value), True, edge.directed)
        for edge in sorted(confirmed.values(), key=lambda edge: edge.pair)
    ]


def _near_changes(
    report: WindowReport, nodes: list[str], lines: list[Line], steps: int
) -> list[str]:
    """Return the nodes of confirmed changes, strongest first, and then those around them."""
    decision, known = report.decision, set(nodes)
    ends = [name for edge in decision.edges for name in (edge.source, edge.target)]
    found = dict.fromkeys(name for name in (*ends, *decision.nodes) if name in known)
    for _ in range(steps):
        near = {
            other
            for line in lines
            for name, other in (line.edge, line.edge[::-1])
            if name in found and other not in found
        }
        found |= dict.fromkeys(sorted(near))
    return list(found)


def _why_none(report: WindowReport, nodes: list[str]) -> str:
    if not nodes:
        return "There are no fields to draw."
    edges = counted(len(report.dag.edges), "dependency", "dependencies")
    return (
        f"No change was confirmed; the graph of {counted(len(nodes), 'field')} and {edges} is too"
        " large to be read as a picture and is not drawn."
    )


class Drawing:
    """A scene with coordinates in pixels of letters that are 14 high, y downwards.

    Parameters
    ----------
    scene
        What to draw; at least one node.

    Attributes
    ----------
    scene
        As given.
    labels
        What stands in the box of each node.
    width, height
        Size of the whole.
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.labels = {node: self._label(node) for node in scene.nodes}
        self._widths = {node: self._width(node) for node in scene.nodes}
        self._layout = _arranged(_downwards(scene), self._widths)
        self.width = self._layout.width + 2 * _MARGIN
        self.height = self._layout.height + 2 * _MARGIN

    def _label(self, node: str) -> str:
        aim = f"{TARGET} " if node == self.scene.target else ""
        changed = f" {CHANGED}" if node in self.scene.changed else ""
        return f"{aim}{shortened(node, MAX_LABEL)}{changed}"

    def _width(self, node: str) -> float:
        bold = _BOLD if node == self.scene.target else 1.0
        return bold * text_width(self.labels[node]) + 22

    def box(self, node: str) -> Box:
        """Return where a node stands."""
        x, y = self._layout.centres[node]
        return Box(x + _MARGIN, y + _MARGIN, self._widths[node], _HEIGHT)

    def route(self, line: Line) -> list[Point]:
        """Return the points of a line from its source to its target."""
        down = line.edge in self._layout.routes
        route = self._layout.routes[line.edge if down else line.edge[::-1]]
        return [(x + _MARGIN, y + _MARGIN) for x, y in (route if down else route[::-1])]

    def signs(self) -> list[tuple[Line, str, Point]]:
        """Return the signs on the lines, confirmed ones first, where there is room."""
        taken = [self.box(node) for node in self.labels]
        found = []
        for line in sorted(self.scene.lines, key=lambda line: not line.confirmed):
            if not line.kind.sign:
                continue
            text = f"{line.kind.sign} {line.kind.value}" if line.confirmed else line.kind.sign
            found.append(
                (line, text, free_place(places_on(self.route(line)), text_width(text), taken))
            )
        return found


def _downwards(scene: Scene) -> Dag:
    """Return all lines as one DAG in the graph's order; what points against it points up."""
    order = {node: i for i, node in enumerate(scene.dag.topological_order())}
    last = len(order)
    edges = {
        (a, b) if (order.get(a, last), a) < (order.get(b, last), b) else (b, a)
        for a, b in (line.edge for line in scene.lines)
    }
    return Dag(scene.nodes, edges)


def _arranged(dag: Dag, widths: dict[str, float]) -> Layout:
    # Here because a layout imports networkx, and most who import a report never draw one.
    from driftbn.layout import Spacing, arrange  # noqa: PLC0415

    return arrange(dag, widths, Spacing(_HEIGHT, node_gap=22.0, layer_gap=58.0))
