"""Where the nodes and edges of a drawing go: layers from top to bottom, few crossings.

The steps are those of Sugiyama, Tagawa and Toda (1981): layers by longest path, order within the
layers by barycentres, then coordinates. Everything is decided by names and sizes, so the same graph
always gives the same picture.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.optimize import isotonic_regression

from driftbn.explain.svg import NODE_HEIGHT, Point
from driftbn.graphs.graph import Dag, Edge

_NODE_GAP, _LAYER_GAP = 22.0, 58.0  # least space between two nodes of a layer, and two layers
_WIDE = 1.7  # width over height to aim at; a screen is that wide
_N_ORDER_SWEEPS = 16  # crossings seldom fall after a dozen
_N_PLACE_SWEEPS = 24
_BEND_WEIGHT = 8.0  # pull between two bends of one edge: long edges become straight


@dataclass(frozen=True)
class Layout:
    """A graph with coordinates; x grows to the right and y downwards, both from 0.

    ``routes``: for each edge the points it passes, from the lower border of the upper node to the
    upper border of the lower node.
    """

    width: float
    height: float
    centres: dict[str, Point]
    routes: dict[Edge, tuple[Point, ...]]


def arrange(dag: Dag, widths: Mapping[str, float]) -> Layout:
    """Lay out a graph so that every edge points downwards.

    Parts that are not connected stand side by side, in rows.

    >>> layout = arrange(Dag("ab", [("a", "b")]), {"a": 40.0, "b": 40.0})
    >>> layout.centres
    {'a': (20.0, 15.0), 'b': (20.0, 103.0)}
    >>> layout.routes["a", "b"]
    ((20.0, 30.0), (20.0, 88.0))
    """
    parts = []
    for connected in _connected(dag):
        part = _Part(connected, widths)
        _order_layers(part)
        parts.append(_placed(part))
    parts.sort(key=lambda part: (-part.height, -len(part.centres), min(part.centres)))
    return _packed(parts)


def _connected(dag: Dag) -> list[Dag]:
    """Return the connected parts of a graph."""
    part_of = {name: [name] for name in dag.nodes}
    for source, target in dag.edges:
        part, other = part_of[source], part_of[target]
        if part is not other:
            part += other
            part_of |= dict.fromkeys(other, part)
    parts = {id(part): part for part in part_of.values()}.values()
    return [Dag(part, [edge for edge in dag.edges if part_of[edge[0]] is part]) for part in parts]


def _packed(parts: list[Layout]) -> Layout:
    """Put parts side by side in rows, highest first."""
    gap = 2 * _NODE_GAP
    area = sum((part.width + gap) * (part.height + gap) for part in parts)
    room = max([part.width for part in parts] + [_WIDE * math.sqrt(area / _WIDE)], default=0.0)
    centres: dict[str, Point] = {}
    routes: dict[Edge, tuple[Point, ...]] = {}
    left = top = row_height = width = 0.0
    for part in parts:
        if left and left + part.width > room:
            left, top, row_height = 0.0, top + row_height + gap, 0.0
        centres |= {name: (x + left, y + top) for name, (x, y) in part.centres.items()}
        routes |= {
            edge: tuple((x + left, y + top) for x, y in points)
            for edge, points in part.routes.items()
        }
        width, row_height = max(width, left + part.width), max(row_height, part.height)
        left += part.width + gap
    return Layout(width, top + row_height, centres, routes)


class _Part:
    """A connected graph on its way to a layout; nodes come first, then the bends of long edges.

    ``layers``: layer, then place: number of node or bend. ``chains``: what each edge runs through.
    """

    def __init__(self, graph: Dag, widths: Mapping[str, float]) -> None:
        self.names, self.widths = graph.nodes, widths
        depth = _layers_of(graph, widths)
        self.layers: list[list[int]] = [[] for _ in range(max(depth.values()) + 1)]
        self.chains: dict[Edge, list[int]] = {}
        number = {name: i for i, name in enumerate(self.names)}
        size = len(self.names)
        for u, v in graph.edges:
            n_bends = depth[v] - depth[u] - 1
            self.chains[u, v] = [number[u], *range(size, size + n_bends), number[v]]
            for i, bend in enumerate(range(size, size + n_bends)):
                self.layers[depth[u] + 1 + i].append(bend)
            size += n_bends
        self.above: list[list[int]] = [[] for _ in range(size)]
        self.below: list[list[int]] = [[] for _ in range(size)]
        for chain in self.chains.values():
            for upper, lower in pairwise(chain):
                self.below[upper].append(lower)
                self.above[lower].append(upper)
        for name in self.names:
            self.layers[depth[name]].append(number[name])

    def is_bend(self, vertex: int) -> bool:
        return vertex >= len(self.names)

    def width(self, vertex: int) -> float:
        return 0.0 if self.is_bend(vertex) else self.widths[self.names[vertex]]


def _layers_of(graph: Dag, widths: Mapping[str, float]) -> dict[str, int]:
    """Give each node a layer below its parents; a layer that is full passes nodes on."""
    room = _room(graph, widths)
    longest: dict[str, int] = {}
    for node in graph.topological_order():
        longest[node] = max((longest[p] + 1 for p in graph.parents(node)), default=0)
    filled: dict[int, float] = {}
    layer: dict[str, int] = {}
    for node in sorted(longest, key=lambda n: (longest[n], not graph.children(n), n)):
        at = max((layer[p] + 1 for p in graph.parents(node)), default=0)
        size = widths[node] + _NODE_GAP
        while filled.get(at, 0.0) and filled[at] + size > room:
            at += 1
        filled[at] = filled.get(at, 0.0) + size
        layer[node] = at
    for node in sorted(layer, key=lambda n: (-layer[n], n)):
        _lower(node, graph, layer)
    used = sorted(set(layer.values()))
    return {node: used.index(at) for node, at in layer.items()}


def _room(graph: Dag, widths: Mapping[str, float]) -> float:
    total = sum(widths[node] + _NODE_GAP for node in graph.nodes)
    height = NODE_HEIGHT + _LAYER_GAP
    widest = max(widths[node] for node in graph.nodes)
    return max(8 * widest, _WIDE * math.sqrt(total * height))


def _lower(node: str, graph: Dag, layer: dict[str, int]) -> None:
    """Move a node down to its children if that makes its edges shorter."""
    children = [layer[child] for child in graph.children(node)]
    if children and len(children) > len(graph.parents(node)):
        layer[node] = min(children) - 1


def _order_layers(part: _Part) -> None:
    """Order each layer by the mean place of the neighbours, and keep the best order seen."""
    for layer, found in zip(part.layers, _first_order(part), strict=True):
        layer[:] = found
    best, fewest = [list(layer) for layer in part.layers], _n_crossings(part)
    for sweep in range(_N_ORDER_SWEEPS):
        downwards = sweep % 2 == 0
        neighbours = part.above if downwards else part.below
        for layer, fixed in _layer_pairs(part, downwards):
            place = {vertex: i for i, vertex in enumerate(fixed)}
            key = {
                vertex: _mean([place[n] for n in neighbours[vertex]], i)
                for i, vertex in enumerate(layer)
            }
            layer.sort(key=key.__getitem__)
        _swap_neighbours(part)
        crossings = _n_crossings(part)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in part.layers], crossings
    part.layers = best


def _first_order(part: _Part) -> list[list[int]]:
    """Walk the graph depth first, so that what hangs together starts together."""
    at = {vertex: i for i, layer in enumerate(part.layers) for vertex in layer}
    found: list[list[int]] = [[] for _ in part.layers]
    seen: set[int] = set()
    stack = sorted(at, key=lambda v: (at[v], v), reverse=True)
    while stack:
        vertex = stack.pop()
        if vertex in seen:
            continue
        seen.add(vertex)
        found[at[vertex]].append(vertex)
        stack += sorted(part.above[vertex] + part.below[vertex], reverse=True)
    return found


def _layer_pairs(part: _Part, downwards: bool) -> list[tuple[list[int], list[int]]]:
    """Return the layers to move, each with the one it is moved against."""
    ordered = part.layers if downwards else part.layers[::-1]
    return list(zip(ordered[1:], ordered, strict=False))


def _mean(values: list[int], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _swap_neighbours(part: _Part) -> None:
    """Swap two neighbours of a layer wherever that leaves fewer crossings."""
    place = {vertex: i for layer in part.layers for i, vertex in enumerate(layer)}
    for layer in part.layers:
        for i in range(len(layer) - 1):
            left, right = layer[i], layer[i + 1]
            gain = 0
            for neighbours in (part.above, part.below):
                ours = [place[n] for n in neighbours[left]]
                theirs = [place[n] for n in neighbours[right]]
                gain += sum((a > b) - (a < b) for a in ours for b in theirs)
            if gain > 0:
                layer[i], layer[i + 1] = right, left
                place[left], place[right] = i + 1, i


def _n_crossings(part: _Part) -> int:
    total = 0
    for upper, lower in pairwise(part.layers):
        place = {vertex: i for i, vertex in enumerate(lower)}
        seen: list[int] = []
        for vertex in upper:
            ends = sorted(place[n] for n in part.below[vertex])
            total += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return total


def _placed(part: _Part) -> Layout:
    """Return where everything of a part goes whose layers are in order."""
    x = _places(part)
    y = _heights(part, x)
    half = NODE_HEIGHT / 2
    centres = {name: (x[i], y[i]) for i, name in enumerate(part.names)}
    ports = _ports(part, x)
    routes: dict[Edge, tuple[Point, ...]] = {}
    for edge, chain in part.chains.items():
        points = [(ports[edge][0], y[chain[0]] + half)]
        for bend in chain[1:-1]:
            points += [(x[bend], y[bend] - half), (x[bend], y[bend] + half)]
        routes[edge] = (*points, (ports[edge][1], y[chain[-1]] - half))
    right = max(x[v] + part.width(v) / 2 for layer in part.layers for v in layer)
    return Layout(right, max(y) + half, centres, routes)


def _places(part: _Part) -> list[float]:
    """Give each vertex an x close to its neighbours, without changing the order of its layer."""
    x = [0.0] * len(part.above)
    offsets = []
    for layer in part.layers:
        steps = [_distance(part, left, right) for left, right in pairwise(layer)]
        offsets.append(np.cumsum([0.0, *steps]))
        for vertex, place in zip(layer, offsets[-1].tolist(), strict=True):
            x[vertex] = place
    for sweep in range(_N_PLACE_SWEEPS):
        layers = list(zip(part.layers, offsets, strict=True))
        settled = sweep >= _N_PLACE_SWEEPS // 2  # first one side, then both
        for layer, offset in layers if sweep % 2 == 0 else layers[::-1]:
            wishes = [_wish(part, x, v, None if settled else sweep % 2 == 0) for v in layer]
            wanted = np.array([place for place, _ in wishes]) - offset
            weights = np.array([weight for _, weight in wishes])
            found = isotonic_regression(wanted, weights=weights).x + offset
            for vertex, place in zip(layer, found.tolist(), strict=True):
                x[vertex] = place
    left = min(x[v] - part.width(v) / 2 for layer in part.layers for v in layer)
    return [place - left for place in x]


def _distance(part: _Part, left: int, right: int) -> float:
    bends = part.is_bend(left) + part.is_bend(right)
    gap = _NODE_GAP * (1.0, 0.7, 0.5)[bends]
    return (part.width(left) + part.width(right)) / 2 + gap


def _wish(part: _Part, x: list[float], vertex: int, from_above: bool | None) -> Point:
    """Return where a vertex is drawn to, and how strongly; ``None`` asks both sides."""
    total = weight = 0.0
    sides = {True: part.above[vertex], False: part.below[vertex]}
    if from_above is not None and sides[from_above]:
        del sides[not from_above]
    for other in (n for side in sides.values() for n in side):
        pull = _BEND_WEIGHT if part.is_bend(vertex) and part.is_bend(other) else 1.0
        total += pull * x[other]
        weight += pull
    return (total / weight, weight) if weight else (x[vertex], 1.0)


def _heights(part: _Part, x: list[float]) -> list[float]:
    """Give each vertex a y; layers with flat edges between them stand further apart."""
    y = [0.0] * len(x)
    at = NODE_HEIGHT / 2
    for layer in part.layers:
        reach = 0.0
        for vertex in layer:
            y[vertex] = at
            reach = max(reach, *(abs(x[n] - x[vertex]) for n in part.below[vertex]), 0.0)
        at += NODE_HEIGHT + min(max(_LAYER_GAP, 0.16 * reach), 2.2 * _LAYER_GAP)
    return y


def _ports(part: _Part, x: list[float]) -> dict[Edge, Point]:
    """Spread the ends of a node's edges along its border: x at the upper and the lower node."""
    leaving: dict[str, list[tuple[float, Edge]]] = {name: [] for name in part.names}
    entering: dict[str, list[tuple[float, Edge]]] = {name: [] for name in part.names}
    for edge, chain in part.chains.items():
        leaving[edge[0]].append((x[chain[1]], edge))
        entering[edge[1]].append((x[chain[-2]], edge))
    found: dict[Edge, list[float]] = {edge: [0.0, 0.0] for edge in part.chains}
    for side, ends in enumerate((leaving, entering)):
        for i, name in enumerate(part.names):
            step = min(0.8 * part.widths[name] / max(len(ends[name]), 1), _NODE_GAP)
            for rank, (_, edge) in enumerate(sorted(ends[name])):
                found[edge][side] = x[i] + step * (rank - (len(ends[name]) - 1) / 2)
    return {edge: (upper, lower) for edge, (upper, lower) in found.items()}
