from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from driftbn.config import LatePolicy, WindowConfig
from driftbn.windows.buffer import Window, WindowBuffer

CASES = settings(max_examples=100)


@dataclass(frozen=True)
class Seen:
    """A window as plain values; ``rows`` are the numbers of its records, in its order."""

    index: int
    rows: list[int]
    first: int
    last: int
    start: float | None
    end: float | None


class NaiveWindows:
    """The rules of ``WindowBuffer``, one row after the other, on lists."""

    def __init__(self, config: WindowConfig) -> None:
        self.config = config
        self.held: list[tuple[float, float, int]] = []
        self.n_fed = self.n_late = self.n_overlap = 0
        self.largest = self.open = -math.inf
        self.windows: list[Seen] = []

    def feed(self, times: list[float]) -> None:
        for time in times:
            if self.config.seconds is None:
                self.feed_row(time)
            else:
                self.feed_time(time)
            self.n_fed += 1

    def feed_row(self, time: float) -> None:
        self.held.append((0.0, time, self.n_fed))
        size = self.config.row_limit
        if len(self.held) == size:
            self.emit(self.held)
            self.held = self.held[self.config.step or size :]
            self.n_overlap = len(self.held)

    def feed_time(self, time: float) -> None:
        config, slot = self.config, self.slot(time)
        self.largest = max(self.largest, time)
        self.open = max(self.open, self.slot(self.largest - config.lateness_seconds))
        if slot < self.open:
            self.n_late += 1
            if config.late is LatePolicy.COUNT:
                return
            slot = self.open
        self.held.append((slot, time, self.n_fed))
        self.held.sort()
        self.close_passed()
        while len([row for row in self.held if row[0] <= self.open]) >= config.row_limit:
            self.emit_first(config.row_limit)
        if len(self.held) == config.capacity:
            while len(self.held) > config.row_limit:
                self.emit_first(self.oldest_group())

    def slot(self, time: float) -> float:
        assert self.config.seconds is not None
        return float(math.floor((time - self.config.origin) / self.config.seconds))

    def close_passed(self) -> None:
        group: list[tuple[float, float, int]] = []
        for slot in sorted({row[0] for row in self.held if row[0] < self.open}):
            group += [row for row in self.held if row[0] == slot]
            while len(group) >= self.config.row_limit:
                self.emit(group[: self.config.row_limit])
                group = group[self.config.row_limit :]
            if len(group) >= self.config.min_rows:
                self.emit(group)
                group = []
        self.held = group + [row for row in self.held if row[0] >= self.open]

    def oldest_group(self) -> int:
        for slot in sorted({row[0] for row in self.held}):
            count = len([row for row in self.held if row[0] <= slot])
            if count >= self.config.min_rows:
                return min(count, self.config.row_limit)
        return len(self.held)

    def emit_first(self, count: int) -> None:
        self.emit(self.held[:count])
        self.held = self.held[count:]

    def emit(self, rows: list[tuple[float, float, int]]) -> None:
        numbers, times = [row[2] for row in rows], [row[1] for row in rows]
        self.windows.append(
            Seen(len(self.windows), numbers, min(numbers), max(numbers), min(times), max(times))
        )

    def flush(self) -> None:
        if self.config.seconds is None:
            if len(self.held) > self.n_overlap:
                self.emit(self.held)
            self.held, self.n_overlap = [], 0
        elif self.largest > -math.inf:
            self.open = max(self.open, self.slot(self.largest) + 1)
            self.close_passed()
            if self.held:
                self.emit_first(len(self.held))


