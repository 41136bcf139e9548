"""Directions: colliders, Meek's rules, the extension to a DAG, and its repair by score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

import numpy as np

from driftbn.config import ColliderRule, LearnerConfig
from driftbn.errors import VariableMismatchError
from driftbn.graphs.graph import Dag, Edge, Pdag
from driftbn.kernels.evidence import Floats
from driftbn.kernels.orientation import (
    TABLES,
    Arrows,
    Colliders,
    Repair,
    close_directions,
    extend,
    keep_compelled,
    list_apart,
    reaches,
    set_colliders,
    undirect_cycles,
)
from driftbn.kernels.search import PAUSED, Census
from driftbn.learning.independence import ChiSquareTest, IndependenceTest, Ints, Mask, places, upper
from driftbn.learning.search import KnownEdges, Limits, Skeleton, make_census, with_census

CONTRAST = 0.5  # sets with a collider separate less than this share as often as sets without it
TABLES_PER_LOOK = 1024  # counted by a repair between two looks at the clock
CLEAR = 0.5  # least p-value of a separator if no set of the census separates


@dataclass(frozen=True, eq=False)
class Orientation:
    """A directed skeleton.

    ``conflicts``: pairs for which equally strong colliders demand both directions, or that would
    close a cycle; they stay undirected. ``finished``: whether all tests that the collider rule asks
    for were made.
    """

    names: tuple[str, ...]
    arrows: Arrows
    conflicts: tuple[Edge, ...] = ()
    finished: bool = True

    @property
    def graph(self) -> Pdag:
        names, arrows = self.names, self.arrows
        free = upper(arrows.edge & ~arrows.arrow & ~arrows.arrow.T)
        return Pdag(
            names,
            ((names[x], names[y]) for x, y in _pairs(arrows.arrow)),
            ((names[x], names[y]) for x, y in _pairs(free)),
        )


def orient(
    skeleton: Skeleton,
    test: IndependenceTest,
    config: LearnerConfig,
    known: KnownEdges,
    limits: Limits,
) -> Orientation:
    """Direct the edges of a skeleton as far as the data and the knowledge tell."""
    triples = _Triples.of(skeleton, known)
    colliders = _find_colliders(skeleton, triples, test, config, limits)
    if colliders is None:
        return unoriented(skeleton)
    return _direct(skeleton, colliders, known)


@dataclass(frozen=True, eq=False)
class _Triples:
    """Unshielded triples: pairs of ends without an edge, and the neighbours they share."""

    low: Ints  # [pairs]
    high: Ints  # [pairs]
    pair: Ints  # [triples]; the ends, as a place in ``low`` and ``high``
    middle: Ints  # [triples]

    @classmethod
    def of(cls, skeleton: Skeleton, known: KnownEdges) -> _Triples:
        adjacent = skeleton.adjacent
        apart = np.zeros_like(adjacent)
        list_apart(adjacent, *_list_neighbours(adjacent), apart)
        low, high = places(upper(apart & known.possible))
        return cls(low, high, *places(adjacent[low] & adjacent[high]))


def _find_colliders(
    skeleton: Skeleton,
    triples: _Triples,
    test: IndependenceTest,
    config: LearnerConfig,
    limits: Limits,
) -> Colliders | None:
    rule = config.collider_rule
    if rule is ColliderRule.STANDARD:
        equal = np.zeros(len(triples.pair))
        return _strongest_first(triples, _outside_separator(skeleton, triples), equal)
    census = make_census(triples.low, triples.high, len(skeleton.names))
    census.found[:] = skeleton.separators.sizes(triples.low, triples.high) == 0
    search = with_census(skeleton.search, census)
    while test.pursue_search(search, limits.allotment(test)) == PAUSED:
        if not limits.go_on(test):
            return None
    rate_with, rate_without = _rates(census, triples)
    if rule is ColliderRule.CONTRAST:
        told = rate_with < CONTRAST * rate_without
    else:
        told = _outside_most(census, triples)
    unseen = census.found == 0
    if np.any(unseen) and not is_repaired(test, config):
        outside = _outside_clear_separator(skeleton, triples, unseen, test)
        told = np.where(unseen[triples.pair], outside, told)
    return _strongest_first(triples, told, rate_without - rate_with)


def _strongest_first(triples: _Triples, told: Mask, strength: Floats) -> Colliders:
    chosen = np.flatnonzero(told)
    chosen = chosen[np.argsort(-strength[chosen], kind="stable")]
    pair = triples.pair[chosen]
    return Colliders(
        low=triples.low[pair],
        high=triples.high[pair],
        middle=triples.middle[chosen],
        strength=strength[chosen],
        fits=np.zeros(len(chosen), np.bool_),
    )


def _rates(census: Census, triples: _Triples) -> tuple[Floats, Floats]:
    """Return of the sets with and without each middle the share that separates.

    A middle that no telling set holds gets 1, so that it is no collider.
    """
    pair, middle = triples.pair, triples.middle
    asked_with, found_with = census.asked_with[pair, middle], census.found_with[pair, middle]
    rate_with = np.where(asked_with > 0, found_with / np.maximum(asked_with, 1), 1.0)
    asked_without = census.asked[pair] - asked_with  # the empty set is one of them
    return rate_with, (census.found[pair] - found_with) / asked_without


def _outside_most(census: Census, triples: _Triples) -> Mask:
    """Tell a middle a collider if it is in less than half of the separating sets."""
    found_with = census.found_with[triples.pair, triples.middle]
    colliders: Mask = 2 * found_with < census.found[triples.pair]
    return colliders


def _outside_separator(skeleton: Skeleton, triples: _Triples) -> Mask:
    """Tell a middle a collider if the search separated the ends without it."""
    holds = skeleton.separators.membership(triples.low, triples.high)
    colliders: Mask = ~holds[triples.pair, triples.middle]
    return colliders


def _outside_clear_separator(
    skeleton: Skeleton, triples: _Triples, asked: Mask, test: IndependenceTest
) -> Mask:
    """Tell a middle a collider if the search clearly separated the ends without it.

    Asked of pairs that no set of the census separates. There a low p-value more likely means an
    edge lost to one of many large sets, and a lost edge makes colliders of its neighbours.
    """
    holds = skeleton.separators.membership(triples.low, triples.high)
    clear = np.zeros(len(asked), np.bool_)
    for pair in np.flatnonzero(asked).tolist():
        members = np.flatnonzero(holds[pair]).tolist()
        p_value = test.p_value(int(triples.low[pair]), int(triples.high[pair]), members)
        test.tests[len(members), 0] += 1
        clear[pair] = p_value >= CLEAR
    colliders: Mask = clear[triples.pair] & ~holds[triples.pair, triples.middle]
    return colliders


def _direct(skeleton: Skeleton, colliders: Colliders, known: KnownEdges) -> Orientation:
    decided = known.required | (skeleton.adjacent & known.closed.T)
    arrows = _make_arrows(skeleton.adjacent, decided, known.closed.copy())
    conflict = np.zeros_like(decided)
    set_colliders(arrows, colliders, conflict)
    cyclic = np.zeros_like(conflict)
    undirect_cycles(arrows, known.required, cyclic)
    arrows.closed[cyclic | cyclic.T] = True
    conflict |= cyclic | cyclic.T
    close_directions(arrows)
    names = skeleton.names
    conflicts = sorted(_named(names, x, y) for x, y in _pairs(upper(conflict)))
    return Orientation(names, arrows, tuple(conflicts))


def orient_like(skeleton: Skeleton, earlier: Pdag, known: KnownEdges) -> Orientation:
    """Direct as an earlier graph did the edges that are still there; a repair adds the others.

    No test is asked. The earlier graph is directed as a whole before edges are dropped: without
    them, Meek's rules would make other colliders of it.
    """
    place = {name: i for i, name in enumerate(skeleton.names)}
    arrow = _matrix(place, _within(place, earlier.directed_edges))
    free = _matrix(place, _within(place, earlier.undirected_edges))
    arrow = (arrow & ~known.closed) | known.required
    edge = (arrow | arrow.T | free | free.T) & known.possible
    arrows = _make_arrows(edge, arrow, known.closed.copy())
    undirect_cycles(arrows, known.required, np.zeros_like(edge))
    extend(arrows, np.zeros_like(edge))
    dag = arrows.arrow & skeleton.adjacent
    return Orientation(skeleton.names, _make_arrows(dag | dag.T, dag, known.closed.copy()))


def _within(place: dict[str, int], edges: Sequence[Edge]) -> list[Edge]:
    return [(u, v) for u, v in edges if u in place and v in place]


def is_repaired(test: IndependenceTest, config: LearnerConfig) -> TypeGuard[ChiSquareTest]:
    """Whether a repair follows, so that what no set of a census tells is not looked into."""
    return config.repair and isinstance(test, ChiSquareTest)


def repair(
    oriented: Orientation,
    skeleton: Skeleton,
    test: ChiSquareTest,
    known: KnownEdges,
    limits: Limits,
) -> tuple[Orientation, Skeleton, int]:
    """Improve what was learned by a score; return also how many tables that took.

    Possible edges are all pairs that depend on each other without condition.
    """
    dag = oriented.arrows.arrow
    oriented.arrows.closed[:] = known.closed  # edges in conflict are free again
    extend(oriented.arrows, np.zeros_like(dag))
    arrows = _make_arrows(skeleton.dependent, dag, known.closed)
    state = Repair(
        arrows=arrows,
        fixed=known.required,
        gain=np.zeros(len(arrows.neighbour)),
        opposite=_opposite_places(arrows),
        stale=np.ones(len(dag), np.bool_),
        parents=np.zeros(len(dag), np.int64),
        count=np.zeros(2, np.int64),
    )
    while test.pursue_repair(state, TABLES_PER_LOOK) == PAUSED:
        if limits.late:
            return unoriented(skeleton), skeleton, int(state.count[TABLES])
    edge = dag | dag.T
    compelled = _make_arrows(edge, known.required | (edge & known.closed.T), known.closed.copy())
    keep_compelled(dag, compelled)
    lost = _separators_of_lost(skeleton.adjacent & ~edge, arrows)
    separators = skeleton.separators.with_edges(edge & ~skeleton.adjacent, lost)
    return (
        Orientation(skeleton.names, compelled),
        replace(skeleton, adjacent=edge, separators=separators),
        int(state.count[TABLES]),
    )


def _opposite_places(arrows: Arrows) -> Ints:
    """Return for each entry of the lists of neighbours where the other node has the same pair."""
    node = np.repeat(np.arange(len(arrows.edge)), np.diff(arrows.first))
    return np.lexsort((node, arrows.neighbour)).astype(np.int64)


def _separators_of_lost(lost: Mask, arrows: Arrows) -> dict[tuple[int, int], Ints]:
    """Return for pairs without an edge in a DAG the parents of that end which is no ancestor."""
    found = {}
    for x, y in _pairs(upper(lost)):
        later = x if reaches(arrows, y, x) else y
        found[x, y] = np.flatnonzero(arrows.arrow[:, later])
    return found


def _named(names: tuple[str, ...], x: int, y: int) -> Edge:
    return min(names[x], names[y]), max(names[x], names[y])


def _list_neighbours(edge: Mask) -> tuple[Ints, Ints]:
    """Return where each node's neighbours begin in a list of all neighbours, and that list."""
    node, neighbour = places(edge)
    first = np.searchsorted(node, np.arange(len(edge) + 1))
    return first.astype(np.int64), neighbour.astype(np.int64)


