import datetime
import subprocess
import sys
import uuid
from collections import UserDict
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbn.columns import canonical_text
from driftbn.errors import DataError, UnknownVariableError
from driftbn.records import (
    EncodedTable,
    SchemaEvent,
    SchemaEventKind,
    encode,
    infer_and_encode,
    quantile_edges,
)
from driftbn.schema import (
    MISSING,
    OTHER,
    ExclusionReason,
    MissingPolicy,
    Schema,
    SchemaConfig,
    Variable,
    VariableKind,
)

NAN = float("nan")
INF = float("inf")
REJECT = SchemaConfig(missing=MissingPolicy.REJECT)
KEEP_IDS = SchemaConfig(id_like_ratio=1.0)

texts = st.sampled_from(["a", "b", "c", "3", "3.0", "007", "", OTHER, MISSING, "true", "é\n"])
whole = st.integers(-3, 3) | st.integers(-(2**40), 2**40)
cells = {
    "text": texts,
    "boolean": st.booleans(),
    "integer": whole,
    "float": st.floats(width=64),
    "mixed": texts | st.booleans() | whole | st.floats(width=32),
}


@st.composite
def tables(draw, kinds=tuple(cells)):
    n_rows = draw(st.integers(1, 12))
    columns = {}
    for name in draw(
        st.lists(st.text(min_size=1, max_size=3), min_size=1, max_size=5, unique=True)
    ):
        cell = st.none() | cells[draw(st.sampled_from(kinds))]
        columns[name] = draw(st.lists(cell, min_size=n_rows, max_size=n_rows))
    return columns


def labels_of(table: EncodedTable, name: str) -> list[str]:
    labels = table.schema[name].labels
    return [labels[code] for code in table.column(name)]


def labels(values) -> list[str]:
    return labels_of(infer_and_encode({"x": values}), "x")


def reasons(table: EncodedTable) -> dict[str, str]:
    return {e.name: e.reason.value for e in table.schema.excluded}


def assert_same(first: EncodedTable, second: EncodedTable) -> None:
    assert first.schema == second.schema
    np.testing.assert_array_equal(first.codes, second.codes)


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


class TestNumericBins:
    def test_default_is_quartiles(self):
        table = infer_and_encode({"x": np.linspace(0.5, 99.5, 100)})
        assert np.bincount(table.codes[0]).tolist() == [25, 25, 25, 25]

    @pytest.mark.parametrize(
        ("values", "edges"),
        [
            ([1, 2, 3, 4], (1, 2, 3)),
            ([0] * 6 + [1, 2, 3, 4], (0, 2)),
            ([0, 1] + [9] * 8, (1,)),
            ([0] + [5] * 8 + [9], (0, 5)),
            ([1, 2], (1,)),
            ([1], ()),
            ([1, 1, 1], ()),
            ([-INF, -INF, 1, 2], (-sys.float_info.max, 1)),
            ([1, INF, INF, INF], (1,)),
            ([-INF, INF], (-sys.float_info.max,)),
        ],
    )
    def test_a_value_over_several_quantiles_gets_a_bin_of_its_own(self, values, edges):
        assert quantile_edges(np.array(values, float), 4) == edges

    @given(
        st.lists(st.floats(allow_nan=False) | st.sampled_from([0.0, 1.0]), min_size=1),
        st.integers(2, 30),
    )
    def test_no_bin_is_empty_and_none_is_left_out(self, values, n_bins):
        edges = quantile_edges(np.array(values), n_bins)
        used = {sum(edge < value for edge in edges) for value in values}
        assert used == set(range(len(edges) + 1))
        assert len(edges) < n_bins
        assert len(edges) >= 1 or len({max(v, -sys.float_info.max) for v in values}) == 1

    @pytest.mark.parametrize("n_bins", [3, 40])
    def test_codes_count_the_edges_below_a_value(self, n_bins):
        values = np.random.default_rng(1).normal(size=500)
        table = infer_and_encode({"x": values}, SchemaConfig(numeric_bins=n_bins))
        edges = table.schema["x"].edges
        assert len(edges) == n_bins - 1
        assert table.codes[0].tolist() == [sum(e < v for e in edges) for v in values]

    def test_infinity_belongs_to_the_outer_bins(self):
        values = [-INF, 0.5, 1.5, 2.5, INF, NAN]
        table = infer_and_encode({"x": values}, SchemaConfig(numeric_bins=2))
        assert table.codes.tolist() == [[0, 0, 0, 1, 1, 3]]

    def test_edges_are_frozen_for_later_tables(self):
        schema = infer_and_encode({"x": [0.5, 1.5, 2.5, 3.5]}).schema
        table = encode({"x": [-100.0, 1.5, 100.0, INF, NAN]}, schema)
        assert labels_of(table, "x") == [
            "(-inf, 0.5]",
            "(0.5, 1.5]",
            "(2.5, inf)",
            "(2.5, inf)",
            MISSING,
        ]

    def test_number_or_text_of_a_number_falls_into_the_same_bin(self):
        schema = infer_and_encode({"x": [0.5, 1.5, 2.5, 3.5]}).schema
        table = encode({"x": ["2", 2, 2.0, "two"]}, schema)
        assert table.codes.tolist() == [[2, 2, 2, 4]]
        assert table.events == (SchemaEvent(SchemaEventKind.NEW_LEVEL, "x", ("two",), 1, 1),)

    def test_constant_number_beside_missing_values_is_a_variable(self):
        variable = infer_and_encode({"x": [0.5, NAN, 0.5]}).schema["x"]
        assert variable.levels == ("(-inf, inf)",)


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


