"""Graphs as values: directed acyclic ones, partially directed ones, and how two differ."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, TypeVar

from driftbn.errors import GraphError, UnknownVariableError

if TYPE_CHECKING:
    import networkx as nx


Edge = tuple[str, str]
_T = TypeVar("_T")


@dataclass(frozen=True)
class Pdag:
    """A graph with directed and undirected edges, such as a CPDAG.

    Nodes and edges are kept sorted, undirected ones with the smaller name first, so equal graphs
    compare equal whatever the order they were given in. Directed edges are ``(source, target)``.

    Raises GraphError if a node is named twice, an edge is a loop or stands twice;
    UnknownVariableError if an edge names a node that is not there.

    >>> graph = Pdag(("a", "b", "c"), [("a", "b")], [("c", "b")])
    >>> graph.undirected_edges
    (('b', 'c'),)
    >>> sorted(graph.neighbours("b"))
    ['a', 'c']
    """

    nodes: tuple[str, ...]
    directed_edges: tuple[Edge, ...] = ()
    undirected_edges: tuple[Edge, ...] = ()

    def __init__(
        self,
        nodes: Iterable[str],
        directed_edges: Iterable[Edge] = (),
        undirected_edges: Iterable[Edge] = (),
    ) -> None:
        directed = tuple(sorted((u, v) for u, v in directed_edges))
        undirected = tuple(sorted((min(e), max(e)) for e in undirected_edges))
        object.__setattr__(self, "nodes", _checked_nodes(nodes))
        object.__setattr__(self, "directed_edges", directed)
        object.__setattr__(self, "undirected_edges", undirected)
        _check_edges(self.nodes, directed + undirected)

    @cached_property
    def skeleton(self) -> frozenset[Edge]:
        """All edges without direction, each with the smaller name first."""
        return frozenset((min(e), max(e)) for e in (*self.directed_edges, *self.undirected_edges))

    @cached_property
    def _neighbours(self) -> dict[str, frozenset[str]]:
        return _adjacency(self.nodes, self.skeleton)

    def neighbours(self, node: str) -> frozenset[str]:
        """Return the nodes that share an edge with ``node``."""
        return _look_up(self._neighbours, node)

    def to_networkx(self) -> nx.DiGraph:
        """Return a networkx graph; an undirected edge becomes a pair of opposite arcs."""
        import networkx as nx  # noqa: PLC0415 - a quarter of a second that most never need

        graph = nx.DiGraph()
        graph.add_nodes_from(self.nodes)
        graph.add_edges_from(self.directed_edges)
        for u, v in self.undirected_edges:
            graph.add_edges_from(((u, v), (v, u)))
        return graph

    def _repr_html_(self) -> str:
        return _drawn(self)

    @classmethod
    def from_networkx(cls, graph: nx.DiGraph) -> Pdag:
        """Read a networkx graph; a pair of opposite arcs is one undirected edge."""
        both = {(u, v) for u, v in graph.edges if u != v and graph.has_edge(v, u)}
        return cls(
            graph.nodes,
            (e for e in graph.edges if e not in both),
            {(min(e), max(e)) for e in both},
        )


@dataclass(frozen=True)
class Dag:
    """A directed acyclic graph; nodes and edges ``(parent, child)`` are kept sorted.

    Raises GraphError if there is a cycle, a loop, or a node or edge given twice;
    UnknownVariableError if an edge names a node that is not there.

    >>> dag = Dag("abc", [("a", "c"), ("b", "c")])
    >>> dag.parents("c")
    ('a', 'b')
    >>> sorted(dag.markov_blanket("a"))
    ['b', 'c']
    >>> dag.cpdag().directed_edges
    (('a', 'c'), ('b', 'c'))
    """

    nodes: tuple[str, ...]
    edges: tuple[Edge, ...] = ()
    undirected_edges: ClassVar[tuple[Edge, ...]] = ()

    def __init__(self, nodes: Iterable[str], edges: Iterable[Edge] = ()) -> None:
        ordered = tuple(sorted((u, v) for u, v in edges))
        object.__setattr__(self, "nodes", _checked_nodes(nodes))
        object.__setattr__(self, "edges", ordered)
        _check_edges(self.nodes, ordered)
        cycle = find_cycle(ordered)
        if cycle:
            raise GraphError(f"a DAG must have no cycle; there is one among {cycle}")

    @property
    def directed_edges(self) -> tuple[Edge, ...]:
        """All edges: what a DAG is to whoever reads a `Pdag`."""
        return self.edges

    @cached_property
    def _parents(self) -> dict[str, tuple[str, ...]]:
        return _grouped(self.nodes, ((v, u) for u, v in self.edges))

    @cached_property
    def _children(self) -> dict[str, tuple[str, ...]]:
        return _grouped(self.nodes, self.edges)

    def parents(self, node: str) -> tuple[str, ...]:
        """Return the parents of ``node``, sorted."""
        return _look_up(self._parents, node)

    def children(self, node: str) -> tuple[str, ...]:
        """Return the children of ``node``, sorted."""
        return _look_up(self._children, node)

    def markov_blanket(self, node: str) -> frozenset[str]:
        """Return parents, children and the children's other parents of ``node``."""
        blanket = {*self.parents(node), *self.children(node)}
        for child in self.children(node):
            blanket.update(self.parents(child))
        return frozenset(blanket - {node})

    def topological_order(self) -> tuple[str, ...]:
        """Return the nodes parents first; ties are broken by name."""
        waiting = {node: len(self.parents(node)) for node in self.nodes}
        ready = [node for node in self.nodes if not waiting[node]]
        order = []
        while ready:
            node = heapq.heappop(ready)
            order.append(node)
            for child in self.children(node):
                waiting[child] -= 1
                if not waiting[child]:
                    heapq.heappush(ready, child)
        return tuple(order)

    def to_pdag(self) -> Pdag:
        """Return the same edges as a partially directed graph."""
        return Pdag(self.nodes, self.edges)

    def cpdag(self) -> Pdag:
        """Return the completed partially directed graph: what data alone could tell of this DAG.

        An edge is directed exactly if it points the same way in every DAG with the same
        independences (Chickering 1995, algorithms Order-Edges and Label-Edges).
        """
        rank = {node: i for i, node in enumerate(self.topological_order())}
        compelled = _compelled_edges(self, rank)
        reversible = [e for e in self.edges if e not in compelled]
        return Pdag(self.nodes, compelled, reversible)

    def to_networkx(self) -> nx.DiGraph:
        return self.to_pdag().to_networkx()

    def _repr_html_(self) -> str:
        return _drawn(self)

    @classmethod
    def from_networkx(cls, graph: nx.DiGraph) -> Dag:
        """Read a networkx graph, which must be directed."""
        if not graph.is_directed():
            raise GraphError("the networkx graph is not directed")
        return cls(graph.nodes, graph.edges)


