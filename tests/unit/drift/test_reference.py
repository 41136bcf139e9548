"""The reference: how it grows, what it is compared with, and how it comes back from its parts."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from driftbn.config import DecisionConfig, Knowledge, LearnerConfig
from driftbn.datasets import asia, remove_edge, sample_codes
from driftbn.drift.comparison import Comparison, PooledWindows, bursts, clocks_in
from driftbn.drift.reference import LearnedWindow, Regime
from driftbn.graphs.graph import Pdag
from driftbn.learning import Overrun, StructureLearner, learn_structure
from tests.drift_streams import DriftStream, Repeats

NAMES = sorted(asia().nodes)
LEARNER = StructureLearner()
N_ROWS = 400


def window(seed: int, n_rows: int = N_ROWS, learner: StructureLearner = LEARNER) -> LearnedWindow:
    network = asia()
    order = [network.index(name) for name in NAMES]
    codes = sample_codes(network, n_rows, np.random.default_rng(seed))[order]
    return learner.learn_window(codes, NAMES)


def grown(n_windows: int, **settings: object) -> Regime:
    config = DecisionConfig(**settings)  # type: ignore[arg-type]
    regime = Regime(3, config, LEARNER, window(0))
    for seed in range(1, n_windows):
        regime.absorb(regime.counted(window(seed)))
    return regime


def counted(regime: Regime, codes: list[np.ndarray]) -> np.ndarray:
    """Count rows cell by cell."""
    tables = regime.plan.tables
    pooled = np.concatenate(codes, axis=1).astype(np.int64)
    counts = []
    for t in range(len(tables.child)):
        members = [*regime.plan.conditioning_set(t), int(tables.child[t])]
        members += [int(tables.source[t])] if tables.source[t] >= 0 else []
        cards = tables.cards[members]
        code = np.zeros(pooled.shape[1], np.int64)
        for v, card in zip(members, cards, strict=True):
            code = code * card + pooled[v]
        counts.append(np.bincount(code, minlength=int(np.prod(cards))))
    return np.concatenate(counts)


def as_read(regime: Regime, *seeds: int) -> list[np.ndarray]:
    return [regime.levels.apply(window(seed).codes) for seed in seeds]


ROWS = np.arange(N_ROWS)
WALK = np.cumsum(np.random.default_rng(1).choice([-1, 1], N_ROWS)) % 97


@pytest.mark.parametrize(
    ("row", "is_clock"),
    [
        (ROWS // 2 % 24, True),  # an hour
        (ROWS // 10 % 7, True),  # a day of the week
        (np.where(ROWS == 100, 3, ROWS // 2 % 24), True),  # a clock that was wrong once
        (ROWS // 100, True),  # a date
        (ROWS % 2, False),  # of two levels nobody can tell
        (np.random.default_rng(1).integers(0, 4, N_ROWS), False),
        (np.minimum(WALK // 10, 9), False),  # a slow sensor goes back
        (np.zeros(N_ROWS), False),
    ],
)
def test_what_can_only_go_on_is_a_clock(row: np.ndarray, is_clock: bool) -> None:
    assert clocks_in(row[np.newaxis].astype(np.uint8)).tolist() == [is_clock]


@pytest.mark.parametrize("n_windows", [1, 2, 3, 5, 8, 11])
def test_the_reference_holds_the_first_windows(n_windows: int) -> None:
    regime = grown(n_windows)
    n_held = min(n_windows, 8)
    assert regime.full == (n_windows >= 8)
    np.testing.assert_array_equal(
        np.concatenate(regime.windows, axis=1),
        np.concatenate(as_read(regime, *range(n_held)), axis=1),
    )
    np.testing.assert_array_equal(
        regime.pool.counts, counted(regime, as_read(regime, *range(n_held)))
    )


def test_a_large_reference_holds_no_more_tables_than_a_small_one() -> None:
    small, large = (grown(n, reference_windows=n) for n in (8, 16))
    assert len(large.recent) == len(small.recent) < len(small.pool.parts)
    for part in large.pool.parts:
        assert part.node_counts.base is None  # no view that would keep the whole table
        assert len(part.node_counts) == large.plan.n_node_cells


@pytest.mark.parametrize("n_windows", [4, 7, 8, 9, 10, 12])
@pytest.mark.parametrize("scale", [1, 2, 4])
def test_the_newest_windows_are_compared_with_the_reference_before_them(
    n_windows: int, scale: int
) -> None:
    regime = grown(n_windows)
    compared = regime.compare_at(scale, regime.counted(window(99)))
    newer = [*range(n_windows - scale + 1, n_windows), 99]
    older = [seed for seed in range(min(n_windows, 8)) if seed not in newer]
    if not older:
        assert compared is None
        return
    assert compared is not None
    assert compared.newer.n_rows == scale * N_ROWS
    np.testing.assert_array_equal(compared.older.counts, counted(regime, as_read(regime, *older)))
    np.testing.assert_array_equal(compared.newer.counts, counted(regime, as_read(regime, *newer)))
    for group, seeds in ((compared.older, older), (compared.newer, newer)):
        rows = np.concatenate(group.windows, axis=1)
        np.testing.assert_array_equal(rows, np.concatenate(as_read(regime, *seeds), axis=1))


def test_there_is_nothing_older_than_too_few_windows() -> None:
    regime = grown(2)
    group = regime.counted(window(99))
    assert regime.compare_at(2, group) is not None
    assert regime.compare_at(4, group) is None
    assert grown(1).compare_at(2, group) is None


def test_the_graph_is_learned_again_on_all_windows() -> None:
    """One window of 400 rows has too few for all edges that eight have."""
    skeletons = [grown(n).learned.graph.skeleton for n in (1, 8)]
    assert skeletons[0] != skeletons[1]
    assert set(grown(8).dag.to_pdag().skeleton) <= set(asia().dag.to_pdag().skeleton) | {
        ("dysp", "either"),
        ("lung", "xray"),
    }


def test_a_search_that_is_stopped_leaves_the_graph_as_it_is() -> None:
    learner = StructureLearner(LearnerConfig(max_tests=1))
    regime = Regime(0, DecisionConfig(), learner, window(0))
    before = regime.dag
    for seed in range(1, 8):
        regime.absorb(regime.counted(window(seed)))
    assert regime.dag == before
    assert regime.relearned is not None
    assert regime.relearned.overrun is Overrun.TESTS


def test_the_graph_is_learned_again_within_the_deadline_and_from_the_tallies_before() -> None:
    readings = iter([0.0])
    late = LearnerConfig(deadline_seconds=1.0)
    learner = StructureLearner(late, clock=lambda: next(readings, 5.0))
    regime = Regime(0, DecisionConfig(), learner, window(0))
    regime.absorb(regime.counted(window(1)))
    assert regime.relearned is not None
    assert regime.relearned.overrun is Overrun.DEADLINE
    assert regime.relearned.cost.warm
    assert regime.branch().relearned is None


def test_a_level_met_later_is_counted_too() -> None:
    regime = grown(5)
    codes = window(5).codes.copy()
    codes[2, ::10] = 7
    group = regime.counted(LEARNER.learn_window(codes, NAMES))
    assert regime.levels.cards.tolist() == [2, 2, 3, 2, 2, 2, 2, 2]
    rows = as_read(regime, *range(5))
    np.testing.assert_array_equal(regime.pool.counts, counted(regime, rows))
    np.testing.assert_array_equal(group.counts, counted(regime, [regime.levels.apply(codes)]))
    assert regime.compare(group).node_p_values[2] < 1e-5
    for scale in (2, 4):
        assert regime.compare_at(scale, group) is not None


def same(one: Comparison | None, other: Comparison | None) -> None:
    assert (one is None) == (other is None)
    if one is None or other is None:
        return
    np.testing.assert_array_equal(one.node_p_values, other.node_p_values)
    np.testing.assert_array_equal(one.pair_p_values, other.pair_p_values)
    assert [one.node_p_value(v) for v in range(8)] == [other.node_p_value(v) for v in range(8)]


@pytest.mark.parametrize("n_windows", [1, 3, 6, 10])
@pytest.mark.parametrize("reference_windows", [2, 8])
def test_a_regime_comes_back_from_its_state(n_windows: int, reference_windows: int) -> None:
    regime = grown(n_windows, reference_windows=reference_windows)
    again = Regime.from_state(regime.state(), regime.config, LEARNER)
    assert again.number == 3
    assert again.parents == regime.parents
    for seed in (50, 51, 52):
        groups: list[PooledWindows] = [r.counted(window(seed)) for r in (regime, again)]
        for scale in regime.config.scales:
            same(regime.compare_at(scale, groups[0]), again.compare_at(scale, groups[1]))
        regime.absorb(groups[0])
        again.absorb(groups[1])
        assert again.dag == regime.dag


def test_the_dispersion_inside_windows_comes_back_with_a_regime() -> None:
    stream = DriftStream(asia(), bursts=Repeats(5), seed=1)
    order = [stream.before.index(name) for name in NAMES]
    first, *others = (
        LEARNER.learn_window(codes[order], NAMES) for codes in islice(stream.batches(2000), 5)
    )
    regime = Regime(0, DecisionConfig(), LEARNER, first)
    for one in others:
        regime.absorb(regime.counted(one))
    again = Regime.from_state(regime.state(), regime.config, LEARNER)
    assert regime.effects.max() > 2.0
    mean = np.mean([one.effects for one in (first, *others)], axis=0)
    np.testing.assert_allclose(regime.effects, mean)
    for scatter in (regime.scatter(regime.pool), again.scatter(again.pool)):
        np.testing.assert_array_equal(scatter.effects, 1.0 + bursts(regime.plan, regime.effects))
    known, kept = (one.scatter(one.pool).weights for one in (regime, again))
    np.testing.assert_array_equal(known[1], kept[1])


def test_an_archived_regime_keeps_its_newest_windows() -> None:
    regime = grown(7)
    regime.trim(4)
    rows = as_read(regime, 3, 4, 5, 6)
    np.testing.assert_array_equal(np.concatenate(regime.windows, axis=1), np.hstack(rows))
    np.testing.assert_array_equal(regime.pool.counts, counted(regime, rows))
    assert regime.recent == []
    regime.absorb(regime.counted(window(7)))
    assert len(regime.windows) == 5
    assert regime.compare_at(2, regime.counted(window(8))) is not None


def test_a_small_regime_is_archived_whole() -> None:
    regime = grown(3)
    before = regime.pool.counts.copy()
    regime.trim(4)
    assert len(regime.windows) == 3
    np.testing.assert_array_equal(regime.pool.counts, before)


def test_counting_a_window_does_not_absorb_it() -> None:
    regime = grown(4)
    before = regime.pool.counts.copy()
    after = remove_edge(asia(), "smoke", "bronc").network
    order = [after.index(name) for name in NAMES]
    codes = sample_codes(after, N_ROWS, np.random.default_rng(1))[order]
    regime.compare(regime.counted(LEARNER.learn_window(codes, NAMES)))
    np.testing.assert_array_equal(regime.pool.counts, before)
    assert len(regime.windows) == 4


# Windows learned, with twins joined on and corrected for dispersion.


def chain(n_fields: int, n_rows: int = 1500, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, (n_fields, n_rows)).astype(np.uint8)
    for v in range(1, n_fields):
        follows = rng.random(n_rows) < 0.7
        codes[v, follows] = codes[v - 1, follows]
    return codes


def test_a_window_is_learned_as_by_one_call() -> None:
    codes = chain(4)
    found = LEARNER.learn_window(codes, "abcd", dependent_rows=False)
    expected = learn_structure({name: codes[v] for v, name in enumerate("abcd")})
    assert found.learned.graph == expected.graph
    assert found.names == tuple("abcd")
    assert found.twins == {}
    assert found.effects.tolist() == [1.0] * 4


def test_a_twin_hangs_on_the_first_of_its_kind_alone() -> None:
    codes = chain(4)
    with_twins = np.vstack([codes, 2 - codes[1], codes[1]])
    found = LEARNER.learn_window(with_twins, "abcdef")
    plain = LEARNER.learn_window(codes, "abcd").learned.graph
    assert found.twins == {4: 1, 5: 1}
    assert found.learned.graph == Pdag(
        "abcdef", plain.directed_edges, [*plain.undirected_edges, ("b", "e"), ("b", "f")]
    )


def test_twins_have_no_part_in_the_search() -> None:
    codes = np.vstack([chain(4), chain(4)[2]])
    found = LEARNER.learn_window(codes, "abcde")
    assert sorted(found.learned.tallies.names) == list("abcd")
    assert found.table.names == tuple("abcde")
    assert found.learned.cost.tests[0] == 6


@pytest.mark.parametrize("first", [True, False])
def test_a_search_may_start_from_one_with_other_twins(first: bool) -> None:
    plain, with_twins = chain(5, seed=2), chain(5, seed=3)
    with_twins[4] = with_twins[0]
    windows = [with_twins, plain] if first else [plain, with_twins]
    before = LEARNER.learn_window(windows[0], "abcde")
    after = LEARNER.learn_window(windows[1], "abcde", before.learned)
    assert after.learned.cost.warm
    cold = LEARNER.learn_window(windows[1], "abcde").learned.graph
    assert after.learned.graph.skeleton == cold.skeleton


def test_what_is_known_of_a_twin_is_left_aside() -> None:
    learner = StructureLearner(knowledge=Knowledge(forbidden=[("e", "a"), ("b", "c")]))
    codes = np.vstack([chain(4), chain(4)[0]])
    graph = learner.learn_window(codes, "abcde").learned.graph
    assert ("b", "c") not in graph.directed_edges
    assert ("a", "e") in graph.undirected_edges


def bursty(n_rows: int = 3000, seed: int = 1) -> np.ndarray:
    network = asia()
    order = [network.index(name) for name in sorted(network.nodes)]
    return next(DriftStream(network, bursts=Repeats(6), seed=seed).batches(n_rows))[order]


def test_tests_are_corrected_for_bursts() -> None:
    names = sorted(asia().nodes)
    true_edges = asia().dag.to_pdag().skeleton
    n_wrong = {True: 0, False: 0}
    for seed in range(10):
        for careful in n_wrong:
            found = LEARNER.learn_window(bursty(seed=seed), names, dependent_rows=careful)
            n_wrong[careful] += len(found.learned.graph.skeleton - true_edges)
            assert (found.effects[names.index("smoke")] > 4.0) == careful
    assert 4 * n_wrong[True] < n_wrong[False]


def test_tests_among_twins_are_corrected_for_bursts_too() -> None:
    names = [*sorted(asia().nodes), "zz"]
    codes = np.vstack([bursty(), bursty()[NAMES.index("smoke")]])
    found = LEARNER.learn_window(codes, names)
    alone = LEARNER.learn_window(bursty(), NAMES)
    assert found.twins == {8: NAMES.index("smoke")}
    assert found.learned.graph.skeleton == alone.learned.graph.skeleton | {("smoke", "zz")}
    careless = LEARNER.learn_window(codes, names, dependent_rows=False)
    assert found.learned.graph.skeleton != careless.learned.graph.skeleton


def test_rows_taken_for_independent_have_no_effect() -> None:
    found = LEARNER.learn_window(bursty(), sorted(asia().nodes), dependent_rows=False)
    assert found.effects.tolist() == [1.0] * 8


def test_a_limit_stops_the_search_with_twins_too() -> None:
    learner = StructureLearner(LearnerConfig(max_tests=1))
    found = learner.learn_window(np.vstack([chain(4), chain(4)[0]]), "abcde")
    assert found.learned.overrun is not None
    assert ("a", "e") in found.learned.graph.skeleton
