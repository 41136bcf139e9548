"""Counts and statistics of the decision's kernels against plain ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from driftbn.drift.plan import LevelMap
from driftbn.kernels import deviance
from driftbn.kernels.tables import MASK_COUNTS_MAX, MASKS_MAX, Coded, Splits, Tables, count_tables
from driftbn.learning import PackedTable, independence
from tests import reference_decision as reference

LOGS = np.arange(2.0**20) * np.log(np.maximum(np.arange(2.0**20), 1.0))
FAR = 2**31  # fills buffers with what no table may show

Asked = tuple[tuple[int, ...], int, int]  # set, child, source


@njit
def binomial_moments(c, f, table):  # type: ignore[no-untyped-def]
    """Call what only compiled code can call."""
    return deviance.binomial_moments(c, f, table)


def members_of(asked: Asked) -> tuple[int, ...]:
    """Return the variables of a table, the one whose level changes fastest last."""
    given_set, child, source = asked
    return (*given_set, child) if source < 0 else (*given_set, child, source)


def tables_of(asked: Sequence[Asked], cards: Sequence[int], order: Sequence[int]) -> Tables:
    strata = [int(np.prod([cards[v] for v in members], dtype=int)) for members, _, _ in asked]
    cells = [int(np.prod([cards[v] for v in members_of(table)])) for table in asked]
    padded = [(*members, 0, 0, 0)[:3] for members, _, _ in asked]
    return Tables(
        members=np.array(padded, np.int16).reshape(-1, 3),
        size=np.array([len(members) for members, _, _ in asked], np.int8),
        child=np.array([child for _, child, _ in asked], np.int16),
        source=np.array([source for _, _, source in asked], np.int16),
        strata=np.array(strata, np.int32),
        first=np.cumsum([0, *cells]),
        cards=np.array(cards, np.int64),
        order=np.array(order, np.int64),
    )


def sorted_order(asked: Sequence[Asked]) -> list[int]:
    return sorted(range(len(asked)), key=lambda t: (asked[t][1], asked[t][0]))


def is_counted_by_masks(asked: Asked, cards: Sequence[int]) -> bool:
    given_set, child, source = asked
    n_masks = int(np.prod([cards[v] for v in (*given_set, child)]))
    n_others = 1 if source < 0 else cards[source] - 1
    return n_masks <= MASKS_MAX and n_masks * n_others <= MASK_COUNTS_MAX


def draw_codes(cards: Sequence[int], n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Draw variables of which each follows the one before; rare levels may stay absent."""
    codes = np.zeros((len(cards), n_rows), np.uint8)
    for v, card in enumerate(cards):
        codes[v] = rng.choice(card, n_rows, p=rng.dirichlet([0.3] * card))
        if v:
            follows = rng.random(n_rows) < 0.4
            codes[v, follows] = codes[v - 1, follows] % card
    return codes


def draw_asked(n_variables: int, n_tables: int, rng: np.random.Generator) -> list[Asked]:
    asked: list[Asked] = []
    for _ in range(n_tables):
        size = int(rng.integers(0, min(4, n_variables - 1)))
        child, source, *given_set = rng.permutation(n_variables)[: size + 2].tolist()
        asked.append((tuple(sorted(given_set)), child, -1 if rng.random() < 0.2 else source))
    return asked


def counted(tables: Tables, codes: np.ndarray, levels: LevelMap | None = None) -> np.ndarray:
    packed = PackedTable(codes, [f"v{v:02d}" for v in range(len(codes))])
    levels = levels or LevelMap.identity(len(codes))
    splits = Splits(
        masks=np.full((MASKS_MAX, packed.evidence.bits.shape[1]), FAR, np.uint64),
        total=np.full(MASKS_MAX, FAR, np.int64),
        row_code=np.full(codes.shape[1], -1, np.int32),
    )
    counts = np.full(tables.first[-1], -1, np.int32)
    coded = Coded(levels.apply(codes), levels.places(packed))
    count_tables(tables, coded, packed.evidence, splits, counts)
    return counts


def check_counts(
    asked: Sequence[Asked], tables: Tables, codes: np.ndarray, counts: np.ndarray
) -> None:
    for t, table in enumerate(asked):
        expected = reference.cell_counts(codes, tables.cards.tolist(), members_of(table))
        assert counts[tables.first[t] : tables.first[t + 1]].tolist() == expected, table


@pytest.mark.parametrize("joint_levels", [0, 8192])
def test_every_table_has_the_counts_of_its_rows(
    monkeypatch: pytest.MonkeyPatch, joint_levels: int
) -> None:
    monkeypatch.setattr(independence, "JOINT_LEVELS_MAX", joint_levels)
    rng = np.random.default_rng(1)
    cards = [2, 1, 3, 20, 2, 15, 4]
    asked = draw_asked(len(cards), 150, rng)
    assert {is_counted_by_masks(table, cards) for table in asked} == {True, False}
    for n_rows in (1, 63, 64, 65, 700):
        codes = draw_codes(cards, n_rows, rng)
        tables = tables_of(asked, cards, sorted_order(asked))
        check_counts(asked, tables, codes, counted(tables, codes))


