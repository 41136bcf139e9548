"""Events as lines of the log."""

from __future__ import annotations

import logging

import pytest
from driftbn_service.events import EventType
from driftbn_service.outlets.base import LogOutlet
from driftbn_service.settings import LogOutletSettings

from tests.outlet_parts import make_event


@pytest.fixture
def outlet() -> LogOutlet:
    found = LogOutlet(LogOutletSettings())
    found.open()
    return found


def test_event_is_one_line_with_its_headline_and_fields_and_no_value_of_a_record(
    outlet: LogOutlet, caplog: pytest.LogCaptureFixture
) -> None:
    event = make_event(
        3, key="eu", headline="'100 %s' changed",
        changes=[{"levels": ["a secret"]}], sentences=["a secret"],
    )  # fmt: skip
    with caplog.at_level(logging.INFO, "driftbn.service.events"):
        outlet.send([event])
    (record,) = caplog.records
    assert record.name == "driftbn.service.events"
    assert record.getMessage() == "'100 %s' changed"
    fields = vars(record)
    assert fields["event_id"] == event.id
    assert fields["event_type"] == "io.driftbn.drift.started.v1"
    assert (fields["stream"], fields["key"], fields["window"]) == ("orders", "eu", 3)
    assert (fields["kind"], fields["episode"], fields["p_value"]) == ("structural", 2, 0.001)
    assert "a secret" not in str(fields)


@pytest.mark.parametrize("type_", list(EventType))
def test_only_what_has_ended_is_no_warning(
    outlet: LogOutlet, caplog: pytest.LogCaptureFixture, type_: EventType
) -> None:
    calm = type_ in (EventType.DRIFT_ENDED, EventType.MONITOR_RECOVERED)
    with caplog.at_level(logging.INFO, "driftbn.service.events"):
        outlet.send([make_event(3, type_)])
    assert caplog.records[0].levelno == (logging.INFO if calm else logging.WARNING)
