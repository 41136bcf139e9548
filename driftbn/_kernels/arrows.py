"""Directions of edges: Meek's rules and the extension to a DAG, always without a cycle."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftbn._kernels.evidence import Floats, Ints
from driftbn.compiled import kernel

Mask = npt.NDArray[np.bool_]


class Arrows(NamedTuple):
    """Edges and what is known of their directions; node indices follow the order of names."""

    edge: Mask  # [nodes, nodes]; symmetric
    arrow: Mask  # [nodes, nodes]; arrow[x, y]: the edge points from x to y
    closed: Mask  # [nodes, nodes]; directions that must not be taken
    first: Ints  # [nodes + 1]; where each node's neighbours begin
    neighbour: Ints  # [2 * edges]; in rising order for each node
    stack: Ints  # [nodes]; scratch, as is ``seen``
    seen: Ints  # [nodes]


class Colliders(NamedTuple):
    """Triples low - middle - high whose ends are to point at the middle, the strongest first."""

    low: Ints  # [colliders]
    high: Ints  # [colliders]
    middle: Ints  # [colliders]
    strength: Floats  # [colliders]; falling
    fits: Mask  # [colliders]; scratch


@kernel
def list_apart(adjacent: Mask, first: Ints, neighbour: Ints, apart: Mask) -> None:
    """Mark the pairs that share a neighbour but no edge; both orders of a pair."""
    for z in range(adjacent.shape[0]):
        for i in range(first[z], first[z + 1]):
            for j in range(first[z], first[z + 1]):
                x, y = neighbour[i], neighbour[j]
                if x != y and not adjacent[x, y]:
                    apart[x, y] = True


@kernel
def reaches(arrows: Arrows, source: int, target: int) -> bool:
    """Whether a directed path leads from source to target."""
    seen, stack = arrows.seen, arrows.stack
    for node in range(seen.shape[0]):
        seen[node] = 0
    stack[0] = source
    seen[source] = 1
    depth = 1
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if node == target:
            return True
        for i in range(arrows.first[node], arrows.first[node + 1]):
            child = arrows.neighbour[i]
            if arrows.arrow[node, child] and not seen[child]:
                seen[child] = 1
                stack[depth] = child
                depth += 1
    return False


@kernel
def can_point(arrows: Arrows, x: int, y: int) -> bool:
    """Whether x may point to y: that is not closed and makes no cycle with what is directed."""
    return not arrows.closed[x, y] and not reaches(arrows, y, x)


@kernel
def set_colliders(arrows: Arrows, colliders: Colliders, conflict: Mask) -> None:
    """Direct the edges of colliders, leaving out what contradicts a stronger one.

    None of several equally strong ones goes first: an edge that they want both ways gets no
    direction, is closed, and is marked in ``conflict``.
    """
    low, high, middle = colliders.low, colliders.high, colliders.middle
    n_colliders = middle.shape[0]
    begin = 0
    while begin < n_colliders:
        end = begin
        while end < n_colliders and colliders.strength[end] == colliders.strength[begin]:
            z = middle[end]
            colliders.fits[end] = can_point(arrows, low[end], z) and can_point(arrows, high[end], z)
            end += 1
        for k in range(begin, end):
            if colliders.fits[k]:
                arrows.arrow[low[k], middle[k]] = True
                arrows.arrow[high[k], middle[k]] = True
        for k in range(begin, end):
            _undirect_if_both(arrows, low[k], middle[k], conflict)
            _undirect_if_both(arrows, high[k], middle[k], conflict)
        begin = end


@kernel
def _undirect_if_both(arrows: Arrows, x: int, y: int, conflict: Mask) -> None:
    if arrows.arrow[x, y] and arrows.arrow[y, x]:
        arrows.arrow[x, y] = arrows.arrow[y, x] = False
        arrows.closed[x, y] = arrows.closed[y, x] = True
        conflict[x, y] = conflict[y, x] = True


@kernel
def undirect_cycles(arrows: Arrows, fixed: Mask, on_cycle: Mask) -> int:
    """Take the direction from every arrow on a directed cycle, but for fixed ones; count them.

    ``on_cycle`` is scratch; it must be all false.
    """
    if not _has_cycle(arrows):
        return 0
    n_nodes = arrows.edge.shape[0]
    for x in range(n_nodes):
        for y in range(n_nodes):
            on_cycle[x, y] = arrows.arrow[x, y] and not fixed[x, y] and reaches(arrows, y, x)
    count = 0
    for x in range(n_nodes):
        for y in range(n_nodes):
            if on_cycle[x, y]:
                arrows.arrow[x, y] = False
                count += 1
    return count


@kernel
def _has_cycle(arrows: Arrows) -> bool:
    """Whether some node is left when nodes without a parent are taken away again and again."""
    waiting, ready = arrows.seen, arrows.stack
    n_nodes = waiting.shape[0]
    n_ready = 0
    for node in range(n_nodes):
        waiting[node] = 0
        for i in range(arrows.first[node], arrows.first[node + 1]):
            waiting[node] += arrows.arrow[arrows.neighbour[i], node]
        if waiting[node] == 0:
            ready[n_ready] = node
            n_ready += 1
    done = 0
    while done < n_ready:
        node = ready[done]
        done += 1
        for i in range(arrows.first[node], arrows.first[node + 1]):
            child = arrows.neighbour[i]
            if arrows.arrow[node, child]:
                waiting[child] -= 1
                if waiting[child] == 0:
                    ready[n_ready] = child
                    n_ready += 1
    return done < n_nodes


@kernel
def close_directions(arrows: Arrows) -> None:
    """Apply Meek's rules 1 to 4 until nothing changes, never closing a cycle."""
    changed = True
    while changed:
        changed = False
        for x in range(arrows.edge.shape[0]):
            for i in range(arrows.first[x], arrows.first[x + 1]):
                y = arrows.neighbour[i]
                if is_free(arrows, x, y) and _is_implied(arrows, x, y):
                    changed = point(arrows, x, y) or changed


