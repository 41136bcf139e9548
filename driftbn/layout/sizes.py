"""What goes into a layout and what comes out: sizes, and coordinates."""

from __future__ import annotations

from dataclasses import dataclass

from driftbn.graph import Edge

Point = tuple[float, float]
"""To the right, and downwards."""

WIDE = 1.7
"""Width over height to aim at; a screen is that wide."""


@dataclass(frozen=True)
class Spacing:
    """Sizes of a layout, in any one unit.

    Parameters
    ----------
    node_height
        Height of every node.
    node_gap
        Least space between two nodes of a layer.
    layer_gap
        Least space between two layers.
    """

    node_height: float
    node_gap: float
    layer_gap: float


@dataclass(frozen=True)
class Layout:
    """A graph with coordinates; x grows to the right and y downwards, both from 0.

    Parameters
    ----------
    width, height
        Size of the whole.
    centres
        Middle of each node.
    routes
        For each edge the points it passes, from the lower border of the upper node to the upper
        border of the lower node.
    """

    width: float
    height: float
    centres: dict[str, Point]
    routes: dict[Edge, tuple[Point, ...]]
