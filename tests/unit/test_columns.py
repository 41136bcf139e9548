import datetime
import uuid
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbn.encoding.columns import read_column
from driftbn.encoding.factors import Factor, Numbers
from driftbn.errors import DataError
from driftbn.records import encode, infer_and_encode
from driftbn.schema import Schema, Variable, VariableKind
from driftbn.variables import MISSING
from tests.encoded import KEEP_IDS, NAN, assert_same, labels_of, reasons

CATEGORICAL = VariableKind.CATEGORICAL


class TestKindsOfColumns:
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


class TestManyValues:
    @pytest.mark.parametrize("n_values", [127, 128, 255, 256, 300, 40_000])
    def test_every_kind_of_column_gives_the_same_levels(self, n_values):
        texts = [f"v{i % n_values:05}" for i in range(n_values + 10)] + ["v00003", None]
        array = pa.array(texts)
        expected = infer_and_encode({"x": texts}, KEEP_IDS)
        assert len(expected.schema["x"].levels) == 32
        for column in (
            pd.Categorical(texts),
            pd.Categorical(texts, categories=pd.Index(sorted({*texts[:-1]}), dtype=object)),
            np.array(texts, object),
            array.dictionary_encode(),
            pa.chunked_array([array.slice(0, 5), array.slice(5)]),
        ):
            assert_same(infer_and_encode({"x": column}, KEEP_IDS), expected)
            assert_same(encode({"x": column}, expected.schema), expected)

    @pytest.mark.parametrize("index", [pa.uint16(), pa.int32(), pa.uint32(), pa.int64()])
    def test_width_of_dictionary_indices_does_not_matter(self, index):
        values = [f"v{i}" for i in range(300)]
        codes = pa.array([299, None, 0, 299], index)
        table = infer_and_encode({"x": pa.DictionaryArray.from_arrays(codes, values)})
        assert labels_of(table, "x") == ["v299", MISSING, "v0", "v299"]

    def test_large_dictionary_of_which_nothing_occurs_is_missing(self):
        values = pa.array([f"v{i}" for i in range(300)])
        column = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int32()), values)
        assert reasons(infer_and_encode({"x": column})) == {"x": "all_missing"}
        schema = Schema([Variable("x", CATEGORICAL, ("a",))])
        assert labels_of(encode({"x": column}, schema), "x") == [MISSING] * 2

    def test_declared_categories_that_do_not_occur_cost_no_level(self):
        column = pd.Categorical(["v7", "v9", None], categories=[f"v{i}" for i in range(5000)])
        assert infer_and_encode({"x": column}).schema["x"].levels == ("v7", "v9")


class TestChunks:
    CHUNKS = (["b", None], [], ["a", "b", "c"], ["c"])

    @pytest.mark.parametrize("encoded", [False, True])
    def test_chunks_with_dictionaries_of_their_own_are_one_column(self, encoded):
        arrays = [pa.array(chunk, pa.string()) for chunk in self.CHUNKS]
        arrays = [array.dictionary_encode() for array in arrays] if encoded else arrays
        table = infer_and_encode({"x": pa.chunked_array(arrays)})
        assert labels_of(table, "x") == ["b", MISSING, "a", "b", "c", "c"]

    @pytest.mark.parametrize(
        ("chunks", "kind"),
        [
            ([[1, None], [2]], VariableKind.INTEGER),
            ([[True], [None, False]], VariableKind.BOOLEAN),
            ([[0.5, NAN], [None, 1.5]], VariableKind.NUMERIC),
        ],
    )
    def test_chunks_of_other_types_are_one_column(self, chunks, kind):
        cells = [cell for chunk in chunks for cell in chunk]
        table = infer_and_encode({"x": pa.chunked_array(chunks)})
        assert table.schema["x"].kind is kind
        assert_same(table, infer_and_encode({"x": cells}))

    def test_values_of_an_extension_type_are_read_one_by_one(self):
        storage = pa.array([uuid.UUID(int=i).bytes for i in (1, 2, 1)], pa.binary(16))
        column = pa.ExtensionArray.from_storage(pa.uuid(), storage)
        levels = infer_and_encode({"x": column}).schema["x"].levels
        assert levels == (str(uuid.UUID(int=1)), str(uuid.UUID(int=2)))


class TestReadColumn:
    def test_categories_are_read_without_private_ways(self, monkeypatch):
        class Public(SimpleNamespace):
            """Categories as of a pandas that keeps its codes elsewhere."""

        values = pd.Categorical(["b", None, "a"])
        monkeypatch.setattr(pd, "Categorical", Public)
        public = Public(codes=values.codes, categories=values.categories)
        assert read_column("x", public) == Factor(b"\1\xff\0", ["a", "b"], CATEGORICAL)

    @given(st.lists(st.sampled_from(["b", "a", "3.0", "é", None]), min_size=1))
    def test_codes_point_to_the_values(self, cells):
        for raw in (cells, np.array(cells, object), pa.array(cells, pa.string())):
            factor = read_column("x", raw)
            codes = np.frombuffer(factor.codes, np.uint8).tolist()
            values = list(factor.values)
            assert [None if code == 255 else values[code] for code in codes] == cells

    def test_numbers_that_were_read_already_pass(self):
        numbers = Numbers(np.array([1, 2]), ends=(1, 2))
        assert read_column("x", numbers) is numbers


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


class TestBadCells:
    @pytest.mark.parametrize(("values", "row"), BAD_COLUMNS)
    def test_bad_cell_is_a_data_error_that_names_column_and_row(self, values, row):
        schema = Schema([Variable("x", CATEGORICAL, ("a",))])
        for call in (infer_and_encode, lambda data: encode(data, schema)):
            with pytest.raises(DataError, match=f"column 'x', row {row}") as caught:
                call({"x": values})
            assert (caught.value.column, caught.value.row) == ("x", row)

    def test_number_with_too_many_digits_to_write_is_a_data_error(self):
        with pytest.raises(DataError, match="column 'x'"):
            infer_and_encode({"x": [10**5000, "a"]})
