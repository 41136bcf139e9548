from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbn import datasets
from driftbn.datasets import alarm, asia, load, random_dag, random_network, sample, sample_codes
from driftbn.errors import ConfigError, DataError
from tests import networks
from tests.changed_networks import full_joint
from tests.networks import BayesianNetwork


def mutual_information(x: np.ndarray, y: np.ndarray) -> float:
    joint = np.histogram2d(x, y, bins=(int(x.max()) + 1, int(y.max()) + 1))[0] / len(x)
    alone = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    seen = joint > 0
    return float((joint[seen] * np.log(joint[seen] / alone[seen])).sum())


def test_asia_is_as_published() -> None:
    network = asia()
    assert len(network.nodes) == len(network.dag.edges) == 8
    assert network.cpt("tub").tolist() == [[0.05, 0.95], [0.01, 0.99]]
    assert network.dag.parents("either") == ("lung", "tub")


def test_alarm_is_as_published() -> None:
    network = alarm()
    assert len(network.nodes) == 37
    assert len(network.dag.edges) == 46
    assert set(network.cards) == {2, 3, 4}


def test_all_public_names_exist() -> None:
    assert all(hasattr(datasets, name) for name in datasets.__all__)


@pytest.mark.parametrize("name", networks.NAMES)
def test_every_test_network_loads_and_samples(name: str) -> None:
    network = networks.load(name)
    codes = sample_codes(network, 20, np.random.default_rng(1))
    assert codes.shape == (len(network.nodes), 20)
    assert codes.dtype == np.uint8
    assert all(codes.max(axis=1) < network.cards)


def test_sampled_rows_follow_the_joint_distribution() -> None:
    network = asia()
    joint = full_joint(network)
    assert joint.sum() == pytest.approx(1)
    n_rows = 100_000
    rows = sample_codes(network, n_rows, np.random.default_rng(1)).T
    counts = Counter(map(tuple, rows.tolist()))
    assert all(joint[row] > 0 for row in counts)
    common = [row for row in np.ndindex(joint.shape) if joint[row] * n_rows >= 5]
    statistic = sum((counts[r] - joint[r] * n_rows) ** 2 / (joint[r] * n_rows) for r in common)
    # Chi-square with as many degrees of freedom: five standard deviations above the mean.
    assert statistic < len(common) + 5 * np.sqrt(2 * len(common))


def test_impossible_states_are_never_drawn() -> None:
    tables = [[[0.0, 0.3, 0.0, 0.7, 0.0]]]
    network = BayesianNetwork(["a"], ["vwxyz"], [[]], tables)
    codes = sample_codes(network, 10_000, np.random.default_rng(1))
    assert set(codes[0].tolist()) == {1, 3}


class AlmostOne(np.random.Generator):
    """Draws the largest number below 1 every time."""

    def random(self, n_rows: int) -> np.ndarray:  # type: ignore[override]
        return np.full(n_rows, np.nextafter(1.0, 0.0))


def test_largest_uniform_number_draws_the_last_possible_state() -> None:
    rng = AlmostOne(np.random.PCG64(1))
    for row in ([0.1] * 10 + [0.0], [0.3, 0.7 - 1e-13, 0.0]):
        network = BayesianNetwork(["a"], [map(str, range(len(row)))], [[]], [[row]])
        assert sample_codes(network, 3, rng).tolist() == [[len(row) - 2] * 3]


def test_sampling_is_repeatable_and_goes_on_with_a_generator() -> None:
    assert sample(asia(), 50, seed=3).equals(sample(asia(), 50, seed=3))
    assert not sample(asia(), 50, seed=3).equals(sample(asia(), 50, seed=4))
    rng = np.random.default_rng(3)
    assert sample(asia(), 50, rng).equals(sample(asia(), 50, seed=3))
    assert not sample(asia(), 50, rng).equals(sample(asia(), 50, seed=3))


def test_drawn_rows_do_not_depend_on_the_order_of_nodes() -> None:
    network = asia()
    turned = BayesianNetwork(
        network.nodes[::-1], network.states[::-1], network.parents[::-1], network.cpts[::-1]
    )
    one = sample_codes(network, 100, np.random.default_rng(1))
    two = sample_codes(turned, 100, np.random.default_rng(1))
    assert np.array_equal(one, two[::-1])


