"""Rows that come together vary more than independent ones: by how much is measured."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, f

from driftbn.decision.dependence import (
    BlockScores,
    Dependence,
    DependenceOfGroups,
    corrected_p_value,
    design_effects,
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


class RowScores(BlockScores):
    """Scores of rows ``[rows, cells]`` of some windows, added up."""

    def __init__(self, windows: list[np.ndarray]) -> None:
        expected = sum(float((u * u).sum()) for u in windows)
        super().__init__([len(u) for u in windows], expected, sum(len(u) for u in windows))
        self.windows = windows
        self.n_asked = 0

    def _squares(self, length: int) -> float:
        return float((self._added(length) ** 2).sum())

    def scores(self, length: int) -> np.ndarray:
        self.n_asked += 1
        return self._added(length)

    def _added(self, length: int) -> np.ndarray:
        return np.concatenate(
            [np.add.reduceat(u, np.arange(0, len(u), length)) for u in self.windows]
        )


def measure(older: list[np.ndarray], newer: list[np.ndarray]) -> Dependence:
    measured = DependenceOfGroups(RowScores(older), RowScores(newer))
    assert measured.effect == measured.dependence.effect
    return measured.dependence


@given(
    seed=st.integers(0, 2**32 - 1),
    copies=st.tuples(st.sampled_from([1, 3, 40]), st.sampled_from([1, 3, 40])),
    n_cells=st.integers(1, 6),
)
@settings(max_examples=40)
def test_dependence_is_that_of_the_rows_added_up(
    seed: int, copies: tuple[int, int], n_cells: int
) -> None:
    rng = np.random.default_rng(seed)
    groups = [
        [
            np.repeat(rng.normal(size=(n, n_cells)), repeated, axis=0)[:n]
            for n in rng.integers(10, 40, n_windows) * 20
        ]
        for n_windows, repeated in zip((3, 1), copies, strict=True)
    ]
    sizes = [sum(len(u) for u in group) for group in groups]
    expected = reference.effect_of_groups(*groups, *sizes)
    found = measure(*groups)
    assert astuple(found) == pytest.approx(expected)


def repeated_rows(copies: int, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Draw scores of rows whose squares add up to about 3."""
    drawn = rng.normal(size=(n_rows // copies, 3)) / np.sqrt(n_rows)
    return np.repeat(drawn, copies, axis=0)


def test_burstier_new_rows_count_by_the_size_of_the_old_ones() -> None:
    """Nine windows of independent rows say little of one in which each comes four times."""
    rng = np.random.default_rng(9)
    old = [repeated_rows(1, 6400, rng) for _ in range(9)]
    new = [repeated_rows(4, 6400, rng)]
    found = measure(old, new)
    assert found.effect == pytest.approx(0.1 * 1.0 + 0.9 * 4.0, rel=0.2)
    assert found.blocks_dof < 3.5 * 100


def test_less_bursty_new_rows_are_taken_together_with_the_old_ones() -> None:
    rng = np.random.default_rng(10)
    old = [repeated_rows(4, 6400, rng) for _ in range(9)]
    new = [repeated_rows(1, 6400, rng)]
    found = measure(old, new)
    assert found.effect == pytest.approx(0.9 * 4.0 + 0.1 * 1.0, rel=0.2)


def test_independent_rows_are_seldom_taken_for_burstier_than_before() -> None:
    rng = np.random.default_rng(11)
    effects = [
        measure(
            [repeated_rows(1, 6400, rng) for _ in range(4)],
            [repeated_rows(1, 6400, rng)],
        )
        for _ in range(200)
    ]
    assert np.mean([found.blocks_dof < 3.5 * 100 for found in effects]) < 0.02
    assert np.mean([found.effect for found in effects]) < 1.05


def test_a_group_without_spread_is_taken_together_with_the_other() -> None:
    constant = [np.zeros((1920, 3))]
    varied = [repeated_rows(4, 6400, np.random.default_rng(12))]
    assert measure(constant, varied).effect == measure(varied, constant).effect > 3.0


def test_scores_in_one_direction_are_concentrated() -> None:
    """All cells move together, so that many of them are worth one."""
    rng = np.random.default_rng(7)
    nothing = [np.zeros((64, 6))]
    spread = rng.normal(size=(400 * 64, 6)) / np.sqrt(400 * 64)
    along = np.repeat(spread[:, :1], 6, axis=1)
    for scores, expected in ((spread, 1.0), (along, 6.0)):
        assert measure([scores], nothing).concentration == pytest.approx(expected, rel=0.1)


def test_blocks_without_spread_say_nothing() -> None:
    groups = ([np.zeros((64 * n, 4))] for n in (30, 10))
    assert measure(*groups) == Dependence(effect=1.0, concentration=1.0, blocks_dof=38)


def test_concentration_is_measured_only_where_a_p_value_may_matter() -> None:
    rng = np.random.default_rng(13)
    groups = [RowScores([repeated_rows(4, 6400, rng)]) for _ in range(2)]
    measured = DependenceOfGroups(*groups)
    plain = Dependence(measured.effect, 1.0, measured.dependence.blocks_dof)
    asked = groups[0].n_asked
    large, effect = measured.p_value(12.0, 3.0, 6.0, most=0.01)
    assert effect <= measured.effect
    assert large >= 0.01
    assert large <= 1.2 * corrected_p_value(12.0, 3.0, 6.0, plain)
    assert groups[0].n_asked == asked
    small, effect = measured.p_value(120.0, 3.0, 6.0, most=0.01)
    assert effect == measured.effect
    assert small == corrected_p_value(120.0, 3.0, 6.0, measured.dependence) < 0.01


def alternating(n_rows: int, rng: np.random.Generator, turns: int = 64) -> np.ndarray:
    """Draw scores whose sign turns every so many rows: blocks twice as long add up to little."""
    signs = np.where(np.arange(n_rows) // turns % 2 == 0, 1.0, -1.0)
    return (signs[:, None] + 0.3 * rng.normal(size=(n_rows, 1))) / np.sqrt(n_rows)


def test_older_blocks_hide_nothing_that_longer_blocks_would_show() -> None:
    """Neighbours that go opposite ways make blocks of 64 rows vary, longer ones not at all."""
    rng = np.random.default_rng(14)
    measured = DependenceOfGroups(
        RowScores([alternating(1280, rng) for _ in range(8)]), RowScores([alternating(1280, rng)])
    )
    assert measured.effect < 1.5
    p, effect = measured.p_value(40.0, 1.0, 2.0, most=1e-3)
    assert p == corrected_p_value(40.0, 1.0, 2.0, measured.dependence) < 1e-6
    assert effect == measured.effect


def test_newer_rows_that_ask_for_longer_blocks_hide_nothing_either() -> None:
    """Older blocks are just long enough by themselves, but not so with bursty ones beside them."""
    rng = np.random.default_rng(15)
    plain = [repeated_rows(1, 1280, rng)[:, :1] for _ in range(2)]
    mixed = [np.where(rng.random((1280, 1)) < 0.45, alternating(1280, rng), u) for u in plain]
    older, newer = RowScores(mixed), RowScores([alternating(1280, rng)])
    measured = DependenceOfGroups(older, newer)
    assert older.squares(64) / (older.expected + newer.expected) > 3.0
    assert measured.effect < 2.0
    p, _ = measured.p_value(40.0, 1.0, 2.0, most=1e-3)
    assert p == corrected_p_value(40.0, 1.0, 2.0, measured.dependence) < 1e-4


@given(
    seed=st.integers(0, 2**32 - 1),
    kinds=st.lists(st.sampled_from(["plain", "bursts", "turns"]), min_size=2, max_size=6),
    value=st.floats(1.0, 60.0),
    most=st.sampled_from([1e-6, 1e-3, 0.05, 0.1]),
)
@settings(max_examples=80)
def test_a_p_value_that_is_left_early_does_not_reject(
    seed: int, kinds: list[str], value: float, most: float
) -> None:
    rng = np.random.default_rng(seed)
    draw = {
        "plain": lambda: repeated_rows(1, 1280, rng)[:, :1],
        "bursts": lambda: repeated_rows(int(rng.choice([4, 16, 64])), 1280, rng)[:, :1],
        "turns": lambda: alternating(1280, rng, int(rng.choice([16, 64, 128, 256]))),
    }
    windows = [draw[kind]() * rng.choice([0.1, 1.0, 2.0]) for kind in kinds]
    measured = DependenceOfGroups(RowScores(windows[:-1]), RowScores(windows[-1:]))
    p, effect = measured.p_value(value, 2.0, 4.0, most)
    exact = corrected_p_value(value, 2.0, 4.0, measured.dependence)
    assert p == exact or min(p, exact) > most
    assert effect <= measured.effect * (1.0 + 1e-12)


def test_few_newer_rows_are_not_looked_at_where_older_ones_suffice() -> None:
    rng = np.random.default_rng(16)
    older = RowScores([repeated_rows(4, 1280, rng) for _ in range(8)])
    newer = RowScores([repeated_rows(4, 1280, rng)])
    newer.squares = lambda length: pytest.fail("asked")  # type: ignore[method-assign]
    p, effect = DependenceOfGroups(older, newer).p_value(12.0, 3.0, 6.0, most=0.01)
    assert p > 0.01
    assert effect == pytest.approx(4.0 * 8 / 9, rel=0.2)


@given(
    statistic=st.floats(0.5, 500.0),
    mean=st.floats(1.0, 50.0),
    concentration=st.floats(1.0, 20.0),
    n_tests=st.integers(8, 20_000),
)
@settings(max_examples=200)
def test_concentration_hides_nothing_that_was_not_hidden_before(
    statistic: float, mean: float, concentration: float, n_tests: int
) -> None:
    """A p-value that is 1 when corrected for all tests without it is so with it, or nearly."""
    without = corrected_p_value(statistic, mean, 2.0 * mean, Dependence(2.0, 1.0, 700.0 * mean))
    dof = 700.0 * max(1.0, mean / concentration)
    p = corrected_p_value(statistic, mean, 2.0 * mean, Dependence(2.0, concentration, dof))
    if without * n_tests >= 1.0:
        assert p * n_tests >= 0.5


def test_a_corrected_p_value_is_the_tail_of_f() -> None:
    dependence = Dependence(effect=2.0, concentration=1.5, blocks_dof=70.0)
    found = corrected_p_value(30.0, 4.0, 9.0, dependence)
    assert found == pytest.approx(f.sf(30.0 / 8.0, 2.0 * 16.0 / (9.0 * 1.5), 70.0))
    assert corrected_p_value(-1e-14, 4.0, 9.0, dependence) == 1.0


def test_a_test_keeps_the_directions_that_the_scores_have() -> None:
    """Their squares may add up to far more than its degrees of freedom, of which none is lost."""
    for concentration, directions, left in ((60.0, 110.0, 4.0), (60.0, 3.0, 3.0), (2.0, 1.0, 2.0)):
        dependence = Dependence(1.0, concentration, 700.0 * directions, directions)
        found = corrected_p_value(35.0, 4.0, 8.0, dependence)
        assert found == pytest.approx(f.sf(35.0 / 4.0, left, 700.0 * directions))


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
