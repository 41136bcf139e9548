"""Events from the history to an outlet."""

from __future__ import annotations

import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import pytest
from driftbn_service.events import Event, EventType
from driftbn_service.outlets import (
    BATCH_EVENTS,
    FIRST_WAIT_SECONDS,
    LONGEST_WAIT_SECONDS,
    LOOK_SECONDS,
    Deliverer,
    Lanes,
)
from driftbn_service.outlets.base import Outlet as Base
from driftbn_service.state import DamagedRowError

from driftbn.errors import DriftbnError
from tests.clock import Clock
from tests.outlet_parts import OutletError, make_event

LANES = frozenset({("orders", "")})
PATIENCE = 10.0


class Store:
    def __init__(self, events: Sequence[Event] = ()) -> None:
        self.waiting = dict(enumerate(events, start=1))
        self.noted: list[int] = []
        self.got: list[Event] = []
        self.problems: list[DriftbnError] = []
        self.on_noted: Callable[[], None] = lambda: None

    def add(self, *events: Event) -> None:
        first = max([0, *self.waiting, *self.noted]) + 1
        self.waiting |= dict(enumerate(events, start=first))

    def pending(self, outlet: str, lanes: Lanes, limit: int) -> Sequence[tuple[int, Event]]:
        assert outlet == "test"
        found = sorted(self.waiting.items()) if ("orders", "") in lanes else []
        return found[:limit]

    def delivered(self, outlet: str, sequences: Sequence[int]) -> None:
        if self.problems:
            raise self.problems.pop(0)
        for sequence in sequences:
            self.got.append(self.waiting.pop(sequence))
        self.noted += sequences
        self.on_noted()

    def n_pending(self, outlet: str) -> int:
        return len(self.waiting)

    def newest_events(self, outlet: str, lanes: Lanes, types: Collection[str]) -> Sequence[Event]:
        assert lanes == LANES
        newest = {event.key: event for event in self.got if event.type in types}
        return list(newest.values())


class Outlet(Base):
    """Takes events, unless it is told what to do else."""

    def __init__(self, *acts: Exception) -> None:
        super().__init__("test")
        self.acts: list[Exception] = list(acts)
        self.open_problems: list[Exception] = []
        self.batches: list[list[Event]] = []
        self.refuses: Collection[Event] = ()
        self.n_opened = 0
        self.closed = threading.Event()

    @property
    def sent(self) -> list[int]:
        return [event.window for batch in self.batches for event in batch]

    def open(self) -> None:
        if self.open_problems:
            raise self.open_problems.pop(0)
        self.n_opened += 1

    def send(self, events: Sequence[Event]) -> None:
        act = self.acts.pop(0) if self.acts else None
        n_done = len(events) if act is None else getattr(act, "n_delivered", 0)
        self.batches.append(list(events[:n_done]))
        if act is None:
            self.refused = tuple(event for event in events[:n_done] if event in self.refuses)
        if act is not None:
            raise act

    def close(self) -> None:
        self.closed.set()


class Refreshing(Outlet):
    refresh_seconds = 60.0
    alerts = frozenset({"drift"})
    matters = (
        frozenset({EventType.DRIFT_STARTED.value, EventType.DRIFT_ENDED.value}),
        frozenset({EventType.MONITOR_DEGRADED.value}),
    )

    def __init__(self, *acts: Exception) -> None:
        super().__init__(*acts)
        self.refreshed: list[list[Event]] = []
        self.refresh_problems: list[Exception] = []

    def refresh(self, events: Sequence[Event]) -> None:
        if self.refresh_problems:
            raise self.refresh_problems.pop(0)
        self.refreshed.append(list(events))


class Counts:
    def __init__(self) -> None:
        self.found: Counter[tuple[str, str, str]] = Counter()
        self.alerting_on: dict[str, Collection[str]] = {}

    def alerting(self, outlet: str, matters: Collection[str]) -> None:
        self.alerting_on[outlet] = matters

    def notified(self, outlet: str, monitor: str, outcome: str, n_events: int) -> None:
        self.found[outlet, monitor, outcome] += n_events


def make(outlet: Any, store: Store, clock: Clock | None = None) -> Deliverer:
    return Deliverer(outlet, store, lambda: LANES, Counts(), clock=clock or Clock())


def away(**values: Any) -> OutletError:
    return OutletError("test", "it is away", **values)


