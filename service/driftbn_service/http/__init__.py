"""The HTTP endpoint, and what it asks of the service that it belongs to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from driftbn.errors import DriftbnError
from driftbn_service.metrics import Metrics
from driftbn_service.state import Accepted, ActionRow, Store, Wish


@dataclass(frozen=True)
class StreamInfo:
    name: str  # of the stream, which is that of its monitors
    source: str  # the kind of its source: ``http``, ``kafka`` and so on
    state: str  # what it is doing, in a word
    # The field that tells its monitors apart; ``None`` if there is one monitor only.
    key: str | None = None
    trouble: str | None = None  # why it is not as it should be; ``None`` if it is
    max_record_bytes: int = 1 << 20  # the largest record that is taken
    max_fields: int = 2000  # of a record or a table


class NotNowError(DriftbnError):
    """The service, or the stream, is being started, stopped or replaced."""


class LiveSignal:
    """Tells followers that there may be something new in the store.

    The service makes one and calls ``wake`` after each publication; a wake too many does no harm.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._followers: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self.closed = False  # whether followers are to end

    @property
    def n_followers(self) -> int:
        return len(self._followers)

    def wake(self) -> None:
        """Wake all followers. May be called by any thread; does not block."""
        with self._lock:
            for news, loop in self._followers.items():
                if not loop.is_closed():  # one that is closed has nobody waiting on it
                    loop.call_soon_threadsafe(news.set)

    def close(self) -> None:
        """End all followers for good. May be called by any thread."""
        self.closed = True
        self.wake()

    @contextmanager
    def follow(self) -> Iterator[asyncio.Event]:
        """Give what is set by each ``wake`` while the body runs; needs a running event loop."""
        news = asyncio.Event()
        with self._lock:
            self._followers[news] = asyncio.get_running_loop()
        try:
            yield news
        finally:
            with self._lock:
                del self._followers[news]


class ServiceView(Protocol):
    """The service as the endpoint sees it; all is asked by several threads at once."""

    @property
    def store(self) -> Store:
        """The history."""

    @property
    def metrics(self) -> Metrics:
        """Shown to whoever scrapes, and told of every answer."""

    @property
    def live(self) -> LiveSignal:
        """Woken by the service whenever it has published something."""

    def sickness(self) -> tuple[str, ...]:
        """Say what keeps the service from working at all, in words: a supervisor restarts it then.

        Must not block, as it is asked on the event loop; nor must the next.
        """

    def unreadiness(self) -> tuple[str, ...]:
        """Say which sources are not connected, or what else is missing, in words."""

    def streams(self) -> tuple[StreamInfo, ...]:
        """Return the streams in the order of the settings."""

    def act(self, wish: Wish) -> ActionRow:
        """Enter what somebody wants and return when it is on disk; an accept is done soon."""

    def ingest(self, stream: str, table: pa.Table, key: str | None, digest: bytes) -> Accepted:
        """Append records to the journal of a stream and return when they are on disk.

        The same idempotency key is taken once; the digest of the body, decompressed, tells whether
        two are the same.

        Raises ``NotNowError`` if there is no journal to append to, ``JournalFullError``,
        ``KeyConflictError`` or ``JournalError`` as the journal says.
        """
