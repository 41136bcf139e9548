"""Rows held for windows to come, in memory of a fixed size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbn.errors import FormatError


class Rows(NamedTuple):
    """Rows of the stream; the last axis of each array runs over them."""

    codes: NDArray[np.uint8]  # [variables, rows]
    times: NDArray[np.float64]  # [rows], NaN where there is none
    slots: NDArray[np.float64]  # [rows], number of the time window; 0 in row windows
    records: NDArray[np.int64]  # [rows]

    def part(self, start: int, stop: int) -> Rows:
        """Return the rows from one up to another, not copied."""
        place = slice(start, stop)
        return Rows(self.codes[:, place], self.times[place], self.slots[place], self.records[place])


class HeldRows:
    """Takes rows at its end and drops them at its start.

    Parameters
    ----------
    n_variables
        Rows of the code matrix.
    capacity
        The most rows that can be held.

    Examples
    --------
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
        """Those of the rows held; not copied."""
        return self._memory.slots[: self.n_rows]

    def take(self, rows: Rows) -> None:
        """Hold more rows; there must be room for them."""
        end = self.n_rows + rows.times.size
        memory, place = self._memory, slice(self.n_rows, end)
        memory.codes[:, place] = rows.codes
        memory.times[place] = rows.times
        memory.slots[place] = rows.slots
        memory.records[place] = rows.records
        self.n_rows = end

    def drop(self, n_rows: int) -> None:
        """Forget the first rows."""
        n_left = self.n_rows - n_rows
        for kept in self._memory:
            kept[..., :n_left] = kept[..., n_rows : self.n_rows]
        self.n_rows = n_left

    def clear(self) -> None:
        """Forget all rows."""
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
        """Return the rows as arrays (copies)."""
        return {name: kept.copy() for name, kept in self.rows._asdict().items()}

    def take_state(self, state: Mapping[str, Any], n_least: int) -> None:
        """Hold the rows of a state, at least so many.

        Raises
        ------
        FormatError
            If they are something else, or do not fit.
        """
        times = state.get("times")
        n_rows = times.size if isinstance(times, np.ndarray) else 0
        if n_rows >= self.capacity or n_rows < n_least:
            raise FormatError(f"buffer state has {n_rows} rows, which do not fit the settings")
        for name, kept in self._memory._asdict().items():
            rows, shape = state.get(name), (*kept.shape[:-1], n_rows)
            if not isinstance(rows, np.ndarray) or (rows.dtype, rows.shape) != (kept.dtype, shape):
                raise FormatError(f"buffer state {name!r} must be {kept.dtype} of shape {shape}")
            kept[..., :n_rows] = rows
        self.n_rows = n_rows
