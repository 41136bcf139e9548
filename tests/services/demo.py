"""The demonstration of this project as a process."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.services.process import HOST, Service, free_port
from tests.services.prometheus import answers


class DemoService(Service):
    """``driftbn demo --stay``: a stream with drifts at known places, and more of them later."""

    name = "demo"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.target = f"{HOST}:{free_port()}"

    def command(self) -> list[str]:
        port = self.target.rpartition(":")[2]
        words = ["demo", "--stay", "--port", port, "--state-dir", str(self.directory / "state")]
        return [sys.executable, "-m", "driftbn_service", *words]

    def probe(self) -> bool:
        """Whether it says that it is ready."""
        return answers(f"http://{self.target}/-/ready")
