from __future__ import annotations

from itertools import islice, pairwise

import numpy as np
import pytest

from driftbn.datasets import alarm, asia, remove_edge
from tests import networks
from tests.drift_streams import (
    Abrupt,
    DriftStream,
    Gradual,
    Recurring,
    Repeats,
    Schedule,
    Sessions,
)
from tests.networks import BayesianNetwork, ancestors, joint

BINARY = ("no", "yes")
BURSTS = [None, Sessions(2), Sessions(5), Sessions(20), Repeats(5)]


def rows(stream: DriftStream, n_rows: int, *, batch: int | None = None) -> np.ndarray:
    """Return the first rows of a stream."""
    size = batch or n_rows
    batches = islice(stream.batches(size), -(-n_rows // size))
    return np.concatenate(list(batches), axis=1)[:, :n_rows]


def constant(state: int) -> BayesianNetwork:
    """Return a network that shows in every row which one it is."""
    row = np.eye(2)[[state]]
    return BayesianNetwork("abc", [BINARY] * 3, [()] * 3, [row, row, row])


def regimes(schedule: Schedule, n_rows: int, bursts: Sessions | Repeats | None) -> np.ndarray:
    return rows(DriftStream(constant(0), constant(1), schedule, bursts, seed=1), n_rows)[0]


def changed_asia() -> BayesianNetwork:
    return remove_edge(asia(), "smoke", "bronc").network


class TestRegimes:
    @pytest.mark.parametrize("bursts", BURSTS)
    def test_abrupt_change_is_exactly_at_its_record(self, bursts: Sessions | Repeats) -> None:
        seen = regimes(Abrupt(1234), 3000, bursts)
        assert not seen[:1234].any()
        assert seen[1234:].all()


def assert_follows(network: BayesianNetwork, codes: np.ndarray, tolerance: float) -> None:
    """Compare all single and many pair marginals with the exact ones."""
    n_rows = codes.shape[1]
    for i, node in enumerate(network.nodes):
        seen = np.bincount(codes[i], minlength=network.cards[i]) / n_rows
        np.testing.assert_allclose(seen, joint(network, [node]), atol=tolerance)
    for x, y in (*network.dag.edges, *pairwise(network.nodes)):
        i, j = network.index(x), network.index(y)
        exact = joint(network, (x, y))
        cells = codes[i].astype(int) * network.cards[j] + codes[j]
        seen = np.bincount(cells, minlength=exact.size).reshape(exact.shape) / n_rows
        np.testing.assert_allclose(seen, exact, atol=tolerance)


class TestSessions:
    @pytest.mark.slow
    @pytest.mark.parametrize("mean", [2, 5, 20])
    def test_each_row_follows_the_network(self, mean: int) -> None:
        codes = rows(DriftStream(alarm(), bursts=Sessions(mean), seed=5), 200_000)
        assert_follows(alarm(), codes, tolerance=0.0045 * mean**0.5 + 0.003)

    @pytest.mark.parametrize("name", ["asia", "alarm", "hailfinder", "200_250"])
    def test_hold_a_third_closed_under_ancestors(self, name: str) -> None:
        network = networks.load(name)
        for seed in range(5):
            held = DriftStream(network, bursts=Sessions(5), seed=seed).held
            assert len(held) == round(len(network.nodes) / 3)
            assert ancestors(network.dag, held) == set(held)


class TestStream:
    @pytest.mark.slow
    @pytest.mark.parametrize("bursts", BURSTS)
    @pytest.mark.parametrize("schedule", [Abrupt(333), Gradual(100, 500), Recurring(50, 200)])
    def test_does_not_depend_on_the_size_of_batches(
        self, schedule: Schedule, bursts: Sessions | Repeats
    ) -> None:
        stream = DriftStream(asia(), changed_asia(), schedule, bursts, seed=13)
        whole = rows(stream, 1000)
        for batch in (1, 7, 250, 999):
            np.testing.assert_array_equal(rows(stream, 1000, batch=batch), whole)
