"""What Prometheus is told: names, labels, bounds, and how fast."""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from driftbn_service.events import Event, EventType, Publication
from driftbn_service.metrics import (
    FAMILIES,
    MAX_EDGES,
    MAX_PARTITIONS,
    MAX_SHOWN_EPISODES,
    MAX_VARIABLES,
    Metrics,
    Shown,
    StreamMetrics,
)
from driftbn_service.series import MAX_NAME_LENGTH
from driftbn_service.state import ActionRow, Silences
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_plain

import driftbn
from tests.http_service import N_BEFORE, drifting_publications

OPEN = "application/openmetrics-text; version=1.0.0"
NOW = 1_700_000_000.0
STRUCTURAL = {"kind": "structural", "severity": "alert"}

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


class Told:
    """Metrics of one stream, to be told and asked."""

    def __init__(self, *, keyed: bool = False) -> None:
        self.metrics = Metrics(clock=lambda: NOW)
        self.metrics.add_outlet("hook")
        self.stream: StreamMetrics = self.metrics.add_stream("orders", "http", keyed=keyed)

    def windows(self, *publications: Publication) -> None:
        for publication in publications:
            self.stream.window(publication)

    def scraped(self, accept: str = OPEN) -> dict[str, Metric]:
        body, content_type = self.metrics.text(accept)
        parse = parse_open if content_type.startswith("application/openmetrics") else parse_plain
        return {metric.name: metric for metric in parse(body.decode())}

    def own(self, accept: str = OPEN) -> list[Metric]:
        return [found for name, found in self.scraped(accept).items() if name.startswith("driftbn")]

    def samples(self, name: str) -> list[Any]:
        return list(self.scraped()[f"driftbn_{name}"].samples)

    def value(self, name: str, **labels: str) -> float:
        whose = {"stream": "orders", **labels}
        found = self.metrics.registry.get_sample_value(f"driftbn_{name}", whose)
        return math.nan if found is None else float(found)


def series(families: Iterable[Metric]) -> dict[tuple[str, ...], float]:
    """Return all samples by name and labels, and see that none comes twice."""
    found: dict[tuple[str, ...], float] = {}
    for metric in families:
        for sample in metric.samples:
            key = (sample.name, *(f"{name}={text}" for name, text in sorted(sample.labels.items())))
            assert key not in found
            found[key] = sample.value
    return found


def changed(publication: Publication, key: str = "", **report: Any) -> Publication:
    """Return a window with other parts of its report; ``decision`` is merged."""
    found = {**publication.report, **report}
    found["decision"] = publication.report["decision"] | report.get("decision", {})
    return replace(publication, key=key, report=found)


def edge(source: str, target: str, p_value: float = 1e-9) -> dict[str, Any]:
    return {"source": source, "target": target, "change": "added", "p_value": p_value}


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def keyed() -> Told:
    return Told(keyed=True)


WINDOWS = drifting_publications()
DRIFT = WINDOWS[N_BEFORE]


# Names


def test_every_metric_has_its_name_type_and_labels(told: Told) -> None:
    told.windows(changed(DRIFT, missing=[{"name": "a", "share": 0.5}]))
    families = told.scraped()
    assert WANTED.keys() <= families.keys()
    for name, (kind, labels) in WANTED.items():
        assert families[name].type == kind, name
        assert families[name].samples, name
        for sample in families[name].samples:
            whose = set() if name in OF_PROCESS else {"stream"}
            assert set(sample.labels) - {"le"} == whose | labels, name
    for accept in ("", OPEN):
        assert told.scraped(accept)["process_resident_memory_bytes"].samples[0].value > 1e6
    for family in FAMILIES:
        assert family.text.endswith(".")
        assert "\n" not in family.text


