from __future__ import annotations

import math

import numpy as np
import pytest

from driftbn.datasets import (
    MEDIUM,
    Change,
    ChangeKind,
    EdgeStrength,
    add_edge,
    add_edges,
    asia,
    change_root_marginal,
    change_table,
    edge_strength,
    remove_edge,
    remove_edges,
    reverse_edge,
    rewire,
)
from driftbn.errors import ConfigError, GraphError, UnknownVariableError
from tests.changed_networks import (
    BINARY,
    EXACT,
    SEEDS,
    assert_same_marginals,
    assert_structure_as_claimed,
    binary,
    free_pairs,
    generator,
    information,
    marginal,
    parents,
    reversible,
    small,
    untouched_below,
)
from tests.edge_picking import pick_added_edges
from tests.networks import BayesianNetwork, joint


class TestRemovedEdge:
    @pytest.mark.parametrize("seed", SEEDS)
    def test_leaves_the_joint_of_child_and_other_parents(self, seed: int) -> None:
        network = small(seed)
        for parent, child in network.dag.edges:
            change = remove_edge(network, parent, child)
            family = (*parents(network, child, without=parent), child)
            np.testing.assert_allclose(
                marginal(change.network, family), marginal(network, family), atol=EXACT
            )

    @pytest.mark.parametrize("seed", SEEDS)
    def test_leaves_the_single_marginals_of_all_but_descendants(self, seed: int) -> None:
        network = binary(seed)
        for parent, child in network.dag.edges:
            change = remove_edge(network, parent, child)
            assert_same_marginals(network, change.network, untouched_below(network, child))

    @pytest.mark.parametrize("seed", SEEDS)
    def test_is_gone_and_nothing_else_is(self, seed: int) -> None:
        network = small(seed)
        for parent, child in network.dag.edges:
            change = remove_edge(network, parent, child)
            assert change.kind is ChangeKind.REMOVED
            assert change.edges_removed == ((parent, child),)
            assert change.nodes == (child,)
            assert_structure_as_claimed(network, change)


class TestRemovedEdges:
    def test_are_all_gone_whatever_their_order(self) -> None:
        network = binary(1)
        edges = network.dag.edges[:4]
        change = remove_edges(network, edges)
        assert change.edges_removed == edges
        assert change.network == remove_edges(network, edges[::-1]).network
        assert_structure_as_claimed(network, change)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_have_tables_of_the_old_joint(self, seed: int) -> None:
        network = binary(seed)
        by_child = {child: (parent, child) for parent, child in network.dag.edges}
        after = remove_edges(network, by_child.values()).network
        for parent, child in by_child.values():
            alone = remove_edge(network, parent, child).network
            np.testing.assert_allclose(after.cpt(child), alone.cpt(child), atol=EXACT)


