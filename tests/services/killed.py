"""The command ``driftbn`` in a process that is ended by SIGKILL at a chosen call of a chosen part.

Such a process begins as a copy of one in which everything is imported: a test kills dozens of them.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftbn_service.cli import main

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


class KilledProcess:
    """A process with a kill point; it is asked and told as one of ``subprocess`` is."""

    def __init__(self, point: KillPoint, words: Sequence[str], log: Path) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.services.warmed"])
        self._process = context.Process(target=run, args=(point, words, log), daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, seconds: float | None = None) -> int:
        self._process.join(seconds)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("driftbn", seconds or 0.0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()


def run(point: KillPoint, words: Sequence[str], log: Path) -> None:
    """Run the command, with all that it says in a file."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(file, stream)
    # The monitor that warms kernels up must not be the one that is killed.
    importlib.import_module("driftbn_service.daemon").warm_up_monitor = tuple
    arm(point)
    sys.exit(main(words))


def arm(point: KillPoint) -> None:
    """Have the process killed at its kill point."""
    module_name, class_name, name = PHASES[point.phase]
    module: Any = importlib.import_module(module_name)
    owner = module if class_name is None else getattr(module, class_name)
    original: Callable[..., Any] = getattr(owner, name)
    n_calls = 0

    def counted(*arguments: Any, **named: Any) -> Any:
        nonlocal n_calls
        n_calls += 1
        if n_calls == point.nth and point.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*arguments, **named)
        if n_calls == point.nth:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, counted)
