"""A queue between two threads that is bounded by the bytes of what waits in it."""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar

Item = TypeVar("Item")


class WorkQueue(Generic[Item]):
    """First in, first out; ``put`` waits while there is no room.

    Once it waits it does so until half of all is taken out: to wake a thread takes those that work
    longer than to hand over an item.

    Parameters
    ----------
    max_cost
        Sum of the costs of what may wait. A single item that costs more is let in alone.

    Examples
    --------
    >>> queue = WorkQueue(100)
    >>> queue.put("a", 60), queue.put("b", 60, timeout=0)
    (True, False)
    >>> queue.get(0), queue.put("b", 60, timeout=0), queue.get(0), queue.get(0)
    ('a', True, 'b', None)
    """

    def __init__(self, max_cost: int) -> None:
        self.max_cost = max_cost
        self._items: deque[tuple[Item, int]] = deque()
        self._cost = 0
        lock = threading.Lock()
        self._added = threading.Condition(lock)
        self._emptied = threading.Condition(lock)

    @property
    def cost(self) -> int:
        """The sum of the costs of what waits."""
        return self._cost

    def put(self, item: Item, cost: int, timeout: float | None = None) -> bool:
        """Add an item; ``False`` if there was no room within ``timeout`` seconds."""
        with self._emptied:
            if not self._emptied.wait_for(lambda: self._has_room(cost), timeout):
                return False
            self._items.append((item, cost))
            self._cost += cost
            self._added.notify()
            return True

    def get(self, timeout: float | None = None) -> Item | None:
        """Take the oldest item out; ``None`` if there was none within ``timeout`` seconds."""
        with self._added:
            if not self._added.wait_for(lambda: self._items, timeout):
                return None
            item, cost = self._items.popleft()
            self._cost -= cost
            if 2 * self._cost <= self.max_cost:
                self._emptied.notify_all()
            return item

    def clear(self) -> None:
        """Throw away what waits."""
        with self._emptied:
            self._items.clear()
            self._cost = 0
            self._emptied.notify_all()

    def _has_room(self, cost: int) -> bool:
        return not self._items or self._cost + cost <= self.max_cost
