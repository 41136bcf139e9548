"""Changes of several fields that are the change of one root in another DAG of the same class."""

from __future__ import annotations

import numpy as np
import pytest

from driftbn.decision.comparison import Comparison
from driftbn.decision.evidence import learn_rows
from driftbn.decision.naming import Naming, name_changes
from driftbn.decision.outcome import DriftKind
from driftbn.decision.regime import Regime
from driftbn.decision.roots import root_of_change
from driftbn.decision.settings import DecisionConfig
from driftbn.learning import StructureLearner
from tests import reference_decision as reference

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
    regime = Regime(0, DecisionConfig(), LEARNER, learn_rows(LEARNER, old[0], names))
    for codes in old[1:]:
        regime.join(regime.read(learn_rows(LEARNER, codes, names)))
    newest = learn_rows(LEARNER, new, names)
    compared = regime.compare(regime.read(newest))
    naming = name_changes(
        compared, regime.learned.graph, regime.parents, newest.learned, newest.effects
    )
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
    assert (node.p_value, node.effect) == pytest.approx(
        (3 * compared.states_given(root, ())[0], compared.states_given(root, ())[1]), rel=1e-9
    )
    assert node.effect == pytest.approx(0.06, rel=0.5)
    assert naming.effect == node.effect


def test_a_table_that_changes_is_still_a_mechanism() -> None:
    rng = np.random.default_rng(2)
    old = [chain(0, 0.5, 0.8, rng) for _ in range(4)]
    naming, _, _ = compare(old, chain(0, 0.5, 0.65, rng))
    assert naming.kind is DriftKind.MECHANISM


def test_two_changes_are_not_told_by_one_root() -> None:
    rng = np.random.default_rng(3)
    old = [chain(1, 0.5, 0.8, rng) for _ in range(4)]
    new = chain(1, 0.7, 0.8, rng)
    new[2] = np.where(rng.random(3000) < 0.9, new[1], 1 - new[1])
    naming, compared, regime = compare(old, new)
    assert naming.kind is DriftKind.MECHANISM
    graph, parents = regime.learned.graph, regime.parents
    assert root_of_change(compared, graph, parents, [0, 1, 2], 0.01) is None


def test_one_changed_field_is_no_question() -> None:
    rng = np.random.default_rng(4)
    old = [chain(0, 0.5, 0.8, rng) for _ in range(4)]
    _, compared, regime = compare(old, chain(0, 0.7, 0.8, rng))
    graph, parents = regime.learned.graph, regime.parents
    assert root_of_change(compared, graph, parents, [0], 0.01) is None
    assert root_of_change(compared, graph, parents, [], 0.01) is None


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
    p, effect = compared.states_given(1, given)
    assert p == pytest.approx(expected.p_value, rel=1e-6)
    excess = max(0.0, expected.deviance - expected.mean)
    assert effect == pytest.approx(excess * 1600 / (2 * 1200 * 400))
