"""A server as a process: started, asked until it answers, stopped by its process id."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, Protocol

import pytest

HOST = "127.0.0.1"
_PROBE_SECONDS = 0.02
_STOP_SECONDS = 30.0
# Below the ports that systems give to outgoing connections: a server that is killed must get its
# port back, and nobody else may have taken it meanwhile.
_PORTS = range(18000, 32000)


class ServiceError(Exception):
    """A server does not start or does not stop; the message ends with its log."""


def missing(reason: str) -> NoReturn:
    """Skip the test on a user's machine; where everything must be there, fail it."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def program(name: str, package: str) -> str:
    """Return the path of a program, or say which package has it."""
    path = shutil.which(name)
    if path is None:
        missing(f"{name} is not installed: it comes with the package {package}")
    return path


def free_port() -> int:
    """Return a port that nobody listens at."""
    for port in random.SystemRandom().sample(_PORTS, 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, port))
            return port
    raise ServiceError("no free port found")


def wait_for(condition: Callable[[], object], what: str, seconds: float = 30.0) -> None:
    """Ask again and again until ``condition`` holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ServiceError(f"waited {seconds:g} s in vain: {what}")
        time.sleep(_PROBE_SECONDS)


class Process(Protocol):
    """What a service asks of its process."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


class Service(ABC):
    """A server that can be started, stopped, killed and started again on the same port and data."""

    name: str
    start_seconds = 60.0

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = directory / f"{self.name}.log"
        self._process: Process | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command that runs the server in the foreground."""

    @abstractmethod
    def probe(self) -> bool:
        """Whether the server answers."""

    @property
    def pid(self) -> int:
        return self._running().pid

    def start(self) -> None:
        """Start the server and wait until it answers."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdout=log, stderr=subprocess.STDOUT, cwd=self.directory
            )
        deadline = time.monotonic() + self.start_seconds
        while not self.probe():
            if self._process.poll() is not None:
                raise ServiceError(f"{self.name} ended while starting:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise ServiceError(f"{self.name} does not answer:\n{self.log_tail()}")
            time.sleep(_PROBE_SECONDS)

    def stop(self) -> None:
        """Ask the server to end and wait for it; one that does not is killed."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServiceError(f"{self.name} had to be killed:\n{self.log_tail()}") from None
        self._process = None

    def kill(self) -> None:
        """End the server at once, as a lost machine would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def log_tail(self, n_lines: int = 15) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-n_lines:])

    def _running(self) -> Process:
        if self._process is None:
            raise ServiceError(f"{self.name} is not running")
        return self._process
