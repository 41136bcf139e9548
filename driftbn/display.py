"""A calmer list of edges for display: one appears only if it is clear, and goes only if it is gone.

Three quarters of the differences between neighbouring windows are edges near the level of the
tests. Nothing is decided by this list.
"""

from __future__ import annotations

from collections.abc import Iterable

from driftbn.decision.evidence import WindowEvidence
from driftbn.graph import Edge

APPEARS_BELOW = 1e-4
GOES_ABOVE = 0.05


class SteadyEdges:
    """Keeps the edges that are displayed.

    Parameters
    ----------
    edges
        The edges displayed so far, smaller name first; ``None`` before the first window.
    """

    def __init__(self, edges: Iterable[Edge] | None = None) -> None:
        self.edges: tuple[Edge, ...] | None = None if edges is None else tuple(sorted(edges))

    def update(self, window: WindowEvidence) -> tuple[Edge, ...]:
        """Take in what a window has learned, and return the edges to display."""
        found = window.learned.graph.skeleton
        shown = set(found) if self.edges is None else set(self.edges)
        for edge in found - shown:
            if self._p_value(window, edge) < APPEARS_BELOW:
                shown.add(edge)
        for edge in shown - found:
            if self._p_value(window, edge) > GOES_ABOVE:
                shown.remove(edge)
        self.edges = tuple(sorted(shown))
        return self.edges

    @staticmethod
    def _p_value(window: WindowEvidence, edge: Edge) -> float:
        """Return how well independence fits, given what separates the pair or its neighbours do."""
        place = {name: i for i, name in enumerate(window.names)}
        x, y = (place[name] for name in edge)
        given = window.learned.separators.get(edge)
        if given is None:
            parents = window.learned.dag.parents
            child = edge[1] if edge[0] in parents(edge[1]) else edge[0]
            given = tuple(name for name in parents(child) if name not in edge)
        return window.test.p_value(x, y, [place[name] for name in given])
