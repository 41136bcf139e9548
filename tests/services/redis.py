"""A Redis server that has everything written before it answers: a kill loses nothing."""

from __future__ import annotations

import contextlib
from pathlib import Path

import redis

from tests.services.process import HOST, Service, free_port, program


class RedisService(Service):
    name = "redis"

    def __init__(self, directory: Path, password: str | None = None) -> None:
        super().__init__(directory)
        self.port = free_port()
        self.password = password

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    def client(self) -> redis.Redis:
        return redis.Redis(host=HOST, port=self.port, password=self.password)

    def command(self) -> list[str]:
        """Run with every write in the kernel before it is answered."""
        options = {
            "--port": str(self.port),
            "--bind": HOST,
            "--dir": str(self.directory),
            "--appendonly": "yes",
            "--appendfsync": "no",
            "--save": "",
        }
        if self.password is not None:
            options["--requirepass"] = self.password
        server = program("redis-server", "redis-server")
        return [server, *(word for option in options.items() for word in option)]

    def probe(self) -> bool:
        with contextlib.suppress(redis.RedisError), self.client() as client:
            return bool(client.ping())
        return False
