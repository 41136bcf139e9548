"""Rows that come together vary more than independent ones: by how much is measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import f

from driftbn.drift import dispersion
from driftbn.drift.dispersion import (
    LARGE_EFFECT,
    MIN_BACKING,
    BlockScores,
    BlockSums,
    CombinedSums,
    Dispersion,
    GroupRows,
    PairScores,
    StateRows,
    TwoSampleDispersion,
    corrected_p_value,
    corrected_state_test,
    pair_dispersion,
)
from driftbn.kernels.deviance import FG, KF, KG, KK, KN, N_MOMENTS
from driftbn.learning import PackedTable
from driftbn.learning.independence import design_effects
from tests import reference_decision as reference

CARDS = np.array([[2], [3], [5], [2], [9]])


def draw_rows(n_rows: int, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, CARDS, (5, n_rows)).astype(np.uint8)


def mean_effects(windows: list[np.ndarray]) -> np.ndarray:
    names = "abcdefgh"
    return np.mean([design_effects(PackedTable(w, names[: len(w)])) for w in windows], axis=0)


def test_few_independent_fields_are_taken_for_dependent() -> None:
    rng = np.random.default_rng(1)
    effects = np.array(
        [design_effects(PackedTable(draw_rows(5000, rng), "abcde")) for _ in range(80)]
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
    effects = design_effects(PackedTable(codes, "ab"))
    assert effects[0] == 1.0
    assert effects[1] > 20.0


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


def measure(older: list[np.ndarray], newer: list[np.ndarray]) -> Dispersion:
    measured = TwoSampleDispersion(RowScores(older), RowScores(newer))
    assert measured.effect == measured.dispersion.effect
    return measured.dispersion


@given(
    seed=st.integers(0, 2**32 - 1),
    copies=st.tuples(st.sampled_from([1, 3, 40]), st.sampled_from([1, 3, 40])),
    n_cells=st.integers(1, 6),
)
@settings(max_examples=40)
def test_dispersion_is_that_of_the_rows_added_up(
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


def test_more_overdispersed_newer_rows_count_by_the_size_of_the_older_ones() -> None:
    """Nine windows of independent rows say little of one in which each comes four times."""
    rng = np.random.default_rng(9)
    old = [repeated_rows(1, 6400, rng) for _ in range(9)]
    new = [repeated_rows(4, 6400, rng)]
    found = measure(old, new)
    assert found.effect == pytest.approx(0.1 * 1.0 + 0.9 * 4.0, rel=0.2)
    assert found.blocks_dof < 3.5 * 100


def test_less_overdispersed_newer_rows_are_pooled_with_the_older_ones() -> None:
    rng = np.random.default_rng(10)
    old = [repeated_rows(4, 6400, rng) for _ in range(9)]
    new = [repeated_rows(1, 6400, rng)]
    found = measure(old, new)
    assert found.effect == pytest.approx(0.9 * 4.0 + 0.1 * 1.0, rel=0.2)


def test_independent_rows_are_seldom_taken_for_more_overdispersed_than_before() -> None:
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


def test_a_group_without_variation_is_pooled_with_the_other() -> None:
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


def test_blocks_without_variation_say_nothing() -> None:
    groups = ([np.zeros((64 * n, 4))] for n in (30, 10))
    assert measure(*groups) == Dispersion(effect=1.0, concentration=1.0, blocks_dof=38)


def test_concentration_is_measured_only_where_a_p_value_may_matter() -> None:
    rng = np.random.default_rng(13)
    groups = [RowScores([repeated_rows(4, 6400, rng)]) for _ in range(2)]
    measured = TwoSampleDispersion(*groups)
    plain = Dispersion(measured.effect, 1.0, measured.dispersion.blocks_dof)
    asked = groups[0].n_asked
    large, effect = measured.p_value((12.0, 3.0, 6.0), exact_to=0.01)
    assert effect <= measured.effect
    assert large >= 0.01
    assert large <= 1.2 * corrected_p_value(12.0, 3.0, 6.0, plain)
    assert groups[0].n_asked == asked
    small, effect = measured.p_value((120.0, 3.0, 6.0), exact_to=0.01)
    assert effect == measured.effect
    assert small == corrected_p_value(120.0, 3.0, 6.0, measured.dispersion) < 0.01


def alternating(n_rows: int, rng: np.random.Generator, turns: int = 64) -> np.ndarray:
    """Draw scores whose sign turns every so many rows: blocks twice as long add up to little."""
    signs = np.where(np.arange(n_rows) // turns % 2 == 0, 1.0, -1.0)
    return (signs[:, None] + 0.3 * rng.normal(size=(n_rows, 1))) / np.sqrt(n_rows)


def test_older_blocks_hide_nothing_that_longer_blocks_would_show() -> None:
    """Neighbours that go opposite ways make blocks of 64 rows vary, longer ones not at all."""
    rng = np.random.default_rng(14)
    measured = TwoSampleDispersion(
        RowScores([alternating(1280, rng) for _ in range(8)]), RowScores([alternating(1280, rng)])
    )
    assert measured.effect < 1.5
    p, effect = measured.p_value((40.0, 1.0, 2.0), exact_to=1e-3)
    assert p == corrected_p_value(40.0, 1.0, 2.0, measured.dispersion) < 1e-6
    assert effect == measured.effect


def test_newer_rows_that_ask_for_longer_blocks_hide_nothing_either() -> None:
    """Older blocks are just long enough by themselves, but not so with bursty ones beside them."""
    rng = np.random.default_rng(15)
    plain = [repeated_rows(1, 1280, rng)[:, :1] for _ in range(2)]
    mixed = [np.where(rng.random((1280, 1)) < 0.45, alternating(1280, rng), u) for u in plain]
    older, newer = RowScores(mixed), RowScores([alternating(1280, rng)])
    measured = TwoSampleDispersion(older, newer)
    assert older.squares(64) / (older.expected + newer.expected) > 3.0
    assert measured.effect < 2.0
    p, _ = measured.p_value((40.0, 1.0, 2.0), exact_to=1e-3)
    assert p == corrected_p_value(40.0, 1.0, 2.0, measured.dispersion) < 1e-4


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
    measured = TwoSampleDispersion(RowScores(windows[:-1]), RowScores(windows[-1:]))
    p, effect = measured.p_value((value, 2.0, 4.0), most)
    exact = corrected_p_value(value, 2.0, 4.0, measured.dispersion)
    assert p == exact or min(p, exact) > most
    assert effect <= measured.effect * (1.0 + 1e-12)


def test_few_newer_rows_are_not_looked_at_where_older_ones_suffice() -> None:
    rng = np.random.default_rng(16)
    older = RowScores([repeated_rows(4, 1280, rng) for _ in range(8)])
    newer = RowScores([repeated_rows(4, 1280, rng)])
    newer.squares = lambda length: pytest.fail("asked")  # type: ignore[method-assign]
    p, effect = TwoSampleDispersion(older, newer).p_value((12.0, 3.0, 6.0), exact_to=0.01)
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
    without = corrected_p_value(statistic, mean, 2.0 * mean, Dispersion(2.0, 1.0, 700.0 * mean))
    dof = 700.0 * max(1.0, mean / concentration)
    p = corrected_p_value(statistic, mean, 2.0 * mean, Dispersion(2.0, concentration, dof))
    if without * n_tests >= 1.0:
        assert p * n_tests >= 0.5


def test_a_corrected_p_value_is_the_tail_of_f() -> None:
    dispersion = Dispersion(effect=2.0, concentration=1.5, blocks_dof=70.0)
    found = corrected_p_value(30.0, 4.0, 9.0, dispersion)
    assert found == pytest.approx(f.sf(30.0 / 8.0, 2.0 * 16.0 / (9.0 * 1.5), 70.0))
    assert corrected_p_value(-1e-14, 4.0, 9.0, dispersion) == 1.0


def test_a_test_keeps_the_directions_that_the_scores_have() -> None:
    """Their squares may add up to far more than its degrees of freedom, of which none is lost."""
    for concentration, directions, left in ((60.0, 110.0, 4.0), (60.0, 3.0, 3.0), (2.0, 1.0, 2.0)):
        dispersion = Dispersion(1.0, concentration, 700.0 * directions, directions)
        found = corrected_p_value(35.0, 4.0, 8.0, dispersion)
        assert found == pytest.approx(f.sf(35.0 / 4.0, left, 700.0 * directions))


# Sums over blocks of rows: kept, added to and combined, they are those summed up at once.

Asked = tuple[tuple[int, ...], int]  # members and length

SUM_CARDS = np.array([3, 2, 4, 1, 2])
SIZES = (150, 64, 1, 0, 200, 37)  # of windows: none, shorter than a block, and not whole blocks
ASKED: tuple[Asked, ...] = (
    ((0, 1), 64),
    ((0, 1), 128),
    ((1, 0), 64),
    ((2, 0, 1), 64),
    ((4, 2, 1, 0), 64),
    ((3, 0), 64),
    ((3, 1, 2), 128),
    ((0, 3), 256),
)

seeds = st.integers(0, 2**32 - 1)
lengths = st.sampled_from([1, 5, 64, 256])


def windows_of_three(
    seed: int, sizes: Sequence[int] = SIZES, cards: np.ndarray = SUM_CARDS
) -> list[np.ndarray]:
    """Draw rows; the last level of the third field does not occur."""
    rng = np.random.default_rng(seed)
    met = cards.copy()
    met[2] -= 1
    return [rng.integers(0, met[:, None], (len(cards), n)).astype(np.uint8) for n in sizes]


def moments_of(windows: Sequence[np.ndarray], asked: Asked, cards: np.ndarray) -> np.ndarray:
    """Sum up the products of what each block has, with tables of whole blocks."""
    members, length = asked
    of_members = tuple(cards[list(members)].tolist())
    shape = (int(np.prod(of_members[:-2], dtype=int)), *of_members[-2:])
    out = np.zeros((*shape, N_MOMENTS), np.int64)
    for codes in windows:
        for begin in range(0, codes.shape[1], length):
            k = np.zeros(of_members, np.int64)
            np.add.at(k, tuple(codes[v, begin : begin + length] for v in members), 1)
            k = k.reshape(shape)
            f, g, n = k.sum(2, keepdims=True), k.sum(1, keepdims=True), k.sum((1, 2), keepdims=True)
            for moment, product in (
                (KK, k * k),
                (KF, k * f),
                (KG, k * g),
                (KN, k * n),
                (FG, f * g),
            ):
                out[..., moment] += product
    return out.reshape(-1, N_MOMENTS)


def check(sums: BlockSums, windows: Sequence[np.ndarray], asked: Sequence[Asked] = ASKED) -> None:
    for members, length in asked:
        expected = moments_of(windows, (members, length), sums.cards)
        np.testing.assert_array_equal(sums.of_pair(members, length), expected)


@given(seed=seeds, sizes=st.lists(st.integers(0, 90), max_size=4), length=lengths, data=st.data())
@settings(max_examples=40)
def test_moments_are_those_of_the_rows(
    seed: int, sizes: list[int], length: int, data: st.DataObject
) -> None:
    windows = windows_of_three(seed, sizes)
    order = data.draw(st.permutations(range(5)))
    members = tuple(order[: data.draw(st.integers(2, 5))])
    check(BlockSums(windows, SUM_CARDS), windows, [(members, length)])


def test_products_of_a_long_block_do_not_overflow() -> None:
    n_rows = 100_000
    sums = BlockSums([np.zeros((2, n_rows), np.uint8)], np.array([1, 2]))
    assert sums.of_pair((0, 1), n_rows).tolist() == [[n_rows**2] * N_MOMENTS, [0] * N_MOMENTS]


def test_a_field_with_all_levels_is_numbered_as_others() -> None:
    codes = np.array([[0, 251, 251, 100], [0, 1, 1, 1], [251, 251, 0, 7]], np.uint8)
    check(BlockSums([codes], np.array([252, 2, 252])), [codes], [((0, 1, 2), 64)])


@given(seed=seeds, sizes=st.lists(st.integers(0, 90), max_size=4), data=st.data())
@settings(max_examples=40)
def test_cells_are_the_joint_codes_of_all_rows(
    seed: int, sizes: list[int], data: st.DataObject
) -> None:
    windows = windows_of_three(seed, sizes)
    members = tuple(data.draw(st.permutations(range(5)))[: data.draw(st.integers(0, 5))])
    sums = BlockSums(windows, SUM_CARDS)
    expected = []
    for codes in windows:
        for row in codes.T.tolist():
            number = 0
            for v in members:
                number = number * int(SUM_CARDS[v]) + row[v]
            expected.append(number)
    assert sums.cells(members).tolist() == expected
    assert sums.n_rows == tuple(sizes)


@given(
    seed=seeds,
    steps=st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.booleans()), max_size=7),
    n_kept=st.sampled_from([0, 1, 12, 20, 60, 10**6]),
)
@settings(max_examples=60)
def test_sums_are_those_of_their_windows_whichever_they_continue(
    seed: int, steps: list[tuple[int, bool, bool]], n_kept: int
) -> None:
    """Windows and levels are added to sums made before, any of which others may have continued."""
    rng, windows = np.random.default_rng(seed), windows_of_three(seed)
    known = [BlockSums([], SUM_CARDS)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispersion, "KEPT_CELLS", n_kept)
        for place, more_levels, others in steps:
            earlier = known[place % len(known)]
            cards = earlier.cards + more_levels * np.array([1, 0, 5, 2, 0])
            kept = earlier.windows[others:]
            new = windows[rng.integers(len(windows)) :][: rng.integers(3)]
            known.append(BlockSums([*kept, *new], cards, earlier))
            for sums in known:
                check(sums, sums.windows, [asked for asked in ASKED if rng.random() < 0.4])


def count_sums(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """List the rows of each window that is summed up from now on."""
    summed: list[int] = []
    add = dispersion.add_pair_moments

    def adding(codes: np.ndarray, *asked: object) -> None:
        summed.append(codes.shape[1])
        add(codes, *asked)  # type: ignore[arg-type]

    monkeypatch.setattr(dispersion, "add_pair_moments", adding)
    return summed


def test_a_window_is_summed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = windows_of_three(2)
    sums = BlockSums(windows[:4], SUM_CARDS)
    summed = count_sums(monkeypatch)
    for _ in range(2):
        sums.of_pair((0, 1), 64)
    assert summed == list(SIZES[:4])
    later = BlockSums(windows, SUM_CARDS, sums)
    for _ in range(2):
        later.of_pair((0, 1), 64)
    assert summed == list(SIZES)


def test_those_asked_for_longest_ago_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of six, two and eight cells: the first two fit, all three do not."""
    monkeypatch.setattr(dispersion, "KEPT_CELLS", 10)
    sums = BlockSums(windows_of_three(11, [70]), SUM_CARDS)
    summed = count_sums(monkeypatch)
    newly_summed = []
    for members in ((0, 1), (3, 4), (0, 1), (2, 1), (3, 4), (2, 1), (0, 1)):
        before = len(summed)
        sums.of_pair(members, 64)
        newly_summed.append(len(summed) > before)
    assert newly_summed == [True, True, False, True, True, False, True]


