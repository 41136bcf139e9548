import datetime
import uuid
from collections import UserDict
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from driftbn import DriftMonitor, Schema, datasets, learn_structure
from driftbn.errors import DataError
from tests.encoded import (
    KEEP_IDS,
    MISSING,
    NAN,
    Variable,
    VariableKind,
    assert_same,
    encode,
    infer_and_encode,
    labels_of,
    read_table,
    reasons,
)


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


class OldFrame(pd.DataFrame):
    """A frame as of a pandas that has no fast way to its arrays."""

    _iter_column_arrays = None


class TestFrames:
    @pytest.mark.parametrize("dtype", ["category", "str", object, "string[pyarrow]"])
    def test_frame_without_the_fast_way_gives_the_same(self, dtype):
        frame = pd.DataFrame({"a": list("xyzx"), "b": ["3", None, "3.0", "q"]}, dtype=dtype)
        expected = infer_and_encode(frame)
        assert_same(infer_and_encode(OldFrame(frame)), expected)
        assert_same(encode(OldFrame(frame), expected.schema), expected)

    def test_pandas_still_has_the_private_way_that_is_thirty_times_faster(self):
        frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"], "c": pd.Categorical(["p", "q"])})
        arrays = list(frame._iter_column_arrays())
        assert [list(array) for array in arrays] == [[1, 2], ["x", "y"], ["p", "q"]]


class TestArrays:
    @pytest.mark.parametrize("n_rows", [1, 7, 8, 9, 64, 71])
    @pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u4", "i8", ">i4", "f4", "f8", "?"])
    def test_array_is_turned_over_whatever_its_type(self, dtype, n_rows):
        values = (np.arange(n_rows * 5).reshape(n_rows, 5) % 7).astype(dtype)
        table = read_table(values, list("abcde"))
        found = [table.array(name).to_pylist() for name in table.columns]
        assert found == values.T.tolist()

    @pytest.mark.parametrize(
        "values",
        [
            np.asfortranarray(np.arange(40).reshape(10, 4) % 3),
            (np.arange(160).reshape(20, 8) % 3)[::2, ::2],
            (np.arange(40).reshape(10, 4) % 3)[::-1],
        ],
    )
    def test_layout_in_memory_does_not_matter(self, values):
        expected = infer_and_encode(values.copy(order="C"), names=list("abcd"))
        assert_same(infer_and_encode(values, names=list("abcd")), expected)


class TestArrowTables:
    TABLE = pa.table(
        {
            "d": pa.array(["x", "y", None, "x", "z", "y"]).dictionary_encode(),
            "i": pa.array([1, 2, None, 1, 1, 2]),
        }
    )

    def test_slice_is_read_from_its_start(self):
        table = infer_and_encode(self.TABLE.slice(3, 3))
        assert labels_of(table, "d") == ["x", "z", "y"]
        assert labels_of(table, "i") == ["1", "1", "2"]


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


class TestBadInput:
    @pytest.mark.parametrize(("data", "names", "message"), BAD_TABLES)
    def test_bad_table_is_a_data_error_that_says_why(self, data, names, message):
        with pytest.raises(DataError, match=message):
            infer_and_encode(data, names=names)
        with pytest.raises(DataError, match=message):
            encode(data, Schema([]), names=names)


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
    @pytest.mark.slow
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

    def test_large_dictionary_of_which_nothing_occurs_is_missing(self):
        values = pa.array([f"v{i}" for i in range(300)])
        column = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int32()), values)
        assert reasons(infer_and_encode({"x": column})) == {"x": "all_missing"}
        schema = Schema([Variable("x", CATEGORICAL, ("a",))])
        assert labels_of(encode({"x": column}, schema), "x") == [MISSING] * 2


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


class Streamed:
    """A table of another library, of which only the Arrow interface is known."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


class TestOtherLibraries:
    DATA = pa.table(TestSources.COLUMNS)

    def others(self):
        yield Streamed(self.DATA)
        yield pa.RecordBatchReader.from_batches(self.DATA.schema, self.DATA.to_batches())
        yield pl.DataFrame(TestSources.COLUMNS, strict=False)
        yield pl.DataFrame(TestSources.COLUMNS, strict=False).with_columns(
            pl.col("t").cast(pl.Categorical)
        )
        yield {name: pl.Series(column) for name, column in TestSources.COLUMNS.items()}

    def test_tables_with_the_arrow_interface_are_taken(self):
        for data in self.others():
            assert_same(infer_and_encode(data), TestSources.EXPECTED)

    def test_a_monitor_and_a_learner_take_them(self):
        frame = datasets.sample(datasets.asia(), 600, 1)
        table = pa.Table.from_pandas(frame, preserve_index=False)
        expected = DriftMonitor(window=300)
        expected.update(frame)
        for data in (pl.DataFrame(table), Streamed(table)):
            monitor = DriftMonitor(window=300)
            assert len(monitor.update(data)) == 2
            assert monitor.snapshot() == expected.snapshot()
            assert learn_structure(data).graph == learn_structure(frame).graph

    def test_a_single_column_is_no_table(self):
        with pytest.raises(DataError, match="Series is no table"):
            infer_and_encode(pl.Series([1, 2]))


BAD_COLUMNS = [
    ([[1], [2]], 0),
    ([None, [1]], 1),
    ([1, [2]], 1),
    (["a", {}], 1),
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
    (pa.array([{}]), 0),
]


NESTED = [{"a": 1, "b": {"c": "x", "d": {"e": True}}}, {"a": {"f": 2}, "b": {"c": "y"}}, {}]
FLAT = {"a": [1, None, None], "a.f": [None, 2, None], "b.c": ["x", "y", None]}


class TestObjects:
    def test_objects_become_fields_with_dotted_names(self):
        columns = {"a": [1, {"f": 2}, None], "b": [one.get("b") for one in NESTED]}
        for data in (NESTED, columns, pd.DataFrame(columns)):
            found = read_table(data)
            assert {k: v.to_pylist() for k, v in found.columns.items() if k in FLAT} == FLAT
            assert found.columns["b.d.e"].to_pylist() == [True, None, None]

    def test_objects_of_arrow_do_too(self):
        table = pa.table({"b": [one.get("b") for one in NESTED], "a": [1, 2, 3]})
        assert list(read_table(table).columns) == ["b.c", "b.d.e", "a"]
        assert read_table(table).columns["b.c"].to_pylist() == FLAT["b.c"]

    def test_objects_too_deep_are_no_value(self):
        deep = [{"b": 1}, {"b": {"c": {"d": {"e": 1}}}}]
        with pytest.raises(DataError, match=r"column 'x\.b\.c\.d', row 1"):
            infer_and_encode({"x": deep})

    def test_two_fields_of_one_name_are_no_value(self):
        found = read_table([{"a.b": 1, "a": {"b": 2}}, {"a": {"b": 3}}])
        assert found.columns["a.b"].to_pylist() == [1, 3]
        assert list(found.unread["a"]) == [0]
        with pytest.raises(DataError, match="taken twice"):
            read_table(pa.table({"a.b": [1], "a": [{"b": 2}]}))


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
