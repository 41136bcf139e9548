from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import pytest

from driftbn.decision.settings import DecisionConfig
from driftbn.errors import ConfigError

BAD = {
    "alpha": [0.0, 1.0, -0.1, 1.5, math.nan, "0.01", True],
    "windows_between_false_alarms": [1, 0.5, -3, 0, math.nan, math.inf, "1000", True],
    "min_effect": [-0.01, math.nan, "0", None, True],
    "reference_windows": [0, 65, 8.0, "8", None, True],
    "archived_regimes": [-1, 65, 1.5, None, False],
    "reference_alpha": [0.0, 1.0, math.nan, None, "0.1", True],
    "shadow_share": [-0.1, 1.1, math.nan, None, "all", True],
}
GOOD = {
    "alpha": [1e-300, 0.5, 0.999, None],
    "windows_between_false_alarms": [1.001, 2, 10**9, None],
    "min_effect": [0, 0.0, 3.5],
    "reference_windows": [4, 64],
    "archived_regimes": [0, 64],
    "reference_alpha": [1e-9, 0.999],
    "shadow_share": [0, 0.0, 1],
    "scales": [(1,), (1, 2, 4), (8,)],
    "dependent_rows": [True, False],
    "quiet_returns": [True, False],
}


def test_every_field_has_its_limits_tested() -> None:
    assert {field.name for field in fields(DecisionConfig)} == set(GOOD)
    assert set(GOOD) == {*BAD, "scales", "dependent_rows", "quiet_returns"}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in BAD.items() for v in values])
def test_value_that_is_not_allowed_is_named_with_its_field(name: str, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        DecisionConfig(**{name: value})
    error = caught.value
    assert error.field == name
    assert error.value is value
    assert str(error) == f"{name} = {value!r} is not allowed: it must be {error.allowed}"
    assert error.allowed


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in GOOD.items() for v in values])
def test_value_at_the_limits_is_kept(name: str, value: Any) -> None:
    assert getattr(DecisionConfig(**{name: value}), name) == value


@pytest.mark.parametrize(
    ("scales", "value", "allowed"),
    [
        ((2, 1), (2, 1), "rising numbers of windows"),
        ((1, 1), (1, 1), "rising numbers of windows"),
        ((0, 1), 0, "an integer from 1 to 8"),
        ((1, 9), 9, "an integer from 1 to 8"),
        ((1, 2.0), 2.0, "an integer from 1 to 8"),
    ],
)
def test_scales_rise_within_the_reference(
    scales: tuple[Any, ...], value: object, allowed: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        DecisionConfig(scales=scales)
    error = caught.value
    assert (error.field, error.value, error.allowed) == ("scales", value, allowed)


def test_usual_scales_do_not_exceed_a_smaller_reference() -> None:
    assert DecisionConfig().scales == (1, 3, 6)
    assert DecisionConfig(reference_windows=3).scales == (1, 3)
    with pytest.raises(ConfigError, match="scales = 4 is not allowed") as caught:
        DecisionConfig(scales=(1, 4), reference_windows=3)
    assert caught.value.allowed == "an integer from 1 to 3"


def test_a_list_of_scales_is_kept_as_a_tuple() -> None:
    scales: Any = [1, 3]
    assert DecisionConfig(scales=scales).scales == (1, 3)


def test_only_one_of_rate_and_distance_is_given() -> None:
    with pytest.raises(ConfigError) as caught:
        DecisionConfig(alpha=0.01, windows_between_false_alarms=100)
    assert caught.value.field == "windows_between_false_alarms"
    assert caught.value.value == 100
    assert caught.value.allowed == "None where alpha is given"


def test_level_is_the_rate_of_false_alarms() -> None:
    assert DecisionConfig().level == 0.01
    assert DecisionConfig(alpha=0.2).level == 0.2
    assert DecisionConfig(windows_between_false_alarms=500).level == 1 / 500
