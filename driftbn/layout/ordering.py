"""The second step of a layout: the order within the layers, for few crossings."""

from __future__ import annotations

from bisect import bisect_right, insort
from itertools import pairwise

from driftbn.layout.layering import Part

_N_ORDER_SWEEPS = 16  # crossings seldom fall after a dozen


def order_layers(part: Part) -> None:
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


def _first_order(part: Part) -> list[list[int]]:
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


def _layer_pairs(part: Part, downwards: bool) -> list[tuple[list[int], list[int]]]:
    """Return the layers to move, each with the one it is moved against."""
    ordered = part.layers if downwards else part.layers[::-1]
    return list(zip(ordered[1:], ordered, strict=False))


def _mean(values: list[int], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _swap_neighbours(part: Part) -> None:
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


def _n_crossings(part: Part) -> int:
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
