import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbn.kernels.counting import Partitions, rank_by_appearance


def ranked(codes: np.ndarray, n_ranked: int | None = None) -> np.ndarray:
    n_ranked = codes.shape[1] if n_ranked is None else n_ranked
    ranks = np.empty((len(codes), n_ranked), np.uint8)
    rank_by_appearance(Partitions(codes, ranks, np.empty(256, np.uint8)))
    return ranks


def naive_ranks(row: list[int]) -> list[int]:
    order = list(dict.fromkeys(row))
    return [order.index(code) for code in row]


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
