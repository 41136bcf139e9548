"""How far a monitor can be trusted."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from driftbn import DecisionConfig, DriftMonitor, MonitorConfig
from driftbn.calibration import CalibrationReport, VisibleChange
from driftbn.datasets import asia, sample
from driftbn.errors import ConfigError
from driftbn.intervals import wilson_interval
from tests.drift_streams import DriftStream, Repeats

PAIRS = tuple(VisibleChange("a", f"b{i:02}", i / 1000) for i in range(20, 0, -1))
PLAIN = CalibrationReport(
    window_rows=2000,
    reference_windows=8,
    alpha=0.01,
    design_effects=(("a", 1.0), ("b", 1.4)),
    shadow_windows=200,
    shadow_alarms=2,
    visible=PAIRS,
    wanted=0.02,
)


def test_the_false_alarm_rate_is_that_of_the_shadow_windows() -> None:
    assert PLAIN.false_alarm_rate == 0.01
    assert PLAIN.false_alarm_interval == wilson_interval(2, 200)
    unknown = replace(PLAIN, shadow_windows=0, shadow_alarms=0)
    assert unknown.false_alarm_rate is None
    assert unknown.false_alarm_interval == (0.0, 1.0)


def test_the_largest_design_effect_is_that_of_any_field() -> None:
    assert PLAIN.largest_design_effect == 1.4
    assert replace(PLAIN, design_effects=()).largest_design_effect == 1.0


@pytest.mark.parametrize(("share", "nats"), [(0.05, 0.001), (0.5, 0.01), (0.9, 0.018), (1.0, 0.02)])
def test_a_share_of_the_pairs_shows_changes_from_a_size_on(share: float, nats: float) -> None:
    assert PLAIN.visible_to(share) == nats
    assert np.mean([pair.nats <= nats for pair in PAIRS]) >= share


def test_no_pairs_show_nothing() -> None:
    assert replace(PLAIN, visible=()).visible_to(0.5) == math.inf
    assert replace(PLAIN, visible=()).recommended_rows() is None


def test_half_the_wanted_change_needs_twice_the_rows() -> None:
    assert PLAIN.recommended_rows() == 1800
    assert replace(PLAIN, wanted=0.01).recommended_rows() == 3600
    assert replace(PLAIN, wanted=0.02).recommended_rows(share=0.5) == 1000


def test_pairs_that_no_window_shows_need_endless_rows() -> None:
    hopeless = tuple(replace(pair, nats=math.inf) for pair in PAIRS[:5]) + PAIRS[5:]
    report = replace(PLAIN, visible=hopeless)
    assert report.recommended_rows() is None
    assert report.recommended_rows(share=0.5) is not None
    assert report.advice == ("Some pairs of fields cannot be tested at any window size.",)


def test_a_monitor_that_can_be_trusted_needs_no_advice() -> None:
    assert PLAIN.advice == ()


def test_advice_names_what_is_wrong() -> None:
    bursty = replace(PLAIN, design_effects=(("a", 31.0),)).advice
    assert len(bursty) == 1
    assert "31 times" in bursty[0]
    assert "larger windows" in bursty[0]
    jumpy = replace(PLAIN, shadow_alarms=20).advice
    assert len(jumpy) == 1
    assert "0.01" in jumpy[0]
    blind = replace(PLAIN, wanted=0.001).advice
    assert len(blind) == 1
    assert "36000 records" in blind[0]


def test_few_shadow_alarms_by_chance_are_no_reason_for_advice() -> None:
    assert replace(PLAIN, shadow_windows=20, shadow_alarms=1).advice == ()


def test_a_monitor_without_records_has_nothing_to_say() -> None:
    report = DriftMonitor(window=300).calibration()
    assert (report.window_rows, report.reference_windows) == (0, 0)
    assert report.advice == report.visible == report.design_effects == ()


@pytest.mark.parametrize("scales", [(1,), (1, 2, 4)])
def test_a_monitor_says_what_its_windows_show(scales: tuple[int, ...]) -> None:
    config = MonitorConfig(window=500, alpha=0.02, decision=DecisionConfig(scales=scales))
    monitor = DriftMonitor(config)
    for seed in range(5):
        monitor.update(sample(asia(), 500, seed))
    report = monitor.calibration(wanted=0.03)
    assert (report.window_rows, report.reference_windows) == (500, 5)
    assert (report.alpha, report.wanted) == (0.02, 0.03)
    assert len(report.visible) == 8 * 7 // 2
    changes = [pair.nats for pair in report.visible]
    assert changes == sorted(changes, reverse=True)
    assert all(pair.source < pair.target for pair in report.visible)
    assert [name for name, _ in report.design_effects] == sorted(asia().nodes)


def test_larger_windows_show_smaller_changes() -> None:
    shown = []
    for n_rows in (500, 2000):
        monitor = DriftMonitor(window=n_rows)
        for seed in range(3):
            monitor.update(sample(asia(), n_rows, seed))
        shown.append(monitor.calibration().visible_to(0.5))
    assert shown[0] / 5 < shown[1] < shown[0] / 3


def test_design_effects_are_those_of_the_stream() -> None:
    network = asia()
    monitor = DriftMonitor(window=2000)
    batches = DriftStream(network, bursts=Repeats(5), seed=1).batches(2000)
    for _ in range(2):
        codes = next(batches)
        monitor.update({name: codes[i] for i, name in enumerate(network.nodes)})
    effects = dict(monitor.calibration().design_effects)
    assert 4 < effects["smoke"] < 18  # geometric bursts of mean 5 make it 9


def test_every_window_may_have_a_shadow() -> None:
    config = MonitorConfig(window=300, decision=DecisionConfig(shadow_share=1.0))
    monitor = DriftMonitor(config)
    for seed in range(10):
        monitor.update(sample(asia(), 300, seed))
    report = monitor.calibration()
    assert report.shadow_windows == 6  # from the fifth on, the reference has four
    assert report.shadow_alarms == 0


@pytest.mark.parametrize("wanted", [0, -1.0, math.nan, math.inf, "a"])
def test_a_wanted_change_is_a_number_above_0(wanted: object) -> None:
    with pytest.raises(ConfigError, match="wanted"):
        DriftMonitor(window=300).calibration(wanted)  # type: ignore[arg-type]