class TestExclusion:
    @pytest.mark.parametrize(
        "values", [["a", "a"], [1, 1], [0.5, 0.5], [True, True], [3, "3"], [INF, INF]]
    )
    def test_constant_column_is_left_out(self, values):
        assert reasons(infer_and_encode({"x": values})) == {"x": "constant"}

    @pytest.mark.parametrize(
        "values",
        [
            [None, None],
            [NAN, NAN],
            [MISSING, None],
            pa.nulls(2),
            pa.nulls(2, pa.int32()),
            pd.Categorical([None, None], categories=["a"]),
            np.array([NAN, NAN]),
        ],
    )
    def test_column_without_a_value_is_left_out(self, values):
        assert reasons(infer_and_encode({"x": values})) == {"x": "all_missing"}

    @pytest.mark.parametrize(
        "values",
        [
            [datetime.datetime(2024, 1, 1), None],  # noqa: DTZ001
            [datetime.date(2024, 1, 1), datetime.timedelta(1)],
            [datetime.time(1), datetime.time(2)],
            pd.date_range("2024-01-01", periods=2),
            pd.date_range("2024-01-01", periods=2, tz="UTC"),
            pd.period_range("2024-01", periods=2, freq="M"),
            pd.to_timedelta([1, 2]),
            np.array(["2024", "2025"], "M8[Y]"),
            pa.array([1, 2], pa.timestamp("s")),
            pa.array([1, 2], pa.date32()),
        ],
    )
    def test_column_of_times_is_left_out(self, values):
        assert reasons(infer_and_encode({"x": values})) == {"x": "temporal"}

    def test_same_partition_of_the_rows_is_a_duplicate_of_the_first_by_name(self):
        table = infer_and_encode(
            {
                "d": [2.5, 1.5, 2.5, None],
                "b": ["x", "y", "x", None],
                "c": [1, 0, 1, 7],
                "a": ["x", "y", "y", None],
            }
        )
        assert table.schema.names == ("a", "b")
        assert [(e.name, e.reason, e.detail) for e in table.schema.excluded] == [
            ("c", ExclusionReason.DUPLICATE, "same as 'b'"),
            ("d", ExclusionReason.DUPLICATE, "same as 'b'"),
        ]

    def test_columns_that_differ_only_in_the_last_row_are_no_duplicates(self):
        values = np.arange(5000) % 3
        other = values.copy()
        other[-1] = (other[-1] + 1) % 3
        table = infer_and_encode({"a": values, "b": other, "c": 2 - values})
        assert table.schema.names == ("a", "b")

    def test_constant_columns_are_not_called_duplicates(self):
        assert reasons(infer_and_encode({"a": [1, 1], "b": [2, 2]})) == {
            "a": "constant",
            "b": "constant",
        }

    @pytest.mark.parametrize(
        "values",
        [
            [f"id-{i}" for i in range(60)],
            pd.Categorical([f"id-{i}" for i in range(60)]),
            np.arange(60) * 7,
            [f"id-{i}" for i in range(58)] + [None] * 5,
            [uuid.UUID(int=i) for i in range(60)],
            [2**70 + i for i in range(60)],
        ],
    )
    def test_column_of_nearly_distinct_values_is_id_like(self, values):
        assert reasons(infer_and_encode({"x": values})) == {"x": "id_like"}

    @pytest.mark.parametrize(
        "values",
        [
            [f"id-{i}" for i in range(49)],
            [f"id-{i % 57}" for i in range(60)],
            np.arange(60) % 57,
            np.arange(60) + 0.5,
            np.arange(60.0),
        ],
    )
    def test_few_rows_repeated_values_and_floats_are_not_id_like(self, values):
        assert infer_and_encode({"x": values}).schema.names == ("x",)

    def test_whole_floats_are_not_id_like_even_as_levels(self):
        config = SchemaConfig(integer_levels=250, max_levels=250)
        variable = infer_and_encode({"x": np.arange(100.0)}, config).schema["x"]
        assert len(variable.levels) == 100

    def test_ratio_of_one_keeps_distinct_values(self):
        table = infer_and_encode({"x": [f"id-{i:02}" for i in range(60)]}, KEEP_IDS)
        assert table.schema["x"].levels == tuple(f"id-{i:02}" for i in range(32))

    def test_detail_counts_what_was_seen(self):
        (found,) = infer_and_encode({"x": np.arange(60)}).schema.excluded
        assert found.detail == "60 distinct values in 60 rows"

    def test_single_row_leaves_no_variable(self):
        table = infer_and_encode({"a": [1], "b": ["x"], "c": [0.5], "d": [None]})
        assert reasons(table) == {
            "a": "constant",
            "b": "constant",
            "c": "constant",
            "d": "all_missing",
        }
        assert table.codes.shape == (0, 1)