def test_every_series_is_there_from_the_first_scrape(told: Told) -> None:
    def fixed() -> set[tuple[str, ...]]:
        return set(series(metric for metric in told.own() if metric.name not in FROM_DATA))

    first = fixed()
    told.windows(*WINDOWS)
    for outcome in ("taken", "rejected", "failed"):
        told.stream.records(outcome, 1)
    told.stream.rejected("no_key", 1)
    told.stream.behind("", 3)
    told.stream.committed(0.1)
    told.stream.commit_failed()
    told.stream.state("running")
    told.metrics.notified("hook", "orders", "sent", 1)
    assert fixed() == first
    assert len(first) - len(series(Metrics().registry.collect())) < 215


def test_text_and_registry_say_the_same(told: Told) -> None:
    assert math.isnan(told.value("drift_p_value", family="mechanism"))
    told.windows(*WINDOWS)
    registered = series(told.metrics.registry.collect())
    for accept in ("", OPEN):
        assert series(told.own(accept)) == pytest.approx(registered, rel=0, abs=0, nan_ok=True)


def test_what_is_of_the_process_is_told_once_whatever_streams_there_are(told: Told) -> None:
    told.metrics.add_stream("clicks", "kafka")
    for status in (202, 202, 429, 599):
        told.metrics.answered("records", status)
    (build,) = told.samples("build_info")
    assert build.labels == {"version": driftbn.__version__}
    counted = {s.labels["status"]: s.value for s in told.samples("http_requests") if s.value}
    assert counted == {"202": 2.0, "429": 1.0, "other": 1.0}


# Windows


def test_windows_are_counted_by_what_they_were_called(told: Told) -> None:
    told.windows(*WINDOWS)
    levels = [publication.report["decision"]["level"] for publication in WINDOWS]
    for level in set(levels):
        assert told.value("windows_total", outcome=level) == levels.count(level)
    assert told.value("window_published_timestamp_seconds") == NOW
    tests = sum(sum(publication.report["cost"]["tests"]) for publication in WINDOWS)
    assert sum(sample.value for sample in told.samples("ci_tests")) == tests


def test_a_drift_carries_exemplars_that_name_its_window(told: Told) -> None:
    assert DRIFT.report["decision"]["episode_event"] == "started"
    told.windows(DRIFT)
    (alert,) = [sample for sample in told.samples("alerts") if sample.value]
    assert alert.exemplar.labels == {"window": str(N_BEFORE), "episode": "0"}
    assert alert.exemplar.timestamp is not None
    buckets = told.samples("relearn_duration_seconds")
    named = [sample.exemplar.labels for sample in buckets if sample.exemplar is not None]
    assert named == [{"window": str(N_BEFORE)}] * 2
    assert " # {" not in told.metrics.text("")[0].decode()


def test_edges_stay_while_their_episode_is_open_and_vanish_with_it(told: Told) -> None:
    shown, is_open = [], []
    for publication in WINDOWS:
        told.windows(publication)
        shown.append(bool(told.samples("edge_change_score")))
        is_open.append(told.value("episodes_open", **STRUCTURAL) == 1.0)
    decisions = [publication.report["decision"] for publication in WINDOWS]
    expected = [d["episode"] is not None and d["episode_event"] != "ended" for d in decisions]
    assert is_open == shown == expected
    assert any(shown)
    assert not shown[-1]


def test_an_episode_that_replaces_another_takes_its_edges_away(told: Told) -> None:
    other = {"episode": 1, "kind": "mechanism", "severity": "warning", "edges": []}
    told.windows(
        changed(DRIFT, decision={"edges": [edge("a", "b")]}), changed(DRIFT, decision=other)
    )
    assert told.value("episodes_open", **STRUCTURAL) == 0.0
    assert told.value("episodes_open", kind="mechanism", severity="warning") == 1.0
    assert not told.samples("edge_change_score")


def test_an_accepted_episode_is_closed_at_once(told: Told) -> None:
    event = Event("1", EventType.DRIFT_ENDED, "orders", "", N_BEFORE + 1, {"data": {}})
    told.windows(DRIFT, Publication("orders", "", "", N_BEFORE + 1, {}, {}, {}, (event,)))
    assert told.value("episodes_open", **STRUCTURAL) == 0.0
    assert not told.samples("edge_change_score")


