from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbn.errors import DataError
from driftbn.variables import (
    MAX_LEVELS,
    MISSING,
    OTHER,
    RESERVED,
    Variable,
    VariableKind,
    level_key,
    sorted_levels,
)

CATEGORICAL = VariableKind.CATEGORICAL
NUMERIC = VariableKind.NUMERIC
COLOUR = Variable("colour", CATEGORICAL, ("blue", "red"))
AGE = Variable("age", NUMERIC, edges=(18.0, 65.5))


class TestVariable:
    def test_reserved_levels_come_after_the_regular_ones(self):
        assert COLOUR.labels == ("blue", "red", OTHER, MISSING)
        assert COLOUR.other_code == 2
        assert COLOUR.missing_code == 3
        assert COLOUR.cardinality == 4

    @pytest.mark.parametrize(
        ("text", "code"), [("blue", 0), ("red", 1), ("green", 2), (OTHER, 2), (MISSING, 3)]
    )
    def test_unknown_text_has_the_code_of_other(self, text, code):
        assert COLOUR.code_of(text) == code

    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ("-7", 0),
            ("18", 0),
            ("18.5", 1),
            ("65.5", 1),
            ("66", 2),
            ("1e9", 2),
            ("old", 3),
            ("(18, 65.5]", 3),
            (OTHER, 3),
            (MISSING, 4),
        ],
    )
    def test_number_as_text_falls_into_its_bin(self, text, code):
        assert AGE.code_of(text) == code

    def test_levels_of_a_numeric_variable_are_its_intervals(self):
        assert AGE.levels == ("(-inf, 18]", "(18, 65.5]", "(65.5, inf)")

    def test_numeric_variable_without_edges_has_one_bin(self):
        assert Variable("x", NUMERIC).levels == ("(-inf, inf)",)

    def test_intervals_may_be_given_if_they_fit_the_edges(self):
        assert Variable("age", NUMERIC, AGE.levels, AGE.edges) == AGE

    def test_intervals_that_do_not_fit_are_rejected(self):
        with pytest.raises(DataError, match="must be the intervals"):
            Variable("age", NUMERIC, ("low", "high"), (18.0,))

    @pytest.mark.parametrize(
        "edges", [(2.0, 1.0), (1.0, 1.0), (float("inf"),), (float("nan"),), (-float("inf"), 0.0)]
    )
    def test_edges_must_be_finite_and_rising(self, edges):
        with pytest.raises(DataError, match="finite and rising") as caught:
            Variable("x", NUMERIC, edges=edges)
        assert caught.value.column == "x"

    def test_only_a_numeric_variable_has_edges(self):
        with pytest.raises(DataError, match="only a numeric variable"):
            Variable("x", CATEGORICAL, ("a",), (1.0,))

    @pytest.mark.parametrize("levels", [("a", "a"), ("a", OTHER), (MISSING,)])
    def test_levels_differ_from_each_other_and_the_reserved_ones(self, levels):
        with pytest.raises(DataError, match="must differ"):
            Variable("x", CATEGORICAL, levels)

    def test_levels_and_reserved_levels_fit_a_byte(self):
        most = tuple(map(str, range(MAX_LEVELS)))
        assert Variable("x", CATEGORICAL, most).missing_code < 255
        with pytest.raises(DataError, match="251 levels"):
            Variable("x", CATEGORICAL, (*most, "more"))

    def test_name_must_not_be_empty(self):
        with pytest.raises(DataError, match="must not be empty"):
            Variable("", CATEGORICAL, ("a",))

    def test_variable_cannot_be_changed(self):
        with pytest.raises(FrozenInstanceError):
            COLOUR.name = "other"

    def test_looking_up_codes_does_not_change_equality_or_hash(self):
        fresh = Variable("colour", CATEGORICAL, ("blue", "red"))
        COLOUR.code_of("red")
        assert fresh == COLOUR
        assert hash(fresh) == hash(COLOUR)

    @given(st.lists(st.text(max_size=3), unique=True, max_size=20), st.text(max_size=3))
    def test_code_of_a_label_is_its_place(self, levels, text):
        variable = Variable("x", CATEGORICAL, tuple(t for t in levels if t not in RESERVED))
        assert [*map(variable.code_of, variable.labels)] == list(range(variable.cardinality))
        known = text in variable.labels
        assert known or variable.code_of(text) == variable.other_code

    @given(
        st.sets(st.floats(allow_nan=False, allow_infinity=False), max_size=5),
        st.floats(allow_nan=False, allow_infinity=False),
    )
    def test_text_of_a_float_falls_into_the_bin_of_the_float(self, edges, value):
        variable = Variable("x", NUMERIC, edges=tuple(sorted(edges)))
        assert variable.code_of(repr(value)) == sum(edge < value for edge in edges)


class TestLevelOrder:
    def test_numbers_come_first_and_by_value(self):
        levels = {"b", "10", "9", "-1.5", "a", "", "1e3", "007"}
        assert sorted_levels(levels) == ("-1.5", "007", "9", "10", "1e3", "", "a", "b")

    @pytest.mark.parametrize("text", ["nan", "inf", "1_000", "0x1", "\u0661", "1.2.3", "-", "."])
    def test_text_that_only_looks_like_a_number_is_text(self, text):
        assert level_key(text)[0] == 1

    @given(st.sets(st.text(alphabet=":;aZ09.-+e ", max_size=4)))
    def test_shortcut_for_plain_text_agrees_with_the_key(self, levels):
        assert sorted_levels(levels) == tuple(sorted(levels, key=level_key))