class TestFixedSchema:
    SCHEMA = infer_and_encode(
        {"b": [True, False, True], "n": [1, 2, 2], "t": ["x", "y", "z"], "gone": [1, 1, 1]}
    ).schema

    def test_single_row_is_encoded(self):
        table = encode([{"b": False, "n": 2, "t": "z"}], self.SCHEMA)
        assert table.codes.tolist() == [[0], [1], [2]]
        assert table.events == ()

    def test_encoding_the_same_table_again_gives_the_same_codes(self):
        data = {"b": [True, False, True], "n": [1, 2, 2], "t": ["x", "y", "z"]}
        assert_same(encode(data, self.SCHEMA), encode(data, self.SCHEMA))
        assert encode(data, self.SCHEMA).codes.tolist() == [[1, 0, 1], [0, 1, 1], [0, 1, 2]]

    def test_unknown_levels_become_other_and_are_named(self):
        table = encode({"b": [True, 1], "n": [7, 0.5], "t": ["x", "q"]}, self.SCHEMA)
        assert labels_of(table, "n") == [OTHER, OTHER]
        assert labels_of(table, "b") == ["true", OTHER]
        assert [(e.column, e.levels, e.n_levels, e.n_rows) for e in table.events] == [
            ("b", ("1",), 1, 1),
            ("n", ("0.5", "7"), 2, 2),
            ("t", ("q",), 1, 1),
        ]

    def test_named_levels_are_bounded_but_all_are_counted(self):
        values = [f"new{i}" for i in range(400) for _ in range(2)]
        schema = Schema([self.SCHEMA["t"]])
        (event,) = encode({"t": values}, schema).events
        assert event.levels == (
            "new0",
            "new1",
            "new10",
            "new100",
            "new101",
            "new102",
            "new103",
            "new104",
        )
        assert (event.n_levels, event.n_rows) == (400, 800)

    def test_absent_column_is_missing_throughout(self):
        table = encode({"b": [True], "n": [1]}, self.SCHEMA)
        assert labels_of(table, "t") == [MISSING]
        assert table.events == (SchemaEvent(SchemaEventKind.MISSING_COLUMN, "t", n_rows=1),)

    def test_unknown_column_is_left_out_but_an_excluded_one_is_no_news(self):
        data = {"b": [True], "n": [1], "t": ["x"], "gone": [5], "extra": [1], "also": [[1]]}
        table = encode(data, self.SCHEMA)
        assert [(e.kind.value, e.column) for e in table.events] == [
            ("new_column", "also"),
            ("new_column", "extra"),
        ]

    def test_many_numbers_for_a_categorical_variable_are_looked_up_one_by_one(self):
        values = np.concatenate([np.arange(1000) * 1000, [1, 2]])
        table = encode({"n": values}, Schema([self.SCHEMA["n"]]))
        assert np.flatnonzero(table.codes[0] != 2).tolist() == [1000, 1001]
        assert table.events[0].n_rows == 1000

    def test_many_numbers_with_missing_ones_keep_them_missing(self):
        values = pd.array([None, 1, *range(1000, 400_000, 1000)], dtype="Int64")
        table = encode({"n": values}, Schema([self.SCHEMA["n"]]))
        assert labels_of(table, "n")[:3] == [MISSING, "1", OTHER]

    def test_only_missing_numbers_are_missing(self):
        assert (
            labels_of(encode({"n": [NAN, NAN]}, Schema([self.SCHEMA["n"]])), "n") == [MISSING] * 2
        )

    def test_times_for_a_variable_are_an_error(self):
        with pytest.raises(DataError, match=r"column 't': .*must not hold times"):
            encode({"t": np.array(["2024"], "M8[Y]")}, self.SCHEMA)

    def test_schema_without_variables_gives_no_rows_of_codes(self):
        assert encode({"x": [1, 2]}, Schema([])).codes.shape == (0, 2)

    def test_declared_order_of_levels_is_kept(self):
        schema = Schema([Variable("x", VariableKind.CATEGORICAL, ("low", "high"))])
        assert encode({"x": ["high", "low"]}, schema).codes.tolist() == [[1, 0]]


