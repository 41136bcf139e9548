from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from driftbn.config import Algorithm, ColliderRule, Knowledge, LearnerConfig, Statistic, WarmStart
from driftbn.errors import ConfigError

ENUMS = {
    "algorithm": Algorithm,
    "statistic": Statistic,
    "collider_rule": ColliderRule,
    "warm": WarmStart,
}
BAD = {
    "algorithm": ["mmhc", "PC", "", None, 1, Statistic.G],
    "statistic": ["chi2", None, 0],
    "collider_rule": ["max_p", True, None],
    "warm": ["both", False, None],
    "alpha": [0.0, 1.0, -0.1, 1.5, math.nan, math.inf, "0.01", None, True],
    "max_conditioning": [-1, 11, 2.0, "3", None, True],
    "max_sets": [0, -5, 1.5, "all", False],
    "census_size": [0, 11, 2.5, None, True],
    "tally_decay": [-0.1, 1.1, math.nan, None, "half", True],
    "deadline_seconds": [0, 0.0, -1, math.inf, math.nan, "1s", True],
    "max_tests": [0, -1, 10.0, "many", True],
}
GOOD = {
    "alpha": [1e-300, 0.5, 0.999],
    "max_conditioning": [0, 1, 10],
    "max_sets": [1, None, 10**9],
    "census_size": [1, 10],
    "tally_decay": [0, 0.0, 1, 0.3],
    "deadline_seconds": [None, 1, 1e-9, 1e9],
    "max_tests": [None, 1, 10**12],
}


def test_every_field_has_its_limits_tested() -> None:
    assert {field.name for field in fields(LearnerConfig)} == set(BAD) == {*GOOD, *ENUMS}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in BAD.items() for v in values])
def test_value_that_is_not_allowed_is_named_with_its_field(name: str, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        LearnerConfig(**{name: value})
    error = caught.value
    assert error.field == name
    assert error.value is value
    assert str(error) == f"{name} = {value!r} is not allowed: it must be {error.allowed}"
    assert error.allowed


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in GOOD.items() for v in values])
def test_value_at_the_limits_is_kept(name: str, value: Any) -> None:
    assert getattr(LearnerConfig(**{name: value}), name) == value


@pytest.mark.parametrize("name", ENUMS)
def test_choice_is_accepted_as_member_and_as_text(name: str) -> None:
    for member in ENUMS[name]:
        config = LearnerConfig(**{name: member.value})
        assert getattr(config, name) is member
        assert config == LearnerConfig(**{name: member})


@pytest.mark.parametrize("name", ENUMS)
def test_unknown_choice_is_answered_with_all_that_are_known(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        LearnerConfig(**{name: "no such thing"})
    for member in ENUMS[name]:
        assert repr(member.value) in caught.value.allowed


def test_limits_of_a_number_are_said() -> None:
    with pytest.raises(ConfigError, match="an integer from 0 to 10"):
        LearnerConfig(max_conditioning=12)
    with pytest.raises(ConfigError, match=r"an integer from 1$"):
        LearnerConfig(max_sets=0)
    with pytest.raises(ConfigError, match="between 0 and 1"):
        LearnerConfig(alpha=2.0)


def test_config_error_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="alpha = 7"):
        LearnerConfig(alpha=7)


def test_defaults_are_those_of_the_design() -> None:
    config = LearnerConfig()
    assert config.algorithm is Algorithm.SSBN
    assert config.statistic is Statistic.CHI_SQUARE
    assert config.warm is WarmStart.TALLIES_AND_SEPARATORS
    assert (config.alpha, config.max_conditioning, config.max_sets) == (0.01, 3, 200)
    assert config.tally_decay == 0.5
    assert config.deadline_seconds is None
    assert config.max_tests is None


def test_config_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        LearnerConfig().alpha = 0.5  # type: ignore[misc]


def test_knowledge_is_sorted_and_rid_of_repetition() -> None:
    given = Knowledge(
        required=[("b", "c"), ("a", "b"), ("b", "c")], forbidden={("z", "a")}, tiers=[{"b", "a"}]
    )
    assert given.required == (("a", "b"), ("b", "c"))
    assert given.forbidden == (("z", "a"),)
    assert given.tiers == (("a", "b"),)
    assert given == Knowledge([["a", "b"], ["b", "c"]], [("z", "a")], [("a", "b")])


def test_knowledge_may_come_from_iterators() -> None:
    given = Knowledge(iter([("a", "b")]), iter(()), iter([iter("ab")]))
    assert given == Knowledge([("a", "b")], [], [["a", "b"]])


@pytest.mark.parametrize("name", ["required", "forbidden"])
@pytest.mark.parametrize("edge", ["ab", ("a",), ("a", "b", "c"), ()])
def test_edge_that_is_no_pair_is_named_with_its_field(name: str, edge: Any) -> None:
    with pytest.raises(ConfigError, match="pairs") as caught:
        Knowledge(**{name: [edge]})
    assert caught.value.field == name
    assert caught.value.value == edge


@pytest.mark.parametrize("name", ["required", "forbidden"])
@pytest.mark.parametrize("edge", [5, None])
def test_edge_that_is_not_even_a_sequence_is_a_config_error(name: str, edge: Any) -> None:
    with pytest.raises(ConfigError):
        Knowledge(**{name: [edge]})
