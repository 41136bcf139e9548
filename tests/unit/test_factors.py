from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbn.encoding.factors import (
    Factor,
    Numbers,
    counts_of,
    distinct,
    make_factor,
    make_numbers,
    missing_factor,
    n_distinct,
    n_missing,
    texts_of,
    used,
)
from driftbn.variables import MISSING, VariableKind
from tests.encoded import INF, NAN

CATEGORICAL = VariableKind.CATEGORICAL


def decoded(factor: Factor) -> list[object]:
    codes = factor.codes
    codes = np.frombuffer(codes, np.int8).tolist() if isinstance(codes, bytes) else codes.tolist()
    n_values = len(factor.values)
    return [None if code == -1 else factor.values[code % max(256, n_values)] for code in codes]


def factor_of(codes: list[int], n_values: int, dtype: str = "i4") -> Factor:
    return make_factor(np.array(codes, dtype), list(range(n_values)), CATEGORICAL)


class TestFactor:
    @pytest.mark.parametrize(("n_values", "narrow"), [(2, True), (255, True), (256, False)])
    def test_codes_are_bytes_if_a_mark_is_left(self, n_values, narrow):
        factor = factor_of([n_values - 1, -1, 0], n_values)
        assert isinstance(factor.codes, bytes) is narrow
        assert decoded(factor) == [n_values - 1, None, 0]

    @pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "i8"])
    def test_codes_of_any_width_give_the_same(self, dtype):
        assert factor_of([1, 0, 1], 2, dtype) == factor_of([1, 0, 1], 2)

    def test_factor_without_values_is_missing_throughout(self):
        factor = missing_factor(3, CATEGORICAL)
        assert decoded(factor) == [None] * 3
        assert (used(factor), counts_of(factor), n_missing(factor)) == ([], [], 3)

    @given(st.lists(st.integers(-1, 9), min_size=1), st.sampled_from([10, 255, 256, 5000]))
    def test_narrow_and_wide_codes_are_counted_alike(self, codes, n_values):
        factor = factor_of(codes, n_values)
        counts = Counter(codes)
        assert used(factor) == sorted(counts.keys() - {-1})
        assert counts_of(factor) == [counts[code] for code in range(n_values)]
        assert n_missing(factor) == counts[-1]

    @pytest.mark.parametrize("positions", [[0, 2], [1], [], [0, 1, 2, 3]])
    @pytest.mark.parametrize(
        "values",
        [
            ["a", "3.0", "c", "d"],
            np.array(["a", "3.0", "c", "d"], object),
            pa.array(["a", "3.0", "c", "d"]),
        ],
    )
    def test_texts_are_canonical_wherever_values_are_kept(self, values, positions):
        factor = Factor(b"\0", values, CATEGORICAL)
        assert texts_of(factor, positions) == [["a", "3", "c", "d"][p] for p in positions]

    def test_texts_of_a_range_are_its_numbers(self):
        assert texts_of(Factor(b"\0", range(-2, 3), VariableKind.INTEGER), [0, 2]) == ["-2", "0"]

    def test_texts_of_other_values_follow_the_written_rule(self):
        factor = Factor(b"\0", [3.0, None, True, (1, 2)], CATEGORICAL)
        assert texts_of(factor, range(4)) == ["3", MISSING, "true", "(1, 2)"]


class TestNumbers:
    def test_what_is_not_missing_is_present(self):
        numbers = make_numbers(np.array([1.5, NAN, INF], np.float32))
        assert numbers.values.dtype == np.float64
        assert numbers.present.tolist() == [1.5, INF]

    def test_nothing_missing_needs_no_mask(self):
        assert make_numbers(np.array([1.5, 2.5])).missing is None

    @given(st.lists(st.integers(-9, 9) | st.integers(-(2**62), 2**62), min_size=1))
    def test_integers_are_coded_by_their_rank(self, values):
        factor = distinct(Numbers(np.array(values)))
        assert decoded(factor) == values
        assert factor.kind is VariableKind.INTEGER
        assert [factor.values[position] for position in used(factor)] == sorted(set(values))

    @given(st.lists(st.none() | st.integers(-5, 5).map(float) | st.floats(allow_nan=False)))
    def test_floats_and_missing_ones_are_coded_by_their_rank(self, values):
        array = np.array([NAN if value is None else value for value in values], float)
        assert decoded(distinct(make_numbers(array))) == values

    def test_known_ends_give_the_same_codes(self):
        values = np.array([3, 0, 7], np.uint8)
        assert distinct(Numbers(values, ends=(0, 7))) == distinct(Numbers(values))

    def test_zero_as_the_smallest_value_leaves_the_input_alone(self):
        values = np.array([0, 5, 9], np.uint8)
        missing = np.array([False, True, False])
        assert decoded(distinct(Numbers(values, missing))) == [0, None, 9]
        assert values.tolist() == [0, 5, 9]

    @pytest.mark.parametrize(
        ("values", "answered"),
        [([1, 2, 1], True), ([1, 10**6, 1], True), ([0, 10**6, 5], False), ([0.5, 1.0], False)],
    )
    def test_limit_asks_for_few_whole_numbers(self, values, answered):
        assert (distinct(Numbers(np.array(values)), 2) is not None) is answered

    @given(st.lists(st.integers(-4, 4)))
    def test_distinct_values_are_counted_once(self, values):
        assert n_distinct(np.array(values, int)) == len(set(values))
