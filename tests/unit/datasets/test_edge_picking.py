from __future__ import annotations

from collections.abc import Callable

import pytest

from driftbn.datasets import (
    MEDIUM,
    STRONG,
    WEAK,
    EdgeStrength,
    add_edges,
    alarm,
    edge_strength,
    remove_edge,
)
from tests import networks
from tests.changed_networks import (
    BENCHMARKS,
    SEEDS,
    assert_same_marginals,
    generator,
)
from tests.edge_picking import pick_added_edges, pick_removed_edges


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

    @pytest.mark.parametrize("name", BENCHMARKS[1:])
    def test_find_edges_that_keep_marginals_in_large_networks(self, name: str) -> None:
        network = networks.load(name)
        removed = pick_removed_edges(network, 1, STRONG, generator(1), keep_marginals=True)[0]
        after = remove_edge(network, *removed.edge).network
        assert_same_marginals(network, after)
        added = pick_added_edges(network, 1, MEDIUM, generator(1), keep_marginals=True)
        assert_same_marginals(network, add_edges(network, added, generator(1)).network)
