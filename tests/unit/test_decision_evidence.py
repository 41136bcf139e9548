"""A window learned, with twins hung on and dependence taken out."""

from __future__ import annotations

import numpy as np
import pytest

from driftbn.config import Knowledge, LearnerConfig
from driftbn.datasets import asia
from driftbn.decision.evidence import learn_rows
from driftbn.graphs.graph import Pdag
from driftbn.learning import StructureLearner, learn_structure
from tests.drift_streams import DriftStream, Repeats


def chain(n_fields: int, n_rows: int = 1500, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, (n_fields, n_rows)).astype(np.uint8)
    for v in range(1, n_fields):
        follows = rng.random(n_rows) < 0.7
        codes[v, follows] = codes[v - 1, follows]
    return codes


LEARNER = StructureLearner()
NAMES = sorted(asia().nodes)


def test_a_window_is_learned_as_by_one_call() -> None:
    codes = chain(4)
    found = learn_rows(LEARNER, codes, "abcd", dependent_rows=False)
    expected = learn_structure({name: codes[v] for v, name in enumerate("abcd")})
    assert found.learned.graph == expected.graph
    assert found.names == tuple("abcd")
    assert found.twins == {}
    assert found.effects.tolist() == [1.0] * 4


def test_a_twin_hangs_on_the_first_of_its_kind_alone() -> None:
    codes = chain(4)
    with_twins = np.vstack([codes, 2 - codes[1], codes[1]])
    found = learn_rows(LEARNER, with_twins, "abcdef")
    plain = learn_rows(LEARNER, codes, "abcd").learned.graph
    assert found.twins == {4: 1, 5: 1}
    assert found.learned.graph == Pdag(
        "abcdef", plain.directed_edges, [*plain.undirected_edges, ("b", "e"), ("b", "f")]
    )


def test_twins_have_no_part_in_the_search() -> None:
    codes = np.vstack([chain(4), chain(4)[2]])
    found = learn_rows(LEARNER, codes, "abcde")
    assert found.learned.tallies.names == tuple("abcd")
    assert found.test.names == tuple("abcde")
    assert found.learned.cost.tests[0] == 6


@pytest.mark.parametrize("first", [True, False])
def test_a_search_may_start_from_one_with_other_twins(first: bool) -> None:
    plain, with_twins = chain(5, seed=2), chain(5, seed=3)
    with_twins[4] = with_twins[0]
    windows = [with_twins, plain] if first else [plain, with_twins]
    before = learn_rows(LEARNER, windows[0], "abcde")
    after = learn_rows(LEARNER, windows[1], "abcde", before.learned)
    assert after.learned.cost.warm
    cold = learn_rows(LEARNER, windows[1], "abcde").learned.graph
    assert after.learned.graph.skeleton == cold.skeleton


def test_what_is_known_of_a_twin_is_left_aside() -> None:
    learner = StructureLearner(knowledge=Knowledge(forbidden=[("e", "a"), ("b", "c")]))
    codes = np.vstack([chain(4), chain(4)[0]])
    graph = learn_rows(learner, codes, "abcde").learned.graph
    assert ("b", "c") not in graph.directed_edges
    assert ("a", "e") in graph.undirected_edges


def bursty(n_rows: int = 3000, seed: int = 1) -> np.ndarray:
    network = asia()
    order = [network.index(name) for name in sorted(network.nodes)]
    return next(DriftStream(network, bursts=Repeats(6), seed=seed).batches(n_rows))[order]


def test_bursts_are_measured_and_taken_out_of_the_tests() -> None:
    names = sorted(asia().nodes)
    true_edges = asia().dag.to_pdag().skeleton
    n_wrong = {True: 0, False: 0}
    for seed in range(10):
        for careful in n_wrong:
            found = learn_rows(LEARNER, bursty(seed=seed), names, dependent_rows=careful)
            n_wrong[careful] += len(found.learned.graph.skeleton - true_edges)
            assert (found.effects[names.index("smoke")] > 4.0) == careful
    assert 4 * n_wrong[True] < n_wrong[False]


def test_bursts_are_taken_out_of_the_tests_among_twins_too() -> None:
    names = [*sorted(asia().nodes), "zz"]
    codes = np.vstack([bursty(), bursty()[NAMES.index("smoke")]])
    found = learn_rows(LEARNER, codes, names)
    alone = learn_rows(LEARNER, bursty(), NAMES)
    assert found.twins == {8: NAMES.index("smoke")}
    assert found.learned.graph.skeleton == alone.learned.graph.skeleton | {("smoke", "zz")}
    careless = learn_rows(LEARNER, codes, names, dependent_rows=False)
    assert found.learned.graph.skeleton != careless.learned.graph.skeleton


def test_rows_taken_for_independent_have_no_effect() -> None:
    found = learn_rows(LEARNER, bursty(), sorted(asia().nodes), dependent_rows=False)
    assert found.effects.tolist() == [1.0] * 8


def test_a_limit_stops_the_search_with_twins_too() -> None:
    learner = StructureLearner(LearnerConfig(max_tests=1))
    found = learn_rows(learner, np.vstack([chain(4), chain(4)[0]]), "abcde")
    assert found.learned.overrun is not None
    assert ("a", "e") in found.learned.graph.skeleton
