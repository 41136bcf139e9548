"""The fewest changes of a graph that explain new windows, on rows made by hand."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from itertools import product

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from driftbn.drift.naming import (
    Ambiguity,
    Edit,
    EditRows,
    EditSearch,
    FamilyScores,
    MutualInformation,
    Parents,
    information_given,
    information_in,
    reaches,
)
from driftbn.drift.outcome import ChangeType
from tests import reference_decision as reference

ADDED, REMOVED, REVERSED = ChangeType.ADDED, ChangeType.REMOVED, ChangeType.REVERSED


def draw(
    order: list[int], parents: Mapping[int, list[int]], seed: int, kept: float = 0.6
) -> np.ndarray:
    """Draw yes and no; a field with parents follows whether all of them say yes, mostly."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 2, (len(order), 3000)).astype(np.uint8)
    for v in order:
        if parents.get(v):
            said = np.all(codes[parents[v]] == 1, axis=0)
            follows = rng.random(3000) < kept
            codes[v, follows] = said[follows]
    return codes


def graph(n_fields: int, **parents: set[int]) -> Parents:
    """Write the parents of a field as ``_1={0, 2}``."""
    given = {int(name[1:]): frozenset(value) for name, value in parents.items()}
    return {v: given.get(v, frozenset()) for v in range(n_fields)}


def search(
    before: Parents,
    earlier: np.ndarray,
    newer: np.ndarray,
    *,
    effect: float = 1.0,
    separators: Mapping[tuple[int, int], tuple[int, ...]] | None = None,
    sure: bool = True,
) -> EditSearch:
    n_fields = len(before)
    certain = before if sure else graph(n_fields)
    ambiguity = Ambiguity([not sure] * n_fields, certain, separators or {})
    cards = np.full(n_fields, 2)
    return EditSearch(
        before, EditRows([earlier], [newer], cards), np.full(n_fields, effect), ambiguity
    )


def test_an_edge_whose_association_is_absent_now_is_removed() -> None:
    earlier, newer = draw([0, 1, 2], {1: [0], 2: [1]}, 1), draw([0, 1, 2], {1: [0]}, 2)
    found = search(graph(3, _1={0}, _2={1}), earlier, newer).run([(1, 2)], [2])
    assert found == [Edit(REMOVED, 1, 2)]


def test_an_edge_that_is_weaker_is_not_removed() -> None:
    earlier, newer = draw([0, 1], {1: [0]}, 1), draw([0, 1], {1: [0]}, 2, kept=0.3)
    assert search(graph(2, _1={0}), earlier, newer).run([(0, 1)], [1]) == []


def exact(share: float) -> np.ndarray:
    """Two fields that agree in exactly this share of 3000 rows."""
    agree = round(share * 1500)
    second = [np.repeat([x, 1 - x], [agree, 1500 - agree]) for x in (0, 1)]
    return np.vstack([np.repeat([0, 1], 1500), np.concatenate(second)]).astype(np.uint8)


def test_an_edge_of_which_a_third_remains_is_not_removed() -> None:
    """In neither of the later windows is it there by a test."""
    for later, edits in ((0.526, []), (0.515, [Edit(REMOVED, 0, 1)])):
        found = search(graph(2, _1={0}), exact(0.545), exact(later))
        assert found.run([(0, 1)], [1]) == edits


def test_an_edge_is_removed_if_only_its_child_for_a_parent_still_joins_the_ends() -> None:
    """1 and 2 lead to 0; the reference, where 1 leads to 2 as well, may take 0 for a parent."""
    before = graph(3, _1={0}, _2={0, 1})
    earlier = draw([1, 2, 0], {2: [1], 0: [1, 2]}, 1)
    newer = draw([1, 2, 0], {0: [1, 2]}, 2, kept=0.9)
    for sure, edits in ((True, []), (False, [Edit(REMOVED, 1, 2)])):
        found = search(before, earlier, newer, separators={(1, 2): ()}, sure=sure)
        assert found.run([(1, 2)], [2]) == edits


def test_an_edge_that_nothing_points_at_is_left_alone() -> None:
    earlier, newer = draw([0, 1, 2], {1: [0], 2: [1]}, 1), draw([0, 1, 2], {1: [0]}, 2)
    assert search(graph(3, _1={0}, _2={1}), earlier, newer).run([], []) == []


