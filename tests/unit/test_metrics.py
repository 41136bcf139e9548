"""What Prometheus is told: names, labels, bounds, and how fast."""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from driftbn_service.events import Event, EventType, Publication
from driftbn_service.metrics import (
    FAMILIES,
    MAX_EDGES,
    MAX_NAME_LENGTH,
    MAX_PARTITIONS,
    MAX_SHOWN_EPISODES,
    MAX_VARIABLES,
    Metrics,
    Shown,
)
from driftbn_service.state import ActionRow, Silences
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_plain

import driftbn
from tests.http_service import N_BEFORE, drifting_publications

OPEN = "application/openmetrics-text; version=1.0.0"
NOW = 1_700_000_000.0

WANTED = {
    "driftbn_records": ("counter", {"source", "outcome"}),
    "driftbn_records_rejected": ("counter", {"reason"}),
    "driftbn_windows": ("counter", {"outcome"}),
    "driftbn_ci_tests": ("counter", {"order", "result"}),
    "driftbn_alerts": ("counter", {"kind", "severity"}),
    "driftbn_shadow_windows": ("counter", set()),
    "driftbn_shadow_alarms": ("counter", set()),
    "driftbn_notify": ("counter", {"sink", "outcome"}),
    "driftbn_checkpoint_failures": ("counter", set()),
    "driftbn_structural_hamming_distance": ("gauge", {"part", "reference"}),
    "driftbn_confirmed_hamming_distance": ("gauge", set()),
    "driftbn_drift_p_value": ("gauge", {"family"}),
    "driftbn_drift_threshold": ("gauge", {"family"}),
    "driftbn_edges_changed": ("gauge", {"change"}),
    "driftbn_graph_edges": ("gauge", {"kind"}),
    "driftbn_graph_nodes": ("gauge", set()),
    "driftbn_state": ("gauge", {"state"}),
    "driftbn_undecided_pairs": ("gauge", set()),
    "driftbn_warm_cold_disagreement_edges": ("gauge", set()),
    "driftbn_variables_excluded": ("gauge", {"reason"}),
    "driftbn_variable_missing_ratio": ("gauge", {"variable"}),
    "driftbn_edge_change_score": ("gauge", {"from", "to", "change"}),
    "driftbn_buffer_records": ("gauge", set()),
    "driftbn_source_lag_records": ("gauge", {"source", "partition"}),
    "driftbn_window_end_timestamp_seconds": ("gauge", set()),
    "driftbn_checkpoint_timestamp_seconds": ("gauge", set()),
    "driftbn_build_info": ("gauge", {"version"}),
    "driftbn_http_requests": ("counter", {"route", "status"}),
    "driftbn_episodes_open": ("gauge", {"kind", "severity"}),
    "driftbn_episodes_silenced": ("gauge", {"kind", "severity"}),
    "driftbn_episode_start_timestamp_seconds": ("gauge", {"key", "kind", "severity", "what"}),
    "driftbn_outlet_alerts": ("gauge", {"matter"}),
    "driftbn_record_taken_timestamp_seconds": ("gauge", set()),
    "driftbn_report_delay_seconds": ("histogram", {"since"}),
    "driftbn_relearn_duration_seconds": ("histogram", {"phase", "start"}),
}
"""Metrics that dashboards and rules of users rely on, with their labels besides the monitor."""
OF_PROCESS = {"driftbn_build_info", "driftbn_http_requests"}
"""Families of which there is one in the process, whatever streams it has."""
FROM_DATA = {
    "driftbn_episode_start_timestamp_seconds",
    "driftbn_variable_missing_ratio",
    "driftbn_edge_change_score",
    "driftbn_baseline_distance_field_nats",
}
"""Families whose series come and go with the data."""


def make_metrics() -> Metrics:
    metrics = Metrics(clock=lambda: NOW)
    metrics.add_outlet("hook")
    metrics.add_stream("orders", "http")
    return metrics


def scraped(metrics: Metrics, accept: str = OPEN) -> dict[str, Metric]:
    body, content_type = metrics.text(accept)
    parse = parse_open if content_type.startswith("application/openmetrics") else parse_plain
    return {metric.name: metric for metric in parse(body.decode())}


