"""Odd tables and settings get an error of our own or a documented answer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from driftbn import ConfigError, LearnerConfig, learn_structure
from tests.encoded import ExclusionReason

RNG = np.random.default_rng(11)
COIN = RNG.integers(0, 2, 400)
COPY = np.where(RNG.random(400) < 0.05, 1 - COIN, COIN)
OTHER = RNG.integers(0, 3, 400)


def with_one_edge(**columns: Any) -> dict[str, Any]:
    return {"coin": COIN, "copy": COPY, "other": OTHER, **columns}


def excluded(learned: Any) -> dict[str, ExclusionReason]:
    return {column.name: column.reason for column in learned.schema.excluded}


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ({"a": [1], "b": ["x"]}, ExclusionReason.CONSTANT),
        ({"a": [1] * 50, "b": ["x"] * 50}, ExclusionReason.CONSTANT),
        ({"a": [None] * 50, "b": [math.nan] * 50}, ExclusionReason.ALL_MISSING),
        ({"a": [math.inf] * 9, "b": [-math.inf] * 9}, ExclusionReason.CONSTANT),
    ],
    ids=["one row", "constant", "missing", "infinite"],
)
@pytest.mark.parametrize("algorithm", ["pc", "pc-original", "fsbn", "ssbn"])
def test_table_that_tells_nothing_gives_an_empty_graph(
    table: dict[str, Any], reason: ExclusionReason, algorithm: str
) -> None:
    learned = learn_structure(table, algorithm)
    assert learned.graph.nodes == ()
    assert learned.dag.edges == ()
    assert learned.cost.n_tests == 0
    assert set(excluded(learned).values()) == {reason}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('a "quoted" name', "it's"),
        ("two\nlines", "tab\tand\rreturn"),
        ("żółć", "名前"),
        ("a->b", "a--b; }"),
        (" ", "  "),
    ],
)
def test_odd_names_are_kept_as_they_are(first: str, second: str) -> None:
    learned = learn_structure({first: COIN, second: COPY, "other": OTHER})
    assert learned.graph.skeleton == {tuple(sorted((first, second)))}
    assert set(learned.graph.nodes) == {first, second, "other"}
    assert (first, "other") in learned.separators


def test_bad_setting_is_told_before_the_table_is_read() -> None:
    with pytest.raises(ConfigError):
        learn_structure({"a": []}, alpha=3.0)


def test_arguments_go_before_the_config() -> None:
    config = LearnerConfig(algorithm="pc", alpha=0.5)
    table = with_one_edge()
    by_argument = learn_structure(table, "ssbn", 0.01, config=config)
    by_config = learn_structure(table, config=LearnerConfig(algorithm="ssbn", alpha=0.01))
    assert by_argument.graph == by_config.graph
    assert by_argument.cost.tests == by_config.cost.tests


@pytest.mark.parametrize("max_conditioning", [0, 1, 9, 10])
def test_table_smaller_than_the_largest_set_is_no_problem(max_conditioning: int) -> None:
    config = LearnerConfig(max_conditioning=max_conditioning)
    learned = learn_structure(with_one_edge(), config=config)
    assert learned.graph.skeleton == {("coin", "copy")}