def test_an_edge_whose_association_is_new_is_added() -> None:
    earlier, newer = draw([0, 1, 2], {1: [0]}, 1), draw([0, 1, 2], {1: [0], 2: [1]}, 2)
    (edit,) = search(graph(3, _1={0}), earlier, newer).run([(1, 2)], [])
    assert (edit.kind, {edit.source, edit.target}) == (ADDED, {1, 2})


def test_an_added_edge_closes_no_cycle() -> None:
    """0 leads to 1, so that an edge between 0 and 2, where 2 follows 1, can only point to 2."""
    before = graph(3, _1={0}, _2={1})
    earlier = draw([0, 1, 2], {1: [0], 2: [1]}, 1)
    newer = draw([0, 1, 2], {1: [0], 2: [0, 1]}, 2)
    found = search(before, earlier, newer).run([(0, 2)], [])
    assert found == [Edit(ADDED, 0, 2)]


def test_an_edge_that_was_there_before_is_no_addition() -> None:
    """The reference graph lacks it; the windows of the reference have it."""
    earlier, newer = draw([0, 1], {1: [0]}, 1), draw([0, 1], {1: [0]}, 2)
    assert search(graph(2), earlier, newer).run([(0, 1)], [0]) == []


def test_an_echo_through_added_edges_is_not_named() -> None:
    """0 - 1 and 1 - 2 have come, so that 0 and 2 go together too."""
    earlier, newer = draw([0, 1, 2], {}, 1), draw([0, 1, 2], {1: [0], 2: [1]}, 2, kept=0.8)
    found = search(graph(3), earlier, newer).run([(0, 1), (0, 2), (1, 2)], [0, 1, 2])
    assert {(edit.kind, *sorted((edit.source, edit.target))) for edit in found} == {
        (ADDED, 0, 1),
        (ADDED, 1, 2),
    }


def test_an_echo_down_an_old_edge_is_not_named() -> None:
    before = graph(3, _2={1})
    earlier = draw([0, 1, 2], {2: [1]}, 1, kept=0.8)
    newer = draw([0, 1, 2], {1: [0], 2: [1]}, 2, kept=0.8)
    found = search(before, earlier, newer).run([(0, 1), (0, 2)], [1])
    assert [(edit.kind, {edit.source, edit.target}) for edit in found] == [(ADDED, {0, 1})]


def test_an_edge_must_be_seen_given_the_parents_of_either_end() -> None:
    """What 0 says of 2, it says through 1, the parent of 2."""
    before = graph(3, _2={1})
    earlier = draw([0, 1, 2], {2: [1]}, 1, kept=0.8)
    newer = draw([0, 1, 2], {1: [0], 2: [1]}, 2, kept=0.8)
    assert search(before, earlier, newer).run([(0, 2)], [1]) == []


@pytest.mark.parametrize("seed", [1, 4])
def test_an_added_edge_that_later_ones_explain_is_dropped(seed: int) -> None:
    """3 follows 1 and 2, which both follow 0: what it says of 0 is as strong as what they say."""
    order = [0, 1, 2, 3]
    earlier = draw(order, {}, seed + 500)
    newer = draw(order, {1: [0], 2: [0], 3: [1, 2]}, seed, kept=0.9)
    pairs = [(x, y) for y in order for x in range(y)]
    found = search(graph(4), earlier, newer).run(pairs, order)
    named = {tuple(sorted((edit.source, edit.target))) for edit in found}
    assert named == {(0, 1), (0, 2), (1, 3), (2, 3)}


def test_an_edge_that_points_the_other_way_is_reversed() -> None:
    """0, 2 and 3 led to 1; now 2 and 3 lead to 1, and 1 to 0."""
    before = graph(4, _1={0, 2, 3})
    earlier = draw([0, 2, 3, 1], {1: [0, 2, 3]}, 1, kept=0.9)
    newer = draw([2, 3, 1, 0], {1: [2, 3], 0: [1]}, 2, kept=0.8)
    found = search(before, earlier, newer).run([], [0, 1])
    assert found == [Edit(REVERSED, 1, 0)]


