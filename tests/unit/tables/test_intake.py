import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from driftbn import DriftMonitor, Schema, datasets
from driftbn.config import MissingPolicy, MonitorConfig, SchemaConfig, WindowConfig
from driftbn.errors import DataError
from tests.encoded import (
    NAN,
    EncodedTable,
    SchemaEvent,
    SchemaEventKind,
    Variable,
    VariableKind,
    as_records,
    encode,
    infer_and_encode,
    infer_schema,
    read_table,
)
from tests.intake_parts import DAY, LENIENT, Intake, feed, records

KEEP = SchemaConfig(keep_constant=True, keep_duplicates=True)


class TestInference:
    def test_schema_comes_from_exactly_the_first_rows(self):
        rows = records(30)
        intake = Intake(MonitorConfig(window=20))
        rows.append({**rows[0], "text": "later"})
        encoded = intake.take(rows)
        expected, _ = infer_schema(read_table(rows[:20]), KEEP, grid=True)
        assert intake.schema.variables == expected.variables
        np.testing.assert_array_equal(encoded.codes, encode(rows, intake.schema).codes)
        assert [event.levels for event in encoded.events] == [("later",)]

    def test_time_windows_wait_for_no_more_than_5000_rows(self):
        for window, n_wanted in [
            (WindowConfig(seconds=60), 5000),
            (WindowConfig(seconds=60, size=100), 100),
        ]:
            intake = Intake(MonitorConfig(window=window, time_column="t"))
            assert intake.take({"t": np.arange(n_wanted - 1), "x": np.arange(n_wanted - 1)}) is None
            assert intake.take({"t": [0], "x": [1]}).codes.shape[1] == n_wanted

    def test_constant_and_duplicate_columns_are_variables(self):
        intake = Intake(MonitorConfig(window=20))
        intake.take({"a": [0, 1] * 10, "b": [0, 1] * 10, "c": ["k"] * 20, "d": [None] * 20})
        assert intake.schema.names == ("a", "b", "c", "d")
        encoded = intake.take({"a": [0], "b": [1], "c": ["new"], "d": ["new"]})
        assert encoded.codes[:, 0].tolist() == [0, 1, 1, 0]


class TestCutting:
    @pytest.mark.parametrize("first", [{"x": {}}, {"z": None, "x": 1}, {"z": {}, "w": 2}])
    def test_first_record_says_which_columns_there_are_where_missing_is_rejected(self, first):
        rows = [first, {"x": 1}, {"x": 2, "y": 1}, {"y": 1}, {"x": None}, {"x": 3, "y": 2}]
        config = MonitorConfig(window=3, schema=SchemaConfig(missing="reject"), on_error=LENIENT)
        whole, single = Intake(config), Intake(config)
        codes = feed(whole, [rows])[0]
        np.testing.assert_array_equal(codes, feed(single, [[row] for row in rows])[0])
        assert whole.schema == single.schema
        assert (whole.schema.names, whole.n_rejected, single.n_rejected) == (("x",), 3, 3)


class TestCodes:
    """Tables that were encoded before they came."""

    SCHEMA = Schema(
        [
            Variable("x", VariableKind.CATEGORICAL, ("a", "b")),
            Variable("y", VariableKind.NUMERIC, edges=(0.5,)),
        ]
    )

    @pytest.fixture
    def intake(self):
        return Intake(MonitorConfig(window=3, variables=self.SCHEMA))

    def test_they_are_taken_as_they_are(self, intake):
        table = encode({"x": ["b", None, "a"], "y": [0.1, 2, None]}, self.SCHEMA)
        encoded = intake.take(table)
        assert encoded.codes is table.codes
        assert (encoded.times, encoded.events) == (None, ())

    @pytest.mark.parametrize(
        ("codes", "problem"),
        [
            (np.array([[0], [4]], np.uint8), "column 'y': code 4 is not allowed"),
            (np.array([[0]], np.uint8), "codes must be uint8"),
            (np.array([0, 0], np.uint8), "codes must be uint8"),
            (np.array([[0], [0]], np.int64), "not int64"),
        ],
    )
    def test_codes_that_the_schema_does_not_have_are_refused(self, intake, codes, problem):
        with pytest.raises(DataError, match=problem):
            intake.take(EncodedTable(self.SCHEMA, codes))

    def test_a_missing_value_is_refused_where_the_settings_say_so(self):
        strict = Schema(self.SCHEMA.variables, missing=MissingPolicy.REJECT)
        intake = Intake(MonitorConfig(variables=strict, schema=SchemaConfig(missing="reject")))
        assert intake.take(EncodedTable(strict, np.array([[1], [1]], np.uint8))) is not None
        with pytest.raises(DataError, match="code 3 is not allowed"):
            intake.take(EncodedTable(strict, np.array([[3], [1]], np.uint8)))

    def test_another_schema_is_refused(self, intake):
        other = Schema([Variable("x", VariableKind.CATEGORICAL, ("a",))])
        with pytest.raises(DataError, match="another schema"):
            intake.take(encode({"x": ["a"]}, other))

    def test_they_are_refused_before_there_is_a_schema(self):
        with pytest.raises(DataError, match="before the schema is known"):
            Intake(MonitorConfig(window=3)).take(encode({"x": ["b"], "y": [0.1]}, self.SCHEMA))

    def test_they_are_refused_where_times_are_needed(self):
        intake = Intake(MonitorConfig(window=3, variables=self.SCHEMA, time_column="t"))
        with pytest.raises(DataError, match="column 't': codes have no event times"):
            intake.take(encode({"x": ["b"], "y": [0.1]}, self.SCHEMA))

    def test_reports_are_those_of_the_table_itself(self):
        table = datasets.sample(datasets.asia(), 3000, 5)
        first = DriftMonitor(window=500)
        expected = first.update(table)
        second = DriftMonitor(window=500)
        found = [*second.update(table.iloc[:700])]
        for start in range(700, 3000, 300):
            codes = encode(table.iloc[start : start + 300], second.schema)
            found += second.update(codes)
        assert [r.to_dict()["decision"] for r in found] == [
            r.to_dict()["decision"] for r in expected
        ]
        assert [r.graph for r in found] == [r.graph for r in expected]
        assert second.snapshot() == first.snapshot()


