from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from driftbn import (
    Association,
    ChangeType,
    Dag,
    DriftDecision,
    DriftLevel,
    EdgeChange,
    NodeChange,
    Pdag,
    compare,
)
from driftbn.config import DriftKind
from driftbn.errors import FormatError
from driftbn.learning import Overrun, SearchCost
from driftbn.report import Relearned, ShadowLook, Timings, WarmAudit, WindowReport
from tests.encoded import SchemaEvent, SchemaEventKind
from tests.reports import EpisodeEvent, Family, FamilyResult, UndecidedPair

BEFORE, AFTER = Association(0.0, 0.0, 0.001), Association(0.1, 0.09, 0.11)


def make_report() -> WindowReport:
    """Return a report in which every field differs from its default."""
    decision = DriftDecision(
        DriftLevel.DRIFT,
        alpha=0.01,
        p_value=0.001,
        families=(FamilyResult(Family.ASSOCIATION, 0.001, ("a", "b"), 2, 3, 1.5),),
        kind=DriftKind.STRUCTURAL,
        scale=2,
        edges=(EdgeChange("a", "b", ChangeType.ADDED, 0.001, BEFORE, AFTER, ("c",), False),),
        node_changes=(NodeChange("b", ("c",), 0.002, 0.1),),
        effect=0.1,
        min_effect=0.01,
        undecided=(UndecidedPair("b", "c", math.inf),),
        n_undecided=3,
        episode=1,
        episode_event=EpisodeEvent.STARTED,
        since=4,
        regime=2,
        recurring=True,
        design_effect=1.5,
        reference_windows=8,
    )
    dag = Dag("abc", [("a", "b"), ("b", "c")])
    diff = compare(Dag("abc", [("a", "b")]), dag)
    cost = SearchCost((3, 1), (0, 1), (0, 1), seconds=0.5, warm=True)
    return WindowReport(
        index=4,
        rows=100,
        first_record=400,
        last_record=499,
        graph=Pdag("abc", [("b", "c")], [("a", "b")]),
        dag=dag,
        diff=diff,
        class_diff=diff,
        decision=decision,
        cost=cost,
        timings=Timings(0.5, 0.25),
        start=1.5,
        end=2.5,
        conflicts=(("a", "c"),),
        events=(SchemaEvent(SchemaEventKind.NEW_LEVEL, "a", ("x",), 1, 5),),
        excluded=(("id", "id_like"),),
        twins=(("d", "c"),),
        overrun=Overrun.TESTS,
        audit=WarmAudit(2, cost),
        shadow=ShadowLook(True),
        missing=(("a", 0.25),),
        target="b",
        blanket=("a", "c"),
        relearned=Relearned(cost, Overrun.DEADLINE),
    )


def json_of(report: WindowReport, *, timings: bool = False) -> str:
    return json.dumps(report.to_dict(timings=timings), allow_nan=False)


def test_edges_are_objects_with_their_direction() -> None:
    written = json.loads(json_of(make_report()))
    assert written["graph"]["edges"] == [
        {"source": "a", "target": "b", "directed": False},
        {"source": "b", "target": "c", "directed": True},
    ]
    assert written["diff"]["added"] == [{"source": "b", "target": "c"}]
    assert written["diff"]["hamming"] == 1
    assert written["conflicts"] == [{"source": "a", "target": "c"}]


def test_changes_are_written_with_their_numbers() -> None:
    decision = json.loads(json_of(make_report()))["decision"]
    assert decision["edges"] == [
        {
            "source": "a",
            "target": "b",
            "change": "added",
            "directed": False,
            "p_value": 0.001,
            "before": {"nats": 0.0, "low": 0.0, "high": 0.001},
            "after": {"nats": 0.1, "low": 0.09, "high": 0.11},
            "given": ["c"],
        }
    ]
    assert decision["nodes"] == [{"name": "b", "parents": ["c"], "p_value": 0.002, "effect": 0.1}]
    assert (decision["drift"], decision["kind"], decision["since"]) == (True, "structural", 4)


def test_numbers_that_json_lacks_are_null() -> None:
    report = make_report()
    decision = replace(report.decision, p_value=math.nan, design_effect=math.inf)
    written = json.loads(json_of(replace(report, decision=decision, start=-math.inf)))
    assert written["start"] is None
    assert written["decision"]["p_value"] is None
    assert written["decision"]["design_effect"] is None
    assert written["decision"]["undecided"][0]["visible_change"] is None


def test_hostile_names_survive() -> None:
    name = 'a"\n</script>\ud800'
    report = replace(make_report(), target=name)
    assert json.loads(json_of(report))["target"] == name


# --- Reading ---


def test_reports_come_back_as_they_were() -> None:
    report = make_report()
    back = WindowReport.from_dict(json.loads(json_of(report)))
    assert back == report
    assert back.explain() == report.explain()
    assert json_of(back) == json_of(report)


def test_numbers_that_json_lacks_come_back() -> None:
    report = make_report()
    unknown = replace(report.decision.edges[0], after=Association(*[math.nan] * 3))
    decision = replace(report.decision, edges=(unknown,), design_effect=math.inf)
    made = replace(report, decision=decision)
    back = WindowReport.from_dict(json.loads(json_of(made)))
    assert back.decision.undecided == decision.undecided
    assert back.decision.design_effect == math.inf
    assert back.explain() == made.explain()


def test_a_report_of_an_earlier_version_takes_defaults_for_what_it_lacks() -> None:
    document = make_report().to_dict()
    for name in ("shadow", "missing", "blanket"):
        del document[name]
    back = WindowReport.from_dict(document)
    assert (back.shadow, back.missing, back.blanket) == (None, (), ())
    assert back == replace(make_report(), shadow=None, missing=(), blanket=())


def test_what_a_report_has_beyond_its_fields_is_ignored() -> None:
    document = make_report().to_dict() | {"weather": "rain"}
    assert WindowReport.from_dict(document) == make_report()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 2}, "version 2"),
        ({"version": None}, "version None"),
        ({"format": "other"}, "'other'"),
        ({"overrun": "rain"}, "not sound"),
        ({"rows": "many"}, "'many' is no int"),
        ({"blanket": "abc"}, "not sound"),
        ({"decision": None}, "not sound"),
        ({"dag": {}}, "a window report without 'nodes'"),
        ({"dag": {"nodes": ["a"], "edges": [{"source": "a"}]}}, "without 'target'"),
    ],
)
def test_a_report_that_cannot_be_read_is_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(FormatError, match=said):
        WindowReport.from_dict(make_report().to_dict() | change)
