"""The events at the end of a topic of Kafka."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from driftbn_service.events import fingerprint_of

logger = logging.getLogger("driftbn.service.outlets.kafka")

TIMEOUT_SECONDS: Final = 10.0
"""How long an answer may take."""
LOOK_BACK_MESSAGES: Final = 5000
"""Messages that are read of a topic, over all its partitions: far more than a crash leaves."""
LEAST_LOOK_BACK: Final = 200
"""Messages of each partition at least."""

_CONSUMER: Final[Mapping[str, Any]] = {
    "group.id": "driftbn-look-back",  # has to be given; it is never joined
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "isolation.level": "read_uncommitted",  # a transaction that was left open must not stop us
}


def events_at_end(
    config: Mapping[str, Any], partitions: Sequence[TopicPartition], clock: Callable[[], float]
) -> list[str]:
    """Return the fingerprints of the events at the end of each partition.

    Parameters
    ----------
    config
        How to connect.
    partitions
        All partitions of the topic.
    clock
        Returns seconds.

    Raises
    ------
    KafkaException
        If the end is not reached in time.
    """
    consumer = Consumer({**config, **_CONSUMER}, logger=logger)
    try:
        tail = _Tail(consumer, partitions)
        deadline = clock() + TIMEOUT_SECONDS
        while tail.open:
            if clock() >= deadline:
                reason = "the end of the topic could not be read in time"
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, reason))
            tail.read()
        return tail.found
    finally:
        consumer.close()


class _Tail:
    """Reads partitions from some messages before their ends up to these."""

    def __init__(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self.found: list[str] = []
        self.open: dict[int, int] = {}
        self._consumer = consumer
        n_messages = max(LEAST_LOOK_BACK, LOOK_BACK_MESSAGES // max(1, len(partitions)))
        starts = []
        for partition in partitions:
            low, high = consumer.get_watermark_offsets(partition, timeout=TIMEOUT_SECONDS)
            start = max(low, high - n_messages)
            if start < high:
                starts.append(TopicPartition(partition.topic, partition.partition, start))
                self.open[partition.partition] = high
        consumer.assign(starts)

    def read(self) -> None:
        """Take one message, if one comes within a second."""
        message = self._consumer.poll(1.0)
        if message is None:
            return
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        if error is None:
            self.found += _fingerprints(message)
        # Offsets may have gaps at the end: then only the broker's word ends a partition.
        end = self.open.get(partition or 0, 0)
        if error is not None or (offset or 0) + 1 >= end:
            self.open.pop(partition or 0, None)


def _fingerprints(message: Message) -> list[str]:
    """Return the fingerprint of an event; none for anything else that stands in the topic."""
    value = message.value()
    try:
        document = json.loads(value) if value else None
    except (ValueError, RecursionError):
        return []
    return [fingerprint_of(document)] if isinstance(document, dict) else []
