from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbn import datasets, shd
from driftbn.config import LearnerConfig, WarmStart
from driftbn.learning import (
    ChiSquareTest,
    RdsaTally,
    SeparatorMap,
    StructureLearner,
    learn_structure,
)
from driftbn.learning.search import recall
from tests.networks import load


@given(
    names=st.sets(st.sampled_from("abcdefgh"), min_size=2),
    later=st.sets(st.sampled_from("abcdefghij")),
    max_size=st.integers(0, 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_start_keeps_exactly_the_pairs_whose_names_are_all_there(
    names: set[str], later: set[str], max_size: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    found = {}
    for pair in combinations(sorted(names), 2):
        others = sorted(names - set(pair))
        members = rng.permutation(others)[: rng.integers(0, 4)].tolist() if others else []
        if rng.random() < 0.7:
            found[pair] = tuple(sorted(members))
    arrays = SeparatorMap(sorted(names), found).started_from(tuple(sorted(later)), max_size)
    assert arrays[0].shape[1] == max_size
    assert dict(SeparatorMap.from_arrays(tuple(sorted(later)), *arrays)) == {
        pair: members
        for pair, members in found.items()
        if len(members) <= max_size and later.issuperset((*pair, *members))
    }


def test_tallies_decay_and_round_down() -> None:
    tally = RdsaTally(("a", "b"), np.array([[0, 2520], [5, 0]]))
    assert tally.value("a", "b") == 1.0
    assert tally.started_from(("a", "b"), 0.5).tolist() == [[0, 1260], [2, 0]]
    assert tally.started_from(("a", "b"), 0.0).tolist() == [[0, 0], [0, 0]]
    assert tally.started_from(("a", "b"), 1.0).tolist() == tally.units.tolist()


@pytest.mark.parametrize("warm", list(WarmStart), ids=lambda warm: warm.value)
def test_warm_start_over_changed_columns_works(warm: WarmStart) -> None:
    table = datasets.sample(load("alarm"), 800, 1)
    config = LearnerConfig(warm=warm)
    previous = learn_structure(table.drop(columns=["HR", "CO"]), config=config)
    learned = learn_structure(table.drop(columns=["BP", "PCWP"]), config=config, previous=previous)
    assert set(learned.graph.nodes) == set(table.columns) - {"BP", "PCWP"}


@pytest.mark.parametrize("empty_first", [True, False])
def test_window_without_variables_can_come_before_or_after_another(empty_first: bool) -> None:
    full = datasets.sample(load("asia"), 300, 1)
    empty = {name: [0] * 300 for name in full.columns}
    tables = (empty, full) if empty_first else (full, empty)
    learned = learn_structure(tables[1], previous=learn_structure(tables[0]))
    assert len(learned.graph.nodes) == (8 if empty_first else 0)


@pytest.mark.parametrize("network", ["alarm", "insurance"])
def test_warm_chain_asks_a_quarter_less_and_is_as_true_and_steadier(network: str) -> None:
    truth, learner = load(network).dag.cpdag(), StructureLearner()
    nodes, rngs = load(network).nodes, map(np.random.default_rng, range(9))
    windows = [datasets.sample_codes(load(network), 5000, rng) for rng in rngs]
    weighted, distance, hamming = ({True: 0, False: 0} for _ in range(3))
    for warm in (True, False):
        last = None
        for codes in windows:
            learned = learner.learn_from(ChiSquareTest(codes, nodes), last if warm else None)
            if last is not None:
                weighted[warm] += learned.cost.weighted
                distance[warm] += shd(truth, learned.graph)
                hamming[warm] += shd(last.graph, learned.graph)
            last = learned
    assert weighted[True] <= 0.75 * weighted[False]
    assert distance[True] <= distance[False]
    assert hamming[True] <= hamming[False]


def test_a_pair_that_gets_an_edge_keeps_what_separated_it() -> None:
    names = ("a", "b", "c", "d")
    before = SeparatorMap(names, {("a", "b"): ("c",), ("a", "d"): ()})
    now = before.with_edges(np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0] * 4, [0] * 4], np.bool_), {})
    assert ("a", "b") not in now
    assert now["a", "d"] == ()
    members, sizes = now.started_from(("b", "c", "a"), 2)
    assert dict(SeparatorMap.from_arrays(("b", "c", "a"), members, recall(sizes))) == {
        ("a", "b"): ("c",)
    }
