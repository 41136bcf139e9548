"""How the cost of learning grows with rows, variables and levels: three curves.

Run ``python -m tests.benchmarks.scale``. Every point is learned in a process of its own, on one
core, so that its peak memory is its own; the kernels are compiled before.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time
from dataclasses import dataclass

from tests.benchmarks.environment import pin_to_one_core

ROWS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
VARIABLES = (10, 30, 100, 300, 1_000)
LEVELS = (2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Point:
    """One table to learn from: a random network's sample."""

    curve: str
    n_variables: int
    n_rows: int
    n_levels: int


POINTS = (
    *(Point("rows", 37, n_rows, 3) for n_rows in ROWS),
    *(Point("variables", n_variables, 10_000, 2) for n_variables in VARIABLES),
    *(Point("levels", 50, 10_000, n_levels) for n_levels in LEVELS),
)


@dataclass(frozen=True)
class Cost:
    """What a point took; memory is the growth of the process while it learned."""

    seconds: float
    weighted: int
    megabytes: float


def measure(point: Point) -> Cost:
    """Sample, learn once to load the kernels, then learn the point itself."""
    import numpy as np  # noqa: PLC0415 - after the process was pinned

    from driftbn import datasets  # noqa: PLC0415
    from driftbn.learning import ChiSquareTest, StructureLearner  # noqa: PLC0415

    arcs = point.n_variables * 5 // 4
    network = datasets.random_network(
        point.n_variables, arcs, cardinality=point.n_levels, max_parents=2, seed=1
    )
    codes = datasets.sample_codes(network, point.n_rows, np.random.default_rng(1))
    learner = StructureLearner()
    learner.learn_from(ChiSquareTest(codes[:3, :1000], network.nodes[:3]))
    before = _peak_megabytes()
    begin = time.perf_counter()
    learned = learner.learn_from(ChiSquareTest(codes, network.nodes))
    seconds = time.perf_counter() - begin
    return Cost(seconds, learned.cost.weighted, _peak_megabytes() - before)


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure every point and print the curves."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.scale")
    parser.add_argument("--curves", nargs="+", default=("rows", "variables", "levels"))
    parser.add_argument("--core", type=int, help="the core to run on; default: the last one")
    arguments = parser.parse_args()
    pin_to_one_core(arguments.core)
    context = multiprocessing.get_context("spawn")
    header = "| curve | variables | rows | levels | time | weighted tests | memory |\n"
    sys.stdout.write(header + "|---|--:|--:|--:|--:|--:|--:|\n")
    for point in (point for point in POINTS if point.curve in arguments.curves):
        with context.Pool(1) as pool:
            cost = pool.apply(measure, (point,))
        sys.stdout.write(
            f"| {point.curve} | {point.n_variables} | {point.n_rows:,} | {point.n_levels} "
            f"| {cost.seconds * 1000:.3g} ms | {cost.weighted:,} | {cost.megabytes:.0f} MB |\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
