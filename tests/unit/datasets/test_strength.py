from __future__ import annotations

import math

import pytest

from driftbn.datasets import asia, edge_strength
from driftbn.errors import GraphError
from driftbn.graphs.network import BayesianNetwork
from tests import networks
from tests.changed_networks import (
    BENCHMARKS,
    BINARY,
    SEEDS,
    information,
    parents,
    small,
)


class TestEdgeStrength:
    @pytest.mark.parametrize("seed", SEEDS)
    def test_is_the_conditional_mutual_information(self, seed: int) -> None:
        network = small(seed)
        for parent, child in network.dag.edges:
            others = parents(network, child, without=parent)
            expected = information(network, child, parent, others)
            assert edge_strength(network, parent, child) == pytest.approx(expected, abs=1e-10)

    def test_of_a_copy_is_the_entropy(self) -> None:
        copied = BayesianNetwork(
            "ab", [BINARY] * 2, [(), "a"], [[[0.3, 0.7]], [[1.0, 0.0], [0.0, 1.0]]]
        )
        entropy_of_a = -0.3 * math.log(0.3) - 0.7 * math.log(0.7)
        assert edge_strength(copied, "a", "b") == pytest.approx(entropy_of_a)

    @pytest.mark.parametrize("name", BENCHMARKS)
    def test_is_found_for_all_edges_of_large_networks(self, name: str) -> None:
        network = networks.load(name)
        for parent, child in network.dag.edges:
            card = network.cards[network.index(child)]
            assert 0 <= edge_strength(network, parent, child) <= math.log(card)

    def test_needs_the_edge(self) -> None:
        with pytest.raises(GraphError, match="no edge 'bronc' -> 'smoke'"):
            edge_strength(asia(), "bronc", "smoke")