def test_table_has_categories_of_the_network() -> None:
    network = alarm()
    table = sample(network, 30, seed=1)
    codes = sample_codes(network, 30, np.random.default_rng(1))
    assert tuple(table.columns) == network.nodes
    for i, node in enumerate(network.nodes):
        assert isinstance(table[node].dtype, pd.CategoricalDtype)
        assert tuple(table[node].cat.categories) == network.states[i]
        assert table[node].cat.codes.tolist() == codes[i].tolist()


def test_too_many_states_are_refused() -> None:
    names = [f"s{i}" for i in range(257)]
    network = BayesianNetwork(["a"], [names], [[]], [[[1.0] + [0.0] * 256]])
    with pytest.raises(DataError, match="column 'a': 257 states; at most 256"):
        sample_codes(network, 1, np.random.default_rng(1))


@given(st.integers(0, 12), st.integers(0, 5), st.integers(0, 2**32 - 1), st.data())
@settings(max_examples=60)
def test_random_dag_has_the_asked_size(
    n_nodes: int, max_parents: int, seed: int, data: st.DataObject
) -> None:
    room = sum(min(i, max_parents) for i in range(n_nodes))
    n_arcs = data.draw(st.integers(0, room))
    dag = random_dag(n_nodes, n_arcs, max_parents=max_parents, seed=seed)
    assert (len(dag.nodes), len(dag.edges)) == (n_nodes, n_arcs)
    assert all(len(dag.parents(node)) <= max_parents for node in dag.nodes)


def test_random_dag_prefers_no_direction() -> None:
    ups = sum(u < v for seed in range(200) for u, v in random_dag(6, 5, seed=seed).edges)
    assert 400 < ups < 600


@pytest.mark.parametrize("seed", range(4))
def test_arcs_of_single_parents_show_in_data(seed: int) -> None:
    network = random_network(20, 15, max_parents=1, seed=seed)
    codes = sample_codes(network, 5000, np.random.default_rng(seed))
    shown = [
        mutual_information(codes[network.index(u)], codes[network.index(v)])
        for u, v in network.dag.edges
    ]
    # A single arc at alpha 0.01 needs about 3.3 / 5000 nats.
    assert min(shown) > 0.01


def test_strength_makes_arcs_stronger() -> None:
    means = []
    for strength in (0.05, 1.0, 10.0):
        network = random_network(20, 15, max_parents=1, strength=strength, seed=1)
        spread = [np.ptp(network.cpt(v)[:, 0]) for _, v in network.dag.edges]
        means.append(np.mean(spread))
    assert means == sorted(means)
    assert means[-1] > 2 * means[0]


@pytest.mark.parametrize(
    ("make", "field", "problem"),
    [
        (lambda: random_dag(-1, 0, seed=1), "n_nodes", "0 or more"),
        (lambda: random_dag(3, 4, seed=1), "n_arcs", "from 0 to 3 for 3 nodes"),
        (lambda: random_dag(3, -1, seed=1), "n_arcs", "from 0 to 3"),
        (lambda: random_dag(4, 4, max_parents=1, seed=1), "n_arcs", "from 0 to 3"),
        (lambda: random_dag(4, 0, max_parents=-1, seed=1), "max_parents", "0 or more"),
        (lambda: random_network(5, 4, cardinality=1), "cardinality", "2 or more"),
        (lambda: random_network(5, 4, cardinality=(4, 2)), "cardinality", "2 or more"),
        *(
            (lambda strength=strength: random_network(5, 4, strength=strength), "strength", "posit")
            for strength in (0.0, float("inf"), float("nan"))
        ),
        (lambda: random_network(30, 435, max_parents=None), "max_parents", "cells"),
        (lambda: sample(asia(), -1, seed=1), "n_rows", "n_rows = -1"),
        (lambda: load("../secret"), "name", "one of alarm, asia"),
    ],
)
def test_what_cannot_be_drawn_is_refused(make, field, problem) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        make()
    assert caught.value.field == field