class TestRefusals:
    def test_times_for_a_variable_are_refused_with_their_row(self):
        intake = Intake(MonitorConfig(window=2))
        intake.take({"x": ["a", "b"]})
        with pytest.raises(DataError, match=r"column 'x', row 1: .*must not hold times") as caught:
            intake.take({"x": [None, DAY]})
        assert caught.value.value == DAY

    def test_missing_value_is_refused_where_the_settings_say_so(self):
        intake = Intake(MonitorConfig(window=3, schema=SchemaConfig(missing="reject")))
        with pytest.raises(DataError, match=r"column 'x', row 1: the value is missing"):
            intake.take([{"x": "a"}, {"x": None}])
        intake.take({"x": ["a", "b", "c"]})
        with pytest.raises(DataError, match=r"column 'x', row 0: the value is missing"):
            intake.take({"x": [None]})
        with pytest.raises(DataError, match=r"column 'x': the column is absent"):
            intake.take({"y": [1]})


class TestRejectedRows:
    def config(self, **settings):
        return MonitorConfig(on_error=LENIENT, **{"window": 4} | settings)

    @pytest.mark.parametrize("n_bad", [1, 3, 8, 9, 50])
    def test_offending_rows_are_left_out_and_counted(self, n_bad):
        intake = Intake(self.config())
        intake.take({"x": ["a", "b", "c", "a"], "y": [1, 2, 3, 4]})
        batch = [{"x": "b", "y": 2} for _ in range(60)]
        for row in range(n_bad):
            batch[row]["x" if row % 2 else "y"] = {}
        batch[-1]["x"] = "c"
        encoded = intake.take(batch)
        assert encoded.codes.tolist() == [[1] * (59 - n_bad) + [2], [1] * (60 - n_bad)]
        assert intake.n_rejected == n_bad

    def test_schema_comes_from_the_first_rows_that_can_be_read(self):
        intake = Intake(self.config())
        encoded = intake.take([{"x": v} for v in ("a", {}, "b", [], "c", "d", "e", {}, "f")])
        assert intake.schema["x"].levels == ("a", "b", "c", "d")
        assert encoded.codes.tolist() == [[0, 1, 2, 3, 4, 4]]
        assert intake.n_rejected == 3

    @pytest.mark.parametrize("bad", [3, None, "text", {"": 1}, {None: 1}, {1: 0, "1": 0}])
    @pytest.mark.parametrize("variables", [None, infer_and_encode({"x": ["a", "b"]}).schema])
    def test_what_is_no_record_is_left_out(self, bad, variables):
        intake = Intake(self.config(variables=variables))
        intake.take([{"x": "a"}, bad, {"x": "b"}])
        assert intake.n_rejected == 1
        assert intake.take([bad]) is None
        assert intake.n_rejected == 2

    def test_all_rows_rejected_is_nothing_taken(self):
        intake = Intake(self.config())
        intake.take({"x": ["a", "b", "c", "a"]})
        assert intake.take({"x": [{}, {}]}) is None
        assert intake.take(pa.table({"x": pa.array([1, 2], pa.date32())})) is None
        assert intake.n_rejected == 4

    def test_times_for_a_variable_are_left_out_and_missing_ones_kept(self):
        intake = Intake(self.config())
        intake.take({"x": ["a", "b", "c", "a"]})
        assert intake.take({"x": [DAY, None, DAY]}).codes.tolist() == [[4]]
        assert intake.n_rejected == 2

    def test_table_rows_are_left_out_with_their_times(self):
        config = self.config(time_column="t", window=2)
        intake = Intake(config)
        data = pd.DataFrame({"t": [1.0, 2.0, NAN, 4.0, 5.0], "x": ["a", [], "b", "b", "a"]})
        encoded = intake.take(data)
        assert encoded.times.tolist() == [1.0, 4.0, 5.0]
        assert encoded.codes.tolist() == [[0, 1, 0]]
        again = intake.take(data)
        assert again.times.tolist() == [1.0, 4.0, 5.0]
        assert again.codes.tolist() == [[0, 1, 0]]
        assert intake.n_rejected == 4

    def test_absent_column_rejects_all_rows_where_missing_is_rejected(self):
        intake = Intake(self.config(schema=SchemaConfig(missing="reject")))
        intake.take({"x": ["a", "b", "c", "a"], "y": [1, 2, 3, 4]})
        assert intake.take({"x": ["a"]}) is None
        assert intake.take({"x": ["a", None], "y": [1, 2]}).codes.shape == (2, 1)
        assert intake.n_rejected == 2