def series(families: Iterable[Metric]) -> dict[tuple[str, ...], float]:
    """Return all samples by name and labels, and see that none comes twice."""
    found: dict[tuple[str, ...], float] = {}
    for metric in families:
        for sample in metric.samples:
            key = (sample.name, *(f"{name}={text}" for name, text in sorted(sample.labels.items())))
            assert key not in found
            found[key] = sample.value
    return found


def own(families: Mapping[str, Metric]) -> list[Metric]:
    return [metric for name, metric in families.items() if name.startswith("driftbn_")]


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    found = metrics.registry.get_sample_value(f"driftbn_{name}", {"stream": "orders", **labels})
    return None if found is None else float(found)


def changed(publication: Publication, key: str = "", **report: Any) -> Publication:
    """Return a window with other parts of its report; ``decision`` is merged."""
    found = {**publication.report, **report}
    found["decision"] = publication.report["decision"] | report.get("decision", {})
    return replace(publication, key=key, report=found)


def edge(source: str, target: str, p_value: float = 1e-9) -> dict[str, Any]:
    return {"source": source, "target": target, "change": "added", "p_value": p_value}


@pytest.fixture
def metrics() -> Metrics:
    return make_metrics()


@pytest.fixture(scope="module")
def windows() -> tuple[Publication, ...]:
    return drifting_publications()


# Names


def test_every_metric_has_its_name_type_and_labels(metrics: Metrics) -> None:
    drift = drifting_publications()[N_BEFORE]
    metrics.window(changed(drift, missing=[{"name": "a", "share": 0.5}]))
    families = scraped(metrics)
    assert WANTED.keys() <= families.keys()
    for name, (kind, labels) in WANTED.items():
        assert families[name].type == kind, name
        assert families[name].samples, name
        for sample in families[name].samples:
            whose = set() if name in OF_PROCESS else {"stream"}
            assert set(sample.labels) - {"le"} == whose | labels, name


def test_every_series_is_there_from_the_first_scrape(
    metrics: Metrics, windows: tuple[Publication, ...]
) -> None:
    first = scraped(metrics)
    assert WANTED.keys() <= first.keys()
    for publication in windows:
        metrics.window(publication)
    for outcome in ("taken", "rejected", "failed"):
        metrics.records("orders", outcome, 1)
    metrics.rejected("orders", "no_key", 1)
    metrics.behind("orders", "", 3)
    metrics.notified("hook", "orders", "sent", 1)
    metrics.committed("orders", 0.1)
    metrics.commit_failed("orders")
    metrics.state("orders", "running")
    after = scraped(metrics)
    fixed = [
        {name: m for name, m in found.items() if name not in FROM_DATA} for found in (first, after)
    ]
    assert series(own(fixed[0])).keys() == series(own(fixed[1])).keys()


def test_what_is_not_known_yet_is_not_a_number(metrics: Metrics) -> None:
    found = value(metrics, "drift_p_value", family="mechanism")
    assert found is not None
    assert math.isnan(found)


def test_text_and_registry_say_the_same(metrics: Metrics, windows: tuple[Publication, ...]) -> None:
    for publication in windows:
        metrics.window(publication)
    registered = series(metrics.registry.collect())
    for accept in ("", OPEN):
        written = series(own(scraped(metrics, accept)))
        assert written.keys() == registered.keys()
        for key, number in registered.items():
            assert written[key] == number or (math.isnan(number) and math.isnan(written[key]))


def test_a_registry_of_the_user_is_used() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    metrics.add_stream("orders", "files")
    labels = {"version": driftbn.__version__}
    assert registry.get_sample_value("driftbn_build_info", labels) == 1.0


def test_the_process_is_shown_too(metrics: Metrics) -> None:
    for accept in ("", OPEN):
        assert scraped(metrics, accept)["process_resident_memory_bytes"].samples[0].value > 1e6


# Windows


def test_windows_are_counted_by_what_they_were_called(
    metrics: Metrics, windows: tuple[Publication, ...]
) -> None:
    for publication in windows:
        metrics.window(publication)
    levels = [publication.report["decision"]["level"] for publication in windows]
    for level in set(levels):
        assert value(metrics, "windows_total", outcome=level) == levels.count(level)
    assert value(metrics, "window_published_timestamp_seconds") == NOW
    tests = sum(sum(publication.report["cost"]["tests"]) for publication in windows)
    counted = series([m for m in metrics.registry.collect() if m.name == "driftbn_ci_tests"])
    assert sum(counted.values()) == tests


