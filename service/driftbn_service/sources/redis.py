"""Records from a stream of Redis, read as a consumer of a group."""

from __future__ import annotations

import base64
import json
import logging
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import numpy as np
import redis
from numpy.typing import NDArray
from redis.backoff import NoBackoff
from redis.retry import Retry

from driftbn_service.records.formats import TableFormat
from driftbn_service.settings import RedisSourceSettings, Start
from driftbn_service.sources.base import Chunk, JoinedMessages, LaneListener, Position, SourceError

ANSWER_SECONDS: Final = 10.0
"""How long the server may take to answer."""
# To the server the very highest one means new entries.
_HIGH_ID: Final = b"%d-%d" % (2**64 - 1, 2**64 - 2)


class Entry(NamedTuple):
    """An entry: its id, and field, value, field, value; ``None`` if it was deleted."""

    id: bytes
    fields: list[bytes] | None


class StreamClient:
    """A stream as one consumer of a group sees it.

    Nothing is tried again by itself: a read whose answer is lost has still been done, and what it
    gave must be looked for among the pending entries. Another consumer is taken for dead after
    ``idle_seconds``.
    """

    def __init__(self, settings: RedisSourceSettings, idle_seconds: float) -> None:
        self._settings = settings
        self._idle_milliseconds = int(1000 * idle_seconds)
        self._key = settings.stream
        password = settings.password and settings.password.get_secret_value()
        # The address has the last word where it holds a password too.
        self._client = redis.Redis.from_url(
            settings.url,
            **({"password": password} if password else {}),
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            socket_connect_timeout=ANSWER_SECONDS,
            socket_timeout=2 * ANSWER_SECONDS,
            client_name=f"driftbn-{settings.consumer}",
        )
        for command in ("XREADGROUP", "XCLAIM"):
            # Dictionaries for thousands of entries would only be taken apart again.
            self._client.set_response_callback(command, lambda answer, **_: answer)

    @property
    def server(self) -> str:
        parts = urlsplit(self._settings.url)
        return parts.path if parts.scheme == "unix" else parts.netloc.rpartition("@")[2]

    def last_id(self) -> bytes | None:
        """Return the id of the newest entry there ever was; ``None`` if there is no stream."""
        if not self._client.exists(self._key):
            return None
        found: bytes = self._client.xinfo_stream(self._key)["last-generated-id"]
        return found

    def create_group(self, after: str) -> bool:
        """Create stream and group where they are not there; say whether the group is new."""
        try:
            self._client.xgroup_create(self._key, self._settings.group, after, mkstream=True)
        except redis.ResponseError as error:
            if code_of(error) != "BUSYGROUP":
                raise
            return False
        return True

    def read_new(self, count: int, wait_seconds: float) -> list[Entry]:
        milliseconds = int(1000 * min(wait_seconds, ANSWER_SECONDS))
        return self._read(count, ">", milliseconds or None)

    def read_pending(self, count: int, after: bytes) -> list[Entry]:
        """Return entries that this consumer had and has not acknowledged."""
        return self._read(count, after)

    def sign_of_life(self) -> None:
        """Show the group that this consumer is alive.

        To wait for new entries is no sign before Redis 7.2; to ask for own ones always is.
        """
        self.read_pending(1, _HIGH_ID)

    def acknowledge(self, ids: Sequence[bytes]) -> None:
        if ids:
            self._client.xack(self._key, self._settings.group, *ids)

    def idle_consumers(self) -> list[bytes]:
        """Return others that have pending entries and have not been heard of for long."""
        return sorted(
            info["name"]
            for info in self._client.xinfo_consumers(self._key, self._settings.group)
            if info["name"] != self._settings.consumer.encode()
            and info["pending"]
            and info["idle"] >= self._idle_milliseconds
        )

    def n_pending(self) -> int:
        """Return how many entries this consumer had and has not acknowledged."""
        infos = self._client.xinfo_consumers(self._key, self._settings.group)
        mine = self._settings.consumer.encode()
        return sum(info["pending"] for info in infos if info["name"] == mine)

    def pending_of(self, consumer: bytes, count: int) -> list[bytes]:
        group = self._settings.group
        found: Any = self._client.xpending_range(self._key, group, "-", "+", count, consumer)
        return [item["message_id"] for item in found]

    def claim(self, ids: Sequence[bytes]) -> list[Entry]:
        """Take pending entries over; those that another one was quicker to take are left out."""
        group, consumer = self._settings.group, self._settings.consumer
        found: Any = self._client.xclaim(
            self._key, group, consumer, self._idle_milliseconds, list(ids)
        )
        return [Entry(*item) for item in found if item is not None and item[0] is not None]

    def gone(self, ids: Iterable[bytes]) -> list[bytes]:
        return [text for text in ids if not self._client.xrange(self._key, text, text)]

    def n_behind(self) -> int | None:
        """Return how many entries the group has not had; ``None`` if the server cannot tell."""
        mine = self._settings.group.encode()
        lags = (i.get("lag") for i in self._client.xinfo_groups(self._key) if i["name"] == mine)
        return next(lags, None)

    def disconnect(self) -> None:
        self._client.connection_pool.disconnect()

    def close(self) -> None:
        self._client.close()

    def _read(self, count: int, after: str | bytes, milliseconds: int | None = None) -> list[Entry]:
        group, consumer = self._settings.group, self._settings.consumer
        found: Any = self._client.xreadgroup(
            group, consumer, {self._key: after}, count, milliseconds
        )
        return [Entry(*item) for item in found[0][1]] if found else []


