from collections import deque

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from driftbn.config import MonitorConfig
from driftbn.errors import DataError
from driftbn.intake import Intake, as_records
from driftbn.records import SchemaEvent, SchemaEventKind
from driftbn.schema import Schema, SchemaConfig, VariableKind
from tests.intake_parts import (
    LENIENT,
    columns,
    feed,
    frame,
    records,
)


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

    @pytest.mark.parametrize(
        "batch",
        [[], (), {}, {"x": []}, pd.DataFrame(), pd.DataFrame({"x": []}), pa.table({"x": []})],
    )
    @pytest.mark.parametrize("variables", [None, Schema([])])
    def test_batch_without_rows_does_nothing(self, batch, variables):
        intake = Intake(MonitorConfig(variables=variables))
        assert intake.take(batch) is None
        assert intake.n_pending == 0

    @pytest.mark.parametrize("batch", [None, 3, "", "text", {"x": 3}, np.zeros((0, 2)), {1, 2}])
    def test_what_is_no_table_is_refused(self, batch):
        with pytest.raises(DataError):
            Intake(MonitorConfig()).take(batch)

    def test_input_is_left_as_it_was(self):
        rows = records(5)
        data = {"t": [1, 2], "x": ["a", "b"]}
        Intake(MonitorConfig(window=3)).take(rows)
        Intake(MonitorConfig(window=1, time_column="t")).take(data)
        assert rows == records(5)
        assert list(data) == ["t", "x"]


class TestChangesOfTheTable:
    @pytest.fixture
    def intake(self):
        intake = Intake(MonitorConfig(window=4))
        intake.take({"x": ["a", "b", "a", "b"], "n": [0.5, 1.5, 2.5, 3.5]})
        return intake

    @pytest.mark.parametrize(
        ("batch", "events", "codes"),
        [
            ({"n": [0.1]}, [("missing_column", "x")], [0, 3]),
            ({"n": [0.1], "x": ["a"], "y": [1]}, [("new_column", "y")], [0, 0]),
            ({"n": [0.1], "x": ["c"]}, [("new_level", "x")], [0, 2]),
            ({"n": [None], "x": [None]}, [], [5, 3]),
            ({"n": ["text"], "x": [3]}, [("new_level", "n"), ("new_level", "x")], [4, 2]),
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
                [5, 3],
            ),
            ([{}], [], [5, 3]),
        ],
    )
    def test_they_are_events(self, intake, batch, events, codes):
        encoded = intake.take(batch)
        assert [(event.kind.value, event.column) for event in encoded.events] == events
        assert encoded.codes[:, 0].tolist() == codes

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
