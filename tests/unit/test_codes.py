import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbn.encoding.codes import check_missing, encode_factor, encode_numbers, stack
from driftbn.encoding.factors import Factor, Numbers, make_factor, make_numbers, texts_of, used
from driftbn.errors import DataError
from driftbn.schema import MissingPolicy
from driftbn.variables import Variable, VariableKind
from tests.encoded import INF, NAN

CATEGORICAL = VariableKind.CATEGORICAL
LETTERS = Variable("x", CATEGORICAL, ("a", "b", "c"))


def row_of(variable: Variable, factor: Factor) -> list[int]:
    positions = used(factor)
    return list(encode_factor(variable, factor, positions, texts_of(factor, positions)))


def factor_of(codes: list[int], values: list[str]) -> Factor:
    return make_factor(np.array(codes), values, CATEGORICAL)


class TestEncodeFactor:
    @pytest.mark.parametrize(
        ("codes", "values", "row"),
        [
            ([0, 1, 2], ["a", "b", "c"], [0, 1, 2]),
            ([0, -1, 2, 1], ["a", "b", "c"], [0, 4, 2, 1]),
            ([0, 1, 2], ["c", "b", "a"], [2, 1, 0]),
            ([0, 1, 2], ["a", "q", "c"], [0, 3, 2]),
            ([3, 1, 2], ["z", "a", "b", "c"], [2, 0, 1]),
            ([0, 2, 1], ["a", "b", "c", "z"], [0, 2, 1]),
            ([0, 1], ["a", "a"], [0, 0]),
            ([0, 0], ["b", "c"], [1, 1]),
            ([-1, -1], [], [4, 4]),
        ],
    )
    def test_each_value_has_the_code_of_its_text(self, codes, values, row):
        assert row_of(LETTERS, factor_of(codes, values)) == row

    def test_codes_that_are_right_already_are_not_copied(self):
        factor = factor_of([0, 1, 2], ["a", "b", "c"])
        assert encode_factor(LETTERS, factor, [0, 1, 2], ["a", "b", "c"]) is factor.codes

    @given(
        st.lists(st.integers(-1, 299), min_size=1),
        st.sampled_from([3, 255, 256, 300]),
        st.permutations(["a", "b", "c"]),
    )
    def test_narrow_and_wide_factors_agree_with_looking_up_each_row(self, codes, n_values, first):
        codes = [min(code, n_values - 1) for code in codes]
        values = [*first, *(f"v{i}" for i in range(3, n_values))]
        expected = [4 if code < 0 else LETTERS.code_of(values[code]) for code in codes]
        assert row_of(LETTERS, factor_of(codes, values)) == expected


class TestEncodeNumbers:
    @given(
        st.lists(st.floats(), min_size=1),
        st.sets(st.floats(allow_nan=False, allow_infinity=False), max_size=30),
    )
    def test_code_is_the_number_of_edges_below(self, values, edges):
        variable = Variable("x", VariableKind.NUMERIC, edges=tuple(sorted(edges)))
        row = encode_numbers(variable, make_numbers(np.array(values)))
        expected = [
            variable.missing_code if value != value else sum(edge < value for edge in edges)
            for value in values
        ]
        assert list(row) == expected

    def test_integers_fall_into_the_bins_of_floats(self):
        variable = Variable("x", VariableKind.NUMERIC, edges=(1.0, 2.5))
        assert list(encode_numbers(variable, Numbers(np.array([1, 2, 3])))) == [0, 1, 2]
        floats = make_numbers(np.array([-INF, NAN, INF]))
        assert list(encode_numbers(variable, floats)) == [0, 4, 2]


class TestCheckMissing:
    def test_first_missing_value_is_named(self):
        with pytest.raises(DataError, match="missing values are rejected") as caught:
            check_missing(LETTERS, bytes([0, 2, 4, 4]), MissingPolicy.REJECT)
        assert (caught.value.column, caught.value.row) == ("x", 2)

    @pytest.mark.parametrize(
        ("row", "policy"), [([0, 4], MissingPolicy.LEVEL), ([0, 3], MissingPolicy.REJECT)]
    )
    def test_what_is_allowed_passes(self, row, policy):
        check_missing(LETTERS, bytes(row), policy)


class TestStack:
    def test_matrix_has_a_row_for_each_variable_and_can_be_written_to(self):
        codes = stack([b"\0\1\2", b"\3\4\5"], 3)
        codes[0, 0] = 9
        assert codes.tolist() == [[9, 1, 2], [3, 4, 5]]
        assert codes.flags.c_contiguous

    def test_writing_to_the_matrix_leaves_the_rows_alone(self):
        row = b"\0\1"
        stack([row], 2)[:] = 7
        assert row == b"\0\1"

    def test_no_variables_leave_the_number_of_rows(self):
        assert stack([], 4).shape == (0, 4)
