"""The commands of a Redis stream that a consumer of a group needs, with plain answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from driftbn_service.settings import RedisSourceSettings

ANSWER_SECONDS: Final = 10.0
"""How long the server may take to answer."""
# To the server the very highest one means new entries.
_HIGH_ID: Final = b"%d-%d" % (2**64 - 1, 2**64 - 2)
_COMMANDS: Final = ("XREADGROUP", "XCLAIM", "XRANGE", "XPENDING", "XINFO CONSUMERS", "XINFO GROUPS")


class Entry(NamedTuple):
    """An entry: its id, and field, value, field, value; ``None`` if it was deleted."""

    id: bytes
    fields: list[bytes] | None


class StreamClient:
    """A stream as one consumer of a group sees it.

    Nothing is tried again by itself: a read whose answer is lost has still been done, and what it
    gave must be looked for among the pending entries.

    Parameters
    ----------
    settings
        Which server, stream, group and consumer.
    """

    def __init__(self, settings: RedisSourceSettings) -> None:
        self._settings = settings
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
        for command in _COMMANDS:
            # Dictionaries for thousands of entries would only be taken apart again.
            self._client.set_response_callback(command, _as_it_is)

    @property
    def server(self) -> str:
        """The address without a password."""
        parts = urlsplit(self._settings.url)
        return parts.path if parts.scheme == "unix" else parts.netloc.rpartition("@")[2]

    def last_id(self) -> bytes | None:
        """Return the id of the newest entry there ever was; ``None`` if there is no stream."""
        if not self._client.exists(self._key):
            return None
        info = self._do("XINFO STREAM", self._key)
        found: bytes = _text_keys(info)["last-generated-id"]
        return found if isinstance(found, bytes) else str(found).encode()

    def create_group(self, after: str) -> bool:
        """Create stream and group where they are not there; say whether the group is new."""
        try:
            self._do("XGROUP CREATE", self._key, self._settings.group, after, "MKSTREAM")
        except redis.ResponseError as error:
            if code_of(error) != "BUSYGROUP":
                raise
            return False
        return True

    def read_new(self, count: int, wait_seconds: float) -> list[Entry]:
        """Return entries that no consumer of the group has had."""
        milliseconds = int(1000 * min(wait_seconds, ANSWER_SECONDS))
        block = ("BLOCK", milliseconds) if milliseconds > 0 else ()
        return self._read(count, ">", block)

    def read_pending(self, count: int, after: bytes) -> list[Entry]:
        """Return entries that this consumer had and has not acknowledged."""
        return self._read(count, after, ())

    def sign_of_life(self) -> None:
        """Show the group that this consumer is alive.

        To wait for new entries is no sign before Redis 7.2; to ask for own ones always is.
        """
        self.read_pending(1, _HIGH_ID)

    def acknowledge(self, ids: Sequence[bytes]) -> None:
        """Have the group forget entries."""
        if ids:
            self._do("XACK", self._key, self._settings.group, *ids)

    def idle_consumers(self) -> list[bytes]:
        """Return others that have pending entries and have not been heard of for long."""
        found = []
        for info in self._do("XINFO CONSUMERS", self._key, self._settings.group):
            fields = _text_keys(info)
            is_other = fields["name"] != self._settings.consumer.encode()
            if is_other and fields["pending"] and fields["idle"] >= self._idle_milliseconds:
                found.append(fields["name"])
        return sorted(found)

    def pending_of(self, consumer: bytes, count: int) -> list[bytes]:
        """Return ids of the oldest pending entries of a consumer."""
        group = self._settings.group
        found = self._do("XPENDING", self._key, group, "-", "+", count, consumer)
        return [item[0] for item in found]

    def claim(self, ids: Sequence[bytes]) -> list[Entry]:
        """Take pending entries over; those that another one was quicker to take are left out."""
        group, consumer = self._settings.group, self._settings.consumer
        found = self._do("XCLAIM", self._key, group, consumer, self._idle_milliseconds, *ids)
        return [Entry(*item) for item in found if item is not None and item[0] is not None]

    def gone(self, ids: Iterable[bytes]) -> list[bytes]:
        """Return those ids that have no entry any more."""
        return [text for text in ids if not self._do("XRANGE", self._key, text, text)]

    def n_behind(self) -> int | None:
        """Return how many entries the group has not had; ``None`` if the server cannot tell."""
        for info in self._do("XINFO GROUPS", self._key):
            fields = _text_keys(info)
            if fields["name"] == self._settings.group.encode():
                lag: int | None = fields.get("lag")
                return lag
        return None

    def disconnect(self) -> None:
        """Let go of the connection; the next command makes a new one."""
        self._client.connection_pool.disconnect()

    def close(self) -> None:
        """Let go of everything."""
        self._client.close()

    @property
    def _idle_milliseconds(self) -> int:
        return int(1000 * self._settings.claim_idle_seconds)

    def _read(self, count: int, after: str | bytes, block: tuple[Any, ...]) -> list[Entry]:
        group, consumer = self._settings.group, self._settings.consumer
        words = ("GROUP", group, consumer, "COUNT", count, *block, "STREAMS", self._key, after)
        found = self._do("XREADGROUP", *words)
        return [Entry(*item) for item in found[0][1]] if found else []

    def _do(self, *words: Any) -> Any:
        return self._client.execute_command(*words)  # type: ignore[no-untyped-call]


def code_of(error: redis.ResponseError) -> str:
    """Return the first word of an error, which is its code in the protocol of Redis."""
    return str(error).partition(" ")[0]


def _as_it_is(answer: Any, **options: Any) -> Any:
    return answer


def _text_keys(answer: Any) -> dict[str, Any]:
    if isinstance(answer, dict):
        return {_text(name): value for name, value in answer.items()}
    return {_text(name): value for name, value in zip(answer[0::2], answer[1::2], strict=True)}


def _text(name: bytes | str) -> str:
    return name.decode() if isinstance(name, bytes) else name
