"""Drifts as alerts of Alertmanager, over a real socket."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from driftbn_service.events import Event, EventType
from driftbn_service.outlets.alertmanager import (
    FIRING_SECONDS,
    MAX_POSTED,
    AlertmanagerOutlet,
)
from driftbn_service.settings import AlertmanagerOutletSettings
from pydantic import ValidationError

from tests.clock import Clock
from tests.outlet_parts import OutletError, Receiver, answer, make_event, receiver

NOW = 1_800_000_000.0


def make_outlet(found: Receiver, clock: Clock | None = None, **values: Any) -> AlertmanagerOutlet:
    settings = AlertmanagerOutletSettings(url=f"http://127.0.0.1:{found.port}/", **values)
    return AlertmanagerOutlet(settings, clock=clock or Clock(NOW))


def posted(found: Receiver) -> list[list[dict[str, Any]]]:
    return [request.document for request in found.requests]


def seconds_left(alert: dict[str, Any]) -> float:
    return datetime.fromisoformat(alert["endsAt"]).timestamp() - NOW


def send(*events: Event) -> list[list[dict[str, Any]]]:
    with receiver() as found:
        outlet = make_outlet(found)
        outlet.open()
        outlet.send(events)
        outlet.close()
    return posted(found)


def test_alert_fires_for_a_while_when_an_episode_begins() -> None:
    with receiver() as found:
        outlet = make_outlet(found)
        outlet.send([make_event(3, key="eu")])
        outlet.close()
    (request,) = found.requests
    assert request.path == "/api/v2/alerts"
    assert request.headers["Content-Type"] == "application/json"
    (alert,) = request.document
    assert alert["labels"] == {
        "alertname": "DriftbnStructuralDrift",
        "stream": "orders",
        "key": "eu",
        "kind": "structural",
        "severity": "warning",
    }
    assert seconds_left(alert) == FIRING_SECONDS


def test_texts_and_numbers_are_annotations() -> None:
    (alert,) = send(make_event(3))[0]
    found = alert["annotations"]
    assert found["summary"] == "Drift in orders: 'x' changed in window 3, since window 3."
    assert found["description"] == "It changed.\nÜber Nacht."
    assert found["advice"] == "Look."
    assert found["edges"] == "x → y added"
    assert (found["episode"], found["p_value"], found["records"]) == ("2", "0.001", "300 to 399")
    assert all(isinstance(text, str) and text for text in found.values())


def test_links_lead_to_runbook_page_and_dashboard() -> None:
    links = {
        "page": "https://drift.example.org",
        "dashboards": "https://g.example.org",
        "runbooks": "https://wiki.example.org/driftbn",
    }
    with receiver() as found:
        settings = AlertmanagerOutletSettings(url=found.url)
        outlet = AlertmanagerOutlet(settings, links, clock=Clock(NOW))
        outlet.send([make_event(3, key="eu")])
        outlet.close()
    texts = found.requests[0].document[0]["annotations"]
    runbook = "https://wiki.example.org/driftbn#driftbnstructuraldrift"
    assert texts["runbook_url"] == runbook
    assert texts["page"] == "https://drift.example.org/#stream=orders&key=eu"
    assert texts["dashboard"] == "https://g.example.org/d/driftbn-stream?var-stream=orders"


@pytest.mark.parametrize(
    ("types", "alerts"),
    [
        (None, {"drift", "schema", "stream"}),
        (["io.driftbn.drift.started.v1", "io.driftbn.drift.ended.v1"], set()),
        (["io.driftbn.schema.changed.v1"], {"schema"}),
    ],
)
def test_it_says_what_it_tells_all_of(types: list[str] | None, alerts: set[str]) -> None:
    settings = AlertmanagerOutletSettings(types=types)  # type: ignore[arg-type]
    assert AlertmanagerOutlet(settings).alerts == alerts


@pytest.mark.parametrize(
    ("event", "labels", "seconds"),
    [
        *(
            (make_event(3, kind=kind), {"alertname": name, "kind": kind or "unnamed"}, 300.0)
            for kind, name in [
                ("structural", "DriftbnStructuralDrift"),
                ("association", "DriftbnStructuralDrift"),
                ("mechanism", "DriftbnMechanismDrift"),
                ("marginal", "DriftbnMarginalDrift"),
                ("data", "DriftbnDataFault"),
                (None, "DriftbnStructuralDrift"),
            ]
        ),
        (make_event(3, target_touch="itself"), {"severity": "critical"}, 300.0),
        (make_event(3, target_touch="nearby"), {"severity": "warning"}, 300.0),
        (make_event(3, EventType.SCHEMA_CHANGED), {"alertname": "DriftbnSchemaChange"}, 3600.0),
    ],
)
def test_labels_and_duration_follow_from_what_has_changed(
    event: Event, labels: dict[str, str], seconds: float
) -> None:
    (alert,) = send(event)[0]
    assert alert["labels"].items() >= labels.items()
    assert seconds_left(alert) == seconds


def test_a_notice_is_no_alert() -> None:
    assert send(make_event(3, EventType.NOTICE)) == []


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        (EventType.DRIFT_STARTED, EventType.DRIFT_ENDED),
        (EventType.MONITOR_DEGRADED, EventType.MONITOR_RECOVERED),
        (EventType.MONITOR_FAILED, EventType.MONITOR_RECOVERED),
    ],
)
@pytest.mark.parametrize("restart", [False, True])
def test_an_end_resolves_the_alert_that_fires(
    begin: EventType, end: EventType, *, restart: bool
) -> None:
    events = make_event(3, begin), make_event(9, end)
    (fired,), resolved = [send(event)[0] for event in events] if restart else send(*events)
    assert fired["labels"] in [alert["labels"] for alert in resolved]
    assert ("kind" in fired["labels"]) == (begin is EventType.DRIFT_STARTED)
    assert seconds_left(fired) == FIRING_SECONDS
    assert {seconds_left(alert) for alert in resolved} == {0.0}


def test_episode_that_changes_its_kind_is_another_alert_and_ends_the_first() -> None:
    _, (new, old), (ended,) = send(
        make_event(3),
        make_event(4, EventType.DRIFT_UPDATED, kind="mechanism"),
        make_event(9, EventType.DRIFT_ENDED, kind="mechanism"),
    )
    assert new["labels"]["alertname"] == "DriftbnMechanismDrift"
    assert seconds_left(new) == FIRING_SECONDS
    assert old["labels"]["alertname"] == "DriftbnStructuralDrift"
    assert seconds_left(old) == 0.0
    assert ended["labels"] == new["labels"]


@pytest.mark.parametrize(
    ("since", "time", "wanted"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"),
        (None, "2026-01-02T00:00:00Z", "2026-01-02T00:00:00Z"),
        (None, None, "2027-01-15T08:00:00Z"),
        ("2099-01-01T00:00:00Z", None, "2027-01-15T08:00:00Z"),
    ],
)
def test_alert_begins_with_the_episode_and_never_in_the_future(
    since: str | None, time: str | None, wanted: str
) -> None:
    (alert,) = send(make_event(3, since_time=since, time=time))[0]
    assert alert["startsAt"] == wanted


def test_open_episodes_fire_on() -> None:
    clock = Clock(NOW)
    with receiver() as found:
        outlet = make_outlet(found, clock)
        clock.now += 60
        outlet.refresh(
            [
                make_event(3),
                make_event(3, key="a"),
                make_event(9, EventType.DRIFT_ENDED, key="b"),
                make_event(5, EventType.MONITOR_RECOVERED),
                make_event(5, EventType.MONITOR_DEGRADED, key="a"),
            ]
        )
        outlet.close()
    (alerts,) = posted(found)
    assert [alert["labels"].get("key") for alert in alerts] == [None, "a", "a"]
    assert {seconds_left(alert) for alert in alerts} == {60 + FIRING_SECONDS}


def test_many_alerts_go_in_several_requests() -> None:
    with receiver() as found:
        outlet = make_outlet(found)
        outlet.refresh([make_event(3, key=str(i)) for i in range(2 * MAX_POSTED + 1)])
        outlet.close()
    assert [len(call) for call in posted(found)] == [MAX_POSTED, MAX_POSTED, 1]


def test_alertmanager_that_is_away_is_tried_again() -> None:
    with receiver([answer(200), answer(500)]) as found:
        outlet = make_outlet(found)
        events = [make_event(3), make_event(9, EventType.DRIFT_ENDED)]
        with pytest.raises(OutletError) as caught:
            outlet.send(events)
        assert caught.value.n_delivered == 1
        outlet.send(events[1:])
        found.answers = [answer(503)]
        with pytest.raises(OutletError):
            outlet.refresh([make_event(3)])
        outlet.close()


def test_alert_that_is_refused_is_done_with() -> None:
    with receiver([answer(400)]) as found:
        outlet = make_outlet(found)
        event = make_event(3)
        outlet.send([event])
        assert outlet.refused == (event,)
        outlet.close()


@pytest.mark.parametrize(
    "types",
    [
        ("io.driftbn.drift.started.v1",),
        ("io.driftbn.drift.updated.v1", "io.driftbn.monitor.recovered.v1"),
        ("io.driftbn.monitor.degraded.v1", "io.driftbn.drift.ended.v1"),
    ],
)
def test_alerts_that_could_not_end_are_refused_in_the_settings(types: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError, match="such that alerts can end"):
        AlertmanagerOutletSettings.model_validate({"types": types})
