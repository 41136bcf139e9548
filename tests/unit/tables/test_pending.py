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
from hypothesis import example, given, settings
from hypothesis import strategies as st

from driftbn import DriftMonitor, MonitorConfig
from driftbn.config import MissingPolicy, SchemaConfig
from driftbn.errors import DataError, FormatError
from driftbn.tables import intake
from driftbn.tables.cells import cells_of
from driftbn.tables.infer import infer_schema
from driftbn.tables.intake import PendingRows
from driftbn.tables.read import read_batch, read_table
from tests.encoded import INF, NAN

KEEP = SchemaConfig(keep_constant=True, keep_duplicates=True)
DAY = datetime.date(2024, 1, 1)
TIME = (19723 * 86400.0,)


class Colour(str, enum.Enum):  # noqa: UP042 - the kind whose str() is not its value
    RED = "red"


def level(**settings) -> PendingRows:
    return PendingRows(MissingPolicy.LEVEL, **settings)


def add(rows: PendingRows, data) -> PendingRows:
    """Hold rows as an intake does: all of them, or none and the first problem."""
    table = read_batch(data, exact=True).of_arrays()
    problems = rows.problems(table)
    if problems:
        raise problems[min(problems)]
    return rows.add(table)


def held(rows: PendingRows) -> dict:
    return {name: cells_of(array) for name, array in rows.table().columns.items()}


def refused(rows: PendingRows, data) -> list[int]:
    return sorted(rows.problems(read_batch(data, exact=True).of_arrays()))


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
            (DAY, TIME),
            (pd.Timestamp("2024"), TIME),
        ],
    )
    def test_a_cell_is_the_same_alone_and_among_others(self, value, cell):
        beside = read_table({"x": [value, "text", True]}).columns["x"]
        found = cells_of(beside)[0]
        assert (found, type(found)) == (cell, type(cell))
        if cell != TIME:
            alone = held(add(level(), {"x": [value]}))["x"]
            assert (alone, type(alone[0])) == ([cell], type(cell))

    @pytest.mark.parametrize("value", [{}, [1], {1}, object(), 1j, (1,), np.zeros(2)])
    def test_what_is_no_value_is_refused_with_the_rule(self, value):
        rule = r"row 1: .*must be text, a number, a boolean or missing"
        with pytest.raises(DataError, match=rule) as caught:
            add(level(), {"x": ["a", value]})
        assert caught.value.value is value

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
            (pd.array([1, None], dtype="Int64"), [1, None]),
            (pd.array([True, None], dtype="boolean"), [True, None]),
            (pd.array(["a", None], dtype="string"), ["a", None]),
            (pd.Series(["a", 1, 0.5]), ["a", 1.0, 0.5]),
            (pd.Categorical([1, None, 1]), ["1", None, "1"]),
            (pd.Categorical([f"c{i}" for i in range(300)]), [f"c{i}" for i in range(300)]),
            (pa.array([0.5, NAN, None]), [0.5, None, None]),
            (pa.array(["a", None]).dictionary_encode(), ["a", None]),
            (pa.chunked_array([["a"], ["b"]]), ["a", "b"]),
            (pa.array([Decimal("0.5"), None]), [0.5, None]),
            (pd.Categorical([True, "q"]), ["true", "q"]),
            (pa.nulls(2), [None, None]),
            (range(2), [0, 1]),
            (("a", None), ["a", None]),
        ],
    )
    def test_columns_of_every_kind_are_held(self, column, cells):
        found = held(add(level(), {"x": column}))["x"]
        assert found == cells
        assert list(map(type, found)) == list(map(type, cells))

    @pytest.mark.parametrize(
        "column",
        [
            np.array(["2024", "NaT"], "M8[Y]"),
            np.array([1, 2], "m8[s]"),
            pd.date_range("2024", periods=2, tz="UTC"),
            pd.period_range("2024-01", periods=2, freq="M"),
            pd.Series([pd.NaT, pd.NaT]),
            pa.array([1, None], pa.timestamp("ns")),
            [None, DAY],
            [DAY, pd.Timestamp(0)],
        ],
    )
    def test_a_column_of_times_is_no_variable(self, column):
        rows = add(level(), {"t": column})
        for again in (rows, level().from_json(rows.to_json())):
            schema, codes = infer_schema(again.table(), KEEP)
            (excluded,) = schema.excluded
            assert (excluded.reason.value, excluded.detail) == ("temporal", "holds times")
            assert codes.shape == (0, 2)


