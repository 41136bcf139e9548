"""What people do about monitors, in the history and on the way to outlets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from driftbn_service.events import EventType
from driftbn_service.state import FILE, ActionKind, Store, Wish

from tests.clock import Clock
from tests.http_service import N_BEFORE, drifting_publications

OUTLETS = (("hook", None),)
HOUR, DAY = 3600.0, 86_400.0
WINDOWS = drifting_publications()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    with Store(tmp_path / FILE, clock=clock) as found:
        yield found


def waiting(store: Store) -> list[str]:
    return [event.type for _, event in store.pending("hook", None, 100)]


def silence(store: Store, clock: Clock, hours: float, key: str = "") -> None:
    until = clock.now + HOUR * hours
    store.act(Wish(ActionKind.SILENCE, "orders", key, until=until, author="ada"))


def test_an_action_is_about_the_open_episode_and_says_who_did_it(
    store: Store, clock: Clock
) -> None:
    store.publish(WINDOWS[: N_BEFORE + 1])
    wish = Wish(ActionKind.COMMENT, "orders", author="ada", comment="a release")
    row = store.act(wish)
    assert (row.episode, row.window_index, row.stored) == (0, N_BEFORE, clock.now)
    assert store.actions("orders", "") == [row]
    assert store.actions("clicks", "") == []


def test_outlets_are_not_told_of_a_drift_that_is_silenced(store: Store, clock: Clock) -> None:
    silence(store, clock, 1)
    store.publish(WINDOWS[: N_BEFORE + 2], OUTLETS)
    assert waiting(store) == []
    told = [event.type for _, event in store.events()]
    assert EventType.DRIFT_STARTED in told  # the history has it all the same


def test_what_has_ended_is_told_all_the_same(store: Store, clock: Clock) -> None:
    silence(store, clock, 1)
    store.publish(WINDOWS, OUTLETS)
    assert waiting(store) == [EventType.DRIFT_ENDED]


@pytest.mark.parametrize("hours", [0.0, 2.0])
def test_a_silence_ends_by_itself_or_by_a_newer_one(
    store: Store, clock: Clock, hours: float
) -> None:
    silence(store, clock, 1)
    assert store.silences().cover("orders", "eu")
    if hours:
        clock.now += HOUR * hours
    else:
        silence(store, clock, 0)
    assert not store.silences().cover("orders", "eu")
    store.publish(WINDOWS[: N_BEFORE + 1], OUTLETS)
    assert waiting(store) == [EventType.DRIFT_STARTED]


def test_an_outlet_that_tells_again_what_holds_leaves_out_what_is_silenced(
    store: Store, clock: Clock
) -> None:
    store.publish(WINDOWS[: N_BEFORE + 1])
    types = [EventType.DRIFT_STARTED, EventType.DRIFT_ENDED]
    assert len(store.newest_events("hook", None, types)) == 1
    silence(store, clock, 1)
    assert store.newest_events("hook", None, types) == []
    clock.now += 2 * HOUR
    assert len(store.newest_events("hook", None, types)) == 1


def test_old_actions_go_but_for_those_in_force_and_those_of_episodes(
    store: Store, clock: Clock
) -> None:
    store.act(Wish(ActionKind.COMMENT, "orders", comment="before all"))
    silence(store, clock, 100 * 24)
    store.act(Wish(ActionKind.ACCEPT, "orders"))
    store.publish(WINDOWS)
    store.act(Wish(ActionKind.COMMENT, "orders", episode=0, comment="on it"))
    clock.now += 40 * DAY
    store.prune(keep_windows=1000, keep_events_days=30.0)
    kept = {(row.kind, row.comment) for row in store.actions("orders", "")}
    assert kept == {("silence", ""), ("accept", ""), ("comment", "on it")}
