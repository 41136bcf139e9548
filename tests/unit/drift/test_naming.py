"""What has changed, by name."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbn.config import DecisionConfig, DriftKind
from driftbn.datasets import (
    add_edge,
    asia,
    change_root_marginal,
    change_table,
    remove_edge,
    sample_codes,
)
from driftbn.drift.comparison import Comparison
from driftbn.drift.naming import (
    NAMING_LEVEL,
    Edit,
    Naming,
    association_effects,
    associations,
    changed_root,
    edge_change,
    holm,
    information_given,
    name_changes,
)
from driftbn.drift.outcome import ChangeType
from driftbn.drift.reference import Regime
from driftbn.graphs.network import BayesianNetwork
from driftbn.learning import StructureLearner
from tests import reference_decision as reference

NAMES = sorted(asia().nodes)
p_values = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8)


@given(p=p_values, more=st.integers(0, 10))
def test_holm_lies_between_the_p_values_and_bonferroni(p: list[float], more: int) -> None:
    adjusted = holm(p, len(p) + more)
    for plain, found in zip(p, adjusted, strict=True):
        assert plain <= found <= 1.0
        assert found <= max(min(1.0, plain * (len(p) + more)), max(adjusted))
    order = np.argsort(p, kind="stable")
    assert np.all(np.diff(np.array(adjusted)[order]) >= 0)


@given(p=p_values, level=st.floats(0.001, 0.5))
def test_holm_rejects_by_steps(p: list[float], level: float) -> None:
    rejected = 0
    for rank, plain in enumerate(sorted(p)):
        if plain * (len(p) - rank) > level:
            break
        rejected += 1
    assert sum(found <= level for found in holm(p, len(p))) == rejected


def rows(network: BayesianNetwork, n_rows: int, seed: int) -> np.ndarray:
    order = [network.index(name) for name in NAMES]
    return sample_codes(network, n_rows, np.random.default_rng(seed))[order]


def named(
    after: BayesianNetwork,
    seed: int = 1,
    before: BayesianNetwork | None = None,
    given: tuple[str, ...] = (),
) -> tuple[Naming, Comparison]:
    learner, known = StructureLearner(), before or asia()
    windows = [learner.learn_window(rows(known, 3000, seed + i), NAMES) for i in range(4)]
    regime = Regime(0, DecisionConfig(given=given), learner, windows[0])
    for window in windows[1:]:
        regime.absorb(regime.counted(window))
    newest = learner.learn_window(rows(after, 3000, seed + 50), NAMES)
    compared = regime.compare(regime.counted(newest))
    naming = name_changes(compared, regime, newest)
    return naming, compared


def test_nothing_is_named_where_nothing_changed() -> None:
    naming, _ = named(asia())
    assert (naming.edges, naming.nodes, naming.effect) == ((), (), 0.0)


def test_a_removed_edge_is_named_with_what_is_left_of_it() -> None:
    naming, compared = named(remove_edge(asia(), "smoke", "bronc").network)
    (edge,) = naming.edges
    assert naming.kind is DriftKind.STRUCTURAL
    assert (edge.pair, edge.change) == (("bronc", "smoke"), ChangeType.REMOVED)
    assert edge.p_value < 1e-3
    assert edge.before.low <= 0.0462 <= edge.before.high
    assert edge.after.low == 0.0
    assert edge.after.high < 0.005
    assert naming.effect == pytest.approx(edge.before.nats - edge.after.nats, abs=0.02)
    assert compared.newer.n_rows == 3000


def test_an_edge_that_was_is_shown_given_the_other_parents_whatever_test_is_surer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Smoke goes with dysp by way of bronc, too: what is left of the edge must not be that."""
    before = add_edge(asia(), "smoke", "dysp", 0.03, np.random.default_rng(2)).network
    _, compared = named(remove_edge(before, "smoke", "dysp").network, before=before)
    smoke, dysp = NAMES.index("smoke"), NAMES.index("dysp")
    given_of = {
        compared.plan.pair_of(tie): compared.plan.conditioning_set(len(NAMES) + tie)
        for tie in compared.plan.tests_of_pair(smoke, dysp)
    }
    assert {given_of[smoke, dysp], given_of[dysp, smoke]} == {(1, 3), (1,)}

    def surer_backwards(tie: int) -> tuple[float, float]:
        return (1e-30 if compared.plan.pair_of(tie) == (dysp, smoke) else 1e-6), 1.0

    monkeypatch.setattr(compared, "pair_p_value", surer_backwards)
    removed = edge_change(compared, Edit(ChangeType.REMOVED, smoke, dysp))
    reversed_ = edge_change(compared, Edit(ChangeType.REVERSED, dysp, smoke))
    added = edge_change(compared, Edit(ChangeType.ADDED, smoke, dysp))
    assert removed.given == reversed_.given == ("bronc", "either")
    assert added.given == ("bronc",)
    assert removed.after.low == 0.0