def test_of_two_edges_that_might_be_reversed_the_other_is_as_it_was() -> None:
    """0 and 2 led to 1; then 2 to 1 and 1 to 0, which is as good as 0 to 1 and 1 to 2."""
    earlier = draw([0, 2, 1], {1: [0, 2]}, 1, kept=0.9)
    said = (earlier[1], earlier[2])
    share = [np.mean(said[0][said[1] == level]) for level in (0, 1)]
    for seed in range(2, 6):
        rng = np.random.default_rng(seed)
        newer = draw([2, 1, 0], {}, seed)
        newer[1] = rng.random(3000) < np.array(share)[newer[2]]
        follows = rng.random(3000) < 0.9
        newer[0, follows] = newer[1, follows]
        found = search(graph(3, _1={0, 2}), earlier, newer).run([(0, 1), (1, 2)], [1])
        assert found == [Edit(REVERSED, 1, 0)]


def test_parents_that_a_reversed_edge_joins_have_no_edge() -> None:
    """0 and 2 led to 1; now 0 depends on 2, through 1."""
    earlier = draw([0, 2, 1], {1: [0, 2]}, 1, kept=0.8)
    newer = draw([2, 1, 0], {1: [2], 0: [1]}, 2, kept=0.8)
    found = search(graph(3, _1={0, 2}), earlier, newer).run([(0, 2), (0, 1)], [1])
    assert [edit.kind for edit in found] == [REVERSED]


def test_a_field_that_follows_its_parents_as_before_has_no_edge_reversed() -> None:
    """The same rows as in the test above, and nothing says that 1 has changed."""
    earlier = draw([0, 2, 1], {1: [0, 2]}, 1, kept=0.8)
    newer = draw([2, 1, 0], {1: [2], 0: [1]}, 2, kept=0.8)
    found = search(graph(3, _1={0, 2}), earlier, newer).run([], [0, 2])
    assert found == []


def test_a_changed_table_of_many_levels_reverses_no_edge() -> None:
    """1 follows 0 and 2 by chance tables of 4 by 4 by 4; other tables, the same parents."""
    rng = np.random.default_rng(7)

    def rows(tables: np.ndarray) -> np.ndarray:
        codes = rng.integers(0, 4, (3, 5000)).astype(np.uint8)
        shares = np.cumsum(tables[codes[0], codes[2]], axis=1)
        codes[1] = np.minimum(np.sum(rng.random((5000, 1)) > shares, axis=1), 3)
        return codes

    before = rng.dirichlet(np.full(4, 20.0), (4, 4))
    after = rng.dirichlet(np.full(4, 20.0), (4, 4))
    ambiguity = Ambiguity([False] * 3, graph(3, _1={0, 2}), {})
    found = EditSearch(
        graph(3, _1={0, 2}),
        EditRows([rows(before)], [rows(after)], np.full(3, 4)),
        np.ones(3),
        ambiguity,
    )
    assert found.run([(0, 1), (1, 2)], [1]) == []


def test_a_free_edge_that_would_close_a_cycle_points_the_other_way() -> None:
    """0 leads to 3 through 1 and 2, by free edges; 3 follows 0 and 2 by another table."""
    order, parents = [0, 1, 2, 3], {1: [0], 2: [1], 3: [0, 2]}
    earlier = draw(order, parents, 1, kept=0.8)
    newer = draw(order, parents, 2, kept=0.8)
    newer[3] = 1 - newer[3]
    before = graph(4, _1={0}, _2={1}, _3={0, 2})
    ambiguity = Ambiguity([True, True, True, False], graph(4, _3={0, 2}), {})
    rows = EditRows([earlier], [newer], np.full(4, 2))
    assert EditSearch(before, rows, np.ones(4), ambiguity).run([(0, 3)], [3]) == []


