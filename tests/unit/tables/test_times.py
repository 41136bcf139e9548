import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from driftbn.config import MonitorConfig, WindowConfig
from driftbn.errors import DataError
from driftbn.snapshot import pack
from tests.encoded import NAN, read_times
from tests.intake_parts import LENIENT, Intake

UTC = datetime.UTC


class TestTimes:
    MOMENT = datetime.datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
    SECONDS = 1714979289 + 0.123456

    @pytest.mark.parametrize(
        "column",
        [
            [MOMENT],
            [MOMENT.astimezone(ZoneInfo("Asia/Tokyo"))],
            [MOMENT.replace(tzinfo=None)],
            [MOMENT.isoformat()],
            ["2024-05-06T07:08:09.123456Z"],
            ["2024-05-06 07:08:09.123456"],
            ["2024-05-06T09:08:09.123456+02:00"],
            ["20240506T070809.123456Z"],
            ["2024-05-06T07:08:09.123456Z", None],
            [pd.Timestamp(MOMENT)],
            [np.datetime64("2024-05-06T07:08:09.123456")],
            np.array(["2024-05-06T07:08:09.123456"], "M8[us]"),
            np.array(["2024-05-06T07:08:09.123456"], "M8[ns]"),
            np.array(["2024-05-06T07:08:09.123456Z"], object),
            pd.Series([MOMENT], index=["k"]),
            pd.Series([MOMENT]).dt.tz_convert("Asia/Tokyo").dt.as_unit("ns"),
            pd.DatetimeIndex([MOMENT.replace(tzinfo=None)]),
            pd.array([MOMENT.isoformat()], dtype="string"),
            pd.Categorical([MOMENT.isoformat()]),
            pa.array([MOMENT]),
            pa.array([MOMENT], pa.timestamp("ns", "Asia/Tokyo")),
            pa.array([MOMENT.isoformat()]),
            pa.array([MOMENT.isoformat()]).dictionary_encode(),
            pa.chunked_array([[MOMENT], []], pa.timestamp("us", "UTC")),
        ],
    )
    def test_one_moment_is_one_number_in_every_form(self, column):
        assert read_times(column)[0] == self.SECONDS

    @pytest.mark.parametrize(
        ("column", "seconds"),
        [
            ([1, 2.5], [1.0, 2.5]),
            (np.array([1, 2], np.int32), [1.0, 2.0]),
            (np.array([1.5], np.float32), [1.5]),
            (pd.array([1, None], dtype="Int64"), [1.0, NAN]),
            (pa.array([1, None]), [1.0, NAN]),
            (pa.array([1.5, None]), [1.5, NAN]),
            (["1969-12-31T23:59:58.5Z"], [-1.5]),
            (np.array(["1969-12-31T23:59:58.5"], "M8[ms]"), [-1.5]),
            ([datetime.date(1970, 1, 2), "1970-01-02"], [86400.0, 86400.0]),
            (np.array(["1970-01-02", "NaT"], "M8[D]"), [86400.0, NAN]),
            (pa.array([1], pa.date32()), [86400.0]),
            (pd.Series(pd.to_datetime(["1970-01-02", None])), [86400.0, NAN]),
            ([True, "noon", None, {}, b"1", 10**400, pd.NaT, "1700000000.5"], [NAN] * 8),
            (["\ud800"], [NAN]),
            (np.array([True]), [NAN]),
            (pd.to_timedelta([1]), [NAN]),
            (pa.array([1], pa.duration("s")), [NAN]),
        ],
    )
    def test_numbers_days_and_what_is_no_time(self, column, seconds):
        np.testing.assert_array_equal(read_times(column), seconds)

    def test_time_column_is_no_variable(self):
        intake = Intake(MonitorConfig(window=2, time_column="t"))
        encoded = intake.take({"t": [5, 6, 7], "x": ["a", "b", "a"]})
        assert intake.schema.names == ("x",)
        assert intake.schema.excluded == ()
        assert encoded.times.tolist() == [5.0, 6.0, 7.0]
        assert intake.take({"t": [8], "x": ["a"]}).events == ()

    def test_times_of_held_rows_are_kept(self):
        intake = Intake(MonitorConfig(window=3, time_column="t"))
        intake.take({"t": [5.5, 4.5], "x": ["a", "b"]})
        assert intake.take({"t": [6.5], "x": ["a"]}).times.tolist() == [5.5, 4.5, 6.5]

    def test_without_a_time_column_there_are_no_times(self):
        assert Intake(MonitorConfig(window=1)).take({"t": [5]}).times is None

    @pytest.mark.parametrize(
        ("value", "shown"),
        [
            (None, "None"),
            ("noon", "'noon'"),
            (float("inf"), "inf"),
            (True, "True"),
            ({}, "{}"),
            pytest.param(10**5000, "int", id="long"),
        ],
    )
    @pytest.mark.parametrize("known", [True, False])
    def test_unreadable_time_is_refused_with_the_rule(self, value, shown, known):
        intake = Intake(MonitorConfig(window=1 if known else 9, time_column="t"))
        intake.take({"t": [1], "x": ["a"]})
        before = pack("intake", 1, intake.state())
        message = (
            rf"column 't', row 1: {shown} is no event time: it must be a finite number of seconds"
        )
        with pytest.raises(DataError, match=message) as caught:
            intake.take({"t": [2, value], "x": ["a", "b"]})
        assert caught.value.value == value
        assert pack("intake", 1, intake.state()) == before

    def test_absent_column_is_refused(self):
        intake = Intake(MonitorConfig(time_column="t"))
        with pytest.raises(DataError, match=r"column 't': .*absent"):
            intake.take({"x": [1]})

    def test_records_without_a_time_are_left_out_alone_or_among_others(self):
        intake = Intake(MonitorConfig(time_column="t", on_error=LENIENT))
        assert intake.take([{"x": 1}]) is None
        intake.take([{"x": 1}, {"x": 1, "t": 3}])
        assert (intake.n_pending, intake.n_rejected) == (1, 2)
        assert intake.take(pd.DataFrame({"x": [1, 2]})) is None
        assert (intake.n_pending, intake.n_rejected) == (1, 4)

    @pytest.mark.parametrize("known", [True, False])
    def test_a_table_without_the_time_column_is_left_out_where_rows_may_be(self, known):
        intake = Intake(MonitorConfig(window=1 if known else 9, time_column="t", on_error=LENIENT))
        intake.take({"t": [1], "x": ["a"]})
        assert intake.take(pa.table({"x": ["a", "b"]})) is None
        assert intake.take(pa.table({"t": [b"1970-01-01"], "x": ["a"]})) is None
        assert intake.n_rejected == 3

    @pytest.mark.parametrize("lenient", [True, False])
    def test_a_time_that_no_window_can_hold_is_none(self, lenient):
        windows = WindowConfig(seconds=0.001)
        policy = LENIENT if lenient else "reject_batch"
        intake = Intake(MonitorConfig(window=windows, time_column="t", on_error=policy))
        table = pa.table({"t": pa.array([1, 2**62]).cast(pa.timestamp("s")), "x": ["a", "b"]})
        if lenient:
            intake.take(table)
            assert (intake.n_pending, intake.n_rejected) == (1, 1)
        else:
            with pytest.raises(DataError, match=r"row 1: .*beyond what Python can hold.*origin"):
                intake.take(table)
            assert intake.n_pending == 0

    def test_a_table_without_columns_is_rows_without_values_where_rows_may_be_left_out(self):
        table = pa.table({"k": ["a", "b"]}).select([])
        intake = Intake(MonitorConfig(window=2, on_error=LENIENT))
        assert intake.take(table).codes.shape == (0, 2)
        with pytest.raises(DataError, match="no columns"):
            Intake(MonitorConfig(window=2)).take(table)