class SlowlyRead(dict[str, str]):
    """Levels that are read when they may be."""

    begun, ready = threading.Event(), threading.Event()

    def items(self) -> Any:
        self.begun.set()
        assert self.ready.wait(10.0)
        return super().items()


def test_no_scrape_after_a_restart_lacks_what_was_known(told: Told) -> None:
    shown = Shown("structural", "alert", NOW, "a - b added")
    known = DRIFT.report, SlowlyRead({"": "drift"}), {"": shown}
    told.metrics.drop_stream("orders")
    texts: list[bytes] = []

    def restart() -> None:
        told.stream = told.metrics.add_stream("orders", "http", known=known)

    restarting = threading.Thread(target=restart)
    scraping = threading.Thread(target=lambda: texts.append(told.metrics.text(OPEN)[0]))
    restarting.start()
    assert SlowlyRead.begun.wait(10.0)
    scraping.start()
    scraping.join(0.1)  # it waits, or is done with what it found
    SlowlyRead.ready.set()
    for thread in (restarting, scraping):
        thread.join()
    assert re.search(rb"driftbn_episodes_open{[^}]*structural[^}]*alert[^}]*} 1.0", texts[0])
    assert told.value("alerts_total", **STRUCTURAL) == 0.0
    assert told.samples("edge_change_score")
    assert told.value("graph_nodes") == 4.0


FAR = {"distance": 0.5, "max_distance": 3.0, "travelled": [{"name": "a", "nats": 0.4}]}


@pytest.mark.parametrize(
    ("report", "name", "labels", "expected"),
    [
        ({"usual": {"low": 1, "high": 7}}, "structural_hamming_band", {"limit": "lower"}, 1.0),
        ({"usual": {"low": 1, "high": 7}}, "structural_hamming_band", {"limit": "upper"}, 7.0),
        ({"decision": FAR}, "baseline_distance_nats", {}, 0.5),
        ({"decision": FAR}, "baseline_distance_limit_nats", {}, 3.0),
        ({"decision": FAR}, "baseline_distance_field_nats", {"variable": "a"}, 0.4),
    ],
)
def test_what_the_last_window_says_is_shown(
    told: Told, report: dict[str, Any], name: str, labels: dict[str, str], expected: float
) -> None:
    told.windows(changed(WINDOWS[0], **report))
    assert told.value(name, **labels) == expected


def test_histogram_buckets_add_up(told: Told) -> None:
    for seconds in (0.005, 0.006, 100.0):
        told.windows(replace(WINDOWS[2], timings={"learn": seconds, "decide": 0.0}))
    start = "warm" if WINDOWS[2].report["cost"]["warm"] else "cold"
    name, labels = "relearn_duration_seconds", {"phase": "learn", "start": start}
    ends = {"0.005": 1.0, "0.02": 2.0, "60.0": 2.0, "+Inf": 3.0}
    assert {le: told.value(f"{name}_bucket", le=le, **labels) for le in ends} == ends
    assert told.value(f"{name}_count", **labels) == 3.0
    assert told.value(f"{name}_sum", **labels) == pytest.approx(100.011)


def test_the_delay_of_a_report_is_since_event_time_and_arrival(told: Told) -> None:
    late = changed(WINDOWS[0], end=NOW - 100.0)
    told.windows(replace(late, timings={"learn": 0.1, "decide": 0.1, "arrived": NOW - 2.0}))
    assert told.value("report_delay_seconds_sum", since="event") == pytest.approx(100.0)
    assert told.value("report_delay_seconds_sum", since="arrival") == pytest.approx(2.0)
    told.windows(WINDOWS[1])
    assert told.value("report_delay_seconds_count", since="event") == 1.0


def test_the_newest_record_has_its_time(told: Told) -> None:
    for outcome, moment in (("rejected", 0.0), ("taken", NOW)):
        told.stream.records(outcome, 1)
        assert told.value("record_taken_timestamp_seconds") == moment


