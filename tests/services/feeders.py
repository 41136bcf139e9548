"""What sends records to a daemon, by each way that there is."""

from __future__ import annotations

import itertools
import json
import queue
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import urllib3

from tests.services.kafka import KafkaService
from tests.services.process import ServiceError
from tests.services.redis import RedisService

Records = Sequence[dict[str, Any]]
_PASSES = 20


class Feeder(Protocol):
    """Sends records in the order they are given."""

    def send(self, records: Records) -> None:
        """Send some more; returns when they are where the daemon finds them."""


class FileFeeder:
    def __init__(self, path: Path) -> None:
        self._path = path

    def send(self, records: Records) -> None:
        with self._path.open("ab") as file:
            file.write(b"".join(json.dumps(record).encode() + b"\n" for record in records))


class HttpFeeder:
    """Posts records in pieces, each until it is accepted, to one address after the other.

    One that does not answer is left alone for some pieces, as a load balancer does.
    """

    def __init__(self, address: str, stream: str, piece: int, *others: str) -> None:
        path = f"/api/v1/streams/{stream}/records"
        self._urls = [f"{one}{path}" for one in (address, *others)]
        self._turns = itertools.cycle(self._urls)
        self._n_passes: Counter[str] = Counter()
        self._piece = piece
        self._pool = urllib3.PoolManager(retries=False, timeout=3)
        self._bodies: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._post_all, name="feeder", daemon=True)

    def __enter__(self) -> HttpFeeder:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bodies.put(None)
        self._thread.join(60)

    def send(self, records: Records) -> None:
        """Send records as soon as a daemon takes them."""
        for start in range(0, len(records), self._piece):
            piece = records[start : start + self._piece]
            self._bodies.put(b"".join(json.dumps(record).encode() + b"\n" for record in piece))

    def _post_all(self) -> None:
        for number in itertools.count():
            body = self._bodies.get()
            if body is None:
                return
            while not self._post(body, f"piece-{number}"):
                time.sleep(0.02)  # nobody says when a daemon is back

    def _next_url(self) -> str:
        while True:
            url = next(self._turns)
            self._n_passes[url] -= 1
            if self._n_passes[url] < 0:
                return url

    def _post(self, body: bytes, key: str) -> bool:
        url = self._next_url()
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": key}
        try:
            answer = self._pool.request("POST", url, body=body, headers=headers)
        except urllib3.exceptions.HTTPError:
            self._n_passes[url] = _PASSES if len(self._urls) > 1 else 0
            return False
        if answer.status not in (202, 404, 429, 503):
            raise ServiceError(f"{answer.status}: {answer.data!r}")
        return answer.status == 202


class RedisFeeder:
    """Adds records to a stream of Redis."""

    def __init__(self, server: RedisService, stream: str) -> None:
        self._server = server
        self._stream = stream

    def send(self, records: Records) -> None:
        """Add records, each as JSON in the field ``data``."""
        with self._server.client() as client:
            for start in range(0, len(records), 1000):
                with client.pipeline(transaction=False) as pipeline:
                    for record in records[start : start + 1000]:
                        pipeline.xadd(self._stream, {"data": json.dumps(record)})
                    pipeline.execute()


class KafkaFeeder:
    def __init__(self, broker: KafkaService, topic: str, n_partitions: int) -> None:
        self._broker = broker
        self._topic = topic
        broker.create_topic(topic, n_partitions)

    def send(self, records: Records, partition: int = 0) -> None:
        for start in range(0, len(records), 10_000):
            part = (json.dumps(record).encode() for record in records[start : start + 10_000])
            self._broker.produce(self._topic, part, partition)
