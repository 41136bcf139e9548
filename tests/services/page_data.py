"""Streams for the page: a real history of real monitors, served by the real application.

To look at the page while working on it: ``python -m tests.services.page_data PORT``. A window comes
every few seconds then.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from driftbn_service.commands.demo import WINDOW, Scene, make_scenes
from driftbn_service.events import EventState, Publication, Whose, publication_of
from driftbn_service.http import StreamInfo
from driftbn_service.http.server import EndpointServer, make_app
from driftbn_service.page import page_routes
from driftbn_service.settings import EndpointSettings

from driftbn import DriftMonitor, MonitorConfig, datasets
from driftbn.graphs.network import BayesianNetwork
from tests.drawn_changes import pick_added_edges, pick_removed_edges
from tests.http_service import FakeService
from tests.networks import load

HOSTILE = "<script>window.harmed=1</script>"
"""A field whose name would do harm if it were taken for markup."""
WIDE_EDGE = 0.08
_START_SECONDS = 1_760_000_000.0
_SECONDS_BETWEEN = 0.9
STREAMS = (
    StreamInfo("vitals", "kafka", "running"),
    StreamInfo("checkout", "http", "running", key="region"),
    StreamInfo("telemetry", "files", "drained"),
    StreamInfo("turbine", "redis", "waiting", trouble="the server does not answer"),
    StreamInfo("new-stream", "http", "running"),
)


class PageService(FakeService):
    def streams(self) -> tuple[StreamInfo, ...]:
        return STREAMS


class Recorder:
    """A monitor that says what is to be published."""

    def __init__(self, monitor: str, key: str, config: MonitorConfig) -> None:
        self._whose = Whose(monitor, key)
        self._monitor = DriftMonitor(config)
        self._state = EventState()

    def publications(self, batches: Iterable[Any]) -> Iterator[Publication]:
        for batch in batches:
            for report in self._monitor.update(batch):
                self._state, found = publication_of(self._whose, report, self._state)
                yield found


def scene_batches(scenes: Iterable[Scene], first_seed: int = 1000) -> Iterator[pd.DataFrame]:
    """Iterate over the windows of scenes as tables with event times."""
    seed = first_seed
    for scene in scenes:
        for _ in range(scene.n_windows):
            batch = datasets.sample(scene.network, WINDOW, seed)
            first = (seed - first_seed) * WINDOW
            batch["ts"] = _START_SECONDS + (first + np.arange(WINDOW)) * _SECONDS_BETWEEN
            yield batch
            seed += 1


@cache
def vitals() -> tuple[Publication, ...]:
    """Return the stream of the demonstration, as its monitor sees it with a target."""
    config = MonitorConfig(window=WINDOW, target="BP", time_column="ts")
    return tuple(Recorder("vitals", "", config).publications(scene_batches(make_scenes())))


@cache
def checkout(key: str) -> tuple[Publication, ...]:
    """Return a small stream of a key; that of "eu" drifts in the end, and a name is hostile."""
    network = datasets.asia()
    changed = datasets.remove_edge(network, "smoke", "bronc").network if key == "eu" else network
    recorder = Recorder("checkout", key, MonitorConfig(window=1500))
    seeds = range(100 * len(key), 100 * len(key) + 12)
    batches = (
        datasets.sample(network if n < 9 else changed, 1500, seed).rename(columns={"asia": HOSTILE})
        for n, seed in enumerate(seeds)
    )
    return tuple(recorder.publications(batches))


@cache
def telemetry() -> tuple[Publication, ...]:
    """Return 2000 windows of a small stream that changes every 250 windows."""
    rng = np.random.default_rng(3)
    recorder = Recorder("telemetry", "", MonitorConfig(window=200))
    return tuple(recorder.publications(_pairs(rng, n // 250 % 2 == 1) for n in range(2000)))


@cache
def turbine(n_windows: int = 9) -> tuple[Publication, ...]:
    """Return a stream of 200 fields that loses an edge and gains one."""
    network = load("200_250")
    recorder = Recorder("turbine", "", MonitorConfig(window=4000, target=network.nodes[60]))
    changed = _wide_change(network)
    batches = (
        datasets.sample(network if n < n_windows - 3 else changed, 4000, 50 + n)
        for n in range(n_windows)
    )
    return tuple(recorder.publications(batches))


def all_publications() -> Iterator[tuple[Publication, ...]]:
    """Iterate over everything that the page can show."""
    yield vitals()
    yield checkout("eu")
    yield checkout("us-east")
    yield turbine()
    yield telemetry()


@contextmanager
def serving(
    directory: Path, port: int = 0, token: str | None = None
) -> Iterator[tuple[PageService, str]]:
    """Serve an empty history; give the service and its address."""
    settings = EndpointSettings.model_validate({"port": port, "token": token})
    with PageService(directory) as service:
        server = EndpointServer(make_app(service, settings, page_routes=page_routes()), settings)
        server.start()
        try:
            yield service, server.address
        finally:
            server.stop(1.0)


def _pairs(rng: np.random.Generator, changed: bool) -> dict[str, list[str]]:
    load_, wind = rng.integers(0, 2, 200), rng.integers(0, 2, 200)
    speed = np.where(rng.random(200) < 0.9, wind, 1 - wind)
    heat = np.where(rng.random(200) < 0.85, load_ if changed else speed, rng.integers(0, 2, 200))
    columns = {"load": load_, "wind": wind, "speed": speed, "heat": heat}
    return {name: [f"v{value}" for value in column] for name, column in columns.items()}


def _wide_change(network: BayesianNetwork) -> BayesianNetwork:
    rng = np.random.default_rng(5)
    (lost,) = pick_removed_edges(network, 1, (0.06, 1.0), rng)
    network = datasets.remove_edge(network, *lost.edge).network
    (gained,) = pick_added_edges(network, 1, (0.06, 0.1), rng)
    return datasets.add_edge(network, *gained.edge, WIDE_EDGE, rng).network


def main(port: int, seconds: float = 4.0) -> None:
    """Serve everything until the process is ended; ``vitals`` goes on."""
    recorder = Recorder("vitals", "", MonitorConfig(window=WINDOW, target="BP", time_column="ts"))
    with tempfile.TemporaryDirectory() as name, serving(Path(name), port) as (service, address):
        sys.stdout.write(f"{address}\n")
        sys.stdout.flush()
        scenes = make_scenes()
        service.publish(list(recorder.publications(scene_batches(scenes))))
        for found in (checkout("eu"), checkout("us-east"), turbine(), telemetry()):
            service.publish(found)
        sys.stdout.write("filled\n")
        sys.stdout.flush()
        pause = threading.Event()
        for found in recorder.publications(scene_batches(scenes * 100, first_seed=5000)):
            service.publish([found])
            pause.wait(seconds)


if __name__ == "__main__":
    main(int(sys.argv[1]))