class TestContainers:
    def test_declared_categories_of_numbers_stay_categories(self):
        data = pd.DataFrame({"x": pd.Categorical(np.arange(60) % 20)})
        intake = Intake(MonitorConfig(window=60))
        intake.take(data)
        assert intake.schema["x"].kind is VariableKind.CATEGORICAL
        assert len(intake.schema["x"].levels) == 20


class TestTablesOfRecords:
    """Arrow tables in which it does not matter which records came together."""

    def table(self, rows: list[dict]) -> pa.Table:
        names = dict.fromkeys(name for row in rows for name in row)
        return as_records(pa.table({name: [row.get(name) for row in rows] for name in names}))

    @pytest.fixture
    def intake(self):
        intake = Intake(MonitorConfig(window=4, on_error=LENIENT))
        intake.take(self.table([{"x": text, "n": 1} for text in "abab"]))
        return intake

    def test_an_absent_field_is_a_missing_value_and_no_event(self, intake):
        for batch in (self.table([{"x": "a"}]), [{"x": "a"}], self.table([{"x": "a", "n": None}])):
            encoded = intake.take(batch)
            assert encoded.codes.tolist() == [[2], [0]]
            assert encoded.events == ()

    def test_a_new_field_is_an_event_of_the_rows_that_have_it(self, intake):
        rows = [{"x": "a"}, {"x": "a", "new": 1}, {"x": "b", "new": None}, {"x": "a", "new": 2}]
        expected = (SchemaEvent(SchemaEventKind.NEW_COLUMN, "new", n_rows=2),)
        for batch in (self.table(rows), rows):
            encoded = intake.take(batch)
            assert encoded.events == expected
            assert [len(encoded.events_between(i, i + 1)) for i in range(4)] == [0, 1, 0, 1]

    def test_a_field_without_a_value_is_no_column(self):
        intake = Intake(MonitorConfig(window=4))
        rows = [{"x": text, "never": None, "late": None} for text in "aba"]
        intake.take(self.table(rows))
        intake.take(self.table([{"x": "b", "never": None, "late": 3}]))
        assert intake.schema.names == ("late", "x")

    def test_records_without_fields_are_missing_throughout(self, intake):
        table = self.table([{"key": 1}, {"key": 2}]).drop_columns(["key"])
        assert intake.take(table).codes.tolist() == [[2, 2], [3, 3]]
        fresh = Intake(MonitorConfig(window=3))
        fresh.take(table)
        fresh.take(self.table([{"x": "a"}]))
        assert fresh.schema.names == ("x",)

    def test_rows_without_a_time_are_left_out(self):
        intake = Intake(MonitorConfig(window=2, time_column="t", on_error=LENIENT))
        intake.take(self.table([{"x": "a"}, {"x": "b", "t": None}]))
        intake.take(self.table([{"x": "a", "t": 1}, {"x": "b"}, {"x": "b", "t": 2}]))
        assert (intake.n_rejected, intake.schema.names) == (3, ("x",))

    def test_the_mark_stays_when_a_table_is_cut(self):
        table = self.table([{"x": "a", "y": 1}, {"x": "b"}])
        for part in (table.slice(1), table.take([1]), table.filter(pa.array([False, True]))):
            intake = Intake(MonitorConfig(window=1))
            intake.take(part)
            assert intake.schema.names == ("x",)
