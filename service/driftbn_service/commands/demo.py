"""``driftbn demo``: a daemon on records of a monitored patient that change at known places."""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console
from rich.table import Table

from driftbn import datasets
from driftbn.graphs.network import BayesianNetwork
from driftbn_service.commands import moving_note
from driftbn_service.daemon import TICK_SECONDS, Daemon
from driftbn_service.process import Signals, configure_logging
from driftbn_service.settings import LogLevel, LogSettings, Settings
from driftbn_service.state import EpisodeRow

WINDOW: Final = 2000
_FIRST: Final = 8
"""Windows before the first change: a reference has to grow first."""
_EACH: Final = 6
"""Windows of every other scene: a drift is seen in the first and has ended after the fourth."""
_SEED: Final = 7


@dataclass(frozen=True)
class Scene:
    """Windows that follow the same network."""

    change: str  # what is different from the scene before, in words; "" for the first
    network: BayesianNetwork
    n_windows: int = _EACH

    @property
    def n_records(self) -> int:
        return self.n_windows * WINDOW


def make_scenes() -> tuple[Scene, ...]:
    rng = np.random.default_rng(_SEED)
    usual = datasets.alarm()
    without = datasets.remove_edge(usual, "MINVOLSET", "VENTMACH").network
    joined = datasets.add_edge(usual, "KINKEDTUBE", "BP", 0.06, rng).network
    other = datasets.change_table(joined, "HRBP", 0.05, rng).network
    return (
        Scene("", usual, _FIRST),
        Scene("VENTMACH no longer depends on MINVOLSET", without),
        Scene("VENTMACH depends on MINVOLSET again", usual),
        Scene("BP now depends on KINKEDTUBE", joined),
        Scene("HRBP follows the same fields by another rule", other),
    )


def lines_of(network: BayesianNetwork, n_records: int, seed: int) -> bytes:
    """Return records as NDJSON.

    >>> line = lines_of(datasets.asia(), 1, seed=1)
    >>> sorted(json.loads(line))
    ['asia', 'bronc', 'dysp', 'either', 'lung', 'smoke', 'tub', 'xray']
    """
    records = datasets.sample(network, n_records, seed).to_dict("records")
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def windows_of(scenes: tuple[Scene, ...], first_seed: int = 1000) -> Iterator[bytes]:
    """Iterate over the windows of scenes as NDJSON, each with a seed of its own."""
    seed = first_seed
    for scene in scenes:
        for _ in range(scene.n_windows):
            yield lines_of(scene.network, WINDOW, seed)
            seed += 1


STAY_PACE: Final = 3.0
"""Seconds a window once the planned scenes are over: slow enough to watch."""


class Producer:
    """A thread that appends windows to a file, as a program that logs its events would.

    ``stay`` repeats the scenes for ever.
    """

    def __init__(self, path: Path, scenes: tuple[Scene, ...], pace: float, stay: bool) -> None:
        self.path = path
        self.scenes = scenes
        self.pace = pace
        self.stay = stay
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._write, name="demo stream", daemon=True)

    def start(self) -> None:
        self.path.touch()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _write(self) -> None:
        with self.path.open("ab", buffering=0) as file:
            for window, pace in self._windows():
                file.write(window)
                if self._stopping.wait(pace):
                    return

    def _windows(self) -> Iterator[tuple[bytes, float]]:
        for window in windows_of(self.scenes):
            yield window, self.pace
        for n_round in itertools.count(1) if self.stay else ():
            for window in windows_of(self.scenes, first_seed=1000 + 1000 * n_round):
                yield window, self.pace or STAY_PACE


