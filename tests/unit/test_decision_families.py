"""How well a field is explained by its parents."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbn.decision.families import FamilyScores, reaches

seeds = st.integers(0, 2**32 - 1)


def fit(codes: np.ndarray, v: int, parents: frozenset[int]) -> float:
    """Log likelihood less one half for each parameter that the rows have met."""
    given_rows = [tuple(row) for row in codes[sorted(parents)].T.tolist()]
    pairs = Counter(zip(given_rows, codes[v].tolist(), strict=True))
    strata = Counter(given_rows)
    likelihood = sum(n * math.log(n / strata[key]) for (key, _), n in pairs.items())
    n_parameters = len(strata) * (len(set(codes[v].tolist())) - 1)
    return likelihood - 0.5 * n_parameters


def draw_windows(cards: list[int], seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    upper = np.array(cards)[:, None]
    sizes = rng.integers(1, 150, int(rng.integers(1, 4)))
    return [rng.integers(0, upper, (len(cards), n)).astype(np.uint8) for n in sizes]


@given(cards=st.lists(st.integers(1, 5), min_size=4, max_size=4), seed=seeds)
@settings(max_examples=40)
def test_a_family_fits_less_what_chance_adds(cards: list[int], seed: int) -> None:
    windows = draw_windows(cards, seed)
    pooled = np.concatenate(windows, axis=1)
    scores = FamilyScores(windows, np.array(cards))
    for parents in (frozenset[int](), frozenset({1}), frozenset({3, 1}), frozenset({1, 2, 3})):
        expected = fit(pooled, 0, parents)
        assert scores.score(0, parents) == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert scores.score(0, parents) == scores.score(0, parents)


def test_more_configurations_than_memory_has_room_for_are_scored() -> None:
    cards = [3, 200, 200, 200, 200, 200]
    windows = draw_windows(cards, 1)
    scores = FamilyScores(windows, np.array(cards))
    parents = frozenset({1, 2, 3, 4, 5})
    assert scores.score(0, parents) == pytest.approx(fit(np.hstack(windows), 0, parents))


@pytest.mark.parametrize("levels", [2, 4, 5, 34, 250])
def test_more_configurations_than_a_number_counts_are_scored(levels: int) -> None:
    rng = np.random.default_rng(levels)
    driver = rng.integers(0, 2, 400)
    parents = np.where(rng.random((130, 400)) < 0.01, levels - 1, driver)
    codes = np.vstack([driver ^ (rng.random(400) < 0.1), parents]).astype(np.uint8)
    older, newer = codes[:, :250], codes[:, 250:]
    cards = np.full(131, levels)
    many = frozenset(range(1, 131))
    alone = FamilyScores([newer], cards)
    assert alone.score(0, many) == pytest.approx(fit(newer, 0, many))
    assert FamilyScores([newer], cards, [older]).score(0, many) >= alone.score(0, many)


def test_levels_that_no_row_has_cost_nothing() -> None:
    windows = draw_windows([2, 2], 2)
    parents = frozenset({1})
    narrow = FamilyScores(windows, np.array([2, 2])).score(0, parents)
    assert FamilyScores(windows, np.array([7, 9])).score(0, parents) == pytest.approx(narrow)


def chain(n_rows: int) -> np.ndarray:
    """Draw a -> b -> c with noise, and d alone."""
    rng = np.random.default_rng(5)
    a = rng.integers(0, 2, n_rows)
    b = a ^ (rng.random(n_rows) < 0.1)
    c = b ^ (rng.random(n_rows) < 0.1)
    return np.stack([a, b, c, rng.integers(0, 2, n_rows)]).astype(np.uint8)


PARENTS = {0: frozenset[int](), 1: frozenset({0}), 2: frozenset({1}), 3: frozenset[int]()}


def test_an_edge_more_gains_the_difference_of_two_scores() -> None:
    codes = chain(500)
    scores = FamilyScores([codes], np.full(4, 2))
    for source in (0, 3):
        gain = scores.gain_of_adding(PARENTS, source, 2)
        before = fit(codes, 2, frozenset({1}))
        assert gain == pytest.approx(fit(codes, 2, frozenset({1, source})) - before, abs=1e-9)
        assert gain < 2.0
    empty = dict.fromkeys(range(4), frozenset[int]())
    assert scores.gain_of_adding(empty, 0, 1) > 50.0


def test_turning_an_edge_is_weighed_against_leaving_it_and_taking_it_out() -> None:
    codes = chain(500)
    scores = FamilyScores([codes], np.full(4, 2))
    turned = fit(codes, 1, frozenset({0, 2})) + fit(codes, 2, frozenset())
    stayed = fit(codes, 1, frozenset({0})) + fit(codes, 2, frozenset({1}))
    gain = scores.gain_of_turning(PARENTS, 1, 2)
    assert gain == pytest.approx(turned - stayed, abs=1e-9)
    spurious = {**PARENTS, 3: frozenset({2})}
    turned = fit(codes, 2, frozenset({1, 3})) + fit(codes, 3, frozenset())
    without = fit(codes, 2, frozenset({1})) + fit(codes, 3, frozenset())
    stayed = fit(codes, 2, frozenset({1})) + fit(codes, 3, frozenset({2}))
    gain = scores.gain_of_turning(spurious, 2, 3)
    assert gain == pytest.approx(turned - max(without, stayed), abs=1e-9)
    assert gain < 2.0


def test_the_number_of_levels_does_not_decide_on_a_direction() -> None:
    """A field of ten levels and one of two, both alone: neither way gains or loses much."""
    rng = np.random.default_rng(3)
    codes = np.stack([rng.integers(0, n, 5000) for n in (10, 2, 10)]).astype(np.uint8)
    parents = {0: frozenset[int](), 1: frozenset({0, 2}), 2: frozenset[int]()}
    scores = FamilyScores([codes], np.array([10, 2, 10]))
    taken = scores.score(1, frozenset({2})) - scores.score(1, frozenset({0, 2}))
    assert abs(taken) < 15.0
    assert abs(scores.gain_of_turning(parents, 0, 1)) < 15.0


def test_the_earlier_table_counts_for_any_parents_where_it_still_holds() -> None:
    earlier, newer = chain(4000)[:, :3500], chain(4000)[:, 3500:]
    scores = FamilyScores([newer], np.full(4, 2), [earlier])
    for parents in (frozenset({1}), frozenset({0}), frozenset({0, 3})):
        assert scores.departure(2, parents) < 2.0
        assert scores.score(2, parents) >= fit(newer, 2, parents) - 1e-9
    newer = newer[[0, 1, 3, 2]]
    scores = FamilyScores([newer], np.full(4, 2), [earlier])
    assert scores.departure(2, frozenset({1})) > 50.0
    assert scores.score(2, frozenset({1})) == pytest.approx(fit(newer, 2, frozenset({1})))


@given(n_nodes=st.integers(1, 6), arcs=st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5))))
@settings(max_examples=60)
def test_a_node_reaches_its_descendants_and_itself(
    n_nodes: int, arcs: set[tuple[int, int]]
) -> None:
    kept = {(u, v) for u, v in arcs if u != v and max(u, v) < n_nodes}
    graph = nx.DiGraph(kept)
    graph.add_nodes_from(range(n_nodes))
    parents = {v: frozenset(graph.predecessors(v)) for v in range(n_nodes)}
    for start, end in product(range(n_nodes), repeat=2):
        assert reaches(parents, start, end) == nx.has_path(graph, start, end)