def test_a_drift_carries_exemplars_that_name_its_window(
    metrics: Metrics, windows: tuple[Publication, ...]
) -> None:
    drift = windows[N_BEFORE]
    assert drift.report["decision"]["episode_event"] == "started"
    metrics.window(drift)
    families = scraped(metrics)
    (alert,) = [s for s in families["driftbn_alerts"].samples if s.value]
    assert alert.exemplar is not None
    assert alert.exemplar.labels == {"window": str(N_BEFORE), "episode": "0"}
    assert alert.exemplar.timestamp is not None
    buckets = families["driftbn_relearn_duration_seconds"].samples
    named = [s.exemplar.labels for s in buckets if s.exemplar is not None]
    assert named == [{"window": str(N_BEFORE)}] * 2
    assert " # {" not in metrics.text("")[0].decode()


def test_edges_stay_while_their_episode_is_open_and_vanish_with_it(
    metrics: Metrics, windows: tuple[Publication, ...]
) -> None:
    shown, is_open = [], []
    for publication in windows:
        metrics.window(publication)
        shown.append(bool(scraped(metrics)["driftbn_edge_change_score"].samples))
        is_open.append(value(metrics, "episodes_open", kind="structural", severity="alert") == 1.0)
    episode = [p.report["decision"]["episode"] is not None for p in windows]
    ended = [p.report["decision"]["episode_event"] == "ended" for p in windows]
    assert is_open == [part and not end for part, end in zip(episode, ended, strict=True)]
    assert shown == is_open
    assert any(shown)
    assert not shown[-1]


def test_an_episode_that_replaces_another_takes_its_edges_away(
    metrics: Metrics, windows: tuple[Publication, ...]
) -> None:
    drift = windows[N_BEFORE]
    metrics.window(changed(drift, decision={"edges": [edge("a", "b")]}))
    metrics.window(
        changed(
            drift, decision={"episode": 1, "kind": "mechanism", "severity": "warning", "edges": []}
        )
    )
    assert value(metrics, "episodes_open", kind="structural", severity="alert") == 0.0
    assert value(metrics, "episodes_open", kind="mechanism", severity="warning") == 1.0
    assert not scraped(metrics)["driftbn_edge_change_score"].samples


def test_a_restart_shows_what_was_known(metrics: Metrics, windows: tuple[Publication, ...]) -> None:
    drift = windows[N_BEFORE]
    shown = Shown("structural", "alert", NOW, "a - b added")
    metrics.recall("orders", drift.report, {"": "drift"}, {"": shown})
    assert value(metrics, "episodes_open", kind="structural", severity="alert") == 1.0
    assert value(metrics, "alerts_total", kind="structural", severity="alert") == 0.0
    assert scraped(metrics)["driftbn_edge_change_score"].samples
    assert value(metrics, "graph_nodes") == 4.0


def test_the_band_of_the_distance_is_beside_it(
    metrics: Metrics, windows: tuple[Publication, ...]
) -> None:
    metrics.window(changed(windows[0], usual={"low": 1, "high": 7, "n_windows": 32}))
    assert value(metrics, "structural_hamming_band", limit="lower") == 1.0
    assert value(metrics, "structural_hamming_band", limit="upper") == 7.0


def test_the_distance_from_the_baseline_is_told_by_field(
    metrics: Metrics, windows: tuple[Publication, ...]
) -> None:
    far = {"distance": 0.5, "max_distance": 3.0, "travelled": [{"name": "a", "nats": 0.4}]}
    metrics.window(changed(windows[0], decision=far))
    assert value(metrics, "baseline_distance_nats") == 0.5
    assert value(metrics, "baseline_distance_limit_nats") == 3.0
    assert value(metrics, "baseline_distance_field_nats", variable="a") == 0.4


