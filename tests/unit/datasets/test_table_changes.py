from __future__ import annotations

import math

import numpy as np
import pytest

from driftbn.datasets import (
    ChangeKind,
    asia,
    change_root_marginal,
    change_table,
    remove_edge,
    table_difference,
)
from driftbn.errors import ConfigError, GraphError
from driftbn.graphs.network import BayesianNetwork, joint
from tests import networks
from tests.changed_networks import (
    BENCHMARKS,
    BINARY,
    SEEDS,
    assert_same_marginals,
    assert_structure_as_claimed,
    generator,
    information,
    parents,
    small,
    untouched_below,
)


class TestChangedTable:
    @pytest.mark.parametrize("keep_marginal", [False, True])
    @pytest.mark.parametrize("seed", SEEDS)
    def test_has_the_wanted_size(self, seed: int, keep_marginal: bool) -> None:
        network = small(seed)
        for node in network.nodes:
            if not parents(network, node):
                continue
            change = change_table(network, node, 0.02, generator(seed), keep_marginal=keep_marginal)
            assert change.kind is ChangeKind.TABLE
            assert change.nodes == (node,)
            assert change.network.parents == network.parents
            assert regime_information(network, change.network, node) == pytest.approx(
                0.02, rel=1e-6
            )
            assert_structure_as_claimed(network, change)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_keeps_the_marginal_where_asked(self, seed: int) -> None:
        network = small(seed)
        for node in network.nodes:
            if parents(network, node):
                kept = change_table(network, node, 0.02, generator(seed), keep_marginal=True)
                assert_same_marginals(network, kept.network, untouched_below(network, node))
                moved = change_table(network, node, 0.02, generator(seed)).network
                assert abs(joint(moved, [node]) - joint(network, [node])).max() > 1e-4

    @pytest.mark.parametrize("name", BENCHMARKS)
    def test_can_keep_the_marginal_in_large_networks(self, name: str) -> None:
        network = networks.load(name)
        inner = [node for node in network.nodes if parents(network, node)]
        for node in inner[:: max(1, len(inner) // 8)]:
            amount = 0.0002
            change = change_table(network, node, amount, generator(1), keep_marginal=True)
            assert table_difference(network, change.network, node) == pytest.approx(amount)
            assert_same_marginals(network, change.network, [node])

    def test_is_the_same_from_the_same_generator(self) -> None:
        one, two, other = (change_table(asia(), "dysp", 0.05, generator(s)) for s in (1, 1, 2))
        assert one == two
        assert one.network != other.network

    def test_cannot_differ_by_more_than_log_two(self) -> None:
        with pytest.raises(ConfigError, match=r"amount = 0\.7 .* at most 0\.\d+ nats"):
            change_table(asia(), "dysp", 0.7, generator())

    def test_is_not_for_roots(self) -> None:
        with pytest.raises(GraphError, match="no parents"):
            change_table(asia(), "smoke", 0.1, generator())

    @pytest.mark.parametrize("amount", [0, -0.1, math.nan])
    def test_needs_a_positive_amount(self, amount: float) -> None:
        with pytest.raises(ConfigError, match="amount"):
            change_table(asia(), "dysp", amount, generator())

    def test_difference_needs_the_same_parents(self) -> None:
        after = remove_edge(asia(), "smoke", "bronc").network
        with pytest.raises(GraphError, match="same parents"):
            table_difference(asia(), after, "bronc")
        assert table_difference(asia(), after, "dysp") == 0


def regime_information(before: BayesianNetwork, after: BayesianNetwork, node: str) -> float:
    """Return I(node; regime | parents) from a network that has the regime as a parent."""
    both = [np.stack([a, b], axis=1) for a, b in zip(before.cpts, after.cpts, strict=True)]
    i = before.index(node)
    names = (*before.nodes, "regime")
    families = [*before.parents, ()]
    families[i] = (*families[i], "regime")
    cpts = [*before.cpts, np.array([[0.5, 0.5]])]
    cpts[i] = both[i].reshape(-1, before.cards[i])
    joined = BayesianNetwork(names, [*before.states, BINARY], families, cpts)
    return information(joined, node, "regime", before.parents[i])


class TestChangedRootMarginal:
    @pytest.mark.parametrize("amount", [0.001, 0.02, 0.1])
    def test_has_the_wanted_size(self, amount: float) -> None:
        network = small(1)
        for node in network.nodes:
            if parents(network, node):
                continue
            change = change_root_marginal(network, node, amount, generator(1))
            assert change.kind is ChangeKind.ROOT_MARGINAL
            assert_structure_as_claimed(network, change)
            found = regime_information(network, change.network, node)
            assert found == pytest.approx(amount, rel=1e-6)

    def test_leaves_what_follows_from_the_root(self) -> None:
        after = change_root_marginal(asia(), "smoke", 0.05, generator(1)).network
        for child in ("lung", "bronc"):
            old, new = (joint(network, ("smoke", child)) for network in (asia(), after))
            np.testing.assert_allclose(
                old / old.sum(axis=1, keepdims=True), new / new.sum(axis=1, keepdims=True)
            )
        assert_same_marginals(asia(), after, ["asia", "tub"])

    def test_is_only_for_roots(self) -> None:
        with pytest.raises(GraphError, match="no root"):
            change_root_marginal(asia(), "dysp", 0.1, generator())

    def test_cannot_differ_by_more_than_log_two(self) -> None:
        with pytest.raises(ConfigError, match="nats here"):
            change_root_marginal(asia(), "smoke", 0.7, generator())
