"""Directions: colliders, Meek's rules, the extension to a DAG, and its repair by score."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from driftbn.kernels.chi_square import rows_suffice, test_conditional
from driftbn.kernels.compiled import inlined, kernel
from driftbn.kernels.evidence import Evidence, Floats, Ints, Workspace
from driftbn.kernels.search import FINISHED, PAUSED, Mask


class Arrows(NamedTuple):
    """Edges and what is known of their directions; nodes are in the order of the test."""

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
def undirect_cycles(arrows: Arrows, fixed: Mask, on_cycle: Mask) -> None:
    """Take the direction from every arrow on a directed cycle, but for fixed ones; mark them."""
    n_nodes = arrows.edge.shape[0]
    for x in range(n_nodes):
        for y in range(n_nodes):
            on_cycle[x, y] = arrows.arrow[x, y] and not fixed[x, y] and reaches(arrows, y, x)
    for x in range(n_nodes):
        for y in range(n_nodes):
            arrows.arrow[x, y] &= not on_cycle[x, y]


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
    """Direct every edge: preferred directions first, then by order of nodes; never a cycle."""
    close_directions(arrows)
    for anchored in (True, False):
        for x in range(arrows.edge.shape[0]):
            directed = False  # arrows out of one node imply nothing of each other
            for i in range(arrows.first[x], arrows.first[x + 1]):
                y = arrows.neighbour[i]
                if is_free(arrows, x, y) and (preferred[x, y] or not anchored):
                    directed = point(arrows, x, y) or point(arrows, y, x) or directed
            if directed:
                close_directions(arrows)


@kernel
def keep_compelled(dag: Mask, arrows: Arrows) -> None:
    """Direct what every DAG of the same class, and the arrows set before, have in common."""
    for y in range(dag.shape[0]):
        for i in range(arrows.first[y], arrows.first[y + 1]):
            for j in range(arrows.first[y], i):
                a, b = arrows.neighbour[i], arrows.neighbour[j]
                if dag[a, y] and dag[b, y] and not arrows.edge[a, b]:
                    arrows.arrow[a, y] = arrows.arrow[b, y] = True
    close_directions(arrows)


# The repair of a DAG by its score: edges added, removed and reversed while that gains.

ADD, REMOVE, REVERSE = range(3)
MAX_PARENTS = 8
MOVES_PER_NODE = 4  # only gains that contradict each other could take more
TABLES, MOVES = range(2)  # places in the count
LEAST_GAIN = 1e-9  # in nats; less is rounding


class Repair(NamedTuple):
    """A DAG and what each of its possible arrows is worth.

    ``arrows.edge`` has the pairs that may have an edge, ``arrows.closed`` the directions that must
    not be taken. An arrow's gain is that of the child's score by this parent, beside the others.
    """

    arrows: Arrows
    fixed: Mask  # [nodes, nodes]; arrows that stay
    gain: Floats  # [2 * pairs]; of the arrow from ``arrows.neighbour`` to the node
    opposite: Ints  # [2 * pairs]; place of the same pair among the other node's neighbours
    stale: Mask  # [nodes]; whose gains are to be worked out
    parents: Ints  # [nodes]; scratch
    count: Ints  # [2]; tables counted, moves made


@kernel
def pursue_repair(
    repair: Repair, evidence: Evidence, work: Workspace, price: float, n_tables: int
) -> int:
    """Make the move that gains most until none gains; pause after about ``n_tables`` tables.

    ``evidence.entropy`` has the score's penalty in it, ``price`` is that of an edge beside it.
    """
    arrow, count = repair.arrows.arrow, repair.count
    limit = count[TABLES] + n_tables
    while count[MOVES] < MOVES_PER_NODE * arrow.shape[0]:
        for y in range(arrow.shape[0]):
            if repair.stale[y]:
                if count[TABLES] >= limit:
                    return PAUSED
                _weigh_parents(repair, evidence, work, y, price)
                repair.stale[y] = False
        x, y, move = _best_move(repair)
        if move < 0:
            return FINISHED
        count[MOVES] += 1
        arrow[x, y] = move == ADD
        arrow[y, x] = move == REVERSE
        repair.stale[y] = True
        repair.stale[x] = move == REVERSE
    return FINISHED


@kernel
def _best_move(repair: Repair):  # type: ignore[no-untyped-def]
    """Return the arrow to move and the move that gains most, -1 if none does."""
    arrows, gain = repair.arrows, repair.gain
    best, source, target, move = LEAST_GAIN, -1, -1, -1
    for y in range(arrows.arrow.shape[0]):
        for i in range(arrows.first[y], arrows.first[y + 1]):
            x = arrows.neighbour[i]
            if arrows.arrow[x, y]:
                if repair.fixed[x, y]:
                    continue
                if -gain[i] > best:
                    best, source, target, move = -gain[i], x, y, REMOVE
                reversed_gain = gain[repair.opposite[i]] - gain[i]
                if reversed_gain > best and _can_reverse(arrows, x, y):
                    best, source, target, move = reversed_gain, x, y, REVERSE
            elif gain[i] > best and not arrows.arrow[y, x] and can_point(arrows, x, y):
                best, source, target, move = gain[i], x, y, ADD
    return source, target, move


@kernel
def _can_reverse(arrows: Arrows, x: int, y: int) -> bool:
    arrows.arrow[x, y] = False
    possible = can_point(arrows, y, x)
    arrows.arrow[x, y] = True
    return possible


@inlined
def _weigh_parents(
    repair: Repair, evidence: Evidence, work: Workspace, y: int, price: float
) -> None:
    """Work out the gain of every possible parent of y.

    A table with too few rows for its cells says nothing: parents stay and none is added.
    """
    arrows, parents = repair.arrows, repair.parents
    log_rows = np.log(evidence.codes.shape[1])
    for i in range(arrows.first[y], arrows.first[y + 1]):
        x = arrows.neighbour[i]
        count = 0
        for j in range(arrows.first[y], arrows.first[y + 1]):
            z = arrows.neighbour[j]
            if z != x and arrows.arrow[z, y]:
                parents[count] = z
                count += 1
        others = parents[:count]
        if count > MAX_PARENTS or not rows_suffice(evidence, x, y, others):
            repair.gain[i] = np.inf if arrows.arrow[x, y] else -np.inf
            continue
        _, value, dof = test_conditional(evidence, work, y, x, others, np.inf)
        repair.count[TABLES] += 1
        scale = 1.0 + evidence.excess[x] * evidence.excess[y]
        repair.gain[i] = 0.5 * (value - (scale - 1.0) * dof * log_rows) / scale - price
