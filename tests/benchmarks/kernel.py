"""How far the kernels are from a bare loop, and where the rest of the time goes.

Run ``python -m tests.benchmarks.kernel``. A bare loop ANDs two bit sets that stay in the first
cache and counts the bits; nothing that tests independence by counting words can be faster.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from driftbn.config import Knowledge, LearnerConfig
from driftbn.kernels.compiled import kernel
from driftbn.kernels.counting import count_pairs, count_two
from driftbn.learning import CENSUS_SIZE, MAX_SETS, ChiSquareTest, StructureLearner
from driftbn.learning.orientation import OrientationPlan, orient
from driftbn.learning.search import (
    Limits,
    SearchStart,
    Skeleton,
    apply_knowledge,
    find_skeleton,
    plan_of,
)
from tests.benchmarks.environment import pin_to_one_core
from tests.benchmarks.truth import load_network, sample

N_ROWS = 5000
LOOPS = 20_000


@kernel
def bare_loop(a: npt.NDArray[np.uint64], b: npt.NDArray[np.uint64], loops: int) -> int:
    """Count the common bits of two sets again and again; one word changes so none is skipped."""
    total = 0
    for loop in range(loops):
        a[0] = np.uint64(loop)
        total += count_two(a, b)
    return total


def best_seconds(call: Callable[[], object], repeats: int = 150) -> float:
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return best


def report(name: str) -> str:
    """Return the shares of one network, as a Markdown row."""
    network = load_network(name)
    codes = sample(network, N_ROWS, 0)
    varies = codes.min(axis=1) != codes.max(axis=1)
    names = [node for node, keep in zip(network.nodes, varies, strict=True) if keep]
    codes = np.ascontiguousarray(codes[varies])
    config = LearnerConfig()
    test = ChiSquareTest(codes, names)
    evidence = test._evidence
    known = apply_knowledge(Knowledge(), test.names)
    limits = Limits(time.perf_counter)
    start = SearchStart.cold(len(names), config.max_conditioning)
    plan = OrientationPlan(config.collider_rule, CENSUS_SIZE, MAX_SETS)

    def search() -> Skeleton:
        test.begin(config.max_conditioning)
        return find_skeleton(
            test, plan_of(config.algorithm, config.max_conditioning), start, MAX_SETS, limits
        )

    skeleton = search()
    inner = np.diff(evidence.first) - 1
    n_words = evidence.bits.shape[1] * (inner.sum() ** 2 - (inner**2).sum()) // 2
    empty = evidence._replace(joint=np.zeros_like(evidence.joint))
    pack = best_seconds(lambda: ChiSquareTest(codes, names))
    pairs = best_seconds(lambda: count_pairs(empty))
    searched = best_seconds(search)
    directed = best_seconds(lambda: orient(skeleton, test, plan, known, limits))
    learner = StructureLearner(config)
    whole = best_seconds(lambda: learner.learn_from(ChiSquareTest(codes, names)))
    cells = (
        f"{n_words / pairs / 1e9:.2f}",
        *(f"{seconds * 1000:.2f} ms" for seconds in (pairs, pack - pairs, searched, directed)),
        f"{(whole - pack - searched - directed) * 1000:.2f} ms",
        f"{whole * 1000:.2f} ms",
    )
    return f"| {name} | {' | '.join(cells)} |\n"


def main() -> None:
    """Measure the bare loop, then each network."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.kernel")
    parser.add_argument("--networks", nargs="+", default=("alarm", "insurance", "200_250"))
    parser.add_argument("--core", type=int, help="the core to run on; default: the last one")
    arguments = parser.parse_args()
    pin_to_one_core(arguments.core)
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2**63, (2, 80), dtype=np.uint64)
    bare_loop(a, b, 1)
    seconds = best_seconds(lambda: bare_loop(a, b, LOOPS))
    sys.stdout.write(f"bare loop: {LOOPS * len(a) / seconds / 1e9:.2f} words per nanosecond\n\n")
    sys.stdout.write(
        "| network | pair counts, words/ns | pair counts | packing | search | directing "
        "| rest | all |\n|---|--:|--:|--:|--:|--:|--:|--:|\n"
    )
    for name in arguments.networks:
        sys.stdout.write(report(name))


if __name__ == "__main__":
    main()
