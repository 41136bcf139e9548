"""What people try first at a Python prompt or in a notebook."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from driftbn import ConfigError, DataError, DriftMonitor, compare_data, datasets

ASIA = datasets.asia()
OTHER = datasets.remove_edge(ASIA, "smoke", "bronc").network
ROWS = datasets.sample(ASIA, 4000, seed=1)
CHANGED = datasets.sample(OTHER, 2000, seed=2)


def test_a_length_is_a_window_of_event_time() -> None:
    monitor = DriftMonitor(window="1h", time="at")
    assert monitor.config.windows.seconds == 3600.0
    assert monitor.config.time_column == "at"
    assert DriftMonitor("15min", time="at").config.windows.seconds == 900.0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"size": 400}, "size = 400 is not allowed: it must be left out; known are 'alpha'"),
        ({"config": ROWS}, "records go to update"),
        ({"window": "1h"}, "time_column = None"),
        ({"window": "an hour"}, "'1h'"),
        ({"config": DriftMonitor(400).config, "alpha": 0.1}, "left out where config is given"),
    ],
)
def test_what_is_not_a_setting_is_told_with_what_is(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        DriftMonitor(**settings)
    assert words in str(caught.value)


def test_a_report_is_true_if_it_is_an_alarm() -> None:
    monitor = DriftMonitor(2000)
    assert [bool(report) for report in monitor.update(ROWS)] == [False, False]
    assert all(monitor.update(CHANGED))
    assert monitor.last_report is not None
    assert monitor.last_report.index == 2


def test_a_monitor_says_what_it_is_and_what_was_last() -> None:
    monitor = DriftMonitor(2000)
    assert repr(monitor) == "<DriftMonitor window=2,000 rows, reference=0 windows, no window yet>"
    monitor.update(ROWS)
    assert repr(monitor).endswith("reference=2 windows, window 1: stable>")


def test_the_windows_are_rows_of_a_frame() -> None:
    monitor = DriftMonitor(2000)
    assert monitor.to_frame().empty
    for table in (ROWS, CHANGED):
        monitor.update(table)
    frame = monitor.to_frame()
    assert frame["level"].tolist() == ["learning", "stable", "drift"]
    assert frame.loc[2, "changed"] == "the dependency between 'bronc' and 'smoke' was removed"
    assert frame.loc[2, "confirmed"] == 1


def test_notebooks_show_everything_without_touching_their_style() -> None:
    monitor = DriftMonitor(2000)
    monitor.update(ROWS)
    (report,) = monitor.update(CHANGED)
    for shown in (monitor, report, report.graph, report.dag):
        html = shown._repr_html_()
        assert html.startswith("<iframe srcdoc=")
        assert "<script" not in html
    assert "Hamming distance" in report.diff._repr_html_()


def test_windows_that_show_nothing_are_told_once_with_the_size_to_use(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "driftbn"):
        DriftMonitor(20).update(ROWS[:200])
        DriftMonitor(2000).update(ROWS)
    (message,) = caplog.messages
    assert message.startswith("windows of 20 records are too small to show any change")
    assert "use at least 900" in message


def test_like_tables_are_told_apart_no_more_often_than_alpha() -> None:
    pairs = (
        (datasets.sample(ASIA, 800, s), datasets.sample(ASIA, 500, s + 1)) for s in range(0, 200, 2)
    )
    found = [compare_data(*pair, alpha=0.05, min_effect=0.0).drift for pair in pairs]
    assert sum(found) <= 10  # 5 of 100 expected at most, and 11 or more in 1 of 90 suites


def test_two_tables_are_compared_by_name() -> None:
    found = compare_data(ROWS, CHANGED, names=("monday", "tuesday"), target="dysp")
    assert found
    assert found.decision.p_value < 1e-6
    (edge,) = found.decision.edges
    assert (edge.pair, edge.change) == (("bronc", "smoke"), "removed")
    assert "2,000 records of tuesday were compared with 4,000 of monday, in 8 fields." in str(found)
    assert "'dysp'" in str(found)
    assert found.to_dict()["tables"] == [
        {"name": "monday", "rows": 4000},
        {"name": "tuesday", "rows": 2000},
    ]
    assert found._repr_html_().startswith("<iframe")


def test_what_chance_does_to_a_graph_is_neither_said_nor_drawn() -> None:
    found = compare_data(ROWS[:300], ROWS[300:600])
    assert not found
    assert found.current.diff.hamming
    assert "Hamming" not in str(found)
    assert "not confirmed" not in found.to_html()


def test_a_comparison_has_no_windows_and_needs_rows() -> None:
    with pytest.raises(ConfigError, match="each table is one window"):
        compare_data(ROWS, CHANGED, window=100)
    with pytest.raises(DataError, match="must have rows"):
        compare_data(ROWS, CHANGED[:0])
