from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from itertools import combinations, product

import numpy as np
import pytest

from driftbn.datasets import (
    MEDIUM,
    STRONG,
    WEAK,
    Change,
    ChangeKind,
    EdgeStrength,
    add_edge,
    add_edges,
    alarm,
    asia,
    change_root_marginal,
    change_table,
    edge_strength,
    joint,
    pick_added_edges,
    pick_removed_edges,
    random_network,
    remove_edge,
    remove_edges,
    reverse_edge,
    rewire,
    sample_codes,
    table_difference,
)
from driftbn.datasets.inference import ancestors, descendants, separated
from driftbn.errors import ConfigError, GraphError, UnknownVariableError
from driftbn.graph import Dag, Edge
from driftbn.network import BayesianNetwork
from driftbn.testing import DSeparationOracle
from tests import networks

BINARY = ("no", "yes")
BENCHMARKS = ("asia", "alarm", "insurance", "hailfinder", "win95pts", "100_130", "200_250")
EXACT = 1e-12
SEEDS = range(6)


def small(seed: int) -> BayesianNetwork:
    return random_network(6, 8, cardinality=(2, 3), max_parents=3, strength=1.0, seed=seed)


def binary(seed: int) -> BayesianNetwork:
    return random_network(8, 11, max_parents=3, seed=seed)


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def full_joint(network: BayesianNetwork) -> np.ndarray:
    """Multiply table entries for every assignment, with one axis per node."""
    found = np.zeros(network.cards)
    for codes in product(*map(range, network.cards)):
        state = dict(zip(network.nodes, codes, strict=True))
        probability = 1.0
        for i, node in enumerate(network.nodes):
            row = 0
            for parent in network.parents[i]:
                row = row * network.cards[network.index(parent)] + state[parent]
            probability *= network.cpts[i][row, state[node]]
        found[codes] = probability
    return found


def marginal(network: BayesianNetwork, names: Sequence[str]) -> np.ndarray:
    axes = [network.index(name) for name in names]
    rest = tuple(i for i in range(len(network.nodes)) if i not in axes)
    kept = [i for i in range(len(network.nodes)) if i in axes]
    return full_joint(network).sum(axis=rest).transpose([kept.index(i) for i in axes])


def entropy(network: BayesianNetwork, names: Sequence[str]) -> float:
    values = marginal(network, names).ravel()
    return float(-sum(p * math.log(p) for p in values if p > 0))


def information(network: BayesianNetwork, x: str, y: str, given: Sequence[str]) -> float:
    """Return I(x; y | given) as a sum of four entropies."""
    return (
        entropy(network, (x, *given))
        + entropy(network, (y, *given))
        - entropy(network, (x, y, *given))
        - entropy(network, tuple(given))
    )


def parents(network: BayesianNetwork, node: str, *, without: str = "") -> tuple[str, ...]:
    return tuple(p for p in network.parents[network.index(node)] if p != without)


def free_pairs(network: BayesianNetwork) -> list[Edge]:
    """Return all edges that could be added."""
    oracle = {node: ancestors(network.dag, (node,)) for node in network.nodes}
    return [
        (parent, child)
        for parent in network.nodes
        for child in network.nodes
        if child not in oracle[parent] and parent not in network.dag.parents(child)
    ]


def reversible(network: BayesianNetwork, n_edges: int | None = None) -> list[Edge]:
    """Return those of the first edges whose reversal is allowed and changes the independences."""
    found = []
    for parent, child in network.dag.edges[:n_edges]:
        rest = [edge for edge in network.dag.edges if edge != (parent, child)]
        if parent in ancestors(Dag(network.nodes, rest), (child,)):
            continue
        turned = Dag(network.nodes, (*rest, (child, parent)))
        if turned.cpdag() != network.cpdag():
            found.append((parent, child))
    return found


def assert_only_these_tables_changed(before: BayesianNetwork, change: Change) -> None:
    after = change.network
    assert (after.nodes, after.states) == (before.nodes, before.states)
    changed = {
        node
        for i, node in enumerate(before.nodes)
        if before.parents[i] != after.parents[i]
        or not np.array_equal(before.cpts[i], after.cpts[i])
    }
    assert changed == set(change.nodes)
    assert change.nodes == tuple(sorted(change.nodes))