def counts(deliverer: Deliverer) -> dict[str, int]:
    observer = deliverer._observer
    assert isinstance(observer, Counts)
    return {outcome: n for (_, _, outcome), n in observer.found.items()}


# Steps


def test_all_that_is_pending_is_sent_and_noted() -> None:
    store, outlet = Store([make_event(i) for i in range(2 * BATCH_EVENTS + 5)]), Outlet()
    deliverer = make(outlet, store)
    assert deliverer.step() is None
    assert outlet.sent == list(range(2 * BATCH_EVENTS + 5))
    assert [len(batch) for batch in outlet.batches] == [BATCH_EVENTS, BATCH_EVENTS, 5]
    assert store.noted == list(range(1, 2 * BATCH_EVENTS + 6))
    assert deliverer.n_pending == 0
    assert counts(deliverer) == {"sent": 2 * BATCH_EVENTS + 5}


def test_failure_keeps_events_and_waits() -> None:
    store, outlet, clock = Store([make_event(1)]), Outlet(away()), Clock()
    deliverer = make(outlet, store, clock)
    wait = deliverer.step()
    assert wait is not None
    assert FIRST_WAIT_SECONDS / 2 <= wait <= FIRST_WAIT_SECONDS
    assert (deliverer.n_pending, deliverer.error) == (1, "test: it is away")
    clock.now += wait / 4
    assert deliverer.step() == pytest.approx(0.75 * wait)
    assert counts(deliverer) == {"failed": 1}


def test_wait_doubles_up_to_a_limit_and_starts_over() -> None:
    store, clock = Store([make_event(1)]), Clock()
    outlet = Outlet(*[away() for _ in range(20)])
    deliverer = make(outlet, store, clock)
    waits = []
    for _ in range(20):
        wait = deliverer.step()
        assert wait is not None
        waits.append(wait)
        clock.now += wait
    for n_failures, wait in enumerate(waits):
        longest = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2**n_failures)
        assert longest / 2 <= wait <= longest
    assert len(set(waits)) == len(waits)
    assert deliverer.step() is None
    assert (deliverer.n_failures, deliverer.error) == (0, None)
    store.add(make_event(2))
    outlet.acts = [away()]
    again = deliverer.step()
    assert again is not None
    assert again <= FIRST_WAIT_SECONDS


def test_part_that_was_delivered_before_a_failure_is_noted() -> None:
    store = Store([make_event(i) for i in range(5)])
    outlet = Outlet(away(n_delivered=2, retry_after=30.0))
    deliverer = make(outlet, store)
    assert deliverer.step() == 30.0
    assert store.noted == [1, 2]
    assert deliverer.n_pending == 3
    assert counts(deliverer)["sent"] == 2


def test_note_that_fails_is_made_up_for_before_anything_is_sent_again() -> None:
    store, outlet, clock = Store([make_event(1)]), Outlet(), Clock()
    store.problems = [DriftbnError("the disk is full"), DriftbnError("the disk is full")]
    deliverer = make(outlet, store, clock)
    for _ in range(3):
        clock.now += 60
        deliverer.step()
    assert outlet.sent == [1]
    assert store.noted == [1]
    assert counts(deliverer)["sent"] == 1


def test_refused_events_count_as_failed_and_are_done_with() -> None:
    events = [make_event(i) for i in range(3)]
    store, outlet = Store(events), Outlet()
    outlet.refuses = [events[1]]
    deliverer = make(outlet, store)
    deliverer.step()
    assert store.noted == [1, 2, 3]
    assert counts(deliverer) == {"sent": 2, "failed": 1}


def test_events_of_lanes_that_are_elsewhere_wait_until_they_are_here() -> None:
    store, outlet, lanes = Store([make_event(1)]), Outlet(), set[tuple[str, str]]()
    deliverer = Deliverer(outlet, store, lambda: lanes, Counts(), clock=Clock())
    assert deliverer.step() == LOOK_SECONDS
    assert outlet.sent == []
    lanes.add(("orders", ""))
    assert deliverer.step() is None
    assert outlet.sent == [1]


