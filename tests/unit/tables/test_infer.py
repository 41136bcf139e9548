import datetime
import json
import sys
import uuid
from dataclasses import asdict
from decimal import Decimal
from fractions import Fraction
from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbn.config import MissingPolicy, SchemaConfig
from driftbn.errors import DataError
from driftbn.tables.infer import MIN_SECOND_ROWS, Bins, find_duplicates, quantile_edges
from tests.encoded import (
    INF,
    KEEP_IDS,
    MISSING,
    NAN,
    OTHER,
    ExclusionReason,
    SchemaEvent,
    SchemaEventKind,
    VariableKind,
    assert_same,
    encode,
    infer_and_encode,
    infer_schema,
    labels,
    labels_of,
    read_table,
    reasons,
)

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


KEEP_CONSTANT = SchemaConfig(keep_constant=True, keep_duplicates=True)


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
                "d": [2.5, 1.5, 2.5, None] * 5,
                "b": ["x", "y", "x", None] * 5,
                "c": [1, 0, 1, 7] * 5,
                "a": ["x", "y", "y", None] * 5,
            }
        )
        assert table.schema.names == ("a", "b")
        assert [(e.name, e.reason, e.detail) for e in table.schema.excluded] == [
            ("c", ExclusionReason.DUPLICATE, "same as 'b'"),
            ("d", ExclusionReason.DUPLICATE, "same as 'b'"),
        ]

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

    @pytest.mark.parametrize("value", ["a", 7, 0.5, True])
    def test_field_with_too_few_values_for_any_test_is_left_out(self, value):
        for n_values, n_rows in ((1, 5000), (9, 5000), (1, 21), (4, 100)):
            x = [value] * n_values + [None] * (n_rows - n_values)
            table = infer_and_encode({"x": x, "y": np.arange(n_rows) % 2}, KEEP_CONSTANT)
            assert reasons(table) == {"x": "rare"}
            (found,) = table.schema.excluded
            assert found.detail == f"a value in {n_values} of {n_rows} rows"

    @pytest.mark.parametrize(
        ("n_values", "n_rows"), [(10, 5000), (250, 5000), (5, 100), (1, 20), (1, 2)]
    )
    def test_field_with_values_enough_is_kept(self, n_values, n_rows):
        x = ["a"] * n_values + [None] * (n_rows - n_values)
        assert infer_and_encode({"x": x}).schema.names == ("x",)

    def test_single_row_leaves_no_variable(self):
        table = infer_and_encode({"a": [1], "b": ["x"], "c": [0.5], "d": [None]})
        assert reasons(table) == {
            "a": "constant",
            "b": "constant",
            "c": "constant",
            "d": "all_missing",
        }
        assert table.codes.shape == (0, 1)


class TestNumericBins:
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

    def test_number_or_text_of_a_number_falls_into_the_same_bin(self):
        schema = infer_and_encode({"x": [0.5, 1.5, 2.5, 3.5]}).schema
        table = encode({"x": ["2", 2, 2.0, "two"]}, schema)
        assert table.codes.tolist() == [[2, 2, 2, 4]]
        assert table.events == (SchemaEvent(SchemaEventKind.NEW_LEVEL, "x", ("two",), 1, 1),)

    def test_constant_number_beside_missing_values_is_a_variable(self):
        variable = infer_and_encode({"x": [0.5, NAN, 0.5]}).schema["x"]
        assert variable.levels == ("(-inf, inf)",)


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

    def test_rows_that_differ_only_far_behind_the_signature_are_told_apart(self):
        codes = np.array([flag(5000, *range(10)), flag(5000, *range(10), 4999)])
        assert find_duplicates(codes) == {}


class TestRareColumns:
    @pytest.mark.parametrize(
        ("n_set", "duplicate"), [(1, False), (4, False), (5, True), (95, True), (96, False)]
    )
    def test_second_most_frequent_level_needs_five_rows(self, n_set, duplicate):
        values = flag(100, *range(n_set))
        table = infer_and_encode({"a": values, "b": 1 - values})
        assert reasons(table) == ({"b": "duplicate"} if duplicate else {})

    def test_codes_of_what_is_kept_stay_with_their_variables(self):
        two, three = np.arange(60) % 2, np.arange(60) % 3
        table = infer_and_encode({"a": two, "b": two, "c": three, "d": 1 - two, "e": three // 2})
        assert table.schema.names == ("a", "c", "e")
        np.testing.assert_array_equal(table.codes, [two, three, three // 2])
        again = encode({"a": two, "b": two, "c": three, "e": three // 2}, table.schema)
        np.testing.assert_array_equal(again.codes, table.codes)
        assert again.events == ()


def of_many_kinds(seed):
    """Return numbers as fields have them: smooth, repeated, mostly one value, far from zero."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 400))
    heavy = np.where(rng.random(n) < 0.7, 0.0, rng.exponential(size=n))
    made = [
        rng.normal(size=n),
        rng.integers(0, 60, n) * 0.5,
        heavy,
        -rng.exponential(size=n),
        np.where(rng.random(n) < 0.6, 9.5, rng.normal(size=n)),
        1000 + rng.normal(size=n),
        np.append(rng.normal(size=n), [np.inf, -np.inf, np.nan]),
    ]
    return made[seed % len(made)]


KEEP = SchemaConfig(keep_constant=True, keep_duplicates=True)


class TestGrid:
    @pytest.mark.parametrize("seed", range(70))
    def test_the_first_bins_are_those_of_quantiles(self, seed):
        table = read_table({"x": of_many_kinds(seed)})
        _, expected = infer_schema(table, KEEP)
        schema, codes = infer_schema(table, KEEP, grid=True)
        bins = Bins.of(schema, codes, KEEP.numeric_bins)
        np.testing.assert_array_equal(bins.apply(codes), expected)
        assert bins.renewed(codes) == bins
        assert Bins.from_state(json.loads(json.dumps(asdict(bins)))) == bins

    def test_a_field_that_moved_has_bins_again(self):
        rng = np.random.default_rng(1)
        schema, codes = infer_schema(read_table({"x": rng.normal(size=4000)}), KEEP, grid=True)
        bins = Bins.of(schema, codes, 4)
        moved = encode({"x": 30.0 + 5 * rng.normal(size=4000)}, schema).codes
        assert len(np.unique(bins.apply(moved))) == 1
        counts = np.bincount(bins.renewed(moved).apply(moved)[0])
        assert sorted(counts)[-2] > 1000

    def test_bins_that_are_even_enough_stay(self):
        rng = np.random.default_rng(2)
        schema, codes = infer_schema(read_table({"x": rng.normal(size=4000)}), KEEP, grid=True)
        bins = Bins.of(schema, codes, 4)
        assert bins.renewed(encode({"x": 0.2 + rng.normal(size=4000)}, schema).codes) is bins

    def test_a_thousandfold_is_still_several_cells(self):
        x = np.random.default_rng(3).gamma(4.0, size=2000)
        schema, _ = infer_schema(read_table({"x": x}), KEEP, grid=True)
        for factor in (1000.0, 0.001):
            found = encode({"x": factor * x}, schema).codes
            assert len(np.unique(Bins.of(schema, found, 4).apply(found))) > 1

    def test_given_bins_stay_as_they_are(self):
        codes = np.arange(6, dtype=np.uint8).reshape(2, 3)
        assert Bins.as_they_are(2).apply(codes) is codes
