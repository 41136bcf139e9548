"""Reports of windows, and what is published of them, without learning anything."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from driftbn_service.events import EventState, Publication, Whose, publication_of

from driftbn import (
    Association,
    ChangeType,
    Dag,
    DriftDecision,
    DriftLevel,
    EdgeChange,
    compare,
)
from driftbn.drift.outcome import (  # noqa: F401
    EpisodeEvent,
    Family,
    FamilyResult,
    Travelled,
    UndecidedPair,
)
from driftbn.learning import SearchCost
from driftbn.report import WindowReport

NONE, STRONG = Association(0.0002, 0.0, 0.0009), Association(0.112, 0.098, 0.126)
STABLE = DriftDecision(DriftLevel.STABLE, alpha=0.01, p_value=0.31)


def edge_change(source: str, target: str, change: ChangeType = ChangeType.ADDED) -> EdgeChange:
    before, after = (STRONG, NONE) if change is ChangeType.REMOVED else (NONE, STRONG)
    return EdgeChange(source, target, change, 1e-6, before, after)


def window_report(
    decision: DriftDecision,
    dag: Dag,
    before: Dag | None = None,
    *,
    index: int = 3,
    rows: int = 100,
    **values: Any,
) -> WindowReport:
    """Return the report of a window that has just this DAG, after one with ``before``."""
    diff = compare(dag if before is None else before, dag)
    ends = rows * index, rows * index + rows - 1
    cost = SearchCost((3, 1))
    report = WindowReport(index, rows, *ends, dag.cpdag(), dag, diff, diff, decision, cost)
    return replace(report, **values)


def published(
    reports: Iterable[WindowReport], monitor: str = "orders", key: str = "", lane: str = ""
) -> list[Publication]:
    """Return what a stream publishes of one window after the other."""
    found, state = [], EventState()
    for report in reports:
        state, publication = publication_of(Whose(monitor, key, lane), report, state)
        found.append(publication)
    return found
