from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest

from driftbn.errors import ConfigError
from driftbn.window_config import LatePolicy, WindowConfig, WindowMode

TIME = {"seconds": 60.0}
BAD: dict[str, list[Any]] = {
    "size": [0, -1, 1.5, "many", True],
    "step": [0, 5001, 2.0, "half", True],
    "seconds": [0, 0.0, -1, math.inf, math.nan, "1h", True],
    "origin": [math.inf, -math.inf, math.nan, None, "epoch", True],
    "lateness_seconds": [-1, math.inf, math.nan, None, "late", False],
    "max_rows": [0, 10.0, "all", True],
    "min_rows": [0, 50_001, 1.0, None, True],
    "late": ["drop", None, 0, WindowMode.TIME],
}
GOOD: dict[str, list[Any]] = {
    "size": [1, 10**6],
    "step": [1, 5000, None],
    "seconds": [1e-9, 1, 86400.0],
    "origin": [-3600, 0.5],
    "lateness_seconds": [0, 1e9],
    "max_rows": [1, 10**6, None],
    "min_rows": [1, 50_000],
    "late": list(LatePolicy),
}
READS_SECONDS = ("origin", "lateness_seconds", "max_rows", "min_rows", "late")


def surroundings(name: str) -> dict[str, Any]:
    return dict(TIME) if name in READS_SECONDS else {}


def test_every_field_has_its_limits_tested() -> None:
    assert {field.name for field in fields(WindowConfig)} == set(BAD) == set(GOOD)


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in BAD.items() for v in values])
def test_value_that_is_not_allowed_is_named_with_its_field(name: str, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        WindowConfig(**{**surroundings(name), name: value})
    error = caught.value
    assert error.field == name
    assert error.value is value
    assert str(error) == f"{name} = {value!r} is not allowed: it must be {error.allowed}"


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in GOOD.items() for v in values])
def test_value_at_the_limits_is_kept(name: str, value: Any) -> None:
    assert getattr(WindowConfig(**{**surroundings(name), name: value}), name) == value


@pytest.mark.parametrize(
    ("settings", "field", "value"),
    [
        ({"size": 10, "step": 11}, "step", 11),
        ({"size": 10, "step": 5, "seconds": 1.0}, "step", 5),
        ({"step": 5, "seconds": 1.0}, "step", 5),
        ({"size": 10, "max_rows": 20}, "max_rows", 20),
        ({"size": 10, "max_rows": 9, "seconds": 1.0}, "max_rows", 9),
        ({"max_rows": 20}, "max_rows", 20),
        ({"size": 10, "min_rows": 11, "seconds": 1.0}, "min_rows", 11),
        ({"max_rows": 10, "min_rows": 11, "seconds": 1.0}, "min_rows", 11),
        ({"min_rows": 2}, "min_rows", 2),
        ({"origin": 1.0}, "origin", 1.0),
        ({"lateness_seconds": 1.0}, "lateness_seconds", 1.0),
        ({"late": "current"}, "late", LatePolicy.CURRENT),
    ],
)
def test_contradiction_is_refused_by_name(
    settings: dict[str, Any], field: str, value: object
) -> None:
    with pytest.raises(ConfigError) as caught:
        WindowConfig(**settings)
    assert (caught.value.field, caught.value.value) == (field, value)
    assert caught.value.allowed


@pytest.mark.parametrize(
    ("settings", "mode", "row_limit", "capacity"),
    [
        ({}, WindowMode.ROWS, 5000, 5000),
        ({"size": 10}, WindowMode.ROWS, 10, 10),
        ({"size": 10, "max_rows": 10}, WindowMode.ROWS, 10, 10),
        ({"step": 10}, WindowMode.SLIDING, 5000, 5000),
        ({"seconds": 60}, WindowMode.TIME, 50_000, 50_000),
        ({"seconds": 60, "max_rows": 7}, WindowMode.TIME, 7, 7),
        ({"seconds": 60, "lateness_seconds": 1, "max_rows": 7}, WindowMode.TIME, 7, 14),
        ({"seconds": 60, "size": 9}, WindowMode.ROWS_OR_TIME, 9, 9),
        ({"seconds": 60, "size": 9, "lateness_seconds": 1}, WindowMode.ROWS_OR_TIME, 9, 18),
    ],
)
def test_mode_and_limits_follow_from_what_is_given(
    settings: dict[str, Any], mode: WindowMode, row_limit: int, capacity: int
) -> None:
    config = WindowConfig(**settings)
    assert (config.mode, config.row_limit, config.capacity) == (mode, row_limit, capacity)


def test_text_names_a_policy() -> None:
    assert WindowConfig(seconds=1, late="current").late is LatePolicy.CURRENT  # type: ignore[arg-type]


def test_config_cannot_be_changed_but_replaced() -> None:
    config = WindowConfig(size=10)
    with pytest.raises(FrozenInstanceError):
        config.size = 20  # type: ignore[misc]
    assert replace(config, size=20, step=5) == WindowConfig(size=20, step=5)
    assert replace(WindowConfig(), seconds=60).mode is WindowMode.ROWS_OR_TIME