def test_an_added_edge_is_named_with_its_strength() -> None:
    change = add_edge(asia(), "bronc", "xray", 0.03, np.random.default_rng(1))
    naming, _ = named(change.network)
    (edge,) = naming.edges
    assert (edge.pair, edge.change) == (("bronc", "xray"), ChangeType.ADDED)
    assert edge.before.high < 0.003
    assert edge.after.low < 0.03 < edge.after.high


def test_a_changed_table_is_named_with_its_parents() -> None:
    change = change_table(asia(), "dysp", 0.02, np.random.default_rng(2))
    naming, compared = named(change.network)
    assert naming.kind is DriftKind.MECHANISM
    assert naming.edges == ()
    (node,) = naming.nodes
    assert (node.name, node.parents) == ("dysp", ("bronc", "either"))
    assert node.p_value <= NAMING_LEVEL
    assert node.effect == naming.effect == compared.node_effects[NAMES.index("dysp")]


def test_a_changed_node_without_parents_is_a_marginal_change() -> None:
    naming, _ = named(change_root_marginal(asia(), "asia", 0.02, np.random.default_rng(3)).network)
    assert naming.kind is DriftKind.MARGINAL
    assert [(node.name, node.parents) for node in naming.nodes] == [("asia", ())]


def test_a_given_field_is_named_only_if_nothing_else_is() -> None:
    moved = change_root_marginal(asia(), "asia", 0.05, np.random.default_rng(3)).network
    naming, _ = named(moved, given=("asia",))
    assert [node.name for node in naming.nodes] == ["asia"]
    assert naming.given_only
    naming, _ = named(remove_edge(moved, "smoke", "bronc").network, given=("asia",))
    assert [edge.pair for edge in naming.edges] == [("bronc", "smoke")]
    assert "asia" not in [node.name for node in naming.nodes]
    assert not naming.given_only


def test_a_pair_that_is_not_named_has_a_size_all_the_same() -> None:
    """Else ``min_effect`` would silence a change that no edge or field accounts for."""
    _, compared = named(remove_edge(asia(), "smoke", "bronc").network)
    pair = NAMES.index("bronc"), NAMES.index("smoke")
    (size,) = association_effects(compared, [pair])
    assert size == pytest.approx(0.046, abs=0.02)


def test_associations_are_those_of_the_rows() -> None:
    _, compared = named(asia())
    plan = compared.plan
    for tie in range(0, plan.n_pair_tests, 5):
        source, child = plan.pair_of(tie)
        members = plan.conditioning_set(plan.n_nodes + tie)
        for found, group in zip(
            associations(compared, tie), (compared.older, compared.newer), strict=True
        ):
            tied = information_given(group.windows, plan.tables.cards, (child, source), members)
            assert found.nats == pytest.approx(tied.nats, abs=1e-12)


def test_tables_that_agree_have_no_effect() -> None:
    naming, compared = named(asia())
    effects = compared.node_effects.tolist()
    assert naming.effect == 0.0
    assert max(effects) < 0.003
    assert min(effects) >= 0.0


# Changes of several fields that are the change of one root in another DAG of the same class.

LEARNER = StructureLearner()


