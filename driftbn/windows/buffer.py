"""Windows of a stream, and the buffer that cuts them from batches of any size.

Event time is in slots: which slot a row is in, and where windows end when slots are closed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbn.config import LatePolicy, WindowConfig

_MAX_SLOT: Final = 2.0**53
"""Up to here a float counts without gaps."""


def have_slots(times: ArrayLike, config: WindowConfig) -> NDArray[np.bool_]:
    """Return which times a window can hold: finite ones, and in time windows not too far ones."""
    if config.seconds is None:
        return np.isfinite(times)
    return np.abs(slots_of(times, config)) < _MAX_SLOT


def slots_of(times: ArrayLike, config: WindowConfig) -> NDArray[np.float64]:
    """Return the numbers of the slots that times are in, whatever these are."""
    with np.errstate(over="ignore"):  # what is too large is refused by its slot
        shifted = np.subtract(times, config.origin, dtype=np.float64)
        return np.asarray(np.floor(shifted / config.seconds))


def settled_cuts(slots: NDArray[np.float64], open_slot: float, config: WindowConfig) -> list[int]:
    """Return where windows end by the rules 1 to 3 of ``WindowBuffer``.

    ``slots``: those of all rows that are held, sorted. ``open_slot``: the oldest one that is open.
    """
    n_rows, limit = slots.size, config.row_limit
    cuts = [*cuts_between(slots, 0, int(np.searchsorted(slots, open_slot)), config)]
    start = cuts[-1] if cuts else 0
    n_oldest = int(np.searchsorted(slots, open_slot, side="right"))
    cuts.extend(range(start + limit, n_oldest + 1, limit))
    start = cuts[-1] if cuts else 0
    if n_rows - start == config.capacity:
        for cut in cuts_between(slots, start, n_rows, config):
            cuts.append(cut)
            if n_rows - cut <= limit:
                break
    return cuts


def cuts_between(
    slots: NDArray[np.float64], start: int, stop: int, config: WindowConfig
) -> Iterator[int]:
    """Yield where windows end if the sorted rows from ``start`` to ``stop`` are closed."""
    closed = slots[start:stop]
    ends = start + np.append(np.flatnonzero(closed[1:] != closed[:-1]) + 1, closed.size)
    while True:
        end = int(np.searchsorted(ends, start + config.min_rows))
        if end == ends.size:
            return
        start = min(int(ends[end]), start + config.row_limit)
        yield start


class Rows(NamedTuple):
    """Rows of the stream; the last axis of each array runs over them."""

    codes: NDArray[np.uint8]  # [variables, rows]
    times: NDArray[np.float64]  # [rows], NaN where there is none
    slots: NDArray[np.float64]  # [rows], number of the time window; 0 in row windows
    records: NDArray[np.int64]  # [rows]

    @property
    def n_rows(self) -> int:
        return self.times.size

    def part(self, start: int, stop: int) -> Rows:
        """Return the rows from one up to another, not copied."""
        place = slice(start, stop)
        return Rows(self.codes[:, place], self.times[place], self.slots[place], self.records[place])

    def of(self, places: NDArray[np.intp]) -> Rows:
        """Return some of the rows, copied."""
        codes, times, slots, records = self
        return Rows(codes[:, places], times[places], slots[places], records[places])


class HeldRows:
    """Takes rows at its end and drops them at its start.

    ``capacity``: the most rows that can be held.

    >>> held = HeldRows(n_variables=1, capacity=3)
    >>> codes = np.array([[4, 5]], dtype=np.uint8)
    >>> held.take(Rows(codes, np.zeros(2), np.zeros(2), np.arange(2)))
    >>> held.drop(1)
    >>> held.n_rows, held.rows.codes.tolist()
    (1, [[5]])
    """

    def __init__(self, n_variables: int, capacity: int) -> None:
        self.capacity = capacity
        self.n_rows = 0
        self._memory = Rows(
            np.zeros((n_variables, capacity), dtype=np.uint8),
            np.zeros(capacity),
            np.zeros(capacity),
            np.zeros(capacity, dtype=np.int64),
        )

    @property
    def rows(self) -> Rows:
        """The rows held; not copied, so they change with what is held."""
        return self._memory.part(0, self.n_rows)

    @property
    def slots(self) -> NDArray[np.float64]:
        return self._memory.slots[: self.n_rows]

    def take(self, rows: Rows) -> None:
        """Hold more rows; there must be room for them."""
        end = self.n_rows + rows.n_rows
        memory, place = self._memory, slice(self.n_rows, end)
        memory.codes[:, place] = rows.codes
        memory.times[place] = rows.times
        memory.slots[place] = rows.slots
        memory.records[place] = rows.records
        self.n_rows = end

    def drop(self, n_rows: int) -> None:
        n_left = self.n_rows - n_rows
        for kept in self._memory:
            kept[..., :n_left] = kept[..., n_rows : self.n_rows]
        self.n_rows = n_left

    def keep(self, places: NDArray[np.intp]) -> None:
        """Drop all rows but these."""
        for kept in self._memory:
            kept[..., : len(places)] = kept[..., places]
        self.n_rows = len(places)

    def clear(self) -> None:
        self.n_rows = 0

    def sort(self) -> None:
        """Order the rows by slot, time and arrival."""
        rows = self.rows
        order = np.lexsort((rows.times, rows.slots))
        if (order[1:] > order[:-1]).all():
            return
        for kept in rows:
            kept[:] = kept[..., order]

    def state(self) -> dict[str, Any]:
        return {name: kept.copy() for name, kept in self.rows._asdict().items()}

    def take_state(self, state: Mapping[str, Any]) -> None:
        self.n_rows = state["times"].size
        for name, kept in self._memory._asdict().items():
            kept[..., : self.n_rows] = state[name]


_VERSION: Final = 1
_COUNTS: Final = ("n_records", "n_windows", "n_late", "n_overlap")
_TIMES: Final = ("largest_time", "open_slot")


class Sampled(NamedTuple):
    """What a window had, where only some of it are its rows.

    ``n_taken``: of its records those that were read; the others were left out by their numbers.
    """

    n_records: int
    n_taken: int


@dataclass(frozen=True, eq=False)
class Window:
    """The rows of one window, as codes.

    ``index``: running number of the window in the stream, from 0. ``codes``: ``uint8 [variables,
    rows]``, C-contiguous and read-only. By arrival in row windows; by time and then arrival in time
    windows, where late rows count to the part that they joined. ``first_record``, ``last_record``:
    smallest and largest running number of its records in the stream, from 0, both inclusive. Late
    and early rows leave gaps between them in time windows. ``start``, ``end``: smallest and largest
    event time of its rows, both inclusive; ``None`` if a row has no time. ``closed_by``: running
    number of the record whose arrival closed it; it need not be one of its own. ``times``: event
    times of the rows, if all have one. ``sampled``: how many records it had, if only some are kept.
    """

    index: int
    codes: NDArray[np.uint8] = field(repr=False)
    first_record: int
    last_record: int
    start: float | None = None
    end: float | None = None
    closed_by: int = -1
    times: NDArray[np.float64] | None = field(default=None, repr=False)
    sampled: Sampled | None = None

    @property
    def n_rows(self) -> int:
        return int(self.codes.shape[1])


class WindowBuffer:
    """Takes batches of codes and hands out the windows that they complete.

    The windows do not depend on how the stream is cut into batches. Memory is fixed: codes of
    ``[n_variables, config.capacity]`` and three numbers a row.

    Event time is divided into *slots* of ``seconds``. The watermark is the largest time seen minus
    the lateness; a slot is open until the watermark reaches its end. After each row, in order:

    1. Slots that the watermark passed are closed, oldest first. One with fewer than ``min_rows``
       rows is kept and merged with the next slot that has rows.
    2. If the oldest open slot, with what was merged into it, has ``row_limit`` rows, they are a
       window. Later rows of that slot make a further window.
    3. If the buffer is full, the oldest slots are closed until at most ``row_limit`` rows are left;
       rows that come for them later make further windows.

    A row is late if its slot is no longer open when it comes, even if rows of that slot are still
    held to be merged: what is late depends on times alone, not on the traffic.

    ``n_records``: how many records there were; ``n_late``: how many of them came after their time
    window was closed.

    >>> buffer = WindowBuffer(WindowConfig(size=2), n_variables=1)
    >>> batch = np.array([[0, 1, 1, 0, 1]], dtype=np.uint8)
    >>> [window.codes.tolist() for window in buffer.append(batch)]
    [[[0, 1]], [[1, 0]]]
    >>> buffer.n_pending, [window.codes.tolist() for window in buffer.flush()]
    (1, [[[1]]])
    """

    def __init__(self, config: WindowConfig, n_variables: int) -> None:
        self.config = config
        self.n_variables = n_variables
        self.n_records = self.n_windows = self.n_late = self.n_overlap = 0
        self.largest_time = self.open_slot = -np.inf
        self._held = HeldRows(n_variables, self._capacity)

    @property
    def _capacity(self) -> int:
        return self.config.capacity

    @property
    def n_pending(self) -> int:
        """The number of rows held that have been in no window; fewer than held when sliding."""
        return self._held.n_rows - self.n_overlap

    def append(
        self,
        codes: NDArray[np.uint8],
        times: ArrayLike | None = None,
        records: NDArray[np.int64] | None = None,
        until: int | None = None,
    ) -> tuple[Window, ...]:
        """Take in a batch and return the windows that it completes, in order.

        ``codes``: ``uint8 [variables, rows]`` with any number of rows, also none; it is copied.
        ``times``: event time of each row in seconds since the epoch, of which ``have_slots`` says
        that a window can hold it. Time windows need it; row windows only pass it on. ``records``:
        numbers of the rows in the stream, rising; the next ones unless given. ``until``: how many
        records the stream has had with them.
        """
        n_rows = codes.shape[1]
        clock = np.full(n_rows, np.nan) if times is None else np.asarray(times, np.float64)
        slots = np.zeros(n_rows) if self.config.seconds is None else slots_of(clock, self.config)
        if records is None:
            records = np.arange(self.n_records, self.n_records + n_rows)
        self.n_records = self.n_records + n_rows if until is None else until
        batch = Rows(codes, clock, slots, records)
        if self.config.seconds is None:
            return tuple(self._append_by_rows(batch))
        return tuple(self._append_by_time(batch)) if n_rows else ()

    def flush(self) -> tuple[Window, ...]:
        """Close what is open, as at the end of a file, and return it.

        The last window may have fewer than ``size`` or ``min_rows`` rows. Rows that come later for
        a time window closed here are late. A sliding window starts afresh, and is made here only
        if there are rows that have been in none.
        """
        n_rows = self._held.n_rows
        cuts = [n_rows] if self.n_pending else []
        if self.config.seconds is not None:
            self._held.sort()
            cuts = list(cuts_between(self._held.slots, 0, n_rows, self.config))
            if n_rows > (cuts[-1] if cuts else 0):
                cuts.append(n_rows)
            last = float(slots_of(self.largest_time, self.config))
            self.open_slot = max(self.open_slot, last + 1)
        windows = self._close(cuts)
        self._held.clear()
        self.n_overlap = 0
        return tuple(windows)

    def state(self) -> dict[str, Any]:
        """Return all that ``take_state`` needs, as plain values and arrays (copies)."""
        values: dict[str, Any] = {"version": _VERSION, "mode": self.config.mode.value}
        values["n_variables"] = self.n_variables
        values |= {name: getattr(self, name) for name in _COUNTS}
        for name in _TIMES:
            value = getattr(self, name)
            values[name] = value if np.isfinite(value) else None
        return values | self._rows_state()

    def _rows_state(self) -> dict[str, Any]:
        return self._held.state()

    def take_state(self, state: Mapping[str, Any]) -> None:
        """Go on where a buffer of the same settings stood that gave ``state``."""
        for name in _COUNTS:
            setattr(self, name, state[name])
        for name in _TIMES:
            setattr(self, name, -np.inf if state[name] is None else state[name])
        self._take_rows_state(state)

    def _take_rows_state(self, state: Mapping[str, Any]) -> None:
        self._held.take_state(state)

    def _append_by_rows(self, batch: Rows) -> Iterator[Window]:
        size = self.config.row_limit
        step = size if self.config.step is None else self.config.step
        position, n_rows = 0, batch.times.size
        while position < n_rows:
            stop = min(n_rows, position + size - self._held.n_rows)
            self._held.take(batch.part(position, stop))
            position = stop
            if self._held.n_rows == size:
                yield self._window(0, size)
                self._held.drop(step)
                self.n_overlap = size - step

    def _append_by_time(self, batch: Rows) -> Iterator[Window]:
        batch, opens = self._admit(batch)
        moves = np.flatnonzero(opens > np.concatenate(([self.open_slot], opens[:-1])))
        position, n_rows = 0, batch.times.size
        while position < n_rows:
            stop = self._next_stop(batch.slots, moves, position)
            self._held.take(batch.part(position, stop))
            self.open_slot = float(opens[stop - 1])
            if self._may_close():
                self._held.sort()
                cuts = settled_cuts(self._held.slots, self.open_slot, self.config)
                yield from self._close(cuts)
            position = stop

    def _admit(self, batch: Rows) -> tuple[Rows, NDArray[np.float64]]:
        """Return the rows that enter a window, each with the oldest slot open at its arrival."""
        largest = np.maximum(np.maximum.accumulate(batch.times), self.largest_time)
        self.largest_time = float(largest[-1])
        with np.errstate(over="ignore"):
            watermarks = largest - self.config.lateness_seconds
        opens = np.maximum(slots_of(watermarks, self.config), self.open_slot)
        late = batch.slots < opens
        n_late = int(np.count_nonzero(late))
        self.n_late += n_late
        if n_late == 0:
            return batch, opens
        if self.config.late is LatePolicy.CURRENT:
            return batch._replace(slots=np.maximum(batch.slots, opens)), opens
        on_time = np.flatnonzero(~late)
        return batch.of(on_time), opens[on_time]

    def _next_stop(self, slots: NDArray[np.float64], moves: NDArray[np.intp], position: int) -> int:
        """Return the end of the longest run of rows in which only the last can close a window."""
        stop = min(slots.size, position + self.config.capacity - self._held.n_rows)
        move = int(np.searchsorted(moves, position))
        if move < moves.size:
            stop = min(stop, int(moves[move]) + 1)
        wanted = self.config.row_limit - self._n_oldest()
        oldest = np.flatnonzero(slots[position:stop] <= self.open_slot)
        return stop if oldest.size < wanted else position + int(oldest[wanted - 1]) + 1

    def _may_close(self) -> bool:
        n_passed = np.count_nonzero(self._held.slots < self.open_slot)
        return (
            bool(n_passed >= self.config.min_rows)
            or self._n_oldest() >= self.config.row_limit
            or self._held.n_rows == self.config.capacity
        )

    def _n_oldest(self) -> int:
        """Count the rows of the oldest open slot and those merged into it."""
        return int(np.count_nonzero(self._held.slots <= self.open_slot))

    def _close(self, cuts: list[int]) -> list[Window]:
        if not cuts:
            return []
        starts = [0, *cuts[:-1]]
        windows = [self._window(start, stop) for start, stop in zip(starts, cuts, strict=True)]
        self._held.drop(cuts[-1])
        return windows

    def _window(self, start: int, stop: int) -> Window:
        held = self._held.rows
        return self._made(held.part(start, stop), int(held.records.max()))

    def _made(self, rows: Rows, closed_by: int, sampled: Sampled | None = None) -> Window:
        codes, times, _, records = rows
        codes = codes.copy()
        codes.setflags(write=False)
        timed = not np.isnan(times).any()
        self.n_windows += 1
        return Window(
            index=self.n_windows - 1,
            codes=codes,
            first_record=int(records.min()),
            last_record=int(records.max()),
            start=float(times.min()) if timed else None,
            end=float(times.max()) if timed else None,
            closed_by=closed_by,
            times=times.copy() if timed else None,
            sampled=sampled,
        )
