"""What has changed, by name: only asked once a drift is certain (METHOD.md, 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from driftbn.drift.comparison import Comparison
from driftbn.drift.edits import Ambiguity, Edit, EditRows, EditSearch, information_in
from driftbn.drift.outcome import Association, ChangeType, DriftKind, EdgeChange, NodeChange
from driftbn.drift.reference import Parents, parents_of
from driftbn.graphs.graph import Pdag
from driftbn.kernels.evidence import Floats
from driftbn.learning import LearnedStructure

NAMING_LEVEL = 0.01
MAX_SUSPECTS = 64  # pairs between which an edge is tried, those with the strongest tests


@dataclass(frozen=True)
class Naming:
    """The named changes, their kind, and the size of the largest in nats."""

    kind: DriftKind
    edges: tuple[EdgeChange, ...]
    nodes: tuple[NodeChange, ...]
    effect: float


def name_changes(
    comparison: Comparison,
    reference: Pdag,
    parents: Parents,
    window: LearnedStructure,
    effects: Floats,
) -> Naming:
    """Name edges and nodes that changed between the reference and the compared windows.

    ``reference``, ``parents``: the graph of the reference, and the parents in its extension.
    ``window``: what was learned of the newer windows. ``effects``: design effect of each field in
    the newer windows.
    """
    nodes = _changed_nodes(comparison)
    pairs = _suspect_pairs(comparison)
    older, newer = comparison.older.windows, comparison.newer.windows
    rows = EditRows(older, newer, comparison.plan.tables.cards)
    search = EditSearch(parents, rows, effects, _ambiguity(pairs, reference, window))
    place = {name: i for i, name in enumerate(comparison.plan.names)}
    changed = [place[change.name] for change in nodes]
    edits = search.run(pairs, changed)
    root = None if edits else changed_root(comparison, reference, parents, changed)
    if root is not None:
        nodes = [root]
    found = [edge_change(comparison, edit) for edit in edits]
    edges = [_with_direction(edge, reference, window.graph) for edge in found]
    sizes = [abs(edge.after.nats - edge.before.nats) for edge in edges]
    effect = max([*sizes, *(change.effect for change in nodes)], default=0.0)
    return Naming(_kind(edges, nodes), tuple(edges), tuple(nodes), effect)


def holm(p_values: list[float], n_tests: int) -> list[float]:
    """Return Holm's adjusted p-values of the smallest of ``n_tests``.

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


def _changed_nodes(comparison: Comparison) -> list[NodeChange]:
    """Return the fields whose tables given their parents have changed, the surest first."""
    plan = comparison.plan
    suspects = np.flatnonzero(comparison.node_p_values <= NAMING_LEVEL).tolist()
    p_values = holm([comparison.node_p_value(v)[0] for v in suspects], plan.n_nodes)
    found = [
        NodeChange(
            plan.names[v],
            tuple(plan.names[u] for u in plan.conditioning_set(v)),
            p,
            comparison.effect_of(comparison.node_statistics[v]),
        )
        for v, p in zip(suspects, p_values, strict=True)
        if p <= NAMING_LEVEL
    ]
    return sorted(found, key=lambda change: (change.p_value, -change.effect, change.name))


def _suspect_pairs(comparison: Comparison) -> list[tuple[int, int]]:
    """Return the pairs whose tests reject, the strongest first."""
    plan = comparison.plan
    value, dof = comparison.pair_statistics
    low = np.flatnonzero(comparison.pair_p_values * plan.n_pair_tests <= NAMING_LEVEL)
    found: dict[tuple[int, int], None] = {}
    for test in low[np.argsort(-(value - dof)[low], kind="stable")].tolist():
        if len(found) == MAX_SUSPECTS:
            break
        if comparison.pair_p_value(test)[0] * plan.n_pair_tests <= NAMING_LEVEL:
            source, child = plan.pair_of(test)
            found[min(source, child), max(source, child)] = None
    return list(found)


def _ambiguity(
    pairs: list[tuple[int, int]], reference: Pdag, window: LearnedStructure
) -> Ambiguity:
    names = reference.nodes
    place = {name: i for i, name in enumerate(names)}
    free = {name for edge in reference.undirected_edges for name in edge}
    separators = {}
    for x, y in pairs:
        found = window.separators.get((names[x], names[y]))
        if found is not None:
            separators[x, y] = tuple(place[name] for name in found)
    certain = parents_of(names, reference.directed_edges)
    return Ambiguity([name in free for name in names], certain, separators)


