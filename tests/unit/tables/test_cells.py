import uuid
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from tests.encoded import INF, MISSING, NAN, canonical_text, infer_and_encode, labels


class TestCanonicalText:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (3, "3"),
            (3.0, "3"),
            ("3", "3"),
            ("3.0", "3"),
            ("-3.0", "-3"),
            ("-0.0", "0"),
            (-0.0, "0"),
            (np.int8(3), "3"),
            (np.float32(3), "3"),
            (Decimal("3.00"), "3"),
            (Fraction(6, 2), "3"),
            (10**400, "1" + "0" * 400),
            (1e20, "100000000000000000000"),
            (True, "true"),
            (np.True_, "true"),
            (False, "false"),
            ("true", "true"),
            ("True", "True"),
            (0.5, "0.5"),
            (Decimal("0.50"), "0.5"),
            (INF, "inf"),
            (" a ", " a "),
            ("007", "007"),
            ("03.0", "03.0"),
            ("3.00", "3.00"),
            ("", ""),
            (b"a", "a"),
            (b"3.0", "3"),
            (b"\xff", "\\xff"),
            (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
            (None, MISSING),
            (NAN, MISSING),
            (Decimal("NaN"), MISSING),
            (pd.NA, MISSING),
            (pd.NaT, MISSING),
            (np.datetime64("NaT"), MISSING),
        ],
    )
    def test_value_has_the_text_of_the_written_rule(self, value, text):
        assert canonical_text(value) == text

    @pytest.mark.parametrize("value", [[], {}, set(), object(), 1j, np.zeros(2), int])
    def test_value_of_another_type_has_no_text(self, value):
        with pytest.raises(TypeError, match="is not allowed"):
            canonical_text(value)

    @pytest.mark.parametrize(
        "values", [[3.0, 3, "3", "4"], ["4", "3", 3, 3.0], [3, "3", 3.0, "4.0"]]
    )
    def test_three_as_text_integer_and_float_is_one_category(self, values):
        table = infer_and_encode({"x": values})
        assert table.schema["x"].levels == ("3", "4")

    @pytest.mark.parametrize("values", [[1.0, True], [True, 1.0], [1, True], [True, 1]])
    def test_one_and_true_are_two_categories_in_any_order(self, values):
        assert sorted(labels(values)) == ["1", "true"]

    def test_true_as_text_and_boolean_is_one_category(self):
        assert labels([True, "true", "false", False]) == ["true", "true", "false", "false"]
