"""Records from a stream of Redis."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Final

import redis

from driftbn_service.settings import RedisSourceSettings, Start
from driftbn_service.sources.base import Chunk, LaneListener, Position, SourceError
from driftbn_service.sources.redis_ids import GivenIds, entry_id, ids_since
from driftbn_service.sources.redis_records import as_block, n_together
from driftbn_service.sources.redis_stream import Entry, StreamClient, code_of

if TYPE_CHECKING:
    from driftbn_service.journal import Journal
    from driftbn_service.settings import StreamSettings

logger = logging.getLogger(f"driftbn.{__name__}")

BATCH_ENTRIES: Final = 2000
"""So many entries are fetched at once at most."""
CHUNK_BYTES: Final = 4 * 1024 * 1024
"""So many bytes are fetched at once, about; entries larger than usual are fetched in fewer."""
CLAIM_SECONDS: Final = 60.0
"""How often to look for dead consumers and to show not to be one, at least."""
LOOK_SECONDS: Final = 1.0
"""How long to look through pending entries that were given out, in one go."""
BEHIND_SECONDS: Final = 2.0
"""How often to ask how many entries wait."""


def make(stream: StreamSettings, journal: Journal | None = None) -> RedisSource:
    """Return the source of a stream that is in Redis."""
    assert isinstance(stream.source, RedisSourceSettings)  # the factory chose by its kind
    return RedisSource(stream.source)


class RedisSource:
    """Records from a stream, as one consumer of a group.

    Entries are acknowledged late, when no checkpoint goes back behind them; until then their ids
    are part of the position. So after a restart a pending entry is known to be worked through, or
    it is given again.

    Entries of a consumer that has not been heard of for long are taken over. What it had worked
    through and not yet acknowledged then comes twice, unless it comes back itself, under its name
    and with its checkpoints.

    Parameters
    ----------
    settings
        Which stream, and how.
    clock
        Seconds that only go forward.
    """

    drained: Final = False  # more may come

    def __init__(
        self, settings: RedisSourceSettings, *, clock: Callable[[], float] = monotonic
    ) -> None:
        self.name = f"stream {settings.stream}"
        self.settings = settings
        self._clock = clock
        self._reset()

    def _reset(self) -> None:
        self._client: StreamClient | None = None
        self._ready = False
        self._was_ready = False
        self._given = GivenIds()
        self._n_acknowledged = 0
        self._last: bytes | None = None
        self._pending_after: bytes | None = b"0-0"
        self._fetched: list[Entry] = []
        self._count = BATCH_ENTRIES
        self._n_behind: int | None = None
        self._behind_at = self._claim_at = 0.0

    @property
    def ready(self) -> bool:
        """Whether the server answers and has the group."""
        return self._ready

    def open(self, listener: LaneListener) -> None:
        """Take over the lane and try to connect; a server that is away is tried again by ``poll``.

        Raises
        ------
        SourceError
            If the checkpoint is of another stream, or the login is refused.
        """
        position = listener.opened("")
        if position is not None:
            stream, group = position["stream"], position["group"]
            if (stream, group) != (self.settings.stream, self.settings.group):
                problem = f"the checkpoint is of stream {stream}, group {group}"
                raise SourceError(self.name, f"{problem}; name the stream otherwise", fatal=True)
            self._given = GivenIds(position)
            self._last = position["last"].encode()
        self._client = StreamClient(self.settings)
        try:
            self._join(self._client)
        except redis.RedisError as error:
            lost = self._lost(error)
            if lost.fatal:
                raise lost from error

    def poll(self, timeout: float) -> Chunk | None:
        """Return entries, or ``None`` if none came in time.

        Raises
        ------
        SourceError
            If the server is away, the key is no stream, or the group is gone; fatal if the login
            is refused or rights are missing.
        """
        client = self._connected()
        try:
            if not self._ready:
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
        """Let go of the connection."""
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
        self._ready = self._was_ready = True

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
        self._ready, self._fetched = False, []
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
            wait = min(CLAIM_SECONDS, self.settings.claim_idle_seconds / 4)
            self._claim_at = self._clock() + wait
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
        self._count = _fitting(len(block.data) / len(entries))
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


def _fitting(entry_bytes: float) -> int:
    return max(1, min(BATCH_ENTRIES, int(CHUNK_BYTES / max(1.0, entry_bytes))))
