from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from driftbn.datasets import asia
from driftbn.errors import GraphError, UnknownVariableError
from tests import networks
from tests.changed_networks import BENCHMARKS, BINARY, EXACT, SEEDS, marginal, parents, small
from tests.networks import BayesianNetwork, joint


class TestJoint:
    @pytest.mark.slow
    @pytest.mark.parametrize("seed", SEEDS)
    def test_is_that_of_the_full_table(self, seed: int) -> None:
        network = small(seed)
        for size in (1, 2, 3):
            for names in combinations(network.nodes, size):
                np.testing.assert_allclose(
                    joint(network, names), marginal(network, names), atol=EXACT
                )

    @pytest.mark.parametrize("name", BENCHMARKS)
    def test_manages_every_family_of_large_networks(self, name: str) -> None:
        network = networks.load(name)
        for node in network.nodes:
            family = (*parents(network, node), node)
            cards = [network.cards[network.index(name)] for name in family]
            found = joint(network, family)
            above = joint(network, family[:-1])[..., np.newaxis]
            np.testing.assert_allclose(found, above * network.cpt(node).reshape(cards), atol=EXACT)

    def test_refuses_a_variable_twice(self) -> None:
        with pytest.raises(GraphError, match="twice"):
            joint(asia(), ("lung", "lung"))

    def test_refuses_an_unknown_variable(self) -> None:
        with pytest.raises(UnknownVariableError, match="nobody"):
            joint(asia(), ("nobody",))

    def test_refuses_tables_that_do_not_fit(self) -> None:
        roots = [f"x{i}" for i in range(25)]
        network = BayesianNetwork(roots, [BINARY] * 25, [()] * 25, [[[0.5, 0.5]]] * 25)
        with pytest.raises(GraphError, match="33554432 cells"):
            joint(network, roots)
