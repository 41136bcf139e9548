import uuid
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from driftbn.errors import DataError
from driftbn.records import encode, infer_and_encode
from driftbn.schema import MissingPolicy, Schema, SchemaConfig, VariableKind
from driftbn.variables import MISSING, OTHER
from tests.encoded import INF, NAN, assert_same, labels, labels_of, reasons

REJECT = SchemaConfig(missing=MissingPolicy.REJECT)


class TestKinds:
    @pytest.mark.parametrize(
        ("values", "kind", "levels"),
        [
            (["b", "a"], "categorical", ("a", "b")),
            (["10", "9", "x"], "categorical", ("9", "10", "x")),
            ([True, False], "boolean", ("false", "true")),
            ([True, NAN, False], "boolean", ("false", "true")),
            ([np.True_, False, True], "boolean", ("false", "true")),
            ([10, 9, -1], "integer", ("-1", "9", "10")),
            ([10.0, 9.0, NAN], "integer", ("9", "10")),
            ([1, pd.NA, 2], "integer", ("1", "2")),
            ([0, 10**15], "integer", ("0", "1000000000000000")),
            ([0.5, 2], "numeric", ("(-inf, 0.5]", "(0.5, inf)")),
            ([Decimal("0.5"), 2], "numeric", ("(-inf, 0.5]", "(0.5, inf)")),
            ([Fraction(1, 2), 2.0], "numeric", ("(-inf, 0.5]", "(0.5, inf)")),
            ([2**70, 5, 5], "categorical", ("5", str(2**70))),
            ([2**70, 0.5], "numeric", ("(-inf, 0.5]", "(0.5, inf)")),
            ([1, "a"], "categorical", ("1", "a")),
            ([uuid.UUID(int=1), None], "categorical", (str(uuid.UUID(int=1)),)),
            (["\ud800", "a"], "categorical", ("a", "\ud800")),
        ],
    )
    def test_kind_and_levels_follow_from_the_values(self, values, kind, levels):
        variable = infer_and_encode({"x": values}).schema["x"]
        assert (variable.kind.value, variable.levels) == (kind, levels)

    def test_integers_beyond_the_limit_are_numeric(self):
        few, many = np.arange(64) % 16, np.arange(64) % 17
        schema = infer_and_encode({"few": few, "many": many}).schema
        assert schema["few"].kind is VariableKind.INTEGER
        assert schema["many"].kind is VariableKind.NUMERIC
        assert schema["many"].levels == ("(-inf, 3]", "(3, 7]", "(7, 11]", "(11, inf)")

    def test_few_integers_far_apart_are_still_levels(self):
        values = np.array([-(10**12), 0, 10**12] * 200)
        assert infer_and_encode({"x": values}).schema["x"].levels == (
            "-1000000000000",
            "0",
            "1000000000000",
        )

    def test_many_integers_far_apart_are_numeric_even_when_rare_ones_come_late(self):
        values = np.concatenate([np.zeros(1000, int), np.arange(20) * 1000])
        assert infer_and_encode({"x": values}).schema["x"].kind is VariableKind.NUMERIC

    def test_zero_integer_levels_makes_whole_numbers_numeric(self):
        schema = infer_and_encode({"x": [1, 2, 1]}, SchemaConfig(integer_levels=0)).schema
        assert schema["x"].levels == ("(-inf, 1]", "(1, inf)")

    @pytest.mark.parametrize("dtype", ["i1", "i2", "u1", "u8", "f2", "f4", "f8", ">i4"])
    def test_every_numpy_number_type_gives_the_same_levels(self, dtype):
        table = infer_and_encode({"x": np.array([7, 3, 7, 100], dtype)})
        assert table.schema["x"].levels == ("3", "7", "100")
        assert table.codes.tolist() == [[1, 0, 1, 2]]

    def test_unsigned_integers_beyond_the_signed_range_are_exact(self):
        values = np.array([2**64 - 1, 2**64 - 3, 2**64 - 1], np.uint64)
        assert labels(values) == [str(v) for v in values.tolist()]

    def test_negative_integers_in_a_narrow_type_are_offset_correctly(self):
        assert labels(np.array([-128, 126, -1], np.int8)) == ["-128", "126", "-1"]

    def test_categories_that_do_not_occur_are_no_levels(self):
        values = pd.Categorical(["b", "a"], categories=["z", "b", "a"])
        assert infer_and_encode({"x": values}).schema["x"].levels == ("a", "b")

    def test_intervals_as_declared_categories_go_by_their_text(self):
        values = pd.cut(pd.Series([1.0, 2.0, 3.0, 4.0]), [0, 2, 4])
        assert labels(values) == ["(0, 2]", "(0, 2]", "(2, 4]", "(2, 4]"]

    def test_categories_with_one_text_are_one_level(self):
        values = pd.Categorical([3, "3", "x"], categories=["3", 3, "x"])
        assert labels(values) == ["3", "3", "x"]


