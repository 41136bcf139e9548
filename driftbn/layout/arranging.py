"""A graph laid out whole: each connected part by itself, then all side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping

import networkx as nx

from driftbn.graph import Dag, Edge
from driftbn.layout.layering import Part
from driftbn.layout.ordering import order_layers
from driftbn.layout.placing import placed
from driftbn.layout.sizes import WIDE, Layout, Point, Spacing


def arrange(dag: Dag, widths: Mapping[str, float], spacing: Spacing) -> Layout:
    """Lay out a graph so that every edge points downwards.

    Parts that are not connected stand side by side, in rows.

    Parameters
    ----------
    dag
        What to lay out.
    widths
        Width of each node.
    spacing
        The other sizes.

    Examples
    --------
    >>> layout = arrange(Dag("ab", [("a", "b")]), {"a": 2.0, "b": 2.0}, Spacing(1.0, 1.0, 3.0))
    >>> layout.centres
    {'a': (1.0, 0.5), 'b': (1.0, 4.5)}
    >>> layout.routes["a", "b"]
    ((1.0, 1.0), (1.0, 4.0))
    """
    whole = dag.to_networkx()
    parts = []
    for names in sorted(map(sorted, nx.weakly_connected_components(whole))):
        part = Part(whole.subgraph(names), widths, spacing)
        order_layers(part)
        parts.append(placed(part))
    parts.sort(key=lambda part: (-part.height, -len(part.centres), min(part.centres)))
    return _packed(parts, spacing)


def _packed(parts: list[Layout], spacing: Spacing) -> Layout:
    """Put parts side by side in rows, highest first."""
    gap = 2 * spacing.node_gap
    area = sum((part.width + gap) * (part.height + gap) for part in parts)
    room = max([part.width for part in parts] + [WIDE * math.sqrt(area / WIDE)], default=0.0)
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
