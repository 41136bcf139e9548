import datetime
import enum
import json
import uuid
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbn.encoding.inference import infer_schema
from driftbn.encoding.tables import Table, read_table
from driftbn.errors import DataError, FormatError
from driftbn.pending import Mark, PendingRows, Refused, read_cells
from driftbn.schema import MissingPolicy, SchemaConfig
from tests.encoded import INF, NAN

KEEP = SchemaConfig(keep_constant=True, keep_duplicates=True)
DAY = datetime.date(2024, 1, 1)


class Colour(str, enum.Enum):  # noqa: UP042 - the kind whose str() is not its value
    RED = "red"


def level() -> PendingRows:
    return PendingRows(MissingPolicy.LEVEL)


def held(rows: PendingRows) -> dict:
    return rows.table().columns


class TestCells:
    @pytest.mark.parametrize(
        ("value", "cell"),
        [
            (True, True),
            (np.True_, True),
            (3, 3),
            (np.int8(3), 3),
            (2**70, 2**70),
            (0.1, 0.1),
            (np.float32(0.5), 0.5),
            (INF, INF),
            (Decimal("0.5"), 0.5),
            (Fraction(1, 2), 0.5),
            ("a", "a"),
            ("3.0", "3.0"),
            (np.str_("a"), "a"),
            (Colour.RED, "red"),
            (b"a\xff", "a\\xff"),
            (uuid.UUID(int=1), str(uuid.UUID(int=1))),
            (None, None),
            (NAN, None),
            (pd.NA, None),
            (pd.NaT, None),
            (np.datetime64("NaT"), None),
            (np.float32("nan"), None),
            (DAY, Mark.TIME),
            (pd.Timestamp(0), Mark.TIME),
            (np.timedelta64(1, "s"), Mark.TIME),
        ],
    )
    def test_cell_is_a_plain_value(self, value, cell):
        (found,) = read_cells("x", [value])
        assert found == cell
        assert type(found) is type(cell)
        (beside_text, _) = read_cells("x", [value, "text"])
        assert beside_text == cell

    @pytest.mark.parametrize("value", [{}, [1], {1}, object(), 1j, (1,), np.zeros(2)])
    def test_what_is_no_value_is_refused_with_the_rule(self, value):
        cells = read_cells("x", ["a", value])
        assert cells[0] == "a"
        assert isinstance(cells[1], Refused)
        assert "must be text, a number, a boolean or missing" in cells[1].problem
        assert cells[1].value is value

    def test_number_that_python_cannot_write_is_refused(self):
        (cell,) = read_cells("x", [10**5000])
        assert isinstance(cell, Refused)
        assert "too many digits" in cell.problem

    @pytest.mark.parametrize(
        ("column", "cells"),
        [
            (np.array([1, 2], np.uint8), [1, 2]),
            (np.array([2**64 - 1, 0], np.uint64), [2**64 - 1, 0]),
            (np.array([0.5, NAN], np.float32), [0.5, None]),
            (np.array([True, False]), [True, False]),
            (np.array(["a", "b"]), ["a", "b"]),
            (np.array(["a", 1, None], object), ["a", 1, None]),
            (np.ma.array([1, 2], mask=[False, True]), [1, None]),
            (np.array(["2024", "NaT"], "M8[Y]"), [Mark.TIME] * 2),
            (pd.array([1, None], dtype="Int64"), [1, None]),
            (pd.array([True, None], dtype="boolean"), [True, None]),
            (pd.array(["a", None], dtype="string"), ["a", None]),
            (pd.Series(["a", 1, 0.5]), ["a", 1, 0.5]),
            (pd.Series([1, 2], index=[5, 6]), [1, 2]),
            (pd.Categorical([1, None, 1]), ["1", None, "1"]),
            (pd.Categorical([f"c{i}" for i in range(300)]), [f"c{i}" for i in range(300)]),
            (pd.date_range("2024", periods=2, tz="UTC"), [Mark.TIME] * 2),
            (pd.period_range("2024-01", periods=2, freq="M"), [Mark.TIME] * 2),
            (pa.array([1, None]), [1, None]),
            (pa.array([0.5, NAN, None]), [0.5, None, None]),
            (pa.array([True, None]), [True, None]),
            (pa.array(["a", None]).dictionary_encode(), ["a", None]),
            (pa.chunked_array([["a"], ["b"]]), ["a", "b"]),
            (pa.array([Decimal("0.5"), None]), [0.5, None]),
            (pa.array([1], pa.timestamp("ns")), [Mark.TIME]),
            (pa.array(["__missing__", "a"]), [None, "a"]),
            (pd.Categorical([True, "__missing__"]), ["true", None]),
            (pa.nulls(2), [None, None]),
            (range(2), [0, 1]),
            (("a", None), ["a", None]),
        ],
    )
    def test_columns_of_every_kind_are_read(self, column, cells):
        found = read_cells("x", column)
        assert found == cells
        assert list(map(type, found)) == list(map(type, cells))

    def test_nested_arrow_cells_are_refused_one_by_one(self):
        cells = read_cells("x", pa.array([None, {"a": 1}]))
        assert cells[0] is None
        assert isinstance(cells[1], Refused)


