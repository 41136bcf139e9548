"""Events added to a stream of Redis, each exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from driftbn_service.events import Event
from driftbn_service.outlets.base import Outlet, OutletError, RecentEvents
from driftbn_service.settings import RedisOutletSettings

TIMEOUT_SECONDS: Final = 10.0
"""How long an answer may take."""

# Adds events and notes their fingerprints in one step that no other client sees half done. The
# note comes after the entry: if the entry is refused, the script ends there, and nothing is noted.
_ADD: Final = """
local stream, noted = KEYS[1], KEYS[2]
local newest = redis.call('ZRANGE', noted, -1, -1, 'WITHSCORES')
local number = tonumber(newest[2] or 0)
for i = 3, #ARGV, 4 do
  if not redis.call('ZSCORE', noted, ARGV[i]) then
    local entry = {'*', 'id', ARGV[i + 1], 'type', ARGV[i + 2], 'event', ARGV[i + 3]}
    if ARGV[2] == '' then
      redis.call('XADD', stream, unpack(entry))
    else
      redis.call('XADD', stream, 'MAXLEN', '~', ARGV[2], unpack(entry))
    end
    number = number + 1
    redis.call('ZADD', noted, number, ARGV[i])
  end
end
redis.call('ZREMRANGEBYRANK', noted, 0, -1 - ARGV[1])
return number
"""


class RedisOutlet(Outlet):
    """Adds events to a stream; an entry has the fields ``id``, ``type`` and ``event``.

    ``event`` is the CloudEvent as JSON. What was added is noted beside the stream, in the key
    ``<stream>:driftbn:<name of the outlet>``, so that nothing is added twice even if entries have
    been deleted since.
    """

    def __init__(self, settings: RedisOutletSettings) -> None:
        super().__init__(settings.name)
        self._settings = settings
        self._noted = f"{settings.stream}:driftbn:{settings.name}"
        self._client: redis.Redis | None = None

    def open(self) -> None:
        self.close()
        with self._blamed():
            password = self._settings.password
            self._client = redis.Redis.from_url(
                self._settings.url,
                password=None if password is None else password.get_secret_value(),
                socket_timeout=TIMEOUT_SECONDS,
                socket_connect_timeout=TIMEOUT_SECONDS,
                retry=Retry(NoBackoff(), 0),  # the caller tries again, and says so
            )
            self._client.ping()

    def send(self, events: Sequence[Event]) -> None:
        if self._client is None:
            self.open()
        client = self._client
        assert client is not None
        length = self._settings.max_length
        arguments: list[str | bytes | int] = [RecentEvents.LIMIT, "" if length is None else length]
        for event in events:
            arguments += [event.fingerprint, event.id, event.type, event.to_json()]
        with self._blamed():
            client.eval(_ADD, 2, self._settings.stream, self._noted, *arguments)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        try:
            yield
        except (redis.RedisError, ValueError) as error:
            self.close()
            problem = f"stream {self._settings.stream}: {error}"
            raise OutletError(self.name, problem) from error
