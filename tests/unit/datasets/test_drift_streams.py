from __future__ import annotations

from collections.abc import Callable
from itertools import islice, pairwise

import numpy as np
import pytest

from driftbn.datasets import (
    MEDIUM,
    STRONG,
    WEAK,
    EdgeStrength,
    add_edges,
    alarm,
    asia,
    edge_strength,
    remove_edge,
)
from driftbn.graphs.network import BayesianNetwork, ancestors, joint
from tests import networks
from tests.changed_networks import (
    BENCHMARKS,
    SEEDS,
    assert_same_marginals,
    generator,
)
from tests.drift_streams import (
    Abrupt,
    DriftStream,
    Gradual,
    Recurring,
    Repeats,
    Schedule,
    Sessions,
)
from tests.edge_picking import pick_added_edges, pick_removed_edges

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


def fingerprints(n_states: int = 250) -> BayesianNetwork:
    """Return a network of independent variables whose states hardly ever meet by chance."""
    states = [[str(i) for i in range(n_states)]] * 6
    row = np.full((1, n_states), 1 / n_states)
    return BayesianNetwork("abcdef", states, [()] * 6, [row] * 6)


def changed_asia() -> BayesianNetwork:
    return remove_edge(asia(), "smoke", "bronc").network


def run_lengths(codes: np.ndarray) -> np.ndarray:
    """Return the lengths of runs of equal columns."""
    new = (codes[:, 1:] != codes[:, :-1]).any(axis=0)
    return np.diff(np.flatnonzero(np.concatenate(([True], new, [True]))))


def held_rows(stream: DriftStream, codes: np.ndarray) -> np.ndarray:
    return codes[[stream.before.index(node) for node in stream.held]]


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

    def test_each_row_follows_its_network_when_these_take_turns(self) -> None:
        after = changed_asia()
        stream = DriftStream(asia(), after, Recurring(0, 3), Sessions(50), seed=17)
        codes = rows(stream, 120_000)
        changed = stream.schedule.share_changed(np.arange(120_000)) == 1
        assert_follows(after, codes[:, changed], tolerance=0.02)
        assert_follows(asia(), codes[:, ~changed], tolerance=0.02)


class TestRepeats:
    def test_repeat_whole_rows(self) -> None:
        stream = DriftStream(fingerprints(), bursts=Repeats(5), seed=10)
        lengths = run_lengths(rows(stream, 100_000))
        assert lengths.mean() == pytest.approx(5, rel=0.04)
        assert lengths.std() == pytest.approx(20**0.5, rel=0.06)
        assert stream.held == stream.before.nodes


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


class TestPickers:
    @pytest.mark.parametrize("pick", [pick_removed_edges, pick_added_edges])
    @pytest.mark.parametrize("strength", [STRONG, MEDIUM, WEAK])
    def test_keep_to_the_class(
        self, pick: Callable[..., tuple[EdgeStrength, ...]], strength: tuple[float, float]
    ) -> None:
        network = networks.load("200_250")
        picked = pick(network, 2, strength, generator(1))
        assert len(picked) == len({edge.child for edge in picked}) == 2
        assert all(strength[0] <= edge.strength <= strength[1] for edge in picked)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_added_edges_can_be_added_together(self, seed: int) -> None:
        network = alarm()
        picked = pick_added_edges(network, 6, STRONG, generator(seed))
        change = add_edges(network, picked, generator(seed))
        assert len(change.network.dag.edges) == 46 + 6
        for edge in picked:
            found = edge_strength(change.network, *edge.edge)
            assert found == pytest.approx(edge.strength, rel=0.05)

    @pytest.mark.slow
    @pytest.mark.parametrize("name", BENCHMARKS[1:])
    def test_find_edges_that_keep_marginals_in_large_networks(self, name: str) -> None:
        network = networks.load(name)
        removed = pick_removed_edges(network, 1, STRONG, generator(1), keep_marginals=True)[0]
        after = remove_edge(network, *removed.edge).network
        assert_same_marginals(network, after)
        added = pick_added_edges(network, 1, MEDIUM, generator(1), keep_marginals=True)
        assert_same_marginals(network, add_edges(network, added, generator(1)).network)