class TestAddedEdge:
    @pytest.mark.slow
    @pytest.mark.parametrize("seed", SEEDS)
    def test_has_the_wanted_strength(self, seed: int) -> None:
        network = small(seed)
        for parent, child in free_pairs(network):
            after = add_edge(network, parent, child, 0.01, generator(seed)).network
            given = parents(network, child)
            assert information(after, child, parent, given) == pytest.approx(0.01, rel=1e-6)

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", SEEDS)
    def test_leaves_the_joint_of_child_and_old_parents(self, seed: int) -> None:
        network = small(seed)
        for parent, child in free_pairs(network):
            after = add_edge(network, parent, child, 0.02, generator(seed)).network
            family = (*parents(network, child), child)
            np.testing.assert_allclose(
                marginal(after, family), marginal(network, family), atol=EXACT
            )
            assert_same_marginals(network, after, untouched_below(network, child))

    @pytest.mark.parametrize("seed", SEEDS)
    def test_is_there_and_nothing_else_is(self, seed: int) -> None:
        network = small(seed)
        for parent, child in free_pairs(network):
            change = add_edge(network, parent, child, 0.005, generator(seed))
            assert change.kind is ChangeKind.ADDED
            assert change.edges_added == ((parent, child),)
            assert change.nodes == (child,)
            assert change.network.parents[network.index(child)][-1] == parent
            assert_structure_as_claimed(network, change)

    def test_reaches_full_dependence(self) -> None:
        network = BayesianNetwork("ab", [BINARY] * 2, [(), ()], [[[0.5, 0.5]]] * 2)
        after = add_edge(network, "a", "b", math.log(2) - 1e-9, generator()).network
        assert sorted(after.cpt("b").round(3).ravel()) == [0, 0, 1, 1]

    def test_cannot_be_stronger_than_the_entropies(self) -> None:
        network = BayesianNetwork("ab", [BINARY] * 2, [(), ()], [[[0.99, 0.01]], [[0.5, 0.5]]])
        with pytest.raises(ConfigError, match=r"strength = 0\.1 .* at most 0\.00.* nats") as caught:
            add_edge(network, "a", "b", 0.1, generator())
        assert caught.value.field == "strength"

    def test_makes_no_table_of_millions(self) -> None:
        many = [str(i) for i in range(250)]
        root = [[1 / 250] * 250]
        wide = np.full((250, 250), 1 / 250)
        network = BayesianNetwork("abc", [many] * 3, ["", "a", ""], [root, wide, root])
        with pytest.raises(GraphError, match="more than 10000000 cells"):
            add_edge(network, "c", "b", 0.01, generator())


class TestAddedEdges:
    @pytest.mark.parametrize("seed", SEEDS)
    def test_all_have_their_strengths(self, seed: int) -> None:
        network = binary(seed)
        picked = pick_added_edges(network, 3, MEDIUM, generator(seed))
        change = add_edges(network, picked, generator(seed))
        for edge in picked:
            found = edge_strength(change.network, *edge.edge)
            assert found == pytest.approx(edge.strength, rel=1e-6)
        assert change.edges_added == tuple(edge.edge for edge in picked)
        assert_structure_as_claimed(network, change)

    def test_must_not_close_a_cycle_together(self) -> None:
        network = BayesianNetwork("abc", [BINARY] * 3, [()] * 3, [[[0.5, 0.5]]] * 3)
        cycle = [EdgeStrength(*pair, 0.01) for pair in ("ab", "bc", "ca")]
        with pytest.raises(GraphError, match="cycle"):
            add_edges(network, cycle, generator())


class TestRewiring:
    def test_removes_one_and_adds_another(self) -> None:
        network = small(4)
        removed = network.dag.edges[0]
        rng = generator(1)
        for parent, child in free_pairs(network):
            if {parent, child} == set(removed):
                continue
            change = rewire(network, removed, EdgeStrength(parent, child, 0.01), rng)
            assert change.kind is ChangeKind.REWIRED
            assert change.edges_removed == (removed,)
            assert change.edges_added == ((parent, child),)
            assert_structure_as_claimed(network, change)
            assert edge_strength(change.network, parent, child) == pytest.approx(0.01, rel=1e-6)

    def test_may_use_the_room_that_the_removed_edge_leaves(self) -> None:
        chain = BayesianNetwork(
            "abc", [BINARY] * 3, ["", "a", "b"], [[[0.5, 0.5]], *[[[0.8, 0.2], [0.2, 0.8]]] * 2]
        )
        change = rewire(chain, ("a", "b"), EdgeStrength("c", "a", 0.01), generator())
        assert change.network.dag.edges == (("b", "c"), ("c", "a"))