STREAM: Final = "demo"
_MAX_EPISODES: Final = 100


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "demo",
        description="Makes an event stream with drifts at known places, runs the daemon on it, "
        "and prints what it finds beside what was done to the stream.",
    )
    parser.add_argument("--stay", action="store_true", help="go on until Ctrl-C, with more drifts")
    parser.add_argument(
        "--port", type=int, default=0, help="of the page and the metrics (any that is free)"
    )
    parser.add_argument(
        "--state-dir", type=Path, metavar="DIR", help="keep state there (otherwise thrown away)"
    )
    parser.add_argument(
        "--pace",
        type=float,
        metavar="SECONDS",
        help="seconds a window, from the first one on (as fast as possible; 3 once it stays)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the demonstration; return 0 if every drift was found and nothing else, otherwise 1."""
    console = Console(highlight=False, soft_wrap=True)
    scenes = make_scenes()
    with ExitStack() as stack:
        directory = arguments.state_dir or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        configure_logging(LogSettings(level=LogLevel.WARNING))
        daemon = Daemon(_settings(directory, arguments.port))
        producer = Producer(
            directory / "events.ndjson", scenes, arguments.pace or 0.0, arguments.stay
        )
        daemon.open()
        stack.callback(daemon.shutdown)
        teller = _Teller(daemon, console)
        teller.begin(scenes)
        signals = stack.enter_context(Signals())
        producer.start()
        stack.callback(producer.stop)
        daemon.startup(lambda: signals.n_stops > 0, moving_note)
        moving_note("")
        while daemon.tick() and not signals.n_stops:
            teller.tell()
            if teller.n_windows >= sum(scene.n_windows for scene in scenes):
                break
            signals.wait(TICK_SECONDS / 5)
        found_all = teller.sum_up(scenes)
        if arguments.stay and not signals.n_stops:
            console.print(f"\nThe stream goes on; look at {daemon.address} and end with Ctrl-C.")
        while arguments.stay and daemon.tick() and not signals.n_stops:
            teller.tell()
            signals.wait(TICK_SECONDS)
    return 0 if found_all else 1


class _Teller:
    """Prints what the daemon has found, from its history."""

    def __init__(self, daemon: Daemon, console: Console) -> None:
        self._store = daemon.view.store
        self._console = console
        self._address = daemon.address
        self._told = 0
        self.n_windows = 0

    def begin(self, scenes: tuple[Scene, ...]) -> None:
        n_fields = len(scenes[0].network.nodes)
        n_records = sum(scene.n_records for scene in scenes)
        self._console.print(
            f"A stream of {n_records:,} events with {n_fields} fields, in windows of {WINDOW:,}. "
            f"Its fields keep their frequencies where possible; what changes is how they go "
            f"together.\nWatch it at [link={self._address}]{self._address}[/link] "
            f"(metrics at {self._address}/metrics)\n"
        )

    def tell(self) -> None:
        for sequence, event in self._store.events(self._told, _MAX_EPISODES):
            self._told = sequence
            data = event.document["data"]
            if not event.type.startswith("io.driftbn.drift."):
                continue
            word = event.type.split(".")[3]
            if word == "started":
                self._console.print(f"[bold red]drift[/]  {data['headline']}")
                for sentence in data["sentences"][:3]:
                    self._console.print(f"       {sentence}", style="dim")
            elif word == "ended":
                self._console.print(f"[green]over[/]   {data['headline']}")
        last = self._store.monitors()
        self.n_windows = last[0].n_windows if last else 0

    def sum_up(self, scenes: tuple[Scene, ...]) -> bool:
        """Print what was done to the stream beside what was found; return whether they agree."""
        self.tell()
        episodes = self._store.episodes(STREAM, "", limit=_MAX_EPISODES)
        table = Table(title="What was done and what was found", title_justify="left")
        for heading in ("from window", "done to the stream", "seen in window", "found"):
            table.add_column(heading)
        start, agrees = scenes[0].n_windows, True
        for scene in scenes[1:]:
            found = [e for e in episodes if start <= e.started_window < start + scene.n_windows]
            agrees = agrees and len(found) == 1
            table.add_row(str(start), scene.change, *_found(found))
            start += scene.n_windows
        self._console.print(table)
        return agrees and len(episodes) == len(scenes) - 1


def _found(episodes: list[EpisodeRow]) -> tuple[str, str]:
    windows = ", ".join(str(episode.started_window) for episode in episodes)
    return windows or "not seen", "; ".join(map(_finding, episodes))


def _finding(episode: EpisodeRow) -> str:
    """Return the newest headline of an episode without the window, which has its own column."""
    finding = episode.headline.partition(": ")[2] or episode.headline
    return finding[0].upper() + finding[1:]


def _settings(directory: Path, port: int) -> Settings:
    source = {"kind": "files", "path": str(directory / "events.ndjson"), "follow": True}
    return Settings.model_validate(
        {
            "service": {"state_dir": directory / "state"},
            "endpoint": {"port": port},
            "checkpoint": {"publish_seconds": 0.2},
            "streams": [
                {
                    "name": STREAM,
                    "window": WINDOW,
                    "audit_share": 0.25,
                    "source": {**source, "poll_seconds": 0.1},
                }
            ],
        }
    )
