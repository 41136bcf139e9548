import json
from collections import deque

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbn import DriftMonitor, datasets
from driftbn.config import MissingPolicy, MonitorConfig, SchemaConfig, WindowConfig
from driftbn.errors import DataError, FormatError
from driftbn.tables.encode import EncodedTable, SchemaEvent, SchemaEventKind, encode
from driftbn.tables.infer import infer_and_encode, infer_schema
from driftbn.tables.intake import Intake
from driftbn.tables.read import as_records, read_table
from driftbn.tables.schema import Schema, Variable, VariableKind
from tests.encoded import NAN
from tests.intake_parts import DAY, LENIENT, columns, feed, frame, records, same_state

KEEP = SchemaConfig(keep_constant=True, keep_duplicates=True)


class TestInference:
    def test_rows_are_held_until_the_window_is_full(self):
        intake = Intake(MonitorConfig(window=30))
        assert intake.take(records(29)) is None
        assert (intake.schema, intake.n_pending) == (None, 29)
        encoded = intake.take(records(1))
        assert encoded.codes.shape[1] == 30
        assert intake.n_pending == 0

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

    @pytest.mark.parametrize("kind", ["float64", "int64", "bool", "category"])
    def test_rows_that_wait_do_not_change_with_memory_of_the_caller(self, kind):
        given = pd.DataFrame({"x": pd.Series([0, 1] * 10, dtype="int64").astype(kind)})
        kept, intake = given.copy(), Intake(MonitorConfig(window=21))
        assert intake.take(given) is None
        given["x"].array[:] = given["x"].array[1]
        encoded = intake.take(kept[:1])
        expected = infer_and_encode(pd.concat([kept, kept[:1]]), KEEP)
        np.testing.assert_array_equal(encoded.codes, expected.codes)

    def test_constant_and_duplicate_columns_are_variables(self):
        intake = Intake(MonitorConfig(window=20))
        intake.take({"a": [0, 1] * 10, "b": [0, 1] * 10, "c": ["k"] * 20, "d": [None] * 20})
        assert intake.schema.names == ("a", "b", "c", "d")
        encoded = intake.take({"a": [0], "b": [1], "c": ["new"], "d": ["new"]})
        assert encoded.codes[:, 0].tolist() == [0, 1, 1, 0]

    def test_finish_infers_from_what_is_held(self):
        intake = Intake(MonitorConfig(window=1000))
        intake.take(records(40))
        encoded = intake.finish()
        assert encoded.codes.shape == (8, 40)
        assert intake.schema is not None
        assert intake.n_pending == 0
        assert intake.finish() is None


def cut(rows: list, sizes: list[int]) -> list[list]:
    ends = np.cumsum([0, *sizes]).tolist()
    return [rows[a:b] for a, b in zip(ends, [*ends[1:], len(rows)], strict=True)]


class TestCutting:
    @pytest.mark.slow
    @settings(max_examples=40)
    @given(st.lists(st.integers(0, 17), max_size=12), st.integers(1, 60), st.booleans())
    def test_schema_and_codes_do_not_depend_on_the_batches(self, sizes, window, lenient):
        rows = [*records(25), {"late": 3}, {}, *records(15, seed=1)]
        if lenient:
            for position, bad in [(3, {"text": {}}), (11, {"day": "text"}), (30, {"whole": []})]:
                rows.insert(position, {**rows[0], **bad})
        config = MonitorConfig(window=window, on_error=LENIENT if lenient else "reject_batch")
        whole, parts = Intake(config), Intake(config)
        codes, _ = feed(whole, [rows])
        codes_of_parts, _ = feed(parts, cut(rows, sizes))
        assert whole.schema.to_dict() == parts.schema.to_dict()
        np.testing.assert_array_equal(codes, codes_of_parts)
        assert whole.n_rejected == parts.n_rejected

    def test_whole_numbers_of_any_size_and_floats_may_come_apart(self):
        first, second = (Intake(MonitorConfig(window=4)) for _ in range(2))
        whole = feed(first, [{"x": [2**70, 0.5, 3, 0.25]}])[0]
        np.testing.assert_array_equal(
            whole, feed(second, [{"x": [v]} for v in (2**70, 0.5, 3, 0.25)])[0]
        )
        assert first.schema["x"].kind is VariableKind.NUMERIC

    @pytest.mark.parametrize("first", [{"x": {}}, {"z": None, "x": 1}, {"z": {}, "w": 2}])
    def test_first_record_says_which_columns_there_are_where_missing_is_rejected(self, first):
        rows = [first, {"x": 1}, {"x": 2, "y": 1}, {"y": 1}, {"x": None}, {"x": 3, "y": 2}]
        config = MonitorConfig(window=3, schema=SchemaConfig(missing="reject"), on_error=LENIENT)
        whole, single = Intake(config), Intake(config)
        codes = feed(whole, [rows])[0]
        np.testing.assert_array_equal(codes, feed(single, [[row] for row in rows])[0])
        assert whole.schema == single.schema
        assert (whole.schema.names, whole.n_rejected, single.n_rejected) == (("x",), 3, 3)


