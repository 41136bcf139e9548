from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbn.datasets import asia, random_network, sample_codes
from driftbn.errors import ConfigError, DataError, VariableMismatchError
from driftbn.graph import Dag
from driftbn.parameters import ParameterMethod, fit_parameters
from driftbn.scores import bdeu
from tests import reference


@given(
    n_nodes=st.integers(1, 5),
    n_rows=st.integers(0, 60),
    seed=st.integers(0, 2**32 - 1),
    size=st.floats(0.01, 100),
)
@settings(max_examples=60)
def test_bdeu_agrees_with_the_sum_over_all_cells(
    n_nodes: int, n_rows: int, seed: int, size: float
) -> None:
    network = random_network(n_nodes, n_nodes // 2, cardinality=(2, 4), seed=seed)
    codes = sample_codes(network, n_rows, np.random.default_rng(seed))
    found = bdeu(network.dag, codes, network.cards, network.nodes, size)
    expected = reference.bdeu(network.dag, codes, network.cards, network.nodes, size)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_bdeu_of_one_coin_is_the_beta_integral() -> None:
    codes = np.array([[0, 0, 1]], dtype=np.uint8)
    # With the prior Beta(1, 1): 2! 1! / 4!.
    assert bdeu(Dag("a"), codes, [2], ["a"], 2.0) == pytest.approx(math.log(2 / 24))


@pytest.mark.parametrize("seed", range(5))
def test_bdeu_is_the_product_of_its_predictions(seed: int) -> None:
    # The marginal likelihood is the chance of each row given those before it, and that is the
    # posterior mean of the tables: two parts of the library that share no formula must agree.
    network = random_network(4, 4, cardinality=(2, 3), seed=seed)
    codes = sample_codes(network, 30, np.random.default_rng(seed))
    expected = 0.0
    for row in range(codes.shape[1]):
        fitted = fit_parameters(
            network.dag, codes[:, :row], network.nodes, network.states, ParameterMethod.BDEU, 2.5
        )
        joint = reference.joint_distribution(fitted)
        expected += math.log(joint[tuple(codes[:, row].tolist())])
    found = bdeu(network.dag, codes, network.cards, network.nodes, 2.5)
    assert found == pytest.approx(expected)


def test_order_of_the_rows_does_not_matter() -> None:
    network = asia()
    codes = sample_codes(network, 300, np.random.default_rng(1))
    shuffled = np.random.default_rng(2).permutation(codes, axis=1)
    score = bdeu(network.dag, codes, network.cards, network.nodes)
    assert bdeu(network.dag, shuffled, network.cards, network.nodes) == pytest.approx(score)


def test_score_is_a_sum_over_families() -> None:
    codes = np.random.default_rng(1).integers(0, 2, size=(4, 200), dtype=np.uint8)
    cards = [2, 2, 2, 2]
    one = bdeu(Dag("abcd", [("a", "b")]), codes, cards, "abcd")
    other = bdeu(Dag("abcd", [("c", "d")]), codes, cards, "abcd")
    both = bdeu(Dag("abcd", [("a", "b"), ("c", "d")]), codes, cards, "abcd")
    none = bdeu(Dag("abcd"), codes, cards, "abcd")
    assert both - none == pytest.approx((one - none) + (other - none))


def test_arc_between_independent_variables_costs() -> None:
    codes = np.random.default_rng(1).integers(0, 2, size=(2, 2000), dtype=np.uint8)
    joined = bdeu(Dag("ab", [("a", "b")]), codes, [2, 2], "ab")
    assert joined < bdeu(Dag("ab"), codes, [2, 2], "ab")


def test_state_that_never_occurs_changes_the_score() -> None:
    codes = np.array([[0, 1, 0, 1]], dtype=np.uint8)
    assert bdeu(Dag("a"), codes, [3], "a") < bdeu(Dag("a"), codes, [2], "a")


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint16, np.int64])
def test_type_of_the_codes_does_not_matter(kind: type[np.integer]) -> None:
    network = random_network(6, 8, cardinality=(3, 5), seed=1)
    codes = sample_codes(network, 200, np.random.default_rng(1))
    score = bdeu(network.dag, codes, network.cards, network.nodes)
    assert bdeu(network.dag, codes.astype(kind), network.cards, network.nodes) == score


