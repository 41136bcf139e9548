"""Which records a window keeps: the same ones whichever way they come."""

from __future__ import annotations

import json
from functools import cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from driftbn import DriftMonitor, datasets
from driftbn.config import LatePolicy, MonitorConfig, WindowConfig
from driftbn.errors import CombinedConfigError, ConfigError, DataError
from driftbn.snapshot import pack, unpack
from driftbn.tables.encode import encode
from driftbn.windows.buffer import Window, WindowBuffer
from driftbn.windows.sample import SampledBuffer, candidate_threshold, record_hash

CASES = settings(max_examples=150, deadline=None)
MASK = 2**64 - 1


def xxh64(number: int, seed: int) -> int:
    """XXH64 of eight bytes, as its specification has it."""
    p1, p2, p3, p4, p5 = (
        11400714785074694791,
        14029467366897019727,
        1609587929392839161,
        9650029242287828579,
        2870177450012600261,
    )

    def turned(x: int, n_bits: int) -> int:
        return ((x << n_bits) | (x >> (64 - n_bits))) & MASK

    h = (seed + p5 + 8) & MASK
    h ^= turned(number * p2 & MASK, 31) * p1 & MASK
    h = (turned(h, 27) * p1 + p4) & MASK
    h = (h ^ (h >> 33)) * p2 & MASK
    h = (h ^ (h >> 29)) * p3 & MASK
    return h ^ (h >> 32)


def naive_hash(record: int) -> int:
    found = xxh64(record, xxh64(0, 42))
    return found - 2**64 if found >= 2**63 else found


def smallest(records: list[int], max_rows: int) -> list[int]:
    """Return the records with the smallest hashes, in the order given."""
    chosen = set(sorted(records, key=naive_hash)[:max_rows])
    return [record for record in records if record in chosen]


@given(st.lists(st.integers(0, 2**62)))
def test_hashes_are_those_of_the_specification(records: list[int]) -> None:
    assert record_hash(np.array(records, np.int64)).tolist() == [naive_hash(n) for n in records]


def test_hashes_are_those_of_spark() -> None:
    spark_says = [-9199931545335556226, 8281773146650252936, 6911444899947943240]
    assert record_hash(np.arange(3)).tolist() == spark_says


@given(st.integers(1, 10**12), st.integers(1, 10**6))
def test_about_as_many_are_candidates_as_are_kept(size: int, max_rows: int) -> None:
    share = (candidate_threshold(size, max_rows) + 2**63 + 1) / 2**64
    assert share == 1.0 or max_rows < share * size < max_rows + 7 * max_rows**0.5 + 1