class TestResult:
    def test_codes_are_contiguous_bytes_a_row_for_each_variable(self):
        table = infer_and_encode({"b": ["x", "y", "y"], "a": [1, 2, 1]})
        assert table.codes.dtype == np.uint8
        assert table.codes.flags.c_contiguous
        assert table.codes.shape == (2, 3)
        assert table.n_rows == 3
        assert table.column("b").tolist() == [0, 1, 1]

    def test_unknown_variable_is_an_error(self):
        with pytest.raises(UnknownVariableError):
            infer_and_encode({"a": [1, 2]}).column("b")

    def test_input_is_left_untouched(self):
        values = np.array([3, 1, 3, -1])
        floats = np.array([0.5, NAN, 1.5, 0.5])
        infer_and_encode({"a": values, "b": floats}).codes[:] = 0
        assert values.tolist() == [3, 1, 3, -1]
        np.testing.assert_array_equal(floats, [0.5, NAN, 1.5, 0.5])

    def test_odd_names_are_kept_as_they_are(self):
        name = "a \"b\"\n'c' é 漢 \t"
        assert infer_and_encode({name: [1, 2]}).schema.names == (name,)

    def test_whole_numbers_as_names_become_text(self):
        frame = pd.DataFrame([[1, "a"], [2, "a"]])
        table = infer_and_encode(frame)
        assert table.schema.names == ("0",)
        assert reasons(table) == {"1": "constant"}

    def test_importing_the_module_loads_neither_pandas_nor_pyarrow(self):
        script = (
            "import sys, driftbn.records as r\n"
            "assert not {'pandas', 'pyarrow'} & set(sys.modules)\n"
            "import numpy as np\n"
            "r.infer_and_encode({'x': np.array([1, 2])})\n"
            "assert not {'pandas', 'pyarrow'} & set(sys.modules)\n"
            "assert r.infer_and_encode({'x': ['a', 'b']}).codes.tolist() == [[0, 1]]\n"
        )
        subprocess.run([sys.executable, "-c", script], check=True)


