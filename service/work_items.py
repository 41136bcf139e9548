"""What the thread that reads hands to the thread that learns."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from service.decoding import Decoded
from service.sources.base import Chunk, Position


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
    decoder_state
        What the decoder needs to go on after them.
    n_behind
        How many records wait behind them in the source, about; ``None`` if it does not know.
    """

    lane: str
    decoded: Decoded
    position: Position
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


def records_behind(chunk: Chunk, decoded: Decoded) -> int | None:
    """Return how many records wait in the source, about, where it may count them in bytes."""
    if chunk.n_behind is None or not chunk.behind_in_bytes:
        return chunk.n_behind
    n_records = decoded.n_rows + len(decoded.rejected)
    return round(chunk.n_behind * n_records / max(1, n_bytes(chunk)))


def n_bytes(chunk: Chunk) -> int:
    """Return how much memory the data of a chunk takes."""
    return len(chunk.data) if isinstance(chunk.data, bytes) else int(chunk.data.nbytes)
