from __future__ import annotations

from itertools import islice, pairwise

import numpy as np
import pytest

from driftbn.datasets import alarm, asia, remove_edge
from tests.drift_streams import (
    Abrupt,
    DriftStream,
    Gradual,
    Recurring,
    Repeats,
    Schedule,
    Sessions,
)
from tests.networks import BayesianNetwork, ancestors, joint, load

BURSTS = [None, Sessions(2), Sessions(5), Sessions(20), Repeats(5)]


def rows(stream: DriftStream, n_rows: int, *, batch: int | None = None) -> np.ndarray:
    """Return the first rows of a stream."""
    size = batch or n_rows
    batches = islice(stream.batches(size), -(-n_rows // size))
    return np.concatenate(list(batches), axis=1)[:, :n_rows]


@pytest.mark.parametrize("bursts", BURSTS)
def test_abrupt_change_is_exactly_at_its_record(bursts: Sessions | Repeats | None) -> None:
    row = np.eye(2)
    before, after = (
        BayesianNetwork("abc", [("no", "yes")] * 3, [()] * 3, [row[[state]]] * 3)
        for state in (0, 1)
    )
    seen = rows(DriftStream(before, after, Abrupt(1234), bursts, seed=1), 3000)[0]
    assert not seen[:1234].any()
    assert seen[1234:].all()


@pytest.mark.slow
@pytest.mark.parametrize("mean", [2, 5, 20])
def test_each_row_of_a_session_follows_the_network(mean: int) -> None:
    """Compared are all single marginals and many of pairs."""
    network, n_rows, tolerance = alarm(), 200_000, 0.0045 * mean**0.5 + 0.003
    codes = rows(DriftStream(network, bursts=Sessions(mean), seed=5), n_rows)
    pairs = (*network.dag.edges, *pairwise(network.nodes))
    for names in (*((node,) for node in network.nodes), *pairs):
        exact = joint(network, names)
        cells = np.ravel_multi_index([codes[network.index(name)] for name in names], exact.shape)
        seen = np.bincount(cells, minlength=exact.size).reshape(exact.shape) / n_rows
        np.testing.assert_allclose(seen, exact, atol=tolerance)


@pytest.mark.parametrize("name", ["asia", "alarm", "hailfinder", "200_250"])
def test_sessions_hold_a_third_closed_under_ancestors(name: str) -> None:
    network = load(name)
    for seed in range(5):
        held = DriftStream(network, bursts=Sessions(5), seed=seed).held
        assert len(held) == round(len(network.nodes) / 3)
        assert ancestors(network.dag, held) == set(held)


@pytest.mark.slow
@pytest.mark.parametrize("bursts", BURSTS)
@pytest.mark.parametrize("schedule", [Abrupt(333), Gradual(100, 500), Recurring(50, 200)])
def test_rows_do_not_depend_on_the_size_of_batches(
    schedule: Schedule, bursts: Sessions | Repeats | None
) -> None:
    changed = remove_edge(asia(), "smoke", "bronc").network
    stream = DriftStream(asia(), changed, schedule, bursts, seed=13)
    whole = rows(stream, 1000)
    for batch in (1, 7, 250, 999):
        np.testing.assert_array_equal(rows(stream, 1000, batch=batch), whole)