def chain(
    root: int, share: float, follows: float, rng: np.random.Generator, n_rows: int = 3000
) -> np.ndarray:
    """Draw three fields in a row, the tie of which gives no direction; one is the root.

    A field is like its neighbour on the side of the root but for some rows.
    """
    codes = np.zeros((3, n_rows), np.uint8)
    codes[root] = rng.random(n_rows) < share
    for v in (*range(root + 1, 3), *range(root - 1, -1, -1)):
        parent = codes[v - 1 if v > root else v + 1]
        codes[v] = np.where(rng.random(n_rows) < follows, parent, 1 - parent)
    return codes


def compare(old: list[np.ndarray], new: np.ndarray) -> tuple[Naming, Comparison, Regime]:
    names = "abc"[: len(new)]
    regime = Regime(0, DecisionConfig(), LEARNER, LEARNER.learn_window(old[0], names))
    for codes in old[1:]:
        regime.absorb(regime.counted(LEARNER.learn_window(codes, names)))
    newest = LEARNER.learn_window(new, names)
    compared = regime.compare(regime.counted(newest))
    naming = name_changes(compared, regime, newest)
    return naming, compared, regime


@pytest.mark.parametrize("root", [0, 1, 2])
def test_a_root_is_named_wherever_the_reference_puts_it(root: int) -> None:
    rng = np.random.default_rng(1)
    old = [chain(root, 0.5, 0.8, rng) for _ in range(4)]
    naming, compared, regime = compare(old, chain(root, 0.7, 0.8, rng))
    assert not regime.learned.graph.directed_edges
    assert naming.kind is DriftKind.MARGINAL
    (node,) = naming.nodes
    assert (node.name, node.parents) == ("abc"[root], ())
    assert 3 * compared.node_given(root, ())[0] <= node.p_value < 1e-4
    assert node.effect == pytest.approx(compared.node_given(root, ())[1])
    assert node.effect == pytest.approx(0.06, rel=0.5)
    assert naming.effect == node.effect


def test_a_table_that_changes_is_still_a_mechanism() -> None:
    rng = np.random.default_rng(2)
    old = [chain(0, 0.5, 0.8, rng) for _ in range(4)]
    naming, _, _ = compare(old, chain(0, 0.5, 0.65, rng))
    assert naming.kind is DriftKind.MECHANISM


def test_two_changes_are_not_explained_by_one_root() -> None:
    rng = np.random.default_rng(3)
    old = [chain(1, 0.5, 0.8, rng) for _ in range(4)]
    new = chain(1, 0.7, 0.8, rng)
    new[2] = np.where(rng.random(3000) < 0.9, new[1], 1 - new[1])
    naming, compared, regime = compare(old, new)
    assert naming.kind is DriftKind.MECHANISM
    graph, parents = regime.learned.graph, regime.parents
    assert changed_root(compared, graph, parents, [0, 1, 2]) is None


def test_one_changed_field_is_no_question() -> None:
    rng = np.random.default_rng(4)
    old = [chain(0, 0.5, 0.8, rng) for _ in range(4)]
    _, compared, regime = compare(old, chain(0, 0.7, 0.8, rng))
    graph, parents = regime.learned.graph, regime.parents
    assert changed_root(compared, graph, parents, [0]) is None
    assert changed_root(compared, graph, parents, []) is None


@pytest.mark.parametrize("given", [(), (0,), (0, 2)])
def test_a_node_is_compared_given_any_others(given: tuple[int, ...]) -> None:
    rng = np.random.default_rng(5)
    old = [chain(1, 0.5, 0.8, rng, 400) for _ in range(3)]
    new = chain(1, 0.55, 0.8, rng, 400)
    _, compared, _ = compare(old, new)
    tables = [
        np.array(reference.cell_counts(codes, [2, 2, 2], (*given, 1))).reshape(-1, 2)
        for codes in (np.concatenate(old, axis=1), new)
    ]
    expected = reference.difference(*tables)
    p, effect = compared.node_given(1, given)
    assert p == pytest.approx(expected.p_value, rel=1e-6)
    excess = max(0.0, expected.deviance - expected.mean)
    assert effect == pytest.approx(excess * 1600 / (2 * 1200 * 400))