def test_histogram_buckets_add_up(metrics: Metrics, windows: tuple[Publication, ...]) -> None:
    for seconds in (0.005, 0.006, 100.0):
        metrics.window(replace(windows[2], timings={"learn": seconds, "decide": 0.0}))
    start = "warm" if windows[2].report["cost"]["warm"] else "cold"
    name, labels = "relearn_duration_seconds", {"phase": "learn", "start": start}
    ends = {"0.005": 1.0, "0.02": 2.0, "60.0": 2.0, "+Inf": 3.0}
    assert {le: value(metrics, f"{name}_bucket", le=le, **labels) for le in ends} == ends
    assert value(metrics, f"{name}_count", **labels) == 3.0
    assert value(metrics, f"{name}_sum", **labels) == pytest.approx(100.011)


# Keys


def keyed_metrics() -> Metrics:
    metrics = Metrics(clock=lambda: NOW)
    metrics.add_stream("orders", "kafka", keyed=True)
    return metrics


def test_keys_are_counted_by_what_they_were_called_and_none_speaks_for_the_others(
    windows: tuple[Publication, ...],
) -> None:
    metrics = keyed_metrics()
    drift = windows[N_BEFORE]
    for key, publication in (("eu", drift), ("us", drift), ("asia", windows[2])):
        metrics.window(changed(publication, key))
    assert value(metrics, "state", state="drift") == 2.0
    assert value(metrics, "state", state="stable") == 1.0
    assert value(metrics, "state", state="learning") == 0.0
    for name in ("graph_nodes", "undecided_pairs"):
        assert value(metrics, name) in (0.0, None) or math.isnan(value(metrics, name) or 0.0)
    metrics.window(changed(windows[-1], "eu"))
    assert value(metrics, "state", state="drift") == 1.0


def test_open_episodes_are_named_by_key_and_what_changed(windows: tuple[Publication, ...]) -> None:
    metrics = keyed_metrics()
    edges = [edge("price", "demand"), edge("price", "stock", 1e-3)]
    for n in range(MAX_SHOWN_EPISODES + 3):
        drift = changed(windows[N_BEFORE], f"key-{n:02}", start=NOW + n, decision={"edges": edges})
        metrics.window(drift)
    shown = scraped(metrics)["driftbn_episode_start_timestamp_seconds"].samples
    assert [sample.value for sample in shown] == [NOW + n for n in range(MAX_SHOWN_EPISODES)]
    assert shown[0].labels["key"] == "key-00"
    assert shown[0].labels["what"] == "price - demand added and 1 more"
    truncated = value(metrics, "series_truncated", metric="episode_start_timestamp_seconds")
    assert truncated == 3.0


def silence(key: str) -> Silences:
    row = ActionRow(1, "silence", "orders", key, None, None, NOW, "", "", NOW)
    return Silences([row])


@pytest.mark.parametrize(("key", "n_silenced"), [("eu", 1.0), ("", 2.0), ("asia", 0.0)])
def test_silenced_episodes_are_counted_and_not_named(
    windows: tuple[Publication, ...], key: str, n_silenced: float
) -> None:
    metrics = keyed_metrics()
    for name in ("eu", "us"):
        metrics.window(changed(windows[N_BEFORE], name))
    metrics.silence(silence(key))
    labels = {"kind": "structural", "severity": "alert"}
    assert value(metrics, "episodes_open", **labels) == 2.0
    assert value(metrics, "episodes_silenced", **labels) == n_silenced
    shown = scraped(metrics)["driftbn_episode_start_timestamp_seconds"].samples
    assert len(shown) == 2.0 - n_silenced
    metrics.silence(Silences())
    assert value(metrics, "episodes_silenced", **labels) == 0.0


def test_the_farthest_key_beyond_its_limit_is_told(windows: tuple[Publication, ...]) -> None:
    metrics = keyed_metrics()
    for key, distance in (("eu", 4.0), ("us", 5.0), ("asia", 1.0)):
        far = {"distance": distance, "max_distance": 3.0}
        metrics.window(changed(windows[0], key, decision=far))
    assert value(metrics, "baseline_distance_nats") == 5.0
    assert value(metrics, "baseline_distance_limit_nats") == 3.0
    calm = {"distance": 0.0, "max_distance": 3.0}
    for key in ("eu", "us"):
        metrics.window(changed(windows[0], key, decision=calm))
    assert math.isnan(value(metrics, "baseline_distance_nats") or 0.0)


