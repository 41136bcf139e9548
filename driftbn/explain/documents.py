"""Reports as plain dicts, ready for JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from driftbn.drift.outcome import Association, DriftDecision, EdgeChange, NodeChange
from driftbn.graphs.diff import StructureDiff
from driftbn.graphs.graph import Dag, Edge, Pdag
from driftbn.learning import SearchCost
from driftbn.records import SchemaEvent

if TYPE_CHECKING:
    from driftbn.report import WindowReport

FORMAT = "driftbn.report"
VERSION = 1


def report_to_dict(report: WindowReport, *, timings: bool = False) -> dict[str, object]:
    """Return a report as plain dicts, lists, strings and numbers.

    Keys always come in the same order, and a number that is not finite is ``None``, so equal
    reports give equal JSON.

    Parameters
    ----------
    report
        What to write.
    timings
        Whether to write how long things took, which differs from run to run.

    Examples
    --------
    >>> from driftbn.drift.outcome import DriftDecision, DriftLevel
    >>> from driftbn.graphs.graph import Dag
    >>> from driftbn.report import WindowReport
    >>> dag, same = Dag("ab", [("a", "b")]), StructureDiff()
    >>> decision = DriftDecision(DriftLevel.LEARNING, alpha=0.01)
    >>> report = WindowReport(0, 9, 0, 8, dag.cpdag(), dag, same, same, decision, SearchCost((1,)))
    >>> report_to_dict(report)["dag"]
    {'nodes': ['a', 'b'], 'edges': [{'source': 'a', 'target': 'b', 'directed': True}]}
    """
    audit = report.audit
    found: dict[str, object] = {
        "format": FORMAT,
        "version": VERSION,
        "index": int(report.index),
        "rows": int(report.rows),
        "first_record": int(report.first_record),
        "last_record": int(report.last_record),
        "start": number(report.start),
        "end": number(report.end),
        "graph": _graph(report.graph),
        "dag": _graph(report.dag),
        "diff": _diff(report.diff),
        "class_diff": _diff(report.class_diff),
        "decision": decision_to_dict(report.decision),
        "cost": _cost(report.cost, timings),
        "conflicts": _edges(report.conflicts),
        "events": [event_to_dict(event) for event in report.events],
        "excluded": [{"name": name, "reason": str(reason)} for name, reason in report.excluded],
        "twins": [{"name": name, "same_as": other} for name, other in report.twins],
        "degraded": report.degraded,
        "overrun": None if report.overrun is None else report.overrun.value,
        "audit": audit
        and {"disagreement": int(audit.disagreement), "cost": _cost(audit.cost, timings)},
        "shadow": report.shadow and {"alarm": bool(report.shadow.alarm)},
        "missing": [{"name": name, "share": number(share)} for name, share in report.missing],
        "target": report.target,
        "blanket": list(report.blanket),
    }
    if timings:
        spent = report.timings
        found["timings"] = {"learn": number(spent.learn), "decide": number(spent.decide)}
    return found


def number(value: float | None) -> float | None:
    """Return a number that JSON has, or ``None``."""
    return float(value) if value is not None and math.isfinite(value) else None


def decision_to_dict(decision: DriftDecision) -> dict[str, object]:
    """Return a decision as plain dicts, lists, strings and numbers.

    Examples
    --------
    >>> from driftbn.drift.outcome import DriftLevel
    >>> decision_to_dict(DriftDecision(DriftLevel.STABLE, alpha=0.01))["level"]
    'stable'
    """
    return {
        "level": decision.level.value,
        "drift": decision.drift,
        "kind": decision.kind and decision.kind.value,
        "p_value": number(decision.p_value),
        "alpha": number(decision.alpha),
        "scale": decision.scale,
        "families": [
            {
                "family": result.family.value,
                "p_value": number(result.p_value),
                "fields": list(result.fields),
                "scale": int(result.scale),
                "n_tests": int(result.n_tests),
                "design_effect": number(result.design_effect),
            }
            for result in decision.families
        ],
        "confirmed_hamming": decision.confirmed_hamming,
        "edges": [edge_change_to_dict(edge) for edge in decision.edges],
        "nodes": [node_change_to_dict(change) for change in decision.node_changes],
        "effect": number(decision.effect),
        "min_effect": number(decision.min_effect),
        "n_undecided": int(decision.n_undecided),
        "undecided": [
            {
                "source": pair.source,
                "target": pair.target,
                "visible_change": number(pair.visible_change),
            }
            for pair in decision.undecided
        ],
        "episode": decision.episode,
        "episode_event": decision.episode_event and decision.episode_event.value,
        "since": decision.since,
        "regime": int(decision.regime),
        "recurring": bool(decision.recurring),
        "design_effect": number(decision.design_effect),
        "reference_windows": int(decision.reference_windows),
        "reason": decision.reason,
    }


def edge_change_to_dict(edge: EdgeChange) -> dict[str, object]:
    """Return the change of an edge as a plain dict."""
    return {
        "source": edge.source,
        "target": edge.target,
        "change": edge.change.value,
        "directed": bool(edge.directed),
        "p_value": number(edge.p_value),
        "before": _association(edge.before),
        "after": _association(edge.after),
        "given": list(edge.given),
    }


def node_change_to_dict(change: NodeChange) -> dict[str, object]:
    """Return the change of a node as a plain dict."""
    return {
        "name": change.name,
        "parents": list(change.parents),
        "p_value": number(change.p_value),
        "effect": number(change.effect),
    }


def event_to_dict(event: SchemaEvent) -> dict[str, object]:
    """Return a difference from the schema as a plain dict."""
    return {
        "kind": event.kind.value,
        "column": event.column,
        "levels": list(event.levels),
        "n_levels": int(event.n_levels),
        "n_rows": int(event.n_rows),
    }


def _association(association: Association) -> dict[str, object]:
    return {
        "nats": number(association.nats),
        "low": number(association.low),
        "high": number(association.high),
    }


def _edges(edges: tuple[Edge, ...]) -> list[dict[str, object]]:
    return [{"source": source, "target": target} for source, target in edges]


def _graph(graph: Dag | Pdag) -> dict[str, object]:
    pdag = graph.to_pdag() if isinstance(graph, Dag) else graph
    directed = set(pdag.directed_edges)
    return {
        "nodes": list(pdag.nodes),
        "edges": [
            {"source": edge[0], "target": edge[1], "directed": edge in directed}
            for edge in sorted((*pdag.directed_edges, *pdag.undirected_edges))
        ],
    }


def _diff(diff: StructureDiff) -> dict[str, object]:
    return {
        "hamming": diff.hamming,
        "skeleton": diff.skeleton,
        "contradictions": diff.contradictions,
        "added": _edges(diff.added),
        "removed": _edges(diff.removed),
        "reversed": _edges(diff.reversed),
        "directed": _edges(diff.directed),
        "undirected": _edges(diff.undirected),
        "nodes_added": list(diff.nodes_added),
        "nodes_removed": list(diff.nodes_removed),
    }


def _cost(cost: SearchCost, timings: bool) -> dict[str, object]:
    found: dict[str, object] = {
        "tests": [int(n) for n in cost.tests],
        "undecided": [int(n) for n in cost.undecided],
        "orientation_tests": [int(n) for n in cost.orientation_tests],
        "weighted": int(cost.weighted),
        "n_tests": int(cost.n_tests),
        "warm": bool(cost.warm),
    }
    if timings:
        found["seconds"] = number(cost.seconds)
    return found
