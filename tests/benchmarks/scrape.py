"""How long Prometheus waits for the metrics of many streams, over real HTTP.

Run ``python -m tests.benchmarks.scrape``. The real endpoint listens in a process of its own, on one
core; every stream has published windows. Times are those of the client, from the request to the
last byte, on a connection that stays open as Prometheus keeps it:

nothing changed
    Since the last scrape no stream has done anything.
records came
    Every stream has taken records and written a checkpoint; no window was published.
all changed
    Every stream has also published a window.

Between scrapes the streams do their part, which is not timed: it is the work of their own threads.
"""

from __future__ import annotations

import argparse
import http.client
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from enum import Enum
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import urlsplit

from driftbn_service.http.server import EndpointServer, make_app
from driftbn_service.settings import EndpointSettings

from tests.benchmarks.environment import pin_to_one_core
from tests.http_service import FakeService, drifting_publications

N_STREAMS = 500
N_REPEATS = 50
ACCEPTED = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
STOP_SECONDS = 5.0


class MeasuredService(FakeService):
    """A service with the metrics of many streams."""

    def __init__(self, directory: Path, n_streams: int) -> None:
        super().__init__(directory)
        self._windows = drifting_publications()
        self._n_steps = 0
        for outlet in ("log", "alerts"):
            self.metrics.add_outlet(outlet)
        names = (f"stream-{number:03}" for number in range(n_streams))
        self.told = [self.metrics.add_stream(name, "files") for name in names]

    def take_records(self) -> None:
        """Have every stream do what it does between windows."""
        self._n_steps += 1
        for stream in self.told:
            stream.records("taken", 100)
            stream.buffered(self._n_steps)
            stream.behind("", self._n_steps)
            stream.state("running")
            stream.committed(0.001 * self._n_steps)

    def publish_windows(self) -> None:
        """Have every stream publish a window as well."""
        self.take_records()
        window = self._windows[self._n_steps % len(self._windows)]
        for stream in self.told:
            stream.window(window)


class Happening(Enum):
    """What the streams do between two scrapes."""

    NOTHING = "nothing changed"
    RECORDS = "records came"
    WINDOWS = "all changed"


def serve(n_streams: int, core: int | None, told: Connection) -> None:
    """Serve metrics, and have happen what is told, until there is nobody to tell it."""
    pin_to_one_core(core)
    settings = EndpointSettings(port=0)
    with (
        tempfile.TemporaryDirectory() as directory,
        MeasuredService(Path(directory), n_streams) as service,
    ):
        service.publish_windows()
        actions: dict[Happening, Callable[[], None]] = {
            Happening.NOTHING: lambda: None,
            Happening.RECORDS: service.take_records,
            Happening.WINDOWS: service.publish_windows,
        }
        server = EndpointServer(make_app(service, settings), settings)
        server.start()
        told.send(server.address)
        while (happening := told.recv()) is not None:
            actions[happening]()
            told.send(True)
        server.stop(STOP_SECONDS)


def scrape(connection: http.client.HTTPConnection) -> bytes:
    connection.request("GET", "/metrics", headers={"Accept": ACCEPTED})
    answer = connection.getresponse()
    if answer.status != http.client.OK:
        raise http.client.HTTPException(f"status {answer.status}")
    return answer.read()


def measure(connection: http.client.HTTPConnection, happen: Callable[[], None]) -> float:
    """Return the milliseconds of a scrape before which something happens."""
    happen()
    begin = time.perf_counter()
    scrape(connection)
    return 1000 * (time.perf_counter() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.scrape")
    parser.add_argument("--streams", type=int, default=N_STREAMS, help="(%(default)s)")
    parser.add_argument("--repeats", type=int, default=N_REPEATS, help="(%(default)s)")
    parser.add_argument("--core", type=int, help="of the server; default: the last one")
    arguments = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(
        target=serve, args=(arguments.streams, arguments.core, theirs)
    )
    server.start()

    def happen(what: Happening) -> None:
        ours.send(what)
        ours.recv()

    connection = http.client.HTTPConnection(urlsplit(ours.recv()).netloc)
    body, newline = scrape(connection), b"\n"
    size = f"{len(body) / 1e6:.2f} MB, {body.count(newline):,} lines"
    sys.stdout.write(f"{arguments.streams} streams: {size}\n")
    for what in Happening:
        times = [measure(connection, partial(happen, what)) for _ in range(arguments.repeats)]
        words = f"{min(times):6.1f} ms at best, {statistics.median(times):6.1f} ms as a median"
        sys.stdout.write(f"{what.value:16} {words}\n")
    connection.close()
    ours.send(None)
    server.join()


if __name__ == "__main__":
    main()