# What an episode, a request, a record come to


def test_an_accepted_episode_is_closed_at_once(
    metrics: Metrics, windows: tuple[Publication, ...]
) -> None:
    metrics.window(windows[N_BEFORE])
    place, words = ("orders", "", N_BEFORE + 1), {"data": {}}
    event = Event("1", EventType.DRIFT_ENDED, *place, words)
    metrics.window(Publication("orders", "", "", N_BEFORE + 1, {}, {}, {}, (event,)))
    assert value(metrics, "episodes_open", kind="structural", severity="alert") == 0.0
    assert not scraped(metrics)["driftbn_edge_change_score"].samples


def test_the_build_is_told_once_whatever_streams_there_are(metrics: Metrics) -> None:
    metrics.add_stream("clicks", "kafka")
    (sample,) = scraped(metrics)["driftbn_build_info"].samples
    assert sample.labels == {"version": driftbn.__version__}


def test_requests_are_counted_by_route_and_status(metrics: Metrics) -> None:
    for status in (202, 202, 429, 599):
        metrics.answered("records", status)
    counted = {
        sample.labels["status"]: sample.value
        for sample in scraped(metrics)["driftbn_http_requests"].samples
        if sample.value
    }
    assert counted == {"202": 2.0, "429": 1.0, "other": 1.0}


def test_the_delay_of_a_report_is_since_event_time_and_arrival(
    metrics: Metrics, windows: tuple[Publication, ...]
) -> None:
    told = changed(windows[0], end=NOW - 100.0)
    metrics.window(replace(told, timings={"learn": 0.1, "decide": 0.1, "arrived": NOW - 2.0}))
    assert value(metrics, "report_delay_seconds_sum", since="event") == pytest.approx(100.0)
    assert value(metrics, "report_delay_seconds_sum", since="arrival") == pytest.approx(2.0)
    metrics.window(windows[1])
    assert value(metrics, "report_delay_seconds_count", since="event") == 1.0


def test_the_newest_record_has_its_time(metrics: Metrics) -> None:
    assert value(metrics, "record_taken_timestamp_seconds") == 0.0
    metrics.records("orders", "rejected", 1)
    assert value(metrics, "record_taken_timestamp_seconds") == 0.0
    metrics.records("orders", "taken", 1)
    assert value(metrics, "record_taken_timestamp_seconds") == NOW


def test_what_outlets_tell_is_shown_while_they_get_through(metrics: Metrics) -> None:
    metrics.alerting("pager", {"drift", "stream"})
    metrics.add_stream("clicks", "kafka")
    for stream in ("orders", "clicks"):
        found = {
            sample.labels["matter"]: sample.value
            for sample in scraped(metrics)["driftbn_outlet_alerts"].samples
            if sample.labels["stream"] == stream
        }
        assert found == {"drift": 1.0, "schema": 0.0, "stream": 1.0}
    metrics.alerting("pager", ())
    assert value(metrics, "outlet_alerts", matter="drift") == 0.0


# Bounds


