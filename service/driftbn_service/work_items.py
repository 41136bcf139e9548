"""What the thread that reads hands to the thread that learns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from driftbn_service.records import Decoded, Rows
from driftbn_service.records.rows import cut, n_rows_of
from driftbn_service.sources.base import Chunk, Position

PART_SECONDS: Final = 0.25
"""How long the rows may take that are worked through between two looks at the clock."""
FIRST_ROWS: Final = 2048
LEAST_ROWS: Final = 256
_REJECTED_BYTES: Final = 600  # of a record that is set aside


@dataclass(frozen=True)
class Work:
    """Records to learn from.

    Parameters
    ----------
    lane
        Where they came from.
    decoded
        The records, and those that could not be read.
    position
        Where the source is after them.
    start
        Where it was before them, if it can be read again from there.
    decoder_state
        What the decoder needs to go on after them.
    n_behind
        How many records wait behind them in the source, about; ``None`` if it does not know.
    """

    lane: str
    decoded: Decoded
    position: Position
    start: Position | None
    decoder_state: Mapping[str, Any]
    n_behind: int | None


@dataclass(frozen=True)
class CloseLane:
    """A lane to let go of.

    Parameters
    ----------
    lane
        Its name.
    done
        Is set when that is done.
    """

    lane: str
    done: threading.Event


class End:
    """Nothing more will be read."""


class Pace:
    """Cuts rows into parts that take about a quarter of a second, by how long earlier ones took.

    Parameters
    ----------
    clock
        Returns seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._n_at_once = FIRST_ROWS

    def parts(self, batches: Iterable[Rows]) -> Iterator[Rows]:
        """Iterate over all rows; each part is to be done when the next is asked for."""
        for rows in batches:
            start, n_rows = 0, n_rows_of(rows)
            while start < n_rows:
                stop = min(n_rows, start + self._n_at_once)
                began = self._clock()
                yield cut(rows, start, stop)
                self._note(stop - start, self._clock() - began)
                start = stop

    def _note(self, n_rows: int, seconds: float) -> None:
        if seconds > PART_SECONDS:
            self._n_at_once = max(LEAST_ROWS, int(n_rows * PART_SECONDS / seconds))
        elif n_rows == self._n_at_once and 2 * seconds < PART_SECONDS:
            self._n_at_once *= 2


def records_behind(chunk: Chunk, decoded: Decoded) -> int | None:
    """Return how many records wait in the source, about, where it may count them in bytes."""
    if chunk.n_behind is None or not chunk.behind_in_bytes:
        return chunk.n_behind
    n_records = decoded.n_rows + decoded.n_rejected
    return round(chunk.n_behind * n_records / max(1, n_bytes(chunk)))


def cost_of(chunk: Chunk, decoded: Decoded) -> int:
    """Return about how much memory a chunk takes once it is decoded."""
    return n_bytes(chunk) + _REJECTED_BYTES * len(decoded.rejected)


def n_bytes(chunk: Chunk) -> int:
    """Return how much memory the data of a chunk takes."""
    return len(chunk.data) if isinstance(chunk.data, bytes) else int(chunk.data.nbytes)