def _make_arrows(edge: Mask, arrow: Mask, closed: Mask) -> Arrows:
    first, neighbour = _list_neighbours(edge)
    stack, seen = np.zeros((2, len(edge)), np.int64)
    return Arrows(edge, arrow, closed, first, neighbour, stack, seen)


def unoriented(skeleton: Skeleton) -> Orientation:
    """Return the edges so far without directions: a limit has stopped the search."""
    nothing = np.zeros_like(skeleton.adjacent)
    arrows = _make_arrows(skeleton.adjacent, nothing, nothing.copy())
    return Orientation(skeleton.names, arrows, finished=False)


def _pairs(mask: Mask) -> list[tuple[int, int]]:
    rows, columns = places(mask)
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


def extend_to_dag(graph: Pdag, anchor: Dag | Pdag | None = None) -> Dag:
    """Direct every edge of ``graph`` without a cycle and, if possible, without a new collider.

    Its directed edges must have no cycle. The directions of ``anchor`` are kept wherever the class
    of ``graph`` allows it, so that two learned DAGs do not differ by choices that the data never
    made. Raises VariableMismatchError if the anchor shares no variable with the graph.

    >>> chain = Pdag("abc", [], [("a", "b"), ("b", "c")])
    >>> extend_to_dag(chain).edges
    (('a', 'b'), ('b', 'c'))
    >>> extend_to_dag(chain, Dag("abc", [("c", "b"), ("b", "a")])).edges
    (('b', 'a'), ('c', 'b'))
    """
    names = graph.nodes
    place = {name: i for i, name in enumerate(names)}
    arrow = _matrix(place, graph.directed_edges)
    free = _matrix(place, graph.undirected_edges)
    preferred = np.zeros_like(arrow)
    if anchor is not None:
        if names and not place.keys() & set(anchor.nodes):
            raise VariableMismatchError(names, anchor.nodes)
        preferred = _matrix(place, _within(place, anchor.directed_edges))
    arrows = _make_arrows(arrow | arrow.T | free | free.T, arrow, np.zeros_like(arrow))
    extend(arrows, preferred)
    return Dag(names, ((names[x], names[y]) for x, y in _pairs(arrows.arrow)))


def _matrix(place: dict[str, int], edges: Sequence[Edge]) -> Mask:
    mask = np.zeros((len(place), len(place)), np.bool_)
    for u, v in edges:
        mask[place[u], place[v]] = True
    return mask
