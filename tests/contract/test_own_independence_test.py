"""A monitor learns with any independence test; its own two-sample tests decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

from driftbn import DriftMonitor, LearnerConfig, MonitorConfig, learn_structure
from driftbn.datasets import asia, remove_edge, sample
from driftbn.learning import ChiSquareTest, IndependenceTest, PackedTable
from tests.drift_streams import Abrupt, DriftStream, Repeats

pytestmark = pytest.mark.slow

SIZE = 1000
N_WINDOWS = 8
CHANGE = 5


class PlainG(IndependenceTest):
    """G by NumPy, one question at a time, that counts how often it is asked."""

    n_asked = 0

    def __init__(
        self, table: PackedTable, config: LearnerConfig, design_effects: Mapping[str, float]
    ) -> None:
        self.names = table.names
        self._codes = table.codes.astype(np.int64)
        self._alpha = config.alpha
        self._excess = [design_effects.get(name, 1.0) - 1.0 for name in table.names]

    def first_separator(self, x: int, y: int, sets: Sequence[Sequence[int]]) -> int | None:
        return next((i for i, z in enumerate(sets) if self.p_value(x, y, z) > self._alpha), None)

    def p_value(self, x: int, y: int, members: Sequence[int]) -> float:
        type(self).n_asked += 1
        z = np.zeros(self._codes.shape[1], np.int64)
        for member in members:
            z = z * (self._codes[member].max() + 1) + self._codes[member]
        shape = (z.max() + 1, self._codes[x].max() + 1, self._codes[y].max() + 1)
        cells = np.ravel_multi_index((z, self._codes[x], self._codes[y]), shape)
        counts = np.bincount(cells, minlength=np.prod(shape)).reshape(shape)
        rows, columns = counts.sum(2, keepdims=True), counts.sum(1, keepdims=True)
        expected = rows * columns / np.maximum(counts.sum((1, 2), keepdims=True), 1)
        met = counts > 0
        value = 2.0 * np.sum(counts[met] * np.log(counts[met] / expected[met]))
        free = [np.maximum((margin > 0).sum((1, 2)) - 1, 0) for margin in (rows, columns)]
        dof = int(np.sum(free[0] * free[1]))
        effect = 1.0 + (self._excess[x] * self._excess[y]) ** 0.5
        return float(chi2.sf(value / effect, dof)) if dof else 1.0


def asked_in_python(
    table: PackedTable, config: LearnerConfig, design_effects: Mapping[str, float]
) -> IndependenceTest:
    """Wrap the compiled test so that a search reaches it by single questions only."""
    compiled = ChiSquareTest.of_table(table, config, design_effects).ordered_by_data()

    class Wrapped(IndependenceTest):
        names = compiled.names
        strength = compiled.strength  # type: ignore[assignment]

        def first_separator(self, x: int, y: int, sets: Sequence[Sequence[int]]) -> int | None:
            return compiled.first_separator(x, y, sets)

        def p_value(self, x: int, y: int, members: Sequence[int]) -> float:
            return compiled.p_value(x, y, members)

    return Wrapped()


def stream(bursts: Repeats | None = None) -> pd.DataFrame:
    after = remove_edge(asia(), "smoke", "bronc").network
    drifting = DriftStream(asia(), after, Abrupt(CHANGE * SIZE), bursts, seed=5)
    return drifting.sample(N_WINDOWS * SIZE)


def test_a_monitor_learns_with_a_test_of_its_own_and_alarms() -> None:
    PlainG.n_asked = 0
    monitor = DriftMonitor(window=SIZE, independence_test=PlainG)
    reports = monitor.update(stream())
    assert PlainG.n_asked > 100 * N_WINDOWS / 2
    assert [report.index for report in reports if report.decision.drift] == [CHANGE]
    (edge,) = reports[CHANGE].decision.edges
    assert (edge.pair, edge.change) == (("bronc", "smoke"), "removed")
    assert ("bronc", "dysp") in reports[0].graph.skeleton


def test_a_restored_monitor_goes_on_with_the_test_that_it_is_given() -> None:
    rows = stream()
    whole = DriftMonitor(window=SIZE, independence_test=PlainG)
    expected = [report.to_dict() for report in whole.update(rows)]
    monitor = DriftMonitor(window=SIZE, independence_test=PlainG)
    found = [report.to_dict() for report in monitor.update(rows[: 3 * SIZE + 10])]
    again = DriftMonitor.restore(monitor.snapshot(), independence_test=PlainG)
    found += [report.to_dict() for report in again.update(rows[3 * SIZE + 10 :])]
    assert found == expected


@pytest.mark.parametrize("bursts", [None, Repeats(3)])
def test_chi_square_asked_in_python_gives_the_decisions_of_the_compiled_one(
    bursts: Repeats | None,
) -> None:
    rows = stream(bursts)
    config = MonitorConfig(window=SIZE, learner=LearnerConfig(repair=False))
    compiled = DriftMonitor(config).update(rows)
    asked = DriftMonitor(config, independence_test=asked_in_python).update(rows)
    assert [report.decision for report in asked] == [report.decision for report in compiled]
    assert [report.graph for report in asked] == [report.graph for report in compiled]


def test_a_table_is_learned_with_a_test_of_its_own() -> None:
    table = sample(asia(), 5000, 1)
    asked = learn_structure(table, independence_test=asked_in_python)
    assert asked.graph == learn_structure(table).graph
