"""The compiled search and census against plain ones, question by question."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbn.config import Algorithm, ColliderRule, Knowledge, LearnerConfig, WarmStart
from driftbn.datasets import random_network, sample_codes
from driftbn.kernels.search import _n_subsets
from driftbn.learning import (
    ChiSquareTest,
    IndependenceTest,
    LearnedStructure,
    RdsaTally,
    SearchCost,
    SeparatorMap,
    StructureLearner,
)
from driftbn.learning.search import TALLY_DECAY, UNITS
from tests import reference
from tests.networks import BayesianNetwork, load

ALGORITHMS = list(Algorithm)


class NoisyTest(IndependenceTest):
    """Answers by chance, but the same answer to the same question, from either end.

    A p-value has nothing to do with the answer, so that separators are clear as often as not.
    """

    def __init__(self, n_nodes: int, percent: int, seed: int = 0) -> None:
        self.names = tuple(f"n{i:02d}" for i in range(n_nodes))
        self.percent = percent
        self.seed = seed
        self.asked: list[reference.Question] = []

    def separates(self, x: int, y: int, members: Sequence[int]) -> bool:
        return self._draw("answer", x, y, members) < self.percent / 100

    def p_value(self, x: int, y: int, members: Sequence[int]) -> float:
        return self._draw("p-value", x, y, members)

    def first_separator(self, x: int, y: int, sets: Any) -> int | None:
        for k, members in enumerate(sets):
            self.asked.append((x, y, tuple(map(int, members))))
            if self.separates(x, y, members):
                return k
        return None

    def _draw(self, what: str, x: int, y: int, members: Sequence[int]) -> float:
        key = repr((what, min(x, y), max(x, y), sorted(map(int, members)), self.seed))
        return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=6).digest()) / 2**48


def credit_of(algorithm: Algorithm, max_size: int) -> list[int]:
    if algorithm is Algorithm.FSBN:
        return [0] + [UNITS] * max_size
    if algorithm is Algorithm.SSBN:
        return [0] + [UNITS // size for size in range(1, max_size + 1)]
    return [0] * (max_size + 1)


def twin_search(
    separates: reference.Separates,
    names: Sequence[str],
    learner: StructureLearner,
    previous: LearnedStructure | None = None,
    **options: Any,
) -> reference.SearchTwin:
    config = learner.config
    place = {name: i for i, name in enumerate(names)}
    if previous is not None and config.warm is not WarmStart.NONE:
        options["tallies"] = previous.tallies.started_from(names, TALLY_DECAY).tolist()
    if previous is not None and config.warm is WarmStart.TALLIES_AND_SEPARATORS:
        options["recalled"] = {
            (min(place[x], place[y]), max(place[x], place[y])): tuple(
                sorted(place[z] for z in members)
            )
            for (x, y), members in previous.separators.items()
            if len(members) <= config.max_conditioning
        }
    return reference.SearchTwin(
        separates,
        len(names),
        by_node=config.algorithm in (Algorithm.FSBN, Algorithm.SSBN),
        stable=config.algorithm is Algorithm.PC,
        credit=credit_of(config.algorithm, config.max_conditioning),
        max_sets=learner.max_sets,
        **options,
    ).run()


def check_outcome(learned: LearnedStructure, twin: reference.SearchTwin) -> None:
    names = learned.separators.names
    edges = {tuple(sorted((names[x], names[y]))) for x, y in twin.edges}
    assert learned.graph.skeleton == edges
    assert dict(learned.separators) == {
        tuple(sorted((names[x], names[y]))): tuple(sorted(names[z] for z in members))
        for (x, y), members in twin.separators.items()
    }
    assert learned.tallies.units.tolist() == twin.gained


def check_tests(learned: LearnedStructure, twin: reference.SearchTwin) -> None:
    asked = Counter(len(members) for _, _, members in twin.asked)
    if isinstance(twin.separates, TableJudge):
        asked.update(twin.separates.further)
        asked.subtract(twin.separates.passed_over)
    assert learned.cost.tests == tuple(asked[size] for size in range(len(learned.cost.tests)))
    assert sum(learned.cost.tests) == asked.total()


class TableJudge:
    """Answers from plain tables; counts what is asked beyond the question itself."""

    def __init__(self, codes: np.ndarray, alpha: float) -> None:
        self._codes = codes
        self._alpha = alpha
        self._known: dict[reference.Question, reference.Verdict] = {}
        self.further: Counter[int] = Counter()
        self.passed_over: Counter[int] = Counter()

    def verdict(self, x: int, y: int, members: tuple[int, ...]) -> reference.Verdict:
        question = (x, y, members)
        if question not in self._known:
            self._known[question] = reference.judge(self._codes, *question, alpha=self._alpha)
        return self._known[question]

    def __call__(self, x: int, y: int, members: tuple[int, ...]) -> bool:
        verdict = self.verdict(x, y, members)
        self.further.update(verdict.sizes[1:])
        self.passed_over.update([len(members)] if not verdict.sizes else [])
        return verdict.separated

    def is_mute(self, x: int, y: int, members: tuple[int, ...]) -> bool:
        return self.verdict(x, y, members).mute


def network_codes(network: BayesianNetwork, n_rows: int, seed: int) -> tuple[np.ndarray, list[str]]:
    codes = sample_codes(network, n_rows, np.random.default_rng(seed))
    order = sorted(range(len(network.nodes)), key=network.nodes.__getitem__)
    return codes[order], [network.nodes[i] for i in order]


def in_order_of_data(
    codes: np.ndarray, names: Sequence[str], algorithm: Algorithm
) -> tuple[np.ndarray, tuple[str, ...], list[list[int]] | None]:
    """Return rows, names and strengths in the order in which a search has the variables."""
    test = ChiSquareTest(codes, names).ordered_by_data()
    ordered = codes[[list(names).index(name) for name in test.names]]
    by_node = algorithm in (Algorithm.FSBN, Algorithm.SSBN)
    return ordered, test.names, test.strength.tolist() if by_node else None


SAMPLED: dict[str, Callable[[int], tuple[np.ndarray, list[str]]]] = {
    "asia": lambda seed: network_codes(load("asia"), 1500, seed),
    "alarm": lambda seed: network_codes(load("alarm"), 600, seed),
    "random": lambda seed: network_codes(
        random_network(12, 20, cardinality=(2, 5), seed=3), 900, seed
    ),
    "binary": lambda seed: network_codes(random_network(14, 22, seed=4), 1200, seed),
}


@pytest.mark.slow
@pytest.mark.parametrize("warm", list(WarmStart), ids=lambda warm: warm.value)
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.value)
@pytest.mark.parametrize("data", SAMPLED)
def test_search_on_data_is_that_of_the_twin(
    data: str, algorithm: Algorithm, warm: WarmStart
) -> None:
    config = LearnerConfig(
        algorithm=algorithm, warm=warm, collider_rule=ColliderRule.STANDARD, repair=False
    )
    before, names = SAMPLED[data](1)
    codes, _ = SAMPLED[data](2)
    learner = StructureLearner(config, max_sets=60)
    # Tallies of an SSBN run, so that PC has an order to follow as well.
    first = StructureLearner(replace(config, algorithm=Algorithm.SSBN), max_sets=60)
    previous = first.learn_from(ChiSquareTest(before, names))
    learned = learner.learn_from(ChiSquareTest(codes, names), previous)
    codes, names, strength = in_order_of_data(codes, names, algorithm)
    judge = TableJudge(codes, config.alpha)
    twin = twin_search(judge, names, learner, previous, strength=strength)
    check_outcome(learned, twin)
    check_tests(learned, twin)
    assert learned.cost.warm is (warm is not WarmStart.NONE)


@pytest.mark.slow
@given(
    algorithm=st.sampled_from(ALGORITHMS),
    n_nodes=st.integers(0, 9),
    percent=st.integers(0, 60),
    seed=st.integers(0, 2**32 - 1),
    max_conditioning=st.integers(0, 4),
    max_sets=st.sampled_from([None, 1, 2, 3, 5, 200]),
    warm=st.none() | st.sampled_from(list(WarmStart)),
)
@settings(max_examples=200)
def test_answers_by_chance_lead_the_search_and_the_twin_to_the_same_end(
    algorithm: Algorithm,
    n_nodes: int,
    percent: int,
    seed: int,
    max_conditioning: int,
    max_sets: int | None,
    warm: WarmStart | None,
) -> None:
    """Passing over what was asked from the other end must not change what is found."""
    config = LearnerConfig(
        algorithm=algorithm, max_conditioning=max_conditioning, warm=warm or WarmStart.NONE
    )
    learner, previous = StructureLearner(config, max_sets=max_sets), None
    if warm is not None:
        previous = StructureLearner().learn_from(NoisyTest(n_nodes, 20, seed + 1))
    test = NoisyTest(n_nodes, percent, seed)
    learned = learner.learn_from(test, previous)
    check_outcome(learned, twin_search(test.separates, test.names, learner, previous, skips=False))
    check_tests(learned, twin_search(test.separates, test.names, learner, previous))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.value)
def test_cold_search_without_cap_asks_every_question_of_the_plain_one(
    algorithm: Algorithm, seed: int
) -> None:
    config = LearnerConfig(algorithm=algorithm, collider_rule=ColliderRule.STANDARD)
    learner = StructureLearner(config, max_sets=None)
    test = NoisyTest(9, 4 + seed, seed)
    learner.learn_from(test)
    asked = [(min(x, y), max(x, y), members) for x, y, members in test.asked]
    plain = twin_search(test.separates, test.names, learner, skips=False)
    assert set(asked) == {(min(x, y), max(x, y), members) for x, y, members in plain.asked}
    assert len(asked) <= len(plain.asked)
    # Elsewhere the other end may have lost a member since, and the set is asked again.
    if algorithm is Algorithm.PC:
        assert len(asked) == len(set(asked))


def one_free_pair(n_common: int) -> tuple[NoisyTest, Knowledge, LearnedStructure]:
    """Nodes 0 and 1 with many common neighbours and a last one beside 1, all of them required."""
    test = NoisyTest(n_common + 3, 0)
    names, last = test.names, test.names[-1]
    common = names[2:-1]
    required = [(end, z) for end in names[:2] for z in common] + [(names[1], last)]
    others = [(names[0], last)]
    others += [(u, v) for i, u in enumerate(names[2:]) for v in names[3 + i :]]
    knowledge = Knowledge(required, forbidden=[pair for e in others for pair in (e, e[::-1])])
    units = np.tile(10**6 + np.arange(len(names))[::-1] ** 2, (len(names), 1))
    units[:, -1] = 0  # sets with the last node come after all sets around both ends
    units[0] = 0  # sets around node 0 come in plain order and need no heap
    previous = LearnedStructure(
        graph=StructureLearner().learn_from(NoisyTest(len(names), 100)).graph,
        separators=SeparatorMap(names),
        tallies=RdsaTally(names, 2 * units),  # half of them are left
        conflicts=(),
        cost=SearchCost(()),
    )
    return test, knowledge, previous


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.value)
@pytest.mark.parametrize("separator", [(40, 60, 61), (60, 61, 62), None])
def test_long_listing_outgrows_its_heap_and_misses_no_set(
    algorithm: Algorithm, separator: tuple[int, ...] | None
) -> None:
    test, knowledge, previous = one_free_pair(n_common=60)
    last = len(test.names) - 1
    test.separates = lambda x, y, members: tuple(members) == separator  # type: ignore[method-assign]
    config = LearnerConfig(algorithm=algorithm, collider_rule=ColliderRule.STANDARD)
    learner = StructureLearner(config, knowledge, max_sets=None)
    learned = learner.learn_from(test, previous)
    place = {name: i for i, name in enumerate(test.names)}
    twin = twin_search(
        test.separates,
        test.names,
        learner,
        previous,
        impossible=[(place[u], place[v]) for u, v in knowledge.forbidden],
        fixed=[(place[u], place[v]) for u, v in knowledge.required],
    )
    assert ((0, 1) in twin.separators) is (separator is not None)
    assert last == 62
    check_outcome(learned, twin)
    check_tests(learned, twin)


@pytest.mark.slow
@pytest.mark.parametrize("rule", list(ColliderRule), ids=lambda rule: rule.value)
@pytest.mark.parametrize("data", ["asia", "alarm", "random"])
def test_directions_on_data_are_those_of_the_twin(data: str, rule: ColliderRule) -> None:
    codes, names = SAMPLED[data](5)
    learner = StructureLearner(LearnerConfig(collider_rule=rule, repair=False), max_sets=None)
    learned = learner.learn_from(ChiSquareTest(codes, names))
    test = ChiSquareTest(codes, names).ordered_by_data()
    codes, names, strength = in_order_of_data(codes, names, Algorithm.SSBN)
    judge = TableJudge(codes, learner.config.alpha)
    check_directions(learned, learner, judge, test.p_value, strength)


@pytest.mark.slow
@given(
    n_nodes=st.integers(3, 8),
    percent=st.integers(3, 50),
    seed=st.integers(0, 2**32 - 1),
    rule=st.sampled_from(list(ColliderRule)),
    census_size=st.integers(1, 3),
)
@settings(max_examples=150)
def test_directions_from_answers_by_chance_are_those_of_the_twin(
    n_nodes: int, percent: int, seed: int, rule: ColliderRule, census_size: int
) -> None:
    config = LearnerConfig(collider_rule=rule)
    learner = StructureLearner(config, max_sets=None, census_size=census_size)
    test = NoisyTest(n_nodes, percent, seed)
    learned = learner.learn_from(test)
    check_directions(learned, learner, test.separates, test.p_value)


def check_directions(
    learned: LearnedStructure,
    learner: StructureLearner,
    separates: reference.Separates,
    p_value: Callable[[int, int, tuple[int, ...]], float],
    strength: list[list[int]] | None = None,
) -> None:
    names = learned.separators.names
    search = twin_search(separates, names, learner, strength=strength)
    twin = reference.ColliderTwin(search, separates, p_value, learner.census_size, learner.max_sets)
    further: Counter[int] = Counter()
    if isinstance(separates, TableJudge):
        twin.is_mute = separates.is_mute
        further = separates.further
        separates.passed_over.clear()
    further.clear()
    colliders = twin.colliders(learner.config.collider_rule.value)
    arrows, conflicts = reference.direct(len(names), search.edges, colliders)
    assert set(learned.conflicts) == {tuple(sorted((names[u], names[v]))) for u, v in conflicts}
    assert set(learned.graph.directed_edges) == {(names[u], names[v]) for u, v in arrows}
    asked = Counter(len(members) for _, _, members in twin.asked)
    if isinstance(separates, TableJudge):
        asked.subtract(separates.passed_over)
    tests = learned.cost.orientation_tests
    if not further:  # from which end a set was asked is not part of the twin
        assert tests == tuple(asked[size] for size in range(len(tests)))
    assert sum(tests) >= asked.total()


@pytest.mark.parametrize("max_sets", [1, 2, 4])
def test_census_with_a_cap_asks_the_first_sets_around_either_end(max_sets: int) -> None:
    for seed in range(20):
        config = LearnerConfig(algorithm=Algorithm.PC, collider_rule=ColliderRule.MAJORITY)
        learner = StructureLearner(config, max_sets=max_sets)
        test = NoisyTest(8, 15, seed)
        learned = learner.learn_from(test)
        check_directions(learned, learner, test.separates, test.p_value)


def test_subsets_are_counted_until_there_are_more_than_any_list_has() -> None:
    @numba.njit
    def counted(n_members: int, size: int) -> int:
        return _n_subsets(n_members, size)

    for n_members in (0, 1, 7, 60, 300, 5000):
        for size in range(11):
            assert counted(n_members, size) == min(math.comb(n_members, size), 2**40)
