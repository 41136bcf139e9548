"""The demonstration: stream, daemon, and what each says of the other."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from driftbn_service.daemon import TICK_SECONDS, Daemon
from driftbn_service.demo.producer import Producer
from driftbn_service.demo.scenes import WINDOW, Scene, make_scenes
from driftbn_service.logs import configure_logging
from driftbn_service.settings import LogLevel, LogSettings, Settings
from driftbn_service.signals import Signals
from driftbn_service.store import EpisodeRow

STREAM: Final = "demo"
_MAX_EPISODES: Final = 100


@dataclass(frozen=True)
class Options:
    """How the user wants the demonstration.

    Parameters
    ----------
    stay
        Whether to go on after the planned scenes.
    port
        Of the endpoint; 0 for any that is free.
    state_dir
        Where to keep state; ``None`` to throw it away.
    pace
        Seconds a window; ``None`` for as fast as possible.
    """

    stay: bool = False
    port: int = 0
    state_dir: Path | None = None
    pace: float | None = None


def run(options: Options, console: Console | None = None) -> int:
    """Run the demonstration; return 0 if every drift was found and nothing else, otherwise 1."""
    console = console or Console(highlight=False, soft_wrap=True)
    scenes = make_scenes()
    with ExitStack() as stack:
        directory = options.state_dir or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        configure_logging(LogSettings(level=LogLevel.WARNING))
        daemon = Daemon(_settings(directory, options.port))
        producer = Producer(directory / "events.ndjson", scenes, options.pace or 0.0, options.stay)
        stack.enter_context(_Running(daemon, producer))
        teller = _Teller(daemon, console)
        teller.begin(scenes)
        signals = stack.enter_context(Signals())
        while daemon.tick() and not signals.n_stops:
            teller.tell()
            if teller.n_windows >= sum(scene.n_windows for scene in scenes):
                break
            signals.wait(TICK_SECONDS / 5)
        found_all = teller.sum_up(scenes)
        if options.stay and not signals.n_stops:
            console.print(f"\nThe stream goes on; look at {daemon.address} and end with Ctrl-C.")
        while options.stay and daemon.tick() and not signals.n_stops:
            teller.tell()
            signals.wait(TICK_SECONDS)
    return 0 if found_all else 1


class _Running:
    """Daemon and producer, while they are entered."""

    def __init__(self, daemon: Daemon, producer: Producer) -> None:
        self.daemon = daemon
        self.producer = producer

    def __enter__(self) -> None:
        self.producer.start()
        self.daemon.startup()

    def __exit__(self, *error: object) -> None:
        self.producer.stop()
        self.daemon.shutdown()


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
        """Print events that are new."""
        for sequence, event in self._store.events(self._told, _MAX_EPISODES):
            self._told = sequence
            data = event.document["data"]
            if not event.type.startswith("io.driftbn.drift."):
                continue
            word = event.type.split(".")[3]
            if word == "started":
                self._console.print(f"[bold red]drift[/]  {data['headline']}")
                for sentence in data["sentences"][:2]:
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
    return windows or "not seen", "; ".join(episode.headline for episode in episodes)


def _settings(directory: Path, port: int) -> Settings:
    source = {"kind": "files", "path": str(directory / "events.ndjson"), "follow": True}
    return Settings.model_validate(
        {
            "service": {"state_dir": directory / "state"},
            "endpoint": {"port": port},
            "checkpoint": {"publish_seconds": 0.2},
            "monitors": [
                {
                    "name": STREAM,
                    "window": WINDOW,
                    "audit_share": 0.25,
                    "source": {**source, "poll_seconds": 0.1},
                }
            ],
        }
    )
