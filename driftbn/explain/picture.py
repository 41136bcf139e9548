"""The picture of a graph with what became of its edges: of a report, of a graph, of two graphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

from driftbn.explain.changes import Change
from driftbn.explain.sentences import counted, shortened
from driftbn.explain.svg import FONT, NODE_HEIGHT, Drawing, Key, Point, sheet, text_width
from driftbn.graphs.graph import Dag, Edge, Pdag, compare

if TYPE_CHECKING:
    from driftbn.report import WindowReport

MAX_NODES = 60
"""Nodes of a report's picture; of a larger graph only what is around confirmed changes is drawn."""
MAX_LABEL = 28
"""Characters of a name that are shown."""
TARGET, CHANGED = "◎", "≠"
"""Marks at the names of the target, and of fields that changed."""

_MARGIN = 12.0  # in pixels, as are all lengths
_BOLD = 1.12  # how much wider bold letters are
_HEAD = (12.0, 8.0)  # lengths of the arrow heads of confirmed and other lines
_PULL = 0.45  # how far a curve leaves a point upright, as a share of its height
_SHARES = (0.5, 0.35, 0.65, 0.2, 0.8)  # where on a piece of a line its sign is tried


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
    """An edge to draw: what became of it, whether that is confirmed, whether it has a head."""

    edge: Edge
    kind: LineKind
    confirmed: bool = False
    directed: bool = True

    @property
    def pair(self) -> Edge:
        return min(self.edge), max(self.edge)

    @property
    def classes(self) -> str:
        return f"line {self.kind.value}{' confirmed' if self.confirmed else ''}"


@dataclass(frozen=True)
class Scene:
    """The part of a graph that is drawn.

    ``nodes``: names, sorted; none if there is nothing to draw. ``lines``: plain ones first,
    confirmed changes last. ``note``: what is left out, or why there is nothing; empty if all is
    drawn. ``changed``: fields that follow another rule, or that only one of two graphs has.
    ``target``: the field that the user cares for, if one was named. ``tested``: whether tests say
    what changed; otherwise two graphs are compared as they are.
    """

    nodes: tuple[str, ...]
    lines: tuple[Line, ...]
    note: str = ""
    changed: frozenset[str] = frozenset()
    target: str | None = None
    tested: bool = False

    def said(self, line: Line) -> str:
        if line.kind is LineKind.KEPT or not self.tested:
            return line.kind.value
        return f"{line.kind.value}, {'confirmed' if line.confirmed else 'not confirmed'}"


def scene_of(report: WindowReport, max_nodes: int = MAX_NODES) -> Scene:
    """Choose what to draw of the graph of a report with its confirmed changes and differences.

    ``max_nodes``: of a graph with more nodes, so many around confirmed changes are drawn.
    """
    lines = lines_of(report)
    nodes = sorted({*report.dag.nodes, *(name for line in lines for name in line.edge)})
    shown = set(nodes)
    if len(nodes) > max_nodes:
        shown = set(_near_changes(report, nodes, lines)[:max_nodes])
    n_left = len(nodes) - len(shown)
    note = "" if shown else _why_none(report, nodes)
    if shown and n_left:
        left = counted(n_left, "other field is", "other fields are")
        note = f"Only the surroundings of the confirmed changes are drawn; {left} left out."
    return Scene(
        tuple(sorted(shown)),
        tuple(line for line in lines if {*line.edge} <= shown),
        note,
        frozenset(one.name for one in Change(report).told_decision.node_changes),
        report.target,
        tested=True,
    )


def scene_of_graph(graph: Dag | Pdag) -> Scene:
    return scene_of_graphs(graph, graph)


def scene_of_graphs(previous: Dag | Pdag, current: Dag | Pdag) -> Scene:
    """Return how one graph differs from another: all edges of both, as they are or were.

    >>> scene = scene_of_graphs(Dag("ab", [("a", "b")]), Dag("abc", [("a", "c")]))
    >>> [(line.edge, line.kind.value) for line in scene.lines], sorted(scene.changed)
    ([(('a', 'c'), 'added'), (('a', 'b'), 'removed')], ['c'])
    """
    diff = compare(previous, current)
    kinds = dict.fromkeys(diff.added, LineKind.ADDED)
    kinds |= dict.fromkeys(diff.reversed, LineKind.REVERSED)
    lines = [
        Line(edge, kinds.get(edge, LineKind.KEPT), edge in kinds, directed)
        for edge, directed in _edges(current)
    ]
    lines += [
        Line(edge, LineKind.REMOVED, True, directed)
        for edge, directed in _edges(previous)
        if edge in diff.removed
    ]
    lines.sort(key=lambda line: line.kind is not LineKind.KEPT)
    nodes = sorted({*previous.nodes, *current.nodes})
    changed = frozenset((*diff.nodes_added, *diff.nodes_removed))
    return Scene(tuple(nodes), tuple(lines), changed=changed)


