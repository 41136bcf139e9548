"""Directions of edges: Meek's rules and the extension to a DAG, always without a cycle."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftbn._kernels.compiled import allocating_kernel
from driftbn._kernels.evidence import Ints

Mask = npt.NDArray[np.bool_]


class Arrows(NamedTuple):
    """Edges and what is known of their directions; node indices follow the order of names."""

    edge: Mask  # [nodes, nodes]; symmetric
    arrow: Mask  # [nodes, nodes]; arrow[x, y]: the edge points from x to y
    closed: Mask  # [nodes, nodes]; directions that must not be taken


@allocating_kernel
def reaches(arrow: Mask, source: int, target: int) -> bool:
    """Whether a directed path leads from source to target."""
    n_nodes = arrow.shape[0]
    seen = np.zeros(n_nodes, np.bool_)
    stack = np.empty(n_nodes, np.int64)
    stack[0] = source
    seen[source] = True
    depth = 1
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if node == target:
            return True
        for child in range(n_nodes):
            if arrow[node, child] and not seen[child]:
                seen[child] = True
                stack[depth] = child
                depth += 1
    return False


@allocating_kernel
def undirect_cycles(arrows: Arrows, fixed: Mask) -> int:
    """Take the direction from every arrow on a directed cycle, but for fixed ones; count them."""
    before = arrows.arrow.copy()
    count = 0
    for x in range(before.shape[0]):
        for y in range(before.shape[0]):
            if before[x, y] and not fixed[x, y] and reaches(before, y, x):
                arrows.arrow[x, y] = False
                count += 1
    return count


@allocating_kernel
def close_directions(arrows: Arrows) -> None:
    """Apply Meek's rules 1 to 4 until nothing changes, never closing a cycle."""
    changed = True
    while changed:
        changed = False
        for x in range(arrows.edge.shape[0]):
            for y in range(arrows.edge.shape[0]):
                if is_free(arrows, x, y) and _is_implied(arrows, x, y):
                    changed = point(arrows, x, y) or changed


@allocating_kernel
def is_free(arrows: Arrows, x: int, y: int) -> bool:
    """Whether x and y share an edge without direction."""
    return arrows.edge[x, y] and not arrows.arrow[x, y] and not arrows.arrow[y, x]


@allocating_kernel
def point(arrows: Arrows, x: int, y: int) -> bool:
    """Direct the free edge from x to y unless that is closed or would make a cycle."""
    if arrows.closed[x, y] or reaches(arrows.arrow, y, x):
        return False
    arrows.arrow[x, y] = True
    return True


@allocating_kernel
def _is_implied(arrows: Arrows, x: int, y: int) -> bool:
    """Whether one of Meek's rules directs the free edge from x to y."""
    edge, arrow = arrows.edge, arrows.arrow
    n_nodes = edge.shape[0]
    for z in range(n_nodes):
        if arrow[z, x] and z != y and not edge[z, y]:  # rule 1
            return True
        if arrow[x, z] and arrow[z, y]:  # rule 2
            return True
        if not arrow[z, y] or not is_free(arrows, x, z):
            continue
        for w in range(n_nodes):
            if w == z or w == y or not is_free(arrows, x, w) or edge[w, z] and not arrow[w, z]:
                continue
            if arrow[w, y] and not edge[w, z]:  # rule 3
                return True
            if arrow[w, z] and not edge[w, y]:  # rule 4: x - w -> z -> y
                return True
    return False


@allocating_kernel
def extend(arrows: Arrows, preferred: Mask) -> None:
    """Direct every edge: preferred directions first, then by order of names; never a cycle."""
    close_directions(arrows)
    n_nodes = arrows.edge.shape[0]
    for anchored in (True, False):
        for x in range(n_nodes):
            for y in range(n_nodes):
                if not is_free(arrows, x, y) or anchored and not preferred[x, y]:
                    continue
                if point(arrows, x, y) or point(arrows, y, x):
                    close_directions(arrows)
    for x in range(n_nodes):  # what is left had both directions closed: keep it acyclic all the same
        for y in range(n_nodes):
            if is_free(arrows, x, y):
                if reaches(arrows.arrow, y, x):
                    arrows.arrow[y, x] = True
                else:
                    arrows.arrow[x, y] = True