def test_trouble_that_lasts_is_logged_ever_less_often_and_its_end_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, clock = Store([make_event(1)]), Clock()
    n_minutes = 6 * 60
    deliverer = make(Outlet(*(away() for _ in range(n_minutes))), store, clock)
    with caplog.at_level(logging.WARNING):
        for _ in range(n_minutes + 1):
            deliverer.step()
            clock.now += 60
    *told, last = [record.getMessage() for record in caplog.records]
    assert all("test: it is away; 1 event pending" in message for message in told)
    minutes = [0, 1, 2, 4, 8, 16, 32, 64, 124, 184, 244, 304]
    assert [int(re.findall(r"for (\d+) s nothing", one)[0]) // 60 for one in told] == minutes
    assert last == f"delivery works again after {60 * n_minutes} s"


def test_a_damaged_event_is_counted_and_holds_up_none_behind_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Damaged(Store):
        def pending(self, outlet: str, lanes: Lanes, limit: int) -> Sequence[tuple[int, Event]]:
            if 1 in self.waiting:
                raise DamagedRowError(tmp_path, "event 1", (1, "orders"))
            return super().pending(outlet, lanes, limit)

    outlet = Outlet()
    deliverer = make(outlet, Damaged([make_event(i) for i in range(1, 4)]))
    assert deliverer.step() is None
    assert outlet.sent == [2, 3]
    assert counts(deliverer) == {"failed": 1, "sent": 2}
    assert "event 1 is damaged in the state" in caplog.text


# Refreshing


def test_what_holds_is_told_again_when_due() -> None:
    event, clock = make_event(1), Clock()
    store, outlet = Store([event]), Refreshing()
    deliverer = make(outlet, store, clock)
    assert deliverer.step() == 60.0
    assert outlet.refreshed == [[event]]
    clock.now += 59
    assert deliverer.step() == pytest.approx(1.0)
    assert len(outlet.refreshed) == 1
    clock.now += 1
    deliverer.step()
    assert outlet.refreshed == [[event], [event]]


def test_what_it_tells_alertmanager_is_known_while_it_gets_through() -> None:
    outlet, clock = Refreshing(), Clock()
    deliverer = make(outlet, Store(), clock)
    observer = deliverer._observer
    assert isinstance(observer, Counts)
    outlet.refresh_problems = [away()]
    for matters in (set(), {"drift"}):
        clock.now += deliverer.step() or 0.0
        assert set(observer.alerting_on["test"]) == matters


# The thread


def test_wake_sends_what_is_new() -> None:
    store, outlet, noted = Store(), Outlet(), threading.Event()
    store.on_noted = noted.set
    deliverer = make(outlet, store)
    deliverer.start()
    store.add(make_event(1))
    deliverer.wake()
    assert noted.wait(PATIENCE)
    assert deliverer.alive
    assert deliverer.stop(PATIENCE)
    assert outlet.sent == [1]
    assert outlet.closed.is_set()
    assert not deliverer.alive


def test_stop_tries_once_more_in_spite_of_a_wait() -> None:
    store, outlet = Store([make_event(1)]), Outlet(away(retry_after=1000.0))
    deliverer = make(outlet, store)
    assert deliverer.step() == 1000.0
    deliverer.start()
    assert deliverer.stop(PATIENCE)
    assert outlet.sent == [1]


def test_stop_does_not_wait_longer_than_told_for_an_outlet_that_hangs() -> None:
    entered, leave = threading.Event(), threading.Event()

    class Hanging(Outlet):
        def send(self, events: Sequence[Event]) -> None:
            entered.set()
            assert leave.wait(PATIENCE)
            super().send(events)

    outlet = Hanging()
    deliverer = make(outlet, Store([make_event(1)]))
    deliverer.start()
    assert entered.wait(PATIENCE)
    assert not deliverer.stop(0.01)
    leave.set()
    assert outlet.closed.wait(PATIENCE)


def test_mistake_in_an_outlet_does_not_end_the_thread(caplog: pytest.LogCaptureFixture) -> None:
    tried = threading.Event()

    class Mistaken(Outlet):
        def send(self, events: Sequence[Event]) -> None:
            if self.acts:
                tried.set()
            super().send(events)

    store, outlet = Store([make_event(1)]), Mistaken(ZeroDivisionError("division by zero"))
    deliverer = make(outlet, store)
    deliverer.start()
    assert tried.wait(PATIENCE)
    assert deliverer.stop(PATIENCE)
    assert outlet.sent == [1]
    assert "delivery has failed" in caplog.text


def test_newest_event_of_each_matter_is_told() -> None:
    events = [
        make_event(1),
        make_event(2, EventType.MONITOR_DEGRADED),
        make_event(3, EventType.DRIFT_ENDED),
        make_event(4, key="eu"),
    ]
    outlet = Refreshing()
    make(outlet, Store(events)).step()
    assert [event.window for event in outlet.refreshed[0]] == [3, 4, 2]
