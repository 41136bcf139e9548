"""What a topic of Kafka says about itself: its partitions, and where each begins and ends."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from driftbn_service.settings import KafkaSourceSettings, Start
from driftbn_service.sources.base import SourceError

logger = logging.getLogger(f"driftbn.{__name__}")

ANSWER_SECONDS: Final = 2.0
"""How long a broker may take to answer a question; short, since reading waits for it."""

_REFUSED: Final = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED}
)


class Topic:
    """A topic, asked through a consumer.

    Parameters
    ----------
    settings
        Of the source.
    consumer
        A consumer of its group.
    """

    def __init__(self, settings: KafkaSourceSettings, consumer: Consumer) -> None:
        self.name = f"topic {settings.topic}"
        self._settings = settings
        self._consumer = consumer

    def partitions(self) -> list[int]:
        """Return the numbers of the partitions.

        Raises
        ------
        SourceError
            If there is no such topic, or it may not be read.
        KafkaException
            If no broker answers.
        """
        settings = self._settings
        found = self._consumer.list_topics(settings.topic, timeout=ANSWER_SECONDS)
        topic = found.topics[settings.topic]
        if topic.error is None:
            return sorted(topic.partitions)
        self.check(topic.error)
        if topic.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            brokers = ", ".join(settings.brokers)
            problem = f"there is no such topic at {brokers}: create it, or mend the setting 'topic'"
            raise SourceError(self.name, problem)
        raise KafkaException(topic.error)

    def first_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return where to begin partitions that have no checkpoint.

        That is where the group stands, else the beginning or end, as the settings say.

        Raises
        ------
        KafkaException
            If the brokers do not answer.
        """
        asked = [TopicPartition(self._settings.topic, partition) for partition in partitions]
        offsets: dict[int, int] = {}
        at_end = []
        for place in self._consumer.committed(asked, timeout=ANSWER_SECONDS):
            if place.error is not None:
                raise KafkaException(place.error)
            if place.offset < 0:
                first, end = self.bounds(place.partition)
                place.offset = first if self._settings.start is Start.EARLIEST else end
                at_end.append(place)
            offsets[place.partition] = place.offset
        if at_end and self._settings.start is Start.LATEST:
            # Otherwise a restart before the first checkpoint would pass over what came since.
            self._consumer.commit(offsets=at_end, asynchronous=False)
        return offsets

    def bounds(self, partition: int) -> tuple[int, int]:
        """Return the offset of the oldest message and that of the next to come.

        Raises
        ------
        KafkaException
            If the brokers do not answer.
        """
        place = TopicPartition(self._settings.topic, partition)
        found = self._consumer.get_watermark_offsets(place, timeout=ANSWER_SECONDS)
        if found is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return found

    def n_behind(self, offsets: dict[int, int]) -> int | None:
        """Return how many messages wait, by what the last answers said; nobody is asked."""
        n_behind = 0
        for partition, offset in offsets.items():
            place = TopicPartition(self._settings.topic, partition)
            try:
                bounds = self._consumer.get_watermark_offsets(place, cached=True)
            except KafkaException:
                return None  # a partition that is not known yet
            if bounds is None or bounds[1] < 0:
                return None
            n_behind += max(0, bounds[1] - offset)
        return n_behind

    def after_gap(self, partition: int, expected: int) -> int:
        """Say loudly that an offset is gone; return the one to go on at.

        Raises
        ------
        KafkaException
            If the brokers do not answer.
        """
        first, end = self.bounds(partition)
        where = f"{self.name}[{partition}]"
        if expected < first:
            logger.error(
                "%s: %d records are lost: the broker deleted offsets %d to %d before they were"
                " read; going on at %d. Let the topic keep its records for longer.",
                where, first - expected, expected, first - 1, first,
            )  # fmt: skip
        elif expected > end:
            logger.error(
                "%s: offset %d was to come, but the topic ends at %d: it was made anew or has lost"
                " records; going on at its beginning, %d",
                where, expected, end, first,
            )  # fmt: skip
        else:
            return expected
        return first

    def check(self, error: KafkaError) -> None:
        """Pass over what may go away by itself.

        Raises
        ------
        SourceError
            If it does not.
        """
        if error.code() in _REFUSED:
            problem = f"reading is not allowed: {error.str()}; give the user the rights to it"
            raise SourceError(self.name, problem, fatal=True)
        if error.fatal():
            raise SourceError(self.name, f"the client has failed: {error.str()}", fatal=True)


def reason_of(error: KafkaException) -> str:
    """Return what went wrong in words."""
    cause = error.args[0] if error.args else error
    return cause.str() if isinstance(cause, KafkaError) else str(cause)
