"""Reports as the history keeps them, made reports again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from driftbn.drift.outcome import (
    Association,
    ChangeType,
    DriftDecision,
    DriftKind,
    DriftLevel,
    EdgeChange,
    EpisodeEvent,
    Family,
    FamilyResult,
    NodeChange,
    UndecidedPair,
)
from driftbn.errors import FormatError
from driftbn.explain.documents import FORMAT, VERSION
from driftbn.graphs.diff import StructureDiff
from driftbn.graphs.graph import Dag, Edge, Pdag
from driftbn.learning import SearchCost
from driftbn.learning.search import Overrun
from driftbn.records import SchemaEvent, SchemaEventKind
from driftbn.report import ShadowLook, WarmAudit, WindowReport


def report_from_dict(document: Mapping[str, Any]) -> WindowReport:
    """Return the report that ``WindowReport.to_dict()`` was made of, without its timings.

    Raises
    ------
    FormatError
        If it is no report of this version, or a part of it is absent or not allowed.

    Examples
    --------
    >>> dag, same = Dag("ab", [("a", "b")]), StructureDiff()
    >>> decision = DriftDecision(DriftLevel.LEARNING, alpha=0.01)
    >>> report = WindowReport(0, 9, 0, 8, dag.cpdag(), dag, same, same, decision, SearchCost((1,)))
    >>> report_from_dict(report.to_dict()) == report
    True
    """
    found = (document.get("format"), document.get("version"))
    if found != (FORMAT, VERSION):
        raise FormatError(
            f"a report of format {found[0]!r}, version {found[1]!r}; this driftbn reads"
            f" {FORMAT!r}, version {VERSION}"
        )
    try:
        return _report(document)
    except KeyError as error:
        raise FormatError(f"a report without {error}; it must have all its parts") from error
    except (TypeError, ValueError) as error:
        raise FormatError(f"a report that is not sound: {error}") from error


def _report(document: Mapping[str, Any]) -> WindowReport:
    audit, shadow = document["audit"], document["shadow"]
    overrun = document["overrun"]
    dag = document["dag"]
    return WindowReport(
        **{name: document[name] for name in ("index", "rows", "first_record", "last_record")},
        start=document["start"],
        end=document["end"],
        graph=_pdag(document["graph"]),
        dag=Dag(dag["nodes"], _edges(dag["edges"])),
        diff=_diff(document["diff"]),
        class_diff=_diff(document["class_diff"]),
        decision=decision_from_dict(document["decision"]),
        cost=_cost(document["cost"]),
        conflicts=_edges(document["conflicts"]),
        events=tuple(_event(event) for event in document["events"]),
        excluded=tuple((item["name"], item["reason"]) for item in document["excluded"]),
        twins=tuple((item["name"], item["same_as"]) for item in document["twins"]),
        overrun=None if overrun is None else Overrun(overrun),
        audit=audit and WarmAudit(audit["disagreement"], _cost(audit["cost"])),
        shadow=shadow and ShadowLook(shadow["alarm"]),
        missing=tuple((item["name"], _number(item["share"])) for item in document["missing"]),
        target=document["target"],
        blanket=tuple(document["blanket"]),
    )


def decision_from_dict(document: Mapping[str, Any]) -> DriftDecision:
    """Return the decision that a report's ``decision`` was made of.

    Examples
    --------
    >>> from driftbn.explain.documents import decision_to_dict
    >>> decision = DriftDecision(DriftLevel.STABLE, alpha=0.01, p_value=0.4)
    >>> decision_from_dict(decision_to_dict(decision)) == decision
    True
    """
    kind, event = document["kind"], document["episode_event"]
    plain = ("scale", "n_undecided", "episode", "since", "regime", "recurring", "reference_windows")
    return DriftDecision(
        level=DriftLevel(document["level"]),
        kind=None if kind is None else DriftKind(kind),
        episode_event=None if event is None else EpisodeEvent(event),
        families=tuple(_family(item) for item in document["families"]),
        edges=tuple(_edge_change(item) for item in document["edges"]),
        node_changes=tuple(
            NodeChange(
                item["name"],
                tuple(item["parents"]),
                _number(item["p_value"]),
                _number(item["effect"]),
            )
            for item in document["nodes"]
        ),
        undecided=tuple(
            UndecidedPair(item["source"], item["target"], _number(item["visible_change"], math.inf))
            for item in document["undecided"]
        ),
        design_effect=_number(document["design_effect"], math.inf),
        p_value=_number(document["p_value"]),
        alpha=_number(document["alpha"]),
        effect=_number(document["effect"]),
        min_effect=_number(document["min_effect"]),
        reason=document.get("reason"),  # a report of an earlier version has none
        **{name: document[name] for name in plain},
    )


def _number(value: float | None, absent: float = math.nan) -> float:
    """Return a number; JSON has none for those that are not finite."""
    return absent if value is None else value


def _family(item: Mapping[str, Any]) -> FamilyResult:
    return FamilyResult(
        Family(item["family"]),
        _number(item["p_value"]),
        tuple(item["fields"]),
        item["scale"],
        item["n_tests"],
        _number(item["design_effect"], math.inf),
    )


def _edge_change(item: Mapping[str, Any]) -> EdgeChange:
    return EdgeChange(
        item["source"],
        item["target"],
        ChangeType(item["change"]),
        _number(item["p_value"]),
        _association(item["before"]),
        _association(item["after"]),
        tuple(item["given"]),
        item["directed"],
    )


def _association(item: Mapping[str, Any]) -> Association:
    return Association(*(_number(item[name]) for name in ("nats", "low", "high")))


def _event(item: Mapping[str, Any]) -> SchemaEvent:
    return SchemaEvent(
        SchemaEventKind(item["kind"]),
        item["column"],
        tuple(item["levels"]),
        item["n_levels"],
        item["n_rows"],
    )


def _edges(items: Iterable[Mapping[str, Any]]) -> tuple[Edge, ...]:
    return tuple((item["source"], item["target"]) for item in items)


def _pdag(item: Mapping[str, Any]) -> Pdag:
    directed = _edges(edge for edge in item["edges"] if edge["directed"])
    undirected = _edges(edge for edge in item["edges"] if not edge["directed"])
    return Pdag(item["nodes"], directed, undirected)


def _diff(item: Mapping[str, Any]) -> StructureDiff:
    names = ("added", "removed", "reversed", "directed", "undirected")
    return StructureDiff(
        **{name: _edges(item[name]) for name in names},
        nodes_added=tuple(item["nodes_added"]),
        nodes_removed=tuple(item["nodes_removed"]),
    )


def _cost(item: Mapping[str, Any]) -> SearchCost:
    return SearchCost(
        tuple(item["tests"]),
        tuple(item["undecided"]),
        tuple(item["orientation_tests"]),
        warm=item["warm"],
    )