def hostile_names(n_names: int) -> list[str]:
    """Return names that are many, long, alike, and not fit for a line of text."""
    odd = ['"} 1\nup 0', "\ud800half", "a\\", "line\u2028break", "\x00", ""]
    return (
        odd + [f"{'x' * 200}{n}" for n in range(n_names // 2)] + [f"f{n}" for n in range(n_names)]
    )


@pytest.mark.slow
def test_a_hostile_stream_cannot_grow_the_number_of_series(
    metrics: Metrics, windows: tuple[Publication, ...]
) -> None:
    names = hostile_names(3000)
    drift = windows[N_BEFORE]
    before = len(series(own(scraped(metrics))))
    largest = before
    for n in range(20):
        part = names[n * 200 :] or names
        report = changed(
            drift,
            key=f"tenant-{n}",
            missing=[{"name": name, "share": 1 / (i + 1)} for i, name in enumerate(part)],
            decision={"edges": [edge(a, b, 0.0) for a, b in pairwise(part)]},
            cost={**drift.report["cost"], "tests": [1] * 40, "undecided": []},
        )
        metrics.window(report)
        metrics.rejected("orders", f"made-up-{n}", 1)
        for lane in range(100):
            metrics.behind("orders", str(100 * n + lane), 1)
        body = metrics.text(OPEN)[0].decode()
        assert body.count('key="tenant-') <= MAX_SHOWN_EPISODES
        assert "made-up" not in body
        largest = max(largest, len(series(own(scraped(metrics)))))
    shown = MAX_EDGES + MAX_VARIABLES + MAX_PARTITIONS + MAX_SHOWN_EPISODES
    assert largest <= before + shown
    assert value(metrics, "source_lag_records", source="http", partition="other") == 2000 - 64
    assert value(metrics, "series_truncated", metric="edge_change_score") > 1000  # type: ignore[operator]
    assert value(metrics, "series_truncated", metric="variable_missing_ratio") > 100  # type: ignore[operator]


def test_names_from_the_data_stay_inside_their_label(
    metrics: Metrics, windows: tuple[Publication, ...]
) -> None:
    shares = [{"name": name, "share": 0.5} for name in hostile_names(10)]
    metrics.window(changed(windows[2], missing=shares))
    for accept in ("", OPEN):
        body = metrics.text(accept)[0].decode()
        assert not re.search(r"^up ", body, re.MULTILINE)
        names = [
            s.labels["variable"]
            for s in scraped(metrics, accept)["driftbn_variable_missing_ratio"].samples
        ]
        assert max(map(len, names)) == MAX_NAME_LENGTH
        assert "?half" in names


def test_there_are_few_series_a_stream(metrics: Metrics) -> None:
    without = len(series(own(scraped(Metrics()))))
    assert len(series(own(scraped(metrics)))) - without < 215


# Streams come and go


def test_a_stream_that_is_dropped_leaves_nothing(
    metrics: Metrics, windows: tuple[Publication, ...]
) -> None:
    metrics.add_stream("clicks", "kafka")
    metrics.drop_stream("orders")
    metrics.window(windows[0])
    metrics.records("orders", "taken", 1)
    metrics.notified("hook", "orders", "sent", 1)
    metrics.state("orders", "stopped")
    body = metrics.text("")[0].decode()
    assert "orders" not in body
    assert "clicks" in body


def test_counting_from_many_threads_loses_nothing(metrics: Metrics) -> None:
    def count() -> None:
        for _ in range(2000):
            metrics.records("orders", "taken", 1)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        scraped(metrics)
    assert (
        series(own(scraped(metrics)))[
            ("driftbn_records_total", "outcome=taken", "source=http", "stream=orders")
        ]
        == 8000.0
    )


# Speed


@pytest.mark.slow
def test_500_streams_are_scraped_in_milliseconds(windows: tuple[Publication, ...]) -> None:
    metrics = Metrics()
    for number in range(500):
        metrics.add_stream(f"stream-{number}", "http")
        metrics.window(replace(windows[N_BEFORE], stream=f"stream-{number}"))
    metrics.text("")
    idle, busy = [], []
    for _ in range(5):
        idle.append(_seconds(metrics))
        for number in range(500):
            metrics.records(f"stream-{number}", "taken", 100)
            metrics.window(replace(windows[N_BEFORE + 1], stream=f"stream-{number}"))
        busy.append(_seconds(metrics))
    # Processor time, which other work on the machine does not lengthen much; 1 and 15 ms usually.
    assert min(idle) < 0.02
    assert min(busy) < 0.1


def _seconds(metrics: Metrics) -> float:
    began = time.thread_time()
    metrics.text("")
    return time.thread_time() - began


def test_every_family_says_what_it_is() -> None:
    for family in FAMILIES:
        assert family.text.endswith(".")
        assert "\n" not in family.text


def test_silences_may_be_noted_while_windows_come(windows: tuple[Publication, ...]) -> None:
    metrics = keyed_metrics()
    done = threading.Event()
    errors: list[BaseException] = []

    def note() -> None:
        try:
            while not done.is_set():
                metrics.silence(silence("eu"))
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=note)
    thread.start()
    for n in range(300):
        metrics.window(changed(windows[N_BEFORE], f"key-{n}"))
    done.set()
    thread.join()
    assert errors == []
