"""What the endpoint asks of the service that it belongs to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from driftbn.errors import DriftbnError
from driftbn_service.state import Accepted, Store


@dataclass(frozen=True)
class Submission:
    """The records of one request; all of them can be read.

    Parameters
    ----------
    stream
        Whose records they are.
    table
        The records.
    digest
        Of the body as it was sent, decompressed: tells whether two are the same.
    idempotency_key
        What the sender calls this body, if anything; the same key is taken once.
    """

    stream: str
    table: pa.Table = field(repr=False)
    digest: bytes = field(repr=False)
    idempotency_key: str | None = None


@dataclass(frozen=True)
class Health:
    """Whether the service works at all; a supervisor restarts one that does not.

    Parameters
    ----------
    healthy
        Whether it does.
    reasons
        What is wrong, in words.
    """

    healthy: bool
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Readiness:
    """Whether all sources are connected and checkpoints are written.

    Parameters
    ----------
    ready
        Whether that is so.
    reasons
        What is missing, in words.
    """

    ready: bool
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class StreamInfo:
    """A stream as it is set up.

    Parameters
    ----------
    name
        Of the stream, which is that of its monitors.
    source
        The kind of its source: ``http``, ``kafka`` and so on.
    state
        What it is doing, in a word.
    key
        The field that tells its monitors apart; ``None`` if there is one monitor only.
    trouble
        Why it is not as it should be; ``None`` if it is.
    max_record_bytes, max_fields
        Largest record that is taken, and the most fields of one or of a table.
    """

    name: str
    source: str
    state: str
    key: str | None = None
    trouble: str | None = None
    max_record_bytes: int = 1 << 20
    max_fields: int = 2000


class IngestError(DriftbnError):
    """Records cannot be taken.

    Attributes
    ----------
    stream
        Where they were sent.
    """

    def __init__(self, stream: str, problem: str) -> None:
        self.stream = stream
        super().__init__(problem)


class UnknownStreamError(IngestError):
    """There is no such stream."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream, f"there is no monitor {stream!r} in the settings")


class NotAnHttpStreamError(IngestError):
    """The stream gets its records elsewhere."""

    def __init__(self, stream: str, source: str) -> None:
        self.source = source
        super().__init__(
            stream,
            f"monitor {stream!r} gets its records from {source}: only one with source.kind ="
            ' "http" takes them here',
        )


class StoppingError(IngestError):
    """The service is being stopped."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream, "the service is being stopped: send again when it is back")


class NotReadyError(IngestError):
    """The stream has not been started yet."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream, f"monitor {stream!r} is being started: send again in a moment")


class Listener:
    """One follower; it waits on its own event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()

    def notify(self) -> None:
        """Wake it up. May be called by any thread."""
        # A loop that is closed has nobody waiting on it.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._news.set)

    async def wait(self, seconds: float) -> bool:
        """Return whether it was woken within so many seconds."""
        try:
            await asyncio.wait_for(self._news.wait(), seconds)
        except TimeoutError:
            return False
        self._news.clear()
        return True


class LiveSignal:
    """Tells followers that there may be something new in the store.

    The service makes one and calls ``wake`` after each publication; a wake too many does no harm.

    Examples
    --------
    >>> signal = LiveSignal()
    >>> signal.wake()
    >>> signal.close()
    >>> signal.closed
    True
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: set[Listener] = set()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether followers are to end."""
        return self._closed

    @property
    def n_listeners(self) -> int:
        """How many follow."""
        return len(self._listeners)

    def wake(self) -> None:
        """Wake all followers. May be called by any thread; does not block."""
        with self._lock:
            for listener in self._listeners:
                listener.notify()

    def close(self) -> None:
        """End all followers for good. May be called by any thread."""
        self._closed = True
        self.wake()

    @contextmanager
    def follow(self) -> Iterator[Listener]:
        """Give a listener that is woken as long as the body runs; needs a running event loop."""
        listener = Listener()
        with self._lock:
            self._listeners.add(listener)
        try:
            yield listener
        finally:
            with self._lock:
                self._listeners.discard(listener)


class ServiceView(Protocol):
    """The service as the endpoint sees it; all is asked by several threads at once."""

    @property
    def store(self) -> Store:
        """The history."""

    @property
    def live(self) -> LiveSignal:
        """Woken by the service whenever it has published something."""

    def healthy(self) -> Health:
        """Say whether the service works. Must not block: it is asked on the event loop."""

    def ready(self) -> Readiness:
        """Say whether the service is ready. Must not block: it is asked on the event loop."""

    def streams(self) -> tuple[StreamInfo, ...]:
        """Return the streams in the order of the settings."""

    def metrics_text(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics and their content type, by what the client accepts."""

    def ingest(self, submission: Submission) -> Accepted:
        """Append records to the journal of a stream and return when they are on disk.

        ``journal.append(submission.table, submission.idempotency_key, digest=submission.digest)``
        is all there is to do.

        Raises
        ------
        UnknownStreamError, NotAnHttpStreamError, NotReadyError, StoppingError
            If there is no journal to append to.
        JournalFullError, KeyConflictError, JournalError
            As the journal says.
        """
