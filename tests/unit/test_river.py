from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from driftbn.config import MonitorConfig, WindowConfig
from driftbn.datasets import asia, remove_edge, sample
from driftbn.errors import ConfigError, DataError, MissingExtraError
from driftbn.monitor import DriftMonitor

ROOT = Path(__file__).parents[2]
WINDOW = 1000

if importlib.util.find_spec("river") is None:
    if os.environ.get("CI") == "true":
        pytest.fail("River is not installed; CI must test its adapter", pytrace=False)
    pytest.skip("River is not installed: pip install 'driftbn[river]'", allow_module_level=True)

from river import base, checks, compose  # noqa: E402
from river.checks import common  # noqa: E402

from driftbn.river import StructuralDriftDetector  # noqa: E402

Record = dict[str, Any]


@pytest.fixture(scope="module")
def records() -> list[Record]:
    """Asia, of which an edge is removed after four windows; two more windows and a bit."""
    after = remove_edge(asia(), "smoke", "bronc").network
    first = sample(asia(), 4 * WINDOW, 1).to_dict("records")
    return [*first, *sample(after, 2 * WINDOW + 50, 2).to_dict("records")]


def alarms(detector: StructuralDriftDetector, records: list[Record]) -> list[int]:
    """Return the numbers of the records after which there is a drift."""
    found = []
    for number, x in enumerate(records):
        detector.update(x)
        if detector.drift_detected:
            found.append(number)
    return found


# Detection


def test_drift_is_told_after_the_record_that_completes_the_window(records: list[Record]) -> None:
    detector = StructuralDriftDetector(window=WINDOW)
    assert not detector.drift_detected
    assert detector.last_report is None
    assert alarms(detector, records) == [5 * WINDOW - 1]
    assert not detector.drift_detected
    assert detector.last_report is not None
    assert detector.last_report.index == 5


@pytest.mark.slow
def test_time_windows_are_closed_by_the_record_after_them(records: list[Record]) -> None:
    config = MonitorConfig(window=WindowConfig(seconds=100), time_column="at")
    detector = StructuralDriftDetector(config=config)
    for number in range(201):
        detector.update(records[number] | {"at": float(number)})
    assert detector.last_report is None  # the schema waits for 5000 records
    config = MonitorConfig(
        window=WindowConfig(size=100, seconds=60), time_column="at", variables=_schema(records)
    )
    detector = StructuralDriftDetector(config=config)
    indices = []
    for number in range(121):
        detector.update(records[number] | {"at": float(number)})
        indices.append(None if detector.last_report is None else detector.last_report.index)
    assert (indices[59], indices[60], indices[119], indices[120]) == (None, 0, 0, 1)


def _schema(records: list[Record]) -> Any:
    monitor = DriftMonitor(window=500)
    monitor.update(records[:500])
    return monitor.schema


def test_it_works_in_a_loop_and_behind_a_transformer_of_river(records: list[Record]) -> None:
    detector = StructuralDriftDetector(WINDOW)
    kept = compose.Select("smoke", "bronc", "dysp")
    found = []
    dataset = ((dict(x), x["dysp"]) for x in records)
    for number, (x, _) in enumerate(dataset):
        detector.update(kept.transform_one(x))
        if detector.drift_detected:
            found.append(number)
    assert found == [5 * WINDOW - 1]
    assert detector.last_report is not None
    assert detector.last_report.graph.nodes == ("bronc", "dysp", "smoke")


def test_reset_forgets_everything(records: list[Record]) -> None:
    detector = StructuralDriftDetector(WINDOW)
    first = alarms(detector, records[:-70])
    detector._reset()
    assert detector.last_report is None
    assert alarms(detector, records) == first == [5 * WINDOW - 1]


# What goes wrong


def test_a_record_that_cannot_be_read_is_told_and_forgotten() -> None:
    detector = StructuralDriftDetector(window=100)
    good = [{"a": i % 2, "b": i // 2 % 2} for i in range(100)]
    for x in [*good[:40], {"a": [1], "b": 0}, *good[40:98]]:
        detector.update(x)
    with pytest.raises(DataError, match="row 40") as caught:
        detector.update(good[98])
    assert caught.value.column == "a"
    assert detector.last_report is None
    detector.update(good[99])
    assert detector.last_report is not None
    assert detector.last_report.rows == 100


def test_records_left_out_do_not_shift_the_windows() -> None:
    detector = StructuralDriftDetector(config=MonitorConfig(window=100, on_error="reject_rows"))  # type: ignore[arg-type]
    completed = []
    for i in range(210):
        detector.update({"a": [1] if i == 5 else i % 2, "b": i // 2 % 2})
        report = detector.last_report
        completed += [i] if report is not None and report.index == len(completed) else []
    assert completed == [100, 200]


def test_window_and_config_must_not_disagree() -> None:
    config = MonitorConfig(window=300)
    assert StructuralDriftDetector(300, config).config == config
    with pytest.raises(ConfigError, match="window = 200"):
        StructuralDriftDetector(200, config)
    with pytest.raises(ConfigError, match="size = 0"):
        StructuralDriftDetector(window=0)


def test_without_river_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "river", None)
    monkeypatch.delitem(sys.modules, "driftbn.river")
    with pytest.raises(MissingExtraError, match=r"pip install 'driftbn\[river\]'"):
        importlib.import_module("driftbn.river")


# River's own checks

# River makes them for estimators. A detector has no tags (they say what data an estimator takes).
NOT_FOR_DETECTORS = {"check_tags"}


class Learner(StructuralDriftDetector):
    """The detector under the names by which River's checks learn and predict."""

    _supervised = False

    def learn_one(self, x: Record) -> None:
        self.update(x)

    def predict_one(self, x: Record) -> bool:
        return self.drift_detected


def general_checks(model: Any) -> list[Any]:
    """Return the checks that need no data; what comes after them is for kinds of estimators."""
    found = []
    for check in checks.yield_checks(model):
        found.append(check)
        if check.__name__ == "check_get_params_matches_signature":
            break
    return found


@pytest.mark.parametrize(
    "check",
    [c for c in general_checks(StructuralDriftDetector()) if c.__name__ not in NOT_FOR_DETECTORS],
    ids=lambda check: check.__name__,
)
@pytest.mark.parametrize("config", [None, MonitorConfig(window=200, alpha=0.001)])
def test_general_checks_of_river_pass(check: Any, config: MonitorConfig | None) -> None:
    detector = StructuralDriftDetector(config=config)
    assert isinstance(detector, base.DriftDetector)
    check(detector.clone())


@pytest.mark.parametrize(
    "check",
    [
        common.check_learn_one,
        common.check_pickling,
        common.check_shuffle_features_no_impact,
        common.check_emerging_features,
        common.check_disappearing_features,
        common.check_radically_disappearing_features,
        common.check_no_state_aliasing_with_input,
        common.check_clone_is_independent,
    ],
    ids=lambda check: check.__name__,
)
def test_checks_of_river_with_data_pass(check: Any, records: list[Record]) -> None:
    check(Learner(window=100), [(dict(x), None) for x in records[:350]])
