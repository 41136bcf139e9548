from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbn import datasets
from driftbn.config import LearnerConfig, Statistic
from driftbn.datasets import sample_codes
from driftbn.errors import ConfigError, DataError
from driftbn.learning import ChiSquareTest, learn_structure
from tests import reference
from tests.networks import load

ASIA = sample_codes(load("asia"), 1500, np.random.default_rng(4))
NAMES = load("asia").nodes


@given(
    effects=st.lists(st.floats(1.0, 30.0), min_size=8, max_size=8),
    statistic=st.sampled_from(list(Statistic)),
)
@settings(max_examples=25)
def test_statistic_is_divided_by_what_both_effects_share(
    effects: list[float], statistic: Statistic
) -> None:
    given_effects = dict(zip(NAMES, effects, strict=True))
    plain = ChiSquareTest(ASIA, NAMES, statistic=statistic)
    corrected = ChiSquareTest(ASIA, NAMES, statistic=statistic, design_effects=given_effects)
    for x, y in combinations(range(8), 2):
        a, b = (given_effects[plain.names[i]] for i in (x, y))
        divisor = 1 + math.sqrt((a - 1) * (b - 1))
        members = [z for z in range(8) if z not in (x, y)][:2]
        for conditions in ((), members[:1], members):
            value, dof = plain.statistic(x, y, conditions)
            expected = pytest.approx(value / divisor, rel=1e-12)
            assert corrected.statistic(x, y, conditions) == (expected, dof)


@pytest.mark.slow
def test_decision_is_taken_on_the_divided_statistic() -> None:
    effects = {name: 1.0 + 3.0 * i for i, name in enumerate(NAMES)}
    test = ChiSquareTest(ASIA, NAMES, design_effects=effects)
    codes = ASIA[np.argsort(NAMES)]
    n_changed = 0
    for x, y in combinations(range(8), 2):
        a, b = (effects[test.names[i]] for i in (x, y))
        divisor = 1 + math.sqrt((a - 1) * (b - 1))
        others = [z for z in range(8) if z not in (x, y)]
        for members in ((), *combinations(others, 1), *combinations(others[:4], 2)):
            plain = reference.conditional_test(codes, x, y, members)
            expected = reference.conditional_test(codes, x, y, members, divisor=divisor)
            assert (test.first_separator(x, y, [members]) == 0) is expected.separated
            n_changed += plain.separated != expected.separated
    assert n_changed > 5


@pytest.mark.parametrize("effect", [0.99, 0.0, -3.0, math.nan, math.inf])
def test_effect_that_is_no_number_from_one_is_an_error(effect: float) -> None:
    with pytest.raises(ConfigError, match="design_effects") as caught:
        ChiSquareTest(ASIA, NAMES, design_effects={"smoke": 2.0, "lung": effect})
    assert "lung" in str(caught.value)


@pytest.mark.parametrize(
    ("codes", "names"),
    [
        (np.zeros((2, 5), np.uint8), ["a"]),
        (np.zeros((2, 0), np.uint8), ["a", "b"]),
        (np.zeros(5, np.uint8), ["a"]),
        (np.zeros((2, 5), np.uint8), ["a", "a"]),
    ],
    ids=["too few names", "no rows", "no matrix", "name twice"],
)
def test_codes_that_do_not_fit_their_names_are_an_error(codes: Any, names: list[str]) -> None:
    with pytest.raises(DataError):
        ChiSquareTest(codes, names)


def test_level_decides_between_dependent_and_not() -> None:
    test = ChiSquareTest(ASIA, NAMES)
    for x, y in combinations(range(8), 2):
        p_value = test.p_value(x, y, ())
        if not 1e-12 < p_value < 0.999:
            continue
        for factor, found in ((0.999, 0), (1.001, None)):
            exact = ChiSquareTest(ASIA, NAMES, alpha=p_value * factor)
            assert exact.first_separator(x, y, [()]) == found


def test_statistic_of_the_config_is_used() -> None:
    table = datasets.sample(load("alarm"), 700, 2)
    chi_square = learn_structure(table)
    g = learn_structure(table, config=LearnerConfig(statistic=Statistic.G))
    assert dict(g.separators) != dict(chi_square.separators)
