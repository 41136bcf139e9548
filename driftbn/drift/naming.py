"""What has changed, by name: only asked once a drift is certain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from driftbn.drift.comparison import Comparison
from driftbn.drift.edits import Doubts, Edit, EditSearch, Parents, Rows, parents_of, tie_of
from driftbn.drift.outcome import Association, ChangeType, DriftKind, EdgeChange, NodeChange
from driftbn.graphs.graph import Pdag
from driftbn.kernels.evidence import Floats
from driftbn.learning import LearnedStructure

NAMING_LEVEL = 0.01
MAX_SUSPECTS = 64  # pairs between which an edge is tried, those with the strongest tests


@dataclass(frozen=True)
class Naming:
    """The named changes and what they come to."""

    kind: DriftKind
    edges: tuple[EdgeChange, ...]
    nodes: tuple[NodeChange, ...]
    effect: float


def holm(p_values: list[float], n_tests: int) -> list[float]:
    """Return Holm's adjusted p-values of the smallest of ``n_tests``.

    Examples
    --------
    >>> holm([0.01, 0.001], 10)
    [0.09, 0.01]
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, p_values[index] * (n_tests - rank)))
        adjusted[index] = largest
    return adjusted


def name_changes(
    comparison: Comparison,
    reference: Pdag,
    parents: Parents,
    window: LearnedStructure,
    effects: Floats,
) -> Naming:
    """Name edges and nodes that changed between the reference and the compared windows.

    Parameters
    ----------
    comparison
        The tests.
    reference, parents
        The graph of the reference, and the parents in its extension.
    window
        What was learned of the new windows.
    effects
        Design effect of each field in the new windows.
    """
    nodes = _changed_nodes(comparison)
    pairs = _suspect_pairs(comparison)
    rows = Rows(comparison.a.windows, comparison.b.windows, comparison.plan.tables.cards)
    search = EditSearch(parents, rows, effects, _doubts(pairs, reference, window))
    place = {name: i for i, name in enumerate(comparison.plan.names)}
    edits = search.run(pairs, [place[change.name] for change in nodes])
    if not edits:
        nodes = _told_by_a_root(comparison, reference, parents, nodes)
    found = [edge_change(comparison, edit) for edit in edits]
    edges = [_with_direction(edge, reference, window.graph) for edge in found]
    effects_seen = [abs(edge.after.nats - edge.before.nats) for edge in edges]
    effect = max([*effects_seen, *(change.effect for change in nodes)], default=0.0)
    return Naming(_kind(edges, nodes), tuple(edges), tuple(nodes), effect)


def _told_by_a_root(
    comparison: Comparison, reference: Pdag, parents: Parents, nodes: list[NodeChange]
) -> list[NodeChange]:
    """Return the one root whose change explains all others, if there is one; else all."""
    place = {name: i for i, name in enumerate(comparison.plan.names)}
    changed = [place[change.name] for change in nodes]
    root = root_of_change(comparison, reference, parents, changed, NAMING_LEVEL)
    return nodes if root is None else [root]


def _kind(edges: list[EdgeChange], nodes: list[NodeChange]) -> DriftKind:
    if edges:
        return DriftKind.STRUCTURAL
    if not nodes:
        return DriftKind.ASSOCIATION
    roots_only = all(not change.parents for change in nodes)
    return DriftKind.MARGINAL if roots_only else DriftKind.MECHANISM


def _changed_nodes(comparison: Comparison) -> list[NodeChange]:
    plan = comparison.plan
    suspects = np.flatnonzero(comparison.node_p_values <= NAMING_LEVEL).tolist()
    p_values = holm([comparison.node_p_value(v)[0] for v in suspects], plan.n_nodes)
    found = [
        NodeChange(
            plan.names[v],
            tuple(plan.names[u] for u in plan.given(v)),
            p,
            comparison.effect_of(comparison.node_statistics[v]),
        )
        for v, p in zip(suspects, p_values, strict=True)
        if p <= NAMING_LEVEL
    ]
    return sorted(found, key=lambda change: (change.p_value, -change.effect, change.name))


def _doubts(pairs: list[tuple[int, int]], reference: Pdag, window: LearnedStructure) -> Doubts:
    names = reference.nodes
    place = {name: i for i, name in enumerate(names)}
    free = {name for edge in reference.undirected_edges for name in edge}
    separators = {}
    for x, y in pairs:
        found = window.separators.get((names[x], names[y]))
        if found is not None:
            separators[x, y] = tuple(place[name] for name in found)
    certain = parents_of(names, reference.directed_edges)
    return Doubts([name in free for name in names], certain, separators)


def _suspect_pairs(comparison: Comparison) -> list[tuple[int, int]]:
    """Return the pairs whose tests reject, the strongest first."""
    plan = comparison.plan
    value, dof = comparison.tie_statistics
    low = np.flatnonzero(comparison.tie_p_values * plan.n_ties <= NAMING_LEVEL)
    found: dict[tuple[int, int], None] = {}
    for tie in low[np.argsort(-(value - dof)[low], kind="stable")].tolist():
        if len(found) == MAX_SUSPECTS:
            break
        if comparison.tie_p_value(tie)[0] * plan.n_ties <= NAMING_LEVEL:
            source, child = plan.tie(tie)
            found[min(source, child), max(source, child)] = None
    return list(found)


def edge_change(comparison: Comparison, edit: Edit) -> EdgeChange:
    """Return an edit as a change, with how sure it is and how strong the tie was and is."""
    plan = comparison.plan
    ties = plan.ties_of(edit.source, edit.target)
    tie = min(ties, key=lambda tie: (comparison.tie_p_value(tie)[0], tie))
    p = comparison.tie_p_value(tie)[0] * plan.n_ties
    if edit.kind is not ChangeType.ADDED:
        # Given the child's other parents: without them, what is left may come another way.
        child = edit.target if edit.kind is ChangeType.REMOVED else edit.source
        tie = next((one for one in ties if plan.tie(one)[1] == child), tie)
        ends = (comparison.node_p_value(v)[0] for v in (edit.source, edit.target))
        p = min(p, *(p_node * plan.n_nodes for p_node in ends))
    return EdgeChange(
        plan.names[edit.source],
        plan.names[edit.target],
        edit.kind,
        min(1.0, p),
        *associations(comparison, tie),
        tuple(plan.names[z] for z in plan.given(plan.n_nodes + tie)),
    )


def _with_direction(edge: EdgeChange, before: Pdag, after: Pdag) -> EdgeChange:
    """Say whether the data tell the direction; if not, the smaller name comes first."""
    graph = before if edge.change is ChangeType.REMOVED else after
    if edge.change is ChangeType.REVERSED or (edge.source, edge.target) in graph.directed_edges:
        return edge
    if (edge.target, edge.source) in graph.directed_edges:
        return replace(edge, source=edge.target, target=edge.source)
    source, target = edge.pair
    return replace(edge, source=source, target=target, directed=False)


def associations(comparison: Comparison, tie: int) -> tuple[Association, Association]:
    """Return the association of a tie in both groups, given the set of its test."""
    tables = comparison.plan.tables
    t = comparison.plan.n_nodes + tie
    span = slice(int(tables.first[t]), int(tables.first[t + 1]))
    shape = (-1, int(tables.cards[tables.child[t]]), int(tables.cards[tables.source[t]]))
    before, after = (
        tie_of(group.counts[span].reshape(shape)).association
        for group in (comparison.a, comparison.b)
    )
    return before, after


# Changes of several fields that are the change of one root in another DAG of the same class.

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