class TestState:
    def test_state_is_plain_values_and_arrays(self):
        intake = Intake(MonitorConfig(window=50, on_error=LENIENT))
        intake.take([*records(5), {"text": {}}])
        state = intake.state()
        times = state.pop("times")
        assert times.dtype == np.float64
        restored = Intake.from_state(
            intake.config, json.loads(json.dumps(state)) | {"times": times}
        )
        assert same_state(restored.state(), intake.state())
        assert (restored.n_rejected, restored.n_pending) == (1, 5)

    def test_state_does_not_depend_on_the_kind_of_table(self):
        rows = records(10)
        states = []
        for batch in (rows, columns(rows), frame(rows)):
            intake = Intake(MonitorConfig())
            intake.take(batch)
            states.append(intake.state()["pending"])
        assert states[0] == states[1] == states[2]

    def test_declared_variables_are_restored(self):
        schema = infer_and_encode({"x": ["a", "b"]}).schema
        config = MonitorConfig(variables=schema)
        assert Intake.from_state(config, Intake(config).state()).schema == schema

    @pytest.mark.parametrize(
        "change",
        [
            {"version": 1},
            {"n_rejected": -1},
            {"n_rejected": True},
            {"times": None},
            {"times": np.zeros(3)},
            {"times": np.zeros(5, np.float32)},
            {"pending": "x"},
            {"schema": {}},
            {"schema": Schema([]).to_dict()},
        ],
    )
    def test_what_is_no_state_is_refused(self, change):
        intake = Intake(MonitorConfig(window=10, time_column="t"))
        intake.take({"t": range(5), "x": range(5)})
        with pytest.raises(FormatError):
            Intake.from_state(intake.config, intake.state() | change)

    def test_state_of_other_settings_is_refused(self):
        intake = Intake(MonitorConfig(window=10))
        intake.take({"x": range(5)})
        with pytest.raises(FormatError, match="5 rows"):
            Intake.from_state(MonitorConfig(window=5), intake.state())
        with pytest.raises(FormatError, match="another schema"):
            Intake.from_state(MonitorConfig(variables=Schema([])), intake.state())


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

    def test_an_equal_schema_is_as_good(self, intake):
        again = Schema.from_dict(self.SCHEMA.to_dict())
        table = encode({"x": ["b"], "y": [0.1]}, again)
        assert intake.take(table).codes.tolist() == [[1], [0]]

    def test_none_is_none(self, intake):
        assert intake.take(EncodedTable(self.SCHEMA, np.zeros((2, 0), np.uint8))) is None

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

    def test_events_are_refused(self, intake):
        table = encode({"x": ["new"], "y": [1]}, self.SCHEMA)
        with pytest.raises(DataError, match="events"):
            intake.take(table)

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

    def test_nothing_is_taken_in_with_an_error(self, intake):
        before = intake.state()
        with pytest.raises(DataError):
            intake.take(EncodedTable(self.SCHEMA, np.full((2, 1), 9, np.uint8)))
        assert same_state(intake.state(), before)


class TestRefusals:
    def test_batch_that_fails_after_the_first_window_leaves_all_as_it_was(self):
        intake = Intake(MonitorConfig(window=20, time_column="t"))
        intake.take([{**row, "t": i} for i, row in enumerate(records(10))])
        before = intake.state()
        batch = [{**row, "t": i, "extra": 1} for i, row in enumerate(records(20, seed=2))]
        batch[15]["text"] = [1]
        with pytest.raises(DataError, match=r"column 'text', row 15"):
            intake.take(batch)
        assert same_state(intake.state(), before)
        assert intake.schema is None
        batch[15]["text"] = "a"
        encoded = intake.take(batch)
        assert encoded.codes.shape[1] == len(encoded.times) == 30

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

    def test_nested_arrow_rows_are_left_out(self):
        intake = Intake(self.config())
        table = pa.table({"x": pa.array([None, {"a": 1}]), "y": ["k", "l"]})
        intake.take(table)
        assert (intake.n_pending, intake.n_rejected) == (1, 1)

    def test_absent_column_rejects_all_rows_where_missing_is_rejected(self):
        intake = Intake(self.config(schema=SchemaConfig(missing="reject")))
        intake.take({"x": ["a", "b", "c", "a"], "y": [1, 2, 3, 4]})
        assert intake.take({"x": ["a"]}) is None
        assert intake.take({"x": ["a", None], "y": [1, 2]}).codes.shape == (2, 1)
        assert intake.n_rejected == 2

    def test_what_is_no_table_is_still_refused(self):
        with pytest.raises(DataError, match="no table"):
            Intake(self.config()).take(3)


