from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbn.encoding.duplicates import MIN_SECOND_ROWS, find_duplicates
from driftbn.records import encode, infer_and_encode
from tests.encoded import reasons


def flag(n_rows: int, *rows: int) -> np.ndarray:
    values = np.zeros(n_rows, np.uint8)
    values[list(rows)] = 1
    return values


def same_partition(first: np.ndarray, second: np.ndarray) -> bool:
    """Compare all pairs of rows, as the words say."""
    return all(
        (first[i] == first[j]) == (second[i] == second[j])
        for i, j in combinations(range(len(first)), 2)
    )


def naive_duplicates(codes: np.ndarray) -> dict[int, int]:
    found = {}
    for row, values in enumerate(codes):
        counts = sorted(values.tolist().count(code) for code in set(values.tolist()))
        for earlier in range(row):
            if same_partition(codes[earlier], values):
                if len(counts) > 1 and counts[-2] >= MIN_SECOND_ROWS:
                    found[row] = earlier
                break
    return found


class TestFindDuplicates:
    @given(
        st.integers(1, 24).flatmap(
            lambda n: st.lists(
                st.lists(st.integers(0, 2), min_size=n, max_size=n), min_size=1, max_size=6
            )
        ),
        st.lists(st.tuples(st.integers(0, 5), st.permutations([0, 1, 251])), max_size=4),
    )
    def test_agrees_with_comparing_all_pairs_of_rows(self, rows, relabelled):
        for source, names in relabelled:
            rows = [*rows, [names[code % 3] for code in rows[source % len(rows)]]]
        codes = np.array(rows, np.uint8)
        assert find_duplicates(codes) == naive_duplicates(codes)

    def test_all_copies_point_to_the_first(self):
        row = np.arange(30, dtype=np.uint8) % 3
        assert find_duplicates(np.array([row, row + 7, 2 - row])) == {1: 0, 2: 0}

    def test_every_group_has_an_original_of_its_own(self):
        two, three = np.arange(60, dtype=np.uint8) % 2, np.arange(60, dtype=np.uint8) % 3
        assert find_duplicates(np.array([three, two, 1 - two, 2 - three])) == {2: 1, 3: 0}

    def test_rows_that_differ_only_far_behind_the_signature_are_told_apart(self):
        codes = np.array([flag(5000, *range(10)), flag(5000, *range(10), 4999)])
        assert find_duplicates(codes) == {}

    def test_coarser_partition_is_no_duplicate(self):
        fine = np.arange(40, dtype=np.uint8) % 4
        assert find_duplicates(np.array([fine, fine // 2, fine % 2])) == {}

    @pytest.mark.parametrize("shape", [(0, 10), (1, 10), (3, 1)])
    def test_nothing_to_compare_is_no_duplicate(self, shape):
        assert find_duplicates(np.zeros(shape, np.uint8)) == {}

    def test_input_is_left_untouched(self):
        codes = np.array([flag(20, *range(8))] * 2)
        before = codes.copy()
        find_duplicates(codes)
        np.testing.assert_array_equal(codes, before)


class TestRareColumns:
    @pytest.mark.parametrize(
        ("n_set", "duplicate"), [(1, False), (4, False), (5, True), (95, True), (96, False)]
    )
    def test_second_most_frequent_level_needs_five_rows(self, n_set, duplicate):
        values = flag(100, *range(n_set))
        table = infer_and_encode({"a": values, "b": 1 - values})
        assert reasons(table) == ({"b": "duplicate"} if duplicate else {})

    def test_missing_values_count_as_a_level(self):
        values = ["x"] * 20 + [None] * 5
        table = infer_and_encode({"a": values, "b": [str(value) for value in values]})
        assert reasons(table) == {"b": "duplicate"}

    def test_third_level_may_be_rare(self):
        values = ["x"] * 20 + ["y"] * 5 + ["z"]
        assert reasons(infer_and_encode({"a": values, "b": values})) == {"b": "duplicate"}

    def test_many_rare_levels_are_not_one_frequent_one(self):
        values = ["x"] * 20 + ["y"] * 4 + ["z"] * 4
        assert reasons(infer_and_encode({"a": values, "b": values})) == {}

    def test_flags_set_in_the_same_single_row_are_all_kept(self):
        columns = {f"flag{i}": flag(1000, 500) for i in range(4)}
        assert infer_and_encode(columns).schema.names == tuple(sorted(columns))

    def test_codes_of_what_is_kept_stay_with_their_variables(self):
        two, three = np.arange(60) % 2, np.arange(60) % 3
        table = infer_and_encode({"a": two, "b": two, "c": three, "d": 1 - two, "e": three // 2})
        assert table.schema.names == ("a", "c", "e")
        np.testing.assert_array_equal(table.codes, [two, three, three // 2])
        again = encode({"a": two, "b": two, "c": three, "e": three // 2}, table.schema)
        np.testing.assert_array_equal(again.codes, table.codes)
        assert again.events == ()
