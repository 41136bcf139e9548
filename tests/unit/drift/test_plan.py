"""Which tests a reference graph leads to."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbn.datasets import random_dag
from driftbn.drift.plan import (
    LevelMap,
    joint_codes,
    make_plan,
    trimmed,
    with_cards,
)
from driftbn.drift.plan import TestPlan as Plan
from driftbn.graphs.graph import Dag
from driftbn.learning import PackedTable
from tests import reference_decision as reference

# a -> c <- b, c -> d; e alone
DAG = Dag("abcde", [("a", "c"), ("b", "c"), ("c", "d")])
MANY_ROWS = 10**6


def ties(plan: Plan) -> dict[tuple[str, str], str]:
    """Return by source and child the set of each test, as names."""
    found = {}
    for index in range(plan.n_pair_tests):
        source, child = plan.pair_of(index)
        given_set = plan.conditioning_set(plan.n_nodes + index)
        found[plan.names[source], plan.names[child]] = "".join(plan.names[v] for v in given_set)
    assert len(found) == plan.n_pair_tests
    return found


def cards(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def test_a_node_is_tested_given_its_parents() -> None:
    plan = make_plan(DAG, cards(2, 2, 2, 2, 2), MANY_ROWS)
    assert [plan.conditioning_set(v) for v in range(5)] == [(), (), (0, 1), (2,), ()]
    assert plan.tables.source[:5].tolist() == [-1] * 5
    assert plan.tables.child[:5].tolist() == [0, 1, 2, 3, 4]


def test_an_edge_is_tested_given_the_other_parents_of_either_end() -> None:
    found = ties(make_plan(DAG, cards(2, 2, 2, 2, 2), MANY_ROWS))
    assert found["a", "c"] == "b"
    assert found["b", "c"] == "a"
    assert found["c", "d"] == ""
    assert found["c", "a"] == found["c", "b"] == ""
    assert found["d", "c"] == "ab"


def test_other_pairs_are_tested_both_ways_given_the_parents_of_the_child() -> None:
    found = ties(make_plan(DAG, cards(2, 2, 2, 2, 2), MANY_ROWS))
    assert found["a", "d"] == "c"
    assert found["d", "a"] == ""
    assert found["e", "c"] == "ab"
    assert found["c", "e"] == ""


def test_the_same_test_is_made_once() -> None:
    found = ties(make_plan(DAG, cards(2, 2, 2, 2, 2), MANY_ROWS))
    assert found["a", "b"] == ""
    assert ("b", "a") not in found
    assert found["a", "e"] == ""
    assert ("e", "a") not in found
    assert len(found) == 3 + 2 * 7  # a-b, a-e and b-e once; the rest both ways


def test_all_tests_of_a_pair_are_found_from_either_end() -> None:
    plan = make_plan(DAG, cards(2, 3, 2, 3, 2), MANY_ROWS)
    listed = []
    for x, y in combinations(range(5), 2):
        of_pair = plan.tests_of_pair(x, y)
        assert of_pair == plan.tests_of_pair(y, x)
        assert {frozenset(plan.pair_of(index)) for index in of_pair} == {frozenset((x, y))}
        listed += of_pair
    assert sorted(listed) == list(range(plan.n_pair_tests))


def test_a_node_drops_its_largest_parents_until_ten_rows_remain_to_a_configuration() -> None:
    dag = Dag("abcd", [("a", "d"), ("b", "d"), ("c", "d")])
    sizes = cards(2, 5, 3, 2)
    assert make_plan(dag, sizes, 300).conditioning_set(3) == (0, 1, 2)
    assert make_plan(dag, sizes, 299).conditioning_set(3) == (0, 2)
    assert make_plan(dag, sizes, 59).conditioning_set(3) == (0,)
    assert make_plan(dag, sizes, 19).conditioning_set(3) == ()


def test_the_table_of_a_node_has_at_most_8192_cells() -> None:
    dag = Dag("abc", [("a", "c"), ("b", "c")])
    assert make_plan(dag, cards(64, 64, 2), MANY_ROWS).conditioning_set(2) == (0, 1)
    assert make_plan(dag, cards(64, 64, 3), MANY_ROWS).conditioning_set(2) == (0,)


def test_a_pair_has_at_least_five_rows_to_a_cell() -> None:
    dag = Dag("abcd", [("a", "d"), ("b", "d")])
    sizes = cards(3, 2, 4, 2)
    assert ties(make_plan(dag, sizes, 240))["c", "d"] == "ab"
    assert ties(make_plan(dag, sizes, 239))["c", "d"] == "b"
    assert ties(make_plan(dag, sizes, 60))["a", "d"] == "b"
    assert ties(make_plan(dag, sizes, 59))["a", "d"] == ""


def test_sets_that_become_equal_by_trimming_make_one_test() -> None:
    dag = Dag("abcd", [("a", "c"), ("b", "d")])
    assert {("c", "d"), ("d", "c")} <= set(ties(make_plan(dag, cards(9, 9, 2, 2), 1000)))
    found = ties(make_plan(dag, cards(9, 9, 2, 2), 100))
    assert found["c", "d"] == ""
    assert ("d", "c") not in found


@given(
    n_nodes=st.integers(1, 9),
    n_rows=st.integers(1, 5000),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60)
def test_sets_are_parents_that_fit_the_rows(n_nodes: int, n_rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dag = random_dag(n_nodes, n_nodes * (n_nodes - 1) // 4, seed=rng)
    sizes = rng.integers(1, 7, n_nodes)
    plan = make_plan(dag, sizes, n_rows)
    check_layout(plan, sizes)
    for t in range(len(plan.tables.child)):
        child, source = int(plan.tables.child[t]), int(plan.tables.source[t])
        others = {dag.nodes.index(p) for p in dag.parents(dag.nodes[child])} - {source}
        given_set = plan.conditioning_set(t)
        assert set(given_set) <= others
        assert fits(given_set, child, source, sizes, n_rows) or not given_set
        assert given_set == tuple(sorted(others)) or not fits(others, child, source, sizes, n_rows)


def fits(members: Iterable[int], child: int, source: int, sizes: np.ndarray, n_rows: int) -> bool:
    strata = math.prod(int(sizes[v]) for v in members)
    if source < 0:
        return strata * 10 <= n_rows and strata * sizes[child] <= 8192
    return bool(strata * sizes[child] * sizes[source] * 5 <= n_rows)


@given(n_nodes=st.integers(2, 9), n_rows=st.integers(1, 5000), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_every_pair_is_tested_as_documented(n_nodes: int, n_rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dag = random_dag(n_nodes, n_nodes * (n_nodes - 1) // 4, seed=rng)
    found = ties(make_plan(dag, rng.integers(1, 7, n_nodes), n_rows))
    for x, y in combinations(dag.nodes, 2):
        ways = [way for way in ((x, y), (y, x)) if way in found]
        assert len(ways) == 1 or found[x, y] != found[y, x]
        assert ((y, x) if (y, x) in dag.edges else (x, y)) in ways


def check_layout(plan: Plan, sizes: np.ndarray) -> None:
    """Cells follow each other without gaps, and tables of one split stand together."""
    tables = plan.tables
    cells = []
    for t in range(len(tables.child)):
        ends = [v for v in (tables.child[t], tables.source[t]) if v >= 0]
        assert tables.strata[t] == math.prod(int(sizes[v]) for v in plan.conditioning_set(t))
        cells.append(int(tables.strata[t]) * math.prod(int(sizes[v]) for v in ends))
    assert np.diff(tables.first).tolist() == cells
    assert tables.first[0] == 0
    assert plan.n_cells == sum(cells)
    assert tables.cards.tolist() == sizes.tolist()
    assert sorted(tables.order.tolist()) == list(range(len(cells)))
    splits = [(int(tables.child[t]), plan.conditioning_set(t)) for t in tables.order.tolist()]
    changes = sum(a != b for a, b in zip(splits[1:], splits[:-1], strict=True))
    assert changes == len(set(splits)) - 1


def test_a_plan_keeps_its_tests_over_more_levels() -> None:
    plan = make_plan(DAG, cards(2, 2, 2, 2, 1), 200)
    wider = with_cards(plan, cards(2, 9, 2, 3, 2), 200)
    assert ties(wider) == ties(plan)
    assert [wider.conditioning_set(v) for v in range(5)] == [
        plan.conditioning_set(v) for v in range(5)
    ]
    check_layout(wider, cards(2, 9, 2, 3, 2))
    check_layout(plan, cards(2, 2, 2, 2, 1))


def test_sets_of_any_number_of_parents_are_trimmed_to_the_rows() -> None:
    names = [f"v{i:02}" for i in range(40)]
    dag = Dag(names, [(x, y) for x, y in combinations(names, 2)])
    for levels in (2, 4, 5, 34):
        plan = make_plan(dag, cards(*[levels] * 40), 2000)
        check_layout(plan, cards(*[levels] * 40))
        strata, ends = plan.tables.strata[40:].astype(int), levels**2
        assert np.all((strata == 1) | (strata * ends * 5 <= 2000))
        assert np.all(plan.tables.strata[:40] * 10 <= 2000)
        assert plan.tables.strata.min() >= 1


def test_sets_whose_levels_become_too_many_for_the_rows_are_trimmed() -> None:
    names = [f"v{i:02}" for i in range(12)]
    dag = Dag(names, [(x, y) for x, y in combinations(names, 2)])
    plan = make_plan(dag, cards(*[2] * 12), 5000)
    wider = with_cards(plan, cards(*[34] * 12), 5000)
    check_layout(wider, cards(*[34] * 12))
    assert max(len(plan.conditioning_set(t)) for t in range(len(plan.tables.child))) == 8
    assert np.diff(wider.tables.first).max() <= 5000 * 34
    assert [wider.pair_of(i) for i in range(wider.n_pair_tests)] == [
        plan.pair_of(i) for i in range(plan.n_pair_tests)
    ]


@pytest.mark.parametrize(("nodes", "sizes"), [("", ()), ("a", (3,))])
def test_a_plan_of_one_node_or_none_has_no_pairs(nodes: str, sizes: tuple[int, ...]) -> None:
    plan = make_plan(Dag(nodes), cards(*sizes), 100)
    assert (plan.n_nodes, plan.n_pair_tests, plan.n_cells) == (len(nodes), 0, sum(sizes))


def test_a_window_is_counted_by_the_numbers_of_the_regime() -> None:
    rng = np.random.default_rng(4)
    codes = (rng.integers(0, 3, (5, 333)) * 5).astype(np.uint8)
    codes[2] = codes[0]  # a level of c less than a has would do no harm either
    levels = LevelMap(5)
    levels.learn(np.full((5, 1), 10, np.uint8))
    levels.learn(codes)
    plan = make_plan(DAG, levels.cards, 333)
    counts = plan.count(PackedTable(codes, "abcde"), levels.apply(codes), levels)
    for t in range(len(plan.tables.child)):
        ends = [int(v) for v in (plan.tables.child[t], plan.tables.source[t]) if v >= 0]
        members = (*plan.conditioning_set(t), *ends)
        expected = reference.cell_counts(levels.apply(codes), levels.cards.tolist(), members)
        assert counts[plan.tables.first[t] : plan.tables.first[t + 1]].tolist() == expected


# Numbers of codes, in the order in which they first occurred.

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
    assert not levels.learn_packed(PackedTable(np.array([[7, 7]], np.uint8), "a"))
    np.testing.assert_array_equal(levels.number, before)


@given(seed=seeds)
@settings(max_examples=40)
def test_numbers_learned_from_a_packed_table_are_those_learned_from_codes(seed: int) -> None:
    by_codes, by_test = LevelMap(4), LevelMap(4)
    for codes in draw_windows(seed):
        grown = by_codes.learn(codes)
        assert by_test.learn_packed(PackedTable(codes, NAMES)) is grown
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
    test = PackedTable(codes, NAMES)
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


def test_codes_numbered_already_stay_as_they_are() -> None:
    codes = np.array([[3, 0, 251]], np.uint8)
    identity = LevelMap.identity(1)
    assert not identity.learn(codes)
    np.testing.assert_array_equal(identity.apply(codes), codes)
    places = identity.places(PackedTable(codes, "a"))
    assert np.flatnonzero(places[0] >= 0).tolist() == [0, 3, 251]


# Several fields of each row as one number.

MANY_CARDS = st.lists(st.integers(1, 34), min_size=1, max_size=60)


@given(cards=MANY_CARDS, room=st.integers(0, 10**6))
@settings(deadline=None)
def test_a_set_is_trimmed_by_exact_products(cards: list[int], room: int) -> None:
    members = list(range(len(cards)))
    while members and math.prod(cards[v] for v in members) > room:
        members.remove(max(members, key=lambda v: (cards[v], v)))
    assert trimmed(range(len(cards)), np.array(cards), room) == tuple(members)


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
