"""Messages of Kafka joined to chunks, each with the offsets after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from confluent_kafka import Message

from driftbn_service.sources.base import Chunk, Position
from driftbn_service.sources.messages import Lines
from driftbn_service.tables import TableFormat

CHUNK_BYTES: Final = 4 * 1024 * 1024
"""A chunk is cut when it has grown to this; the queue behind counts in such pieces."""


class LaneMessages:
    """The messages of one lane that are not yet in a chunk, and the offsets after them.

    Parameters
    ----------
    topic, lane
        The topic, and the lane of the stream.
    kind
        How the value of a message is written.
    offsets
        Where to go on in each partition of the lane; kept up to date.
    """

    def __init__(self, topic: str, lane: str, kind: TableFormat, offsets: dict[int, int]) -> None:
        self.topic = topic
        self.lane = lane
        self.kind = kind
        self.offsets = offsets
        self._reset()

    def _reset(self) -> None:
        self._values: list[bytes] = []
        self._places: list[tuple[int, int]] = []
        self._n_bytes = 0

    def add(self, message: Message) -> bool:
        """Take a message, unless it is one that was seen before.

        Returns
        -------
        bool
            Whether a chunk should now be cut.
        """
        partition, offset = message.partition(), message.offset()
        if partition is None or offset is None or offset < self.offsets[partition]:
            return False
        self.offsets[partition] = offset + 1
        value = message.value() or b""
        joined = self.kind is TableFormat.NDJSON
        if value or joined:
            self._values.append(value)
            self._places.append((partition, offset))
            self._n_bytes += len(value)
        return self._n_bytes >= CHUNK_BYTES or (bool(value) and not joined)

    def cut(self, n_behind: Callable[[dict[int, int]], int | None]) -> Chunk | None:
        """Return what was taken as a chunk; ``None`` if there is nothing.

        Parameters
        ----------
        n_behind
            Says how many messages wait behind offsets.
        """
        if not self._values:
            return None
        values, places = self._values, self._places
        self._reset()

        def describe(message: int) -> str:
            partition, offset = places[message]
            return f"topic {self.topic}[{partition}] offset {offset}"

        data, place = values[0], lambda record, byte: describe(0)
        if self.kind is TableFormat.NDJSON:
            lines = Lines(values)
            data, place = lines.data, lines.place(describe)
        return Chunk(
            lane=self.lane,
            data=data,
            kind=self.kind,
            position=self.position(),
            place=place,
            n_behind=n_behind(self.offsets),
        )

    def position(self) -> Position:
        """Return where to go on after all that was taken."""
        offsets = {str(partition): self.offsets[partition] for partition in sorted(self.offsets)}
        return {"topic": self.topic, "offsets": offsets}
