"""A window as it is judged: its rows packed, its graph learned, its dependence measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from driftbn.decision.dependence import design_effects
from driftbn.encoding.duplicates import find_duplicates
from driftbn.graphs.graph import Pdag
from driftbn.kernels.evidence import Floats
from driftbn.learning import LearnedStructure, StructureLearner
from driftbn.learning.independence import ChiSquareTest, Codes


@dataclass(frozen=True, eq=False)
class WindowEvidence:
    """A window as it is judged.

    Parameters
    ----------
    codes
        Rows, ``[variables, rows]``, variables sorted by name.
    test
        The packed test on them.
    learned
        What was learned.
    effects
        Design effect of each variable.
    twins
        For each variable that says the same as an earlier one, that one.
    """

    codes: Codes
    test: ChiSquareTest
    learned: LearnedStructure
    effects: Floats
    twins: dict[int, int] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Variables, sorted."""
        return self.test.names


def learn_rows(
    learner: StructureLearner,
    codes: Codes,
    names: Sequence[str],
    previous: LearnedStructure | None = None,
    *,
    dependent_rows: bool = True,
) -> WindowEvidence:
    """Learn the graph of some rows, with dependence between neighbouring rows taken out.

    A variable that says the same as an earlier one has no part in the search: it hangs on that one
    by an edge without direction, and nothing else can be said of it.
    """
    config = learner.config
    test = ChiSquareTest(codes, names, config.alpha, config.statistic)
    effects = design_effects(test) if dependent_rows else np.ones(len(names))
    twins = find_duplicates(codes)
    if not twins:
        _discount(test, effects)
        return WindowEvidence(codes, test, learner.learn_from(test, previous), effects)
    single = [v for v in range(len(names)) if v not in twins]
    kept = [names[v] for v in single]
    of_single = ChiSquareTest(codes[single], kept, config.alpha, config.statistic)
    _discount(of_single, effects[single])
    learned = learner.learn_from(of_single, previous, [names[v] for v in twins])
    graph = Pdag(
        names,
        learned.graph.directed_edges,
        (
            *learned.graph.undirected_edges,
            *((names[first], names[copy]) for copy, first in twins.items()),
        ),
    )
    return WindowEvidence(codes, test, replace(learned, graph=graph), effects, twins)


def _discount(test: ChiSquareTest, effects: Floats) -> None:
    if np.any(effects > 1.0):
        test.discount(dict(zip(test.names, effects.tolist(), strict=True)))
