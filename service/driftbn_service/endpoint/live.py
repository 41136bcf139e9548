"""Waking those who follow events, from any thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager


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