def test_what_outlets_tell_is_shown_while_they_get_through(told: Told) -> None:
    told.metrics.alerting("pager", {"drift", "stream"})
    told.metrics.add_stream("clicks", "kafka")
    for stream in ("orders", "clicks"):
        samples = [s for s in told.samples("outlet_alerts") if s.labels["stream"] == stream]
        found = {sample.labels["matter"]: sample.value for sample in samples}
        assert found == {"drift": 1.0, "schema": 0.0, "stream": 1.0}
    told.metrics.alerting("pager", ())
    assert told.value("outlet_alerts", matter="drift") == 0.0


# Keys


def test_keys_are_counted_by_what_they_were_called_and_none_speaks_for_the_others(
    keyed: Told,
) -> None:
    for key, publication in (("eu", DRIFT), ("us", DRIFT), ("asia", WINDOWS[2])):
        keyed.windows(changed(publication, key))
    found = {word: keyed.value("state", state=word) for word in ("drift", "stable", "learning")}
    assert found == {"drift": 2.0, "stable": 1.0, "learning": 0.0}
    assert keyed.value("graph_nodes") == 0.0
    assert math.isnan(keyed.value("undecided_pairs"))
    keyed.windows(changed(WINDOWS[-1], "eu"))
    assert keyed.value("state", state="drift") == 1.0


def test_open_episodes_are_named_by_key_and_what_changed(keyed: Told) -> None:
    edges = [edge("price", "stock", 1e-3), edge("price", "demand")]
    for n in range(MAX_SHOWN_EPISODES + 3):
        keyed.windows(changed(DRIFT, f"key-{n:02}", start=NOW + n, decision={"edges": edges}))
    shown = keyed.samples("episode_start_timestamp_seconds")
    assert [sample.value for sample in shown] == [NOW + n for n in range(MAX_SHOWN_EPISODES)]
    assert shown[0].labels["key"] == "key-00"
    assert shown[0].labels["what"] == "price - demand added and 1 more"
    truncated = keyed.value("series_truncated", metric="episode_start_timestamp_seconds")
    assert truncated == 3.0


def silence(key: str) -> Silences:
    row = ActionRow(1, "silence", "orders", key, None, None, NOW, "", "", NOW)
    return Silences([row])


@pytest.mark.parametrize(("key", "n_silenced"), [("eu", 1.0), ("", 2.0), ("asia", 0.0)])
def test_silenced_episodes_are_counted_and_not_named(
    keyed: Told, key: str, n_silenced: float
) -> None:
    keyed.windows(changed(DRIFT, "eu"), changed(DRIFT, "us"))
    keyed.metrics.silence(silence(key))
    assert keyed.value("episodes_open", **STRUCTURAL) == 2.0
    assert keyed.value("episodes_silenced", **STRUCTURAL) == n_silenced
    assert len(keyed.samples("episode_start_timestamp_seconds")) == 2.0 - n_silenced
    keyed.metrics.silence(Silences())
    assert keyed.value("episodes_silenced", **STRUCTURAL) == 0.0


def test_the_farthest_key_beyond_its_limit_is_told(keyed: Told) -> None:
    def at(key: str, distance: float) -> Publication:
        return changed(WINDOWS[0], key, decision={"distance": distance, "max_distance": 3.0})

    keyed.windows(at("eu", 4.0), at("us", 5.0), at("asia", 1.0))
    assert keyed.value("baseline_distance_nats") == 5.0
    assert keyed.value("baseline_distance_limit_nats") == 3.0
    keyed.windows(at("eu", 0.0), at("us", 0.0))
    assert math.isnan(keyed.value("baseline_distance_nats"))


# Bounds


