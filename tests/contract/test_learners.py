"""What holds for every learner, whatever it is asked to learn from."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbn import (
    Algorithm,
    ColliderRule,
    LearnedStructure,
    LearnerConfig,
    Statistic,
    datasets,
    learn_structure,
)
from driftbn.datasets import random_network
from driftbn.learning import ChiSquareTest, IndependenceTest, StructureLearner
from tests.encoded import infer_and_encode
from tests.networks import load

pytestmark = pytest.mark.slow

LEARNERS = [
    LearnerConfig(algorithm=algorithm, collider_rule=rule, statistic=statistic)
    for algorithm in Algorithm
    for rule, statistic in (
        (ColliderRule.CONTRAST, Statistic.CHI_SQUARE),
        (ColliderRule.STANDARD, Statistic.G),
    )
]


def describe(config: LearnerConfig) -> str:
    return f"{config.algorithm.value}, {config.collider_rule.value}, {config.statistic.value}"


def fingerprint(learned: LearnedStructure) -> tuple[object, ...]:
    return (
        learned.graph,
        learned.dag,
        tuple(learned.separators.items()),
        learned.tallies.names,
        learned.tallies.units.tobytes(),
        learned.conflicts,
        learned.cost.tests,
        learned.cost.undecided,
        learned.cost.orientation_tests,
        learned.overrun,
    )


@cache
def table_of(name: str, n_rows: int = 700, seed: int = 6) -> pd.DataFrame:
    network = random_network(9, 13, cardinality=(2, 4), seed=8) if name == "random" else load(name)
    return datasets.sample(network, n_rows, seed)


each_learner = pytest.mark.parametrize("config", LEARNERS, ids=describe)


@each_learner
@given(data=st.data())
@settings(max_examples=10)
def test_new_labels_in_the_same_order_change_nothing(
    config: LearnerConfig, data: st.DataObject
) -> None:
    table = table_of("random")
    renamed = {}
    for name in table.columns:
        labels = sorted(table[name].unique())
        texts = st.text("abcxyz", min_size=1, max_size=4)
        drawn = data.draw(st.lists(texts, min_size=len(labels), max_size=len(labels), unique=True))
        new = dict(zip(labels, sorted(drawn), strict=True))
        renamed[name] = [new[label] for label in table[name]]
    learned = learn_structure(renamed, config=config)
    assert fingerprint(learned) == fingerprint(learn_structure(table, config=config))


@each_learner
def test_repeated_runs_are_alike(config: LearnerConfig) -> None:
    learner = StructureLearner(config)
    encoded = infer_and_encode(table_of("alarm"))
    previous = learner.learn(infer_and_encode(table_of("alarm", seed=9)))
    cold = {fingerprint(learner.learn(encoded)) for _ in range(3)}
    warm = {fingerprint(learner.learn(encoded, previous)) for _ in range(3)}
    assert len(cold) == len(warm) == 1


def test_learners_in_threads_do_not_disturb_each_other() -> None:
    """Each learner serves several threads, too."""
    learners = {config: StructureLearner(config) for config in LEARNERS}
    tables = {name: infer_and_encode(table_of(name)) for name in ("asia", "alarm", "random")}
    jobs = [(config, name) for config in LEARNERS for name in tables] * 2

    def run(job: tuple[LearnerConfig, str]) -> tuple[object, ...]:
        return fingerprint(learners[job[0]].learn(tables[job[1]]))

    one_by_one = [run(job) for job in jobs]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(run, jobs)) == one_by_one


@each_learner
def test_input_is_left_untouched(config: LearnerConfig) -> None:
    encoded = infer_and_encode(table_of("alarm"))
    before = encoded.codes.copy()
    StructureLearner(config).learn(encoded)
    assert np.array_equal(encoded.codes, before)
    table = table_of("alarm").copy()
    learn_structure(table, config=config)
    pd.testing.assert_frame_equal(table, table_of("alarm"))


@each_learner
def test_graph_separators_and_cost_fit_together(config: LearnerConfig) -> None:
    learned = learn_structure(table_of("alarm"), config=config)
    nodes = learned.graph.nodes
    pairs = {(u, v) for i, u in enumerate(nodes) for v in nodes[i + 1 :]}
    assert set(learned.separators) == pairs - learned.graph.skeleton
    assert max(map(len, learned.separators.values())) <= config.max_conditioning
    assert learned.cost.tests[0] == len(pairs)
    asked = (learned.cost.tests, learned.cost.orientation_tests)
    weights = [(2 + k) * n for tests in asked for k, n in enumerate(tests)]
    assert learned.cost.weighted == sum(weights)
    assert all(
        undecided <= asked
        for undecided, asked in zip(learned.cost.undecided, learned.cost.tests, strict=True)
    )
    assert learned.dag.to_pdag().skeleton == learned.graph.skeleton
    assert sorted(learned.tallies.names) == list(nodes)
    assert (learned.tallies.units >= 0).all()


class Plain(IndependenceTest):
    """Only the seam: one question at a time, and nothing else replaced."""

    def __init__(self, test: ChiSquareTest) -> None:
        self.names = test.names
        self._strength = test.strength
        self._ask: Callable[..., int | None] = test.first_separator
        self._p_value = test.p_value

    @property
    def strength(self) -> np.ndarray:
        return self._strength

    def first_separator(self, x: int, y: int, sets: np.ndarray) -> int | None:  # type: ignore[override]
        for k in range(len(sets)):
            if self._ask(x, y, sets[k : k + 1]) == 0:
                return k
        return None

    def p_value(self, x: int, y: int, members: tuple[int, ...]) -> float:  # type: ignore[override]
        return self._p_value(x, y, members)


@each_learner
def test_compiled_pursuit_and_the_plain_seam_find_the_same(config: LearnerConfig) -> None:
    encoded = infer_and_encode(table_of("alarm"))

    def make() -> ChiSquareTest:
        return ChiSquareTest(encoded.codes, encoded.schema.names, config.alpha, config.statistic)

    learner = StructureLearner(replace(config, repair=False))
    compiled = learner.learn_from(make())
    plain = learner.learn_from(Plain(make().ordered_by_data()))
    assert plain.graph.skeleton == compiled.graph.skeleton
    assert dict(plain.separators) == dict(compiled.separators)
    assert plain.tallies.units.tolist() == compiled.tallies.units.tolist()


@each_learner
def test_memory_does_not_grow_from_run_to_run(config: LearnerConfig) -> None:
    learner = StructureLearner(config)
    encoded = infer_and_encode(table_of("asia"))
    previous = learner.learn(encoded)
    for _ in range(3):
        previous = learner.learn(encoded, previous)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(10):
            previous = learner.learn(encoded, previous)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 200_000
