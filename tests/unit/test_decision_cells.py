"""Several fields of each row as one number."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbn.decision.cells import divided, joint_codes, n_configurations, trimmed

MANY_CARDS = st.lists(st.integers(1, 34), min_size=1, max_size=60)


def test_dividing_by_nothing_gives_nothing() -> None:
    assert divided(np.array([1.0, 4.0]), np.array([0.0, 2.0])).tolist() == [0.0, 2.0]
    assert divided(np.array([[6], [3]]), np.array([3, 0])).tolist() == [[2.0, 0.0], [1.0, 0.0]]


@given(cards=MANY_CARDS, room=st.integers(0, 10**6))
@settings(deadline=None)
def test_a_set_is_trimmed_by_exact_products(cards: list[int], room: int) -> None:
    members = list(range(len(cards)))
    while members and math.prod(cards[v] for v in members) > room:
        members.remove(max(members, key=lambda v: (cards[v], v)))
    assert trimmed(range(len(cards)), np.array(cards), room) == tuple(members)


@given(cards=MANY_CARDS)
def test_configurations_are_counted_exactly(cards: list[int]) -> None:
    members = range(0, len(cards), 2)
    assert n_configurations(np.array(cards), members) == math.prod(cards[::2])


@given(cards=MANY_CARDS, seed=st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_rows_are_numbered_as_their_configurations_are_ordered(cards: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    patterns = rng.integers(0, np.array(cards)[:, None], (len(cards), 6))
    codes = patterns[:, rng.integers(0, 6, 40)].astype(np.uint8)
    numbers = joint_codes(codes, np.array(cards), range(len(cards)))
    rows = list(map(tuple, codes.T.tolist()))
    ranks = {row: rank for rank, row in enumerate(sorted(set(rows)))}
    assert np.unique(numbers, return_inverse=True)[1].tolist() == [ranks[row] for row in rows]
    assert numbers.min() >= 0
    if math.prod(cards) < 2**62:
        places = [math.prod(cards[v + 1 :]) for v in range(len(cards))]
        exact = [sum(c * p for c, p in zip(row, places, strict=True)) for row in rows]
        assert numbers.tolist() == exact