def code_of(error: redis.ResponseError) -> str:
    """Return the first word of an error, which is its code in the protocol of Redis."""
    return str(error).partition(" ")[0]


# Ids of stream entries that were given out and not yet acknowledged, held compactly.

SEALED_AT: Final = 256
"""Ids are packed when there are so many: a packet of fewer would be larger than the ids."""

EntryId: TypeAlias = tuple[int, int]
"""Milliseconds and number, as Redis orders entries."""


def entry_id(text: bytes | str) -> EntryId:
    """Return an id for comparison.

    >>> entry_id(b"1700000000000-10") > entry_id("1700000000000-9")
    True
    """
    time, _, number = (text.decode() if isinstance(text, bytes) else text).partition("-")
    return int(time), int(number or 0)


def pack(ids: Sequence[bytes]) -> str:
    """Return ids as text: their steps are small, so that they compress well."""
    start = np.zeros((2, 1), "<u8")
    steps = np.diff(_parts(ids), prepend=start)
    return base64.b64encode(zlib.compress(steps.tobytes(), 1)).decode()


def unpack(text: str) -> list[bytes]:
    parts = np.frombuffer(zlib.decompress(base64.b64decode(text)), "<u8").reshape(2, -1)
    times, numbers = np.cumsum(parts, axis=1, dtype="<u8").tolist()
    return [b"%d-%d" % pair for pair in zip(times, numbers, strict=True)]


@dataclass(frozen=True)
class _Packet:
    """Packed ids, the range of their times, and how many were given out up to their end."""

    text: str
    first: int
    last: int
    n_given: int