class TestHolding:
    def test_column_that_comes_late_or_goes_is_missing_elsewhere(self):
        rows = level()
        rows.add(Table(1, {"a": [1]}))
        rows.add(Table(2, {"b": ["x", "y"]}))
        assert held(rows) == {"a": [1, None, None], "b": [None, "x", "y"]}
        assert rows.n_rows == 3

    def test_rows_without_any_column_are_counted(self):
        rows = level()
        rows.add(Table(2, {}))
        rows.add(Table(1, {"a": [1]}))
        assert held(rows) == {"a": [None, None, 1]}

    def test_first_bad_row_is_named_and_nothing_is_added(self):
        rows = level()
        rows.add(Table(1, {"a": [1]}))
        with pytest.raises(DataError, match=r"column 'b', row 1: list is not allowed") as caught:
            rows.add(Table(3, {"a": [1, 2, {}], "b": [0, [5], 0]}))
        assert caught.value.value == [5]
        assert held(rows) == {"a": [1]}

    def test_rows_that_can_be_added_are_known_without_adding_them(self):
        rows = level()
        table = Table(4, {"a": [1, 2, {}, 4], "b": [[], 0, 0, 1]})
        assert rows.readable(table).tolist() == [1, 3]
        assert held(rows) == {}

    def test_table_without_rows_adds_nothing(self):
        rows = level()
        rows.add(Table(0, {"a": []}))
        assert held(rows) == {}

    @pytest.mark.parametrize("n_at_a_time", [1, 7, 40])
    def test_fields_that_hardly_any_row_has_are_forgotten_where_there_are_too_many(
        self, monkeypatch, n_at_a_time
    ):
        rows = level()
        monkeypatch.setattr("driftbn.pending.MAX_COLUMNS", 10)
        records = [{"a": i, f"x{i}": i} for i in range(40)]
        for start in range(0, len(records), n_at_a_time):
            rows.add(read_table(records[start : start + n_at_a_time]))
        columns = rows.table().columns
        assert columns["a"] == list(range(40))
        assert list(columns) == ["a", "x0", "x1", "x2", "x3"]
        assert columns["x2"] == [2 if i == 2 else None for i in range(40)]

    def test_row_with_more_columns_than_may_be_held_is_refused(self, monkeypatch):
        rows = level()
        monkeypatch.setattr("driftbn.pending.MAX_COLUMNS", 10)
        wide = read_table([{"a": 1}, {f"x{i}": i for i in range(11)}])
        with pytest.raises(DataError, match="11 columns; at most 10"):
            rows.add(wide)
        assert rows.readable(wide).tolist() == [0]

    def test_roll_back_brings_forgotten_columns_back(self, monkeypatch):
        rows = level()
        rows.add(read_table([{"a": 1, "b": 2}]))
        place = rows.place()
        monkeypatch.setattr("driftbn.pending.MAX_COLUMNS", 3)
        rows.add(read_table([{"c": 1, "d": 2}, {"c": 3, "d": 4}]))
        assert list(rows.table().columns) == ["a", "c", "d"]
        rows.roll_back(place)
        assert rows.table().columns == {"a": [1], "b": [2]}

    def test_roll_back_forgets_rows_and_columns(self):
        rows = level()
        rows.add(Table(1, {"a": [1]}))
        place, before = rows.place(), rows.to_json()
        rows.add(Table(1, {"b": [DAY]}))
        rows.roll_back(place)
        assert rows.to_json() == before
        rows.add(Table(1, {"b": ["text"]}))
        assert rows.n_rows == 2

    def test_columns_of_times_are_times(self):
        rows = level()
        rows.add(Table(2, {"t": [None, DAY]}))
        schema, codes = infer_schema(rows.table(), KEEP)
        assert [(e.name, e.reason.value, e.detail) for e in schema.excluded] == [
            ("t", "temporal", "holds times")
        ]
        assert codes.shape == (0, 2)


