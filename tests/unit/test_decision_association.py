"""How strongly two fields go together."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from driftbn.decision.association import Tie, measure_tie, tie_of
from tests import reference_decision as reference

seeds = st.integers(0, 2**32 - 1)

# P(x, y | z) for z = 0 and 1; the ties are of opposite sense.
STRONG = np.array([[[0.4, 0.1], [0.1, 0.4]], [[0.1, 0.5], [0.3, 0.1]]])
SHARES = np.array([0.7, 0.3])


def information(joint: np.ndarray) -> float:
    """Return the conditional mutual information of shares ``[strata, x, y]``, term by term."""
    total = 0.0
    for s, i, j in product(*map(range, joint.shape)):
        if joint[s, i, j] > 0.0:
            margins = joint[s, i].sum() * joint[s, :, j].sum()
            total += joint[s, i, j] * math.log(joint[s, i, j] * joint[s].sum() / margins)
    return total


def draw_table(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    shape = rng.integers(1, 5, 3)
    return rng.poisson(rng.choice([0.0, 0.5, 20.0], shape)).astype(np.int32)


@given(seed=seeds)
@settings(max_examples=60)
def test_information_is_that_of_the_shares(seed: int) -> None:
    table = draw_table(seed)
    tie = tie_of(table)
    assert tie.n_rows == table.sum()
    if tie.n_rows:
        assert tie.raw == pytest.approx(information(table / table.sum()), abs=1e-9)
    g, dof = reference.g_and_dof(table)
    assert 2.0 * tie.n_rows * tie.raw == pytest.approx(g, rel=1e-9, abs=1e-8)
    assert tie.dof == dof


@given(seed=seeds)
@settings(max_examples=30)
def test_spread_is_the_variance_of_what_rows_add(seed: int) -> None:
    table = draw_table(seed) + 1
    terms = []
    for s, i, j in product(*map(range, table.shape)):
        margins = table[s, i].sum() * table[s, :, j].sum()
        terms += [math.log(table[s, i, j] * table[s].sum() / margins)] * int(table[s, i, j])
    assert tie_of(table).spread == pytest.approx(np.var(terms), abs=1e-9)


def test_rows_of_all_windows_are_taken_together() -> None:
    rng = np.random.default_rng(1)
    cards = np.array([2, 3, 4, 2])
    windows = [rng.integers(0, cards[:, None], (4, n)).astype(np.uint8) for n in (70, 1, 300)]
    pooled = np.concatenate(windows, axis=1)
    for pair, members in (((0, 1), ()), ((2, 0), (3,)), ((3, 1), (0, 2))):
        counts = reference.cell_counts(pooled, cards.tolist(), (*members, *pair))
        table = np.array(counts).reshape(-1, cards[pair[0]], cards[pair[1]])
        assert measure_tie(windows, cards, pair, members) == tie_of(table)


def test_no_rows_say_nothing() -> None:
    tie = tie_of(np.zeros((2, 2, 2), np.int32))
    assert tie.p_value() == 1.0
    assert tie.nats == 0.0
    assert (tie.association.low, tie.association.high) == (0.0, math.inf)


def test_nats_are_less_what_independent_fields_show() -> None:
    assert Tie(raw=0.05, spread=0.1, dof=4.0, n_rows=100.0).nats == pytest.approx(0.03)
    assert Tie(raw=0.01, spread=0.1, dof=4.0, n_rows=100.0).nats == 0.0


def test_independent_fields_have_nothing_in_the_mean() -> None:
    rng = np.random.default_rng(2)
    shares = np.outer([0.2, 0.3, 0.5], [0.4, 0.6]).ravel()
    tables = rng.multinomial(500, shares, 500).reshape(500, 1, 3, 2)
    ties = [tie_of(table) for table in tables]
    bias = [tie.raw - tie.dof / (2.0 * tie.n_rows) for tie in ties]
    assert abs(np.mean(bias)) < 3e-4  # the raw mean is 2e-3
    assert np.mean([tie.p_value() < 0.05 for tie in ties]) == pytest.approx(0.05, abs=0.03)


def test_interval_holds_the_truth_in_95_of_100_samples() -> None:
    rng = np.random.default_rng(3)
    joint = SHARES[:, None, None] * STRONG / STRONG.sum((1, 2), keepdims=True)
    truth = information(joint)
    tables = rng.multinomial(800, joint.ravel(), 500).reshape(500, *joint.shape)
    intervals = [tie_of(table).association for table in tables]
    held = np.mean([a.low <= truth <= a.high for a in intervals])
    assert 0.92 <= held <= 0.98
    assert all(a.low <= a.nats <= a.high for a in intervals)
    assert np.mean([a.nats for a in intervals]) == pytest.approx(truth, rel=0.02)


def test_interval_narrows_with_the_rows() -> None:
    table = np.array([[[40, 10], [10, 40]]])
    few, many = tie_of(table).association, tie_of(table * 100).association
    assert (many.high - many.low) * 9 < few.high - few.low
    assert many.nats > few.nats


def test_p_value_is_that_of_g_with_the_design_effect_taken_out() -> None:
    table = np.array([[[30, 20], [20, 30]], [[25, 15], [10, 30]]])
    g, dof = reference.g_and_dof(table)
    tie = tie_of(table)
    assert tie.p_value() == pytest.approx(chi2.sf(g, dof))
    assert tie.p_value(4.0) == pytest.approx(chi2.sf(g / 4.0, dof))
    assert tie.p_value(4.0) > tie.p_value()


def test_a_field_of_one_level_is_tied_to_nothing() -> None:
    tie = tie_of(np.array([[[5, 9]]]))
    assert (tie.raw, tie.dof, tie.p_value()) == (0.0, 0.0, 1.0)