def _edges(graph: Dag | Pdag) -> list[tuple[Edge, bool]]:
    directed = [(edge, True) for edge in graph.directed_edges]
    return directed + [(edge, False) for edge in graph.undirected_edges]


def differences(report: WindowReport) -> list[Line]:
    """Return the edges of a window, and of the one before, with what became of them."""
    kinds = dict.fromkeys(report.diff.added, LineKind.ADDED)
    kinds |= dict.fromkeys(report.diff.reversed, LineKind.REVERSED)
    told = {*report.graph.directed_edges, *report.diff.reversed}
    now = [
        Line(edge, kinds.get(edge, LineKind.KEPT), directed=edge in told)
        for edge in report.dag.edges
    ]
    return now + [Line(edge, LineKind.REMOVED) for edge in report.diff.removed]


def lines_of(report: WindowReport) -> list[Line]:
    """Return the lines of a report's picture: plain ones first, confirmed changes last."""
    confirmed = {edge.pair: edge for edge in Change(report).edges}
    found = [line for line in differences(report) if line.pair not in confirmed]
    found.sort(key=lambda line: (line.kind is not LineKind.KEPT, line.edge))
    return found + [
        Line((edge.source, edge.target), LineKind(edge.change.value), True, edge.directed)
        for edge in sorted(confirmed.values(), key=lambda edge: edge.pair)
    ]


def _near_changes(report: WindowReport, nodes: list[str], lines: list[Line]) -> list[str]:
    """Return the nodes of confirmed changes, strongest first, and then those next to them."""
    decision, known = Change(report).told_decision, set(nodes)
    ends = [name for edge in decision.edges for name in (edge.source, edge.target)]
    found = dict.fromkeys(name for name in (*ends, *decision.nodes) if name in known)
    near = {
        other
        for line in lines
        for name, other in (line.edge, line.edge[::-1])
        if name in found and other not in found
    }
    return [*found, *sorted(near)]


def _why_none(report: WindowReport, nodes: list[str]) -> str:
    if not nodes:
        return "There are no fields to draw."
    edges = counted(len(report.dag.edges), "dependency", "dependencies")
    return (
        f"No change was confirmed; the graph of {counted(len(nodes), 'field')} and {edges} is too"
        " large to be read as a picture and is not drawn."
    )


def legend_of(scene: Scene) -> list[Key]:
    lines = {line.classes: line for line in scene.lines}
    order = list(LineKind)
    keys = [
        Key(line.classes, _meaning(scene, line))
        for line in sorted(lines.values(), key=lambda one: (-one.confirmed, order.index(one.kind)))
    ]
    return keys + [Key("", text) for text in _notes(scene)]


def _meaning(scene: Scene, line: Line) -> str:
    text = f"{line.kind.sign} {line.kind.value}".lstrip()
    if line.kind is LineKind.KEPT or not scene.tested:
        return text
    if line.confirmed:
        return f"{text}, confirmed by a test"
    return f"{text} since the window before, not confirmed"


def _notes(scene: Scene) -> list[str]:
    notes = []
    if any(not line.directed for line in scene.lines):
        notes.append("no arrow head: the data do not tell the direction")
    if any(line.kind is not LineKind.KEPT and not line.confirmed for line in scene.lines):
        notes.append("thin and pale: differences such as come by chance between any two windows")
    if scene.changed.intersection(scene.nodes):
        rule = "follows another rule, or its values come in other shares"
        notes.append(f"{CHANGED} {rule if scene.tested else 'is in one of the graphs only'}")
    if scene.target in scene.nodes:
        notes.append(f"{TARGET} target")
    return notes


def picture_of(heading: str, texts: Iterable[str], scene: Scene, *more: Drawing) -> Drawing:
    """Return a scene with its legend as a sheet of its own, texts above it and drawings below."""
    graph = [drawing_of(scene)] if scene.nodes else []
    return sheet(heading, (*texts, scene.note), [*graph, *more], legend_of(scene))


def drawing_of(scene: Scene) -> Drawing:
    """Draw a scene that has nodes: causes above effects, changes by colour, dash and word."""
    placed = _Placed(scene)
    parts = [_line(placed, line) for line in scene.lines]
    parts += [_node(placed, node) for node in scene.nodes]
    parts += [
        f'<text class="sign {line.classes}" x="{x:.1f}" y="{y:.1f}">{text}</text>'
        for line, text, (x, y) in placed.signs()
    ]
    changes = counted(sum(line.confirmed for line in scene.lines), "confirmed change")
    title = f"Graph of {counted(len(scene.nodes), 'field')}{f' with {changes}' * scene.tested}"
    return Drawing("graph", title, placed.width, placed.height, "".join(parts))