class TestMissing:
    @pytest.mark.parametrize(
        "values",
        [
            ["a", None, "b"],
            ["a", NAN, "b"],
            ["a", pd.NA, "b"],
            ["a", pd.NaT, "b"],
            ["a", MISSING, "b"],
            np.array(["a", None, "b"], object),
            pd.Categorical(["a", None, "b"]),
            pd.array(["a", None, "b"], dtype="string"),
            pa.array(["a", None, "b"]),
            pa.array(["a", None, "b"]).dictionary_encode(),
            pa.DictionaryArray.from_arrays([0, 1, 2], pa.array(["a", None, "b"])),
        ],
    )
    def test_missing_is_a_level_after_all_others(self, values):
        table = infer_and_encode({"x": values})
        assert table.codes.tolist() == [[0, 3, 1]]

    @pytest.mark.parametrize(
        "values",
        [
            ["a", None, "b"],
            [1, None, 2],
            [1.5, NAN, 2.5],
            [True, None, False],
            [None, None, None],
            pd.array([1, None, 2], dtype="Int64"),
        ],
    )
    def test_missing_is_an_error_naming_column_and_row_when_rejected(self, values):
        with pytest.raises(DataError, match="missing values are rejected") as caught:
            infer_and_encode({"x": values}, REJECT)
        assert caught.value.column == "x"
        assert caught.value.row == (0 if values[0] is None else 1)

    def test_policy_stays_with_the_schema(self):
        schema = infer_and_encode({"x": ["a", "b", "b"], "y": [0.5, 1.5, 0.5]}, REJECT).schema
        with pytest.raises(DataError, match="column 'y', row 1"):
            encode({"x": ["a", "b"], "y": [0.5, None]}, schema)
        with pytest.raises(DataError, match="column 'y': the column is absent"):
            encode({"x": ["a", "b"]}, schema)

    def test_nullable_integers_with_missing_values_are_not_zero(self):
        assert labels(pd.array([5, None, 6, None], dtype="Int64")) == ["5", MISSING, "6", MISSING]


class TestLevelCap:
    def test_most_frequent_levels_are_kept_and_ties_go_by_order(self):
        values = ["d"] * 3 + ["c"] * 2 + ["b"] * 2 + ["a"] + ["z"] * 2
        table = infer_and_encode({"x": values}, SchemaConfig(max_levels=3))
        variable = table.schema["x"]
        assert variable.levels == ("b", "c", "d")
        assert variable.pooled
        assert labels_of(table, "x")[-3:] == [OTHER] * 3

    def test_frequency_is_that_of_the_canonical_text(self):
        values = ["3", 3, 3.0, "a", "a", "b", "b"]
        table = infer_and_encode({"x": values}, SchemaConfig(max_levels=2))
        assert table.schema["x"].levels == ("3", "a")

    def test_unknown_level_of_a_pooled_variable_is_no_event(self):
        data = {"x": ["a", "a", "b", "b", "c"]}
        schema = infer_and_encode(data, SchemaConfig(max_levels=2)).schema
        table = encode({"x": ["c", "new"]}, schema)
        assert labels_of(table, "x") == [OTHER, OTHER]
        assert table.events == ()

    @pytest.mark.parametrize("as_categorical", [False, True])
    def test_more_levels_than_a_byte_holds_are_pooled(self, as_categorical):
        values = [f"v{i % 300:03}" for i in range(900)] + ["v299", None]
        column = pd.Categorical(values) if as_categorical else values
        table = infer_and_encode({"x": column}, SchemaConfig(max_levels=250))
        variable = table.schema["x"]
        assert variable.levels == (*(f"v{i:03}" for i in range(249)), "v299")
        assert labels_of(table, "x")[-2:] == ["v299", MISSING]
        assert labels_of(table, "x")[249] == OTHER
        assert_same(encode({"x": column}, table.schema), table)

    def test_reserved_text_in_the_data_means_the_reserved_level(self):
        table = infer_and_encode({"x": [OTHER, "a", MISSING]})
        assert table.codes.tolist() == [[1, 0, 2]]
        assert table.schema["x"].pooled

    def test_only_reserved_texts_leave_no_regular_level(self):
        table = infer_and_encode({"x": [OTHER, None]})
        assert table.schema["x"].levels == ()
        assert table.codes.tolist() == [[0, 1]]

    def test_integer_levels_are_capped_too(self):
        table = infer_and_encode({"x": [1, 1, 2, 3, 3]}, SchemaConfig(max_levels=2))
        assert labels_of(table, "x") == ["1", "1", OTHER, "3", "3"]