class TestSources:
    COLUMNS = {  # noqa: RUF012
        "t": ["b", "a", None, "b"],
        "i": [1, 5, 1, 1],
        "f": [0.5, NAN, 2.5, 1.5],
        "b": [True, True, False, None],
    }
    EXPECTED = infer_and_encode(COLUMNS)

    @pytest.mark.parametrize(
        "data",
        [
            pd.DataFrame(COLUMNS),
            pd.DataFrame(COLUMNS).convert_dtypes(),
            pd.DataFrame(COLUMNS).convert_dtypes(dtype_backend="pyarrow"),
            pd.DataFrame(COLUMNS, index=list("wxyz")),
            pd.DataFrame(COLUMNS, dtype=object),
            pa.table(COLUMNS),
            pa.concat_tables([pa.table(COLUMNS).slice(0, 1), pa.table(COLUMNS).slice(1)]),
            pa.RecordBatch.from_pydict(COLUMNS),
            pd.DataFrame(COLUMNS).to_dict("records"),
            tuple(pd.DataFrame(COLUMNS).to_dict("records")),
            UserDict(COLUMNS),
            {k: tuple(v) for k, v in COLUMNS.items()},
            {k: pd.Series(v, index=[3, 1, 0, 2]) for k, v in COLUMNS.items()},
            {k: pa.array(v) for k, v in COLUMNS.items()},
            {k: np.array(v, object) for k, v in COLUMNS.items()},
        ],
    )
    def test_every_kind_of_table_gives_the_same_schema_and_codes(self, data):
        assert_same(infer_and_encode(data), self.EXPECTED)
        assert_same(encode(data, self.EXPECTED.schema), self.EXPECTED)

    def test_objects_in_an_array_are_read_cell_by_cell(self):
        data = np.array(list(zip(*self.COLUMNS.values(), strict=True)), object)
        assert_same(infer_and_encode(data, names=list(self.COLUMNS)), self.EXPECTED)

    def test_absent_key_is_a_missing_value(self):
        table = infer_and_encode([{"a": 1}, {"a": 2, "b": "x"}, {"b": "x"}])
        assert labels_of(table, "a") == ["1", "2", MISSING]
        assert labels_of(table, "b") == [MISSING, "x", "x"]

    def test_records_with_the_same_number_of_other_keys_are_told_apart(self):
        table = infer_and_encode([{"a": 1, "b": 1}, {"a": 2, "c": 1}, UserDict({"b": 2, "c": 2})])
        assert labels_of(table, "a") == ["1", "2", MISSING]

    @pytest.mark.parametrize("order", ["C", "F"])
    def test_number_array_is_read_by_columns(self, order):
        data = np.array([[1, 10], [2, 10], [1, 20]], order=order)
        table = infer_and_encode(data, names=["x", "y"])
        assert table.codes.tolist() == [[0, 1, 0], [0, 0, 1]]

    @pytest.mark.parametrize(
        ("dtype", "low", "high"),
        [
            ("i8", 0, 255),
            ("i8", -1, 255),
            ("i8", -(2**63), 2**63 - 1),
            ("i8", -1, 2**40),
            ("u8", 2**63, 2**64 - 1),
            ("i4", -200, -100),
        ],
    )
    def test_integers_in_an_array_are_exact_up_to_the_ends_of_their_type(self, dtype, low, high):
        data = np.array([[low, 1], [high, 1], [high, 2]], dtype)
        assert labels_of(infer_and_encode(data, names=["x", "y"]), "x") == [
            str(low),
            str(high),
            str(high),
        ]

    def test_masked_cells_are_missing(self):
        data = np.ma.masked_array([[1, 5], [2, 6], [1, 5]], [[0, 0], [0, 0], [1, 0]])
        table = infer_and_encode(data, names=["x", "y"])
        assert labels_of(table, "x") == ["1", "2", MISSING]

    @pytest.mark.parametrize(
        "values",
        [
            np.array(["b", "a", "b"]),
            np.array([b"b", b"a", b"b"]),
            np.array(["b", "a", "b"], np.dtypes.StringDType()),
            pa.array(["b", "a", "b"], pa.large_string()),
            pa.array(["b", "a", "b"], pa.string_view()),
            pa.array([b"b", b"a", b"b"], pa.binary(1)),
            pa.array([b"b", b"a", b"b"]),
            pa.chunked_array(
                [pa.array(["b"]).dictionary_encode(), pa.array(["a", "b"]).dictionary_encode()]
            ),
            pa.DictionaryArray.from_arrays(pa.array([1, 0, 1], pa.uint8()), ["a", "b"]),
            pa.DictionaryArray.from_arrays(pa.array([1, 0, 1], pa.int64()), ["a", "b"]),
            pd.Categorical(["b", "a", "b"], categories=["b", "a"], ordered=True),
            pd.Categorical(["b", "a", "b"], categories=pd.Index(["a", "b"], dtype=object)),
        ],
    )
    def test_every_kind_of_text_column_gives_the_same_codes(self, values):
        table = infer_and_encode({"x": values})
        assert table.schema["x"].levels == ("a", "b")
        assert table.codes.tolist() == [[1, 0, 1]]

    @pytest.mark.parametrize(
        "values",
        [
            pa.array([5, None, 6], pa.uint16()),
            pa.array([5, None, 6], pa.float32()),
            pa.array([Decimal(5), None, Decimal(6)]),
            pd.arrays.SparseArray([5, NAN, 6]),
            pd.array([5, None, 6], dtype="Float64"),
        ],
    )
    def test_every_kind_of_number_column_gives_the_same_codes(self, values):
        table = infer_and_encode({"x": values})
        assert table.schema["x"].levels == ("5", "6")
        assert table.codes.tolist() == [[0, 3, 1]]