def edge_change(comparison: Comparison, edit: Edit) -> EdgeChange:
    """Return an edit as a change, with its p-value and the association before and after."""
    plan = comparison.plan
    tests = plan.tests_of_pair(edit.source, edit.target)
    test = min(tests, key=lambda test: (comparison.pair_p_value(test)[0], test))
    p = comparison.pair_p_value(test)[0] * plan.n_pair_tests
    if edit.kind is not ChangeType.ADDED:
        # Given the child's other parents: without them, some association may remain through these.
        child = edit.target if edit.kind is ChangeType.REMOVED else edit.source
        test = next((one for one in tests if plan.pair_of(one)[1] == child), test)
        ends = (comparison.node_p_value(v)[0] for v in (edit.source, edit.target))
        p = min(p, *(p_node * plan.n_nodes for p_node in ends))
    return EdgeChange(
        plan.names[edit.source],
        plan.names[edit.target],
        edit.kind,
        min(1.0, p),
        *associations(comparison, test),
        tuple(plan.names[z] for z in plan.conditioning_set(plan.n_nodes + test)),
    )


def associations(comparison: Comparison, test: int) -> tuple[Association, Association]:
    """Return the association of a pair before and after, given the set of its test."""
    before, after = (
        information_in(comparison.plan.pair_table(test, group.counts)).association
        for group in (comparison.older, comparison.newer)
    )
    return before, after


def _with_direction(edge: EdgeChange, before: Pdag, after: Pdag) -> EdgeChange:
    """Say whether the data show the direction; if not, the smaller name comes first."""
    graph = before if edge.change is ChangeType.REMOVED else after
    if edge.change is ChangeType.REVERSED or (edge.source, edge.target) in graph.directed_edges:
        return edge
    if (edge.target, edge.source) in graph.directed_edges:
        return replace(edge, source=edge.target, target=edge.source)
    source, target = edge.pair
    return replace(edge, source=source, target=target, directed=False)


def _kind(edges: list[EdgeChange], nodes: list[NodeChange]) -> DriftKind:
    if edges:
        return DriftKind.STRUCTURAL
    if not nodes:
        return DriftKind.ASSOCIATION
    roots_only = all(not change.parents for change in nodes)
    return DriftKind.MARGINAL if roots_only else DriftKind.MECHANISM


def changed_root(
    comparison: Comparison, reference: Pdag, parents: Parents, changed: Sequence[int]
) -> NodeChange | None:
    """Return the field without parents whose change explains all others, if there is one.

    Where the data leave the direction of an edge open, the DAG of the reference may point at the
    true root. If the distribution of the root changes, the field that seems to be the root changes
    too, and so does the table of the true one given it. The equivalence class then has a DAG in
    which one field without parents has changed, and all others follow their parents as before:
    that is the simpler account.

    ``reference``, ``parents``: the graph of the reference, and the parents in its extension.
    ``changed``: fields that have changed given these parents, the surest first.
    """
    certain = parents_of(reference.nodes, reference.directed_edges)
    neighbours = _undirected_neighbours(reference)
    for root in changed:
        if len(changed) < 2 or certain[root]:
            continue
        incoming = _directed_from(root, neighbours)
        if not set(changed) <= set(incoming):
            continue
        redirected = {v: certain[v] | incoming[v] for v in incoming}
        asked = [v for v in redirected if v in changed or redirected[v] != parents[v]]
        found = {v: comparison.node_given(v, sorted(redirected[v])) for v in asked}
        p, effect = found.pop(root)
        p *= comparison.plan.n_nodes
        if p <= NAMING_LEVEL < min(p_other for p_other, _ in found.values()) * len(found):
            return NodeChange(reference.nodes[root], (), p, effect)
    return None


def _undirected_neighbours(graph: Pdag) -> dict[int, list[int]]:
    place = {name: i for i, name in enumerate(graph.nodes)}
    found: dict[int, list[int]] = {v: [] for v in range(len(graph.nodes))}
    for x, y in graph.undirected_edges:
        found[place[x]].append(place[y])
        found[place[y]].append(place[x])
    return found


def _directed_from(root: int, neighbours: dict[int, list[int]]) -> dict[int, frozenset[int]]:
    """Return for each field joined to the root which of its neighbours then point at it.

    Fields are taken in the order of maximum cardinality search, which makes no new collider in a
    chordal graph (Tarjan and Yannakakis 1984, section 2); the undirected parts of an equivalence
    class are chordal.
    """
    taken: dict[int, frozenset[int]] = {root: frozenset()}
    while True:
        reached = {w for v in taken for w in neighbours[v]} - taken.keys()
        if not reached:
            return taken
        incoming = {v: frozenset(neighbours[v]) & taken.keys() for v in reached}
        chosen = max(reached, key=lambda v: (len(incoming[v]), -v))
        taken[chosen] = incoming[chosen]
