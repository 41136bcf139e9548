from __future__ import annotations

import math
from collections.abc import Callable

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
    remove_edges,
)
from driftbn.errors import ConfigError
from driftbn.graphs.network import BayesianNetwork
from tests import networks
from tests.changed_networks import (
    BENCHMARKS,
    BINARY,
    SEEDS,
    assert_same_marginals,
    binary,
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

    @pytest.mark.parametrize("pick", [pick_removed_edges, pick_added_edges])
    def test_repeat_themselves(self, pick: Callable[..., tuple[EdgeStrength, ...]]) -> None:
        again = [pick(alarm(), 3, STRONG, generator(seed)) for seed in (5, 5, 6)]
        assert again[0] == again[1] != again[2]
        assert list(again[0]) == sorted(again[0])

    def test_tell_the_strength_of_edges_that_are_there(self) -> None:
        for edge in pick_removed_edges(alarm(), 5, STRONG, generator(1)):
            assert edge.strength == edge_strength(alarm(), *edge.edge)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_added_edges_can_be_added_together(self, seed: int) -> None:
        network = alarm()
        picked = pick_added_edges(network, 6, STRONG, generator(seed))
        change = add_edges(network, picked, generator(seed))
        assert len(change.network.dag.edges) == 46 + 6
        for edge in picked:
            found = edge_strength(change.network, *edge.edge)
            assert found == pytest.approx(edge.strength, rel=0.05)

    @pytest.mark.parametrize("seed", range(12))
    def test_removed_edges_keep_all_single_marginals_where_asked(self, seed: int) -> None:
        network = binary(seed)
        most = next((k for k in (3, 2, 1) if picks(pick_removed_edges, network, k)), 0)
        assert most
        picked = pick_removed_edges(network, most, (1e-4, 9), generator(1), keep_marginals=True)
        after = remove_edges(network, [edge.edge for edge in picked]).network
        assert_same_marginals(network, after)

    @pytest.mark.parametrize("seed", range(12))
    def test_added_edges_keep_all_single_marginals_where_asked(self, seed: int) -> None:
        network = binary(seed)
        most = next((k for k in (3, 2, 1) if picks(pick_added_edges, network, k)), 0)
        assert most
        picked = pick_added_edges(network, most, (1e-4, 9), generator(1), keep_marginals=True)
        assert_same_marginals(network, add_edges(network, picked, generator(2)).network)

    def test_keeping_marginals_passes_over_edges_that_do_not(self) -> None:
        # b also reaches d around c, so d would notice that c no longer follows b.
        network = BayesianNetwork(
            "bcd",
            [BINARY] * 3,
            ["", "b", "bc"],
            [[[0.5, 0.5]], [[0.9, 0.1], [0.1, 0.9]], [[0.9, 0.1], [0.1, 0.9]] * 2],
        )
        kept = {
            pick_removed_edges(network, 1, (1e-9, 9), generator(s), keep_marginals=True)[0].edge
            for s in range(20)
        }
        assert ("b", "c") not in kept

    @pytest.mark.parametrize("name", BENCHMARKS[1:])
    def test_find_edges_that_keep_marginals_in_large_networks(self, name: str) -> None:
        network = networks.load(name)
        removed = pick_removed_edges(network, 1, STRONG, generator(1), keep_marginals=True)[0]
        after = remove_edge(network, *removed.edge).network
        assert_same_marginals(network, after)
        added = pick_added_edges(network, 1, MEDIUM, generator(1), keep_marginals=True)
        assert_same_marginals(network, add_edges(network, added, generator(1)).network)

    @pytest.mark.parametrize("pick", [pick_removed_edges, pick_added_edges])
    def test_say_how_many_there_are(self, pick: Callable[..., object]) -> None:
        with pytest.raises(ConfigError, match=r"k = 99 .* at most \d+ for (removed|added) edges"):
            pick(asia(), 99, STRONG, generator())

    @pytest.mark.parametrize("pick", [pick_removed_edges, pick_added_edges])
    @pytest.mark.parametrize(
        ("k", "strength"), [(0, STRONG), (1, (0.1, 0.01)), (1, (0.0, 0.1)), (1, (0.1, math.nan))]
    )
    def test_refuse_odd_wishes(
        self, pick: Callable[..., object], k: int, strength: tuple[float, float]
    ) -> None:
        with pytest.raises(ConfigError):
            pick(asia(), k, strength, generator())


def picks(pick: Callable[..., object], network: BayesianNetwork, k: int) -> bool:
    try:
        pick(network, k, (1e-4, 9), generator(1), keep_marginals=True)
    except ConfigError:
        return False
    return True