def test_an_edge_that_only_the_other_parents_show_is_no_addition() -> None:
    """1 was whether 0 and 2 agree, mostly: no edge to 0 is seen without 2, the known parent."""
    rng = np.random.default_rng(8)
    earlier, newer = (rng.integers(0, 2, (3, 3000)).astype(np.uint8) for _ in range(2))
    agree = rng.random(3000) < 0.8
    earlier[1, agree] = (earlier[0] == earlier[2])[agree]
    newer[1, agree] = (newer[0] & newer[2])[agree]
    assert search(graph(3, _1={2}), earlier, newer).run([(0, 1)], [1]) == []
    unblamed = search(graph(3, _1={2}), earlier, newer).run([(0, 1)], [])
    assert [edit.kind for edit in unblamed] == [ADDED]


def test_an_edge_of_free_direction_is_not_reversed() -> None:
    earlier, newer = draw([0, 1], {1: [0]}, 1), draw([1, 0], {0: [1]}, 2)
    assert search(graph(2, _1={0}), earlier, newer).run([(0, 1)], [0, 1]) == []


def test_bursty_rows_need_a_stronger_sign() -> None:
    earlier, newer = draw([0, 1], {}, 1), draw([0, 1], {1: [0]}, 2, kept=0.1)
    assert len(search(graph(2), earlier, newer).run([(0, 1)], [0])) == 1
    assert search(graph(2), earlier, newer, effect=15.0).run([(0, 1)], [0]) == []


def test_what_the_new_graph_separates_is_no_edge_where_directions_are_free() -> None:
    """2 is between 0 and 1, and nobody has said so."""
    earlier, newer = draw([0, 1, 2], {}, 1), draw([0, 2, 1], {2: [0], 1: [2]}, 2, kept=0.8)
    hidden = {"separators": {(0, 1): (2,)}}
    assert search(graph(3), earlier, newer, sure=False, **hidden).run([(0, 1)], [2]) == []
    assert len(search(graph(3), earlier, newer, sure=True, **hidden).run([(0, 1)], [2])) == 1


def test_the_strongest_pair_is_named_where_nothing_else_is() -> None:
    earlier, newer = draw([0, 1, 2], {}, 1), draw([0, 2, 1], {2: [0], 1: [2]}, 2, kept=0.8)
    doubtful = search(graph(3), earlier, newer, sure=False, separators={(0, 1): (2,)})
    (edit,) = doubtful.run([(0, 1)], [])
    assert (edit.kind, {edit.source, edit.target}) == (ADDED, {0, 1})


def test_a_change_is_named_once_whatever_the_order_of_the_suspects() -> None:
    earlier, newer = draw([0, 1, 2], {}, 1), draw([0, 1, 2], {1: [0], 2: [1]}, 2, kept=0.8)
    one = search(graph(3), earlier, newer).run([(0, 1), (1, 2), (0, 2)], [0, 1, 2])
    other = search(graph(3), earlier, newer).run([(2, 1), (2, 0), (1, 0), (0, 1)], [2, 1, 0])
    assert one == other


def random_rows(rng: np.random.Generator, seed: int) -> tuple[dict[int, list[int]], np.ndarray]:
    order = rng.permutation(6).tolist()
    parents = {
        v: rng.choice(order[:i], min(i, int(rng.integers(0, 4))), replace=False).tolist()
        for i, v in enumerate(order)
    }
    return parents, draw(order, parents, seed, kept=0.8)


@pytest.mark.parametrize("seed", range(30))
def test_any_rows_and_any_ambiguity_give_an_answer(seed: int) -> None:
    """Graphs of six fields with free directions, new rows by another graph."""
    rng = np.random.default_rng(seed)
    (old, earlier), (_, newer) = (random_rows(rng, seed + i) for i in (0, 100))
    before = {v: frozenset(parents) for v, parents in old.items()}
    pairs = [(x, y) for x in range(6) for y in range(x)]
    found = search(before, earlier, newer, sure=False).run(pairs, range(6))
    named = [frozenset((edit.source, edit.target)) for edit in found]
    assert len(set(named)) == len(named)
    for edit in found:
        joined = edit.source in before[edit.target] or edit.target in before[edit.source]
        assert joined == (edit.kind is not ADDED)


# How well a field is explained by its parents.

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


