"""Messages to systemd, as described in sd_notify(3); nothing happens where there is none."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping

logger = logging.getLogger(f"driftbn.{__name__}")


class Notifier:
    """Tells the service manager that started this process how it is.

    Parameters
    ----------
    environ
        The process's environment: ``NOTIFY_SOCKET`` and ``WATCHDOG_USEC`` are read.
    """

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
        """Say in words what is going on."""
        self._send(f"STATUS={status}")

    def reloading(self, monotonic_seconds: float) -> None:
        """Say that settings are being read again."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={int(monotonic_seconds * 1e6)}")

    def alive(self) -> None:
        """Keep the watchdog quiet."""
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """Say that the end has begun."""
        self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.sendto(message.encode(), self._address)
        except OSError as error:
            logger.debug("the service manager cannot be told: %s", error)
