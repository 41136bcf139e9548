"""A program that reads a source until it is told to end, or killed."""

from __future__ import annotations

import importlib
import json
import logging
import random
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from driftbn_service.settings import StreamSettings
from driftbn_service.sources import make_source

from tests.services.keeper import Keeper
from tests.services.process import ServiceError

ROOT = Path(__file__).parents[2]


class Reader:
    def __init__(
        self,
        directory: Path,
        settings: dict[str, Any],
        key: str | None = None,
        idle_seconds: float | None = None,
    ) -> None:
        self.log = directory.with_suffix(".log")
        table = {"name": "s", "key": key, "source": settings}
        arguments = json.dumps([str(directory), table, idle_seconds])
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.services.reader", arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
            )

    def wait_until_open(self) -> None:
        if self._process.stdout is None or self._process.stdout.readline() != b"open\n":
            raise ServiceError(f"the reader has ended:\n{self.log.read_text()}")

    def kill(self) -> None:
        self._process.kill()
        self._wait()

    def stop(self) -> None:
        """Ask it to end, and see that it does so in order."""
        self._process.terminate()
        if self._wait():
            raise ServiceError(f"the reader has failed:\n{self.log.read_text()}")

    def _wait(self) -> int:
        code = self._process.wait(30.0)
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code


def make(stream: StreamSettings, idle_seconds: float | None) -> Any:
    if idle_seconds is None:
        return make_source(stream, None)
    return importlib.import_module("driftbn_service.sources.redis").RedisSource(
        stream.source, idle_seconds=idle_seconds
    )


def main(directory: Path, source: Any) -> None:
    """Read until SIGTERM, then write what was read and end."""
    stopping: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.append(number)

    signal.signal(signal.SIGTERM, stop)
    keeper = Keeper(directory, source)
    commits = random.Random()
    source.open(keeper)
    sys.stdout.write("open\n")
    sys.stdout.flush()
    while not stopping:
        keeper.run_once(0.05, commits)
    for lane in list(keeper.lanes):
        keeper.commit(lane)
    source.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    path, table, idle = json.loads(sys.argv[1])
    main(Path(path), make(StreamSettings.model_validate(table), idle))