def test_reversing_an_edge_is_weighed_against_keeping_and_removing_it() -> None:
    codes = chain(500)
    scores = FamilyScores([codes], np.full(4, 2))
    turned = fit(codes, 1, frozenset({0, 2})) + fit(codes, 2, frozenset())
    stayed = fit(codes, 1, frozenset({0})) + fit(codes, 2, frozenset({1}))
    gain = scores.gain_of_reversing(PARENTS, 1, 2)
    assert gain == pytest.approx(turned - stayed, abs=1e-9)
    spurious = {**PARENTS, 3: frozenset({2})}
    turned = fit(codes, 2, frozenset({1, 3})) + fit(codes, 3, frozenset())
    without = fit(codes, 2, frozenset({1})) + fit(codes, 3, frozenset())
    stayed = fit(codes, 2, frozenset({1})) + fit(codes, 3, frozenset({2}))
    gain = scores.gain_of_reversing(spurious, 2, 3)
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
    assert abs(scores.gain_of_reversing(parents, 0, 1)) < 15.0


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


# How strongly two fields are associated.


# P(x, y | z) for z = 0 and 1; the associations are of opposite sign.
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
    tie = information_in(table)
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
    assert information_in(table).spread == pytest.approx(np.var(terms), abs=1e-9)


def test_rows_of_all_windows_are_pooled() -> None:
    rng = np.random.default_rng(1)
    cards = np.array([2, 3, 4, 2])
    windows = [rng.integers(0, cards[:, None], (4, n)).astype(np.uint8) for n in (70, 1, 300)]
    pooled = np.concatenate(windows, axis=1)
    for pair, members in (((0, 1), ()), ((2, 0), (3,)), ((3, 1), (0, 2))):
        counts = reference.cell_counts(pooled, cards.tolist(), (*members, *pair))
        table = np.array(counts).reshape(-1, cards[pair[0]], cards[pair[1]])
        assert information_given(windows, cards, pair, members) == information_in(table)


def test_no_rows_say_nothing() -> None:
    tie = information_in(np.zeros((2, 2, 2), np.int32))
    assert tie.p_value() == 1.0
    assert tie.nats == 0.0
    assert (tie.association.low, tie.association.high) == (0.0, math.inf)


def test_nats_are_less_what_independent_fields_show() -> None:
    assert MutualInformation(raw=0.05, spread=0.1, dof=4.0, n_rows=100.0).nats == pytest.approx(
        0.03
    )
    assert MutualInformation(raw=0.01, spread=0.1, dof=4.0, n_rows=100.0).nats == 0.0


def test_independent_fields_have_nothing_in_the_mean() -> None:
    rng = np.random.default_rng(2)
    shares = np.outer([0.2, 0.3, 0.5], [0.4, 0.6]).ravel()
    tables = rng.multinomial(500, shares, 500).reshape(500, 1, 3, 2)
    ties = [information_in(table) for table in tables]
    bias = [tie.raw - tie.dof / (2.0 * tie.n_rows) for tie in ties]
    assert abs(np.mean(bias)) < 3e-4  # the raw mean is 2e-3
    assert np.mean([tie.p_value() < 0.05 for tie in ties]) == pytest.approx(0.05, abs=0.03)


def test_interval_holds_the_truth_in_95_of_100_samples() -> None:
    rng = np.random.default_rng(3)
    joint = SHARES[:, None, None] * STRONG / STRONG.sum((1, 2), keepdims=True)
    truth = information(joint)
    tables = rng.multinomial(800, joint.ravel(), 500).reshape(500, *joint.shape)
    intervals = [information_in(table).association for table in tables]
    held = np.mean([a.low <= truth <= a.high for a in intervals])
    assert 0.92 <= held <= 0.98
    assert all(a.low <= a.nats <= a.high for a in intervals)
    assert np.mean([a.nats for a in intervals]) == pytest.approx(truth, rel=0.02)


def test_p_value_is_that_of_g_corrected_for_the_design_effect() -> None:
    table = np.array([[[30, 20], [20, 30]], [[25, 15], [10, 30]]])
    g, dof = reference.g_and_dof(table)
    tie = information_in(table)
    assert tie.p_value() == pytest.approx(chi2.sf(g, dof))
    assert tie.p_value(4.0) == pytest.approx(chi2.sf(g / 4.0, dof))
    assert tie.p_value(4.0) > tie.p_value()
