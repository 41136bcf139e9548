"""A topic of Kafka and the lanes of it that are ours: client settings, offsets, messages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from driftbn_service.records.formats import TableFormat
from driftbn_service.settings import KafkaSourceSettings, Start
from driftbn_service.sources.base import Chunk, LaneListener, Lines, Position, SourceError

_CRITICAL: Final = 2  # as syslog counts levels


def client_options(settings: KafkaSourceSettings) -> dict[str, Any]:
    """Return the settings of the consumer, without callbacks.

    >>> settings = KafkaSourceSettings(
    ...     brokers=["one:9092", "two:9092"], topic="orders", options={"client.id": "desk"}
    ... )
    >>> options = client_options(settings)
    >>> options["bootstrap.servers"], options["client.id"], options["enable.auto.commit"]
    ('one:9092,two:9092', 'desk', False)
    """
    return {
        "client.id": "driftbn",
        "isolation.level": "read_committed",
        "queued.max.messages.kbytes": 32 * 1024,
        # Failing connections come as errors too, and are logged once; the client would log each.
        "log_level": _CRITICAL,
        **_strategy(settings),
        **settings.client_options,
        "group.id": settings.group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # An offset that is gone must be told, not passed over.
        "auto.offset.reset": "error",
    }


def is_incremental(settings: KafkaSourceSettings) -> bool:
    """Whether a rebalance moves single partitions and leaves the others alone."""
    options = {**_strategy(settings), **settings.options}
    strategy = options.get("partition.assignment.strategy", "")
    return options.get("group.protocol") == "consumer" or "cooperative" in strategy


def _strategy(settings: KafkaSourceSettings) -> dict[str, str]:
    # With the newer protocol the broker assigns, and the client refuses the setting.
    if settings.options.get("group.protocol") == "consumer":
        return {}
    return {"partition.assignment.strategy": "cooperative-sticky"}


# What a topic of Kafka says about itself: its partitions, and where each begins and ends.

logger = logging.getLogger("driftbn.service.sources.kafka_lanes")

STATE_MARK: Final = "driftbn state "
ANSWER_SECONDS: Final = 2.0
"""How long a broker may take to answer a question; short, since reading waits for it."""

_REFUSED: Final = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED}
)


class Topic:
    """A topic, asked through a consumer."""

    def __init__(self, settings: KafkaSourceSettings, consumer: Consumer) -> None:
        self.name = f"topic {settings.topic}"
        self._settings = settings
        self._consumer = consumer

    def partitions(self) -> list[int]:
        """Return the numbers of the partitions.

        Raises ``SourceError`` if there is no such topic, or it may not be read. Raises
        ``KafkaException`` if no broker answers.
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

    def check_state(self, places: Iterable[TopicPartition], mark: str) -> None:
        """Make sure that no daemon with another state has read partitions for the group.

        Raises ``SourceError`` if one has. Raises ``KafkaException`` if the brokers do not answer.
        """
        asked = [TopicPartition(self._settings.topic, place.partition) for place in places]
        for place in self._consumer.committed(asked, timeout=ANSWER_SECONDS) if mark else ():
            if place.error is not None:
                raise KafkaException(place.error)
            known = place.metadata or ""
            if known.startswith(STATE_MARK) and known != mark:
                problem = (
                    f"partition {place.partition} was read for group {self._settings.group!r} by a"
                    f" daemon with another state, {known.removeprefix(STATE_MARK)}, which has its"
                    " monitors: give all daemons of the group one database (service.database ="
                    ' "postgresql://..."), or this one a group of its own'
                )
                raise SourceError(self.name, problem, fatal=True)

    def first_offsets(self, partitions: Iterable[int], mark: str) -> dict[int, int]:
        """Return where to begin partitions that have no checkpoint.

        That is where the group stands, else the beginning or end, as the settings say. Raises
        ``KafkaException`` if the brokers do not answer.
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
                at_end.append(TopicPartition(place.topic, place.partition, place.offset, mark))
            offsets[place.partition] = place.offset
        if at_end and self._settings.start is Start.LATEST:
            # Otherwise a restart before the first checkpoint would pass over what came since.
            self._consumer.commit(offsets=at_end, asynchronous=False)
        return offsets

    def bounds(self, partition: int) -> tuple[int, int]:
        """Return the offset of the oldest message and that of the next to come.

        Raises ``KafkaException`` if the brokers do not answer.
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

        Raises ``KafkaException`` if the brokers do not answer.
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
        """Pass over what may go away by itself. Raises ``SourceError`` if it does not."""
        if error.code() in _REFUSED:
            problem = f"reading is not allowed: {error.str()}; give the user the rights to it"
            raise SourceError(self.name, problem, fatal=True)
        if error.fatal():
            raise SourceError(self.name, f"the client has failed: {error.str()}", fatal=True)


def reason_of(error: KafkaException) -> str:
    cause = error.args[0] if error.args else error
    return cause.str() if isinstance(cause, KafkaError) else str(cause)


# Messages of Kafka joined to chunks, each with the offsets after it.

CHUNK_BYTES: Final = 4 * 1024 * 1024
"""A chunk is cut when it has grown to this; the queue behind counts in such pieces."""


class LaneMessages:
    """The messages of one lane that are not yet in a chunk, and the offsets after them.

    ``offsets`` is where to go on in each partition of the lane, and is kept up to date.
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

        Returns whether a chunk should now be cut.
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

        ``n_behind`` says how many messages wait behind offsets.
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


# The lanes of a topic that are ours at the moment.


class Lanes:
    """Lanes by name; a listener is told of each that comes and goes.

    The listener says where to go on.
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

        Raises ``SourceError`` if its checkpoint is of another topic.
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
    return {int(partition): offset for partition, offset in position["offsets"].items()}
