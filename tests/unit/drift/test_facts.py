"""What is plain to see of a field is said, and only that."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from driftbn import DriftMonitor, WindowReport
from driftbn.datasets import asia, sample
from driftbn.drift.facts import FIRST_SOFT, FIRST_TOLD, SOFT, STRETCH, FactKind
from driftbn.drift.outcome import DriftLevel

ROWS = 480
HARD = [kind for kind in FactKind if kind not in SOFT]


def usual(window: int) -> pd.DataFrame:
    """Return a window of records, one every five minutes.

    ``speed`` has two digits and changes slowly, ``load`` is drawn anew in each record, ``site``
    stays the same for some of them, ``hour`` is that of the time, ``turn`` goes round without it.
    """
    rng = np.random.default_rng(window)
    times = 300.0 * (ROWS * window + np.arange(ROWS))
    alike = np.repeat(rng.normal(size=ROWS // 8), 8) + rng.normal(scale=0.1, size=ROWS)
    return pd.DataFrame(
        {
            "at": times,
            "hour": (times // 3600 % 24).astype(int),
            "speed": np.round(20 + 3 * alike, 2),
            "load": rng.normal(size=ROWS),
            "site": np.repeat(rng.choice(list("uvwx"), ROWS // 8), 8),
            "turn": list("abcdef") * (ROWS // 6),
        }
    )


def some(table: pd.DataFrame, share: float, seed: int = 99) -> np.ndarray:
    return np.random.default_rng(seed).random(len(table)) < share


BREAK: dict[FactKind, tuple[str, Callable[[pd.DataFrame], object]]] = {
    FactKind.CONSTANT: ("speed", lambda t: 20.5),
    FactKind.MISSING: ("site", lambda t: t["site"].mask(some(t, 0.3))),
    FactKind.NEW_LEVEL: ("site", lambda t: t["site"].mask(some(t, 0.05), "new")),
    FactKind.LOST_LEVEL: ("site", lambda t: t["site"].replace("u", "v")),
    FactKind.OUTSIDE: ("speed", lambda t: t["speed"] * 1000),
    FactKind.UNUSUAL: ("load", lambda t: t["load"] + 3.0),
    FactKind.ROUGH: ("speed", lambda t: t["speed"].sample(frac=1.0, random_state=1).to_numpy()),
    FactKind.CLOCK: ("hour", lambda t: (t["hour"] + 2) % 24),
    FactKind.REPEATED: ("load", lambda t: np.append(t["load"][:400], t["load"][320:400])),
    FactKind.JUMPED: ("turn", lambda t: np.append(t["turn"][:201], t["turn"][199:-2])),
}
"""The field that breaks, and how."""


def broken(kind: FactKind, window: int) -> pd.DataFrame:
    name, values = BREAK[kind]
    table = usual(window)
    return table.assign(**{name: values(table)})


@pytest.fixture(scope="module")
def snapshots() -> list[bytes]:
    """A monitor before each of its windows."""
    monitor, found = DriftMonitor(window=ROWS, time_column="at"), []
    for window in range(20):
        found.append(monitor.snapshot())
        (report,) = monitor.update(usual(window))
        assert not report.decision.facts
    return found


def told(snapshot: bytes, *tables: pd.DataFrame) -> list[WindowReport]:
    monitor = DriftMonitor.restore(snapshot)
    return [report for table in tables for report in monitor.update(table)]


@pytest.mark.parametrize("kind", FactKind)
def test_what_was_never_so_is_an_alarm_that_names_it(
    kind: FactKind, snapshots: list[bytes]
) -> None:
    (report,) = told(snapshots[-1], broken(kind, 19))
    assert report.drift
    first = report.decision.facts[0]
    assert (first.field, first.kind) == (BREAK[kind][0], kind)
    assert f"'{first.field}'" in report.explain().headline
    assert {fact.field for fact in report.decision.facts} == {first.field}


def test_another_unit_is_seen_by_digits_that_were_never_there(snapshots: list[bytes]) -> None:
    table = usual(19)
    (report,) = told(snapshots[-1], table.assign(speed=table["speed"] * 0.9))
    first = report.decision.facts[0]
    assert (first.field, first.kind) == ("speed", FactKind.NEW_LEVEL)


@pytest.mark.parametrize("kind", HARD)
def test_what_is_beyond_doubt_is_told_after_a_few_windows(
    kind: FactKind, snapshots: list[bytes]
) -> None:
    (report,) = told(snapshots[FIRST_TOLD - 1], broken(kind, FIRST_TOLD - 1))
    assert not report.decision.facts
    (report,) = told(snapshots[FIRST_TOLD], broken(kind, FIRST_TOLD))
    assert report.decision.facts[0].kind is kind


@pytest.mark.parametrize("kind", SOFT)
def test_what_needs_a_past_is_not_told_before(kind: FactKind, snapshots: list[bytes]) -> None:
    (report,) = told(snapshots[FIRST_SOFT - 1], broken(kind, FIRST_SOFT - 1))
    assert kind not in [fact.kind for fact in report.decision.facts]


@pytest.mark.parametrize("kind", FactKind)
def test_a_fault_is_told_of_two_windows_and_then_usual(
    kind: FactKind, snapshots: list[bytes]
) -> None:
    reports = told(snapshots[-1], *(broken(kind, window) for window in range(19, 23)))
    found = [kind in [fact.kind for fact in report.decision.facts] for report in reports]
    assert found == [True, True, False, False]
    assert [report.decision.level for report in reports[:2]] == [
        DriftLevel.DRIFT,
        DriftLevel.SETTLING,
    ]
    assert reports[1].decision.regime == reports[0].decision.regime + 1


def test_a_cycle_may_jump_between_two_windows(snapshots: list[bytes]) -> None:
    table = usual(19)
    (report,) = told(snapshots[-1], table.assign(turn=np.roll(table["turn"], 2)))
    assert [(fact.field, fact.kind) for fact in report.decision.facts] == [
        ("turn", FactKind.JUMPED)
    ]


def test_what_was_in_the_window_before_is_repeated_too(snapshots: list[bytes]) -> None:
    before, table = usual(18), usual(19)
    load = np.append(before["load"][-100:], table["load"][100:])
    (report,) = told(snapshots[-1], table.assign(load=load))
    (fact,) = report.decision.facts
    assert (fact.field, fact.kind) == ("load", FactKind.REPEATED)
    assert fact.share == pytest.approx((100 - STRETCH + 1) / ROWS, abs=1e-6)


@pytest.mark.parametrize(("begins", "is_told"), [(24.0, False), (11.0, True)])
def test_a_year_that_begins_at_midnight_is_no_fact(begins: float, is_told: bool) -> None:
    monitor, rng = DriftMonitor(window=480, time_column="at"), np.random.default_rng(6)
    for window in range(12):
        at = 3600.0 * (480 * window + np.arange(480))
        year = np.where(at < 3600.0 * (480 * 11 + 240 + begins), "2011", "2012")
        for report in monitor.update({"at": at, "year": year, "load": rng.normal(size=480)}):
            told_here = [(fact.field, fact.kind) for fact in report.decision.facts]
            news = [("year", FactKind.NEW_LEVEL)] if is_told and window == 11 else []
            assert told_here == news


def test_short_windows_know_nothing_of_other_hours() -> None:
    monitor, rng = DriftMonitor(window=300, time_column="at"), np.random.default_rng(7)
    for window in range(40):
        at = 300.0 * window + np.arange(300)
        level = np.where(np.arange(300) < 297, window // 6 % 2, 1 - window // 6 % 2)
        for report in monitor.update({"at": at, "level": level, "x": rng.normal(size=300)}):
            assert FactKind.CLOCK not in [fact.kind for fact in report.decision.facts]


def test_numbers_that_come_alive_are_told() -> None:
    monitor, rng = DriftMonitor(window=400), np.random.default_rng(5)
    for _ in range(12):
        monitor.update({"price": np.full(400, 0.5), "load": rng.normal(size=400)})
    price = np.append(np.full(250, 0.5), rng.normal(size=150))
    (report,) = monitor.update({"price": price, "load": rng.normal(size=400)})
    (fact,) = report.decision.facts
    assert (fact.field, fact.kind) == ("price", FactKind.NEW_LEVEL)


def test_a_rare_value_that_is_no_level_is_told_when_it_is_frequent() -> None:
    monitor, rng = DriftMonitor(window=2000), np.random.default_rng(6)
    towns = [f"town {i:02}" for i in range(60)]

    def window(share: float) -> dict[str, np.ndarray]:
        place = rng.choice(towns, 2000).astype(object)
        place[rng.random(2000) < share] = "elsewhere"
        return {"place": place, "load": rng.normal(size=2000)}

    for _ in range(10):
        (report,) = monitor.update(window(0.0))
        assert not report.decision.facts
    (report,) = monitor.update(window(0.5))
    assert [(f.field, f.kind) for f in report.decision.facts] == [("place", FactKind.NEW_LEVEL)]


def test_a_field_that_came_alive_and_stands_still_again_is_told() -> None:
    monitor, rng = DriftMonitor(window=400), np.random.default_rng(7)
    for window in range(17):
        price = np.full(400, 0.5) if window < 10 else rng.normal(size=400)
        monitor.update({"price": price, "load": rng.normal(size=400)})
    (report,) = monitor.update({"price": np.full(400, 1.5), "load": rng.normal(size=400)})
    assert [(f.field, f.kind) for f in report.decision.facts] == [("price", FactKind.CONSTANT)]


def test_numbers_in_one_cell_that_all_are_even_stand_still_only_if_they_do() -> None:
    monitor, rng = DriftMonitor(window=500), np.random.default_rng(8)
    for window in range(15):
        degrees = rng.integers(0, 100, 500) if window < 5 else rng.integers(300, 310, 500)
        table = {"degrees": np.round(0.18 * degrees + 32.0, 2), "load": rng.normal(size=500)}
        monitor.update(table)
    (report,) = monitor.update({**table, "degrees": np.full(500, 87.08)})
    kinds = [fact.kind for fact in report.decision.facts if fact.field == "degrees"]
    assert kinds == [FactKind.CONSTANT]


def outages(n_windows: int, shares: dict[int, float]) -> list[pd.DataFrame]:
    """Return windows in which ``site`` is missing in the first part of the rows."""
    tables = map(usual, range(n_windows))
    lacking = (np.arange(ROWS) < ROWS * shares.get(w, 0.0) for w in range(n_windows))
    return [t.assign(site=t["site"].mask(lacks)) for t, lacks in zip(tables, lacking, strict=True)]


@pytest.mark.parametrize(("second", "is_told"), [(0.3, True), (0.2, False)])
def test_after_an_outage_a_worse_one_is_told(second: float, is_told: bool) -> None:
    monitor = DriftMonitor(window=ROWS, time_column="at")
    *before, last = outages(20, {10: 0.15, 11: 0.18, 19: second})
    for table in before:
        monitor.update(table)
    (report,) = monitor.update(last)
    assert [(f.field, f.kind) for f in report.decision.facts] == [
        ("site", FactKind.MISSING)
    ] * is_told


@pytest.mark.parametrize("gap", [1, ROWS])
def test_single_values_that_are_missing_are_told_where_long_stretches_were(gap: int) -> None:
    monitor = DriftMonitor(window=ROWS, time_column="at")
    for table in outages(19, {window: 0.05 * (window % 7) for window in range(19)}):
        for report in monitor.update(table):
            assert not report.decision.facts or report.index < FIRST_SOFT
    table, rows = usual(19), np.arange(ROWS)
    lacks = rows % 3 == 0 if gap == 1 else rows < ROWS / 3
    (report,) = monitor.update(table.assign(site=table["site"].mask(lacks)))
    kinds = [fact.kind for fact in report.decision.facts]
    assert kinds == ([FactKind.MISSING] if gap == 1 else [])


def test_new_digits_are_news_after_numbers_that_moved(snapshots: list[bytes]) -> None:
    tables = [usual(window) for window in (19, 20, 21)]
    moved = [table.assign(speed=table["speed"] + 30.0) for table in tables]
    last = moved[2].assign(speed=moved[2]["speed"] * 0.9)
    alarm, settling, news = told(snapshots[-1], *moved[:2], last)
    assert alarm.drift
    assert settling.decision.settling
    assert news.drift
    assert [(f.field, f.kind) for f in news.decision.facts] == [("speed", FactKind.NEW_LEVEL)]


@pytest.mark.parametrize(("place", "is_told"), [(15.0, True), (0.0, False), (30.5, False)])
def test_numbers_that_moved_have_a_past_of_their_own(place: float, is_told: bool) -> None:
    """Halfway they never were; where they came from they were, and where they are."""
    monitor, rng = DriftMonitor(window=500), np.random.default_rng(9)
    for window in range(24):
        load = rng.normal(size=500) + (30.0 if window >= 12 else 0.0)
        monitor.update({"load": load, "wind": rng.normal(size=500)})
    (report,) = monitor.update({"load": rng.normal(size=500) + place, "wind": load})
    kinds = [fact.kind for fact in report.decision.facts if fact.field == "load"]
    assert (FactKind.UNUSUAL in kinds) == is_told


def test_numbers_a_little_beyond_the_range_are_not_far_outside(snapshots: list[bytes]) -> None:
    names = []
    for by in (1.2, 4.0):
        table = usual(19)
        highest = max(usual(window)["speed"].max() for window in range(19))
        speed = np.where(some(table, 0.3), np.round(highest * by, 2), table["speed"])
        (report,) = told(snapshots[-1], table.assign(speed=speed))
        names.append([f.kind for f in report.decision.facts if f.field == "speed"])
    assert FactKind.OUTSIDE not in names[0]
    assert names[1] == [FactKind.OUTSIDE]


def test_a_calendar_stands_still_for_weeks() -> None:
    monitor, days = DriftMonitor(window=400), np.repeat(np.arange(40), 250)
    rng = np.random.default_rng(3)
    for start in range(0, len(days), 400):
        some_days = days[start : start + 400]
        table = {"day": some_days, "x": rng.normal(size=len(some_days))}
        for report in monitor.update(table):
            assert "day" not in [fact.field for fact in report.decision.facts]


def test_a_field_that_stood_still_now_and_then_may_do_so_again() -> None:
    monitor, rng = DriftMonitor(window=400), np.random.default_rng(4)
    for window in range(40):
        rain = np.zeros(400) if window % 5 == 4 else rng.exponential(size=400).round(1)
        (report,) = monitor.update({"rain": rain, "wind": rng.normal(size=400)})
        told_here = [fact.kind for fact in report.decision.facts if window > 8]
        assert FactKind.CONSTANT not in told_here


def test_independent_rows_have_no_facts() -> None:
    monitor = DriftMonitor(window=500)
    for seed in range(60):
        (report,) = monitor.update(sample(asia(), 500, seed=seed))
        assert report.decision.facts == ()


def test_an_alarm_by_a_fact_leaves_the_reference_as_it_was(snapshots: list[bytes]) -> None:
    alarm, *after = told(snapshots[-1], broken(FactKind.MISSING, 19), *map(usual, range(20, 25)))
    assert alarm.drift
    assert not any(report.drift for report in after)
    assert {report.decision.regime for report in after} == {alarm.decision.regime}
