"""Sums over blocks of rows: kept, added to and combined, they are those summed up at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbn.decision import blocks
from driftbn.decision.blocks import BlockSums, CombinedSums
from driftbn.kernels.deviance import FG, KF, KG, KK, KN, N_MOMENTS

Asked = tuple[tuple[int, ...], int]  # members and length

CARDS = np.array([3, 2, 4, 1, 2])
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


def draw_windows(
    seed: int, sizes: Sequence[int] = SIZES, cards: np.ndarray = CARDS
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
    windows = draw_windows(seed, sizes)
    order = data.draw(st.permutations(range(5)))
    members = tuple(order[: data.draw(st.integers(2, 5))])
    check(BlockSums(windows, CARDS), windows, [(members, length)])


@given(seed=seeds, sizes=st.lists(st.integers(0, 90), max_size=4), data=st.data())
@settings(max_examples=40)
def test_cells_are_the_joint_codes_of_all_rows(
    seed: int, sizes: list[int], data: st.DataObject
) -> None:
    windows = draw_windows(seed, sizes)
    members = tuple(data.draw(st.permutations(range(5)))[: data.draw(st.integers(0, 5))])
    sums = BlockSums(windows, CARDS)
    expected = []
    for codes in windows:
        for row in codes.T.tolist():
            number = 0
            for v in members:
                number = number * int(CARDS[v]) + row[v]
            expected.append(number)
    assert sums.cells(members).tolist() == expected
    assert sums.n_rows == tuple(sizes)


def test_what_is_asked_again_is_the_same() -> None:
    windows = draw_windows(1)
    sums = BlockSums(windows, CARDS)
    for _ in range(3):
        check(sums, windows)


@given(seed=seeds, n_windows=st.lists(st.integers(0, len(SIZES)), max_size=5))
@settings(max_examples=30)
def test_windows_that_are_added_later_are_summed_as_if_from_nothing(
    seed: int, n_windows: list[int]
) -> None:
    """Some pairs are asked for at each step, others are left behind for a while."""
    rng = np.random.default_rng(seed)
    windows = draw_windows(seed)
    sums = BlockSums([], CARDS)
    for n in sorted(n_windows):
        sums = BlockSums(windows[:n], CARDS, sums)
        check(sums, windows[:n], [asked for asked in ASKED if rng.random() < 0.6])
    check(BlockSums(windows, CARDS, sums), windows)


def count_sums(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """List the rows of each window that is summed up from now on."""
    summed: list[int] = []
    add = blocks.add_pair_moments

    def adding(codes: np.ndarray, *asked: object) -> None:
        summed.append(codes.shape[1])
        add(codes, *asked)  # type: ignore[arg-type]

    monkeypatch.setattr(blocks, "add_pair_moments", adding)
    return summed


def test_a_window_is_summed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = draw_windows(2)
    sums = BlockSums(windows[:4], CARDS)
    summed = count_sums(monkeypatch)
    for _ in range(2):
        sums.of_pair((0, 1), 64)
    assert summed == list(SIZES[:4])
    later = BlockSums(windows, CARDS, sums)
    for _ in range(2):
        later.of_pair((0, 1), 64)
    assert summed == list(SIZES)


def test_fewer_windows_than_were_kept_are_summed_anew() -> None:
    windows = draw_windows(3)
    whole = BlockSums(windows, CARDS)
    check(whole, windows)
    check(BlockSums(windows[:2], CARDS, whole), windows[:2])
    check(whole, windows)


def test_earlier_sums_stay_what_they_were() -> None:
    windows = draw_windows(4)
    first = BlockSums(windows[:2], CARDS)
    check(first, windows[:2])
    second = BlockSums(windows, CARDS, first)
    for _ in range(2):
        check(second, windows)
        check(first, windows[:2])


def test_two_that_go_on_from_the_same_do_not_mix() -> None:
    windows = draw_windows(5)
    first = BlockSums(windows[:1], CARDS)
    check(first, windows[:1])
    one = BlockSums([windows[0], windows[4]], CARDS, first)
    check(one, [windows[0], windows[4]])
    other = BlockSums([windows[0], windows[1]], CARDS, first)
    check(other, [windows[0], windows[1]])
    check(one, [windows[0], windows[4]])


def test_sums_of_other_windows_are_not_taken_over() -> None:
    windows = draw_windows(6)
    earlier = BlockSums(windows[:2], CARDS)
    check(earlier, windows[:2])
    check(BlockSums(windows[1:], CARDS, earlier), windows[1:])


def test_sums_over_fewer_levels_are_not_taken_over() -> None:
    """Levels that came later have cells that the earlier sums have no room for."""
    windows = draw_windows(7)
    earlier = BlockSums(windows[:2], CARDS)
    check(earlier, windows[:2])
    more = CARDS + np.array([1, 0, 5, 2, 0])
    later = [*windows[:2], *draw_windows(8, [100], more)]
    check(BlockSums(later, more, earlier), later)


def test_what_was_returned_is_not_changed_by_windows_added_later() -> None:
    windows = draw_windows(9)
    sums, held = BlockSums([], CARDS), []
    for n in range(len(windows) + 1):
        sums = BlockSums(windows[:n], CARDS, sums)
        held.append([sums.of_pair(*asked) for asked in ASKED])
    for n, found in enumerate(held):
        for asked, moments in zip(ASKED, found, strict=True):
            np.testing.assert_array_equal(moments, moments_of(windows[:n], asked, CARDS))


@pytest.mark.parametrize("n_cells", [0, 1, 12, 20, 60])
def test_room_for_few_sums_changes_none(monkeypatch: pytest.MonkeyPatch, n_cells: int) -> None:
    monkeypatch.setattr(blocks, "KEPT_CELLS", n_cells)
    windows = draw_windows(10)
    sums = BlockSums([], CARDS)
    for n in range(len(windows) + 1):
        sums = BlockSums(windows[:n], CARDS, sums)
        check(sums, windows[:n])
        check(sums, windows[:n], ASKED[::-1])


def test_those_asked_for_longest_ago_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of six, two and eight cells: the first two fit, all three do not."""
    monkeypatch.setattr(blocks, "KEPT_CELLS", 10)
    sums = BlockSums(draw_windows(11, [70]), CARDS)
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
    windows = draw_windows(seed)
    cut = data.draw(st.integers(0, len(windows)))
    n_taken = data.draw(st.integers(0, len(windows)))
    runs = [part for part in (windows[:cut], windows[cut:]) if part]
    added = [BlockSums(run, CARDS) for run in runs]
    left = windows[: len(windows) - n_taken]
    taken = [BlockSums([codes], CARDS) for codes in windows[len(left) :]]
    combined = CombinedSums(left, CARDS, added, taken)
    for _ in range(2):
        check(combined, left)
    for sums, run in zip(added, runs, strict=True):
        check(sums, run)
    assert combined.n_rows == tuple(codes.shape[1] for codes in left)
    assert combined.cells((0, 2)).tolist() == BlockSums(left, CARDS).cells((0, 2)).tolist()


def test_combined_sums_stay_true_while_their_parts_grow() -> None:
    windows = draw_windows(12)
    pool = BlockSums(windows[:3], CARDS)
    newest = BlockSums([windows[2]], CARDS)
    combined = CombinedSums(windows[:2], CARDS, [pool], [newest])
    held = combined.of_pair((0, 1), 64)
    grown = BlockSums(windows, CARDS, pool)
    check(grown, windows)
    check(CombinedSums(windows[:2], CARDS, [combined]), windows[:2])
    check(combined, windows[:2])
    np.testing.assert_array_equal(held, moments_of(windows[:2], ((0, 1), 64), CARDS))


def test_windows_kept_small_are_combined_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "KEPT_CELLS", 10)
    windows = draw_windows(13)
    parts = [BlockSums([codes], CARDS) for codes in windows]
    combined = CombinedSums(windows[:4], CARDS, [BlockSums(windows, CARDS)], parts[4:])
    for _ in range(2):
        check(combined, windows[:4])
        check(CombinedSums(windows, CARDS, parts), windows)
