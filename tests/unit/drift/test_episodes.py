"""Episodes: one for each change."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from driftbn.drift.decider import QUIET_WINDOWS, Episodes
from driftbn.drift.outcome import (
    Association,
    ChangeType,
    DriftDecision,
    DriftLevel,
    EdgeChange,
    EpisodeEvent,
    Family,
    FamilyResult,
    NodeChange,
)

PLAIN = DriftDecision(DriftLevel.STABLE, alpha=0.01)
STARTED, UPDATED, ENDED = EpisodeEvent

Told = tuple[int | None, EpisodeEvent | None, int | None]


def play(script: str, episodes: Episodes | None = None) -> list[Told]:
    """Play windows: ``a`` for alarm, ``s`` for settling, ``q`` for quiet, ``c`` for close."""
    episodes = episodes or Episodes()
    told: list[Told] = []
    for index, step in enumerate(script):
        if step == "c":
            episodes.close()
            continue
        if step == "a":
            decision = episodes.alarm(index, naming("x"))
        else:
            decision = episodes.settle(PLAIN) if step == "s" else episodes.quiet(PLAIN)
        told.append((decision.episode, decision.episode_event, decision.since))
    return told


def naming(*names: str) -> DriftDecision:
    """Return a decision that names fields (one letter) and edges (two letters)."""
    nodes = [NodeChange(name, (), 0.001, 0.1) for name in names if len(name) == 1]
    none = Association(0.0, 0.0, 0.0)
    edges = [
        EdgeChange(*name, ChangeType.ADDED, 0.001, none, none) for name in names if len(name) == 2
    ]
    return DriftDecision(
        DriftLevel.DRIFT, alpha=0.01, node_changes=tuple(nodes), edges=tuple(edges)
    )


def test_an_episode_is_started_updated_and_ended() -> None:
    assert play("qasqqqqq") == [
        (None, None, None),
        (0, STARTED, 1),
        (0, UPDATED, 1),
        (0, None, 1),
        (0, None, 1),
        (0, None, 1),
        (0, ENDED, 1),
        (None, None, None),
    ]


def test_an_alarm_within_an_episode_continues_it() -> None:
    assert play("asqasqqqq") == [
        (0, STARTED, 0),
        (0, UPDATED, 0),
        (0, None, 0),
        (0, UPDATED, 0),
        (0, UPDATED, 0),
        (0, None, 0),
        (0, None, 0),
        (0, None, 0),
        (0, ENDED, 0),
    ]


def test_every_episode_starts_once_and_ends_at_most_once() -> None:
    for seed in range(512):
        script = "".join("as"[0] if seed >> i & 1 else "q" for i in range(9)) + "qqqq"
        told = play(script)
        for number in {entry[0] for entry in told} - {None}:
            happened = [entry[1] for entry in told if entry[0] == number]
            assert happened.count(STARTED) == happened.count(ENDED) == 1
            assert happened[0] is STARTED
            assert happened[-1] is ENDED


def test_a_closed_episode_is_over_without_a_word() -> None:
    assert play("ascqa") == [
        (0, STARTED, 0),
        (0, UPDATED, 0),
        (None, None, None),
        (1, STARTED, 4),
    ]


def test_an_episode_goes_on_from_its_parts() -> None:
    whole = play("asqqqqqa")
    episodes = Episodes()
    first = play("asq", episodes)
    again = Episodes(**json.loads(json.dumps(asdict(episodes))))
    assert again == episodes
    assert first + play("qqqq", again) == whole[:7]


def another(before: DriftDecision, after: DriftDecision, n_quiet: int, *, back: bool) -> bool:
    """Return whether an alarm so many quiet windows after another starts an episode."""
    episodes = Episodes()
    episodes.alarm(0, before)
    episodes.settle(PLAIN)
    for _ in range(n_quiet):
        episodes.quiet(PLAIN)
    told = episodes.alarm(n_quiet + 2, after, back=back)
    assert told.since == (n_quiet + 2 if told.episode_event is STARTED else 0)
    assert told.episode == (1 if told.episode_event is STARTED else 0)
    return told.episode_event is STARTED


@pytest.mark.parametrize("n_quiet", [2, QUIET_WINDOWS - 1])
@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("x", "x", False),
        ("xy", "xy", False),
        ("xy", "yx", False),
        ("xy", "y", False),
        ("y", "xy", False),
        ("x", "y", True),
        ("xy", "yz", True),
        ("xy", "z", True),
    ],
)
def test_an_alarm_after_a_while_goes_on_if_it_names_the_same(
    before: str, after: str, expected: bool, n_quiet: int
) -> None:
    assert another(naming(before, "k"), naming("j", after), n_quiet, back=False) is expected


@pytest.mark.parametrize("n_quiet", [0, 1])
def test_an_alarm_at_once_goes_on_whatever_it_names(n_quiet: int) -> None:
    assert not another(naming("x"), naming("y"), n_quiet, back=False)
    assert not another(naming("x"), naming("x"), n_quiet, back=True)


def test_what_is_back_as_before_is_another_change() -> None:
    assert another(naming("x"), naming("x"), 2, back=True)


def test_what_names_nothing_is_known_by_its_strongest_tests() -> None:
    def pair(*fields: str) -> DriftDecision:
        result = FamilyResult(Family.ASSOCIATION, 0.001, fields, 1, 10)
        nothing = FamilyResult(Family.MECHANISM, 0.7, ("k",), 1, 10)
        return DriftDecision(DriftLevel.DRIFT, alpha=0.01, families=(nothing, result))

    assert not another(pair("x", "y"), pair("x", "y"), 2, back=False)
    assert another(pair("x", "y"), pair("y", "z"), 2, back=False)


def test_the_window_after_an_alarm_adds_its_names() -> None:
    episodes = Episodes()
    episodes.alarm(0, naming("x"))
    episodes.settle(naming("y"))
    assert episodes.changed == (("x",), ("y",))
    assert not episodes.has_news(naming("x"))
    assert episodes.has_news(naming("z"))
    episodes.alarm(2, naming("z"))
    assert episodes.changed == (("x",), ("y",), ("z",))
    episodes.quiet(naming())
    episodes.alarm(4, naming("z"))
    assert episodes.changed == (("z",),)
    episodes.close()
    assert episodes == Episodes(count=1)