def test_equivalent_dags_score_alike() -> None:
    network = asia()
    codes = sample_codes(network, 500, np.random.default_rng(1))
    scores = [
        bdeu(dag, codes, network.cards, network.nodes, 3.0)
        for dag in reference.equivalent_dags(network.dag)
    ]
    assert len(scores) > 1
    assert scores == pytest.approx([scores[0]] * len(scores))


def test_true_structure_scores_above_the_empty_one() -> None:
    network = asia()
    codes = sample_codes(network, 2000, np.random.default_rng(1))
    true = bdeu(network.dag, codes, network.cards, network.nodes)
    assert true > bdeu(Dag(network.nodes), codes, network.cards, network.nodes)


def test_order_of_the_columns_does_not_matter() -> None:
    network = asia()
    codes = sample_codes(network, 300, np.random.default_rng(1))
    turned = bdeu(network.dag, codes[::-1], network.cards[::-1], network.nodes[::-1])
    assert turned == bdeu(network.dag, codes, network.cards, network.nodes)


def test_no_rows_score_zero() -> None:
    network = asia()
    codes = np.empty((8, 0), dtype=np.uint8)
    assert bdeu(network.dag, codes, network.cards, network.nodes) == 0


@pytest.mark.parametrize("n_parents", [70, 600])
def test_number_of_parents_is_not_bounded_by_the_width_of_integers(n_parents: int) -> None:
    # 600 parents with 4 states have 4**600 configurations, more than a float can hold.
    names = [f"p{i:03d}" for i in range(n_parents)]
    dag = Dag([*names, "x"], [(name, "x") for name in names])
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 4, size=(n_parents + 1, 50), dtype=np.uint8)
    codes[:, 25:] = codes[:, :25]
    found = bdeu(dag, codes, [4] * (n_parents + 1), [*names, "x"])
    apart = bdeu(Dag(dag.nodes), codes, [4] * (n_parents + 1), [*names, "x"])
    marginal = bdeu(Dag("x"), codes[-1:], [4], ["x"])
    # Every configuration occurs twice with the same child: 1/4 at first sight, 1 at the second.
    assert found == pytest.approx(apart - marginal + 25 * math.log(1 / 4))


def test_repeated_configurations_are_told_apart_after_recompression() -> None:
    names = [f"p{i:02d}" for i in range(40)]
    dag = Dag([*names, "x"], [(name, "x") for name in names])
    codes = np.zeros((41, 4), dtype=np.uint8)
    codes[0, 2:] = 1
    codes[39, [1, 3]] = 1
    every = bdeu(dag, codes, [4] * 41, [*names, "x"])
    codes[39] = 0
    fewer = bdeu(dag, codes, [4] * 41, [*names, "x"])
    marginals = [bdeu(Dag("a"), np.array([[0, 1, 0, 1]]), [4], "a")]
    marginals.append(bdeu(Dag("a"), np.zeros((1, 4), dtype=np.uint8), [4], "a"))
    # Four configurations seen once cost 1/4 each, two seen twice 1/4 each.
    expected = marginals[0] - marginals[1] + 2 * math.log(1 / 4)
    assert every - fewer == pytest.approx(expected)


def test_codes_are_not_changed() -> None:
    network = asia()
    codes = sample_codes(network, 50, np.random.default_rng(1))
    before = codes.copy()
    codes.setflags(write=False)
    bdeu(network.dag, codes, network.cards, network.nodes)
    assert np.array_equal(codes, before)


def test_other_variables_are_refused() -> None:
    with pytest.raises(VariableMismatchError, match=r"missing \['b'\], unexpected \['c'\]"):
        bdeu(Dag("ab"), np.zeros((2, 3), dtype=np.uint8), [2, 2], "ac")


def test_code_out_of_range_is_refused() -> None:
    with pytest.raises(DataError, match="column 'b', row 2: 2 is no state") as caught:
        bdeu(Dag("ab"), np.array([[0, 0, 0], [0, 1, 2]]), [2, 2], "ab")
    assert (caught.value.column, caught.value.row, caught.value.value) == ("b", 2, 2)


@pytest.mark.parametrize("size", [0.0, -1.0, math.inf, math.nan])
def test_sample_size_must_be_positive(size: float) -> None:
    with pytest.raises(ConfigError, match="equivalent_sample_size"):
        bdeu(Dag("a"), np.zeros((1, 3), dtype=np.uint8), [2], "a", size)