def codes_of(records: range) -> np.ndarray:
    numbers = np.asarray(records)
    return np.stack([numbers % 7, numbers // 256, numbers % 256]).astype(np.uint8)


def rows_of(window: Window) -> list[int]:
    assert window.codes[0].tolist() == [
        n % 7 for n in (window.codes[1].astype(int) * 256 + window.codes[2]).tolist()
    ]
    return (window.codes[1].astype(int) * 256 + window.codes[2]).tolist()


def restored(buffer: SampledBuffer) -> SampledBuffer:
    data = pack("buffer", 1, buffer.state())
    again = SampledBuffer(buffer.config, 3, buffer.max_rows)
    again.take_state(unpack("buffer", 1, data))
    assert pack("buffer", 1, again.state()) == data
    return again


cut_lists = st.lists(st.integers(0, 90), max_size=12).map(sorted)


@pytest.mark.slow
@CASES
@given(st.integers(1, 30), st.integers(1, 12), st.integers(0, 90), cut_lists, st.booleans())
def test_row_windows_keep_the_smallest_hashes_of_their_records(
    size: int, max_rows: int, n_records: int, cuts: list[int], restore: bool
) -> None:
    buffer, windows = SampledBuffer(WindowConfig(size=size), 3, max_rows), []
    for start, stop in pairwise([0, *(min(cut, n_records) for cut in cuts), n_records]):
        windows += buffer.append(codes_of(range(start, stop)))
        buffer = restored(buffer) if restore else buffer
    assert buffer.n_pending == n_records % size
    windows += buffer.flush()
    expected = [range(at, min(at + size, n_records)) for at in range(0, n_records, size)]
    assert [rows_of(window) for window in windows] == [
        smallest(list(records), max_rows) for records in expected
    ]
    for window, records in zip(windows, expected, strict=True):
        had = window.n_rows if window.sampled is None else window.sampled.n_records
        assert had == len(records)
        assert (window.first_record, window.last_record) == (
            min(rows_of(window)),
            max(rows_of(window)),
        )


@st.composite
def streams(draw: st.DrawFn) -> list[float]:
    steps = st.sampled_from([0.0, 0.0, 0.5, 0.5, 1.0, 2.0, 7.5, 40.0, -0.5, -3.0, -20.0])
    return list(accumulate(draw(st.lists(steps, max_size=90))))


@pytest.mark.slow
@CASES
@given(
    seconds=st.sampled_from([1.0, 10.0, 100.0]),
    lateness=st.sampled_from([0.0, 3.0, 25.0]),
    min_rows=st.integers(1, 12),
    late=st.sampled_from(LatePolicy),
    max_rows=st.integers(1, 12),
    times=streams(),
    cuts=cut_lists,
    restore=st.booleans(),
)
def test_time_windows_are_those_that_keep_all_with_the_smallest_hashes_of_each(
    seconds: float,
    lateness: float,
    min_rows: int,
    late: LatePolicy,
    max_rows: int,
    times: list[float],
    cuts: list[int],
    restore: bool,
) -> None:
    config = WindowConfig(seconds=seconds, lateness_seconds=lateness, min_rows=min_rows, late=late)
    whole, buffer = WindowBuffer(config, 3), SampledBuffer(config, 3, max_rows)
    expected, windows = [], []
    for start, stop in pairwise([0, *(min(cut, len(times)) for cut in cuts), len(times)]):
        batch = codes_of(range(start, stop)), times[start:stop]
        expected += whole.append(*batch)
        windows += buffer.append(*batch)
        buffer = restored(buffer) if restore else buffer
        assert buffer.n_pending == whole.n_pending
        assert buffer.n_late == whole.n_late
    assert [one.closed_by for one in windows] == [one.closed_by for one in expected]
    expected += whole.flush()
    windows += buffer.flush()
    assert [rows_of(one) for one in windows] == [
        smallest(rows_of(one), max_rows) for one in expected
    ]
    for one, all_of_it in zip(windows, expected, strict=True):
        assert (one.index, one.sampled and one.sampled.n_records) == (
            all_of_it.index,
            None if one.n_rows == all_of_it.n_rows else all_of_it.n_rows,
        )


@pytest.mark.slow
@CASES
@given(st.sampled_from([1, 8, 37]), st.integers(1, 40), st.integers(0, 300), st.randoms())
def test_parts_of_a_stream_keep_what_the_whole_keeps(
    n_parts: int, max_rows: int, n_records: int, random: Any
) -> None:
    place = [random.randrange(n_parts) for _ in range(n_records)]
    parts = [[n for n in range(n_records) if place[n] == part] for part in range(n_parts)]
    merged = sorted(n for part in parts for n in smallest(part, max_rows))
    buffer = SampledBuffer(WindowConfig(size=max(n_records, 1)), 3, max_rows)
    codes = codes_of(range(n_records))[:, merged]
    windows = buffer.append(codes, records=np.array(merged, np.int64), until=n_records)
    assert [rows_of(one) for one in windows] == (
        [smallest(list(range(n_records)), max_rows)] if n_records else []
    )


def test_memory_is_bounded_by_the_rows_kept() -> None:
    buffer = SampledBuffer(WindowConfig(size=1_000_000), 3, 50)
    for start in range(0, 20_000, 1000):
        buffer.append(codes_of(range(start, start + 1000)))
        assert all(kept["codes"].shape[1] <= 50 for kept in buffer.state()["kept"])


# Through the monitor


def documents(reports: Any) -> str:
    return json.dumps([report.to_dict() for report in reports])


SIZE, KEPT = 3000, 400
STREAM = datasets.sample(datasets.asia(), 4 * SIZE + 1000, 1).astype(object)
STREAM.iloc[5000:6000, 2] = "never"  # a new level is an event


def in_batches(cuts: list[int], *, restore: bool = False) -> str:
    monitor, reports = DriftMonitor(SIZE, max_rows_per_window=KEPT), []
    for start, stop in pairwise([0, *cuts, len(STREAM)]):
        reports += monitor.update(STREAM.iloc[start:stop])
        assert monitor.n_pending == stop % SIZE
        if restore:
            data = monitor.snapshot()
            monitor = DriftMonitor.restore(data)
            assert monitor.snapshot() == data
    reports += monitor.finish()
    return documents(reports)


@cache
def whole() -> str:
    return in_batches([])


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(0, len(STREAM)), max_size=8).map(sorted), st.booleans())
@example([10, 20, 300, 3000, 3001], True)
def test_reports_do_not_depend_on_batches_or_restarts(cuts: list[int], restore: bool) -> None:
    assert in_batches(cuts, restore=restore) == whole()