@given(seed=seeds, data=st.data())
@settings(max_examples=30)
def test_combined_sums_are_those_of_exactly_their_windows(seed: int, data: st.DataObject) -> None:
    """Windows in runs, of which the last ones are taken out again, some one by one."""
    windows = windows_of_three(seed)
    cut = data.draw(st.integers(0, len(windows)))
    n_taken = data.draw(st.integers(0, len(windows)))
    runs = [part for part in (windows[:cut], windows[cut:]) if part]
    added = [BlockSums(run, SUM_CARDS) for run in runs]
    left = windows[: len(windows) - n_taken]
    taken = [BlockSums([codes], SUM_CARDS) for codes in windows[len(left) :]]
    combined = CombinedSums(left, SUM_CARDS, added, taken)
    for _ in range(2):
        check(combined, left)
    for sums, run in zip(added, runs, strict=True):
        check(sums, run)
    assert combined.n_rows == tuple(codes.shape[1] for codes in left)
    assert combined.cells((0, 2)).tolist() == BlockSums(left, SUM_CARDS).cells((0, 2)).tolist()


def test_combined_sums_stay_true_while_their_parts_grow() -> None:
    windows = windows_of_three(12)
    pool = BlockSums(windows[:3], SUM_CARDS)
    newest = BlockSums([windows[2]], SUM_CARDS)
    combined = CombinedSums(windows[:2], SUM_CARDS, [pool], [newest])
    held = combined.of_pair((0, 1), 64)
    grown = BlockSums(windows, SUM_CARDS, pool)
    check(grown, windows)
    check(CombinedSums(windows[:2], SUM_CARDS, [combined]), windows[:2])
    check(combined, windows[:2])
    np.testing.assert_array_equal(held, moments_of(windows[:2], ((0, 1), 64), SUM_CARDS))


