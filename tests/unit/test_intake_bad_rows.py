import pandas as pd
import pyarrow as pa
import pytest

from driftbn.config import MonitorConfig
from driftbn.errors import DataError
from driftbn.intake import Intake
from driftbn.records import infer_and_encode
from driftbn.schema import SchemaConfig
from tests.encoded import NAN
from tests.intake_parts import (
    DAY,
    LENIENT,
    records,
    same_state,
)


class TestRefusals:
    def test_unreadable_cell_is_refused_when_it_comes(self):
        intake = Intake(MonitorConfig(window=50))
        intake.take(records(10))
        before = intake.state()
        batch = records(5)
        batch[3]["text"] = {"nested": 1}
        with pytest.raises(DataError, match=r"column 'text', row 3: dict is not allowed") as caught:
            intake.take(batch)
        assert caught.value.value == {"nested": 1}
        assert same_state(intake.state(), before)

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

    def test_row_is_counted_from_the_start_of_the_batch(self):
        intake = Intake(MonitorConfig(window=20))
        intake.take(records(19))
        batch = records(5)
        batch[4]["flag"] = [1]
        with pytest.raises(DataError, match=r"column 'flag', row 4"):
            intake.take(batch)

    def test_bad_batch_is_refused_when_the_schema_is_known(self):
        intake = Intake(MonitorConfig(window=2))
        intake.take({"x": ["a", "b"]})
        before = intake.state()
        with pytest.raises(DataError, match=r"column 'x', row 1") as caught:
            intake.take([{"x": "a"}, {"x": {}}])
        assert caught.value.value == {}
        assert same_state(intake.state(), before)

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
