"""Episodes: one for each change."""

from __future__ import annotations

from driftbn.decision.episodes import Episodes
from driftbn.decision.outcome import DriftDecision, DriftLevel, EpisodeEvent

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
            decision = episodes.alarm(index, PLAIN)
        else:
            decision = episodes.settle(PLAIN) if step == "s" else episodes.quiet(PLAIN)
        told.append((decision.episode, decision.episode_event, decision.since))
    return told


def test_quiet_windows_belong_to_no_episode() -> None:
    assert play("qqq") == [(None, None, None)] * 3


def test_an_episode_is_started_updated_and_ended() -> None:
    assert play("qasqqq") == [
        (None, None, None),
        (0, STARTED, 1),
        (0, UPDATED, 1),
        (0, None, 1),
        (0, ENDED, 1),
        (None, None, None),
    ]


def test_an_alarm_within_an_episode_goes_on_with_it() -> None:
    assert play("asqasqq") == [
        (0, STARTED, 0),
        (0, UPDATED, 0),
        (0, None, 0),
        (0, UPDATED, 0),
        (0, UPDATED, 0),
        (0, None, 0),
        (0, ENDED, 0),
    ]


def test_the_next_change_is_another_episode() -> None:
    told = play("aqqqaqq")
    assert [entry for entry in told if entry[1] is STARTED] == [(0, STARTED, 0), (1, STARTED, 4)]
    assert [entry[0] for entry in told if entry[1] is ENDED] == [0, 1]


def test_every_episode_starts_once_and_ends_at_most_once() -> None:
    for seed in range(64):
        script = "".join("as"[0] if seed >> i & 1 else "q" for i in range(6)) + "qq"
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
    whole = play("asqqaq")
    episodes = Episodes()
    first = play("asq", episodes)
    again = Episodes(episodes.count, episodes.number, episodes.since, episodes.n_quiet)
    assert first + play("q", again) == whole[:4]


def test_the_rest_of_a_decision_stays() -> None:
    decision = DriftDecision(DriftLevel.DRIFT, alpha=0.2, p_value=0.1, scale=2)
    told = Episodes().alarm(3, decision)
    assert (told.level, told.alpha, told.p_value, told.scale) == (DriftLevel.DRIFT, 0.2, 0.1, 2)
