"""Rows that wait for a schema mean the same in any cut and after any restart."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from driftbn import DataError, DriftMonitor, MonitorConfig

DAY = datetime.date(2024, 1, 1)


@pytest.mark.parametrize("value", [{}, [1], {1}, object(), 1j, (1,), np.zeros(2)])
def test_what_is_no_value_is_refused_with_the_rule(value):
    rule = r"column 'x', row 1: .*must be text, a number, a boolean or missing"
    with pytest.raises(DataError, match=rule) as caught:
        DriftMonitor(window=9).update({"x": ["a", value]})
    assert caught.value.value is value


@pytest.mark.parametrize(
    "column",
    [
        np.array(["2024", "NaT"], "M8[Y]"),
        np.array([1, 2], "m8[s]"),
        pd.period_range("2024-01", periods=2, freq="M"),
        pa.array([1, None], pa.timestamp("ns")),
        [None, DAY],
    ],
)
def test_a_column_of_times_is_still_one_after_a_restart(column):
    monitor = DriftMonitor(window=9)
    monitor.update({"t": column, "x": [1, 2]})
    (report,) = DriftMonitor.restore(monitor.snapshot()).finish()
    assert dict(report.excluded) == {"t": "temporal"}


@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [("a", DAY, "a time among other values"), (DAY, "a", "a value among times")],
)
@pytest.mark.parametrize("cut", [True, False])
def test_of_times_and_values_in_a_column_the_second_is_refused(first, second, problem, cut):
    monitor = DriftMonitor(window=9)
    if cut:
        monitor.update({"x": [first]})
    last = [second] if cut else [first, second]
    with pytest.raises(DataError, match=rf"column 'x', row {len(last) - 1}: {problem}"):
        monitor.update({"x": last})


def test_a_field_without_a_value_waits_alike_in_every_kind_of_table():
    tails = set()
    for nothing in (
        [None] * 3,
        pa.nulls(3, pa.string()),
        pa.nulls(3, pa.string()).dictionary_encode(),
    ):
        monitor = DriftMonitor(window=9)
        monitor.update({"x": nothing, "y": [1, 2, 3]})
        tails.add(monitor.tail())
    assert len(tails) == 1


def test_categories_that_no_arrow_text_can_hold_wait_as_well():
    codes = pd.Categorical.from_codes([0, 1, -1], pd.Index(["\ud800", "a"], dtype=object))
    monitor = DriftMonitor(window=9)
    monitor.update({"x": codes})
    monitor.finish()
    assert monitor.schema["x"].levels == ("a", "\ud800")


@pytest.mark.parametrize("size", [1, 6])
def test_a_time_that_came_first_keeps_no_values_out_where_rows_may_be_left_out(size):
    monitor = DriftMonitor(MonitorConfig(window=9, on_error="reject_rows"))
    cells = [DAY, "a", None, "b", DAY, "a"]
    for start in range(0, 6, size):
        monitor.update({"x": cells[start : start + size]})
    monitor.finish()
    assert monitor.n_rejected == 1
    assert monitor.schema["x"].levels == ("a", "b")


@pytest.mark.parametrize("size", [1, 7, 40])
def test_fields_that_hardly_any_row_has_are_forgotten_where_there_are_too_many(monkeypatch, size):
    monkeypatch.setattr("driftbn.tables.intake.MAX_COLUMNS", 10)
    monitor = DriftMonitor(window=41)
    records = [{"a": i % 3, f"x{i}": i} for i in range(40)]
    for start in range(0, 40, size):
        monitor.update(records[start : start + size])
    (report,) = monitor.finish()
    assert {*report.graph.nodes, *dict(report.excluded)} == {"a", "x0", "x1", "x2", "x3"}


def test_a_row_with_more_columns_than_may_wait_is_refused(monkeypatch):
    monkeypatch.setattr("driftbn.tables.intake.MAX_COLUMNS", 10)
    with pytest.raises(DataError, match="11 columns; at most 10"):
        DriftMonitor(window=9).update([{"a": 1}, {f"x{i}": i for i in range(11)}])


plain_cells = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**80), 2**80)
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(["__missing__", "__other__", "3.0", "\ud800", Decimal("1.5"), b"x"])
)
records = st.lists(st.dictionaries(st.sampled_from("abc"), plain_cells | st.just({}), max_size=3))


@pytest.mark.slow
@given(records, st.integers(1, 9), st.integers(1, 5), st.booleans())
@settings(max_examples=120)
@example([{}, {"a": None}, {}, {"a": 0.0}, {"a": 2**53 + 1}], 2, 3, False)
@example([{"a": None, "b": {}}, {"a": None, "b": -0.0}], 2, 1, False)
@example([{"a": 5e-324}, {"a": float("-inf")}, {"a": "é\ud800"}, {"a": 2**60 + 1}], 9, 1, True)
def test_snapshots_do_not_depend_on_cuts_and_restarts(rows, window, size, restart):
    config = MonitorConfig(window=window, on_error="reject_rows")
    whole, parts = DriftMonitor(config), DriftMonitor(config)
    whole.update(rows)
    for start in range(0, len(rows), size):
        parts.update(rows[start : start + size])
        parts = DriftMonitor.restore(parts.snapshot()) if restart else parts
    assert parts.snapshot() == whole.snapshot()