def hostile_names(n_names: int) -> list[str]:
    """Return names that are many, long, alike, and not fit for a line of text."""
    odd = ['"} 1\nup 0', "\ud800half", "a\\", "line\u2028break", "\x00", ""]
    return (
        odd + [f"{'x' * 200}{n}" for n in range(n_names // 2)] + [f"f{n}" for n in range(n_names)]
    )


@pytest.mark.slow
def test_a_hostile_stream_cannot_grow_the_number_of_series(told: Told) -> None:
    names = hostile_names(3000)
    largest = before = len(series(told.own()))
    for n in range(20):
        part = names[n * 200 :] or names
        told.windows(
            changed(
                DRIFT,
                key=f"tenant-{n}",
                missing=[{"name": name, "share": 1 / (i + 1)} for i, name in enumerate(part)],
                decision={"edges": [edge(a, b, 0.0) for a, b in pairwise(part)]},
                cost={**DRIFT.report["cost"], "tests": [1] * 40, "undecided": []},
            )
        )
        told.stream.rejected(f"made-up-{n}", 1)
        for lane in range(100):
            told.stream.behind(str(100 * n + lane), 1)
        body = told.metrics.text(OPEN)[0].decode()
        assert body.count('key="tenant-') <= MAX_SHOWN_EPISODES
        assert "made-up" not in body
        largest = max(largest, len(series(told.own())))
    shown = MAX_EDGES + MAX_VARIABLES + MAX_PARTITIONS + MAX_SHOWN_EPISODES
    assert largest <= before + shown
    assert told.value("source_lag_records", source="http", partition="other") == 2000 - 64
    assert told.value("series_truncated", metric="edge_change_score") > 1000
    assert told.value("series_truncated", metric="variable_missing_ratio") > 100


def test_names_from_the_data_stay_inside_their_label(told: Told) -> None:
    shares = [{"name": name, "share": 0.5} for name in hostile_names(10)]
    told.windows(changed(WINDOWS[2], missing=shares))
    for accept in ("", OPEN):
        assert not re.search(r"^up ", told.metrics.text(accept)[0].decode(), re.MULTILINE)
        samples = told.scraped(accept)["driftbn_variable_missing_ratio"].samples
        names = [sample.labels["variable"] for sample in samples]
        assert max(map(len, names)) == MAX_NAME_LENGTH
        assert "?half" in names


# Streams come and go


def test_a_stream_that_is_dropped_leaves_nothing(told: Told) -> None:
    told.metrics.add_stream("clicks", "kafka")
    told.metrics.drop_stream("orders")
    told.windows(WINDOWS[0])
    told.stream.state("stopped")
    told.metrics.notified("hook", "orders", "sent", 1)
    body = told.metrics.text("")[0].decode()
    assert "orders" not in body
    assert "clicks" in body


def test_counting_from_many_threads_loses_nothing(told: Told) -> None:
    def count() -> None:
        for _ in range(2000):
            told.stream.records("taken", 1)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        told.scraped()
    place = ("driftbn_records_total", "outcome=taken", "source=http", "stream=orders")
    assert series(told.own())[place] == 8000.0


def test_silences_may_be_noted_while_windows_come(keyed: Told) -> None:
    done = threading.Event()
    errors: list[BaseException] = []

    def note() -> None:
        try:
            while not done.is_set():
                keyed.metrics.silence(silence("eu"))
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=note)
    thread.start()
    keyed.windows(*(changed(DRIFT, f"key-{n}") for n in range(300)))
    done.set()
    thread.join()
    assert errors == []


@pytest.mark.slow
def test_500_streams_are_scraped_in_milliseconds() -> None:
    metrics = Metrics()
    streams = [metrics.add_stream(f"stream-{number}", "http") for number in range(500)]
    for stream in streams:
        stream.window(DRIFT)
    metrics.text("")
    idle, busy = [], []
    for _ in range(5):
        idle.append(_seconds(metrics))
        for stream in streams:
            stream.records("taken", 100)
            stream.window(WINDOWS[N_BEFORE + 1])
        busy.append(_seconds(metrics))
    # Processor time, which other work on the machine does not lengthen much; 1 and 15 ms usually.
    assert min(idle) < 0.02
    assert min(busy) < 0.1


def _seconds(metrics: Metrics) -> float:
    began = time.thread_time()
    metrics.text("")
    return time.thread_time() - began
