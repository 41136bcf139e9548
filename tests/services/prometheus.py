"""A Prometheus server."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from tests.services.process import HOST, Service, ServiceError, free_port, program


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

    def query(self, expression: str) -> list[Any]:
        """Return the series that an expression has now."""
        return list(self._ask("query", query=expression)["result"])

    def query_range(self, expression: str, seconds: float = 600.0) -> list[Any]:
        """Return the series that an expression has had, looked at every second."""
        now = time.time()
        times = {"start": f"{now - seconds:.3f}", "end": f"{now:.3f}", "step": "1"}
        return list(self._ask("query_range", query=expression, **times)["result"])

    def value(self, expression: str) -> float | None:
        """Return the value of the only series that an expression has; ``None`` if it has none."""
        found = self.query(expression)
        return float(found[0]["value"][1]) if len(found) == 1 else None

    def rules(self) -> list[Any]:
        """Return all rules with what became of them."""
        groups = self._ask("rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def _ask(self, what: str, **parameters: str) -> Any:
        body = urllib.parse.urlencode(parameters).encode()
        url = f"{self.url}/api/v1/{what}"
        request = url if not parameters else urllib.request.Request(url, data=body)
        try:
            with urllib.request.urlopen(request, timeout=30.0) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            problem = json.load(error).get("error", error.reason)
            raise ServiceError(f"{parameters.get('query', what)}: {problem}") from error
