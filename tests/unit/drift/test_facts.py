"""What is plain to see of a field is said, and only that."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from driftbn import DriftMonitor
from driftbn.datasets import asia, sample
from driftbn.drift.facts import FIRST_TOLD, Fact, FactKind, FieldHistory, FieldKinds

ROWS = 400
MISSING = 6
KINDS = FieldKinds(("a", "b"), np.array([MISSING, MISSING]), np.array([True, True]))


def usual(rng: np.random.Generator) -> np.ndarray:
    """Return a field whose neighbours are alike, and one that is drawn anew in each row."""
    alike = np.repeat(rng.integers(0, 4, ROWS // 5), 5)
    return np.array([alike, rng.integers(0, 4, ROWS)], np.uint8)


def history(n_windows: int) -> FieldHistory:
    rng = np.random.default_rng(n_windows)
    found = FieldHistory.empty(2)
    for _ in range(n_windows):
        found, facts = found.with_window(usual(rng), KINDS, {})
        assert facts == ()
    return found


def broken(kind: FactKind) -> tuple[np.ndarray, dict[str, int]]:
    """Return a window with one thing wrong in its first field."""
    rng = np.random.default_rng(99)
    codes = usual(rng)
    if kind is FactKind.CONSTANT:
        codes[0] = 2
    elif kind is FactKind.MISSING:
        codes[0, rng.random(ROWS) < 0.3] = MISSING
    elif kind is FactKind.LOST_LEVEL:
        codes[0, codes[0] == 1] = 3
    elif kind is FactKind.ROUGH:
        codes[0] = rng.permutation(codes[0])
    return codes, {"a": 20} if kind is FactKind.NEW_LEVEL else {}


@pytest.mark.parametrize("kind", FactKind)
def test_what_was_never_so_is_told(kind: FactKind) -> None:
    codes, n_new = broken(kind)
    found = history(20).with_window(codes, KINDS, n_new)[1]
    assert (found[0].field, found[0].kind) == ("a", kind)
    assert {fact.field for fact in found} == {"a"}


@pytest.mark.parametrize("kind", FactKind)
def test_nothing_is_told_of_the_first_windows(kind: FactKind) -> None:
    codes, n_new = broken(kind)
    assert history(FIRST_TOLD - 1).with_window(codes, KINDS, n_new)[1] == ()


@pytest.mark.parametrize("kind", FactKind)
def test_a_fault_is_told_of_two_windows_and_then_usual(kind: FactKind) -> None:
    past, (codes, n_new) = history(20), broken(kind)
    told = []
    for _ in range(4):
        past, facts = past.with_window(codes, KINDS, n_new)
        told.append(bool(facts))
    assert told == [True, True, False, False]


def test_a_calendar_stands_still_for_weeks() -> None:
    past, days = FieldHistory.empty(1), np.repeat(np.arange(40), 250)
    kinds = FieldKinds(("day",), np.array([255]), np.array([True]))
    for start in range(0, len(days), ROWS):
        past, facts = past.with_window(days[None, start : start + ROWS].astype(np.uint8), kinds, {})
        assert facts == ()


def test_independent_rows_have_no_facts() -> None:
    monitor = DriftMonitor(window=500)
    for seed in range(60):
        (report,) = monitor.update(sample(asia(), 500, seed=seed))
        assert report.decision.facts == ()


def frame(rng: np.random.Generator) -> pd.DataFrame:
    x = np.repeat(rng.normal(size=100), 5)
    return pd.DataFrame({"x": x, "y": x + rng.normal(size=500), "c": rng.choice(list("uvw"), 500)})


def test_a_stuck_sensor_is_an_alarm_that_names_it() -> None:
    rng, monitor = np.random.default_rng(1), DriftMonitor(window=500)
    for _ in range(12):
        monitor.update(frame(rng))
    (report,) = monitor.update(frame(rng).assign(x=0.3))
    assert report.drift
    assert report.decision.facts[0].field == "x"
    assert report.explain().headline.startswith("Drift in window 12: 'x' hardly varies any more")


def test_a_monitor_continues_with_what_it_knows_of_fields() -> None:
    rng, monitor = np.random.default_rng(1), DriftMonitor(window=500)
    for _ in range(12):
        monitor.update(frame(rng))
    batch = frame(rng).assign(c="u")
    restored = DriftMonitor.restore(monitor.snapshot())
    (one,), (other,) = monitor.update(batch), restored.update(batch)
    assert one.decision.facts == other.decision.facts
    assert Fact("c", FactKind.CONSTANT, 1.0, one.decision.facts[0].before) in one.decision.facts


def test_an_alarm_by_a_fact_leaves_the_reference_as_it_was() -> None:
    rng, monitor = np.random.default_rng(2), DriftMonitor(window=500)
    for _ in range(12):
        monitor.update(frame(rng))
    batch = frame(rng)
    batch.loc[rng.random(500) < 0.3, "c"] = None
    (report,) = monitor.update(batch)
    assert report.drift
    assert [fact.kind for fact in report.decision.facts] == [FactKind.MISSING]
    levels = [monitor.update(frame(rng))[0].decision.level.value for _ in range(5)]
    assert "drift" not in levels