BAD_TABLES = [
    (None, None, "NoneType is no table"),
    ("text", None, "str is no table"),
    (pd.Series([1]), None, "Series is no table"),
    (pa.array([1]), None, "is no table"),
    ({}, None, "no columns"),
    ([], None, "no columns"),
    ([{}, {}], None, "no columns"),
    (pd.DataFrame(), None, "no columns"),
    (pd.DataFrame(index=[1, 2]), None, "no columns"),
    (pd.DataFrame({"a": []}), None, "no rows"),
    (pa.table({"a": pa.array([], pa.string())}), None, "no rows"),
    ({"a": []}, None, "no rows"),
    (np.zeros((0, 1)), ["a"], "no rows"),
    (np.zeros((3, 0)), [], "no columns"),
    (np.zeros(3), ["a"], "2 dimensions"),
    (np.zeros((2, 2)), None, "pass names="),
    (np.zeros((2, 2)), ["a"], "1 names for 2 columns"),
    ({"a": [1]}, ["a"], "names go with a 2-D array only"),
    ({"a": [1, 2], "b": [1]}, None, "column 'b': 1 rows, where the first column has 2"),
    ({"a": 5}, None, "column 'a': int is no column"),
    ({"a": "text"}, None, "column 'a': str is no column"),
    ({"a": {1, 2}}, None, "column 'a': set is no column"),
    ({"a": np.zeros((2, 2))}, None, "column 'a': a column must have 1 dimension"),
    ([{"a": 1}, 7], None, "row 1: int is no record"),
    (pd.DataFrame([[1, 2]], columns=["a", "a"]), None, "column 'a': the name is taken twice"),
    ({1: [1], "1": [2]}, None, "column '1': the name is taken twice"),
    (pa.table([[1], [2]], names=["a", "a"]), None, "column 'a': the name is taken twice"),
    ({None: [1]}, None, "column name None is not allowed"),
    ({"": [1]}, None, "column name '' is not allowed"),
    ({1.5: [1]}, None, "column name 1.5 is not allowed"),
    ({True: [1]}, None, "column name True is not allowed"),
    (pd.DataFrame({("a", "b"): [1]}), None, "column name .* is not allowed"),
]

BAD_COLUMNS = [
    ([[1], [2]], 0),
    ([None, [1]], 1),
    ([1, [2]], 1),
    (["a", {"b": 1}], 1),
    ([{"b": 1}, {"b": 2}], 0),
    (["a", {1}], 1),
    ([1, object()], 1),
    ([1j, 2j], 0),
    (np.array([1j, 2j]), 0),
    (np.zeros(2, "V4"), 0),
    ([np.zeros(2), 1], 0),
    ([3, datetime.date(2024, 1, 1)], 1),
    ([datetime.date(2024, 1, 1), 3], 0),
    (["a", 1, Decimal("sNaN")], 2),
    ([pd.Interval(0, 1), 1], 0),
    (pd.arrays.IntervalArray.from_breaks([0, 1, 2]), 0),
    (pa.array([None, [1]]), 1),
    (pa.array([{"a": 1}]), 0),
]


