"""Rows that come together vary more than independent ones: by how much is measured."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, f

from driftbn.decision.dependence import (
    Dependence,
    block_counts,
    corrected_p_value,
    design_effects,
    measure,
)
from driftbn.learning import ChiSquareTest
from tests import reference_decision as reference

CARDS = np.array([[2], [3], [5], [2], [9]])


def draw_rows(n_rows: int, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, CARDS, (5, n_rows)).astype(np.uint8)


def mean_effects(windows: list[np.ndarray]) -> np.ndarray:
    names = "abcdefgh"
    return np.mean([design_effects(ChiSquareTest(w, names[: len(w)])) for w in windows], axis=0)


def test_few_independent_fields_are_taken_for_dependent() -> None:
    rng = np.random.default_rng(1)
    effects = np.array(
        [design_effects(ChiSquareTest(draw_rows(5000, rng), "abcde")) for _ in range(80)]
    )
    assert np.all(effects >= 1.0)
    assert np.mean(effects > 1.0) < 0.08
    assert np.mean(effects) < 1.03


@pytest.mark.parametrize("copies", [2, 4, 10])
def test_repeated_rows_count_as_often_as_they_are_repeated(copies: int) -> None:
    rng = np.random.default_rng(2)
    windows = [np.repeat(draw_rows(5000 // copies, rng), copies, axis=1) for _ in range(20)]
    assert mean_effects(windows) == pytest.approx([copies] * 5, rel=0.15)


def test_rows_repeated_across_blocks_are_seen_by_longer_blocks() -> None:
    rng = np.random.default_rng(3)
    windows = [np.repeat(draw_rows(500, rng), 50, axis=1) for _ in range(10)]
    assert mean_effects(windows) == pytest.approx([50.0] * 5, rel=0.2)


@pytest.mark.parametrize("length", [2, 5])
def test_only_fields_fixed_within_a_session_depend_on_it(length: int) -> None:
    """Sessions of geometric length with mean m make counts 2 m - 1 times as variable."""
    rng = np.random.default_rng(4)
    windows = []
    for _ in range(20):
        sessions = rng.geometric(1.0 / length, 5000)
        rows = np.repeat(np.arange(5000), sessions)[:5000]
        codes = draw_rows(5000, rng)
        codes[:2] = codes[:2, rows]
        windows.append(codes)
    effects = mean_effects(windows)
    assert effects[:2] == pytest.approx([2 * length - 1] * 2, rel=0.15)
    assert np.all(effects[2:] < 1.1)


def test_a_field_of_one_level_has_no_effect() -> None:
    bursts = np.repeat(np.random.default_rng(8).integers(0, 2, 100), 64)
    codes = np.stack([np.zeros(6400), bursts]).astype(np.uint8)
    effects = design_effects(ChiSquareTest(codes, "ab"))
    assert effects[0] == 1.0
    assert effects[1] > 20.0


@pytest.mark.parametrize("n_rows", [1, 5, 63, 64, 65, 130])
def test_few_rows_give_finite_effects(n_rows: int) -> None:
    codes = draw_rows(n_rows, np.random.default_rng(5))
    effects = design_effects(ChiSquareTest(codes, "abcde"))
    assert effects.shape == (5,)
    assert np.all((effects >= 1.0) & np.isfinite(effects))


def test_blocks_hold_64_rows_of_their_window() -> None:
    rng = np.random.default_rng(6)
    windows = [rng.integers(-1, 4, n) for n in (64, 1, 200)]
    found = block_counts(windows, 4)
    assert [len(blocks) for blocks in found] == [1, 1, 4]
    for cells, blocks in zip(windows, found, strict=True):
        for b, counts in enumerate(blocks):
            rows = cells[64 * b : 64 * (b + 1)].tolist()
            assert counts.tolist() == [rows.count(cell) for cell in range(4)]


@given(
    seed=st.integers(0, 2**32 - 1), copies=st.sampled_from([1, 3, 40]), n_cells=st.integers(1, 6)
)
@settings(max_examples=25, deadline=None)
def test_dependence_is_that_of_the_rows_added_up(seed: int, copies: int, n_cells: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(10, 40, 3) * 20
    rows = [np.repeat(rng.normal(size=(n, n_cells)), copies, axis=0)[:n] for n in sizes]
    blocks = [np.add.reduceat(u, np.arange(0, len(u), 64)) for u in rows]
    expected = reference.effect_of_blocks(rows)
    found = measure(blocks, sum(float((u * u).sum()) for u in rows))
    assert (found.effect, found.concentration, found.blocks_dof) == pytest.approx(expected)


def test_scores_in_one_direction_are_concentrated() -> None:
    """All cells move together, so that many of them are worth one."""
    rng = np.random.default_rng(7)
    spread = rng.normal(size=(400, 6)) / np.sqrt(400)
    along = np.repeat(rng.normal(size=(400, 1)), 6, axis=1) / np.sqrt(400)
    assert measure([spread], 6.0).concentration == pytest.approx(1.0, abs=0.1)
    assert measure([along], 6.0).concentration == pytest.approx(6.0, rel=0.1)


def test_blocks_without_spread_say_nothing() -> None:
    found = measure([np.zeros((30, 4)), np.zeros((10, 4))], 0.0)
    assert found == Dependence(effect=1.0, concentration=1.0, blocks_dof=38)


def test_a_corrected_p_value_is_the_tail_of_f() -> None:
    dependence = Dependence(effect=2.0, concentration=1.5, blocks_dof=70.0)
    found = corrected_p_value(30.0, 4.0, 9.0, dependence)
    assert found == pytest.approx(f.sf(30.0 / 8.0, 2.0 * 16.0 / (9.0 * 1.5), 70.0))
    assert corrected_p_value(-1e-14, 4.0, 9.0, dependence) == 1.0


def test_without_dependence_and_with_many_blocks_it_is_chi_square() -> None:
    dependence = Dependence(effect=1.0, concentration=1.0, blocks_dof=1e9)
    assert corrected_p_value(12.0, 3.0, 6.0, dependence) == pytest.approx(chi2.sf(12.0, 3), 1e-5)


@pytest.mark.parametrize("larger", ["effect", "concentration"])
def test_more_dependence_gives_a_larger_p_value(larger: str) -> None:
    plain = {"effect": 1.0, "concentration": 1.0, "blocks_dof": 80.0}
    p, raised = (
        corrected_p_value(20.0, 4.0, 8.0, Dependence(**values))
        for values in (plain, {**plain, larger: 2.0})
    )
    assert p < raised