@kernel
def is_free(arrows: Arrows, x: int, y: int) -> bool:
    """Whether x and y share an edge without direction."""
    return arrows.edge[x, y] and not arrows.arrow[x, y] and not arrows.arrow[y, x]


@kernel
def point(arrows: Arrows, x: int, y: int) -> bool:
    """Direct the free edge from x to y unless that is closed or would make a cycle."""
    if can_point(arrows, x, y):
        arrows.arrow[x, y] = True
        return True
    return False


@kernel
def _is_implied(arrows: Arrows, x: int, y: int) -> bool:
    """Whether one of Meek's rules directs the free edge from x to y."""
    edge, arrow, first, neighbour = arrows.edge, arrows.arrow, arrows.first, arrows.neighbour
    for i in range(first[x], first[x + 1]):
        z = neighbour[i]
        if arrow[z, x] and not edge[z, y]:  # rule 1
            return True
        if arrow[x, z] and arrow[z, y]:  # rule 2
            return True
        if not arrow[z, y] or not is_free(arrows, x, z):
            continue
        for j in range(first[x], first[x + 1]):
            w = neighbour[j]
            if w in (y, z) or not is_free(arrows, x, w):
                continue
            if arrow[w, y] and not edge[w, z]:  # rule 3
                return True
            if arrow[w, z] and not edge[w, y]:  # rule 4: x - w -> z -> y
                return True
    return False


@kernel
def extend(arrows: Arrows, preferred: Mask) -> None:
    """Direct every edge: preferred directions first, then by order of names; never a cycle."""
    close_directions(arrows)
    for anchored in (True, False):
        for x in range(arrows.edge.shape[0]):
            for i in range(arrows.first[x], arrows.first[x + 1]):
                y = arrows.neighbour[i]
                if not is_free(arrows, x, y) or (anchored and not preferred[x, y]):
                    continue
                if point(arrows, x, y) or point(arrows, y, x):
                    close_directions(arrows)
