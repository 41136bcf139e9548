"""Windows as publications, and what subscribers are told of them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

import pytest
from driftbn_service.events import (
    MAX_DIFFERENCES,
    MAX_LEVELS,
    Event,
    EventState,
    Publication,
    Whose,
    fingerprint_of,
    publication_of,
    rfc3339,
)

from driftbn import ChangeType, Dag, DriftDecision, DriftLevel, EdgeChange, NodeChange
from driftbn.config import DriftKind
from driftbn.errors import FormatError
from driftbn.learning import Overrun
from driftbn.report import Timings, WindowReport
from tests.encoded import SchemaEvent, SchemaEventKind
from tests.reports import NONE, STABLE, STRONG, EpisodeEvent, Travelled, window_report

STARTED, UPDATED, ENDED = EpisodeEvent
ADDED = EdgeChange("rain", "delay", ChangeType.ADDED, 1e-8, NONE, STRONG, ("day",))
REMOVED = EdgeChange("day", "delay", ChangeType.REMOVED, 1e-5, STRONG, NONE)
RULE = NodeChange("delay", ("day", "rain"), 0.001, 0.1)
DRIFT = DriftDecision(
    DriftLevel.DRIFT,
    alpha=0.01,
    p_value=0.0004,
    kind=DriftKind.STRUCTURAL,
    scale=1,
    edges=(ADDED,),
    effect=0.112,
)
SETTLING = replace(DRIFT, level=DriftLevel.SETTLING)
ABSENT = SchemaEvent(SchemaEventKind.MISSING_COLUMN, "rain", n_rows=100)
COLUMN = SchemaEvent(SchemaEventKind.NEW_COLUMN, "wind", n_rows=100)


def level(*texts: str, column: str = "day") -> SchemaEvent:
    return SchemaEvent(SchemaEventKind.NEW_LEVEL, column, texts, len(texts), 3)


def part(
    decision: DriftDecision, event: EpisodeEvent | None, episode: int | None = 2, since: int = 12
) -> DriftDecision:
    return replace(decision, episode=episode, episode_event=event, since=since)


def make_report(index: int = 12, decision: DriftDecision = STABLE, **values: Any) -> WindowReport:
    nodes, edge = ("day", "delay", "rain"), ("day", "delay")
    before, now = Dag(nodes, [edge]), Dag(nodes, [edge, ("rain", "delay")])
    values = {"timings": Timings(0.25, 0.5), **values}
    return replace(window_report(decision, now, before, index=index), **values)


def play(*reports: WindowReport, key: str = "") -> list[Publication]:
    """Publish windows one after the other; the state goes through JSON each time."""
    state, found = EventState(), []
    for report in reports:
        state, publication = publication_of(Whose("orders", key, "3"), report, state)
        state = EventState.from_dict(json.loads(json.dumps(state.to_dict())))
        found.append(publication)
    return found


def told(*reports: WindowReport, key: str = "") -> list[Event]:
    return [event for publication in play(*reports, key=key) for event in publication.events]


def names(events: list[Event]) -> list[str]:
    return [event.type.removeprefix("io.driftbn.").removesuffix(".v1") for event in events]


def windows(*decisions: DriftDecision) -> list[WindowReport]:
    return [make_report(12 + i, decision) for i, decision in enumerate(decisions)]


# Publications


def test_publication_has_report_words_and_timings() -> None:
    report = make_report(3)
    (publication,) = play(report, key="eu")
    assert (publication.stream, publication.key, publication.lane) == ("orders", "eu", "3")
    assert publication.window == 3
    assert publication.report == report.to_dict()
    assert publication.explanation == {
        "headline": report.explain().headline,
        "sentences": list(report.explain().sentences),
        "details": list(report.explain().details),
        "advice": [],
    }
    assert publication.timings == {"learn": 0.25, "decide": 0.5}
    assert publication.events == ()


# The envelope


def test_event_is_a_cloud_event() -> None:
    (event,) = told(make_report(12, part(DRIFT, STARTED), end=1.5), key="e u/ä")
    document = event.document
    assert document["specversion"] == "1.0"
    assert document["type"] == event.type == "io.driftbn.drift.started.v1"
    assert document["id"] == event.id
    assert UUID(event.id).version == 5
    assert urlsplit(document["source"]).path == "/streams/orders"
    assert unquote(urlsplit(document["source"]).query) == "key=e u/ä"
    assert " " not in document["source"]
    assert document["subject"] == "episodes/2"
    assert document["datacontenttype"] == "application/json"
    assert document["partitionkey"] == "orders/e u/ä"
    assert document["time"] == "1970-01-01T00:00:01.500000Z"
    assert all(name.isalnum() and name.islower() for name in document)
    assert json.loads(event.to_json()) == document


@pytest.mark.parametrize("seconds", [1e18, -1e18, float("inf"), float("nan")])
def test_impossible_time_is_absent(seconds: float) -> None:
    assert rfc3339(seconds) is None


def test_fingerprint_tells_same_id_with_other_data_apart() -> None:
    (event,) = told(make_report(12, part(DRIFT, STARTED)))
    (other,) = told(make_report(12, part(DRIFT, STARTED), rows=99))
    assert event.id == other.id
    assert event.fingerprint != other.fingerprint
    assert event.fingerprint == fingerprint_of(json.loads(event.to_json()))


# Episodes


def test_episode_is_told_from_start_to_end() -> None:
    events = told(
        *windows(STABLE, part(DRIFT, STARTED), part(SETTLING, None), part(STABLE, ENDED), STABLE)
    )
    assert names(events) == ["drift.started", "drift.ended"]
    assert [event.window for event in events] == [13, 15]


def test_start_tells_all_that_is_known() -> None:
    decision = replace(part(DRIFT, STARTED), node_changes=(RULE,), regime=1)
    (event,) = told(make_report(12, decision, target="delay", end=60.0))
    data = event.document["data"]
    assert data | {"sentences": None, "details": None, "edges": None} == {
        "stream": "orders",
        "key": "",
        "window": 12,
        "rows": 100,
        "first_record": 1200,
        "last_record": 1299,
        "headline": "Drift in orders: a dependency between 'rain' and 'delay' was added.",
        "sentences": None,
        "details": None,
        "advice": data["advice"],
        "episode": 2,
        "since_window": 12,
        "since_record": 1200,
        "since_time": "1970-01-01T00:01:00Z",
        "kind": "structural",
        "severity": "alert",
        "summary": "a dependency between 'rain' and 'delay' was added",
        "edges": None,
        "nodes": [{"name": "delay", "parents": ["day", "rain"], "p_value": 0.001, "effect": 0.1}],
        "recurring": False,
        "regime": 1,
        "level": "drift",
        "p_value": 0.0004,
        "alpha": 0.01,
        "effect": 0.112,
        "target": "delay",
        "target_touch": "itself",
        "hamming": 1,
        "confirmed_hamming": 1,
    }
    (edge,) = data["edges"]
    assert (edge["source"], edge["target"], edge["change"]) == ("rain", "delay", "added")
    assert data["advice"]


def test_update_that_names_the_same_is_not_told() -> None:
    events = told(*windows(part(DRIFT, STARTED), part(SETTLING, UPDATED), part(DRIFT, UPDATED)))
    assert names(events) == ["drift.started"]


@pytest.mark.parametrize(
    "change",
    [
        {"edges": (ADDED, REMOVED)},
        {"edges": (replace(ADDED, directed=False),)},
        {"kind": DriftKind.MECHANISM},
        {"node_changes": (RULE,)},
        {"recurring": True},
    ],
)
def test_update_that_names_something_else_is_told(change: dict[str, Any]) -> None:
    update = part(replace(SETTLING, **change), UPDATED)
    events = told(*windows(part(DRIFT, STARTED), update, update))
    assert names(events) == ["drift.started", "drift.updated"]
    data = events[1].document["data"]
    assert (data["since_window"], data["since_record"]) == (12, 1200)
    assert "Episode 2 began in window 12, record 1,200" in data["sentences"][0]


def test_end_repeats_what_was_told_last() -> None:
    better = replace(SETTLING, edges=(ADDED, REMOVED))
    events = told(*windows(part(DRIFT, STARTED), part(better, UPDATED), part(STABLE, ENDED)))
    data = events[-1].document["data"]
    assert data["kind"] == "structural"
    assert [edge["change"] for edge in data["edges"]] == ["added", "removed"]
    assert "was added; 1 more dependency changed, with 'day'" in data["sentences"][0]
    assert (data["since_window"], data["window"]) == (12, 14)


def test_end_after_a_return_says_that_things_are_as_before() -> None:
    back = part(replace(SETTLING, recurring=True), UPDATED)
    events = told(*windows(part(DRIFT, STARTED), back, part(STABLE, ENDED)))
    assert "back to an earlier state" in events[1].document["data"]["headline"]
    text = " ".join(events[-1].document["data"]["sentences"])
    assert "back to an earlier state" in text
    assert "undone" not in text


def test_episode_that_another_one_follows_at_once_has_ended() -> None:
    events = told(*windows(part(DRIFT, STARTED), part(DRIFT, STARTED, 3, 13)))
    assert names(events) == ["drift.started", "drift.ended", "drift.started"]
    assert [event.document["data"]["episode"] for event in events] == [2, 2, 3]
    assert "another change has begun" in events[1].document["data"]["headline"]


def test_episode_that_was_accepted_has_ended() -> None:
    events = told(*windows(part(DRIFT, STARTED), STABLE))
    assert names(events) == ["drift.started", "drift.ended"]
    assert "accepted as normal" in events[1].document["data"]["headline"]


def test_episode_whose_start_is_not_known_starts_with_its_news() -> None:
    events = told(*windows(part(STABLE, None, since=9), part(SETTLING, UPDATED, since=9)))
    assert names(events) == ["drift.started"]
    data = events[0].document["data"]
    assert (data["since_window"], data["since_record"]) == (9, None)


def test_long_lists_of_changes_are_cut() -> None:
    edges = tuple(replace(ADDED, source=f"x{i:03}") for i in range(200))
    (event,) = told(make_report(12, part(replace(DRIFT, edges=edges), STARTED)))
    data = event.document["data"]
    assert len(data["edges"]) == 50
    assert data["confirmed_hamming"] == 200


# Words


def test_words_need_no_statistics() -> None:
    better = replace(SETTLING, edges=(ADDED, REMOVED))
    reports = windows(part(DRIFT, STARTED), part(better, UPDATED), part(STABLE, ENDED))
    for event in told(*reports):
        data = event.document["data"]
        text = " ".join([data["headline"], *data["sentences"], *data["advice"]]).lower()
        for word in ("separat", "cpdag", "markov", "conditional", "collider", "hypothesis", "holm"):
            assert word not in text


# The schema


def test_schema_change_is_told_once() -> None:
    events = told(make_report(1, events=(ABSENT, COLUMN)), make_report(2, events=(ABSENT, COLUMN)))
    assert names(events) == ["schema.changed"]
    assert events[0].document["subject"] == "windows/1"
    data = events[0].document["data"]
    assert data["headline"] == (
        "Records of orders look different: column 'rain' is absent and column 'wind' is new."
    )
    assert [change["kind"] for change in data["changes"]] == ["missing_column", "new_column"]


@pytest.mark.parametrize(
    ("seen", "n_told"),
    [
        ([(ABSENT,), (), (ABSENT,)], 2),  # a column that is absent again
        ([(level("xl"),), (), (level("xl"),)], 1),  # a value that comes now and then
        ([(level("xl"),), (), (level("xl"),), (level("xl", "xxl"),)], 2),
        # A column of ever new values falls silent.
        ([(level(*(f"{i}-{j}" for j in range(8))),) for i in range(20)], MAX_LEVELS // 8),
    ],
)
def test_what_is_known_of_the_schema_is_not_told_again(
    seen: list[tuple[SchemaEvent, ...]], n_told: int
) -> None:
    events = told(*(make_report(i, events=events) for i, events in enumerate(seen)))
    assert names(events) == ["schema.changed"] * n_told


def test_values_of_records_are_not_in_the_headline() -> None:
    (event,) = told(make_report(1, events=(level("secret"),)))
    data = event.document["data"]
    assert data["headline"] == (
        "Records of orders look different: column 'day' has values never seen before."
    )
    assert any("'secret'" in sentence for sentence in data["sentences"])


def test_state_stays_small_whatever_columns_come() -> None:
    state = EventState()
    for i in range(50):
        columns = tuple(
            SchemaEvent(SchemaEventKind.NEW_COLUMN, f"c{i}-{j}", n_rows=1) for j in range(20)
        )
        state, _ = publication_of(Whose("orders"), make_report(i, events=columns), state)
    assert len(state.differences) == MAX_DIFFERENCES


# Limits


def test_degraded_and_recovered_are_told_once_each() -> None:
    late = [make_report(i, overrun=Overrun.DEADLINE) for i in (1, 2)]
    events = told(make_report(0), *late, make_report(3), make_report(4))
    assert names(events) == ["monitor.degraded", "monitor.recovered"]
    assert [event.window for event in events] == [1, 3]
    data = events[0].document["data"]
    assert data["overrun"] == "deadline"
    assert any("deadline_seconds" in text for text in data["advice"])


def test_one_window_may_tell_several_things() -> None:
    decision = part(DRIFT, STARTED)
    events = told(make_report(1, decision, events=(ABSENT,), overrun=Overrun.DEADLINE))
    assert names(events) == ["schema.changed", "drift.started", "monitor.degraded"]
    assert len({event.id for event in events}) == 3


# The state


@pytest.mark.parametrize(
    "values",
    [
        {"degraded": "no"},
        {"degraded": False, "episode": {"episode": 1}, "differences": []},
        {"degraded": False, "episode": None, "differences": 5},
        {"degraded": False, "episode": 7, "differences": []},
    ],
)
def test_state_that_is_none_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match="an event state"):
        EventState.from_dict(values)


def test_monitor_that_goes_on_from_its_state_tells_the_same() -> None:
    reports = windows(
        part(DRIFT, STARTED),
        part(replace(SETTLING, edges=(REMOVED,)), UPDATED),
        part(STABLE, ENDED),
    )
    state, at_once = EventState(), []
    for report in reports:
        state, publication = publication_of(Whose("orders"), report, state)
        at_once.append(publication.events)
    assert [publication.events for publication in play(*reports)] == at_once


# Notices


def notices(*times: float | None) -> list[WindowReport]:
    rule = replace(DRIFT, level=DriftLevel.NOTICE, kind=DriftKind.MECHANISM, edges=())
    return [
        make_report(i, replace(rule, node_changes=(replace(RULE, name=f"field{i}"),)), end=time)
        for i, time in enumerate(times)
    ]


def test_what_raises_no_alarm_is_told_at_most_once_a_week_of_event_time() -> None:
    day = 86400.0
    events = told(*notices(0.0, day, 6.9 * day, 7 * day, 8 * day))
    assert names(events) == ["notice", "notice"]
    assert [event.window for event in events] == [0, 3]
    first, later = (event.document["data"] for event in events)
    assert first["headline"].startswith("Notice from orders: 'field0' now comes out differently")
    assert first["fields"] == ["field0"]
    assert later["headline"] == "orders is still moving: 'field1', 'field2' and 'field3'."


def test_without_event_times_windows_count() -> None:
    events = told(*notices(*[None] * 102))
    assert [event.window for event in events] == [0, 100]


def far(index: int, nats: float, decision: DriftDecision = STABLE) -> WindowReport:
    moved = replace(decision, travelled=(Travelled("rain", nats),), reference_windows=8)
    return make_report(index, moved, end=index * 604800.0)


def test_a_field_that_goes_on_from_its_baseline_is_noticed_at_each_new_farthest() -> None:
    events = told(*(far(i, nats) for i, nats in enumerate((0.05, 0.3, 0.2, 0.35, 0.45, 0.45))))
    assert [event.window for event in events] == [1, 4]
    assert events[0].document["data"]["headline"] == "orders is still moving: 'rain'."


def test_what_an_alarm_has_told_is_not_noticed_again() -> None:
    events = told(far(0, 0.5, part(DRIFT, STARTED)), far(1, 0.5))
    assert names(events) == ["drift.started", "drift.ended"]
