"""Events sent to a topic of Kafka, each exactly once."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from driftbn_service.events import Event
from driftbn_service.outlets.base import Outlet, OutletError, RecentEvents, fingerprint_in
from driftbn_service.settings import KafkaOutletSettings

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


def events_at_end(config: Mapping[str, Any], partitions: Sequence[TopicPartition]) -> list[str]:
    """Return fingerprints from the end of each partition; ``KafkaException`` if not in time."""
    consumer = Consumer({**config, **_CONSUMER}, logger=logger)
    n_messages = max(LEAST_LOOK_BACK, LOOK_BACK_MESSAGES // max(1, len(partitions)))
    try:
        starts, ends = [], {}
        for partition in partitions:
            low, high = consumer.get_watermark_offsets(partition, timeout=TIMEOUT_SECONDS)
            start = max(low, high - n_messages)
            if start < high:
                starts.append(TopicPartition(partition.topic, partition.partition, start))
                ends[partition.partition] = high
        consumer.assign(starts)
        return list(_read_up_to(ends, consumer))
    finally:
        consumer.close()


def _read_up_to(ends: dict[int, int], consumer: Consumer) -> Iterator[str]:
    deadline = monotonic() + TIMEOUT_SECONDS
    while ends:
        if monotonic() >= deadline:
            reason = "the end of the topic could not be read in time"
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, reason))
        message = consumer.poll(1.0)
        if message is None:
            continue
        error, partition, offset = message.error(), message.partition() or 0, message.offset() or 0
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        if error is None and (fingerprint := fingerprint_in(message.value() or b"")):
            yield fingerprint
        # Offsets may have gaps at the end: then only the broker's word ends a partition.
        if error is not None or offset + 1 >= ends.get(partition, 0):
            ends.pop(partition, None)


_TOO_LARGE: Final = frozenset(
    {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE, KafkaError.INVALID_RECORD}
)
_PRODUCER: Final[dict[str, Any]] = {
    "enable.idempotence": True,
    "acks": "all",
    # An event that waits is never given up by the producer, so it is never produced twice.
    "message.timeout.ms": 0,
    # A broker refuses a whole batch for its size: an event must not be refused for another's.
    "batch.num.messages": 1,
    "linger.ms": 0,
}


class KafkaOutlet(Outlet):
    """Produces events to a topic, as CloudEvents in structured mode.

    The key is the monitor, so the events of one monitor keep their order. While the process lives
    the producer itself sees to it that nothing comes twice: an event without a receipt is not
    produced again but waited for. After a crash the end of the topic is searched for the events
    that are still to be sent.
    """

    def __init__(self, settings: KafkaOutletSettings) -> None:
        super().__init__(settings.name)
        self._settings = settings
        self._producer: Producer | None = None
        self._reset()

    def _reset(self) -> None:
        self._done = RecentEvents()
        self._refused = RecentEvents()
        self._under_way: set[str] = set()
        self._failures: dict[str, KafkaError] = {}

    def open(self) -> None:
        self.close()
        try:
            producer = Producer({**self._common(), **_PRODUCER}, logger=logger)
            partitions = self._partitions(producer)
            self._done.add(events_at_end(self._common(), partitions))
        except KafkaException as error:
            raise OutletError(self.name, self._problem(error.args[0])) from error
        self._producer = producer

    def send(self, events: Sequence[Event]) -> None:
        """Produce events that are not there yet, and wait for their receipts."""
        if self._producer is None:
            self.open()
        producer = self._producer
        assert producer is not None
        wanted = [event.fingerprint for event in events]
        for fingerprint, event in zip(wanted, events, strict=True):
            if fingerprint not in self._done and fingerprint not in self._under_way:
                self._produce(producer, fingerprint, event)
        producer.flush(TIMEOUT_SECONDS)
        n_done = next((i for i, text in enumerate(wanted) if text not in self._done), len(wanted))
        done = zip(wanted, events[:n_done], strict=False)
        self.refused = tuple(event for text, event in done if text in self._refused)
        if n_done < len(wanted):
            raise self._error(self._failures.pop(wanted[n_done], None), n_done)

    def close(self) -> None:
        """Forget what has no receipt; the next ``open`` finds out what became of it."""
        if self._producer is not None:
            self._producer.purge()
            self._producer.flush(0)
            self._producer = None
        self._reset()

    def _produce(self, producer: Producer, fingerprint: str, event: Event) -> None:
        document = event.document
        attributes = ("specversion", "id", "type", "source", "subject", "time")
        headers = {"content-type": "application/cloudevents+json; charset=UTF-8"}
        headers |= {f"ce_{name}": document[name] for name in attributes if name in document}
        self._failures.pop(fingerprint, None)
        self._under_way.add(fingerprint)
        report = partial(self._reported, fingerprint, event)
        try:
            producer.produce(
                self._settings.topic,
                value=event.to_json(),
                key=document.get("partitionkey", event.stream),
                headers=[(name, value.encode()) for name, value in headers.items()],
                on_delivery=report,
            )
        except KafkaException as error:
            self._reported(fingerprint, event, error.args[0], None)
        except BufferError:  # so many are under way that this one has to wait for its turn
            self._under_way.discard(fingerprint)

    def _reported(
        self, fingerprint: str, event: Event, error: KafkaError | None, _: Message | None
    ) -> None:
        self._under_way.discard(fingerprint)
        if error is None:
            self._done.add([fingerprint])
        elif error.code() in _TOO_LARGE:
            self._refused.add([fingerprint])
            self._done.add([fingerprint])
            logger.error(
                "topic %s refuses an event for good (%s); it is not sent again",
                self._settings.topic,
                error.str(),
                extra={"outlet": self.name, "event_id": event.id, "event_type": event.type},
            )
        else:
            self._failures[fingerprint] = error

    def _error(self, error: KafkaError | None, n_done: int) -> OutletError:
        if error is None:
            problem = f"topic {self._settings.topic}: no receipt within {TIMEOUT_SECONDS:g} s"
            return OutletError(self.name, f"{problem}; the events wait", n_delivered=n_done)
        if error.fatal():
            self.close()
        return OutletError(self.name, self._problem(error), n_delivered=n_done)

    def _problem(self, error: KafkaError) -> str:
        topic = self._settings.topic
        if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            return f"there is no topic {topic}; create it"
        return f"topic {topic}: {error.str()}"

    def _partitions(self, producer: Producer) -> list[TopicPartition]:
        """Return the partitions; asking makes the topic where brokers make topics by themselves."""
        topic = self._settings.topic
        found = producer.list_topics(topic, timeout=TIMEOUT_SECONDS).topics[topic]
        if found.error is not None:
            raise KafkaException(found.error)
        return [TopicPartition(topic, number) for number in sorted(found.partitions)]

    def _common(self) -> dict[str, Any]:
        return {"client.id": f"driftbn-{self.name}", **self._settings.client_options}
