"""Counts and statistics of the compiled kernels against plain ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numba import njit
from scipy.stats import chi2

from driftbn.config import Statistic
from driftbn.kernels import chi_square
from driftbn.learning import ChiSquareTest, independence
from tests import reference

NAMES = "abcdefgh"


@njit
def table_statistic(cells, column, n_x, n_y, entropy):  # type: ignore[no-untyped-def]
    """Call what only compiled code can call."""
    return chi_square.table_statistic(cells, column, n_x, n_y, entropy)


def random_codes(
    cards: Sequence[int], n_rows: int, rng: np.random.Generator, *, chained: bool = True
) -> np.ndarray:
    """Draw variables of which each follows the one before in half of the rows."""
    codes = np.zeros((len(cards), n_rows), np.uint8)
    for i, card in enumerate(cards):
        weights = rng.dirichlet([0.7] * card)
        codes[i] = rng.choice(card, size=n_rows, p=weights)
        if i and chained:
            follows = rng.random(n_rows) < 0.5
            codes[i, follows] = codes[i - 1, follows] % card
    return codes


def check_against_twin(
    test: ChiSquareTest,
    codes: np.ndarray,
    questions: Sequence[reference.Question],
    **options: float | bool,
) -> None:
    for x, y, members in questions:
        expected = reference.conditional_test(codes, x, y, members, alpha=test.alpha, **options)
        verdict = reference.judge(codes, x, y, members, alpha=test.alpha, **options)
        test.begin(max(len(members), 1))
        found = test.first_separator(x, y, [members])
        assert (found == 0) is verdict.separated
        sizes = Counter(verdict.sizes)
        assert test.tests[:, 0].tolist() == [sizes[k] for k in range(len(test.tests))]
        undecided = expected.undecided and len(sizes) > 0
        assert test.tests[len(members), 1] == test.tests[:, 1].sum() == undecided
        if not expected.undecided:
            statistic, dof = test.statistic(x, y, members)
            assert dof == expected.dof
            assert statistic == pytest.approx(expected.statistic, rel=1e-9, abs=1e-9)
            p_value = float(chi2.sf(statistic, dof))
            assert test.p_value(x, y, members) == pytest.approx(p_value, rel=1e-9)
        else:
            assert test.p_value(x, y, members) == 1.0


def all_questions(n_variables: int, max_size: int) -> list[reference.Question]:
    found = []
    for x, y in combinations(range(n_variables), 2):
        others = [z for z in range(n_variables) if z not in (x, y)]
        for size in range(max_size + 1):
            found += [(x, y, members) for members in combinations(others, size)]
            found += [(y, x, members) for members in combinations(others, size)]
    return found


@pytest.mark.slow
@given(
    cards=st.lists(st.integers(1, 12), min_size=2, max_size=6),
    n_rows=st.integers(1, 3000),
    seed=st.integers(0, 2**32 - 1),
    use_g=st.booleans(),
    data=st.data(),
)
@settings(max_examples=80)
def test_every_answer_is_that_of_the_plain_tables(
    cards: list[int], n_rows: int, seed: int, use_g: bool, data: st.DataObject
) -> None:
    codes = random_codes(cards, n_rows, np.random.default_rng(seed))
    test = ChiSquareTest(
        codes, NAMES[: len(cards)], statistic=Statistic.G if use_g else Statistic.CHI_SQUARE
    )
    questions = all_questions(len(cards), 4)
    chosen = data.draw(st.lists(st.sampled_from(questions), min_size=1, max_size=12))
    check_against_twin(test, codes, chosen, use_g=use_g)


# Few levels are split by bit masks, many by sorted rows, and one condition goes by pair counts.
@pytest.mark.slow
@pytest.mark.parametrize("use_g", [False, True], ids=["chi-square", "g"])
@pytest.mark.parametrize("joint_levels", [0, 8192], ids=["no pair counts", "pair counts"])
@pytest.mark.parametrize(
    ("cards", "n_rows"),
    [
        ((2, 2, 2, 2, 2, 2), 3000),
        ((3, 2, 4, 2, 3, 2), 2500),
        ((5, 6, 4, 7, 5, 3), 3000),
        ((12, 11, 9, 12, 10, 8), 3000),
        ((30, 25, 2, 40, 3, 2), 3000),
        ((2, 3, 1, 2, 1, 3), 700),
        ((2, 3, 2, 2, 4, 3), 64),
        ((2, 3, 2, 2, 4, 3), 257),
    ],
    ids=str,
)
def test_every_code_path_counts_alike(
    monkeypatch: pytest.MonkeyPatch,
    cards: tuple[int, ...],
    n_rows: int,
    joint_levels: int,
    use_g: bool,
) -> None:
    monkeypatch.setattr(independence, "JOINT_LEVELS_MAX", joint_levels)
    rng = np.random.default_rng(len(cards) * n_rows)
    codes = random_codes(cards, n_rows, rng)
    statistic = Statistic.G if use_g else Statistic.CHI_SQUARE
    test = ChiSquareTest(codes, NAMES[: len(cards)], statistic=statistic)
    questions = all_questions(len(cards), 4)
    picked = rng.choice(len(questions), size=40, replace=False)
    check_against_twin(test, codes, [questions[i] for i in picked], use_g=use_g)


@pytest.mark.slow
@pytest.mark.parametrize("joint_levels", [0, 8192])
def test_a_long_run_over_one_target_never_mixes_up_its_splits(
    monkeypatch: pytest.MonkeyPatch, joint_levels: int
) -> None:
    """More sets than are remembered at a time, asked again in another order."""
    monkeypatch.setattr(independence, "JOINT_LEVELS_MAX", joint_levels)
    rng = np.random.default_rng(5)
    cards = [2, 2, *rng.integers(2, 5, size=14).tolist(), 30, 30]
    codes = random_codes(cards, 300, rng)
    names = [f"v{i:02d}" for i in range(len(cards))]
    test = ChiSquareTest(codes, names)
    test.begin(3)
    sets = list(combinations(range(2, len(cards)), 3)) + list(combinations(range(2, 10), 2))
    expected = {members: reference.judge(codes, 0, 1, members).separated for members in sets}
    for _ in range(3):
        for i in rng.permutation(len(sets)):
            members = sets[i]
            assert (test.first_separator(0, 1, [members]) == 0) is expected[members]


def test_a_later_target_does_not_see_the_splits_of_an_earlier_one() -> None:
    rng = np.random.default_rng(8)
    codes = random_codes([3, 2, 4, 3, 2], 900, rng)
    test = ChiSquareTest(codes, NAMES[:5])
    questions = all_questions(5, 3)
    test.begin(3)
    for i in rng.permutation(len(questions)):
        x, y, members = questions[i]
        expected = reference.judge(codes, x, y, members).separated
        assert (test.first_separator(x, y, [members]) == 0) is expected


@pytest.mark.parametrize("joint_levels", [0, 8192])
def test_order_zero_in_one_call_is_every_pair_tested_alone(
    monkeypatch: pytest.MonkeyPatch, joint_levels: int
) -> None:
    monkeypatch.setattr(independence, "JOINT_LEVELS_MAX", joint_levels)
    rng = np.random.default_rng(4)
    cards = [2, 5, 1, 3, 12, 2, 7, 2]
    codes = random_codes(cards, 800, rng)
    test = ChiSquareTest(codes, NAMES)
    adjacent = ~np.eye(8, dtype=np.bool_)
    adjacent[3, 4] = adjacent[4, 3] = False
    test.begin(1)
    test.remove_independent(adjacent)
    n_undecided = 0
    for x, y in combinations(range(8), 2):
        expected = reference.conditional_test(codes, x, y, ())
        assert adjacent[x, y] == adjacent[y, x]
        if (x, y) == (3, 4):
            assert not adjacent[x, y]
            continue
        assert adjacent[x, y] == (not expected.separated)
        n_undecided += expected.undecided
    assert test.tests[0].tolist() == [27, n_undecided]


def frequency_rank(codes: np.ndarray, code: int) -> int:
    """Return the place of a code among those of its variable: the more frequent come first."""
    counts = np.bincount(codes)
    return sorted(range(len(counts)), key=lambda c: (-counts[c], c)).index(code)


@pytest.mark.slow
@given(
    cards=st.lists(st.integers(1, 12), min_size=2, max_size=5),
    n_rows=st.integers(1, 600),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=40)
def test_pair_counts_are_those_of_the_rows(cards: list[int], n_rows: int, seed: int) -> None:
    codes = random_codes(cards, n_rows, np.random.default_rng(seed))
    for i in range(len(codes)):  # the kernels count levels that occur
        codes[i] = np.unique(codes[i], return_inverse=True)[1]
    evidence = ChiSquareTest(codes, NAMES[: len(cards)])._evidence
    for x, y in combinations(range(len(cards)), 2):
        counts = reference.pair_counts(codes, x, y)
        for i in range(int(codes[x].max()) + 1):
            for j in range(int(codes[y].max()) + 1):
                a = evidence.first[x] + frequency_rank(codes[x], i)
                b = evidence.first[y] + frequency_rank(codes[y], j)
                assert evidence.joint[a, b] == evidence.joint[b, a] == counts[i, j]


@pytest.mark.slow
@given(
    table=st.lists(st.lists(st.integers(0, 60), min_size=3, max_size=3), min_size=1, max_size=6),
    use_g=st.booleans(),
)
@settings(max_examples=150)
def test_one_table_has_the_statistic_of_its_margins(table: list[list[int]], use_g: bool) -> None:
    counts = np.array(table)
    total = int(counts.sum())
    assume(total > 0)  # a stratum without rows is never made
    n = np.arange(total + 1, dtype=np.float64)
    entropy = n * np.log(np.maximum(n, 1.0)) if use_g else np.zeros(0)
    statistic, dof = table_statistic(
        counts.ravel().astype(np.int64), np.empty(3), len(counts), 3, entropy
    )
    expected, expected_dof = reference.table_statistic(counts[None], use_g=use_g)
    assert dof == expected_dof
    if dof:
        assert statistic == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_levels_that_do_not_occur_take_no_degree_of_freedom() -> None:
    rng = np.random.default_rng(3)
    codes = random_codes([3, 3, 2], 500, rng)
    gaps = np.array([0, 7, 200], np.uint8)
    spread = np.stack([gaps[codes[0]], gaps[codes[1]], codes[2] * 9])
    test, gapped = ChiSquareTest(codes, "abc"), ChiSquareTest(spread, "abc")
    for x, y, members in all_questions(3, 1):
        assert gapped.statistic(x, y, members) == test.statistic(x, y, members)


def test_first_separating_set_of_several_is_returned() -> None:
    rng = np.random.default_rng(2)
    codes = random_codes([2, 2, 2, 2, 2], 2000, rng)
    test = ChiSquareTest(codes, NAMES[:5])
    sets = [(1,), (2,), (3,), (1,)]
    answers = [reference.conditional_test(codes, 0, 4, members).separated for members in sets]
    assert any(answers)
    assert test.first_separator(0, 4, sets) == answers.index(True)
    assert test.first_separator(0, 1, [(2,), (3,), (4,)]) is None
    assert test.tests[1, 0] == answers.index(True) + 1 + 3


def test_sparse_rule_begins_below_five_rows_per_degree_of_freedom() -> None:
    """Four strata of a two by two table: 4 degrees of freedom, so 20 rows are the fewest."""
    x = np.array([0, 0, 1, 1, 1], np.uint8)
    y = np.array([0, 1, 0, 1, 1], np.uint8)
    codes = np.stack([np.tile(x, 4), np.tile(y, 4), np.repeat(np.arange(4, dtype=np.uint8), 5)])
    for n_rows, undecided in ((20, 0), (19, 1)):
        test = ChiSquareTest(codes[:, :n_rows], "abc")
        assert test.first_separator(0, 1, [(2,)]) == 0
        assert test.tests[1].tolist() == [1, undecided]


def test_sparse_rule_does_not_hold_without_condition() -> None:
    codes = np.stack([np.arange(12, dtype=np.uint8) % 4] * 2)
    test = ChiSquareTest(codes, "ab")
    assert test.first_separator(0, 1, [()]) is None
    assert test.tests[0].tolist() == [1, 0]


@pytest.mark.parametrize("alpha", [0.2, 0.01, 1e-6])
def test_critical_values_are_the_quantiles_of_chi_square(alpha: float) -> None:
    values = independence.critical_values(alpha, 5000)
    assert values[0] == np.inf
    dof = np.array([1, 2, 3, 10, 500, 2048])
    np.testing.assert_allclose(values[dof], chi2.isf(alpha, dof), rtol=1e-10)
    dof = np.array([2049, 3000, 5000])
    np.testing.assert_allclose(values[dof], chi2.isf(alpha, dof), rtol=3e-5)
    assert np.all(np.diff(values[1:]) > 0)


@pytest.mark.slow
@given(
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.integers(2, 200),
    copied=st.lists(st.integers(0, 2), min_size=3, max_size=3),
)
@settings(max_examples=40)
def test_set_that_determines_an_end_is_judged_like_the_plain_rule(
    seed: int, n_rows: int, copied: list[int]
) -> None:
    """Columns that follow exactly from others leave no table to test."""
    rng = np.random.default_rng(seed)
    roots = random_codes([2, 3, 2], n_rows, rng, chained=bool(seed % 2))
    followers = [(roots[i] + roots[k] * (seed >> k & 1)) % 3 for k, i in enumerate(copied)]
    codes = np.stack([*roots, *followers]).astype(np.uint8)
    test = ChiSquareTest(codes, NAMES[:6])
    check_against_twin(test, codes, all_questions(6, 2)[seed % 13 :: 13])


def test_copy_of_one_end_says_nothing_about_the_pair() -> None:
    """The copy of x has all strata empty of choice, yet x and y belong together."""
    rng = np.random.default_rng(9)
    x = rng.integers(0, 2, 500).astype(np.uint8)
    y = np.where(rng.random(500) < 0.1, 1 - x, x).astype(np.uint8)
    test = ChiSquareTest(np.stack([x, y, x]), "xyz")
    assert test.first_separator(0, 1, [(2,)]) is None
    assert test.tests[1].tolist() == [2, 1]
