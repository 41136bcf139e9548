import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbn.encoding.inference import quantile_edges
from driftbn.records import SchemaEvent, SchemaEventKind, encode, infer_and_encode
from driftbn.schema import SchemaConfig
from driftbn.variables import MISSING
from tests.encoded import INF, NAN, labels_of


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
