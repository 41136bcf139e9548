"""Names and places decide nothing: of renamed columns and moved rows the same graph is learned."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbn import Pdag, WarmStart
from driftbn.config import Algorithm, ColliderRule, LearnerConfig, Statistic
from driftbn.datasets import sample_codes
from driftbn.learning import ChiSquareTest, LearnedStructure, StructureLearner
from driftbn.tables.infer import find_duplicates
from tests.networks import load

NETWORKS = ("asia", "alarm", "insurance", "hailfinder", "win95pts", "100_130", "200_250", "pigs")


def distinct_columns(network: str, n_rows: int, seed: int) -> np.ndarray:
    """Return rows of a network without columns that vary nowhere or repeat another one."""
    codes = sample_codes(load(network), n_rows, np.random.default_rng(seed))
    codes = codes[codes.min(axis=1) < codes.max(axis=1)]
    return np.delete(codes, list(find_duplicates(codes)), axis=0)


def shuffled(codes: np.ndarray, seed: int) -> tuple[np.ndarray, list[str], dict[str, str]]:
    """Return columns and rows in another order under other names, and whose names those are."""
    rng = np.random.default_rng(seed)
    places, labels = rng.permutation(len(codes)), rng.permutation(len(codes))
    names = [f"c{labels[place]:03d}" for place in places]
    moved = rng.permutation(codes[places], axis=1)
    return moved, names, {f"c{labels[place]:03d}": f"c{place:03d}" for place in places}


def renamed(graph: Pdag, names: dict[str, str]) -> Pdag:
    directed, undirected = (
        [(names[u], names[v]) for u, v in edges]
        for edges in (graph.directed_edges, graph.undirected_edges)
    )
    return Pdag(names.values(), directed, undirected)


def learn(
    codes: np.ndarray,
    names: list[str],
    config: LearnerConfig,
    previous: LearnedStructure | None = None,
) -> LearnedStructure:
    test = ChiSquareTest(codes, names, statistic=config.statistic)
    return StructureLearner(config).learn_from(test, previous)


@pytest.mark.parametrize("network", NETWORKS)
def test_renamed_and_moved_columns_give_the_same_graph_at_the_same_cost(network: str) -> None:
    codes = distinct_columns(network, 1500, 3)
    names = [f"c{i:03d}" for i in range(len(codes))]
    plain = learn(codes, names, LearnerConfig())
    for seed in range(3):
        moved, other_names, back = shuffled(codes, seed)
        learned = learn(moved, other_names, LearnerConfig())
        assert renamed(learned.graph, back) == plain.graph
        assert learned.cost == plain.cost


@settings(max_examples=60)
@given(
    config=st.builds(
        LearnerConfig,
        algorithm=st.sampled_from(list(Algorithm)),
        collider_rule=st.sampled_from(list(ColliderRule)),
        statistic=st.sampled_from(list(Statistic)),
        repair=st.booleans(),
        warm=st.sampled_from(list(WarmStart)),
    ),
    seed=st.integers(0, 2**32 - 1),
)
def test_names_decide_nothing_for_any_learner_cold_or_warm(
    config: LearnerConfig, seed: int
) -> None:
    earlier, codes = (
        sample_codes(load("asia"), 400, np.random.default_rng([seed, i])) for i in range(2)
    )
    distinct = np.setdiff1d(np.arange(8), list(find_duplicates(earlier) | find_duplicates(codes)))
    earlier, codes = earlier[distinct], codes[distinct]
    found = []
    for shuffle in range(2):
        before, names, back = shuffled(earlier, shuffle)
        now, _, _ = shuffled(codes, shuffle)
        learned = learn(now, names, config, learn(before, names, config))
        separators = {
            frozenset(back[name] for name in pair): {back[name] for name in members}
            for pair, members in learned.separators.items()
        }
        conflicts = {frozenset(back[name] for name in pair) for pair in learned.conflicts}
        found.append((renamed(learned.graph, back), separators, conflicts, learned.cost))
    assert found[0] == found[1]


def test_of_two_equal_columns_either_may_stand_for_both() -> None:
    codes = distinct_columns("asia", 2000, 1)
    doubled = np.vstack((codes, codes[:1]))
    names = [f"c{i:03d}" for i in range(len(doubled))]
    swapped = [names[-1], *names[1:-1], names[0]]
    one = StructureLearner().learn_window(doubled, names).learned.graph
    other = StructureLearner().learn_window(doubled[[-1, *range(1, len(codes)), 0]], names)
    assert renamed(one, dict(zip(names, swapped, strict=True))) in (
        one,
        renamed(other.learned.graph, dict(zip(names, swapped, strict=True))),
    )
