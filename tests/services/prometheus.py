"""A Prometheus server."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

from tests.services.process import HOST, Service, free_port, program


def answers(url: str) -> bool:
    """Whether a GET of ``url`` is answered with 200."""
    try:
        with urllib.request.urlopen(url, timeout=1.0) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


class PrometheusService(Service):
    """A Prometheus server.

    Ready is not scraped: ask for ``up`` until it is 1 before looking at anything else.

    Parameters
    ----------
    directory
        Where its data lives.
    config
        The text of its ``prometheus.yml``; files that it names stand in ``directory``.
    """

    name = "prometheus"

    def __init__(self, directory: Path, config: str) -> None:
        super().__init__(directory)
        self.url = f"http://{HOST}:{free_port()}"
        self._config = directory / "prometheus.yml"
        self._config.write_text(config)

    def command(self) -> list[str]:
        """Run with a store of its own."""
        return [
            program("prometheus", "prometheus"),
            f"--config.file={self._config}",
            f"--storage.tsdb.path={self.directory / 'data'}",
            f"--web.listen-address={self.url.removeprefix('http://')}",
        ]

    def probe(self) -> bool:
        """Whether it says that it is ready."""
        return answers(f"{self.url}/-/ready")
