"""An Alertmanager."""

from __future__ import annotations

from pathlib import Path

from tests.services.process import HOST, Service, free_port, program
from tests.services.prometheus import answers


class AlertmanagerService(Service):
    name = "alertmanager"

    def __init__(self, directory: Path, config: str) -> None:
        super().__init__(directory)
        self.url = f"http://{HOST}:{free_port()}"
        self._config = directory / "alertmanager.yml"
        self._config.write_text(config)

    def command(self) -> list[str]:
        return [
            program("prometheus-alertmanager", "prometheus-alertmanager"),
            f"--config.file={self._config}",
            f"--storage.path={self.directory / 'data'}",
            f"--web.listen-address={self.url.removeprefix('http://')}",
            "--cluster.listen-address=",
        ]

    def probe(self) -> bool:
        """Whether it says that it is ready."""
        return answers(f"{self.url}/-/ready")