class TestBadInput:
    @pytest.mark.parametrize(("data", "names", "message"), BAD_TABLES)
    def test_bad_table_is_a_data_error_that_says_why(self, data, names, message):
        with pytest.raises(DataError, match=message):
            infer_and_encode(data, names=names)
        with pytest.raises(DataError, match=message):
            encode(data, Schema([]), names=names)

    @pytest.mark.parametrize(("values", "row"), BAD_COLUMNS)
    def test_bad_cell_is_a_data_error_that_names_column_and_row(self, values, row):
        schema = Schema([Variable("x", VariableKind.CATEGORICAL, ("a",))])
        for call in (infer_and_encode, lambda data: encode(data, schema)):
            with pytest.raises(DataError, match=f"column 'x', row {row}") as caught:
                call({"x": values})
            assert (caught.value.column, caught.value.row) == ("x", row)

    def test_number_with_too_many_digits_to_write_is_a_data_error(self):
        with pytest.raises(DataError, match="column 'x'"):
            infer_and_encode({"x": [10**5000, "a"]})


class TestOrderDoesNotMatter:
    @given(tables(), st.randoms(use_true_random=False))
    @settings(max_examples=150, deadline=None)
    def test_permuted_rows_give_the_same_schema_and_permuted_codes(self, columns, random):
        n_rows = len(next(iter(columns.values())))
        order = list(range(n_rows))
        random.shuffle(order)
        table = infer_and_encode(columns, KEEP_IDS)
        shuffled = infer_and_encode(
            {k: [v[i] for i in order] for k, v in columns.items()}, KEEP_IDS
        )
        assert shuffled.schema == table.schema
        np.testing.assert_array_equal(shuffled.codes, table.codes[:, order])

    @given(tables())
    @settings(deadline=None)
    def test_order_of_columns_does_not_matter(self, columns):
        turned = dict(reversed(list(columns.items())))
        assert_same(infer_and_encode(turned), infer_and_encode(columns))

    @given(tables())
    @settings(deadline=None)
    def test_frames_records_and_columns_give_the_same(self, columns):
        expected = infer_and_encode(columns)
        frame = pd.DataFrame({k: pd.Series(v, dtype=object) for k, v in columns.items()})
        records = [
            dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
        ]
        assert_same(infer_and_encode(frame), expected)
        assert_same(infer_and_encode(records), expected)

    @given(tables(kinds=("text", "boolean", "integer", "float")))
    @settings(deadline=None)
    def test_arrow_tables_and_their_dictionaries_give_the_same(self, columns):
        expected = infer_and_encode(columns)
        table = pa.table({k: pa.array(v, from_pandas=True) for k, v in columns.items()})
        assert_same(infer_and_encode(table), expected)
        assert_same(encode(table, expected.schema), expected)

    @given(tables())
    @settings(deadline=None)
    def test_encoding_with_the_inferred_schema_repeats_the_codes(self, columns):
        table = infer_and_encode(columns)
        again = encode(columns, Schema.from_dict(table.schema.to_dict()))
        assert_same(again, table)
        assert again.events == ()

    @given(tables())
    @settings(deadline=None)
    def test_codes_are_those_of_the_canonical_texts(self, columns):
        table = infer_and_encode(columns)
        for variable in table.schema.variables:
            texts_of_cells = [canonical_text(value) for value in columns[variable.name]]
            if variable.kind is not VariableKind.NUMERIC:
                expected = [variable.code_of(text) for text in texts_of_cells]
                assert table.column(variable.name).tolist() == expected

    @given(tables(), tables())
    @settings(deadline=None)
    def test_any_table_can_be_encoded_with_any_schema(self, columns, other):
        schema = infer_and_encode(columns).schema
        codes = encode(other, schema).codes
        limits = [[variable.cardinality] for variable in schema.variables]
        assert (codes < np.array(limits).reshape(-1, 1)).all()
