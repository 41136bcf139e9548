"""Run driftbn's own learners on a sample, in this process."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pandas as pd

from driftbn import LearnedStructure, learn_structure
from tests.benchmarks.truth import Codes, MixedGraph

QUICK_SECONDS = 1.0  # as for the peers: a first run below this is repeated


@dataclass(frozen=True)
class OwnLearner:
    """An algorithm, and whether it starts from what it learned on an earlier sample."""

    name: str
    algorithm: str
    warm: bool = False


OWN_LEARNERS = (
    OwnLearner("PC-stable", "pc"),
    OwnLearner("PC", "pc-original"),
    OwnLearner("FSBN", "fsbn"),
    OwnLearner("SSBN cold", "ssbn"),
    OwnLearner("SSBN warm", "ssbn", warm=True),
)


@dataclass(frozen=True)
class OwnRun:
    """What one of our learners found and what it cost."""

    seconds: float
    graph: MixedGraph
    weighted_tests: float


def run_own(
    learner: OwnLearner,
    names: tuple[str, ...],
    codes: Codes,
    earlier: Codes,
    alpha: float,
    repeats: int,
) -> OwnRun:
    """Learn from ``codes``, best of the repeats; a warm start has seen ``earlier``."""
    frame = _frame(names, codes)
    previous = _learn(learner, _frame(names, earlier), alpha, None) if learner.warm else None
    _learn(learner, frame, alpha, previous)  # compiles, or loads the compiled kernels
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        learned = _learn(learner, frame, alpha, previous)
        best = min(best, time.perf_counter() - begin)
        if best > QUICK_SECONDS:
            break
    graph = MixedGraph.of(learned.graph.directed_edges, learned.graph.undirected_edges)
    return OwnRun(best, graph, learned.cost.weighted)


def _learn(
    learner: OwnLearner, frame: pd.DataFrame, alpha: float, previous: LearnedStructure | None
) -> LearnedStructure:
    return learn_structure(frame, algorithm=learner.algorithm, alpha=alpha, previous=previous)


def _frame(names: tuple[str, ...], codes: Codes) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Categorical(row) for name, row in zip(names, codes, strict=True)})
