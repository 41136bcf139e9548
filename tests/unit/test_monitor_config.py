"""All settings of a monitor: what is allowed, and as plain values and back."""

from __future__ import annotations

import json
import math

import pytest

from driftbn import (
    DecisionConfig,
    DriftMonitor,
    ErrorPolicy,
    Knowledge,
    LearnerConfig,
    MonitorConfig,
    SchemaConfig,
    WindowConfig,
)
from driftbn.errors import ConfigError
from driftbn.records import infer_and_encode
from driftbn.snapshot import config_values, read_config

SCHEMA = infer_and_encode(
    {"a": ["x", "y", "x", None] * 20, "n": [i / 7 for i in range(80)], "c": [True, False] * 40}
).schema

CONFIGS = [
    MonitorConfig(),
    MonitorConfig(window=17),
    MonitorConfig(window=WindowConfig(size=100, step=30)),
    MonitorConfig(
        window=WindowConfig(
            seconds=60.5, origin=-3.0, lateness_seconds=2, min_rows=7, late="current"
        ),
        time_column="t",
    ),
    MonitorConfig(window=WindowConfig(size=50, seconds=10), time_column="t"),
    MonitorConfig(window=WindowConfig(seconds=10, max_rows=999), time_column="t"),
    MonitorConfig(alpha=0.05),
    MonitorConfig(windows_between_false_alarms=300),
    MonitorConfig(decision=DecisionConfig(alpha=0.001, min_effect=0.01, scales=[1, 3])),
    MonitorConfig(decision=DecisionConfig(windows_between_false_alarms=50.5, shadow_share=0)),
    MonitorConfig(alpha=0.05, decision=DecisionConfig(alpha=0.05, dependent_rows=False)),
    MonitorConfig(
        learner=LearnerConfig(
            algorithm="pc-original",
            statistic="g",
            collider_rule="max-p",
            warm="tallies",
            max_sets=None,
            deadline_seconds=1.5,
            max_tests=10,
        )
    ),
    MonitorConfig(schema=SchemaConfig(max_levels=7, missing="reject", id_like_ratio=0.5)),
    MonitorConfig(
        knowledge=Knowledge([("a", "b")], [("b", "c"), ("c", "a")], [["z", "a"], ["b"], []])
    ),
    MonitorConfig(variables=SCHEMA, target="a", audit_share=0.25),
    MonitorConfig(on_error=ErrorPolicy.REJECT_ROWS),
]


@pytest.mark.parametrize("config", CONFIGS, ids=range(len(CONFIGS)))
def test_settings_come_back_from_plain_values(config: MonitorConfig) -> None:
    values = config_values(config)
    text = json.dumps(values, allow_nan=False)
    assert read_config(values) == config
    assert read_config(json.loads(text)) == config
    assert config_values(read_config(values)) == values


@pytest.mark.parametrize("config", CONFIGS, ids=range(len(CONFIGS)))
def test_settings_survive_a_snapshot(config: MonitorConfig) -> None:
    assert DriftMonitor.restore(DriftMonitor(config).snapshot()).config == config


def test_a_number_is_the_size_of_a_window() -> None:
    assert MonitorConfig(window=40).windows == WindowConfig(size=40)
    assert MonitorConfig().windows.size == 5000


def test_short_forms_are_those_of_the_decision() -> None:
    assert MonitorConfig(alpha=0.03).decision.level == 0.03
    assert MonitorConfig(windows_between_false_alarms=200).decision.level == 0.005
    kept = MonitorConfig(alpha=0.03, decision=DecisionConfig(min_effect=0.5)).decision
    assert (kept.alpha, kept.min_effect) == (0.03, 0.5)


def test_names_stand_for_members() -> None:
    assert MonitorConfig(on_error="reject_rows").on_error is ErrorPolicy.REJECT_ROWS


WRONG: list[tuple[dict[str, object], str, str]] = [
    ({"window": 0}, "size", "an integer from 1"),
    ({"window": "5"}, "size", "an integer from 1"),
    ({"window": True}, "size", "an integer from 1"),
    ({"on_error": "ignore"}, "on_error", "'reject_batch', 'reject_rows'"),
    ({"audit_share": 1.5}, "audit_share", "from 0 to 1"),
    ({"audit_share": math.nan}, "audit_share", "from 0 to 1"),
    ({"alpha": 0.0}, "alpha", "between 0 and 1"),
    ({"alpha": 0.1, "decision": DecisionConfig(alpha=0.2)}, "alpha", "0.2, as in decision"),
    (
        {"alpha": 0.1, "windows_between_false_alarms": 5},
        "windows_between_false_alarms",
        "None where alpha is given",
    ),
    ({"windows_between_false_alarms": 1}, "windows_between_false_alarms", "more than 1"),
    ({"window": WindowConfig(seconds=5)}, "time_column", "the column with event times"),
]


@pytest.mark.parametrize(("settings", "field", "allowed"), WRONG)
def test_a_wrong_setting_is_named_with_what_is_allowed(
    settings: dict[str, object], field: str, allowed: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        MonitorConfig(**settings)  # type: ignore[arg-type]
    assert caught.value.field == field
    assert allowed in str(caught.value)


def test_a_smallest_effect_is_finite() -> None:
    with pytest.raises(ConfigError, match="min_effect"):
        DecisionConfig(min_effect=math.inf)