class TestHolding:
    def test_rows_without_any_column_are_counted(self):
        assert held(add(add(level(), [{}, {}]), {"a": [1]})) == {"a": [None, None, 1]}

    @pytest.mark.parametrize("n_at_a_time", [1, 7, 40])
    def test_fields_that_hardly_any_row_has_are_forgotten_where_there_are_too_many(
        self, monkeypatch, n_at_a_time
    ):
        rows = level()
        monkeypatch.setattr(intake, "MAX_COLUMNS", 10)
        records = [{"a": i, f"x{i}": i} for i in range(40)]
        for start in range(0, len(records), n_at_a_time):
            rows = add(rows, records[start : start + n_at_a_time])
        columns = held(rows)
        assert columns["a"] == list(range(40))
        assert list(columns) == ["a", "x0", "x1", "x2", "x3"]
        assert columns["x2"] == [2 if i == 2 else None for i in range(40)]

    def test_a_field_that_was_forgotten_starts_anew(self, monkeypatch):
        monkeypatch.setattr(intake, "MAX_COLUMNS", 2)
        rows = level()
        for name in ("a", "a", "b", "c", "b"):
            rows = add(rows, [{name: DAY if rows.n_rows < 3 else 1}])
        assert list(held(rows)) == ["a", "b"]
        assert held(rows)["b"] == [None] * 4 + [1]

    def test_row_with_more_columns_than_may_be_held_is_refused(self, monkeypatch):
        monkeypatch.setattr(intake, "MAX_COLUMNS", 10)
        wide = [{"a": 1}, {f"x{i}": i for i in range(11)}]
        with pytest.raises(DataError, match="11 columns; at most 10"):
            add(level(), wide)
        assert refused(level(), wide) == [1]


class TestTimesAmongOthers:
    @pytest.mark.parametrize("cut", [True, False])
    def test_a_time_that_came_first_keeps_no_values_out_where_values_win(self, cut):
        rows = level(values_win=True)
        cells = [DAY, "a", None, "b"]
        for part in [[cell] for cell in cells] if cut else [cells]:
            rows = add(rows, {"x": part})
        assert refused(rows, {"x": [DAY, "c"]}) == [0]
        assert held(rows)["x"] == [None, "a", None, "b"]
        assert held(level(values_win=True).from_json(rows.to_json())) == held(rows)

    @pytest.mark.parametrize(
        ("first", "second", "problem"),
        [("a", DAY, "a time among other values"), (DAY, "a", "a value among times")],
    )
    @pytest.mark.parametrize("cut", [True, False])
    def test_what_comes_second_is_refused_however_cut(self, first, second, problem, cut):
        rows = add(level(), {"x": [first]}) if cut else level()
        last = [second] if cut else [first, second]
        with pytest.raises(DataError, match=rf"column 'x', row {len(last) - 1}: {problem}"):
            add(rows, {"x": last})

    def test_refused_row_does_not_say_what_a_column_holds(self):
        assert refused(level(), {"x": [DAY, "a", DAY], "y": [{}, 1, 2]}) == [0, 2]