class TestKeptColumns:
    KEEP = SchemaConfig(keep_constant=True, keep_duplicates=True)

    @pytest.mark.parametrize(
        ("values", "kind", "levels"),
        [
            (["a", "a"], "categorical", ("a",)),
            ([True, True], "boolean", ("true",)),
            ([7, 7], "integer", ("7",)),
            ([None, None], "categorical", ()),
            (pd.array([None, None], dtype="Int64"), "integer", ()),
            (["a", None], "categorical", ("a",)),
        ],
    )
    def test_constant_is_a_variable_with_its_one_level(self, values, kind, levels):
        table = infer_and_encode({"x": values}, self.KEEP)
        variable = table.schema["x"]
        assert (variable.kind.value, variable.levels) == (kind, levels)
        assert table.schema.excluded == ()

    def test_another_level_of_a_constant_is_other_and_an_event(self):
        schema = infer_and_encode({"x": ["a", "a"]}, self.KEEP).schema
        table = encode({"x": ["b", "a", None]}, schema)
        assert labels_of(table, "x") == [OTHER, "a", MISSING]
        assert [event.levels for event in table.events] == [("b",)]

    def test_value_in_a_column_that_had_none_is_other(self):
        schema = infer_and_encode({"x": [None, None]}, self.KEEP).schema
        assert labels_of(encode({"x": ["b", None]}, schema), "x") == [OTHER, MISSING]
        assert labels_of(encode({"x": [0.5, 3]}, schema), "x") == [OTHER, OTHER]

    @pytest.mark.parametrize("value", [0.5, -0.5, -1e-300, 5e-324])
    def test_other_numbers_than_a_constant_lie_below_or_above(self, value):
        table = infer_and_encode({"x": [value] * 3}, self.KEEP)
        assert table.codes.tolist() == [[1, 1, 1]]
        near = [np.nextafter(value, -INF), value, np.nextafter(value, INF)]
        later = encode({"x": [-INF, *near, INF]}, table.schema)
        assert later.codes.tolist() == [[0, 0, 1, 2, 2]]

    @pytest.mark.parametrize("value", [INF, -INF])
    def test_constant_infinity_differs_from_finite_numbers(self, value):
        table = infer_and_encode({"x": [value] * 3}, self.KEEP)
        later = encode({"x": [value, 0.5]}, table.schema).codes[0]
        assert later[0] == table.codes[0, 0]
        assert later[1] != later[0]

    def test_constant_number_with_gaps_is_told_apart_too(self):
        schema = infer_and_encode({"x": [0.5, NAN, 0.5]}, self.KEEP).schema
        assert encode({"x": [0.4, 0.5, 0.6, NAN]}, schema).codes.tolist() == [[0, 1, 2, 4]]

    def test_constant_number_with_gaps_is_unchanged_without_keeping(self):
        assert infer_and_encode({"x": [0.5, NAN, 0.5]}).schema["x"].edges == ()

    def test_duplicates_are_kept(self):
        data = {"a": ["x", "y"] * 10, "b": [1, 2] * 10}
        assert infer_and_encode(data).schema.names == ("a",)
        assert infer_and_encode(data, self.KEEP).codes.tolist() == [[0, 1] * 10] * 2

    def test_each_setting_keeps_only_what_it_names(self):
        data = {"a": ["x", "y"] * 10, "b": [1, 2] * 10, "c": [1] * 20}
        constant = infer_and_encode(data, SchemaConfig(keep_constant=True))
        duplicates = infer_and_encode(data, SchemaConfig(keep_duplicates=True))
        assert reasons(constant) == {"b": "duplicate"}
        assert reasons(duplicates) == {"c": "constant"}

    def test_ids_and_times_are_left_out_all_the_same(self):
        data = {"id": np.arange(60) * 7, "at": pd.date_range("2024", periods=60), "c": [1] * 60}
        table = infer_and_encode(data, self.KEEP)
        assert table.schema.names == ("c",)
        assert reasons(table) == {"id": "id_like", "at": "temporal"}

    def test_schema_with_kept_columns_survives_its_dict(self):
        data = {"c": [1, 1], "f": [0.5, 0.5], "n": [None, None], "i": [-INF, -INF]}
        schema = infer_and_encode(data, self.KEEP).schema
        assert len(schema) == 4
        assert Schema.from_dict(schema.to_dict()) == schema

    def test_missing_values_are_rejected_in_kept_columns_too(self):
        config = SchemaConfig(keep_constant=True, missing="reject")
        with pytest.raises(DataError, match="row 1"):
            infer_and_encode({"x": ["a", None]}, config)
