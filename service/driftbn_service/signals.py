"""Signals as plain flags that the main loop looks at."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final

_STOPS: Final = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """Notes the signals of the process, while it is entered; for the main thread.

    Handlers only count. A pipe wakes ``wait``, so that a signal is looked at at once.

    Examples
    --------
    >>> with Signals() as signals:
    ...     signal.raise_signal(signal.SIGHUP)
    ...     signals.wait(0), signals.take_reload(), signals.take_reload(), signals.n_stops
    (None, True, False, 0)
    """

    def __init__(self) -> None:
        self.n_stops = 0
        self.stopped_by: int | None = None
        self._reload = False
        self._before: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {}
        self._pipe = (-1, -1)
        self._wakeup_before = -1

    def __enter__(self) -> Signals:
        self._pipe = os.pipe()
        for end in self._pipe:
            os.set_blocking(end, False)
        self._wakeup_before = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        for number in (*_STOPS, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        for end in self._pipe:
            os.close(end)

    def wait(self, timeout: float) -> None:
        """Wait for the next signal, ``timeout`` seconds at most."""
        if select.select([self._pipe[0]], [], [], timeout)[0]:
            os.read(self._pipe[0], 4096)

    def take_reload(self) -> bool:
        """Return whether a reload was asked for since the last call."""
        asked, self._reload = self._reload, False
        return asked

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._reload = True
        else:
            self.n_stops += 1
            self.stopped_by = number
