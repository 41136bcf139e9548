import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbn.kernels.encoding import WORD, Partitions, rank_by_appearance, turn_bytes


def ranked(codes: np.ndarray, n_ranked: int | None = None) -> np.ndarray:
    n_ranked = codes.shape[1] if n_ranked is None else n_ranked
    ranks = np.empty((len(codes), n_ranked), np.uint8)
    rank_by_appearance(Partitions(codes, ranks, np.empty(256, np.uint8)))
    return ranks


def naive_ranks(row: list[int]) -> list[int]:
    order = list(dict.fromkeys(row))
    return [order.index(code) for code in row]


def turned(table: np.ndarray) -> np.ndarray:
    words = np.full((table.shape[1], -(-len(table) // WORD)), 2**64 - 1, np.uint64)
    turn_bytes(table, words)
    return words.view(np.uint8)


class TestRankByAppearance:
    @pytest.mark.slow
    @given(
        st.integers(0, 30).flatmap(
            lambda n: st.lists(st.lists(st.integers(0, 254), min_size=n, max_size=n), min_size=1)
        )
    )
    def test_ranks_are_those_of_the_first_appearance(self, rows):
        codes = np.array(rows, np.uint8).reshape(len(rows), -1)
        assert ranked(codes).tolist() == [naive_ranks(row) for row in rows]

    def test_only_the_rows_there_is_room_for_are_ranked(self):
        assert ranked(np.array([[7, 5, 7, 9]], np.uint8), 2).tolist() == [[0, 1]]

    def test_all_codes_that_a_variable_can_have_are_told_apart(self):
        codes = np.arange(252, dtype=np.uint8)[None, ::-1].copy()
        assert ranked(codes).tolist() == [list(range(252))]

    def test_columns_do_not_see_each_other(self):
        codes = np.array([[3, 4], [4, 3], [4, 4]], np.uint8)
        assert ranked(codes).tolist() == [[0, 1], [0, 1], [0, 0]]


class TestTurnBytes:
    @pytest.mark.parametrize("n_rows", [*range(1, 18), 64, 65])
    @pytest.mark.parametrize("n_columns", [1, 7, 33])
    def test_columns_become_rows_whatever_the_size(self, n_rows, n_columns):
        table = np.random.default_rng(n_rows).integers(0, 256, (n_rows, n_columns), np.uint8)
        np.testing.assert_array_equal(turned(table)[:, :n_rows], table.T)

    def test_bytes_behind_the_last_row_are_zero(self):
        assert turned(np.full((3, 1), 255, np.uint8)).tolist() == [[255] * 3 + [0] * 5]

    def test_table_without_rows_or_columns_writes_nothing(self):
        assert turned(np.zeros((0, 3), np.uint8)).shape == (3, 0)
        assert turned(np.zeros((3, 0), np.uint8)).size == 0