def assert_structure_as_claimed(before: BayesianNetwork, change: Change) -> None:
    edges = set(before.dag.edges) - set(change.edges_removed) - set(change.edges_reversed)
    edges |= set(change.edges_added) | {(v, u) for u, v in change.edges_reversed}
    assert set(change.network.dag.edges) == edges
    assert_only_these_tables_changed(before, change)


def assert_same_marginals(
    before: BayesianNetwork, after: BayesianNetwork, nodes: Sequence[str] | None = None
) -> None:
    for node in before.nodes if nodes is None else nodes:
        np.testing.assert_allclose(joint(after, [node]), joint(before, [node]), atol=EXACT)


def untouched_below(network: BayesianNetwork, *changed: str) -> list[str]:
    """Return the nodes that are no descendants of the changed ones: these and all others."""
    below = set().union(*(descendants(network.dag, node) for node in changed))
    return [node for node in network.nodes if node not in below]


class TestJoint:
    @pytest.mark.parametrize("seed", SEEDS)
    def test_is_that_of_the_full_table(self, seed: int) -> None:
        network = small(seed)
        for size in (1, 2, 3):
            for names in combinations(network.nodes, size):
                np.testing.assert_allclose(
                    joint(network, names), marginal(network, names), atol=EXACT
                )

    def test_axes_are_in_the_order_given(self) -> None:
        network = small(1)
        names = network.nodes[:3]
        turned = joint(network, names[::-1])
        np.testing.assert_allclose(turned.transpose(2, 1, 0), joint(network, names), atol=EXACT)

    def test_of_all_nodes_is_the_product_of_the_tables(self) -> None:
        network = small(2)
        np.testing.assert_allclose(joint(network, network.nodes), full_joint(network), atol=EXACT)

    def test_of_no_variable_is_one(self) -> None:
        assert joint(asia(), ()).shape == ()
        assert joint(asia(), ()) == pytest.approx(1)

    @pytest.mark.parametrize("name", BENCHMARKS)
    def test_manages_every_family_of_large_networks(self, name: str) -> None:
        network = networks.load(name)
        for node in network.nodes:
            family = (*parents(network, node), node)
            cards = [network.cards[network.index(name)] for name in family]
            found = joint(network, family)
            above = joint(network, family[:-1])[..., np.newaxis]
            np.testing.assert_allclose(found, above * network.cpt(node).reshape(cards), atol=EXACT)

    def test_agrees_with_a_large_sample_of_alarm(self) -> None:
        codes = sample_codes(alarm(), 200_000, generator(1))
        rng = generator(2)
        for _ in range(20):
            x, y = rng.choice(len(codes), 2, replace=False)
            exact = joint(alarm(), (alarm().nodes[x], alarm().nodes[y]))
            seen = np.zeros(exact.shape)
            np.add.at(seen, (codes[x], codes[y]), 1 / codes.shape[1])
            assert abs(seen - exact).max() < 0.006

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


