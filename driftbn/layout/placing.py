"""The third step of a layout: coordinates of nodes, and the points that edges pass."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.optimize import isotonic_regression

from driftbn.graph import Edge
from driftbn.layout.layering import Part
from driftbn.layout.sizes import Layout, Point

_N_PLACE_SWEEPS = 24
_BEND_WEIGHT = 8.0  # pull between two bends of one edge: long edges become straight


def placed(part: Part) -> Layout:
    """Return where everything of a part goes whose layers are in order."""
    x = _places(part)
    y = _heights(part, x)
    half = part.spacing.node_height / 2
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


def _places(part: Part) -> list[float]:
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


def _distance(part: Part, left: int, right: int) -> float:
    bends = part.is_bend(left) + part.is_bend(right)
    gap = part.spacing.node_gap * (1.0, 0.7, 0.5)[bends]
    return (part.width(left) + part.width(right)) / 2 + gap


def _wish(part: Part, x: list[float], vertex: int, from_above: bool | None) -> Point:
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


def _heights(part: Part, x: list[float]) -> list[float]:
    """Give each vertex a y; layers with flat edges between them stand further apart."""
    y = [0.0] * len(x)
    at = part.spacing.node_height / 2
    for layer in part.layers:
        reach = 0.0
        for vertex in layer:
            y[vertex] = at
            reach = max(reach, *(abs(x[n] - x[vertex]) for n in part.below[vertex]), 0.0)
        gap = part.spacing.layer_gap
        at += part.spacing.node_height + min(max(gap, 0.16 * reach), 2.2 * gap)
    return y


def _ports(part: Part, x: list[float]) -> dict[Edge, Point]:
    """Spread the ends of a node's edges along its border: x at the upper and the lower node."""
    leaving: dict[str, list[tuple[float, Edge]]] = {name: [] for name in part.names}
    entering: dict[str, list[tuple[float, Edge]]] = {name: [] for name in part.names}
    for edge, chain in part.chains.items():
        leaving[edge[0]].append((x[chain[1]], edge))
        entering[edge[1]].append((x[chain[-2]], edge))
    found: dict[Edge, list[float]] = {edge: [0.0, 0.0] for edge in part.chains}
    for side, ends in enumerate((leaving, entering)):
        for i, name in enumerate(part.names):
            step = min(0.8 * part.widths[name] / max(len(ends[name]), 1), part.spacing.node_gap)
            for rank, (_, edge) in enumerate(sorted(ends[name])):
                found[edge][side] = x[i] + step * (rank - (len(ends[name]) - 1) / 2)
    return {edge: (upper, lower) for edge, (upper, lower) in found.items()}
