"""The reference: how it grows, what it is compared with, and how it comes back from its parts."""

from __future__ import annotations

import numpy as np
import pytest

from driftbn.config import LearnerConfig
from driftbn.datasets import asia, remove_edge
from driftbn.datasets.sampling import sample_codes
from driftbn.decision.comparison import Comparison
from driftbn.decision.evidence import WindowEvidence, learn_rows
from driftbn.decision.group import Group
from driftbn.decision.regime import Regime
from driftbn.decision.settings import DecisionConfig
from driftbn.learning import StructureLearner

NAMES = sorted(asia().nodes)
LEARNER = StructureLearner()
N_ROWS = 400


def window(seed: int, n_rows: int = N_ROWS, learner: StructureLearner = LEARNER) -> WindowEvidence:
    network = asia()
    order = [network.index(name) for name in NAMES]
    codes = sample_codes(network, n_rows, np.random.default_rng(seed))[order]
    return learn_rows(learner, codes, NAMES)


def grown(n_windows: int, **settings: object) -> Regime:
    config = DecisionConfig(**{"scales": (1, 2, 4), **settings})  # type: ignore[arg-type]
    regime = Regime(3, config, LEARNER, window(0))
    for seed in range(1, n_windows):
        regime.join(regime.read(window(seed)))
    return regime


def counted(regime: Regime, codes: list[np.ndarray]) -> np.ndarray:
    """Count rows cell by cell."""
    tables = regime.plan.tables
    pooled = np.concatenate(codes, axis=1).astype(np.int64)
    counts = []
    for t in range(len(tables.child)):
        members = [*regime.plan.given(t), int(tables.child[t])]
        members += [int(tables.source[t])] if tables.source[t] >= 0 else []
        cards = tables.cards[members]
        code = np.zeros(pooled.shape[1], np.int64)
        for v, card in zip(members, cards, strict=True):
            code = code * card + pooled[v]
        counts.append(np.bincount(code, minlength=int(np.prod(cards))))
    return np.concatenate(counts)


def as_read(regime: Regime, *seeds: int) -> list[np.ndarray]:
    return [regime.levels.apply(window(seed).codes) for seed in seeds]


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


@pytest.mark.parametrize("n_windows", [4, 7, 8, 9, 10, 12])
@pytest.mark.parametrize("scale", [1, 2, 4])
def test_the_newest_windows_are_compared_with_the_reference_before_them(
    n_windows: int, scale: int
) -> None:
    regime = grown(n_windows)
    compared = regime.compare_at(scale, regime.read(window(99)))
    newer = [*range(n_windows - scale + 1, n_windows), 99]
    older = [seed for seed in range(min(n_windows, 8)) if seed not in newer]
    if not older:
        assert compared is None
        return
    assert compared is not None
    assert compared.b.n_rows == scale * N_ROWS
    np.testing.assert_array_equal(compared.a.counts, counted(regime, as_read(regime, *older)))
    np.testing.assert_array_equal(compared.b.counts, counted(regime, as_read(regime, *newer)))
    for group, seeds in ((compared.a, older), (compared.b, newer)):
        rows = np.concatenate(group.windows, axis=1)
        np.testing.assert_array_equal(rows, np.concatenate(as_read(regime, *seeds), axis=1))


def test_there_is_nothing_older_than_too_few_windows() -> None:
    regime = grown(2)
    group = regime.read(window(99))
    assert regime.compare_at(2, group) is not None
    assert regime.compare_at(4, group) is None
    assert grown(1).compare_at(2, group) is None


def test_the_graph_is_learned_again_on_all_windows() -> None:
    """One window of 400 rows has too few for the edges that eight have."""
    n_edges = [len(grown(n).dag.edges) for n in (1, 8)]
    assert n_edges[0] < n_edges[1]
    assert set(grown(8).dag.to_pdag().skeleton) <= set(asia().dag.to_pdag().skeleton) | {
        ("dysp", "either"),
        ("lung", "xray"),
    }


def test_a_search_that_is_stopped_leaves_the_graph_as_it_is() -> None:
    learner = StructureLearner(LearnerConfig(max_tests=1))
    regime = Regime(0, DecisionConfig(), learner, window(0))
    before = regime.dag
    for seed in range(1, 8):
        regime.join(regime.read(window(seed)))
    assert regime.dag == before


def test_a_level_met_later_is_counted_too() -> None:
    regime = grown(5)
    codes = window(5).codes.copy()
    codes[2, ::10] = 7
    group = regime.read(learn_rows(LEARNER, codes, NAMES))
    assert regime.levels.cards.tolist() == [2, 2, 3, 2, 2, 2, 2, 2]
    rows = as_read(regime, *range(5))
    np.testing.assert_array_equal(regime.pool.counts, counted(regime, rows))
    np.testing.assert_array_equal(group.counts, counted(regime, [regime.levels.apply(codes)]))
    assert regime.compare(group).node_p_values[2] < 1e-6
    for scale in (2, 4):
        assert regime.compare_at(scale, group) is not None


def same(one: Comparison | None, other: Comparison | None) -> None:
    assert (one is None) == (other is None)
    if one is None or other is None:
        return
    np.testing.assert_array_equal(one.node_p_values, other.node_p_values)
    np.testing.assert_array_equal(one.tie_p_values, other.tie_p_values)
    assert [one.node_p_value(v) for v in range(8)] == [other.node_p_value(v) for v in range(8)]


@pytest.mark.parametrize("n_windows", [1, 3, 6, 10])
@pytest.mark.parametrize("scales", [(1,), (1, 2, 4)])
def test_a_regime_comes_back_from_its_parts(n_windows: int, scales: tuple[int, ...]) -> None:
    regime = grown(n_windows, scales=scales)
    again = Regime.from_parts(regime.parts(), regime.config, LEARNER)
    assert again.number == 3
    assert again.parents == regime.parents
    for seed in (50, 51, 52):
        groups: list[Group] = [r.read(window(seed)) for r in (regime, again)]
        for scale in scales:
            same(regime.compare_at(scale, groups[0]), again.compare_at(scale, groups[1]))
        regime.join(groups[0])
        again.join(groups[1])
        assert again.dag == regime.dag


def test_an_archived_regime_keeps_its_newest_windows() -> None:
    regime = grown(7)
    regime.trim(4)
    rows = as_read(regime, 3, 4, 5, 6)
    np.testing.assert_array_equal(np.concatenate(regime.windows, axis=1), np.hstack(rows))
    np.testing.assert_array_equal(regime.pool.counts, counted(regime, rows))
    assert regime.recent == []
    regime.join(regime.read(window(7)))
    assert len(regime.windows) == 5
    assert regime.compare_at(2, regime.read(window(8))) is not None


def test_a_small_regime_is_archived_whole() -> None:
    regime = grown(3)
    before = regime.pool.counts.copy()
    regime.trim(4)
    assert len(regime.windows) == 3
    np.testing.assert_array_equal(regime.pool.counts, before)


def test_reading_a_window_does_not_take_it_in() -> None:
    regime = grown(4)
    before = regime.pool.counts.copy()
    after = remove_edge(asia(), "smoke", "bronc").network
    order = [after.index(name) for name in NAMES]
    codes = sample_codes(after, N_ROWS, np.random.default_rng(1))[order]
    regime.compare(regime.read(learn_rows(LEARNER, codes, NAMES)))
    np.testing.assert_array_equal(regime.pool.counts, before)
    assert len(regime.windows) == 4
