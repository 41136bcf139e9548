"""Settings of the library: what is allowed, what is said of the rest, the way there and back."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import pytest

from driftbn import (
    ConfigError,
    DriftMonitor,
    Knowledge,
    LearnerConfig,
    MonitorConfig,
    SchemaConfig,
    WindowConfig,
)
from driftbn.config import (
    DriftKind,
    LatePolicy,
    Statistic,
    WindowMode,
    field_texts,
)
from driftbn.errors import UnknownSettingError
from tests.encoded import infer_and_encode

COUNT: list[Any] = [0, -1, 1.5, "3", True]
LEVEL: list[Any] = [0.0, 1.0, -0.1, 1.5, math.nan, math.inf, "0.01", True]
SHARE: list[Any] = [-0.1, 1.1, math.nan, None, "all", True]
FLAG: list[Any] = [1, 0, None, "yes"]
BAD: dict[type, dict[str, list[Any]]] = {
    WindowConfig: {
        "size": COUNT,
        "step": [*COUNT, 5001],
        "seconds": [0, 0.0, -1, math.inf, math.nan, "1h", True],
        "origin": [math.inf, -math.inf, math.nan, None, "epoch", True],
        "lateness_seconds": [-1, math.inf, math.nan, None, "late", False],
        "min_rows": [*COUNT, 50_001, None],
        "late": ["drop", None, 0, WindowMode.TIME],
    },
    SchemaConfig: {
        "max_levels": [1, 251, 3.0, True, "8"],
        "numeric_bins": [1, 251],
        "integer_levels": [-1, 251],
        "missing": ["drop", None],
        "id_like_ratio": [0, 1.01, math.nan, True, "0.5"],
        "keep_constant": FLAG,
        "keep_duplicates": FLAG,
    },
    LearnerConfig: {
        "algorithm": ["mmhc", "PC", "", None, 1, Statistic.G],
        "alpha": [*LEVEL, None],
        "statistic": ["chi2", None, 0],
        "max_conditioning": [-1, 11, 2.0, "3", None, True],
        "collider_rule": ["max-p", True, None],
        "repair": FLAG,
        "warm": ["both", False, None],
        "deadline_seconds": [0, 0.0, -1, math.inf, math.nan, "1s", True],
        "max_tests": COUNT,
    },
    MonitorConfig: {
        "alpha": LEVEL,
        "windows_between_false_alarms": [1, 0.5, -3, math.nan, math.inf, "1000", True],
        "min_effect": [-0.01, math.nan, math.inf, "0", None, True],
        "alarm_on": ["structural", 5, None],
        "max_distance": [0, -1.0, math.nan, math.inf, "3", True],
        "quiet_returns": FLAG,
        "reference_windows": [0, 65, 8.0, "8", None, True],
        "archived_regimes": [-1, 65, 1.5, None, False],
        "shadow_share": SHARE,
        "dependent_rows": FLAG,
        "window": ["5", 1.5, None],
        "max_rows_per_window": COUNT,
        "target": ["", 5],
        "time_column": ["", 5],
        "given": ["hour", 5, None],
        "audit_share": SHARE,
        "learner": [5, None, "pc"],
        "schema": [5],
        "knowledge": [5],
        "on_error": ["ignore"],
    },
}
GOOD: dict[type, dict[str, list[Any]]] = {
    WindowConfig: {
        "size": [1, 10**6],
        "step": [1, 5000, None],
        "seconds": [1e-9, 1, 86400.0],
        "origin": [-3600, 0.5],
        "lateness_seconds": [0, 1e9],
        "min_rows": [1, 50_000],
    },
    SchemaConfig: {
        "max_levels": [2, 250],
        "integer_levels": [0],
        "id_like_ratio": [1, 5e-324],
        "keep_constant": [True],
    },
    LearnerConfig: {
        "alpha": [1e-300, 0.999],
        "max_conditioning": [0, 10],
        "deadline_seconds": [None, 1, 1e-9],
        "max_tests": [None, 1, 10**12],
    },
    MonitorConfig: {
        "alpha": [1e-300, 0.999, None],
        "windows_between_false_alarms": [1.001, 2, 10**9, None],
        "min_effect": [0, 3.5],
        "alarm_on": [(), ("data", "structural")],
        "given": [(), ("day", "hour")],
        "max_distance": [None, 1e-9, 40],
        "reference_windows": [1, 64],
        "archived_regimes": [0, 64],
        "shadow_share": [0, 1],
        "max_rows_per_window": [None, 1, 10**9],
    },
}


def cases(table: dict[type, dict[str, list[Any]]]) -> list[tuple[type, str, Any]]:
    return [(kind, n, value) for kind, of in table.items() for n, vs in of.items() for value in vs]


def around(name: str) -> dict[str, Any]:
    """Return what a setting needs beside it: some are for time windows only."""
    timed = name in ("origin", "lateness_seconds", "min_rows", "late")
    return {"seconds": 60.0} if timed else {}


def test_every_setting_has_its_limits_tested_and_a_text() -> None:
    for kind, of in BAD.items():
        names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
        assert names == {*of} | ({"variables"} & names)
        assert names == {*field_texts(kind)}


@pytest.mark.parametrize(("kind", "name", "value"), cases(BAD))
def test_a_value_that_is_not_allowed_is_named_with_its_field(
    kind: type, name: str, value: Any
) -> None:
    with pytest.raises(ConfigError) as caught:
        kind(**around(name) | {name: value})
    error = caught.value
    assert error.field == name
    assert error.value is value
    assert str(error) == f"{name} = {value!r} is not allowed: it must be {error.allowed}"


@pytest.mark.parametrize(("kind", "name", "value"), cases(GOOD))
def test_a_value_at_the_limits_is_kept(kind: type, name: str, value: Any) -> None:
    assert getattr(kind(**around(name) | {name: value}), name) == value


def test_all_mistakes_are_said_at_once_with_their_paths() -> None:
    learner: Any = {"alpha": 7, "max_test": 5}
    with pytest.raises(ConfigError) as caught:
        MonitorConfig(alpha=2, window={"size": 0}, learner=learner)  # type: ignore[arg-type]
    errors = caught.value.errors
    assert [error.field for error in errors] == [
        "alpha", "window.size", "learner.max_test", "learner.alpha",
    ]  # fmt: skip
    assert isinstance(errors[2], UnknownSettingError)
    assert "max_tests" in errors[2].known
    assert str(caught.value).count("is not allowed") == 4


@pytest.mark.parametrize(
    ("settings", "field", "value"),
    [
        ({"size": 10, "step": 11}, "step", 11),
        ({"step": 5, "seconds": 1.0}, "step", 5),
        ({"size": 10, "min_rows": 11, "seconds": 1.0}, "min_rows", 11),
        ({"min_rows": 2}, "min_rows", 2),
        ({"origin": 1.0}, "origin", 1.0),
        ({"lateness_seconds": 1.0}, "lateness_seconds", 1.0),
        ({"late": "current"}, "late", LatePolicy.CURRENT),
    ],
)
def test_windows_that_contradict_themselves_are_refused_by_name(
    settings: dict[str, Any], field: str, value: object
) -> None:
    with pytest.raises(ConfigError) as caught:
        WindowConfig(**settings)
    assert (caught.value.field, caught.value.value) == (field, value)


@pytest.mark.parametrize(
    ("settings", "mode", "row_limit", "capacity"),
    [
        ({}, WindowMode.ROWS, 5000, 5000),
        ({"size": 10}, WindowMode.ROWS, 10, 10),
        ({"step": 10}, WindowMode.SLIDING, 5000, 5000),
        ({"seconds": 60}, WindowMode.TIME, 50_000, 50_000),
        ({"seconds": 60, "size": 9}, WindowMode.ROWS_OR_TIME, 9, 9),
        ({"seconds": 60, "size": 9, "lateness_seconds": 1}, WindowMode.ROWS_OR_TIME, 9, 18),
    ],
)
def test_mode_and_limits_follow_from_what_is_given(
    settings: dict[str, Any], mode: WindowMode, row_limit: int, capacity: int
) -> None:
    config = WindowConfig(**settings)
    assert (config.mode, config.row_limit, config.capacity) == (mode, row_limit, capacity)


def test_the_level_is_given_as_a_share_or_as_a_distance() -> None:
    assert MonitorConfig().level == 0.01
    assert MonitorConfig(alpha=0.2).level == 0.2
    assert MonitorConfig(windows_between_false_alarms=500).level == 1 / 500
    with pytest.raises(ConfigError, match=r"windows_between.* None where alpha is given"):
        MonitorConfig(alpha=0.01, windows_between_false_alarms=100)


def test_knowledge_is_sorted_and_rid_of_repetition() -> None:
    given = Knowledge(iter([("b", "c"), ("a", "b"), ("b", "c")]), {("z", "a")}, [iter("ba")])
    assert given == Knowledge([["a", "b"], ["b", "c"]], [("z", "a")], [("a", "b")])  # type: ignore[list-item]
    assert given.tiers == (("a", "b"),)


@pytest.mark.parametrize("name", ["required", "forbidden"])
@pytest.mark.parametrize("edge", ["ab", ("a",), ("a", "b", "c"), (), 5, None])
def test_an_edge_that_is_no_pair_is_named_with_its_field(name: str, edge: Any) -> None:
    with pytest.raises(ConfigError, match="pairs") as caught:
        Knowledge(**{name: [edge]})
    assert (caught.value.field, caught.value.value) == (name, edge)


COLUMNS = {"a": ["x", "y", "x", None] * 20, "n": [i / 7 for i in range(80)]}
CONFIGS = [
    MonitorConfig(),
    MonitorConfig(window=WindowConfig(size=100, step=30)),
    MonitorConfig(
        window=WindowConfig(seconds=60.5, origin=-3.0, lateness_seconds=2, late="current"),  # type: ignore[arg-type]
        time_column="t",
    ),
    MonitorConfig(alpha=0.05, min_effect=0.01, quiet_returns=True, dependent_rows=False),
    MonitorConfig(windows_between_false_alarms=50.5, shadow_share=0),
    MonitorConfig(learner={"algorithm": "pc", "statistic": "g", "warm": "tallies"}),  # type: ignore[arg-type]
    MonitorConfig(schema={"max_levels": 7, "missing": "reject"}),  # type: ignore[arg-type]
    MonitorConfig(
        knowledge=Knowledge([("a", "b")], [("b", "c"), ("c", "a")], [["z", "a"], ["b"], []])
    ),
    MonitorConfig(variables=infer_and_encode(COLUMNS).schema, target="a", on_error="reject_rows"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("config", CONFIGS, ids=range(len(CONFIGS)))
def test_settings_come_back_from_a_snapshot(config: MonitorConfig) -> None:
    assert DriftMonitor.restore(DriftMonitor(config).snapshot()).config == config


def test_kinds_that_raise_an_alarm_come_in_any_order_and_each_once() -> None:
    config = MonitorConfig(alarm_on=["structural", "data", "data"])  # type: ignore[arg-type]
    assert config.alarm_on == (DriftKind.DATA, DriftKind.STRUCTURAL)
    with pytest.raises(ConfigError, match="alarm_on = 'graph' is not allowed: it must be one of"):
        MonitorConfig(alarm_on=("graph",))  # type: ignore[arg-type]