class GivenIds:
    """Ids in the order in which entries were given out.

    ``saved`` is what ``save`` returned.
    """

    def __init__(self, saved: Mapping[str, Any] | None = None) -> None:
        self._packets: list[_Packet] = []
        self._tail: list[bytes] = []
        self.n_given = 0
        self.newest: EntryId = (0, 0)
        if saved is not None:
            self.n_given = saved["n_given"] - sum(map(len, ids_in(saved)))
            for ids in ids_in(saved):
                self.add(ids)

    def add(self, ids: Sequence[bytes]) -> None:
        """Take note that entries are given out, each time in the order of their ids."""
        if ids:
            self.newest = max(self.newest, entry_id(ids[-1]))
        self._tail.extend(ids)
        self.n_given += len(ids)
        if len(self._tail) >= SEALED_AT:
            text, (first, last) = pack(self._tail), _range(self._tail)
            self._packets.append(_Packet(text, first, last, self.n_given))
            self._tail = []

    def save(self) -> dict[str, Any]:
        """Return all of it as plain values; cheap, it is called for every chunk."""
        return {
            "n_given": self.n_given,
            "packed": [packet.text for packet in self._packets],
            "ids": [text.decode() for text in self._tail],
        }

    def among(self, ids: Sequence[bytes]) -> set[bytes]:
        """Return those of ``ids`` that were given out; looks only at packets of their range."""
        if not ids:
            return set()
        first, last = _range(ids)
        found = set(self._tail)
        for packet in self._packets:
            if packet.first <= last and packet.last >= first:
                found.update(unpack(packet.text))
        return found.intersection(ids)

    def drop(self, n_given: int) -> None:
        """Forget ids that were acknowledged: whole packets of the first ``n_given``."""
        self._packets = [packet for packet in self._packets if packet.n_given > n_given]
        n_left = self.n_given - max(n_given, self.n_given - len(self._tail))
        self._tail = self._tail[len(self._tail) - max(0, n_left) :]

    def drop_after(self, last: EntryId) -> None:
        """Forget ids behind ``last``: those entries are not there any more."""
        ids = [text for part in ids_in(self.save()) for text in part if entry_id(text) <= last]
        self.n_given -= sum(map(len, ids_in(self.save())))
        self._packets, self._tail, self.newest = [], [], (0, 0)
        self.add(ids)


def ids_in(saved: Mapping[str, Any]) -> Iterator[list[bytes]]:
    """Return the ids of what ``GivenIds.save`` returned, in parts."""
    packed: Iterable[str] = saved["packed"]
    yield from map(unpack, packed)
    if saved["ids"]:
        yield [text.encode() for text in saved["ids"]]


def ids_since(n_given: int, saved: Mapping[str, Any]) -> Iterator[list[bytes]]:
    """Return the ids of what ``GivenIds.save`` returned, without the first ``n_given`` ever."""
    parts = list(ids_in(saved))
    n_before = saved["n_given"] - sum(map(len, parts))
    for part in parts:
        fresh = part[max(0, n_given - n_before) :]
        if fresh:
            yield fresh
        n_before += len(part)


def _parts(ids: Sequence[bytes]) -> NDArray[np.uint64]:
    """Return times and numbers of ids, a row each."""
    return np.array(b"-".join(ids).split(b"-")).astype("<u8").reshape(-1, 2).T


def _range(ids: Sequence[bytes]) -> tuple[int, int]:
    times = _parts(ids)[0]
    return int(times.min()), int(times.max())


# Entries of a Redis stream as bytes that can be decoded.

MAX_EMPTY: Final = 20
"""A table may have so many times as many cells as values."""


class Block(NamedTuple):
    """Records as bytes, how they are written, and where a record stands."""

    data: bytes
    kind: TableFormat
    place: Callable[[int, int], str]


def n_together(payload: str | None, entries: Sequence[Entry]) -> int:
    """Return how many of the first entries go well into one block.

    Entries with ever other fields would make a table of mostly nothing.
    """
    n_entries = len(entries)
    while payload is None and n_entries > 1:
        rows = [entry.fields or [] for entry in entries[:n_entries]]
        n_values = sum(map(len, rows)) // 2
        if len(_names(rows)) * n_entries <= MAX_EMPTY * n_values:
            break
        n_entries //= 2
    return n_entries


