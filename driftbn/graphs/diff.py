"""How two graphs differ: the Hamming rule, stated once."""

from __future__ import annotations

from dataclasses import dataclass

from driftbn.graphs.graph import Dag, Edge, Pdag


@dataclass(frozen=True)
class StructureDiff:
    """The difference between two graphs, seen from the previous to the current one.

    Parameters
    ----------
    added, removed
        Edges whose nodes have no edge in the other graph; an undirected one with the smaller name
        first.
    reversed
        Edges that point one way before and the other way now, as they point now.
    directed, undirected
        Edges that are directed or undirected only now, as they are now.
    nodes_added, nodes_removed
        Variables that only one of the graphs has.

    Examples
    --------
    >>> diff = compare(Dag("abc", [("a", "b")]), Dag("abc", [("b", "a"), ("b", "c")]))
    >>> diff.added, diff.reversed, diff.hamming
    ((('b', 'c'),), (('b', 'a'),), 2)
    """

    added: tuple[Edge, ...] = ()
    removed: tuple[Edge, ...] = ()
    reversed: tuple[Edge, ...] = ()
    directed: tuple[Edge, ...] = ()
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


def compare(previous: Dag | Pdag, current: Dag | Pdag) -> StructureDiff:
    """Describe how ``current`` differs from ``previous``.

    The graphs may have different nodes. Between two CPDAGs the Hamming distance of the result is
    their structural Hamming distance (SHD).

    Examples
    --------
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

    Examples
    --------
    >>> shd(Dag("ab", [("a", "b")]), Dag("ab", [("b", "a")]))
    0
    """
    return compare(_class_of(previous), _class_of(current)).hamming


def _class_of(graph: Dag | Pdag) -> Pdag:
    return graph.cpdag() if isinstance(graph, Dag) else graph


def _by_pair(graph: Dag | Pdag) -> dict[Edge, tuple[Edge, bool]]:
    """Return for each pair, smaller name first, its edge and whether that is directed."""
    directed = graph.edges if isinstance(graph, Dag) else graph.directed_edges
    found = {(min(edge), max(edge)): (edge, True) for edge in directed}
    if isinstance(graph, Pdag):
        found.update({edge: (edge, False) for edge in graph.undirected_edges})
    return found
