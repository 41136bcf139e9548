"""What a daemon has published, read from its files, and the stream that it was fed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftbn_service.state import FILE, Store, StoreError

from driftbn import datasets
from tests.drift_streams import DriftStream, Recurring
from tests.services.daemon import DaemonService
from tests.services.feeders import FileFeeder

WINDOW = 500
N_WINDOWS = 120
PERIOD = 12
STREAM = "asia"
SETTINGS = f"""
[checkpoint]
publish_seconds = 0.02
interval_seconds = 0.5

[[outlets]]
kind = "file"
path = "{{directory}}/events.ndjson"

[[streams]]
name = "{STREAM}"
window = {WINDOW}
[streams.source]
"""


def make_records() -> list[dict[str, Any]]:
    """Return the records of a stream in which one dependency comes and goes."""
    before = datasets.asia()
    after = datasets.remove_edge(before, "smoke", "bronc").network
    schedule = Recurring(PERIOD * WINDOW, PERIOD * WINDOW)
    stream = DriftStream(before, after, schedule, seed=3)
    records: list[dict[str, Any]] = stream.sample(N_WINDOWS * WINDOW).to_dict("records")
    return records


@dataclass(frozen=True)
class History:
    """All that a daemon has published of one monitor."""

    windows: dict[int, dict[str, Any]]
    episodes: list[Any]
    events: list[str]
    sent: list[str]


def publish_alone(directory: Path, records: list[dict[str, Any]]) -> History:
    """Return what a daemon publishes that reads the records from a file and is left alone."""
    FileFeeder(directory / "records.ndjson").send(records)
    daemon = file_daemon(directory, follow=False)
    daemon.begin()
    assert daemon.wait() == 0, daemon.log_tail()
    history = read_history(directory)
    assert sorted(history.windows) == list(range(len(records) // WINDOW))
    assert history.sent == history.events
    return history


def file_daemon(
    directory: Path, *, follow: bool, outlets: str = "", state_dir: Path | None = None
) -> DaemonService:
    """Return a daemon that reads ``records.ndjson`` of its directory."""
    source = f'kind = "files"\npath = "{directory}/records.ndjson"\npoll_seconds = 0.02\n'
    source += f"follow = {str(follow).lower()}\n"
    settings = outlets + SETTINGS.format(directory=directory) + source
    return DaemonService(directory, settings, exit_when_drained=not follow, state_dir=state_dir)


def count_windows(path: Path | str, stream: str = STREAM, key: str = "") -> int:
    """Return how many windows are in a history that a daemon may be writing."""
    if isinstance(path, Path) and not path.exists():
        return 0
    try:
        with Store(path, read_only=True) as store:
            monitor = store.monitor(stream, key)
            return 0 if monitor is None else monitor.n_windows
    except StoreError as error:
        if "try again" not in str(error):  # said while a daemon starts
            raise
        return 0


def read_history(
    directory: Path, state_dir: Path | None = None, *, place: str | None = None
) -> History:
    """Read what a daemon that has ended has published of the stream."""
    stream, key = STREAM, ""
    with Store(place or (state_dir or directory / "state") / FILE) as store:
        rows = store.windows(stream, key, limit=100_000)
        windows = {}
        for row in rows:
            detail = store.window(stream, key, row.window_index)
            assert detail is not None
            windows[row.window_index] = detail.report
        episodes = store.episodes(stream, key, limit=100_000)
        events = [event.id for _, event in store.events(0, 1_000_000)]
    sent_path = directory / "events.ndjson"
    lines = sent_path.read_text().splitlines() if sent_path.exists() else []
    return History(windows, episodes, events, [json.loads(line)["id"] for line in lines])
