"""What has changed, by name: only asked once a drift is certain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from driftbn._kernels.deviance import DEVIANCE, MEAN
from driftbn.decision.comparison import Comparison
from driftbn.decision.outcome import (
    Association,
    ChangeType,
    DriftKind,
    EdgeChange,
    NodeChange,
)
from driftbn.graph import Edge, Pdag
from driftbn.learning import LearnedStructure

NAMING_LEVEL = 0.01


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
    comparison: Comparison, reference: LearnedStructure, current: LearnedStructure
) -> Naming:
    """Name edges and nodes that changed between the reference and the compared windows."""
    nodes = _changed_nodes(comparison)
    edges = _flips(comparison, reference.graph, current.graph)
    blamed = {change.name for change in nodes}
    edges += _reversals(comparison, reference.graph, current.graph, blamed)
    if edges:
        kind = DriftKind.STRUCTURAL
    elif not nodes:
        kind = DriftKind.ASSOCIATION
    elif all(not change.parents for change in nodes):
        kind = DriftKind.MARGINAL
    else:
        kind = DriftKind.MECHANISM
    effects = [abs(edge.after.nats - edge.before.nats) for edge in edges]
    effect = max([*effects, *(change.effect for change in nodes)], default=0.0)
    return Naming(kind, tuple(edges), tuple(nodes), effect)


def _changed_nodes(comparison: Comparison) -> list[NodeChange]:
    plan = comparison.plan
    suspects = np.flatnonzero(comparison.node_p_values <= NAMING_LEVEL).tolist()
    p_values = holm([comparison.node_p_value(v)[0] for v in suspects], plan.n_nodes)
    found = [
        NodeChange(
            plan.names[v],
            tuple(plan.names[u] for u in plan.node_sets[v]),
            p,
            node_effect(comparison, v),
        )
        for v, p in zip(suspects, p_values, strict=True)
        if p <= NAMING_LEVEL
    ]
    return sorted(found, key=lambda change: (change.p_value, -change.effect, change.name))


def node_effect(comparison: Comparison, v: int) -> float:
    """Return how far a node's tables are apart, in nats per record."""
    deviance, mean = comparison.node_statistics[v, [DEVIANCE, MEAN]].tolist()
    n_a, n_b = comparison.a.n_rows, comparison.b.n_rows
    return max(0.0, deviance - mean) * (n_a + n_b) / (2.0 * n_a * n_b)


def _flips(comparison: Comparison, before: Pdag, after: Pdag) -> list[EdgeChange]:
    flipped = sorted(before.skeleton ^ after.skeleton)
    place = {name: i for i, name in enumerate(comparison.plan.names)}
    indices = [pair_number(place[x], place[y]) for x, y in flipped]
    p_values = holm(
        [comparison.edge_p_value(index)[0] for index in indices],
        max(len(flipped), comparison.plan.n_nodes),
    )
    found = []
    for pair, index, p in zip(flipped, indices, p_values, strict=True):
        if p <= NAMING_LEVEL:
            change = ChangeType.REMOVED if pair in before.skeleton else ChangeType.ADDED
            graph = before if change is ChangeType.REMOVED else after
            found.append(_edge_change(comparison, graph, pair, change, index, p))
    return sorted(found, key=lambda change: (change.p_value, change.pair))


def _reversals(
    comparison: Comparison, before: Pdag, after: Pdag, blamed: set[str]
) -> list[EdgeChange]:
    place = {name: i for i, name in enumerate(comparison.plan.names)}
    turned = sorted(
        (source, target)
        for source, target in after.directed_edges
        if (target, source) in set(before.directed_edges) and {source, target} & blamed
    )
    return [
        _edge_change(
            comparison,
            after,
            (min(edge), max(edge)),
            ChangeType.REVERSED,
            pair_number(*sorted((place[edge[0]], place[edge[1]]))),
            min(comparison.node_p_value(place[end])[0] for end in edge),
        )
        for edge in turned
    ]


def _edge_change(  # noqa: PLR0913 - one value, gathered in one place
    comparison: Comparison,
    graph: Pdag,
    pair: Edge,
    change: ChangeType,
    index: int,
    p_value: float,
) -> EdgeChange:
    plan = comparison.plan
    directed = pair not in graph.undirected_edges
    source, target = pair
    if directed and pair not in graph.directed_edges:
        source, target = target, source
    before, after = associations(comparison, index)
    given = tuple(plan.names[z] for z in plan.pair_sets[index])
    return EdgeChange(source, target, change, p_value, before, after, given, directed)


def associations(comparison: Comparison, index: int) -> tuple[Association, Association]:
    """Return the association of a pair in both groups, given the set of its test."""
    plan = comparison.plan
    t = plan.n_nodes + index
    span = slice(int(plan.tables.first[t]), int(plan.tables.first[t + 1]))
    x, y = plan.pair(index)
    shape = (-1, int(plan.tables.cards[x]), int(plan.tables.cards[y]))
    first, second = (
        association(group.counts[span].reshape(shape)) for group in (comparison.a, comparison.b)
    )
    return first, second


def association(table: np.ndarray) -> Association:
    """Return the conditional mutual information of counts ``[strata, x, y]`` with its interval."""
    counts = table.astype(np.float64)
    n = counts.sum()
    if n == 0:
        return Association(0.0, 0.0, float("inf"))
    strata = counts.sum((1, 2), keepdims=True)
    rows, columns = counts.sum(2, keepdims=True), counts.sum(1, keepdims=True)
    seen = counts > 0
    ratio = np.ones_like(counts)
    np.divide(counts * strata, rows * columns, out=ratio, where=seen)
    logs = np.log(ratio)
    raw = float(np.sum(counts * logs) / n)
    spread = float(np.sum(counts * logs**2) / n) - raw**2
    dof = float(
        np.sum(np.maximum((rows > 0).sum((1, 2)) - 1, 0) * np.maximum((columns > 0).sum((1, 2)) - 1, 0))
    )
    nats = max(0.0, raw - dof / (2.0 * n))
    margin = 1.96 * float(np.sqrt(max(spread, 0.0) / n + dof / (2.0 * n * n)))
    return Association(nats, max(0.0, nats - margin), nats + margin)


def pair_number(low: int, high: int) -> int:
    """Return the place of a pair in the list of all pairs."""
    return high * (high - 1) // 2 + low