class TestMissingRejected:
    @pytest.mark.parametrize("cell", [None, NAN, "__missing__"])
    def test_missing_value_is_refused_when_it_comes(self, cell):
        rows = PendingRows(MissingPolicy.REJECT)
        with pytest.raises(DataError, match=r"column 'x', row 1: the value is missing"):
            add(rows, {"x": ["a", cell]})
        assert refused(rows, {"x": ["a", cell]}) == [1]

    def test_absent_column_is_refused_and_a_further_one_left_out(self):
        rows = add(PendingRows(MissingPolicy.REJECT), {"x": [1], "y": [1]})
        with pytest.raises(DataError, match="column 'y', row 0"):
            add(rows, {"x": [1], "z": [1]})
        assert held(add(rows, {"x": [1], "y": [2], "z": [1]})) == {"x": [1, 1], "y": [1, 2]}


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
        cells = [0.1, 1.0, 5e-324, INF, -INF, 2**80, True, "é\ud800", None, 1, 2**60 + 1]
        rows = add(level(), {"x": cells, "mark": [DAY] * len(cells)})
        restored = level().from_json(rows.to_json())
        assert held(restored)["x"] == cells
        assert restored.to_json() == rows.to_json()

    def test_text_is_strict_json(self):
        def refuse(constant):
            raise AssertionError(constant)

        json.loads(add(level(), {"x": [INF, NAN]}).to_json(), parse_constant=refuse)

    def test_order_of_columns_does_not_matter(self):
        first, second = add(level(), {"a": [1], "b": [2]}), add(level(), {"b": [2], "a": [1]})
        assert first.to_json() == second.to_json()

    @pytest.mark.parametrize(
        "text",
        [
            None,
            "",
            "[]",
            "{}",
            '{"n_rows":1,"names":["a"],"columns":[],"times":[]}',
            '{"n_rows":2,"names":["a"],"columns":[[1]],"times":[]}',
            '{"n_rows":1,"names":["a"],"columns":[[[1]]],"times":[]}',
            '{"n_rows":1,"names":["a"],"columns":[[{"mark":"x"}]],"times":[]}',
            '{"n_rows":1,"names":[1],"columns":[[1]],"times":[]}',
            '{"n_rows":1,"names":["a"],"columns":[[1]],"times":["b"]}',
            '{"n_rows":-1,"names":[],"columns":[],"times":[]}',
            '{"n_rows":true,"names":[],"columns":[],"times":[]}',
        ],
    )
    def test_what_is_no_such_text_is_refused(self, text):
        with pytest.raises(FormatError, match="held"):
            level().from_json(text)

    @pytest.mark.slow
    @given(st.lists(plain_cells, min_size=1, max_size=8), st.integers(0, 8))
    @settings(max_examples=300)
    @example([None, "0.0", b"x"], 2)
    def test_neither_a_cut_nor_a_restart_changes_what_is_inferred(self, cells, cut):
        whole = add(level(), {"x": cells})
        parts = add(level(), {"x": cells[:cut]}) if cells[:cut] else level()
        parts = level().from_json(parts.to_json())
        parts = add(parts, {"x": cells[cut:]}) if cells[cut:] else parts
        assert whole.to_json() == parts.to_json()
        schema, codes = infer_schema(whole.table(), KEEP)
        again, codes_again = infer_schema(parts.table(), KEEP)
        assert schema == again
        np.testing.assert_array_equal(codes, codes_again)


records = st.lists(st.dictionaries(st.sampled_from("abc"), plain_cells | st.just({}), max_size=3))


class TestSnapshots:
    @pytest.mark.slow
    @given(records, st.integers(1, 9), st.integers(1, 5))
    @settings(max_examples=60, deadline=None)
    @example([{}, {"a": None}, {}, {"a": 0.0}, {"a": 2**53 + 1}], 2, 3)
    @example([{"a": None, "b": {}}, {"a": None, "b": -0.0}], 2, 1)
    def test_snapshots_do_not_depend_on_how_the_stream_is_cut(self, rows, window, size):
        config = MonitorConfig(window=window, on_error="reject_rows")
        whole, parts = DriftMonitor(config), DriftMonitor(config)
        whole.update(rows)
        for start in range(0, len(rows), size):
            parts.update(rows[start : start + size])
        assert parts.snapshot() == whole.snapshot()
