"""Run driftbn's own learners on a sample, in this process."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import fmean

import pandas as pd

from driftbn import LearnerConfig, Pdag, shd
from driftbn.graphs.network import BayesianNetwork
from driftbn.learning import LearnedStructure, StructureLearner
from driftbn.tables.infer import infer_and_encode
from tests.benchmarks.truth import Codes

QUICK_SECONDS = 1.0  # as for the peers: a first run below this is repeated


@dataclass(frozen=True)
class OwnLearner:
    """An algorithm, and whether it starts from what it learned on an earlier sample."""

    name: str
    algorithm: str
    repair: bool = False
    warm: bool = False


OWN_LEARNERS = (
    OwnLearner("PC-stable", "pc"),
    OwnLearner("PC", "pc-original"),
    OwnLearner("FSBN", "fsbn"),
    OwnLearner("SSBN", "ssbn"),
    OwnLearner("SSBN repaired", "ssbn", repair=True),
    OwnLearner("SSBN repaired, warm", "ssbn", repair=True, warm=True),
)


@dataclass(frozen=True)
class OwnRun:
    """What one of our learners found and what it cost."""

    seconds: float
    frame_seconds: float
    graph: Pdag
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
    config = LearnerConfig(algorithm=learner.algorithm, alpha=alpha, repair=learner.repair)
    structures = StructureLearner(config)
    previous = structures.learn(infer_and_encode(_frame(names, earlier))) if learner.warm else None
    structures.learn(infer_and_encode(frame), previous)  # compiles, or loads what was compiled
    best = best_from_frame = float("inf")
    for _ in range(repeats):
        begin = time.process_time()
        table = infer_and_encode(frame)
        encoded = time.process_time()
        learned = structures.learn(table, previous)
        end = time.process_time()
        best, best_from_frame = min(best, end - encoded), min(best_from_frame, end - begin)
        if best > QUICK_SECONDS:
            break
    return OwnRun(best, best_from_frame, learned.graph, learned.cost.weighted)


def _frame(names: tuple[str, ...], codes: Codes) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Categorical(row) for name, row in zip(names, codes, strict=True)})


@dataclass(frozen=True)
class Chain:
    """Means over the windows of a stationary stream after the first one."""

    structural_distance: float  # to the truth
    hamming: float  # to the window before
    weighted_tests: float
    seconds: float  # of CPU


def run_chain(network: BayesianNetwork, windows: list[Codes], *, warm: bool) -> Chain:
    """Learn window after window, each from the one before if ``warm``."""
    names, truth = network.nodes, network.cpdag()
    learner = StructureLearner()
    last: LearnedStructure | None = None
    before = Pdag(names)
    found = []
    for codes in windows:
        varying = [i for i, column in enumerate(codes) if column.min() < column.max()]
        begin = time.process_time()
        learned = learner.learn_window(
            codes[varying],
            [names[i] for i in varying],
            last if warm else None,
            dependent_rows=False,
        ).learned
        seconds = time.process_time() - begin
        graph = Pdag(names, learned.graph.directed_edges, learned.graph.undirected_edges)
        if last is not None:
            found.append((shd(truth, graph), shd(before, graph), learned.cost.weighted, seconds))
        last, before = learned, graph
    return Chain(*(fmean(column) for column in zip(*found, strict=True)))
