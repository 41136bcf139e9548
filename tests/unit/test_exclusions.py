import datetime
import uuid

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from driftbn.errors import DataError
from driftbn.records import infer_and_encode
from driftbn.schema import ExclusionReason, SchemaConfig
from driftbn.variables import MISSING
from tests.encoded import INF, KEEP_IDS, NAN, reasons

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

    def test_only_missing_values_make_a_field_rare(self):
        x = ["odd", *["usual"] * 4999]
        assert infer_and_encode({"x": x, "n": [1.5, *[0.5] * 4999]}).schema.names == ("n", "x")

    def test_missing_values_that_are_rejected_are_so_in_a_rare_field_too(self):
        with pytest.raises(DataError, match="missing"):
            infer_and_encode({"x": ["a", *[None] * 99]}, SchemaConfig(missing="reject"))

    def test_single_row_leaves_no_variable(self):
        table = infer_and_encode({"a": [1], "b": ["x"], "c": [0.5], "d": [None]})
        assert reasons(table) == {
            "a": "constant",
            "b": "constant",
            "c": "constant",
            "d": "all_missing",
        }
        assert table.codes.shape == (0, 1)