def _line(placed: _Placed, line: Line) -> str:
    points = placed.route(line)
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
        pull = _PULL * (b[1] - a[1])
        path.append(
            f"C{a[0]:.1f} {a[1] + pull:.1f} {b[0]:.1f} {b[1] - pull:.1f} {b[0]:.1f} {b[1]:.1f}"
        )
    source, target = (escape(shortened(name)) for name in line.edge)
    arrow = "→" if line.directed else "–"  # noqa: RUF001 - a dash for a line without a head
    title = f"<title>{source} {arrow} {target}: {placed.scene.said(line)}</title>"
    return f'<g class="{line.classes}">{title}<path d="{"".join(path)}"/>{head}</g>'


def _node(placed: _Placed, node: str) -> str:
    box, scene = placed.box(node), placed.scene
    classes = "node" + " changed" * (node in scene.changed) + " aim" * (node == scene.target)
    return (
        f'<g class="{classes}"><title>{escape(shortened(node))}</title>'
        f'<rect x="{box.x - box.width / 2:.1f}" y="{box.y - box.height / 2:.1f}"'
        f' width="{box.width:.1f}" height="{box.height:.0f}" rx="7"/>'
        f'<text x="{box.x:.1f}" y="{box.y:.1f}">{escape(placed.labels[node])}</text></g>'
    )


@dataclass(frozen=True)
class _Box:
    x: float
    y: float
    width: float
    height: float

    def meets(self, other: _Box) -> bool:
        beside = abs(self.x - other.x) >= (self.width + other.width) / 2
        return not beside and abs(self.y - other.y) < (self.height + other.height) / 2


class _Placed:
    """A scene with coordinates, y downwards."""

    def __init__(self, scene: Scene) -> None:
        # Here because a layout imports scipy.optimize, and most who import a report draw none.
        from driftbn.explain.layout import arrange  # noqa: PLC0415

        self.scene = scene
        self.labels = {node: self._label(node) for node in scene.nodes}
        self._widths = {node: self._width(node) for node in scene.nodes}
        self._layout = arrange(_downwards(scene), self._widths)
        self.width = self._layout.width + 2 * _MARGIN
        self.height = self._layout.height + 2 * _MARGIN

    def _label(self, node: str) -> str:
        aim = f"{TARGET} " if node == self.scene.target else ""
        changed = f" {CHANGED}" if node in self.scene.changed else ""
        return f"{aim}{shortened(node, MAX_LABEL)}{changed}"

    def _width(self, node: str) -> float:
        bold = _BOLD if node == self.scene.target else 1.0
        return bold * text_width(self.labels[node]) + 22

    def box(self, node: str) -> _Box:
        x, y = self._layout.centres[node]
        return _Box(x + _MARGIN, y + _MARGIN, self._widths[node], NODE_HEIGHT)

    def route(self, line: Line) -> list[Point]:
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
                (line, text, _free_place(_places_on(self.route(line)), text_width(text), taken))
            )
        return found


def _places_on(points: list[Point]) -> list[Point]:
    """Return points on a route where a sign may stand, the best first.

    Every second piece of a route passes by nodes; the others lie between two layers.
    """
    pieces = range(0, len(points) - 1, 2)
    ordered = sorted(pieces, key=lambda piece: abs(piece - (len(points) - 2) / 2))
    return [
        _on_curve(points[piece], points[piece + 1], share) for piece in ordered for share in _SHARES
    ]


def _on_curve(a: Point, b: Point, share: float) -> Point:
    """Return a point of the curve that a picture has between two points."""
    rest = 1 - share
    early, late = 3 * rest**2 * share, 3 * rest * share**2
    x = a[0] * (rest**3 + early) + b[0] * (share**3 + late)
    pull = _PULL * (b[1] - a[1])
    y = a[1] * (rest**3 + early) + b[1] * (share**3 + late) + pull * (early - late)
    return x, y


def _free_place(places: list[Point], width: float, taken: list[_Box]) -> Point:
    """Return the first place that is free, or the first of all, and take it."""
    boxes = [_Box(*place, width, FONT) for place in places]
    free = (box for box in boxes if not any(box.meets(other) for other in taken))
    chosen = next(free, boxes[0])
    taken.append(chosen)
    return chosen.x, chosen.y


def _downwards(scene: Scene) -> Dag:
    """Return all lines as one DAG in the order of those that are there now."""
    now = [line.edge for line in scene.lines if line.kind is not LineKind.REMOVED]
    place = {node: i for i, node in enumerate(_order(scene.nodes, now))}
    edges = {(a, b) if place[a] < place[b] else (b, a) for a, b in (e.edge for e in scene.lines)}
    return Dag(scene.nodes, edges)


def _order(nodes: Sequence[str], edges: Iterable[Edge]) -> list[str]:
    """Return nodes with parents first; in a cycle the node that waits for fewest comes first."""
    waiting: dict[str, set[str]] = {node: set() for node in nodes}
    for source, target in edges:
        waiting[target].add(source)
    order = []
    while waiting:
        first = min(waiting, key=lambda node: (len(waiting[node]), node))
        order.append(first)
        del waiting[first]
        for parents in waiting.values():
            parents.discard(first)
    return order