def codes_of(first: int, count: int) -> NDArray[np.uint8]:
    """Three variables that spell the number of the record."""
    numbers = np.arange(first, first + count)
    return np.stack([numbers % 7, numbers // 256, numbers % 256]).astype(np.uint8)


def seen(window: Window) -> Seen:
    rows = (window.codes[1].astype(int) * 256 + window.codes[2]).tolist()
    assert window.n_rows == len(rows)
    assert window.codes[0].tolist() == [row % 7 for row in rows]
    return Seen(
        window.index, rows, window.first_record, window.last_record, window.start, window.end
    )


def feed(
    buffer: WindowBuffer, times: list[float], cuts: list[int], *, restore: bool = False
) -> tuple[WindowBuffer, list[Seen]]:
    """Append a stream in batches that end at the cuts."""
    first, windows = buffer.n_records, []
    for start, stop in pairwise([0, *sorted(cut % (len(times) + 1) for cut in cuts), len(times)]):
        batch = codes_of(first + start, stop - start)
        windows += [seen(window) for window in buffer.append(batch, times[start:stop])]
        assert buffer.n_pending < buffer.config.capacity
        if restore:
            state, buffer = buffer.state(), WindowBuffer(buffer.config, 3)
            buffer.take_state(state)
    return buffer, windows


@st.composite
def row_configs(draw: st.DrawFn) -> WindowConfig:
    size = draw(st.integers(1, 8))
    return WindowConfig(size=size, step=draw(st.none() | st.integers(1, size)))


@st.composite
def time_configs(draw: st.DrawFn) -> WindowConfig:
    limit = draw(st.integers(1, 12))
    return WindowConfig(
        size=limit,
        seconds=draw(st.sampled_from([1, 2.5, 10.0, 100.0])),
        origin=draw(st.sampled_from([0.0, -3.0, 0.5, 1e6])),
        lateness_seconds=draw(st.sampled_from([0.0, 0.7, 3.0, 25.0])),
        min_rows=draw(st.integers(1, limit)),
        late=draw(st.sampled_from(LatePolicy)),
    )


@st.composite
def streams(draw: st.DrawFn) -> list[float]:
    """Times that mostly rise, with ties, gaps and steps back."""
    steps = st.sampled_from([0.0, 0.0, 0.5, 0.5, 1.0, 2.0, 7.5, 40.0, -0.5, -3.0, -20.0])
    least = draw(st.sampled_from([0, 10, 40]))
    return list(accumulate(draw(st.lists(steps, min_size=least, max_size=70))))


configs = row_configs() | time_configs()
cut_lists = st.lists(st.integers(0, 70), max_size=12)


@CASES
@given(configs, streams(), streams(), cut_lists, st.booleans())
def test_windows_equal_those_of_the_naive_rules_in_any_chunking_and_after_any_restore(
    config: WindowConfig, times: list[float], more: list[float], cuts: list[int], restore: bool
) -> None:
    naive, buffer = NaiveWindows(config), WindowBuffer(config, 3)
    windows: list[Seen] = []
    for part in (times, more):
        naive.feed(part)
        buffer, found = feed(buffer, part, cuts, restore=restore)
        windows += found
        assert windows == naive.windows
        n_pending = len(naive.held) - naive.n_overlap
        assert (buffer.n_pending, buffer.n_late) == (n_pending, naive.n_late)
        naive.flush()
        windows += [seen(window) for window in buffer.flush()]
        assert windows == naive.windows
        assert buffer.n_pending == 0


@pytest.mark.slow
@CASES
@given(configs, streams(), cut_lists)
def test_no_window_exceeds_its_maximum_or_falls_below_its_minimum(
    config: WindowConfig, times: list[float], cuts: list[int]
) -> None:
    _, windows = feed(WindowBuffer(config, 3), times, cuts)
    least = config.row_limit if config.seconds is None else config.min_rows
    assert all(least <= len(window.rows) <= config.row_limit for window in windows)


def test_row_windows_without_times_have_none() -> None:
    buffer = WindowBuffer(WindowConfig(size=2), 3)
    (window,) = buffer.append(codes_of(0, 3))
    assert (window.start, window.end) == (None, None)
    half, timed = buffer.append(codes_of(3, 3), [7, 9, 8])
    assert (half.start, half.end) == (None, None)
    assert (timed.start, timed.end) == (8.0, 9.0)


@pytest.mark.parametrize("config", [WindowConfig(size=4, step=1), WindowConfig(size=4, seconds=9)])
def test_windows_are_read_only_and_do_not_change_later(config: WindowConfig) -> None:
    buffer, batch = WindowBuffer(config, 3), codes_of(0, 4)
    (window,) = buffer.append(batch, [0.0] * 4)
    before = window.codes.copy()
    batch[:] = 9
    buffer.append(codes_of(4, 40), [0.0] * 40)
    np.testing.assert_array_equal(window.codes, before)
    assert window.codes.flags.c_contiguous
    with pytest.raises(ValueError, match="read-only"):
        window.codes[0, 0] = 1