def as_block(stream: str, payload: str | None, entries: Sequence[Entry]) -> Block:
    r"""Return entries as bytes.

    ``payload`` names the field that holds a record as JSON. If it is ``None``, the fields are the
    record: they become CSV, since their values are text of which types must be read. None of the
    entries may be deleted.

    >>> entries = [Entry(b"1-0", [b"a", b"1"]), Entry(b"2-0", [b"a", b"2", b"b", b"x"])]
    >>> block = as_block("orders", None, entries)
    >>> block.data
    b'"a","b"\n"1",\n"2","x"\n'
    >>> block.place(1, 0)
    'stream orders entry 2-0'
    """

    def describe(number: int) -> str:
        return f"stream {stream} entry {entries[number].id.decode()}"

    if payload is None:
        data = _csv([entry.fields or [] for entry in entries])
        return Block(data, TableFormat.CSV, lambda record, byte: describe(record))
    name = payload.encode()
    lines = JoinedMessages([_payload(entry.fields or [], name) for entry in entries])
    return Block(lines.data, TableFormat.NDJSON, lines.place(describe))


def _payload(fields: list[bytes], name: bytes) -> bytes:
    if fields[0] == name:
        return fields[1]
    for place in range(2, len(fields), 2):
        if fields[place] == name:
            return fields[place + 1]
    # Text is no record either: it is set aside where the others are read, and says why.
    return json.dumps(f"the entry has no field {name.decode()!r}").encode()


def _csv(rows: list[list[bytes]]) -> bytes:
    names = _names(rows)
    # One bad name must not cost the whole block.
    header = b",".join(_quoted(name.decode(errors="backslashreplace").encode()) for name in names)
    lines = [header]
    for row in rows:
        if len(row) == 2 * len(names) and row[0::2] == names:
            lines.append(b",".join(map(_quoted, row[1::2])))
        else:
            values = dict(zip(row[0::2], map(_quoted, row[1::2]), strict=True))
            lines.append(b",".join(values.get(name, b"") for name in names))
    return b"\n".join(lines) + b"\n"


def _names(rows: list[list[bytes]]) -> list[bytes]:
    return list(dict.fromkeys(name for row in rows for name in row[0::2]))


def _quoted(value: bytes) -> bytes:
    return b'"%s"' % value.replace(b'"', b'""')


# The source itself.

logger = logging.getLogger("driftbn.service.sources.redis")

BATCH_ENTRIES: Final = 2000
"""So many entries are fetched at once at most."""
CHUNK_BYTES: Final = 4 * 1024 * 1024
"""So many bytes are fetched at once, about; entries larger than usual are fetched in fewer."""
IDLE_SECONDS: Final = 60.0
"""A consumer that shows no sign of life for so long is dead: its entries are taken over."""
LOOK_SECONDS: Final = 1.0
"""How long to look through pending entries that were given out, in one go."""
BEHIND_SECONDS: Final = 2.0
"""How often to ask how many entries wait."""


