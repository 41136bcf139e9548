"""The first step of a layout: nodes in layers, and long edges cut at the layers they pass."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import networkx as nx

from driftbn.graph import Edge
from driftbn.layout.sizes import WIDE, Spacing


@dataclass
class Part:
    """A connected graph on its way to a layout; nodes come first, then the bends of long edges."""

    graph: nx.DiGraph
    widths: Mapping[str, float]
    spacing: Spacing
    names: list[str] = field(init=False)
    chains: dict[Edge, list[int]] = field(init=False, default_factory=dict)
    layers: list[list[int]] = field(init=False)  # layer, then place: number of node or bend
    above: list[list[int]] = field(init=False)
    below: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.names = sorted(self.graph.nodes)
        depth = _layers_of(self.graph, self.widths, self.spacing)
        self.layers = [[] for _ in range(max(depth.values()) + 1)]
        number = {name: i for i, name in enumerate(self.names)}
        size = len(self.names)
        for u, v in sorted(self.graph.edges):
            n_bends = depth[v] - depth[u] - 1
            self.chains[u, v] = [number[u], *range(size, size + n_bends), number[v]]
            for i, bend in enumerate(range(size, size + n_bends)):
                self.layers[depth[u] + 1 + i].append(bend)
            size += n_bends
        self.above = [[] for _ in range(size)]
        self.below = [[] for _ in range(size)]
        for chain in self.chains.values():
            for upper, lower in pairwise(chain):
                self.below[upper].append(lower)
                self.above[lower].append(upper)
        for name in self.names:
            self.layers[depth[name]].append(number[name])

    def is_bend(self, vertex: int) -> bool:
        """Whether a number is that of a bend, not of a node."""
        return vertex >= len(self.names)

    def width(self, vertex: int) -> float:
        """Return the width of a node; bends have none."""
        return 0.0 if self.is_bend(vertex) else self.widths[self.names[vertex]]


def _layers_of(graph: nx.DiGraph, widths: Mapping[str, float], spacing: Spacing) -> dict[str, int]:
    """Give each node a layer below its parents; a layer that is full passes nodes on."""
    room = _room(graph, widths, spacing)
    longest: dict[str, int] = {}
    for node in nx.lexicographical_topological_sort(graph):
        longest[node] = max((longest[p] + 1 for p in graph.predecessors(node)), default=0)
    filled: dict[int, float] = {}
    layer: dict[str, int] = {}
    for node in sorted(longest, key=lambda n: (longest[n], graph.out_degree(n) == 0, n)):
        at = max((layer[p] + 1 for p in graph.predecessors(node)), default=0)
        size = widths[node] + spacing.node_gap
        while filled.get(at, 0.0) and filled[at] + size > room:
            at += 1
        filled[at] = filled.get(at, 0.0) + size
        layer[node] = at
    for node in sorted(layer, key=lambda n: (-layer[n], n)):
        _lower(node, graph, layer)
    used = sorted(set(layer.values()))
    return {node: used.index(at) for node, at in layer.items()}


def _room(graph: nx.DiGraph, widths: Mapping[str, float], spacing: Spacing) -> float:
    """Return how wide a layer may become."""
    total = sum(widths[node] + spacing.node_gap for node in graph)
    height = spacing.node_height + spacing.layer_gap
    widest = max(widths[node] for node in graph)
    return max(8 * widest, WIDE * math.sqrt(total * height))


def _lower(node: str, graph: nx.DiGraph, layer: dict[str, int]) -> None:
    """Move a node down to its children if that makes its edges shorter."""
    children = [layer[child] for child in graph.successors(node)]
    if children and len(children) > graph.in_degree(node):
        layer[node] = min(children) - 1
