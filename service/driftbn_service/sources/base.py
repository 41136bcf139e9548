"""What every source of records gives: pieces of the stream, each with the place after it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol, TypeAlias

from driftbn.errors import DriftbnError
from driftbn_service.records.rows import Undecoded

Position: TypeAlias = Mapping[str, Any]
"""Where a lane goes on, as plain JSON values; only the source that made it reads it."""


class SourceError(DriftbnError):
    """A source cannot be read.

    ``problem`` is what is wrong or what to do; after a ``fatal`` one, trying again is of no use.
    """

    def __init__(self, source: str, problem: str, *, fatal: bool = False) -> None:
        self.source = source
        self.problem = problem
        self.fatal = fatal
        super().__init__(f"{source}: {problem}")


@dataclass(frozen=True, kw_only=True)
class Chunk(Undecoded):
    """Whole records of one lane that follow each other."""

    lane: str = ""  # the part of the stream with an order of its own; "" where there is only one
    position: Position  # where to go on after this chunk
    # About how many records wait behind this chunk; ``None`` if that is not known.
    n_behind: int | None = None
    # Whether these are bytes, because the source does not know records.
    behind_in_bytes: bool = False
    # Where this chunk begins, if reading from there gives the same records in the same order,
    # perhaps cut otherwise; ``None`` if that is not certain. With it a checkpoint can be made amid
    # the chunk.
    start: Position | None = None


class LaneListener(Protocol):
    """What a source tells when it gets or loses a lane.

    Both are called by the thread that calls ``poll``, and may block.
    """

    def opened(self, lane: str) -> Position | None:
        """Take over a lane and return where to go on; ``None`` for one never read before."""

    def closed(self, lane: str) -> None:
        """Work through what was read of a lane, write its checkpoint and let go of it.

        On return the lane belongs to nobody, and chunks of it must not be given any more.
        """


class RecordSource(Protocol):
    """A source of records; all but ``stop`` are called by one thread."""

    name: str
    """The source in words, for messages: ``file orders.ndjson``, ``topic orders``."""

    def open(self, listener: LaneListener) -> None:
        """Connect. The listener is told of every lane before its first chunk, here or in ``poll``.

        Raises ``SourceError`` if it cannot be read.
        """

    def poll(self, timeout: float) -> Chunk | None:
        """Return the next chunk, or ``None`` if none came within ``timeout`` seconds.

        Raises ``SourceError`` if reading fails. Unless it is fatal, ``poll`` may be called again
        and reconnects.
        """

    @property
    def drained(self) -> bool:
        """Whether all is read and nothing will ever come."""

    @property
    def ready(self) -> bool:
        """Whether the source is connected. May be read by any thread."""

    def release(self, lane: str, position: Position) -> None:
        """Forget what is before ``position``: a checkpoint that nobody goes behind is there.

        Brokers are told here. Must not fail for good if it fails once: called again later with a
        later position, it catches up. Called by the polling thread.
        """

    def close(self) -> None:
        """Let go of everything; lanes that are open are not told."""


# Messages of brokers as lines: one block of bytes, and the way back from a byte to its message.

# Between two objects that stand on lines of their own. A comma would be there if it were one value.
_BETWEEN_RECORDS = re.compile(rb"(?<=\})[ \t\r]*\n\s*(?=\{)")


def on_lines(value: bytes) -> bytes:
    r"""Return JSON records of a message so that a line break stands only between two of them.

    Inside a JSON string there is no raw line break, so that one is as good as a space.

    >>> on_lines(b'{"a": 1,\n "b": 2}\n')
    b'{"a": 1,  "b": 2}'
    >>> on_lines(b'{"a": 1}\r\n{"a": 2}')
    b'{"a": 1}\n{"a": 2}'
    """
    records = _BETWEEN_RECORDS.split(value.strip())
    return b"\n".join(record.replace(b"\n", b" ") for record in records)


class JoinedMessages:
    """Messages of JSON joined to lines.

    An empty message becomes a blank line.
    """

    def __init__(self, values: Sequence[bytes]) -> None:
        self.data = b"\n".join(values) + b"\n"
        if self.data.count(b"\n") != len(values):
            values = [on_lines(value) if b"\n" in value else value for value in values]
            self.data = b"\n".join(values) + b"\n"
        self._ends = list(accumulate(len(value) + 1 for value in values))

    def message_at(self, byte: int) -> int:
        return min(bisect_right(self._ends, byte), len(self._ends) - 1)

    def place(self, describe: Callable[[int], str]) -> Callable[[int, int], str]:
        """Return what says where a record stands, from what does so for a message."""
        return lambda record, byte: describe(self.message_at(byte))
