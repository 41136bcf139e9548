"""The fewest changes of a graph that explain new windows, on rows made by hand."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from driftbn.decision.edits import Doubts, Edit, EditSearch, Rows
from driftbn.decision.families import Parents
from driftbn.decision.outcome import ChangeType

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
    doubts = Doubts([not sure] * n_fields, certain, separators or {})
    cards = np.full(n_fields, 2)
    return EditSearch(before, Rows([earlier], [newer], cards), np.full(n_fields, effect), doubts)


def test_an_edge_that_is_gone_is_removed() -> None:
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


def test_an_edge_of_which_a_third_is_left_is_not_gone() -> None:
    """In neither of the later windows is it there by a test."""
    for later, edits in ((0.526, []), (0.515, [Edit(REMOVED, 0, 1)])):
        found = search(graph(2, _1={0}), exact(0.545), exact(later))
        assert found.run([(0, 1)], [1]) == edits


def test_an_edge_that_nothing_points_at_is_left_alone() -> None:
    earlier, newer = draw([0, 1, 2], {1: [0], 2: [1]}, 1), draw([0, 1, 2], {1: [0]}, 2)
    assert search(graph(3, _1={0}, _2={1}), earlier, newer).run([], []) == []


def test_an_edge_that_has_come_is_added() -> None:
    earlier, newer = draw([0, 1, 2], {1: [0]}, 1), draw([0, 1, 2], {1: [0], 2: [1]}, 2)
    (edit,) = search(graph(3, _1={0}), earlier, newer).run([(1, 2)], [])
    assert (edit.kind, {edit.source, edit.target}) == (ADDED, {1, 2})


def test_an_added_edge_closes_no_circle() -> None:
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
def test_an_edge_that_later_ones_explain_is_taken_back(seed: int) -> None:
    """3 follows 1 and 2, which both follow 0: what it says of 0 is as strong as what they say."""
    order = [0, 1, 2, 3]
    earlier = draw(order, {}, seed + 500)
    newer = draw(order, {1: [0], 2: [0], 3: [1, 2]}, seed, kept=0.9)
    pairs = [(x, y) for y in order for x in range(y)]
    found = search(graph(4), earlier, newer).run(pairs, order)
    named = {tuple(sorted((edit.source, edit.target))) for edit in found}
    assert named == {(0, 1), (0, 2), (1, 3), (2, 3)}


def test_an_edge_that_points_the_other_way_is_turned() -> None:
    """0, 2 and 3 led to 1; now 2 and 3 lead to 1, and 1 to 0."""
    before = graph(4, _1={0, 2, 3})
    earlier = draw([0, 2, 3, 1], {1: [0, 2, 3]}, 1, kept=0.9)
    newer = draw([2, 3, 1, 0], {1: [2, 3], 0: [1]}, 2, kept=0.8)
    found = search(before, earlier, newer).run([], [0, 1])
    assert found == [Edit(REVERSED, 1, 0)]


def test_of_two_edges_that_might_be_turned_the_other_is_as_it_was() -> None:
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


def test_parents_that_a_turned_edge_brings_together_have_no_edge() -> None:
    """0 and 2 led to 1; now 0 depends on 2, through 1."""
    earlier = draw([0, 2, 1], {1: [0, 2]}, 1, kept=0.8)
    newer = draw([2, 1, 0], {1: [2], 0: [1]}, 2, kept=0.8)
    found = search(graph(3, _1={0, 2}), earlier, newer).run([(0, 2), (0, 1)], [1])
    assert [edit.kind for edit in found] == [REVERSED]


def test_a_field_that_follows_its_parents_as_before_has_no_edge_turned() -> None:
    """The same rows as in the test above, and nothing says that 1 has changed."""
    earlier = draw([0, 2, 1], {1: [0, 2]}, 1, kept=0.8)
    newer = draw([2, 1, 0], {1: [2], 0: [1]}, 2, kept=0.8)
    found = search(graph(3, _1={0, 2}), earlier, newer).run([], [0, 2])
    assert found == []


def test_a_changed_table_of_many_levels_turns_no_edge() -> None:
    """1 follows 0 and 2 by chance tables of 4 by 4 by 4; other tables, the same parents."""
    rng = np.random.default_rng(7)

    def rows(tables: np.ndarray) -> np.ndarray:
        codes = rng.integers(0, 4, (3, 5000)).astype(np.uint8)
        shares = np.cumsum(tables[codes[0], codes[2]], axis=1)
        codes[1] = np.minimum(np.sum(rng.random((5000, 1)) > shares, axis=1), 3)
        return codes

    before = rng.dirichlet(np.full(4, 20.0), (4, 4))
    after = rng.dirichlet(np.full(4, 20.0), (4, 4))
    doubts = Doubts([False] * 3, graph(3, _1={0, 2}), {})
    found = EditSearch(
        graph(3, _1={0, 2}), Rows([rows(before)], [rows(after)], np.full(3, 4)), np.ones(3), doubts
    )
    assert found.run([(0, 1), (1, 2)], [1]) == []


def test_a_free_edge_that_would_close_a_circle_points_the_other_way() -> None:
    """0 leads to 3 through 1 and 2, by free edges; 3 follows 0 and 2 by another table."""
    order, parents = [0, 1, 2, 3], {1: [0], 2: [1], 3: [0, 2]}
    earlier = draw(order, parents, 1, kept=0.8)
    newer = draw(order, parents, 2, kept=0.8)
    newer[3] = 1 - newer[3]
    before = graph(4, _1={0}, _2={1}, _3={0, 2})
    doubts = Doubts([True, True, True, False], graph(4, _3={0, 2}), {})
    rows = Rows([earlier], [newer], np.full(4, 2))
    assert EditSearch(before, rows, np.ones(4), doubts).run([(0, 3)], [3]) == []


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


def test_an_edge_of_free_direction_is_not_turned() -> None:
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
def test_any_rows_and_any_doubts_give_an_answer(seed: int) -> None:
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
