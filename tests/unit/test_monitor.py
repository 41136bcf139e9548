"""The wiring of the monitor: what goes in, what is kept, what comes out."""

from __future__ import annotations

import numpy as np
import pytest

from driftbn import DriftMonitor, Knowledge, MonitorConfig, WindowConfig
from driftbn.datasets import asia, sample
from driftbn.errors import ConfigError, KnowledgeError
from driftbn.report import BAND_MIN_WINDOWS, BAND_WINDOWS
from tests.encoded import SchemaEventKind, infer_and_encode

NEW = SchemaEventKind.NEW_LEVEL
ASIA = sample(asia(), 1200, 1)


class Clock:
    """A clock that goes on by a second at each look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def test_settings_are_given_once() -> None:
    with pytest.raises(ConfigError, match="window"):
        DriftMonitor(MonitorConfig(), window=50)
    assert DriftMonitor(window=50).config == MonitorConfig(window=50)
    assert DriftMonitor(window=WindowConfig(size=9, step=2)).config.windows.step == 2
    assert DriftMonitor().config == MonitorConfig()


def test_a_declared_schema_is_used_from_the_first_record_on() -> None:
    schema = infer_and_encode(ASIA).schema
    monitor = DriftMonitor(MonitorConfig(window=500, variables=schema))
    assert monitor.schema == schema
    monitor.update(ASIA.iloc[:10].assign(smoke="new"))
    assert monitor.n_pending == 10
    (report,) = monitor.finish()
    assert [event.kind for event in report.events] == [NEW]


def test_no_edge_points_at_a_field_that_is_given() -> None:
    """Nothing in the data tells the direction between bronc and smoke."""
    for name, other in (("bronc", "smoke"), ("smoke", "bronc")):
        (report,) = DriftMonitor(window=1200, given=[name]).update(ASIA)
        assert (name, other) in report.graph.directed_edges
        assert not report.dag.parents(name)


def test_a_given_field_that_the_stream_does_not_have_is_an_error() -> None:
    with pytest.raises(KnowledgeError, match=r"given.*'smok'"):
        DriftMonitor(window=500, given=["smok"]).update(ASIA)
    timed = ASIA.assign(at=np.arange(len(ASIA)))
    assert DriftMonitor(window=500, given=["at"], time_column="at").update(timed)


def test_the_usual_distance_is_that_of_the_newest_calm_windows() -> None:
    monitor, calm = DriftMonitor(window=200), []
    rows = sample(asia(), 200 * 45, 2)
    for start in range(0, len(rows), 200):
        (report,) = monitor.update(rows.iloc[start : start + 200])
        if len(calm) < BAND_MIN_WINDOWS:
            assert report.usual is None
        else:
            newest = calm[-BAND_WINDOWS:]
            assert report.usual == (min(newest), max(newest), len(newest))
        if report.decision.calm:
            calm.append(report.diff.hamming)
        monitor = DriftMonitor.restore(monitor.snapshot())
    assert len(calm) > BAND_WINDOWS


def test_times_come_from_the_clock_that_is_given() -> None:
    monitor = DriftMonitor(window=400, clock=Clock())
    reports = monitor.update(ASIA)
    for report in reports:
        assert report.timings.learn >= 1.0
        assert report.timings.decide >= 1.0
        assert "timings" in report.to_dict(timings=True)
        assert "timings" not in report.to_dict()


def test_columns_without_part_are_named_with_the_reason() -> None:
    table = ASIA.assign(id=[f"k{i}" for i in range(len(ASIA))])
    report = DriftMonitor(window=400).update(table)[0]
    assert report.excluded == (("id", "id_like"),)
    assert "id" not in report.graph.nodes


def test_a_target_that_is_no_field_is_an_error() -> None:
    monitor = DriftMonitor(400, target="absent")
    with pytest.raises(KnowledgeError, match=r"target = 'absent' .* a field of the stream"):
        monitor.update(ASIA)


def test_a_target_that_was_left_out_has_no_blanket() -> None:
    table = ASIA.assign(id=[f"k{i}" for i in range(len(ASIA))])
    report = DriftMonitor(400, target="id").update(table)[0]
    assert (report.target, report.blanket) == ("id", ())


def test_known_edges_are_in_every_graph() -> None:
    knowledge = Knowledge(required=[("smoke", "xray")], forbidden=[("bronc", "dysp")])
    for report in DriftMonitor(MonitorConfig(window=300, knowledge=knowledge)).update(ASIA):
        assert ("smoke", "xray") in report.dag.edges
        assert ("bronc", "dysp") not in report.dag.edges


def test_knowledge_of_unknown_fields_is_an_error() -> None:
    monitor = DriftMonitor(MonitorConfig(window=300, knowledge=Knowledge([("smoke", "absent")])))
    with pytest.raises(KnowledgeError, match="absent"):
        monitor.update(ASIA)


def test_records_may_be_added_after_the_end() -> None:
    monitor = DriftMonitor(window=300)
    monitor.update(ASIA.iloc[:400])
    (short,) = monitor.finish()
    (whole,) = monitor.update(ASIA.iloc[400:700])
    assert [(r.index, r.first_record, r.rows) for r in (short, whole)] == [
        (1, 300, 100),
        (2, 400, 300),
    ]
