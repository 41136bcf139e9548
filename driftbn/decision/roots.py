"""Changes of several fields that are the change of one root in another DAG of the same class.

Where the data leave the direction of an edge open, the DAG of the reference may point at a root.
If the share of its values changes, the field that now seems to be the root changes too, and so
does the table of the true one given it. The class has a DAG in which one field without parents
has changed, and all others follow their parents as before: that is the simpler account.
"""

from __future__ import annotations

from collections.abc import Sequence

from driftbn.decision.comparison import Comparison
from driftbn.decision.families import Parents, parents_of
from driftbn.decision.outcome import NodeChange
from driftbn.graphs.graph import Pdag

Neighbours = dict[int, list[int]]


def root_of_change(
    comparison: Comparison, reference: Pdag, parents: Parents, changed: Sequence[int], level: float
) -> NodeChange | None:
    """Return the field without parents whose change explains all others, if there is one.

    Parameters
    ----------
    comparison
        The tests.
    reference, parents
        The graph of the reference, and the parents in its extension.
    changed
        Fields that have changed given these parents, the surest first.
    level
        At which a field is taken to have changed.
    """
    certain = parents_of(reference.nodes, reference.directed_edges)
    neighbours = _undirected(reference)
    for root in changed:
        if len(changed) < 2 or certain[root]:
            continue
        before = _before(root, neighbours)
        if not set(changed) <= set(before):
            continue
        turned = {v: certain[v] | before[v] for v in before}
        asked = [v for v in turned if v in changed or turned[v] != parents[v]]
        found = {v: comparison.states_given(v, sorted(turned[v])) for v in asked}
        p, effect = found.pop(root)
        p *= comparison.plan.n_nodes
        if p <= level < min(p_other for p_other, _ in found.values()) * len(found):
            return NodeChange(reference.nodes[root], (), p, effect)
    return None


def _undirected(graph: Pdag) -> Neighbours:
    place = {name: i for i, name in enumerate(graph.nodes)}
    found: Neighbours = {v: [] for v in range(len(graph.nodes))}
    for x, y in graph.undirected_edges:
        found[place[x]].append(place[y])
        found[place[y]].append(place[x])
    return found


def _before(root: int, neighbours: Neighbours) -> dict[int, frozenset[int]]:
    """Return for each field joined to the root which of its neighbours point at it then.

    Fields are taken in the order of maximum cardinality search, which makes no new collider in a
    chordal graph (Tarjan and Yannakakis 1984, section 2); those between directed edges of a class
    are chordal.
    """
    taken: dict[int, frozenset[int]] = {root: frozenset()}
    while True:
        reached = {w for v in taken for w in neighbours[v]} - taken.keys()
        if not reached:
            return taken
        ties = {v: frozenset(neighbours[v]) & taken.keys() for v in reached}
        chosen = max(reached, key=lambda v: (len(ties[v]), -v))
        taken[chosen] = ties[chosen]