@pytest.mark.slow
@given(
    cards=st.lists(st.sampled_from([1, 2, 2, 3, 4, 7, 19]), min_size=2, max_size=6),
    n_rows=st.integers(1, 300),
    seed=st.integers(0, 2**32 - 1),
    joint_levels=st.sampled_from([0, 8192]),
)
@settings(max_examples=60)
def test_tables_may_be_counted_in_any_order(
    cards: list[int], n_rows: int, seed: int, joint_levels: int
) -> None:
    rng = np.random.default_rng(seed)
    asked = draw_asked(len(cards), 12, rng)
    codes = draw_codes(cards, n_rows, rng)
    tables = tables_of(asked, cards, rng.permutation(len(asked)).tolist())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(independence, "JOINT_LEVELS_MAX", joint_levels)
        check_counts(asked, tables, codes, counted(tables, codes))


@pytest.mark.parametrize("joint_levels", [0, 8192])
def test_codes_with_gaps_are_counted_by_their_numbers(
    monkeypatch: pytest.MonkeyPatch, joint_levels: int
) -> None:
    """The first window has codes that the second lacks, and the other way round."""
    monkeypatch.setattr(independence, "JOINT_LEVELS_MAX", joint_levels)
    rng = np.random.default_rng(2)
    gaps = np.array([0, 7, 8, 120, 251], np.uint8)
    first = gaps[rng.integers(0, 3, (5, 130))]
    second = gaps[rng.integers(1, 5, (5, 201))]
    levels = LevelMap(5)
    levels.learn(first)
    levels.learn(second)
    cards = levels.cards.tolist()
    assert cards == [5] * 5
    asked = draw_asked(5, 40, rng)
    tables = tables_of(asked, cards, sorted_order(asked))
    for codes in (first, second):
        check_counts(asked, tables, levels.apply(codes), counted(tables, codes, levels))


@pytest.mark.parametrize("c", [1, 2, 3, 17, 80, 250])
@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.8, 0.97])
def test_moments_are_those_of_the_binomial(c: int, share: float) -> None:
    mean, variance = binomial_moments(c, share, LOGS)
    expected_mean, expected_variance = reference.deviance_moments(c, share)
    assert mean == pytest.approx(expected_mean, rel=1e-9, abs=1e-9)
    assert variance == pytest.approx(expected_variance, rel=1e-7)  # tails below 1e-12 left out


@pytest.mark.slow
@pytest.mark.parametrize(("c", "share"), [(4000, 0.0099), (4000, 0.9901), (400_000, 5e-5)])
def test_moments_of_many_rare_rows_are_summed(c: int, share: float) -> None:
    expected = reference.deviance_moments(c, share)
    assert binomial_moments(c, share, LOGS) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("share", [0.5, 0.2, 0.9])
def test_series_takes_over_where_the_sum_ends(share: float) -> None:
    c = int(deviance.EXACT_MEAN / min(share, 1.0 - share))
    summed, series = (binomial_moments(n, share, LOGS) for n in (c, c + 1))
    assert summed != series
    assert summed[0] == pytest.approx(series[0], abs=5e-4)
    assert summed[1] == pytest.approx(series[1], rel=0.03)


def compare_one(a: Sequence[int], b: Sequence[int]) -> np.ndarray:
    """Compare the states of one variable without parents."""
    tables = tables_of([((), 0, -1)], [len(a)], [0])
    out = np.full((1, 4), np.nan)
    counts = [np.array(group, np.int32) for group in (a, b)]
    deviance.compare_nodes(tables, np.zeros(1, np.int64), *counts, LOGS, out)
    return out[0]


def test_a_configuration_with_few_rows_is_not_compared() -> None:
    assert compare_one([100, 100], [4, 0]).tolist() == [0.0] * 4
    assert compare_one([2, 3], [100, 0])[deviance.ROWS] == 100
    assert compare_one([0, 0], [100, 0]).tolist() == [0.0] * 4


def test_rare_states_are_put_together() -> None:
    """A third of the rows is in the smaller group, so a state is rare with 1 row, not with 2."""
    rare = compare_one([398, 0, 0, 1], [199, 1, 1, 0])
    assert rare == pytest.approx(compare_one([398, 1], [199, 2]))
    apart = compare_one([400, 0, 0, 1], [195, 2, 2, 0])
    together = compare_one([400, 1], [195, 4])
    assert apart[deviance.DEVIANCE] > together[deviance.DEVIANCE] + 0.1


def test_a_single_state_has_nothing_to_compare() -> None:
    assert compare_one([50], [60])[: deviance.ROWS] == pytest.approx([0.0] * 3, abs=1e-9)
    assert compare_one([50, 0], [60, 0])[deviance.VARIANCE] == 0.0