@pytest.mark.parametrize("n_batches", [1, 8, 37])
def test_records_left_out_before_change_nothing(n_batches: int) -> None:
    numbers = np.arange(len(STREAM))
    wanted = record_hash(numbers) <= candidate_threshold(SIZE, KEPT)
    wanted[-1] = True  # up to here the last window goes
    monitor, reports = DriftMonitor(SIZE, max_rows_per_window=KEPT), []
    for part in np.array_split(numbers[wanted], n_batches):
        reports += monitor.update(STREAM.iloc[part], records=part)
    assert documents([*reports, *monitor.finish()]) == whole()


def test_codes_that_were_made_elsewhere_give_the_same_reports() -> None:
    calm = STREAM.iloc[6000:]
    monitor, coded = (DriftMonitor(SIZE, max_rows_per_window=KEPT) for _ in range(2))
    reports = [*monitor.update(calm), *monitor.finish()]
    found = list(coded.update(calm.iloc[:1000]))
    for start in range(1000, len(calm), 700):
        part = calm.iloc[start : start + 700]
        found += coded.update(part if coded.schema is None else encode(part, coded.schema))
    assert documents([*found, *coded.finish()]) == documents(reports)


def test_what_is_left_out_is_not_read() -> None:
    numbers = np.arange(len(STREAM))
    left_out = record_hash(numbers) > candidate_threshold(SIZE, KEPT)
    records: list[Any] = STREAM.to_dict("records")
    for place in np.flatnonzero(left_out).tolist():
        records[place] = "no record" if place % 2 else {"asia": object()}
    monitor = DriftMonitor(SIZE, max_rows_per_window=KEPT)
    assert documents([*monitor.update(records), *monitor.finish()]) == whole()
    assert monitor.n_rejected == 0


def test_a_report_says_what_was_judged_and_what_that_shows() -> None:
    monitor = DriftMonitor(SIZE, max_rows_per_window=KEPT)
    first, second, *_ = monitor.update(STREAM)
    assert (first.rows, first.sample.records, first.sample.visible_change) == (KEPT, SIZE, None)
    assert (second.rows, second.sample.records) == (KEPT, SIZE)
    assert 0.01 < second.sample.visible_change < 1.0
    words = " ".join(str(second.explain()).split())
    assert "Window 1 holds 3,000 records, of which 400 were judged (numbers 3," in words
    assert "The 400 records that were judged show a change from" in words
    (level,) = [event for event in second.events if event.column == STREAM.columns[2]]
    share = np.mean(STREAM.iloc[SIZE : 2 * SIZE, 2] == "never")
    assert abs(level.n_rows / second.rows - share) < 0.1


def test_windows_by_time_have_any_number_of_records() -> None:
    times = np.repeat([0.0, 10.0, 20.0], [70_000, 150, 1])
    rows = {"at": times, "x": np.arange(len(times)) % 3, "y": np.arange(len(times)) % 2}
    monitor = DriftMonitor(window="10s", time="at", max_rows_per_window=500)
    busy, quiet = monitor.update(rows)
    assert (busy.rows, busy.sample.records) == (500, 70_000)
    assert (quiet.rows, quiet.sample) == (150, None)


@pytest.mark.parametrize(
    "window", [{"size": 100, "step": 10}, {"size": 100, "seconds": 10}], ids=["sliding", "both"]
)
def test_windows_that_end_otherwise_are_refused(window: dict[str, Any]) -> None:
    with pytest.raises((ConfigError, CombinedConfigError), match="max_rows_per_window"):
        MonitorConfig(window=window, time_column="at", max_rows_per_window=10)


@pytest.mark.parametrize("records", [[0, 2, 2], [3, 2, 1], [0, 1], [0.0, 1.0, 2.0], [-1, 0, 1]])
def test_numbers_that_do_not_rise_are_refused(records: list[float]) -> None:
    monitor = DriftMonitor(SIZE, max_rows_per_window=KEPT)
    with pytest.raises(DataError, match="rising numbers from 0 on, one for each of 3 rows"):
        monitor.update(STREAM[:3], records=records)
    with pytest.raises(DataError, match="max_rows_per_window"):
        DriftMonitor(SIZE).update(STREAM[:3], records=[0, 1, 2])
