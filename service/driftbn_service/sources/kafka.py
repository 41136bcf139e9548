"""Records from a topic of Kafka: options of the client, the topic, its lanes, and the source."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from time import monotonic
from typing import Any, Final, TypeVar
from uuid import UUID

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from driftbn_service.records.formats import TableFormat
from driftbn_service.settings import KafkaSourceSettings, Partitions, Start
from driftbn_service.sources.base import Chunk, JoinedMessages, LaneListener, Position, SourceError

logger = logging.getLogger("driftbn.service.sources.kafka")
Answer = TypeVar("Answer")

_CRITICAL: Final = 2  # as syslog counts levels


def client_options(settings: KafkaSourceSettings) -> dict[str, Any]:
    """Return the settings of the consumer, without callbacks."""
    # With the newer protocol the broker assigns, and the client refuses the setting.
    newer = settings.options.get("group.protocol") == "consumer"
    return {
        "client.id": "driftbn",
        "isolation.level": "read_committed",
        "queued.max.messages.kbytes": 32 * 1024,
        # Failing connections come as errors too, and are logged once; the client would log each.
        "log_level": _CRITICAL,
        **({} if newer else {"partition.assignment.strategy": "cooperative-sticky"}),
        **settings.client_options,
        "group.id": settings.group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # An offset that is gone must be told, not passed over.
        "auto.offset.reset": "error",
    }


def is_incremental(options: dict[str, Any]) -> bool:
    """Whether a rebalance moves single partitions and leaves the others alone."""
    strategy = options.get("partition.assignment.strategy", "")
    return options.get("group.protocol") == "consumer" or "cooperative" in strategy


# What a topic of Kafka says about itself: its partitions, and where each begins and ends.

STATE_MARK: Final = "driftbn state "
ANSWER_SECONDS: Final = 2.0
"""How long a broker may take to answer a question; short, since reading waits for it."""

_REFUSED: Final = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED}
)


class Topic:
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
            lines = JoinedMessages(values)
            data, place = lines.data, lines.place(describe)
        offsets = {str(partition): self.offsets[partition] for partition in sorted(self.offsets)}
        return Chunk(
            lane=self.lane,
            data=data,
            kind=self.kind,
            position={"topic": self.topic, "offsets": offsets},
            place=place,
            n_behind=n_behind(self.offsets),
        )


# The lanes of a topic that are ours at the moment.


class Lanes(dict[str, LaneMessages]):
    """Lanes by name; a listener is told of each that comes and goes.

    The listener says where to go on.
    """

    def __init__(self, settings: KafkaSourceSettings, listener: LaneListener) -> None:
        super().__init__()
        self._settings = settings
        self._listener = listener

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
        self[name] = LaneMessages(topic, name, self._settings.format, offsets)
        return self[name]

    def close(self, name: str) -> None:
        """Let go of a lane; one that was not open is passed over."""
        if name in self:
            self._listener.closed(name)
            del self[name]

    def take(self, messages: Iterable[Message]) -> Iterator[LaneMessages]:
        """Give messages to their lanes, and yield every lane that has enough for a chunk.

        After a rebalance there may be messages of a lane that is not ours any more.
        """
        owners = {partition: lane for lane in self.values() for partition in lane.offsets}
        for message in messages:
            lane = owners.get(message.partition() or 0)
            if lane is not None and lane.add(message):
                yield lane

    def owner(self, partition: int) -> LaneMessages | None:
        """Return the lane of a partition; ``None`` if it is not ours."""
        return next((lane for lane in self.values() if partition in lane.offsets), None)

    def places(self, partitions: Iterable[int] | None = None) -> list[TopicPartition]:
        """Return where to go on in partitions, in all of them unless given."""
        parts = (lane.offsets.items() for lane in self.values())
        offsets = dict(chain.from_iterable(parts))
        wanted = offsets if partitions is None else partitions
        return [TopicPartition(self._settings.topic, number, offsets[number]) for number in wanted]


def offsets_of(position: Position) -> dict[int, int]:
    return {int(partition): offset for partition, offset in position["offsets"].items()}


# What is known of the brokers.


class Sight:
    """What is known of the brokers and the topic.

    ``ready`` may be read by any thread.
    """

    def __init__(self, settings: KafkaSourceSettings) -> None:
        self.ready = False
        self.problem: str | None = None
        self._name = f"topic {settings.topic}"
        self._brokers = ", ".join(settings.brokers)
        self._was_ready = False
        self._is_dark = False
        self._refusal: str | None = None
        self._hint = "no connection"

    def lost(self, reason: str) -> None:
        """Take note that no broker answers; the client tries on by itself."""
        if not self._is_dark:
            logger.warning(
                "%s: no answer from %s: %s; trying on", self._name, self._brokers, reason
            )
        self._is_dark, self.ready = True, False

    def found(self) -> None:
        """Take note that brokers answer and the topic is there."""
        if self._is_dark:
            logger.info("%s: the brokers answer again", self._name)
        self._is_dark, self.problem, self._refusal = False, None, None
        self.ready = self._was_ready = True

    def missing(self, problem: str) -> None:
        """Take note that brokers answer, but somebody must do something about the topic."""
        self._is_dark, self.problem, self.ready = False, problem, False

    def on_error(self, error: KafkaError) -> None:
        """Take note of a problem that is not one of a single partition; the client calls it."""
        if error.code() == KafkaError._AUTHENTICATION:
            self._refusal = error.str()
            self.lost(error.str())
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.lost(self._hint)
        else:
            self._hint = error.str()

    def check(self) -> None:
        """Pass over what may go away by itself.

        Raises ``SourceError`` if the topic is missing, or the login is refused, which is fatal
        unless it worked once.
        """
        if self._refusal is not None and not self._was_ready:
            problem = f"{self._brokers} refuses the login: {self._refusal}"
            raise SourceError(self._name, problem, fatal=True)
        if self.problem is not None:
            raise SourceError(self._name, self.problem)


# Offsets that a consumer group is told of: for tools that watch it, not for our own restart.


class GroupOffsets:
    def __init__(self, settings: KafkaSourceSettings, mark: str) -> None:
        self.topic, self.group = settings.topic, settings.group
        self.mark = mark  # says with which state they were read
        self._released: dict[int, int] = {}
        self._committed: dict[int, int] = {}

    @property
    def pending(self) -> list[TopicPartition]:
        return [
            TopicPartition(self.topic, partition, offset, self.mark)
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


# The source itself.


BATCH_MESSAGES: Final = 4096
CHECK_SECONDS: Final = 60.0
"""How often to look for new partitions."""
RETRY_SECONDS: Final = 1.0
"""How often to ask for the topic while there is none or no broker answers."""
ASSIGN_SECONDS: Final = 20.0
"""How long brokers may take to say where a partition begins before the group is joined anew."""
CLOSE_SECONDS: Final = 2.0
"""How long the last commit may take."""


class KafkaSource:
    """Records from a topic.

    Merged, all partitions are one lane, in the order in which messages arrive: within a partition
    that is their order, between partitions it may differ when they are read again. Each by itself,
    the partitions are shared out among the group, and a lane is the number of a partition.

    The place to go on at is the listener's, never the group's. Offsets are still committed to the
    group when they are released, for tools that watch the lag, and for a member that has no
    checkpoint of a partition. They carry the identity of the ``state``: partitions that daemons
    with another one have read are refused, since their monitors are there. ``clock`` gives seconds
    that only go forward.
    """

    drained: Final = False  # more may come

    def __init__(
        self,
        settings: KafkaSourceSettings,
        *,
        state: UUID | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.name = f"topic {settings.topic}"
        self.settings = settings
        self._options = client_options(settings)
        self._mark = "" if state is None else f"{STATE_MARK}{state}"
        self._merged = settings.partitions is not Partitions.EACH
        self._incremental = is_incremental(self._options) and not self._merged
        self._clock = clock
        self._pause = threading.Event()
        self._reset()

    def _reset(self) -> None:
        self._consumer: Consumer | None = None
        self._lanes: Lanes | None = None
        self._chunks: deque[Chunk] = deque()
        self._gaps: set[int] = set()
        self._group = GroupOffsets(self.settings, self._mark)
        self._sight = Sight(self.settings)
        self._broken = False
        self._looked_at = -CHECK_SECONDS

    @property
    def ready(self) -> bool:
        return self._sight.ready

    def open(self, listener: LaneListener) -> None:
        """Set up the client; it connects by itself, as often as it takes.

        Raises ``SourceError`` if the client refuses its options, or the checkpoint is of another
        topic.
        """
        self._lanes = Lanes(self.settings, listener)
        self._connect(self._lanes)

    def poll(self, timeout: float) -> Chunk | None:
        """Return the next messages of a lane, or ``None`` if none came in time.

        While no broker answers none come; the client tries on by itself. Raises ``SourceError`` if
        there is no such topic; if the login is refused or rights are missing, fatal.
        """
        consumer, lanes = self._opened()
        if self._broken:
            consumer = self._join_anew(consumer, lanes)
        if not self._chunks:
            if self._clock() >= self._looked_at + (CHECK_SECONDS if self.ready else RETRY_SECONDS):
                self._look(consumer, lanes)
            first = consumer.poll(timeout)
            if first is not None:  # with all that are here already
                self._take([first, *consumer.consume(BATCH_MESSAGES - 1, 0.0)], lanes)
            self._mend_gaps(consumer, lanes)
        if self._chunks:
            self._sight.problem = None
            return self._chunks.popleft()
        self._sight.check()
        return None

    def release(self, lane: str, position: Position) -> None:
        """Commit offsets to the group without waiting; what fails is tried with the next."""
        if self._consumer is not None and self._lanes is not None and lane in self._lanes:
            self._group.release(offsets_of(position), self._consumer)

    def close(self) -> None:
        """Leave the group; waits shortly for the last commit."""
        consumer, self._lanes = self._consumer, None
        if consumer is None:
            return
        deadline = self._clock() + CLOSE_SECONDS
        while self.ready and self._group.pending and self._clock() < deadline:
            consumer.poll(0.05)
        self._leave(consumer)
        self._reset()

    # --- Connecting ---

    def _connect(self, lanes: Lanes) -> Consumer:
        options = {
            **self._options,
            "error_cb": self._sight.on_error,
            "on_commit": self._group.on_commit,
        }
        try:
            consumer = Consumer(options, logger=logger)
        except KafkaException as error:
            problem = f"{reason_of(error)}; mend 'options' of the source"
            raise SourceError(self.name, problem, fatal=True) from error
        self._consumer, self._topic = consumer, Topic(self.settings, consumer)
        if self._merged:
            lanes.open("")
        else:
            consumer.subscribe(
                [self.settings.topic],
                on_assign=self._assigned,
                on_revoke=self._revoked,
                on_lost=self._revoked,
            )
        return consumer

    def _join_anew(self, consumer: Consumer, lanes: Lanes) -> Consumer:
        """Start over after a rebalance that failed half-way."""
        self._chunks.clear()
        for name in [*lanes]:
            lanes.close(name)
        self._lanes = None
        self._leave(consumer)
        self._group = GroupOffsets(self.settings, self._mark)
        self._lanes, self._broken = lanes, False
        return self._connect(lanes)

    def _leave(self, consumer: Consumer) -> None:
        try:
            consumer.close()
        except KafkaException as error:
            logger.warning("%s: the group was not left in order: %s", self.name, reason_of(error))

    def _look(self, consumer: Consumer, lanes: Lanes) -> None:
        """Ask for the topic, and take in new partitions."""
        try:
            partitions = self._topic.partitions()
            if self._merged and self._knows_more(lanes[""].offsets, partitions):
                consumer.assign(lanes.places())
        except KafkaException as error:
            self._sight.lost(reason_of(error))
        except SourceError as error:
            if error.fatal:
                raise
            self._sight.missing(error.problem)
        else:
            self._sight.found()
        self._looked_at = self._clock()

    def _knows_more(self, offsets: dict[int, int], partitions: Sequence[int]) -> bool:
        """Add partitions that are new; say whether all must be assigned again."""
        new = [partition for partition in partitions if partition not in offsets]
        if new and offsets:
            logger.info("%s: new partitions %s", self.name, ", ".join(map(str, new)))
            # All in them came after the others were first read.
            offsets.update([(partition, self._topic.bounds(partition)[0]) for partition in new])
        elif new:
            offsets.update(self._topic.first_offsets(new, self._mark))
        return bool(new) or not self.ready

    # --- Reading ---

    def _take(self, messages: Sequence[Message], lanes: Lanes) -> None:
        for lane in lanes.take(message for message in messages if message.error() is None):
            self._cut(lane)
        for lane in lanes.values():
            self._cut(lane)
        for message in messages:
            error = message.error()
            if error is not None:
                self._failed(message, error)

    def _cut(self, lane: LaneMessages) -> None:
        chunk = lane.cut(self._topic.n_behind)
        if chunk is not None:
            self._chunks.append(chunk)

    def _failed(self, message: Message, error: KafkaError) -> None:
        self._topic.check(error)
        partition = message.partition()
        if error.code() == KafkaError._AUTO_OFFSET_RESET and partition is not None:
            self._gaps.add(partition)
        elif error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            self._sight.ready = False
        else:
            logger.warning("%s: %s", self.name, error.str())

    def _mend_gaps(self, consumer: Consumer, lanes: Lanes) -> None:
        """Go on behind offsets that are gone; while no broker answers they wait."""
        try:
            for partition in sorted(self._gaps):
                lane = lanes.owner(partition)
                if lane is not None:
                    expected = lane.offsets[partition]
                    lane.offsets[partition] = self._topic.after_gap(partition, expected)
                    self._assign_again(consumer, lanes, partition)
                self._gaps.discard(partition)
        except KafkaException as error:
            self._sight.lost(reason_of(error))

    def _assign_again(self, consumer: Consumer, lanes: Lanes, partition: int) -> None:
        if self._incremental:
            places = lanes.places([partition])
            consumer.incremental_unassign(places)
            consumer.incremental_assign(places)
        else:
            consumer.assign(lanes.places())

    # --- Rebalances of the group; the client calls this, inside of its poll ---

    def _assigned(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        lanes = self._lanes
        if lanes is None:
            return
        with self._breaking():
            self._answered(partial(self._topic.check_state, places, self._mark))
            for place in places:
                lane = lanes.open(str(place.partition))
                if not lane.offsets:
                    ask = partial(self._topic.first_offsets, [place.partition], self._mark)
                    lane.offsets.update(self._answered(ask))
            ours = lanes.places(place.partition for place in places)
            (consumer.incremental_assign if self._incremental else consumer.assign)(ours)

    def _revoked(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        lanes = self._lanes
        if lanes is None:
            return
        with self._breaking():
            for place in places:
                name = str(place.partition)
                self._chunks = deque(chunk for chunk in self._chunks if chunk.lane != name)
                lanes.close(name)
                self._group.forget(place.partition)

    @contextmanager
    def _breaking(self) -> Iterator[None]:
        """Have the group joined anew if what is inside fails.

        The client goes on after a failed callback as if it had worked, and drops what it had
        fetched.
        """
        was_broken, self._broken = self._broken, True
        yield
        self._broken = was_broken

    def _answered(self, ask: Callable[[], Answer]) -> Answer:
        deadline = self._clock() + ASSIGN_SECONDS
        while True:
            try:
                return ask()
            except KafkaException as error:
                if self._clock() > deadline:
                    problem = f"it cannot be found out where to begin: {reason_of(error)}"
                    raise SourceError(self.name, problem) from error
                # The coordinator of a group may still be reading what it knows.
                self._pause.wait(0.1)

    def _opened(self) -> tuple[Consumer, Lanes]:
        if self._consumer is None or self._lanes is None:
            raise SourceError(self.name, "it is not open", fatal=True)
        return self._consumer, self._lanes