class TestContainers:
    def test_same_content_gives_the_same_codes(self):
        rows = records(60)
        arrow_rows = pa.table(
            {n: pa.array(c) for n, c in columns(rows).items() if n != "mixed"}
            | {"mixed": [str(v).lower() for v in columns(rows)["mixed"]]}
        )
        batches = [
            rows,
            tuple(rows),
            columns(rows),
            {name: deque(column) for name, column in columns(rows).items()},
            {name: pd.Series(column, index=range(9, 69)) for name, column in columns(rows).items()},
            frame(rows),
            pd.DataFrame(rows),
            frame(rows).convert_dtypes(),
            frame(rows).astype({"text": "category", "copy": "category", "flag": "boolean"}),
            frame(rows).astype({"text": "string", "whole": "Int64", "number": "Float64"}),
            arrow_rows,
            arrow_rows.combine_chunks().to_batches()[0],
        ]
        intakes = [Intake(MonitorConfig(window=40)) for _ in batches]
        codes = [feed(intake, [batch])[0] for intake, batch in zip(intakes, batches, strict=True)]
        for intake, found in zip(intakes, codes, strict=True):
            assert intake.schema == intakes[0].schema
            np.testing.assert_array_equal(found, codes[0])

    def test_declared_categories_of_numbers_stay_categories(self):
        data = pd.DataFrame({"x": pd.Categorical(np.arange(60) % 20)})
        intake = Intake(MonitorConfig(window=60))
        intake.take(data)
        assert intake.schema["x"].kind is VariableKind.CATEGORICAL
        assert len(intake.schema["x"].levels) == 20


KNOWN = {"a", "b", "other", "missing"}


class TestChangesOfTheTable:
    @pytest.fixture
    def intake(self):
        intake = Intake(MonitorConfig(window=4))
        intake.take({"x": ["a", "b", "a", "b"], "n": [0.5, 1.5, 2.5, 3.5]})
        return intake

    @pytest.mark.parametrize(
        ("batch", "events", "labels"),
        [
            ({"n": [0.1]}, [("missing_column", "x")], ["number", "missing"]),
            ({"n": [0.1], "x": ["a"], "y": [1]}, [("new_column", "y")], ["number", "a"]),
            ({"n": [0.1], "x": ["c"]}, [("new_level", "x")], ["number", "other"]),
            ({"n": [None], "x": [None]}, [], ["missing", "missing"]),
            (
                {"n": ["text"], "x": [3]},
                [("new_level", "n"), ("new_level", "x")],
                ["other", "other"],
            ),
            (
                {"y": [{}]},
                [
                    (k, c)
                    for k, c in (
                        ("missing_column", "n"),
                        ("missing_column", "x"),
                        ("new_column", "y"),
                    )
                ],
                ["missing", "missing"],
            ),
            ([{}], [], ["missing", "missing"]),
        ],
    )
    def test_they_are_events(self, intake, batch, events, labels):
        encoded = intake.take(batch)
        assert [(event.kind.value, event.column) for event in encoded.events] == events
        row = zip(intake.schema.variables, encoded.codes[:, 0].tolist(), strict=True)
        found = [variable.labels[code].strip("_") for variable, code in row]
        assert [text if text in KNOWN else "number" for text in found] == labels

    def test_records_without_fields_are_missing_throughout(self):
        intake = Intake(MonitorConfig(window=2))
        assert intake.take([{}, {}]).codes.shape == (0, 2)
        assert intake.take([{}]).codes.shape == (0, 1)
        encoded = intake.take([{"x": 1}])
        assert encoded.events[0].kind is SchemaEventKind.NEW_COLUMN


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

    def test_the_first_record_says_which_columns_there_are_where_missing_values_are_rejected(self):
        rows = [{"x": "a"}, {"x": "b", "y": 1}, {"x": "a"}, {"y": 2}]
        for batch in (rows, self.table(rows)):
            config = MonitorConfig(
                window=3, schema=SchemaConfig(missing="reject"), on_error=LENIENT
            )
            intake = Intake(config)
            assert intake.take(batch).codes.tolist() == [[0, 1, 0]]
            assert (intake.schema.names, intake.n_rejected) == (("x",), 1)

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
