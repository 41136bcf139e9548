"""Event time in slots: which slot a row is in, and where windows end when slots are closed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbn.config import WindowConfig
from driftbn.errors import DataError

_MAX_SLOT: Final = 2.0**53
"""Up to here a float counts without gaps."""


def read_clock(times: ArrayLike, n_rows: int) -> NDArray[np.float64]:
    """Return the times of rows as numbers.

    Raises DataError if they are no numbers, not one a row, or not finite.
    """
    given = np.asarray(times)
    if given.shape != (n_rows,) or (n_rows and given.dtype.kind not in "fiu"):
        found = f"{given.dtype} of shape {given.shape}"
        raise DataError(f"times must be numbers of shape ({n_rows},), not {found}")
    clock = given.astype(np.float64)
    _refuse(np.flatnonzero(~np.isfinite(clock)), clock, "is not a finite number of seconds")
    return clock


def read_slots(clock: NDArray[np.float64], config: WindowConfig) -> NDArray[np.float64]:
    """Return the slots of rows.

    Raises DataError if a time is so far from the origin that slots have no number there.
    """
    far = np.flatnonzero(~have_slots(clock, config))
    _refuse(far, clock, f"is too far from the origin {config.origin}")
    return slots_of(clock, config)


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


def _refuse(rows: NDArray[np.intp], times: NDArray[np.float64], problem: str) -> None:
    if rows.size:
        row, value = int(rows[0]), float(times[rows[0]])
        raise DataError(f"time {value!r} {problem}", row=row, value=value)