def find_cycle(edges: Iterable[Edge]) -> tuple[str, ...]:
    """Return the nodes of one directed cycle, smallest name first, or nothing if there is none."""
    into: dict[str, list[str]] = {}
    for u, v in sorted(edges):
        into.setdefault(v, []).append(u)
    try:
        TopologicalSorter(into).prepare()
    except CycleError as error:
        cycle = error.args[1][1:]
        start = cycle.index(min(cycle))
        return (*cycle[start:], *cycle[:start])
    return ()


def _compelled_edges(dag: Dag, rank: dict[str, int]) -> set[Edge]:
    label: dict[Edge, bool] = {}
    for child in sorted(dag.nodes, key=rank.__getitem__):
        parents = sorted(dag.parents(child), key=rank.__getitem__, reverse=True)
        for parent in parents:
            if (parent, child) not in label:
                _label_edges_into(dag, parent, child, label)
    return {edge for edge, compelled in label.items() if compelled}


def _label_edges_into(dag: Dag, parent: str, child: str, label: dict[Edge, bool]) -> None:
    """Label the edge and what follows from it (Label-Edges, lines 5 to 12)."""
    into_child = dag.parents(child)
    for grand in dag.parents(parent):
        if not label[grand, parent]:
            continue
        if grand not in into_child:
            for other in into_child:
                label[other, child] = True
            return
        label[grand, child] = True
    compelled = any(z != parent and z not in dag.parents(parent) for z in into_child)
    for other in into_child:
        label.setdefault((other, child), compelled)


def _checked_nodes(nodes: Iterable[str]) -> tuple[str, ...]:
    ordered = tuple(sorted(nodes))
    twice = [a for a, b in pairwise(ordered) if a == b]
    if twice:
        raise GraphError(f"node {twice[0]!r} is named twice")
    return ordered


def _check_edges(nodes: tuple[str, ...], edges: tuple[Edge, ...]) -> None:
    known = set(nodes)
    seen: set[Edge] = set()
    for u, v in edges:
        for name in (u, v):
            if name not in known:
                raise UnknownVariableError(name, nodes)
        if u == v:
            raise GraphError(f"edge {u!r} - {v!r} is a loop")
        pair = (min(u, v), max(u, v))
        if pair in seen:
            raise GraphError(f"there are two edges between {u!r} and {v!r}")
        seen.add(pair)


