"""The repair of a learned graph by its score, against scores counted row by row."""

from __future__ import annotations

import math
import time
from collections import Counter
from itertools import product

import networkx as nx
import numpy as np
import pytest

from driftbn.config import Knowledge, LearnerConfig
from driftbn.datasets import random_network, sample_codes
from driftbn.kernels.orientation import Repair
from driftbn.learning import ChiSquareTest, RdsaTally, SeparatorMap, StructureLearner
from driftbn.learning.orientation import repair, unoriented
from driftbn.learning.search import Limits, Skeleton, apply_knowledge, make_search
from tests.networks import load

Arrow = tuple[int, int]


def score(codes: np.ndarray, arrows: set[Arrow]) -> float:
    """Return the extended BIC of a DAG; degrees of freedom are counted from what occurs."""
    n_nodes, n_rows = codes.shape
    total = -math.log(n_nodes) * len(arrows)
    for y in range(n_nodes):
        parents = sorted(x for x, child in arrows if child == y)
        families = Counter(map(tuple, codes[[*parents, y]].T.tolist()))
        configurations = Counter(map(tuple, codes[parents].T.tolist())) if parents else {(): n_rows}
        total += sum(n * math.log(n / configurations[key[:-1]]) for key, n in families.items())
        total -= 0.5 * math.log(n_rows) * (len(families) - len(configurations))
    return total


def neighbours_of(arrows: set[Arrow], n_nodes: int) -> list[set[Arrow]]:
    """Return all DAGs that one added, removed or reversed arrow leads to."""
    found = []
    for x, y in product(range(n_nodes), repeat=2):
        if x == y or (y, x) in arrows:
            continue
        moved = [arrows - {(x, y)}, arrows - {(x, y)} | {(y, x)}]
        found += moved if (x, y) in arrows else [arrows | {(x, y)}]
    return [dag for dag in found if nx.is_directed_acyclic_graph(nx.DiGraph(sorted(dag)))]


class Watched(ChiSquareTest):
    """Keeps what a repair comes to."""

    def pursue_repair(self, repair: Repair, n_tables: int) -> int:
        self.repaired = repair
        return super().pursue_repair(repair, n_tables)


def rows_of(seed: int, n_rows: int = 4000) -> np.ndarray:
    network = random_network(6, 7, cardinality=(2, 3), seed=seed)
    return sample_codes(network, n_rows, np.random.default_rng(seed))


@pytest.mark.parametrize("seed", range(8))
def test_repair_ends_where_no_move_gains_and_knows_what_each_arrow_is_worth(seed: int) -> None:
    codes = rows_of(seed)
    test = Watched(codes, "abcdef")
    nothing = np.zeros((6, 6), np.bool_)
    names, everything = test.names, ~np.eye(6, dtype=np.bool_)
    known = apply_knowledge(Knowledge(), names)
    skeleton = Skeleton(
        names,
        nothing,
        everything,
        SeparatorMap(names),
        RdsaTally.zero(names),
        finished=True,
        search=make_search(test, LearnerConfig(), known, max_sets=None, census_size=1),
    )
    repair(unoriented(skeleton), skeleton, test, known, Limits(time.perf_counter))
    arrows = test.repaired.arrows
    dag = {(int(x), int(y)) for x, y in np.argwhere(arrows.arrow)}
    assert len(dag) > 3
    best = max(score(codes, other) for other in neighbours_of(dag, 6))
    assert best <= score(codes, dag) + 1e-6
    for y in range(6):
        for i in range(arrows.first[y], arrows.first[y + 1]):
            arrow = (int(arrows.neighbour[i]), y)
            gain = score(codes, dag | {arrow}) - score(codes, dag - {arrow})
            assert test.repaired.gain[i] == pytest.approx(gain, abs=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_equivalent_dags_have_the_same_score(seed: int) -> None:
    codes = rows_of(seed)
    for chain in ({(0, 1), (1, 2)}, {(1, 0), (1, 2)}, {(2, 1), (1, 0)}):
        assert score(codes, chain) == pytest.approx(score(codes, {(0, 1), (1, 2)}))


def test_learned_graph_is_no_single_move_away_from_a_better_one() -> None:
    codes = rows_of(3)
    learned = StructureLearner().learn_from(ChiSquareTest(codes, "abcdef"))
    place = {name: i for i, name in enumerate("abcdef")}
    arrows = {(place[u], place[v]) for u, v in learned.dag.edges}
    dependent = ChiSquareTest(codes, "abcdef").strength > 16
    near = [dag for dag in neighbours_of(arrows, 6) if all(dependent[e] for e in dag)]
    assert max(score(codes, dag) for dag in near) <= score(codes, arrows) + 1e-6


def test_knowledge_holds_through_the_repair() -> None:
    codes = sample_codes(load("asia"), 3000, np.random.default_rng(2))
    names = load("asia").nodes
    knowledge = Knowledge(
        required=[("xray", "smoke")], forbidden=[("lung", "either"), ("either", "lung")]
    )
    learned = StructureLearner(knowledge=knowledge).learn_from(ChiSquareTest(codes, names))
    assert ("xray", "smoke") in learned.graph.directed_edges
    assert ("either", "lung") not in learned.graph.skeleton


def test_pairs_that_lose_their_edge_get_a_separator_and_new_edges_keep_theirs() -> None:
    codes = sample_codes(load("alarm"), 3000, np.random.default_rng(2))
    test = ChiSquareTest(codes, load("alarm").nodes)
    pure = StructureLearner(LearnerConfig(repair=False)).learn_from(test)
    repaired = StructureLearner().learn_from(test)
    assert pure.cost.repair_tables == 0 < repaired.cost.repair_tables
    assert pure.graph.skeleton != repaired.graph.skeleton
    n_pairs = len(test.names) * (len(test.names) - 1) // 2
    for learned in (pure, repaired):
        assert len(learned.separators) + len(learned.graph.skeleton) == n_pairs
        assert not set(learned.separators) & learned.graph.skeleton


def test_one_common_factor_behind_all_columns_stays_cheap() -> None:
    rng = np.random.default_rng(1)
    factor = rng.integers(0, 2, 5000)
    codes = np.stack([np.where(rng.random(5000) < 0.2, 1 - factor, factor) for _ in range(40)])
    names = [f"c{i:02d}" for i in range(40)]
    config = LearnerConfig(repair=False)
    learned = StructureLearner(config).learn_from(ChiSquareTest(codes.astype(np.uint8), names))
    assert learned.overrun is None
    assert len(learned.graph.skeleton) > 600
    assert learned.cost.weighted < 150_000
