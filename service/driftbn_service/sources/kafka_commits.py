"""Offsets that a consumer group is told of: for tools that watch it, not for our own restart."""

from __future__ import annotations

import logging

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

logger = logging.getLogger(f"driftbn.{__name__}")


class GroupOffsets:
    """What the group should know and what it knows.

    Parameters
    ----------
    topic, group
        The topic and the consumer group.
    """

    def __init__(self, topic: str, group: str) -> None:
        self.topic = topic
        self.group = group
        self._released: dict[int, int] = {}
        self._committed: dict[int, int] = {}

    @property
    def pending(self) -> list[TopicPartition]:
        """What the group does not know yet."""
        return [
            TopicPartition(self.topic, partition, offset)
            for partition, offset in sorted(self._released.items())
            if self._committed.get(partition) != offset
        ]

    def release(self, offsets: dict[int, int], consumer: Consumer) -> None:
        """Tell the group, without waiting; what fails goes with the next."""
        self._released.update(offsets)
        pending = self.pending
        if not pending:
            return
        try:
            consumer.commit(offsets=pending, asynchronous=True)
        except KafkaException as error:
            logger.warning("topic %s: offsets are not committed: %s", self.topic, error)

    def forget(self, partition: int) -> None:
        """Leave a partition to another member."""
        self._released.pop(partition, None)
        self._committed.pop(partition, None)

    def on_commit(self, error: KafkaError | None, places: list[TopicPartition]) -> None:
        """Take note of how a commit went; the client calls it."""
        for place in places:
            problem = error or place.error
            if problem is None:
                self._committed[place.partition] = place.offset
            else:
                logger.warning(
                    "topic %s[%d]: group %s does not take offset %d: %s; told again with the next"
                    " checkpoint, which does not depend on it",
                    self.topic, place.partition, self.group, place.offset, problem.str(),
                )  # fmt: skip
