"""A process among others: signals as flags that the main loop looks at, and messages to systemd."""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
from collections.abc import Callable, Mapping
from types import FrameType
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

    def __exit__(self, *_: object) -> None:
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


# Messages to systemd, as described in sd_notify(3); nothing happens where there is none.

logger = logging.getLogger("driftbn.service.process")


class Notifier:
    """Tells the service manager that started this process how it is."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        # "@" stands for the zero byte that begins an abstract address.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        period = environ.get("WATCHDOG_USEC", "")
        own = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self.watchdog_seconds = int(period) / 1e6 if period.isdigit() and own else None

    def ready(self, status: str) -> None:
        """Say that the start, or a reload, is done."""
        self._send(f"READY=1\nSTATUS={status}")

    def status(self, status: str) -> None:
        self._send(f"STATUS={status}")

    def reloading(self, monotonic_seconds: float) -> None:
        """Say that settings are being read again."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={int(monotonic_seconds * 1e6)}")

    def alive(self) -> None:
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.sendto(message.encode(), self._address)
        except OSError as error:
            logger.debug("the service manager cannot be told: %s", error)