def _adjacency(nodes: tuple[str, ...], edges: Iterable[Edge]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {node: set() for node in nodes}
    for u, v in edges:
        found[u].add(v)
        found[v].add(u)
    return {node: frozenset(others) for node, others in found.items()}


def _grouped(nodes: tuple[str, ...], edges: Iterable[Edge]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {node: [] for node in nodes}
    for u, v in edges:
        found[u].append(v)
    return {node: tuple(sorted(others)) for node, others in found.items()}


def _look_up(table: dict[str, _T], node: str) -> _T:
    if node not in table:
        raise UnknownVariableError(node, tuple(table))
    return table[node]


def _drawn(graph: Dag | Pdag) -> str:
    from driftbn.explain.html import framed, graph_to_html  # noqa: PLC0415 - see pyproject.toml

    return framed(graph_to_html(graph))


# How two graphs differ: the Hamming rule, stated once.


@dataclass(frozen=True)
class StructureDiff:
    """The difference between two graphs, seen from the previous to the current one.

    Edges are as they are now, removed ones as they were; an undirected one has the smaller name
    first.

    >>> diff = compare(Dag("abc", [("a", "b")]), Dag("abc", [("b", "a"), ("b", "c")]))
    >>> diff.added, diff.reversed, diff.hamming
    ((('b', 'c'),), (('b', 'a'),), 2)
    """

    added: tuple[Edge, ...] = ()  # their nodes have no edge in the other graph
    removed: tuple[Edge, ...] = ()
    reversed: tuple[Edge, ...] = ()
    directed: tuple[Edge, ...] = ()  # only now, like the next
    undirected: tuple[Edge, ...] = ()
    nodes_added: tuple[str, ...] = ()
    nodes_removed: tuple[str, ...] = ()

    @property
    def hamming(self) -> int:
        """Number of edges to add, remove, reverse, direct or undirect."""
        return self.skeleton + len(self.reversed) + len(self.directed) + len(self.undirected)

    @property
    def skeleton(self) -> int:
        """Number of pairs that have an edge in one graph only."""
        return len(self.added) + len(self.removed)

    @property
    def contradictions(self) -> int:
        """Number of edges on which the graphs cannot both be right: all but a direction unknown."""
        return self.skeleton + len(self.reversed)

    def _repr_html_(self) -> str:
        from driftbn.explain.html import diff_to_html  # noqa: PLC0415 - see pyproject.toml

        return diff_to_html(self)


def compare(previous: Dag | Pdag, current: Dag | Pdag) -> StructureDiff:
    """Describe how ``current`` differs from ``previous``.

    The graphs may have different nodes. Between two CPDAGs the Hamming distance of the result is
    their structural Hamming distance (SHD).

    >>> chain = Pdag("abc", [], [("a", "b"), ("b", "c")])
    >>> collider = Pdag("abc", [("a", "b"), ("c", "b")])
    >>> compare(chain, collider).directed
    (('a', 'b'), ('c', 'b'))
    """
    before, after = _by_pair(previous), _by_pair(current)
    kept = [(before[pair], after[pair]) for pair in before.keys() & after.keys()]
    changed = [(old, new) for old, new in kept if old != new]
    return StructureDiff(
        added=tuple(sorted(edge for pair, (edge, _) in after.items() if pair not in before)),
        removed=tuple(sorted(edge for pair, (edge, _) in before.items() if pair not in after)),
        reversed=tuple(sorted(new[0] for old, new in changed if old[1] and new[1])),
        directed=tuple(sorted(new[0] for old, new in changed if not old[1])),
        undirected=tuple(sorted(new[0] for old, new in changed if not new[1])),
        nodes_added=tuple(sorted(set(current.nodes) - set(previous.nodes))),
        nodes_removed=tuple(sorted(set(previous.nodes) - set(current.nodes))),
    )


def shd(previous: Dag | Pdag, current: Dag | Pdag) -> int:
    """Return the structural Hamming distance of the equivalence classes; DAGs become CPDAGs.

    >>> shd(Dag("ab", [("a", "b")]), Dag("ab", [("b", "a")]))
    0
    """
    return compare(_class_of(previous), _class_of(current)).hamming


def _class_of(graph: Dag | Pdag) -> Pdag:
    return graph.cpdag() if isinstance(graph, Dag) else graph


def _by_pair(graph: Dag | Pdag) -> dict[Edge, tuple[Edge, bool]]:
    """Return for each pair, smaller name first, its edge and whether that is directed."""
    found = {(min(edge), max(edge)): (edge, True) for edge in graph.directed_edges}
    return found | {edge: (edge, False) for edge in graph.undirected_edges}
