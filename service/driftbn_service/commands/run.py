"""``driftbn run``: the daemon; ``driftbn warm-up``: its kernels compiled beforehand."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path
from typing import Final

from driftbn_service.commands import moving_note, note
from driftbn_service.daemon import Daemon, watched_warm_up
from driftbn_service.process import configure_logging
from driftbn_service.settings import Settings
from driftbn_service.settings.loading import load_settings, remarks

logger = logging.getLogger("driftbn.service.commands.run")

SWITCH_SECONDS: Final = 0.0005
"""How long a thread may keep others from running Python where there is one stream: a tenth of the
usual, so that reading, which needs little of it, does not stand in line behind learning."""
MAX_SWITCH_SECONDS: Final = 0.005
"""The same where there are many streams. All threads that wait for their turn wake this often to
ask for it: at 0.0005 s the threads of 500 streams that start do little else for a minute."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "run",
        description="Reads the streams of the settings, reports on every window, and goes on "
        "after a restart exactly where it stood. SIGTERM ends it in order, SIGHUP reads the "
        "settings again.",
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", required=True, help="settings in TOML"
    )
    parser.add_argument(
        "--reset",
        action="append",
        default=[],
        metavar="NAME",
        help="forget states and history of a stream before starting (repeat as needed)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run until told to stop, or until all is read where the settings say so."""
    path = arguments.config
    settings = _load(path)
    configure_logging(settings.log, sys.stderr)
    for remark in remarks(settings):
        logger.warning("%s", remark)
    daemon = Daemon(settings, reload=lambda: _load(path))
    daemon.reset(arguments.reset)
    return daemon.run()


def switch_seconds(n_streams: int) -> float:
    """Return how long a thread may keep others from running Python.

    >>> switch_seconds(1), switch_seconds(500)
    (0.0005, 0.005)
    """
    return min(max(1, n_streams) * SWITCH_SECONDS, MAX_SWITCH_SECONDS)


def _load(path: Path) -> Settings:
    """Read the settings, and let threads take turns as suits their number."""
    settings = load_settings(path, os.environ)
    sys.setswitchinterval(switch_seconds(len(settings.streams)))
    return settings


def add_warm_up_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "warm-up",
        description="Compiles what would otherwise be compiled when it is first used, and keeps it "
        "beside the package, or in NUMBA_CACHE_DIR. It is found again wherever the package is "
        "copied to, on processors of the same kind.",
    )
    parser.set_defaults(run=warm_up)


def warm_up(_: argparse.Namespace) -> int:
    watched_warm_up(moving_note, lambda: False)
    moving_note("")
    note("kernels are ready")
    return 0