class TestTimesAmongOthers:
    @pytest.mark.parametrize("cut", [True, False])
    def test_a_time_that_came_first_keeps_no_values_out_where_values_win(self, cut):
        rows = PendingRows(MissingPolicy.LEVEL, values_win=True)
        cells = [DAY, "a", None, "b"]
        for part in [[cell] for cell in cells] if cut else [cells]:
            rows.add(Table(len(part), {"x": part}))
        assert rows.readable(Table(2, {"x": [DAY, "c"]})).tolist() == [1]
        assert held(rows)["x"] == [None, "a", None, "b"]
        again = PendingRows.from_json(MissingPolicy.LEVEL, rows.to_json(), values_win=True)
        assert held(again) == held(rows)

    @pytest.mark.parametrize(
        ("first", "second", "problem"),
        [("a", DAY, "a time among other values"), (DAY, "a", "a value among times")],
    )
    @pytest.mark.parametrize("cut", [True, False])
    def test_what_comes_second_is_refused_however_cut(self, first, second, problem, cut):
        rows = level()
        if cut:
            rows.add(Table(1, {"x": [first]}))
        last = [second] if cut else [first, second]
        with pytest.raises(DataError, match=rf"column 'x', row {len(last) - 1}: {problem}"):
            rows.add(Table(len(last), {"x": last}))

    def test_refused_row_does_not_say_what_a_column_holds(self):
        table = Table(3, {"x": [DAY, "a", DAY], "y": [{}, 1, 2]})
        assert level().readable(table).tolist() == [1]


class TestMissingRejected:
    @pytest.mark.parametrize("cell", [None, NAN, "__missing__"])
    def test_missing_value_is_refused_when_it_comes(self, cell):
        rows = PendingRows(MissingPolicy.REJECT)
        with pytest.raises(DataError, match=r"column 'x', row 1: the value is missing"):
            rows.add(Table(2, {"x": ["a", cell]}))
        assert rows.readable(Table(2, {"x": ["a", cell]})).tolist() == [0]

    def test_absent_column_is_refused_and_a_further_one_left_out(self):
        rows = PendingRows(MissingPolicy.REJECT)
        rows.add(Table(1, {"x": [1], "y": [1]}))
        with pytest.raises(DataError, match="column 'y', row 0"):
            rows.add(Table(1, {"x": [1], "z": [1]}))
        rows.add(Table(1, {"x": [1], "y": [2], "z": [1]}))
        assert held(rows) == {"x": [1, 1], "y": [1, 2]}


plain_cells = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**80), 2**80)
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(["__missing__", "__other__", "3.0", "\ud800", Decimal("1.5"), b"x"])
)


class TestJson:
    def test_every_value_is_exact(self):
        cells = [0.1, 1.0, -0.0, 5e-324, INF, -INF, 2**80, True, "é\ud800", None, 1]
        rows = level()
        rows.add(Table(len(cells), {"x": cells, "mark": [DAY] * len(cells)}))
        restored = PendingRows.from_json(MissingPolicy.LEVEL, rows.to_json())
        assert repr(held(restored)["x"]) == repr(cells)
        assert restored.to_json() == rows.to_json()

    def test_text_is_strict_json(self):
        rows = level()
        rows.add(Table(2, {"x": [INF, NAN]}))

        def refuse(constant):
            raise AssertionError(constant)

        json.loads(rows.to_json(), parse_constant=refuse)

    def test_times_are_still_times_and_nothing_else_goes_among_them(self):
        rows = level()
        rows.add(Table(1, {"t": [DAY]}))
        restored = PendingRows.from_json(MissingPolicy.LEVEL, rows.to_json())
        assert infer_schema(restored.table(), KEEP)[0].excluded[0].reason.value == "temporal"
        with pytest.raises(DataError, match="among times"):
            restored.add(Table(1, {"t": [1]}))

    def test_order_of_columns_does_not_matter(self):
        first, second = level(), level()
        first.add(Table(1, {"a": [1], "b": [2]}))
        second.add(Table(1, {"b": [2], "a": [1]}))
        assert first.to_json() == second.to_json()

    @pytest.mark.parametrize(
        "text",
        [
            None,
            "",
            "[]",
            "{}",
            '{"n_rows":1,"names":["a"],"columns":[]}',
            '{"n_rows":2,"names":["a"],"columns":[[1]]}',
            '{"n_rows":1,"names":["a"],"columns":[[[1]]]}',
            '{"n_rows":1,"names":["a"],"columns":[[{"mark":"x"}]]}',
            '{"n_rows":1,"names":[1],"columns":[[1]]}',
            '{"n_rows":-1,"names":[],"columns":[]}',
            '{"n_rows":true,"names":[],"columns":[]}',
        ],
    )
    def test_what_is_no_such_text_is_refused(self, text):
        with pytest.raises(FormatError, match="held"):
            PendingRows.from_json(MissingPolicy.LEVEL, text)

    @given(st.lists(plain_cells, min_size=1, max_size=8))
    def test_whatever_was_accepted_gives_the_same_schema_when_restored(self, cells):
        rows = level()
        rows.add(Table(len(cells), {"x": cells}))
        restored = PendingRows.from_json(MissingPolicy.LEVEL, rows.to_json())
        schema, codes = infer_schema(rows.table(), KEEP)
        again, codes_again = infer_schema(restored.table(), KEEP)
        assert schema == again
        np.testing.assert_array_equal(codes, codes_again)
