from __future__ import annotations

import pytest

from driftbn.decision.outcome import (
    Association,
    ChangeType,
    DriftDecision,
    DriftLevel,
    EdgeChange,
    NodeChange,
)

NONE = Association(0.0, 0.0, 0.1)
CHANGE = EdgeChange("smoke", "lung", ChangeType.REVERSED, 0.001, NONE, NONE)


def test_the_pair_of_a_change_is_in_the_order_of_names() -> None:
    assert CHANGE.pair == ("lung", "smoke")


@pytest.mark.parametrize("level", DriftLevel)
def test_only_a_drift_raises_an_alarm(level: DriftLevel) -> None:
    decision = DriftDecision(level, alpha=0.01)
    assert decision.drift == (level is DriftLevel.DRIFT)
    assert decision.settling == (level is DriftLevel.SETTLING)


def test_a_decision_counts_confirmed_edges_and_names_its_fields() -> None:
    nodes = (NodeChange("xray", ("either",), 0.002, 0.1), NodeChange("dysp", (), 0.01, 0.05))
    decision = DriftDecision(DriftLevel.DRIFT, 0.01, edges=(CHANGE, CHANGE), node_changes=nodes)
    assert decision.confirmed_hamming == 2
    assert decision.nodes == ("xray", "dysp")
    assert DriftDecision(DriftLevel.STABLE, 0.01).confirmed_hamming == 0
