"""The daemon of this project as a process, which may be killed at a chosen call of a chosen part.

It begins as a copy of one in which everything is imported and compiled: tests start hundreds.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

import pyarrow as pa
from driftbn_service.cli import main
from driftbn_service.state import FILE, Store

from driftbn import DriftMonitor
from tests.services.process import HOST, Service, ServiceError, free_port, wait_for

ROOT = Path(__file__).parents[2]
PHASES = {
    "read": ("driftbn_service.stream", "StreamPipeline", "_read_once"),
    "decode": ("driftbn_service.records", "Decoder", "decode"),
    "learn": ("driftbn", "DriftMonitor", "update"),
    "snapshot": ("driftbn", "DriftMonitor", "snapshot"),
    "state": ("driftbn_service.state", "LaneState", "put"),
    "accept": ("driftbn_service.lane", "Lane", "_accept"),
    "commit": ("driftbn_service.state", "LaneState", "commit"),
    "publish": ("driftbn_service.state.history", "PublicationWriter", "write"),
    "transaction": ("driftbn_service.state.database", "Database", "write"),
    "release": ("driftbn_service.stream", "StreamPipeline", "_release"),
    "deliver": ("driftbn_service.outlets.file", "FileOutlet", "send"),
    "note": ("driftbn_service.state", "Store", "delivered"),
}


@dataclass(frozen=True)
class KillPoint:
    """Where the process ends itself by SIGKILL: before or after the nth call of a part."""

    phase: str
    nth: int
    when: str

    def arm(self) -> None:
        """Have this process killed there; the monitor that warms kernels up is left out."""
        importlib.import_module("driftbn_service.daemon").warm_up_monitor = tuple
        module_name, class_name, name = PHASES[self.phase]
        owner = getattr(importlib.import_module(module_name), class_name)
        original: Callable[..., Any] = getattr(owner, name)
        n_calls = 0

        def counted(*arguments: Any, **named: Any) -> Any:
            nonlocal n_calls
            n_calls += 1
            if n_calls == self.nth and self.when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = original(*arguments, **named)
            if n_calls == self.nth:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        setattr(owner, name, counted)


def break_monitors() -> None:
    """Have monitors fail over records with a field ``poison``, when it has changed them."""
    update = DriftMonitor.update

    def poisoned(self: DriftMonitor, batch: Any) -> Any:
        reports = update(self, batch)
        if isinstance(batch, pa.Table) and "poison" in batch.column_names:
            raise ZeroDivisionError("poison")
        return reports

    DriftMonitor.update = poisoned  # type: ignore[method-assign]


def shorten_leases() -> None:
    """Have a process that hangs lose its lanes in half the time."""
    importlib.import_module("driftbn_service.state.lanes").LEASE_SECONDS = 15.0
    importlib.import_module("driftbn_service.daemon").LEASE_SECONDS = 2.0


class ForkedProcess:
    """The command in a process that is asked and told as one of ``subprocess`` is."""

    def __init__(self, prepare: Callable[[], None] | None, words: Sequence[str], log: Path) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.services.warmed"])
        self._process = context.Process(target=run, args=(prepare, words, log), daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("driftbn", timeout or 0.0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()


def run(prepare: Callable[[], None] | None, words: Sequence[str], log: Path) -> None:
    """Run the command, with all that it says in a file."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(file, stream)
    if prepare is not None:
        prepare()
    sys.exit(main(words))


class DaemonService(Service):
    """``driftbn run`` on settings of its own."""

    name = "daemon"
    started: ClassVar[weakref.WeakSet[DaemonService]] = weakref.WeakSet()

    def __init__(
        self,
        directory: Path,
        settings: str,
        *,
        exit_when_drained: bool = False,
        state_dir: Path | None = None,
        database: str | None = None,
    ) -> None:
        super().__init__(directory)
        self.port = free_port()
        self.prepare: Callable[[], None] | None = None  # called in the process before all else
        self.state_dir = state_dir or directory / "state"
        # One identity for all, so that the events of two state directories can be compared.
        self.place = database or self.history
        Store(self.place, new_id=lambda: UUID(int=1)).close()
        shared = f'database = "{database}"\n' if database else ""
        self.config = directory / "driftbn.toml"
        drained = "true" if exit_when_drained else "false"
        self.config.write_text(
            f'[service]\nstate_dir = "{self.state_dir}"\nexit_when_drained = {drained}\n'
            f"{shared}\n"
            f"[endpoint]\nport = {self.port}\n\n{settings}"
        )

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def history(self) -> Path:
        """The file of the state, with the history."""
        return self.state_dir / FILE

    def command(self) -> list[str]:
        return [sys.executable, "-m", "driftbn_service", "run", "--config", str(self.config)]

    def begin(self, *options: str) -> None:
        """Start it, as a copy of a process that is there."""
        self.started.add(self)
        self._process = ForkedProcess(self.prepare, [*self.command()[3:], *options], self.log)

    def start(self) -> None:
        """Start it and wait until it is ready."""
        self.begin()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Wait until it says that it is ready."""
        wait_for(
            lambda: self.probe() or not self.running, "the daemon is ready", self.start_seconds
        )
        if not self.running:
            raise ServiceError(f"the daemon ended while starting:\n{self.log_tail()}")

    def probe(self) -> bool:
        """Whether it says that it is ready."""
        return self.readiness()[0] == 200

    def readiness(self) -> tuple[int, str]:
        """Return the status and the text of its answer when asked whether it is ready."""
        try:
            with urllib.request.urlopen(f"{self.address}/-/ready", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def signal(self, number: int) -> None:
        self._running().send_signal(number)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def wait(self, seconds: float = 120.0) -> int:
        """Wait for its end and return the exit code."""
        try:
            return self._running().wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServiceError(f"the daemon does not end:\n{self.log_tail()}") from None

    def end(self) -> int:
        """Ask it to end, wait, and return the exit code."""
        self._running().terminate()
        return self.wait()
