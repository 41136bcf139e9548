from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
from driftbn_service.http.graph import (
    ChangedEdge,
    ChangedNode,
    EdgeStatus,
    LineRow,
    NodeRow,
    changed_edges,
    changed_nodes,
    line_row,
    node_row,
)

from driftbn import Association, ChangeType, Dag, DriftDecision, DriftLevel, EdgeChange, NodeChange
from driftbn.config import DriftKind
from driftbn.explain.svg import LIGHT
from driftbn.report import WindowReport
from tests.reports import STABLE, window_report

WEAK, STRONG = Association(0.0, 0.0, 0.001), Association(0.15, 0.1, 0.2)
BEFORE = Dag("abcde", [("a", "b"), ("b", "c"), ("c", "d")])
NOW = Dag("abcde", [("a", "b"), ("c", "b"), ("d", "e")])
ADDED = EdgeChange("d", "e", ChangeType.ADDED, 0.001, WEAK, STRONG, ("a",))
REMOVED = EdgeChange("a", "e", ChangeType.REMOVED, 0.002, STRONG, WEAK)


def report(decision: DriftDecision = STABLE) -> WindowReport:
    target = {"target": "b", "blanket": ("a", "c")}
    return window_report(decision, NOW, BEFORE, graph=NOW.to_pdag(), **target)


def drift(*edges: EdgeChange) -> DriftDecision:
    return DriftDecision(
        DriftLevel.DRIFT,
        alpha=0.01,
        kind=DriftKind.STRUCTURAL,
        edges=edges,
        node_changes=(NodeChange("c", ("d",), 0.01, 0.2),),
    )


@dataclass(frozen=True)
class Drawn:
    """The graph of a report, for the page and for Grafana."""

    nodes: tuple[ChangedNode, ...]
    edges: tuple[ChangedEdge, ...]

    @property
    def node_rows(self) -> list[NodeRow]:
        return [node_row(node, self.edges) for node in self.nodes]

    @property
    def edge_rows(self) -> list[LineRow]:
        return [line_row(edge) for edge in self.edges]


def graph_of(value: WindowReport, confirmed: DriftDecision | None = None) -> Drawn:
    decision = confirmed or value.decision
    edges = changed_edges(value, decision)
    return Drawn(changed_nodes(value, decision, edges), edges)


def test_a_confirmed_change_carries_how_sure_and_how_strong_it_is() -> None:
    (edge,) = (e for e in graph_of(report(drift(ADDED))).edges if e.confirmed)

    assert edge.status is EdgeStatus.ADDED
    assert edge.confirmed is ChangeType.ADDED
    assert edge.p_value == 0.001
    assert edge.after == STRONG
    assert edge.given == ("a",)


def test_a_confirmed_loss_is_there_although_no_graph_has_the_edge() -> None:
    graph = graph_of(report(drift(REMOVED)))

    edge = next(edge for edge in graph.edges if (edge.source, edge.target) == ("a", "e"))

    assert edge.status is EdgeStatus.ABSENT
    assert edge.shown_status is EdgeStatus.REMOVED
    assert edge.nats == 0.15


def test_confirmed_changes_may_come_from_another_window_of_the_episode() -> None:
    earlier = drift(ADDED)

    graph = graph_of(report(), confirmed=earlier)

    assert [edge.target for edge in graph.edges if edge.confirmed] == ["e"]
    assert [node.name for node in graph.nodes if node.changed] == ["c"]


def test_a_confirmed_change_meets_its_edge_whichever_way_that_points() -> None:
    turned = replace(ADDED, source="e", target="d")

    graph = graph_of(report(drift(turned)))

    assert len([edge for edge in graph.edges if {edge.source, edge.target} == {"d", "e"}]) == 1


def test_an_edge_without_a_told_direction_says_so() -> None:
    free = replace(report(), graph=Dag("abcde", [("a", "b")]).cpdag())

    found = {(e.source, e.target): e.directed for e in graph_of(free).edges}

    assert found["a", "b"] is False


@pytest.mark.parametrize(
    ("ends", "status"), [(("d", "e"), EdgeStatus.ADDED), (("a", "e"), EdgeStatus.REMOVED)]
)
def test_grafana_shows_confirmed_changes_thick_and_in_colour(
    ends: tuple[str, str], status: EdgeStatus
) -> None:
    rows = {
        (row.source, row.target): row for row in graph_of(report(drift(ADDED, REMOVED))).edge_rows
    }

    assert rows[ends].color == LIGHT[status.value]
    assert rows[ends].mainstat == status.value
    assert rows[ends].thickness > 3 > rows["a", "b"].thickness
    assert rows[ends].secondarystat == "strong (0.15 nats)"


def test_grafana_shows_a_change_of_unknown_strength_as_one() -> None:
    unknown = replace(ADDED, after=Association(math.nan, math.nan, math.nan))
    rows = {(row.source, row.target): row for row in graph_of(report(drift(unknown))).edge_rows}

    assert (rows["d", "e"].secondarystat, rows["d", "e"].thickness) == ("", 3.0)


def test_grafana_marks_a_field_that_follows_another_rule() -> None:
    rows = {row.id: row for row in graph_of(report(drift(ADDED))).node_rows}

    assert rows["c"].color == LIGHT["changed"]
    assert rows["c"].subtitle == "follows another rule"
    assert rows["b"].subtitle == "target"