class TestReversedEdge:
    @pytest.mark.parametrize("seed", SEEDS)
    def test_changes_what_data_can_tell(self, seed: int) -> None:
        network = binary(seed)
        for parent, child in reversible(network):
            change = reversed_or_none(network, parent, child)
            if change is None:
                continue
            assert change.kind is ChangeKind.REVERSED
            assert change.edges_reversed == ((parent, child),)
            assert change.network.cpdag() != network.cpdag()
            assert_structure_as_claimed(network, change)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_keeps_both_ends_given_their_other_parents(self, seed: int) -> None:
        network = binary(seed)
        for parent, child in reversible(network):
            change = reversed_or_none(network, parent, child)
            if change is None:
                continue
            for node in (parent, child):
                family = (*parents(network, node, without=parent), node)
                np.testing.assert_allclose(
                    marginal(change.network, family), marginal(network, family), atol=EXACT
                )

    @pytest.mark.parametrize("seed", SEEDS)
    def test_has_another_strength_where_asked(self, seed: int) -> None:
        network = binary(seed)
        for parent, child in reversible(network):
            after = reverse_edge(network, parent, child, 0.002).network
            found = information(after, parent, child, parents(network, parent))
            assert found == pytest.approx(0.002, rel=1e-6)

    def test_is_refused_where_it_closes_a_cycle(self) -> None:
        network = BayesianNetwork(
            "abc",
            [BINARY] * 3,
            ["", "a", "ba"],
            [[[0.5, 0.5]], [[0.7, 0.3], [0.3, 0.7]], [[0.9, 0.1], [0.1, 0.9]] * 2],
        )
        with pytest.raises(GraphError, match="cycle"):
            reverse_edge(network, "a", "c")


def reversed_or_none(network: BayesianNetwork, parent: str, child: str) -> Change | None:
    try:
        return reverse_edge(network, parent, child)
    except ConfigError:
        return None


class TestEdgeStrength:
    @pytest.mark.parametrize("seed", SEEDS)
    def test_is_the_conditional_mutual_information(self, seed: int) -> None:
        network = small(seed)
        for parent, child in network.dag.edges:
            others = parents(network, child, without=parent)
            expected = information(network, child, parent, others)
            assert edge_strength(network, parent, child) == pytest.approx(expected, abs=1e-10)


class TestChangedTable:
    @pytest.mark.slow
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


EDGES = [EdgeStrength(node, "xray", 0.001) for node in ("asia", "smoke")]
REFUSED = [
    (GraphError, "no edge", lambda: remove_edge(asia(), "asia", "smoke")),
    (GraphError, "no edge", lambda: remove_edges(asia(), [("smoke", "bronc")] * 2)),
    (GraphError, "no edge", lambda: reverse_edge(asia(), "bronc", "smoke")),
    (GraphError, "no edge", lambda: edge_strength(asia(), "bronc", "smoke")),
    (GraphError, "already joined", lambda: add_edge(asia(), "bronc", "smoke", 0.01, generator())),
    (GraphError, "close a cycle", lambda: add_edge(asia(), "dysp", "smoke", 0.01, generator())),
    (GraphError, "loop", lambda: add_edge(asia(), "smoke", "smoke", 0.01, generator())),
    (GraphError, "covered", lambda: reverse_edge(asia(), "smoke", "lung")),
    (GraphError, "no parents", lambda: change_table(asia(), "smoke", 0.1, generator())),
    (GraphError, "no root", lambda: change_root_marginal(asia(), "dysp", 0.1, generator())),
    (UnknownVariableError, "nobody", lambda: add_edge(asia(), "nobody", "lung", 1, generator())),
    (UnknownVariableError, "nobody", lambda: remove_edges(asia(), [("smoke", "nobody")])),
    (ConfigError, "most 0 nats", lambda: add_edge(asia(), "smoke", "either", 0.1, generator())),
    (ConfigError, "positive", lambda: add_edge(asia(), "smoke", "xray", math.nan, generator())),
    (ConfigError, "positive", lambda: reverse_edge(asia(), "bronc", "dysp", 0)),
    (ConfigError, "different children", lambda: add_edges(asia(), EDGES, generator())),
    (ConfigError, r"most 0\.\d+ nats", lambda: change_table(asia(), "dysp", 0.7, generator())),
    (ConfigError, "amount", lambda: change_table(asia(), "dysp", 0, generator())),
    (ConfigError, "nats here", lambda: change_root_marginal(asia(), "smoke", 0.7, generator())),
]


@pytest.mark.parametrize(("error", "problem", "change"), REFUSED)
def test_a_change_that_cannot_be_is_refused(error, problem, change) -> None:
    with pytest.raises(error, match=problem):
        change()
