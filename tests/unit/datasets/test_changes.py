from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from driftbn.datasets import (
    Change,
    add_edge,
    asia,
    change_root_marginal,
    change_table,
    remove_edge,
    reverse_edge,
)
from driftbn.errors import ConfigError, GraphError, UnknownVariableError
from tests.changed_networks import (
    BINARY,
    EXACT,
    SEEDS,
    assert_changed_as_claimed,
    assert_same_marginals,
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
from tests.drawn_changes import MEDIUM, add_edges, edge_strength, pick_added_edges, remove_edges
from tests.networks import BayesianNetwork, joint

each_seed = pytest.mark.parametrize("seed", SEEDS)


def assert_same_joint(before: BayesianNetwork, after: BayesianNetwork, *names: str) -> None:
    np.testing.assert_allclose(marginal(after, names), marginal(before, names), atol=EXACT)


@each_seed
def test_a_removed_edge_is_gone_and_the_joint_of_its_child_stays(seed: int) -> None:
    network = small(seed)
    for parent, child in network.dag.edges:
        change = remove_edge(network, parent, child)
        assert (change.edges_removed, change.nodes) == (((parent, child),), (child,))
        assert_changed_as_claimed(network, change)
        assert_same_joint(network, change.network, *parents(network, child, without=parent), child)
        assert_same_marginals(network, change.network, untouched_below(network, child))
        others = parents(network, child, without=parent)
        strength = information(network, child, parent, others)
        assert edge_strength(network, parent, child) == pytest.approx(strength, abs=1e-10)


@each_seed
def test_several_removed_edges_have_tables_of_the_old_joint(seed: int) -> None:
    network = binary(seed)
    edges = {child: (parent, child) for parent, child in network.dag.edges}.values()
    change = remove_edges(network, edges)
    assert change.network == remove_edges(network, [*edges][::-1]).network
    assert_changed_as_claimed(network, change)
    for parent, child in edges:
        alone = remove_edge(network, parent, child).network
        np.testing.assert_allclose(change.network.cpt(child), alone.cpt(child), atol=EXACT)


@pytest.mark.slow
@each_seed
@pytest.mark.parametrize("strength", [0.005, 0.02])
def test_an_added_edge_has_its_strength_and_the_joint_of_its_child_stays(
    seed: int, strength: float
) -> None:
    network = small(seed)
    for parent, child in free_pairs(network):
        change = add_edge(network, parent, child, strength, generator(seed))
        given = parents(network, child)
        assert change.edges_added == ((parent, child),)
        assert parents(change.network, child) == (*given, parent)
        assert_changed_as_claimed(network, change)
        found = information(change.network, child, parent, given)
        assert found == pytest.approx(strength, rel=1e-6)
        assert_same_joint(network, change.network, *given, child)
        assert_same_marginals(network, change.network, untouched_below(network, child))


def test_an_added_edge_can_reach_full_dependence() -> None:
    network = BayesianNetwork("ab", [BINARY] * 2, [(), ()], [[[0.5, 0.5]]] * 2)
    after = add_edge(network, "a", "b", math.log(2) - 1e-9, generator()).network
    assert sorted(after.cpt("b").round(3).ravel()) == [0, 0, 1, 1]


def test_an_added_edge_cannot_be_stronger_than_the_entropies() -> None:
    network = BayesianNetwork("ab", [BINARY] * 2, [(), ()], [[[0.99, 0.01]], [[0.5, 0.5]]])
    with pytest.raises(ConfigError, match=r"strength = 0\.1 .* at most 0\.00.* nats") as caught:
        add_edge(network, "a", "b", 0.1, generator())
    assert caught.value.field == "strength"


def test_an_added_edge_makes_no_table_of_millions() -> None:
    many = [str(i) for i in range(250)]
    root = [[1 / 250] * 250]
    wide = np.full((250, 250), 1 / 250)
    network = BayesianNetwork("abc", [many] * 3, ["", "a", ""], [root, wide, root])
    with pytest.raises(GraphError, match="more than 10000000 cells"):
        add_edge(network, "c", "b", 0.01, generator())


@each_seed
def test_several_added_edges_all_have_their_strengths(seed: int) -> None:
    network = binary(seed)
    picked = pick_added_edges(network, 3, MEDIUM, generator(seed))
    change = add_edges(network, picked, generator(seed))
    assert change.edges_added == tuple(edge.edge for edge in picked)
    assert_changed_as_claimed(network, change)
    for edge in picked:
        found = edge_strength(change.network, *edge.edge)
        assert found == pytest.approx(edge.strength, rel=1e-6)


@each_seed
def test_a_reversed_edge_changes_what_data_can_tell(seed: int) -> None:
    network = binary(seed)
    for (parent, child), change in reversed_edges(network):
        assert change.edges_reversed == ((parent, child),)
        assert change.network.cpdag() != network.cpdag()
        assert_changed_as_claimed(network, change)
        for node in (parent, child):
            others = parents(network, node, without=parent)
            assert_same_joint(network, change.network, *others, node)
        weak = reverse_edge(network, parent, child, 0.002).network
        found = information(weak, parent, child, parents(network, parent))
        assert found == pytest.approx(0.002, rel=1e-6)


def reversed_edges(network: BayesianNetwork) -> Iterator[tuple[tuple[str, str], Change]]:
    """Iterate over the edges that can be reversed at their strength, and the changes."""
    for edge in reversible(network):
        try:
            yield edge, reverse_edge(network, *edge)
        except ConfigError:
            continue


@pytest.mark.slow
@each_seed
def test_a_changed_table_has_the_wanted_size(seed: int) -> None:
    network = small(seed)
    for node in network.nodes:
        change_of = change_table if parents(network, node) else change_root_marginal
        for amount in (0.001, 0.02):
            change = change_of(network, node, amount, generator(seed))
            assert change.nodes == (node,)
            assert change.network.parents == network.parents
            assert_changed_as_claimed(network, change)
            found = regime_information(network, change.network, node)
            assert found == pytest.approx(amount, rel=1e-6)
            others = [name for name in untouched_below(network, node) if name != node]
            assert_same_marginals(network, change.network, others)


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


def test_a_changed_root_leaves_what_follows_from_it() -> None:
    after = change_root_marginal(asia(), "smoke", 0.05, generator(1)).network
    for child in ("lung", "bronc"):
        old, new = (joint(network, ("smoke", child)) for network in (asia(), after))
        np.testing.assert_allclose(
            old / old.sum(axis=1, keepdims=True), new / new.sum(axis=1, keepdims=True)
        )


TRIANGLE = BayesianNetwork(
    "abc",
    [BINARY] * 3,
    ["", "a", "ba"],
    [[[0.5, 0.5]], [[0.7, 0.3], [0.3, 0.7]], [[0.9, 0.1], [0.1, 0.9]] * 2],
)
REFUSED = [
    (GraphError, "no edge", lambda: remove_edge(asia(), "asia", "smoke")),
    (GraphError, "no edge", lambda: reverse_edge(asia(), "bronc", "smoke")),
    (GraphError, "already joined", lambda: add_edge(asia(), "bronc", "smoke", 0.01, generator())),
    (GraphError, "close a cycle", lambda: add_edge(asia(), "dysp", "smoke", 0.01, generator())),
    (GraphError, "close a cycle", lambda: reverse_edge(TRIANGLE, "a", "c")),
    (GraphError, "loop", lambda: add_edge(asia(), "smoke", "smoke", 0.01, generator())),
    (GraphError, "covered", lambda: reverse_edge(asia(), "smoke", "lung")),
    (GraphError, "no parents", lambda: change_table(asia(), "smoke", 0.1, generator())),
    (GraphError, "no root", lambda: change_root_marginal(asia(), "dysp", 0.1, generator())),
    (UnknownVariableError, "nobody", lambda: add_edge(asia(), "nobody", "lung", 1, generator())),
    (ConfigError, "most 0 nats", lambda: add_edge(asia(), "smoke", "either", 0.1, generator())),
    (ConfigError, "positive", lambda: add_edge(asia(), "smoke", "xray", math.nan, generator())),
    (ConfigError, "positive", lambda: reverse_edge(asia(), "bronc", "dysp", 0)),
    (ConfigError, r"most 0\.\d+ nats", lambda: change_table(asia(), "dysp", 0.7, generator())),
    (ConfigError, "amount", lambda: change_table(asia(), "dysp", 0, generator())),
    (ConfigError, "nats here", lambda: change_root_marginal(asia(), "smoke", 0.7, generator())),
]


@pytest.mark.parametrize(("error", "problem", "change"), REFUSED)
def test_a_change_that_cannot_be_is_refused(error, problem, change) -> None:
    with pytest.raises(error, match=problem):
        change()