class TestGraphQuestions:
    def test_ancestors_and_descendants_mirror_each_other(self) -> None:
        dag = alarm().dag
        for node in dag.nodes:
            assert node in ancestors(dag, (node,))
            assert node not in descendants(dag, node)
            for other in descendants(dag, node):
                assert node in ancestors(dag, (other,))

    @pytest.mark.parametrize("seed", SEEDS)
    def test_separation_is_that_of_the_oracle(self, seed: int) -> None:
        dag = random_network(7, 9, seed=seed).dag
        oracle = DSeparationOracle(dag)
        position = {node: i for i, node in enumerate(dag.nodes)}
        for x, y in combinations(dag.nodes, 2):
            rest = [node for node in dag.nodes if node not in (x, y)]
            for size in range(3):
                for given in combinations(rest, size):
                    numbers = [position[node] for node in given]
                    found = oracle.first_separator(position[x], position[y], [numbers])
                    assert separated(dag, x, [y], given) == (found == 0)

    def test_a_given_node_is_separated_from_all(self) -> None:
        assert separated(Dag("ab", [("a", "b")]), "a", ["b"], ["b"])


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

    def test_of_an_edge_without_effect_is_zero(self) -> None:
        idle = BayesianNetwork(
            "ab", [BINARY] * 2, [(), "a"], [[[0.3, 0.7]], [[0.1, 0.9], [0.1, 0.9]]]
        )
        assert edge_strength(idle, "a", "b") == pytest.approx(0, abs=1e-15)

    def test_bears_parents_that_never_vary(self) -> None:
        stuck = BayesianNetwork(
            "ab", [BINARY] * 2, [(), "a"], [[[1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]]
        )
        assert edge_strength(stuck, "a", "b") == 0

    @pytest.mark.parametrize("name", BENCHMARKS)
    def test_is_found_for_all_edges_of_large_networks(self, name: str) -> None:
        network = networks.load(name)
        for parent, child in network.dag.edges:
            card = network.cards[network.index(child)]
            assert 0 <= edge_strength(network, parent, child) <= math.log(card)

    def test_needs_the_edge(self) -> None:
        with pytest.raises(GraphError, match="no edge 'bronc' -> 'smoke'"):
            edge_strength(asia(), "bronc", "smoke")


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

    def test_makes_parent_and_child_independent_given_the_others(self) -> None:
        network = small(3)
        for parent, child in network.dag.edges:
            others = parents(network, child, without=parent)
            assert information(network, child, parent, others) > 0
            after = remove_edge(network, parent, child).network
            assert information(after, child, parent, others) == pytest.approx(0, abs=1e-10)

    def test_bears_configurations_that_never_occur(self) -> None:
        network = BayesianNetwork(
            "abc",
            [BINARY] * 3,
            [(), "a", "ab"],
            [[[1.0, 0.0]], [[0.5, 0.5], [0.2, 0.8]], [[0.1, 0.9], [0.3, 0.7]] * 2],
        )
        after = remove_edge(network, "b", "c").network
        np.testing.assert_allclose(after.cpt("c"), [[0.2, 0.8], [0.2, 0.8]])

    @pytest.mark.parametrize("name", BENCHMARKS)
    def test_keeps_the_child_marginal_in_large_networks(self, name: str) -> None:
        network = networks.load(name)
        edges = network.dag.edges
        for i in generator(1).choice(len(edges), min(8, len(edges)), replace=False):
            change = remove_edge(network, *edges[i])
            assert_same_marginals(network, change.network, [edges[i][1]])
            assert_structure_as_claimed(network, change)

    def test_keeps_the_marginals_of_a_large_sample_of_alarm(self) -> None:
        picked = pick_removed_edges(alarm(), 3, STRONG, generator(3), keep_marginals=True)
        after = remove_edges(alarm(), [edge.edge for edge in picked]).network
        old = sample_codes(alarm(), 100_000, generator(4))
        new = sample_codes(after, 100_000, generator(5))
        for i, card in enumerate(alarm().cards):
            counts = [np.bincount(rows[i], minlength=card) for rows in (old, new)]
            assert abs(counts[0] - counts[1]).max() < 1200  # five standard deviations
        for edge in picked:
            x, y = alarm().index(edge.parent), alarm().index(edge.child)
            pairs = [np.bincount(rows[x] * 4 + rows[y], minlength=16) for rows in (old, new)]
            assert abs(pairs[0] - pairs[1]).max() > 1200

    def test_needs_the_edge(self) -> None:
        with pytest.raises(GraphError, match="no edge"):
            remove_edge(asia(), "asia", "smoke")


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

    def test_of_one_child_leave_what_its_other_parents_do(self) -> None:
        network = random_network(5, 9, max_parents=4, seed=3)
        child = max(network.nodes, key=lambda node: len(parents(network, node)))
        first, second, *others = parents(network, child)
        after = remove_edges(network, [(first, child), (second, child)]).network
        np.testing.assert_allclose(
            marginal(after, (*others, child)), marginal(network, (*others, child)), atol=EXACT
        )

    def test_cannot_be_removed_twice(self) -> None:
        with pytest.raises(GraphError, match="no edge"):
            remove_edges(asia(), [("smoke", "bronc"), ("smoke", "bronc")])

    def test_must_be_of_the_network(self) -> None:
        with pytest.raises(UnknownVariableError):
            remove_edges(asia(), [("smoke", "nobody")])


class TestAddedEdge:
    @pytest.mark.parametrize("seed", SEEDS)
    def test_has_the_wanted_strength(self, seed: int) -> None:
        network = small(seed)
        for parent, child in free_pairs(network):
            after = add_edge(network, parent, child, 0.01, generator(seed)).network
            given = parents(network, child)
            assert information(after, child, parent, given) == pytest.approx(0.01, rel=1e-6)

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

    def test_is_the_same_from_the_same_generator(self) -> None:
        pair = free_pairs(small(1))[0]
        one, two, other = (add_edge(small(1), *pair, 0.01, generator(s)) for s in (1, 1, 3))
        assert one == two
        assert one.network != other.network

    def test_may_be_undone_exactly(self) -> None:
        network = small(2)
        for parent, child in free_pairs(network):
            there = add_edge(network, parent, child, 0.01, generator()).network
            back = remove_edge(there, parent, child).network
            np.testing.assert_allclose(full_joint(back), full_joint(network), atol=EXACT)

    @pytest.mark.parametrize("name", BENCHMARKS)
    @pytest.mark.parametrize("strength", [0.003, 0.01, 0.05])
    def test_has_the_wanted_strength_in_large_networks(self, name: str, strength: float) -> None:
        network = networks.load(name)
        rng = generator(2)
        for picked in pick_added_edges(network, 2, (strength, strength * 1.001), rng):
            after = add_edge(network, *picked.edge, strength, rng).network
            assert edge_strength(after, *picked.edge) == pytest.approx(strength, rel=1e-6)
            assert_same_marginals(network, after, [picked.child])

    def test_has_the_wanted_strength_in_a_large_sample_of_alarm(self) -> None:
        roots = [node for node in alarm().nodes if not alarm().dag.parents(node)]
        after = add_edge(alarm(), roots[0], roots[1], 0.004, generator(1)).network
        codes = sample_codes(after, 200_000, generator(2))[[alarm().index(r) for r in roots[:2]]]
        seen = np.histogram2d(*codes, bins=4)[0] / codes.shape[1]
        alone = np.outer(seen.sum(axis=1), seen.sum(axis=0))
        there = seen > 0
        assert float((seen[there] * np.log(seen[there] / alone[there])).sum()) == pytest.approx(
            0.004, abs=0.001
        )

    def test_reaches_full_dependence(self) -> None:
        network = BayesianNetwork("ab", [BINARY] * 2, [(), ()], [[[0.5, 0.5]]] * 2)
        after = add_edge(network, "a", "b", math.log(2) - 1e-9, generator()).network
        assert sorted(after.cpt("b").round(3).ravel()) == [0, 0, 1, 1]

    def test_falls_back_to_the_strongest_coupling_known(self) -> None:
        # Only where equal masses meet is the parent a copy of the child.
        row = [[0.4, 0.1, 0.2, 0.3]]
        states = [[*"wxyz"]] * 2
        network = BayesianNetwork("ab", states, [(), ()], [row, [row[0][::-1]]])
        full = entropy(network, "a")
        after = add_edge(network, "a", "b", full * 0.999999, generator()).network
        assert edge_strength(after, "a", "b") == pytest.approx(full, rel=1e-5)

    def test_cannot_be_stronger_than_the_entropies(self) -> None:
        network = BayesianNetwork("ab", [BINARY] * 2, [(), ()], [[[0.99, 0.01]], [[0.5, 0.5]]])
        with pytest.raises(ConfigError, match=r"strength = 0\.1 .* at most 0\.00.* nats") as caught:
            add_edge(network, "a", "b", 0.1, generator())
        assert caught.value.field == "strength"

    def test_cannot_go_into_a_child_that_its_parents_decide(self) -> None:
        with pytest.raises(ConfigError, match="at most 0 nats"):
            add_edge(asia(), "smoke", "either", 0.001, generator())

    @pytest.mark.parametrize("strength", [0, -1, math.nan, math.inf])
    def test_needs_a_positive_strength(self, strength: float) -> None:
        with pytest.raises(ConfigError, match="positive number of nats"):
            add_edge(asia(), "smoke", "xray", strength, generator())

    @pytest.mark.parametrize(
        ("parent", "child", "problem"),
        [
            ("smoke", "bronc", "already joined"),
            ("bronc", "smoke", "already joined"),
            ("dysp", "smoke", "close a cycle"),
            ("smoke", "smoke", "loop"),
        ],
    )
    def test_needs_a_place(self, parent: str, child: str, problem: str) -> None:
        with pytest.raises(GraphError, match=problem):
            add_edge(asia(), parent, child, 0.01, generator())

    def test_needs_known_nodes(self) -> None:
        with pytest.raises(UnknownVariableError):
            add_edge(asia(), "nobody", "smoke", 0.01, generator())

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

    def test_need_different_children(self) -> None:
        edges = [EdgeStrength("asia", "xray", 0.001), EdgeStrength("smoke", "xray", 0.001)]
        with pytest.raises(ConfigError, match="different children"):
            add_edges(asia(), edges, generator())

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

    def test_within_one_child_keeps_what_the_remaining_parents_do(self) -> None:
        network = binary(5)
        for removed in network.dag.edges:
            child = removed[1]
            free = [parent for parent, other in free_pairs(network) if other == child]
            rest = (*parents(network, child, without=removed[0]), child)
            for parent in free[:2]:
                new = EdgeStrength(parent, child, 0.002)
                after = rewire(network, removed, new, generator()).network
                np.testing.assert_allclose(
                    marginal(after, rest), marginal(network, rest), atol=EXACT
                )

    def test_may_use_the_room_that_the_removed_edge_leaves(self) -> None:
        chain = BayesianNetwork(
            "abc", [BINARY] * 3, ["", "a", "b"], [[[0.5, 0.5]], *[[[0.8, 0.2], [0.2, 0.8]]] * 2]
        )
        change = rewire(chain, ("a", "b"), EdgeStrength("c", "a", 0.01), generator())
        assert change.network.dag.edges == (("b", "c"), ("c", "a"))

    def test_is_no_reversal(self) -> None:
        with pytest.raises(ConfigError, match="other nodes"):
            rewire(asia(), ("smoke", "lung"), EdgeStrength("lung", "smoke", 0.01), generator())


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
    def test_keeps_its_strength(self, seed: int) -> None:
        network = binary(seed)
        for parent, child in reversible(network):
            change = reversed_or_none(network, parent, child)
            if change is None:
                continue
            old = information(network, child, parent, parents(network, child, without=parent))
            new = information(change.network, parent, child, parents(network, parent))
            assert new == pytest.approx(old, rel=1e-6)

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

    def test_cannot_be_stronger_than_the_parents_of_the_parent_allow(self) -> None:
        network = BayesianNetwork(
            "abcd",
            [BINARY] * 4,
            ["", "a", "bd", ""],
            [
                [[0.5, 0.5]],
                [[0.99, 0.01], [0.01, 0.99]],
                [[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.1, 0.9]],
                [[0.5, 0.5]],
            ],
        )
        with pytest.raises(ConfigError, match="nats here") as caught:
            reverse_edge(network, "b", "c")
        assert caught.value.value == edge_strength(network, "b", "c")

    @pytest.mark.parametrize("strength", [0, -1, math.nan])
    def test_needs_a_positive_strength(self, strength: float) -> None:
        with pytest.raises(ConfigError, match="positive"):
            reverse_edge(asia(), "bronc", "dysp", strength)

    def test_leans_the_way_it_did(self) -> None:
        network = BayesianNetwork(
            "abc",
            [BINARY] * 3,
            ["", "", "ab"],
            [[[0.5, 0.5]], [[0.5, 0.5]], [[0.9, 0.1], [0.6, 0.4], [0.4, 0.6], [0.1, 0.9]]],
        )
        table = reverse_edge(network, "a", "c").network.cpt("a")
        assert table[1, 1] > 0.5 > table[0, 1]

    def test_is_refused_where_no_data_could_tell(self) -> None:
        with pytest.raises(GraphError, match="covered"):
            reverse_edge(asia(), "smoke", "lung")

    def test_is_refused_where_it_closes_a_cycle(self) -> None:
        network = BayesianNetwork(
            "abc",
            [BINARY] * 3,
            ["", "a", "ba"],
            [[[0.5, 0.5]], [[0.7, 0.3], [0.3, 0.7]], [[0.9, 0.1], [0.1, 0.9]] * 2],
        )
        with pytest.raises(GraphError, match="cycle"):
            reverse_edge(network, "a", "c")

    def test_needs_the_edge(self) -> None:
        with pytest.raises(GraphError, match="no edge"):
            reverse_edge(asia(), "bronc", "smoke")

    @pytest.mark.parametrize("name", BENCHMARKS)
    def test_can_be_found_in_large_networks(self, name: str) -> None:
        network = networks.load(name)
        edges = reversible(network, 16)
        done = [reversed_or_none(network, *edge) for edge in edges]
        for (parent, child), change in zip(edges, done, strict=True):
            if change is not None:
                old = edge_strength(network, parent, child)
                assert edge_strength(change.network, child, parent) == pytest.approx(old, rel=1e-6)
                assert_same_marginals(network, change.network, [child])
        assert any(done)


def reversed_or_none(network: BayesianNetwork, parent: str, child: str) -> Change | None:
    try:
        return reverse_edge(network, parent, child)
    except ConfigError:
        return None


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
    def test_can_be_made_in_large_networks(self, name: str) -> None:
        network = networks.load(name)
        inner = [node for node in network.nodes if parents(network, node)]
        for node in inner[:: max(1, len(inner) // 8)]:
            change = change_table(network, node, 0.03, generator(1))
            assert table_difference(network, change.network, node) == pytest.approx(0.03)

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

    def test_is_the_same_from_the_same_generator(self) -> None:
        one, two = (change_root_marginal(asia(), "smoke", 0.02, generator(3)) for _ in "ab")
        assert one == two

    @pytest.mark.parametrize("amount", [0, -0.1, math.inf])
    def test_needs_a_positive_amount(self, amount: float) -> None:
        with pytest.raises(ConfigError, match="amount"):
            change_root_marginal(asia(), "smoke", amount, generator())

    def test_is_only_for_roots(self) -> None:
        with pytest.raises(GraphError, match="no root"):
            change_root_marginal(asia(), "dysp", 0.1, generator())

    def test_cannot_differ_by_more_than_log_two(self) -> None:
        with pytest.raises(ConfigError, match="nats here"):
            change_root_marginal(asia(), "smoke", 0.7, generator())


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


class TestOrderOfNodes:
    """The order of nodes and of parents is a matter of notation."""

    @staticmethod
    def turned(network: BayesianNetwork) -> BayesianNetwork:
        """Return the same network with nodes and parents in reverse order."""
        cpts = []
        for i, family in enumerate(network.parents):
            shape = [network.cards[network.index(parent)] for parent in family]
            table = network.cpts[i].reshape(*shape, network.cards[i])
            axes = (*reversed(range(len(family))), len(family))
            cpts.append(table.transpose(axes).reshape(-1, network.cards[i]))
        families = [family[::-1] for family in network.parents]
        return BayesianNetwork(
            network.nodes[::-1], network.states[::-1], families[::-1], cpts[::-1]
        )

    @pytest.mark.parametrize("seed", SEEDS)
    def test_does_not_matter_to_strengths(self, seed: int) -> None:
        network = small(seed)
        for edge in network.dag.edges:
            strength = edge_strength(self.turned(network), *edge)
            assert strength == pytest.approx(edge_strength(network, *edge), rel=1e-9)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_does_not_matter_to_removed_edges(self, seed: int) -> None:
        network = small(seed)
        for edge in network.dag.edges:
            one = remove_edge(network, *edge).network
            other = remove_edge(self.turned(network), *edge).network
            np.testing.assert_allclose(
                joint(one, network.nodes), joint(other, network.nodes), atol=EXACT
            )

    @pytest.mark.parametrize("seed", SEEDS)
    def test_does_not_matter_to_added_edges(self, seed: int) -> None:
        network = small(seed)
        for parent, child in free_pairs(network):
            one = add_edge(network, parent, child, 0.01, generator(1)).network
            other = add_edge(self.turned(network), parent, child, 0.01, generator(1)).network
            np.testing.assert_allclose(
                joint(one, network.nodes), joint(other, network.nodes), atol=1e-8
            )


def test_changes_are_values() -> None:
    change = remove_edge(asia(), "smoke", "bronc")
    assert change == remove_edge(asia(), "smoke", "bronc")
    with pytest.raises(dataclasses.FrozenInstanceError):
        change.kind = ChangeKind.ADDED  # type: ignore[misc]


def test_the_given_network_stays_as_it_is() -> None:
    network = binary(1)
    copy = binary(1)
    pick_added_edges(network, 1, WEAK, generator())
    remove_edge(network, *network.dag.edges[0])
    assert network == copy


def test_strength_classes_meet() -> None:
    assert WEAK[1] == MEDIUM[0]
    assert MEDIUM[1] == STRONG[0]
