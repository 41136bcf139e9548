"""The daemon of this project as a process."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
import weakref
from pathlib import Path
from typing import ClassVar
from uuid import UUID

from driftbn_service.state import FILE, Store

from tests.services.killed import KilledProcess, KillPoint
from tests.services.process import HOST, Service, ServiceError, free_port, wait_for

ROOT = Path(__file__).parents[2]


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
        self.kill_point: KillPoint | None = None
        self.module = "driftbn_service"  # that is run
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

    @property
    def words(self) -> list[str]:
        return ["run", "--config", str(self.config)]

    def command(self) -> list[str]:
        return [sys.executable, "-m", self.module, *self.words]

    def begin(self) -> None:
        """Start it, with a kill point if there is one."""
        self.started.add(self)
        if self.kill_point is not None:
            self._process = KilledProcess(self.kill_point, self.words, self.log)
            return
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdout=log, stderr=subprocess.STDOUT, cwd=ROOT
            )

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
