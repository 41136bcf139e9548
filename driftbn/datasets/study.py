"""The experiment of Minn and Fu, "Fast & Efficient Learning of Bayesian Networks from Data", section
V: samples of known networks, what each algorithm finds in them, and what that costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from zlib import crc32

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from driftbn.config import Algorithm, LearnerConfig
from driftbn.datasets import load, sample_codes
from driftbn.graphs.graph import Dag, shd
from driftbn.graphs.network import BayesianNetwork, family_counts
from driftbn.learning import ChiSquareTest, IndependenceTest, LearnedStructure, StructureLearner

NETWORKS = ("asia", "alarm", "100_130", "200_250")
DENSITIES = ("100_130", "100_200", "100_300", "100_400")
LEARNERS = {
    "PC-stable": Algorithm.PC,
    "PC": Algorithm.PC_ORIGINAL,
    "FSBN": Algorithm.FSBN,
    "SSBN": Algorithm.SSBN,
    "SSBN warm": Algorithm.SSBN,
}
"""A warm start has seen an independent sample of the same size."""
ALPHA = 0.01
PRICED = ("200_250", 5000)
"""The network and the rows for which the paper prints numbers of tests."""
OTHER_LEVELS = (0.05, 0.08)
"""Levels at which those tests are counted too."""


@dataclass(frozen=True)
class Sample:
    network: str
    rows: int
    fold: int
    alpha: float = ALPHA


@dataclass(frozen=True)
class Run:
    """What one learner found in one sample.

    ``hamming``: to the true CPDAG; ``missing`` and ``added`` edges are a part of it. ``unseen``:
    true edges that are independent without condition. ``tests``: weighted, of the search, by size
    of the set; ``directing``: weighted, to direct edges. ``separators``: pairs by the size of what
    separates them. ``proof``: weighted tests in vain of a search that would guess every separator
    (SSBN). ``common``: weighted tests of a PC whose sets are common neighbours (PC, where priced).
    """

    network: str
    rows: int
    fold: int
    alpha: float
    learner: str
    hamming: int
    missing: int
    added: int
    unseen: int
    bdeu: float
    true_bdeu: float
    tests: tuple[int, ...]
    directing: int
    separators: tuple[int, ...]
    seconds: float
    proof: int | None = None
    common: int | None = None

    @property
    def sample(self) -> Sample:
        return Sample(self.network, self.rows, self.fold, self.alpha)

    @property
    def searching(self) -> int:
        return sum(self.tests)

    @property
    def weighted(self) -> int:
        return self.searching + self.directing


def samples(*, quick: bool = False) -> list[Sample]:
    """Return what the study draws; ``quick`` is a part of it."""
    folds = range(2 if quick else 10)
    plans: list[tuple[Iterable[str], Sequence[int], Iterable[float]]] = [
        (NETWORKS, (1000, 5000) if quick else range(1000, 5001, 1000), [ALPHA]),
        (DENSITIES, (1000, 4000) if quick else range(1000, 4001, 1000), [ALPHA]),
        ((PRICED[0],), (PRICED[1],), OTHER_LEVELS),
    ]
    drawn = (
        Sample(network, rows, fold, alpha)
        for networks, sizes, levels in plans
        for network, rows, fold, alpha in product(networks, sizes, folds, levels)
    )
    return list(dict.fromkeys(drawn))


def measure(sample: Sample, clock: Callable[[], float]) -> list[Run]:
    """Draw a sample and learn from it by every learner; ``clock`` returns seconds.

    >>> runs = measure(Sample("asia", 1000, 0), clock=lambda: 0.0)
    >>> [run.learner for run in runs]
    ['PC-stable', 'PC', 'FSBN', 'SSBN', 'SSBN warm']
    >>> [run.missing for run in runs]
    [2, 2, 2, 2, 2]
    """
    network = load(sample.network)
    codes, earlier = (_drawn(network, sample, part) for part in range(2))
    return [_run(network, sample, codes, earlier, name, clock) for name in LEARNERS]


def _drawn(network: BayesianNetwork, sample: Sample, part: int) -> npt.NDArray[np.uint8]:
    seed = [crc32(sample.network.encode()), sample.rows, sample.fold, part]
    return sample_codes(network, sample.rows, np.random.default_rng(seed))


def _run(  # noqa: PLR0913 - one cell of the study
    network: BayesianNetwork,
    sample: Sample,
    codes: npt.NDArray[np.uint8],
    earlier: npt.NDArray[np.uint8],
    name: str,
    clock: Callable[[], float],
) -> Run:
    config = LearnerConfig(
        algorithm=LEARNERS[name], alpha=sample.alpha, repair=False, max_tests=None
    )
    learner = StructureLearner(config, max_sets=None)

    def learned_from(
        rows: npt.NDArray[np.uint8], previous: LearnedStructure | None = None
    ) -> LearnedStructure:
        return learner.learn_from(ChiSquareTest(rows, network.nodes, sample.alpha), previous)

    previous = learned_from(earlier) if name == "SSBN warm" else None
    started = clock()
    learned = learned_from(codes, previous)
    seconds = clock() - started
    true, found = network.cpdag(), learned.graph
    unseen = sum(learned.separators.get(edge) == () for edge in true.skeleton)
    proof = common = None
    if name == "SSBN":
        proof = sum(_tests(learned_from(codes, learned))) - _fewest(learned)
    if name == "PC" and (sample.network, sample.rows, sample.alpha) == (*PRICED, ALPHA):
        common = common_neighbour_cost(ChiSquareTest(codes, network.nodes, sample.alpha))
    return Run(
        **vars(sample),
        learner=name,
        hamming=shd(true, found),
        missing=len(true.skeleton - found.skeleton),
        added=len(found.skeleton - true.skeleton),
        unseen=unseen,
        bdeu=bdeu(network, learned.dag, codes),
        true_bdeu=bdeu(network, network.dag, codes),
        tests=_tests(learned),
        directing=learned.cost.orientation_weighted,
        separators=_separators(learned),
        seconds=seconds,
        proof=proof,
        common=common,
    )


def _tests(learned: LearnedStructure) -> tuple[int, ...]:
    return tuple((2 + size) * count for size, count in enumerate(learned.cost.tests))


def _separators(learned: LearnedStructure) -> tuple[int, ...]:
    sizes = [len(members) for members in learned.separators.values()]
    return tuple(np.bincount(sizes, minlength=len(learned.cost.tests)).tolist())


def _fewest(learned: LearnedStructure) -> int:
    """Return the weighted tests without condition and one test for each pair separated later."""
    n_separated = _separators(learned)[1:]
    return _tests(learned)[0] + sum((3 + i) * count for i, count in enumerate(n_separated))


def common_neighbour_cost(test: IndependenceTest, max_size: int = 2) -> int:
    """Count the weighted tests of a PC that draws its sets from common neighbours, as Weka's does.

    >>> from driftbn.testing import DSeparationOracle
    >>> common_neighbour_cost(DSeparationOracle(Dag("abc", [("a", "b"), ("b", "c")])))
    12
    """
    n_nodes = len(test.names)
    adjacent = ~np.eye(n_nodes, dtype=np.bool_)
    weighted = 0
    for size in range(max_size + 1):
        for x, y in combinations(range(n_nodes), 2):
            if adjacent[x, y]:
                common = np.flatnonzero(adjacent[x] & adjacent[y]).tolist()
                sets = list(combinations(common, size))
                found = test.first_separator(x, y, sets)
                weighted += (2 + size) * (len(sets) if found is None else found + 1)
                adjacent[x, y] = adjacent[y, x] = found is None
    return weighted


def bdeu(network: BayesianNetwork, dag: Dag, codes: npt.NDArray[np.uint8]) -> float:
    """Return the logarithm of the BDeu score of a graph, with a prior worth one row.

    >>> from driftbn.datasets import asia
    >>> rows = np.zeros((8, 1), np.uint8)
    >>> round(bdeu(asia(), asia().dag, rows) / -0.693147181, 6)  # one row: 1/2 for each field
    8.0
    """
    score = 0.0
    for node in network.nodes:
        family = [network.index(name) for name in (*dag.parents(node), node)]
        counts = family_counts(codes, family, network.cards, node)
        rows = counts.sum(axis=1)
        cell, row = 1 / counts.size, 1 / len(counts)
        score += float((gammaln(cell + counts) - gammaln(cell)).sum())
        score -= float((gammaln(row + rows) - gammaln(row)).sum())
    return score