class RedisSource:
    """Records from a stream, as one consumer of a group.

    Entries are acknowledged late, when no checkpoint goes back behind them; until then their ids
    are part of the position. So after a restart a pending entry is known to be worked through, or
    it is given again.

    Entries of a consumer that has not been heard of for long are taken over. What it had worked
    through and not yet acknowledged then comes twice, unless it comes back itself, under its name
    and with its checkpoints. Another consumer is taken for dead after ``idle_seconds``; ``clock``
    gives seconds that only go forward.
    """

    drained: Final = False  # more may come

    def __init__(
        self,
        settings: RedisSourceSettings,
        *,
        clock: Callable[[], float] = monotonic,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self.name = f"stream {settings.stream}"
        self.settings = settings
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._reset()

    def _reset(self) -> None:
        self._client: StreamClient | None = None
        self.ready = False
        self._was_ready = False
        self._given = GivenIds()
        self._n_acknowledged = 0
        self._last: bytes | None = None
        self._pending_after: bytes | None = b"0-0"
        self._fetched: list[Entry] = []
        self._count = BATCH_ENTRIES
        self._n_behind: int | None = None
        self._behind_at = self._claim_at = 0.0

    def open(self, listener: LaneListener) -> None:
        """Take over the lane and try to connect; a server that is away is tried again by ``poll``.

        Raises ``SourceError`` if the checkpoint is of another stream, or the login is refused.
        """
        position = listener.opened("")
        if position is not None:
            stream, group = position["stream"], position["group"]
            if (stream, group) != (self.settings.stream, self.settings.group):
                problem = f"the checkpoint is of stream {stream}, group {group}"
                raise SourceError(self.name, f"{problem}; name the stream otherwise", fatal=True)
            self._given = GivenIds(position)
            self._last = position["last"].encode()
        self._client = StreamClient(self.settings, self._idle_seconds)
        try:
            self._join(self._client)
        except redis.RedisError as error:
            lost = self._lost(error)
            if lost.fatal:
                raise lost from error

    def poll(self, timeout: float) -> Chunk | None:
        """Return entries, or ``None`` if none came in time.

        Raises ``SourceError`` if the server is away, the key is no stream, or the group is gone;
        fatal if the login is refused or rights are missing.
        """
        client = self._connected()
        try:
            if not self.ready:
                self._join(client)
            return self._next(client, timeout)
        except redis.RedisError as error:
            raise self._lost(error) from error

    def release(self, lane: str, position: Position) -> None:
        """Acknowledge what was given out up to ``position``; what fails is done with the next."""
        if self._client is None:
            return
        try:
            for ids in ids_since(self._n_acknowledged, position):
                self._client.acknowledge(ids)
        except redis.RedisError as error:
            logger.warning(
                "%s: entries are not acknowledged: %s; told again with the next checkpoint",
                self.name, error,
            )  # fmt: skip
        else:
            self._n_acknowledged = position["n_given"]
            self._given.drop(self._n_acknowledged)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._reset()

    # --- Connecting ---

    def _join(self, client: StreamClient) -> None:
        """See that the group is there, and look through the pending entries from their start."""
        self._check_stream(client)
        beginning = "0" if self.settings.start is Start.EARLIEST else "$"
        after = beginning if self._last is None else self._last.decode()
        if client.create_group(after) and self._last is not None:
            logger.error(
                "%s: group %s was gone and is made again, after entry %s",
                self.name, self.settings.group, after,
            )  # fmt: skip
        self._pending_after = b"0-0"
        self.ready = self._was_ready = True

    def _check_stream(self, client: StreamClient) -> None:
        """Notice a stream that is older than we are: made anew, or restored from a copy."""
        newest = client.last_id()
        if self._last is None or (newest is not None and entry_id(newest) >= entry_id(self._last)):
            return
        end = "is gone" if newest is None else f"ends at entry {newest.decode()}"
        logger.error(
            "%s: entry %s was read, but the stream %s: the server has lost entries, maybe some"
            " that were not read; going on with what is there",
            self.name, self._last.decode(), end,
        )  # fmt: skip
        self._given.drop_after(entry_id(newest or b"0-0"))
        self._last = b"0-0"

    def _lost(self, error: redis.RedisError) -> SourceError:
        """Return what went wrong; an answer may be lost, so that pending entries must be read."""
        self.ready, self._fetched = False, []
        client = self._connected()
        client.disconnect()
        where = f"{self.name} at {client.server}"
        if isinstance(error, redis.AuthenticationError | redis.exceptions.NoPermissionError):
            problem = f"{error}; mend 'url' or 'password', or the rights of the user"
            return SourceError(where, problem, fatal=not self._was_ready)
        code = code_of(error) if isinstance(error, redis.ResponseError) else ""
        if code == "WRONGTYPE":
            return SourceError(where, "this key holds no stream; mend 'stream' or delete the key")
        if code == "NOGROUP":
            group = self.settings.group
            return SourceError(where, f"the group {group} is gone; it is made again")
        return SourceError(where, str(error) or type(error).__name__)

    def _connected(self) -> StreamClient:
        if self._client is None:
            raise SourceError(self.name, "it is not open", fatal=True)
        return self._client

    # --- Reading ---

    def _next(self, client: StreamClient, timeout: float) -> Chunk | None:
        if self._fetched:
            return self._chunk(self._fetched)
        deadline = self._clock() + max(timeout, LOOK_SECONDS)
        while self._pending_after is not None:
            if self._clock() > deadline:
                return None
            entries = self._read_pending(client, self._pending_after)
            if entries:
                return self._chunk(entries)
        if self._clock() >= self._claim_at:
            client.sign_of_life()
            entries = self._claim(client)
            if entries:
                return self._chunk(entries)
            self._claim_at = self._clock() + self._idle_seconds / 4
            if client.n_pending() > self._given.n_given - self._n_acknowledged:
                # A daemon that has lost the lane went on reading until it knew.
                self._pending_after = b"0-0"
                return None
        entries = self._not_given(client.read_new(self._count, timeout))
        self._see_behind(client, len(entries))
        return self._chunk(entries) if entries else None

    def _read_pending(self, client: StreamClient, after: bytes) -> list[Entry]:
        """Return own entries that were fetched once and not given out."""
        entries = client.read_pending(self._count, after)
        self._pending_after = entries[-1].id if entries else None
        seen = self._given.among([entry.id for entry in entries])
        fresh = [entry for entry in entries if entry.id not in seen]
        self._forget(client, [entry.id for entry in fresh if entry.fields is None])
        return [entry for entry in fresh if entry.fields is not None]

    def _not_given(self, entries: list[Entry]) -> list[Entry]:
        """Return new entries; a server that went back in time may give some again."""
        if not entries or entry_id(entries[0].id) > self._given.newest:
            return entries
        seen = self._given.among([entry.id for entry in entries])
        return [entry for entry in entries if entry.id not in seen]

    def _claim(self, client: StreamClient) -> list[Entry]:
        """Take over what a dead consumer has left."""
        for consumer in client.idle_consumers():
            ids = client.pending_of(consumer, self._count)
            entries = client.claim(ids) if ids else []
            claimed = {entry.id for entry in entries}
            self._forget(client, client.gone(text for text in ids if text not in claimed))
            seen = self._given.among([entry.id for entry in entries])
            fresh = [entry for entry in entries if entry.id not in seen and entry.fields]
            if fresh:
                logger.warning(
                    "%s: %d entries are taken over from consumer %s",
                    self.name, len(fresh), consumer.decode(errors="replace"),
                )  # fmt: skip
                return fresh
        return []

    def _forget(self, client: StreamClient, ids: Sequence[bytes]) -> None:
        if ids:
            logger.error(
                "%s: %d records are lost: they were deleted or trimmed from the stream, %s to %s,"
                " before they were read",
                self.name, len(ids), ids[0].decode(), ids[-1].decode(),
            )  # fmt: skip
            client.acknowledge(ids)

    def _chunk(self, entries: list[Entry]) -> Chunk:
        """Give out entries, as many as go together; the others come next."""
        n_entries = n_together(self.settings.payload, entries)
        entries, self._fetched = entries[:n_entries], entries[n_entries:]
        self._given.add([entry.id for entry in entries])
        if self._last is None or entry_id(entries[-1].id) > entry_id(self._last):
            self._last = entries[-1].id
        block = as_block(self.settings.stream, self.settings.payload, entries)
        entry_bytes = max(1.0, len(block.data) / len(entries))
        self._count = max(1, min(BATCH_ENTRIES, int(CHUNK_BYTES / entry_bytes)))
        return Chunk(
            lane="",
            data=block.data,
            kind=block.kind,
            position={
                "stream": self.settings.stream,
                "group": self.settings.group,
                "last": self._last.decode(),
                **self._given.save(),
            },
            place=block.place,
            n_behind=self._n_behind,
        )

    def _see_behind(self, client: StreamClient, n_read: int) -> None:
        if self._n_behind is not None:
            self._n_behind = max(0, self._n_behind - n_read)
        if self._clock() >= self._behind_at:
            self._n_behind = client.n_behind()
            self._behind_at = self._clock() + BEHIND_SECONDS
