"""Edges to display, with hysteresis."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from driftbn.decision.evidence import WindowEvidence, learn_rows
from driftbn.display import APPEARS_BELOW, GOES_ABOVE, SteadyEdges
from driftbn.learning import StructureLearner

LEARNER = StructureLearner()


def rows(share: float, n_rows: int = 1000, n_fields: int = 2) -> WindowEvidence:
    """Fields a, b, …: b says the same as a in a share of the rows, exactly; the others are noise.

    With a share of one half there is nothing between a and b.
    """
    half = n_rows // 2
    agree = round(share * half)
    a = np.repeat([0, 1], half)
    b = np.concatenate([np.r_[np.full(agree, x), np.full(half - agree, 1 - x)] for x in (0, 1)])
    rng = np.random.default_rng(1)
    more = rng.integers(0, 2, (n_fields - 2, n_rows))
    codes = np.vstack([a, b, more]).astype(np.uint8)[:, rng.permutation(n_rows)]
    return learn_rows(LEARNER, codes, "abcdefgh"[:n_fields])


CLEAR, WEAK, DOUBTFUL, NONE = rows(0.8), rows(0.545), rows(0.535), rows(0.5)


def p_value(window: WindowEvidence) -> float:
    return float(window.test.p_value(0, 1, []))


def test_the_windows_are_what_their_names_say() -> None:
    assert p_value(CLEAR) < APPEARS_BELOW < p_value(WEAK) < LEARNER.config.alpha
    assert LEARNER.config.alpha < p_value(DOUBTFUL) < GOES_ABOVE < p_value(NONE)


def test_the_first_window_shows_what_it_has_learned() -> None:
    assert SteadyEdges().update(WEAK) == (("a", "b"),)
    assert SteadyEdges().update(DOUBTFUL) == ()


def test_an_edge_appears_only_if_it_is_clear() -> None:
    steady = SteadyEdges([])
    assert steady.update(WEAK) == ()
    assert steady.update(CLEAR) == (("a", "b"),)


def test_an_edge_goes_only_if_it_is_gone() -> None:
    steady = SteadyEdges([("a", "b")])
    assert steady.update(WEAK) == steady.update(DOUBTFUL) == (("a", "b"),)
    assert steady.update(NONE) == ()


def test_edges_are_sorted_and_kept() -> None:
    steady = SteadyEdges([("b", "c"), ("a", "b")])
    assert steady.edges == (("a", "b"), ("b", "c"))
    assert SteadyEdges().edges is None


@pytest.mark.parametrize("before", [None, [], [("a", "b")], [("a", "c"), ("b", "c")]])
def test_the_twin_of_a_field_may_be_displayed(before: list[tuple[str, str]] | None) -> None:
    codes = rows(0.8, n_fields=3).codes.copy()
    codes[2] = 1 - codes[0]
    shown = SteadyEdges(before).update(learn_rows(LEARNER, codes, "abc"))
    assert ("a", "c") in shown


def test_most_of_the_noise_between_windows_is_gone() -> None:
    rng = np.random.default_rng(2)
    steady, learned, shown = SteadyEdges(), [], []
    for _ in range(40):
        codes = rng.integers(0, 2, (8, 400)).astype(np.uint8)
        for v in range(1, 8):
            follows = rng.random(400) < 0.12
            codes[v, follows] = codes[v - 1, follows]
        window = learn_rows(LEARNER, codes, "abcdefgh")
        learned.append(window.learned.graph.skeleton)
        shown.append(set(steady.update(window)))
    flips = [
        sum(len(set(one) ^ set(other)) for one, other in pairwise(series))
        for series in (learned, shown)
    ]
    assert flips[1] < 0.4 * flips[0]
