"""The lanes of a topic that are ours at the moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from confluent_kafka import Message, TopicPartition

from driftbn_service.settings import KafkaSourceSettings
from driftbn_service.sources.base import LaneListener, Position, SourceError
from driftbn_service.sources.kafka_lane import LaneMessages


class Lanes:
    """Lanes by name; a listener is told of each that comes and goes.

    Parameters
    ----------
    settings
        Of the source.
    listener
        Is told, and says where to go on.
    """

    def __init__(self, settings: KafkaSourceSettings, listener: LaneListener) -> None:
        self._settings = settings
        self._listener = listener
        self._lanes: dict[str, LaneMessages] = {}

    def __iter__(self) -> Iterator[LaneMessages]:
        return iter(self._lanes.values())

    def __contains__(self, name: str) -> bool:
        return name in self._lanes

    def __getitem__(self, name: str) -> LaneMessages:
        return self._lanes[name]

    def open(self, name: str) -> LaneMessages:
        """Take over a lane; it has no offsets if it was never read before.

        Raises
        ------
        SourceError
            If its checkpoint is of another topic.
        """
        topic = self._settings.topic
        position = self._listener.opened(name)
        if position is not None and position["topic"] != topic:
            problem = f"the checkpoint is of topic {position['topic']}; name the stream otherwise"
            raise SourceError(f"topic {topic}", problem, fatal=True)
        offsets = {} if position is None else offsets_of(position)
        self._lanes[name] = LaneMessages(topic, name, self._settings.format, offsets)
        return self._lanes[name]

    def close(self, name: str) -> None:
        """Let go of a lane; one that was not open is passed over."""
        if name in self._lanes:
            self._listener.closed(name)
            del self._lanes[name]

    def close_all(self) -> None:
        """Let go of all."""
        for name in list(self._lanes):
            self.close(name)

    def take(self, messages: Iterable[Message]) -> Iterator[LaneMessages]:
        """Give messages to their lanes, and yield every lane that has enough for a chunk.

        After a rebalance there may be messages of a lane that is not ours any more.
        """
        owners = {partition: lane for lane in self for partition in lane.offsets}
        for message in messages:
            lane = owners.get(message.partition() or 0)
            if lane is not None and lane.add(message):
                yield lane

    def owner(self, partition: int) -> LaneMessages | None:
        """Return the lane of a partition; ``None`` if it is not ours."""
        return next((lane for lane in self if partition in lane.offsets), None)

    def places(self, partitions: Iterable[int] | None = None) -> list[TopicPartition]:
        """Return where to go on in partitions, in all of them unless given."""
        offsets = {number: offset for lane in self for number, offset in lane.offsets.items()}
        wanted = offsets if partitions is None else partitions
        return [TopicPartition(self._settings.topic, number, offsets[number]) for number in wanted]


def offsets_of(position: Position) -> dict[int, int]:
    """Return the offsets of a position by partition."""
    return {int(partition): offset for partition, offset in position["offsets"].items()}
