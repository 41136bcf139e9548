"""Windows that keep a sample of their records: those whose numbers have the smallest hashes.

Which records are kept follows from their numbers in the stream alone, so it does not matter in
which batches, after how many restarts or on how many machines they come: the k smallest of a union
are the k smallest of what each part has kept. Spark computes the same hash as ``xxhash64``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from driftbn.config import WindowConfig
from driftbn.windows.buffer import (
    HeldRows,
    Rows,
    Sampled,
    Window,
    WindowBuffer,
    slots_of,
)

Records = NDArray[np.int64]

_PRIMES: Final = tuple(
    map(
        np.uint64,
        (
            0x9E3779B185EBCA87,
            0xC2B2AE3D27D4EB4F,
            0x165667B19E3779F9,
            0x85EBCA77C2B2AE63,
            0x27D4EB2F165667C5,
        ),
    )
)
SEED: Final = 0
_ROUND: Final = 1 << 14  # numbers hashed at once, which stay in the processor's cache
_LARGEST: Final = 2**63 - 1
SPARE: Final = 6.0
"""Standard deviations by which more candidates are expected than are kept."""


def record_hash(records: Records) -> Records:
    """Return the hash of each record number: XXH64 of its eight bytes, seeded, as signed numbers.

    >>> record_hash(np.arange(2)).tolist()
    [-9199931545335556226, 8281773146650252936]
    """
    out = np.empty(len(records), np.int64)
    for start in range(0, len(records), _ROUND):
        out[start : start + _ROUND] = _hashed(records[start : start + _ROUND], _SEEDED)
    return out


def _hashed(numbers: Records, seed: np.uint64) -> Records:
    first, second, third, fourth, fifth = _PRIMES
    x = numbers.astype(np.uint64)
    x *= second
    x = _turned(x, 31)
    x *= first
    x ^= seed + fifth + np.uint64(8)
    x = _turned(x, 27)
    x *= first
    x += fourth
    for shift, factor in ((33, second), (29, third)):
        x ^= x >> np.uint64(shift)
        x *= factor
    x ^= x >> np.uint64(32)
    return x.view(np.int64)


def _turned(x: NDArray[np.uint64], n_bits: int) -> NDArray[np.uint64]:
    turned: NDArray[np.uint64] = (x << np.uint64(n_bits)) | (x >> np.uint64(64 - n_bits))
    return turned


with np.errstate(over="ignore"):
    _SEEDED: Final = _hashed(np.array([SEED]), np.uint64(42)).view(np.uint64)[0]


def candidate_threshold(size: int, max_rows: int) -> int:
    """Return the largest hash of a record that a window of ``size`` records may keep.

    So many more than ``max_rows`` pass that a window has too few about once in a billion.

    >>> candidate_threshold(1000, 1000) == 2**63 - 1
    True
    """
    share = min(1.0, (max_rows + SPARE * math.sqrt(max_rows)) / size)
    return min(int(share * 2.0**64), 2**64 - 1) - 2**63


class _Kept:
    """The rows that a window keeps, of those taken so far.

    ``n_taken``: how many these were.
    """

    def __init__(self, n_variables: int, max_rows: int) -> None:
        self._max_rows = max_rows
        self._held = HeldRows(n_variables, 2 * max_rows)
        self._limit = _LARGEST  # what has a larger hash is not kept
        self.n_taken = 0

    def take(self, rows: Rows) -> None:
        self.n_taken += rows.n_rows
        self._add(rows)

    def merge(self, later: _Kept) -> None:
        self.n_taken += later.n_taken
        self._add(later.rows)

    def _add(self, rows: Rows) -> None:
        hashes = record_hash(rows.records)
        for start in range(0, rows.n_rows, self._max_rows):
            places = self._wanted(hashes, start)
            if self._held.n_rows + len(places) > self._held.capacity:
                self._choose()
                places = self._wanted(hashes, start)
            self._held.take(rows.of(places))

    def _wanted(self, hashes: Records, start: int) -> NDArray[np.intp]:
        part = hashes[start : start + self._max_rows]
        return start + np.flatnonzero(part <= self._limit)

    @property
    def rows(self) -> Rows:
        """The rows kept, not copied: by arrival, or as ``sort`` has left them."""
        self._choose()
        return self._held.rows

    def sort(self) -> None:
        """Order the rows by slot, time and arrival."""
        self._held.sort()

    def state(self) -> dict[str, Any]:
        self._choose()
        return self._held.state()

    def take_state(self, state: Mapping[str, Any]) -> None:
        self._held.take_state(state)
        self.n_taken = state["n_taken"]
        self._choose()

    def _choose(self) -> None:
        if self._held.n_rows < self._max_rows:
            return
        hashes = record_hash(self._held.rows.records)
        self._limit = int(np.partition(hashes, self._max_rows - 1)[self._max_rows - 1])
        self._held.keep(np.flatnonzero(hashes <= self._limit))


class SampledBuffer(WindowBuffer):
    """A buffer whose windows keep at most ``max_rows`` of their records, in their order.

    A window by rows ends by the number of records; which of them are handed in at all may be
    settled before by ``candidate_threshold``. In windows by event time all are taken, as nobody
    knows how many there will be, and no slot is ever full. Memory: twice ``max_rows`` rows for each
    window that is open; more than one is so only where there is a lateness.

    >>> buffer = SampledBuffer(WindowConfig(size=1000), n_variables=1, max_rows=3)
    >>> (window,) = buffer.append(np.zeros((1, 1500), np.uint8))
    >>> window.n_rows, window.sampled, buffer.n_pending
    (3, Sampled(n_records=1000, n_taken=1000), 500)
    """

    def __init__(self, config: WindowConfig, n_variables: int, max_rows: int) -> None:
        super().__init__(config, n_variables)
        self.max_rows = max_rows
        self._kept: dict[float, _Kept] = {}  # by slot; of merged ones by the last; 0 in row windows
        self._first = 0  # record of the row window that is open

    @property
    def _capacity(self) -> int:
        return 0

    @property
    def n_pending(self) -> int:
        if self.config.seconds is None:
            return self.n_records - self._first
        return sum(kept.n_taken for kept in self._kept.values())

    def flush(self) -> tuple[Window, ...]:
        if self.config.seconds is None:
            n_records, self._first = self.n_records - self._first, self.n_records
            return tuple(self._sampled(kept, n_records) for kept in self._taken_out(np.inf))
        self.open_slot = max(self.open_slot, float(slots_of(self.largest_time, self.config)) + 1)
        windows = list(self._close_passed())
        return (*windows, *(self._sampled(kept) for kept in self._taken_out(np.inf)))

    def _append_by_rows(self, batch: Rows) -> Iterator[Window]:
        position, size = 0, self.config.row_limit
        while True:
            end = self._first + size
            stop = int(np.searchsorted(batch.records, end))
            self._take(0.0, batch.part(position, stop))
            position = stop
            if self.n_records < end:
                return
            self._first = end
            for kept in self._taken_out(np.inf):
                yield self._sampled(kept, size, closed_by=end - 1)

    def _append_by_time(self, batch: Rows) -> Iterator[Window]:
        batch, opens = self._admit(batch)
        moves = np.flatnonzero(opens > np.concatenate(([self.open_slot], opens[:-1])))
        position = 0
        for stop in dict.fromkeys([*(moves + 1).tolist(), batch.n_rows]):
            part = batch.part(position, stop)
            for slot in np.unique(part.slots).tolist():
                self._take(slot, part.of(np.flatnonzero(part.slots == slot)))
            if part.n_rows:
                self.open_slot = float(opens[stop - 1])
                yield from self._close_passed(closed_by=int(part.records[-1]))
            position = stop

    def _take(self, slot: float, rows: Rows) -> None:
        if rows.n_rows:
            if slot not in self._kept:
                self._kept[slot] = _Kept(self.n_variables, self.max_rows)
            self._kept[slot].take(rows)

    def _taken_out(self, before: float) -> list[_Kept]:
        """Return what is kept of the slots before one, the oldest first, and hold it no more."""
        slots = sorted(slot for slot in self._kept if slot < before)
        return [self._kept.pop(slot) for slot in slots]

    def _close_passed(self, closed_by: int = -1) -> Iterator[Window]:
        """Close the slots that have passed; one with few records is merged with the next."""
        group: _Kept | None = None
        last = max((slot for slot in self._kept if slot < self.open_slot), default=0.0)
        for kept in self._taken_out(self.open_slot):
            if group is None:
                group = kept
            else:
                group.merge(kept)
            if group.n_taken >= self.config.min_rows:
                yield self._sampled(group, closed_by=closed_by)
                group = None
        if group is not None:
            self._kept[last] = group

    def _sampled(self, kept: _Kept, n_records: int | None = None, closed_by: int = -1) -> Window:
        if self.config.seconds is not None:
            kept.sort()
        n_records = kept.n_taken if n_records is None else n_records
        sampled = Sampled(n_records, kept.n_taken) if kept.rows.n_rows < n_records else None
        return self._made(kept.rows, closed_by, sampled)

    def _rows_state(self) -> dict[str, Any]:
        kept = [
            {"slot": slot, "n_taken": kept.n_taken, **kept.state()}
            for slot, kept in sorted(self._kept.items())
        ]
        return {"max_rows": self.max_rows, "first": self._first, "kept": kept}

    def _take_rows_state(self, state: Mapping[str, Any]) -> None:
        self._first = state["first"]
        for part in state["kept"]:
            kept = _Kept(self.n_variables, self.max_rows)
            kept.take_state(part)
            self._kept[part["slot"]] = kept
