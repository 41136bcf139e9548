"""A service for tests of the endpoint: a real state behind a plain view."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
from driftbn_service.events import Publication
from driftbn_service.http import LiveSignal, StreamInfo
from driftbn_service.http.routes import Limits  # noqa: F401
from driftbn_service.http.server import (  # noqa: F401
    FREE_CHUNKS,
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    EndpointError,
    EndpointServer,
    all_operations,
    make_app,
)
from driftbn_service.metrics import Metrics
from driftbn_service.state import FILE, Accepted, ActionRow, Store, Wish

from driftbn import DriftMonitor, MonitorConfig
from tests.reports import published

WINDOW = 400
N_BEFORE, N_AFTER = 9, 6
SLASH = "c/d %é"
"""A field whose name does not fit into a path as it is."""
STREAMS = (
    StreamInfo("orders", "http", "running"),
    StreamInfo("clicks", "kafka", "waiting", key="tenant", trouble="the broker is away"),
    StreamInfo("quiet", "files", "running"),
)


class FakeService:
    """What the daemon is to the endpoint, as far as the endpoint can tell."""

    def __init__(self, directory: Path, *, max_pending_bytes: int = 1 << 20) -> None:
        self.store = Store(directory / FILE)
        self.journal = self.store.journal(
            "orders", max_pending_bytes=max_pending_bytes, remember_keys=100
        )
        self.metrics = Metrics()
        self.live = LiveSignal()
        self.sick: tuple[str, ...] = ()
        self.unready: tuple[str, ...] = ()

    def sickness(self) -> tuple[str, ...]:
        return self.sick

    def unreadiness(self) -> tuple[str, ...]:
        return self.unready

    def streams(self) -> tuple[StreamInfo, ...]:
        return STREAMS

    def act(self, wish: Wish) -> ActionRow:
        return self.store.act(wish)

    def ingest(self, stream: str, table: pa.Table, key: str | None, digest: bytes) -> Accepted:
        return self.journal.append(table, key, digest=digest)

    def publish(self, publications: Sequence[Publication]) -> None:
        """Publish as the daemon does: first the history, then a sign to those who follow."""
        self.store.publish(publications)
        self.live.wake()

    def taken(self) -> list[pa.Table]:
        """Return the tables that the journal has accepted."""
        return [body.table for body in self.journal.read(0, 1 << 30)]

    def close(self) -> None:
        self.journal.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@cache
def drifting_publications(monitor: str = "orders", key: str = "") -> tuple[Publication, ...]:
    """Return the windows of a stream in which a relation vanishes and another one comes."""
    rng = np.random.default_rng(7)
    watcher = DriftMonitor(MonitorConfig(window=WINDOW, target="b"))
    windows = (_records(rng, changed=n >= N_BEFORE) for n in range(N_BEFORE + N_AFTER))
    reports = [report for window in windows for report in watcher.update(window)]
    return tuple(published(reports, monitor, key))


def _records(rng: np.random.Generator, *, changed: bool) -> dict[str, list[str]]:
    a = rng.integers(0, 2, WINDOW)
    b = np.where(rng.random(WINDOW) < 0.9, a, 1 - a)
    c = np.where(rng.random(WINDOW) < 0.9, b, 1 - b)
    d = rng.integers(0, 2, WINDOW)
    if changed:
        c = np.where(rng.random(WINDOW) < 0.9, d, 1 - d)
    columns = {"a": a, "b": b, SLASH: c, "d": d}
    return {name: [f"v{value}" for value in column] for name, column in columns.items()}