# Dispersion of the association of two fields given others.

SHAPES = st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(1, 4))


def bursty_windows(
    shape: tuple[int, int, int], sizes: list[int], copies: int, rng: np.random.Generator
) -> list[np.ndarray]:
    weights = rng.dirichlet(np.full(int(np.prod(shape)), 0.7))
    drawn = [rng.choice(weights.size, -(-n // copies), p=weights) for n in sizes]
    return [np.repeat(cells, copies)[:n] for cells, n in zip(drawn, sizes, strict=True)]


def table_of(windows: list[np.ndarray], shape: tuple[int, int, int]) -> np.ndarray:
    return np.bincount(np.concatenate(windows), minlength=int(np.prod(shape))).reshape(shape)


def sums_of(windows: list[np.ndarray], shape: tuple[int, int, int]) -> BlockSums:
    """Return the sums of rows with one field for stratum, x and y each."""
    codes = [np.array(np.unravel_index(cells, shape), np.uint8) for cells in windows]
    return BlockSums(codes, np.array(shape))


def row_scores(cells: np.ndarray, table: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return what single rows add to each cell, by the formula."""
    scores = np.zeros((len(cells), table.size))
    for row, cell in enumerate(cells.tolist()):
        s, x, y = np.unravel_index(cell, table.shape)
        p = table[s] / table[s].sum()
        for i, j in np.ndindex(p.shape):
            p_i, p_j = p[i].sum(), p[:, j].sum()
            score = float((i, j) == (x, y)) - p_i * (j == y) - p_j * (i == x)
            score += 2.0 * p_i * p_j - p[i, j]
            scores[row, np.ravel_multi_index((s, i, j), table.shape)] = score * weight[s, i, j]
    return scores


@given(seed=st.integers(0, 2**32 - 1), shape=SHAPES, length=st.sampled_from([64, 128]))
@settings(max_examples=25)
def test_scores_of_blocks_are_those_of_their_rows_added_up(
    seed: int, shape: tuple[int, int, int], length: int
) -> None:
    rng = np.random.default_rng(seed)
    windows = bursty_windows(shape, [150, 64, 1], 1, rng)
    table, other = (
        table_of(drawn, shape).astype(np.int32)
        for drawn in (windows, bursty_windows(shape, [90], 1, rng))
    )
    both = table + other
    margins = both.sum(2, keepdims=True) * both.sum(1, keepdims=True)
    weight = np.sqrt(both.sum((1, 2), keepdims=True) / np.maximum(margins, 1))
    weight *= (table.sum((1, 2)) * other.sum((1, 2)) > 0)[:, None, None]
    found = PairScores(sums_of(windows, shape), (0, 1, 2), table, other)
    rows = [row_scores(cells, table, weight) for cells in windows]
    expected = np.array(
        [u[i : i + length].sum(axis=0) for u in rows for i in range(0, len(u), length)]
    )
    assert found.n_blocks(length) == len(expected)
    np.testing.assert_allclose(found.scores(length), expected, atol=1e-12)
    assert found.squares(length) == pytest.approx(float((expected**2).sum()), abs=1e-12)
    assert found.expected == pytest.approx(sum(float((u**2).sum()) for u in rows), abs=1e-12)
    assert found.n_compared == 215


@pytest.mark.parametrize(("copies", "copies_before"), [(1, 1), (5, 5), (5, 1), (1, 5)])
@pytest.mark.parametrize("seed", range(4))
def test_dispersion_of_a_pair_is_that_of_its_rows(
    seed: int, copies: int, copies_before: int
) -> None:
    rng = np.random.default_rng(seed)
    cards, shape = [2, 3, 2], (2, 3, 2)
    old = bursty_windows(shape, [300, 290, 310], copies_before, rng)
    new = bursty_windows(shape, [305], copies, rng)
    tables = tuple(table_of(group, shape).astype(np.int32) for group in (old, new))
    sums = sums_of(old, shape), sums_of(new, shape)
    found = pair_dispersion(sums, (0, 1, 2), (tables[0], tables[1]))
    codes = [[np.array(np.unravel_index(cells, shape)) for cells in group] for group in (old, new)]
    expected = reference.effect_on_pair((codes[0], codes[1]), cards, (0, 1, 2))
    assert found.effect == pytest.approx(expected.effect)
    assert found.dispersion.concentration == pytest.approx(expected.concentration)
    assert found.dispersion.blocks_dof == pytest.approx(expected.blocks_dof)


# Dispersion of the states of one field given others.

Cells = tuple[int, list[int]]  # configuration, and the states that count as one
Groups = tuple[Sequence[np.ndarray], Sequence[np.ndarray]]
EXACT = 1.0  # every p-value is given to its last digit
LOGS = np.arange(1 << 15) * np.log(np.maximum(np.arange(1 << 15), 1.0))


def marked(rows: np.ndarray, cells: list[Cells], n_states: int) -> np.ndarray:
    """Return for each row which cell it is in, ``[rows, cells]``."""
    return np.column_stack(
        [np.isin(rows, [s * n_states + j for j in states]) for s, states in cells]
    ).astype(float)


def effect_of(windows: list[list[np.ndarray]], cells: list[Cells]) -> reference.Effect:
    tables = [sum(w.sum(axis=0) for w in group) for group in windows]
    of = np.array([s for s, _ in cells])
    same = (of[:, None] == of).astype(float)
    scores = []
    for group, table in zip(windows, tables, strict=True):
        share = table / np.maximum(table @ same, 1)
        weight = np.sqrt(np.maximum(tables[0] + tables[1], 1.0))
        scores.append([(w - (w @ same) * share) / weight for w in group])
    if sum(float((u * u).sum()) for group in scores for u in group) < 1e-9:
        n_blocks = sum(math.ceil(len(u) / 64) for group in scores for u in group)
        return reference.Effect(1.0, 1.0, max(n_blocks - 2, 1))
    return reference.effect_of_groups(*scores, *(int(table.sum()) for table in tables))


def are_rare(
    windows: list[list[np.ndarray]], cells: list[Cells], least: float, largest: float
) -> list[bool]:
    """Return which cells few blocks of the smaller group are expected to have.

    Or few blocks of the newer group have a rare state, fewer rows than expected, and few bursts
    are expected there.
    """
    n_a, n_b = (
        [
            sum(w[:, i].sum() for w in group for i, c in enumerate(cells) if c[0] == s)
            for s, _ in cells
        ]
        for group in windows
    )
    seen = [
        np.sum([w[i : i + 64].any(axis=0) for w in group for i in range(0, len(w), 64)], axis=0)
        for group in windows
    ]
    rows = sum(w.sum(axis=0) for group in windows for w in group)
    rare = []
    for cell in range(len(cells)):
        x, y = n_a[cell], n_b[cell]
        backing = (seen[0][cell] + seen[1][cell]) * min(x, y) / max(x + y, 1)
        expected = rows[cell] * y / max(x + y, 1)
        n_new = sum(w[:, cell].sum() for w in windows[1])
        hidden = seen[1][cell] < MIN_BACKING and expected / largest < MIN_BACKING
        hidden = hidden and n_new < expected and rows[cell] < 0.5 * (x + y)
        rare.append(bool(backing < least or hidden))
    return rare


def well_backed(
    groups: Groups, cells: list[Cells], n_states: int, limits: tuple[float, float]
) -> list[Cells]:
    windows = [[marked(rows, cells, n_states) for rows in group] for group in groups]
    rare = are_rare(windows, cells, *limits)
    pooled: list[Cells] = []
    for s in dict.fromkeys(s for s, _ in cells):
        own = [(cell, bad) for cell, bad in zip(cells, rare, strict=True) if cell[0] == s]
        pooled += [cell for cell, bad in own if not bad]
        rest = [j for cell, bad in own if bad for j in cell[1]]
        pooled += [(s, rest)] if rest else []
    windows = [[marked(rows, pooled, n_states) for rows in group] for group in groups]
    rare = are_rare(windows, pooled, *limits)
    kept = [cell for cell, bad in zip(pooled, rare, strict=True) if not bad]
    return [cell for cell in kept if sum(other[0] == cell[0] for other in kept) > 1]


def compared(windows: list[list[np.ndarray]], cells: list[Cells]) -> reference.Difference:
    a, b = (sum(w.sum(axis=0) for w in group).astype(int) for group in windows)
    total = np.zeros(4)
    for s in dict.fromkeys(s for s, _ in cells):
        own = [i for i, cell in enumerate(cells) if cell[0] == s]
        total += reference.difference(a[None, own], b[None, own])
    return reference.Difference(*total.tolist())


def naive_check(
    groups: Groups, n_configurations: int, n_states: int, largest: float = 1.0
) -> tuple[float, float]:
    """Do as ``corrected_state_test`` does, row by row."""
    shape = n_configurations, n_states
    tables = [
        np.bincount(np.concatenate(list(g)), minlength=math.prod(shape)).reshape(shape).tolist()
        for g in groups
    ]
    cells: list[Cells] = []
    for s, (a, b) in enumerate(zip(*tables, strict=True)):
        cells += [(s, states) for states in reference.pooled_states(a, b) or () if states]
    if not cells:
        return 1.0, 1.0
    windows = [[marked(rows, cells, n_states) for rows in group] for group in groups]
    effect = effect_of(windows, cells)
    first = effect.effect
    if max(first, largest) > LARGE_EFFECT:
        least = MIN_BACKING if first > LARGE_EFFECT else 0.0
        cells = well_backed(groups, cells, n_states, (least, largest))
        if not cells:
            return 1.0, first
        windows = [[marked(rows, cells, n_states) for rows in group] for group in groups]
        effect = effect_of(windows, cells)
    found = compared(windows, cells)
    if found.variance <= 0.0:
        return 1.0, first
    return effect.p_value(*found[:3]), effect.effect


def library_check(
    groups: Groups, n_configurations: int, n_states: int, largest: float = 1.0
) -> tuple[float, float]:
    shape = n_configurations, n_states
    a, b = (
        np.bincount(np.concatenate(list(g)), minlength=math.prod(shape)).reshape(shape)
        for g in groups
    )
    statistics = np.array(reference.difference(a, b))
    older, newer = (
        GroupRows(np.concatenate(list(g)).astype(np.int32), [len(rows) for rows in g])
        for g in groups
    )
    return corrected_state_test(StateRows((older, newer), *shape, largest), statistics, LOGS, EXACT)


def draw_groups(seed: int, copies: int, copies_before: int) -> tuple[Groups, int, int]:
    rng = np.random.default_rng(seed)
    n_configurations, n_states = int(rng.integers(1, 4)), int(rng.integers(2, 5))
    groups = []
    for n_windows, repeated in ((3, copies_before), (1, copies)):
        weights = rng.dirichlet(np.full(n_configurations * n_states, 0.6))
        sizes = rng.integers(300, 500, n_windows)
        drawn = [rng.choice(weights.size, n // repeated, p=weights) for n in sizes]
        groups.append([np.repeat(cells, repeated) for cells in drawn])
    return (groups[0], groups[1]), n_configurations, n_states


@pytest.mark.parametrize(("copies", "copies_before"), [(1, 1), (2, 2), (6, 6), (6, 1), (1, 6)])
@pytest.mark.parametrize("largest", [1.0, 3.0])
@pytest.mark.parametrize("seed", range(8))
def test_states_are_checked_as_row_by_row(
    seed: int, largest: float, copies: int, copies_before: int
) -> None:
    drawn = draw_groups(seed, copies, copies_before)
    p, effect = library_check(*drawn, largest)
    expected_p, expected_effect = naive_check(*drawn, largest)
    assert effect == pytest.approx(expected_effect, rel=1e-6)
    assert p == pytest.approx(expected_p, rel=1e-5, abs=1e-250)


def bursts(n_rows: int, length: int, rng: np.random.Generator) -> np.ndarray:
    """Two states that come equally often, each row repeated."""
    return np.repeat(rng.integers(0, 2, n_rows // length), length)


def test_one_more_burst_of_a_rare_state_is_no_change() -> None:
    rng = np.random.default_rng(2)
    old, new = [bursts(2000, 4, rng) for _ in range(4)], [bursts(2000, 4, rng)]
    assert library_check((old, new), 1, 3)[0] > 0.01
    new[0][640:704] = 2
    assert library_check((old, new), 1, 3)[0] > 0.01
    scattered = [rng.permutation(new[0])]
    old = [rng.permutation(cells) for cells in old]
    assert library_check((old, scattered), 1, 3)[0] < 1e-10


def test_a_state_in_many_bursts_is_a_change() -> None:
    rng = np.random.default_rng(3)
    old, new = [bursts(2000, 4, rng) for _ in range(4)], [bursts(2000, 4, rng)]
    for start in range(0, 2000, 40):
        new[0][start : start + 4] = 2
    p, effect = library_check((old, new), 1, 3)
    assert effect > LARGE_EFFECT
    assert p < 1e-4


def test_nothing_is_said_where_no_state_is_backed_well() -> None:
    """Both groups are one state, then the other: two bursts."""
    old, new = [np.repeat([0, 1], 150)], [np.repeat([0, 1], [100, 200])]
    p, effect = library_check((old, new), 1, 2)
    assert p == 1.0
    assert effect > LARGE_EFFECT


def test_bursts_of_both_states_are_rejected_as_often_as_the_level_says() -> None:
    rng = np.random.default_rng(4)
    found = [
        library_check(([bursts(2000, 5, rng) for _ in range(3)], [bursts(2000, 5, rng)]), 1, 2)[0]
        for _ in range(300)
    ]
    assert 0.02 < np.mean(np.array(found) < 0.05) < 0.09


@pytest.mark.parametrize(("before", "after"), [(1, 5), (5, 1)])
def test_rows_that_become_more_or_less_bursty_are_seldom_rejected(before: int, after: int) -> None:
    rng = np.random.default_rng(5)
    found = [
        library_check(
            ([bursts(2000, before, rng) for _ in range(6)], [bursts(2000, after, rng)]), 1, 2
        )[0]
        for _ in range(300)
    ]
    assert np.mean(np.array(found) < 0.05) < 0.08


def test_a_change_is_seen_in_rows_that_become_more_overdispersed() -> None:
    rng = np.random.default_rng(6)
    old, new = [bursts(2000, 1, rng) for _ in range(4)], [bursts(2000, 4, rng)]
    turned = np.repeat(rng.random(500) < 0.5, 4)
    new[0][turned] = 1
    p, effect = library_check((old, new), 1, 2)
    assert effect > 2.0
    assert p < 1e-6


def test_a_rare_state_that_bursty_rows_do_not_have_is_no_change() -> None:
    """Two bursts of ten rows were to be expected, and none came."""
    rng = np.random.default_rng(7)
    old = [(rng.random(2000) < 0.01).astype(np.int64) for _ in range(8)]
    new = [np.zeros(2000, np.int64)]
    assert library_check((old, new), 1, 2)[0] < 1e-6
    assert library_check((old, new), 1, 2, 10.0)[0] == 1.0
    assert library_check((old, new), 1, 2, 2.0)[0] < 1e-6


def test_a_state_that_many_blocks_have_is_compared_however_bursty_other_fields_are() -> None:
    rng = np.random.default_rng(8)
    old, new = (
        [(rng.random(2000) < share).astype(np.int64) for _ in range(n)]
        for share, n in ((0.01, 8), (0.03, 1))
    )
    assert library_check((old, new), 1, 2, 50.0) == pytest.approx(library_check((old, new), 1, 2))


def test_what_was_certain_and_is_not_is_a_change_however_bursty_the_rows() -> None:
    """In one configuration, in one row of fifty, the second state always came; now the first."""
    rng = np.random.default_rng(10)
    old, new = ([(rng.random(2500) < 0.02).astype(np.int64) for _ in range(n)] for n in (8, 1))
    changed = [cells * 3 for cells in old], [cells * 2 for cells in new]
    assert library_check(changed, 2, 2, 20.0)[0] < 1e-6
    same = [cells * 3 for cells in old], [cells * 3 for cells in new]
    assert library_check(same, 2, 2, 20.0)[0] == 1.0
