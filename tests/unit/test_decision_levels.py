"""Numbers of codes, in the order in which a regime met them."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbn.decision.levels import LevelMap
from driftbn.learning import ChiSquareTest

NAMES = "abcd"


def draw_windows(seed: int) -> list[np.ndarray]:
    """Draw windows of four variables whose codes have gaps and change from window to window."""
    rng = np.random.default_rng(seed)
    windows = []
    for _ in range(int(rng.integers(1, 5))):
        known = rng.choice(252, int(rng.integers(1, 9)), replace=False).astype(np.uint8)
        windows.append(rng.choice(known, (4, int(rng.integers(1, 200)))))
    return windows


seeds = st.integers(0, 2**32 - 1)


def test_numbers_stay_when_new_codes_come() -> None:
    levels = LevelMap(2)
    assert levels.learn(np.array([[9, 4, 9], [0, 0, 0]], np.uint8))
    assert levels.number[0, [4, 9]].tolist() == [0, 1]
    assert levels.learn(np.array([[5, 1, 9], [2, 0, 1]], np.uint8))
    assert levels.number[0, [4, 9, 1, 5]].tolist() == [0, 1, 2, 3]
    assert levels.number[1, [0, 1, 2]].tolist() == [0, 1, 2]
    assert levels.cards.tolist() == [4, 3]


def test_codes_that_are_known_change_nothing() -> None:
    levels = LevelMap(1)
    levels.learn(np.array([[7, 3]], np.uint8))
    before = levels.number.copy()
    assert not levels.learn(np.array([[3, 3, 7]], np.uint8))
    assert not levels.learn(np.zeros((1, 0), np.uint8))
    assert not levels.learn_from(ChiSquareTest(np.array([[7, 7]], np.uint8), "a"))
    np.testing.assert_array_equal(levels.number, before)


@given(seed=seeds)
@settings(max_examples=40)
def test_numbers_learned_from_a_test_are_those_learned_from_codes(seed: int) -> None:
    by_codes, by_test = LevelMap(4), LevelMap(4)
    for codes in draw_windows(seed):
        grown = by_codes.learn(codes)
        assert by_test.learn_from(ChiSquareTest(codes, NAMES)) is grown
        np.testing.assert_array_equal(by_codes.number, by_test.number)


@given(seed=seeds)
@settings(max_examples=40)
def test_numbers_are_dense_and_one_to_one(seed: int) -> None:
    levels = LevelMap(4)
    windows = draw_windows(seed)
    for codes in windows:
        levels.learn(codes)
    everything = np.concatenate(windows, axis=1)
    numbers = levels.apply(everything)
    assert numbers.dtype == np.uint8
    for v in range(4):
        pairs = set(zip(everything[v].tolist(), numbers[v].tolist(), strict=True))
        assert len({code for code, _ in pairs}) == len(pairs) == levels.cards[v]
        assert sorted(number for _, number in pairs) == list(range(len(pairs)))


def test_only_the_variables_with_gaps_are_renumbered() -> None:
    codes = np.array([[0, 1, 2], [5, 0, 5]], np.uint8)
    before = codes.copy()
    levels = LevelMap(2)
    levels.learn(codes)
    assert levels.apply(codes).tolist() == [[0, 1, 2], [1, 0, 1]]
    np.testing.assert_array_equal(codes, before)


@given(seed=seeds)
@settings(max_examples=40)
def test_places_lead_to_the_rows_of_a_number(seed: int) -> None:
    windows = draw_windows(seed)
    levels = LevelMap(4)
    for codes in windows:
        levels.learn(codes)
    codes = windows[0]
    test = ChiSquareTest(codes, NAMES)
    places, numbers = levels.places(test), levels.apply(codes)
    assert places.shape == (4, levels.cards.max())
    bits = np.unpackbits(test.evidence.bits.view(np.uint8), axis=1, bitorder="little")
    for v in range(4):
        for number in range(places.shape[1]):
            rows = np.flatnonzero(numbers[v] == number)
            place = places[v, number]
            assert (place == -1) == (len(rows) == 0)
            if place >= 0:
                np.testing.assert_array_equal(np.flatnonzero(bits[place]), rows)


def test_a_map_is_made_again_from_its_array() -> None:
    levels = LevelMap(1)
    levels.learn(np.array([[8, 2]], np.uint8))
    again = LevelMap.from_array(levels.number)
    assert again.learn(np.array([[5]], np.uint8))
    assert again.number[0, [2, 8, 5]].tolist() == [0, 1, 2]
    assert levels.cards.tolist() == [2]


def test_natural_numbers_are_the_codes() -> None:
    codes = np.array([[3, 0, 251]], np.uint8)
    natural = LevelMap.natural(1)
    assert not natural.learn(codes)
    np.testing.assert_array_equal(natural.apply(codes), codes)
    places = natural.places(ChiSquareTest(codes, "a"))
    assert np.flatnonzero(places[0] >= 0).tolist() == [0, 3, 251]
