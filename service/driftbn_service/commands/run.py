"""``driftbn run``: the daemon."""

from __future__ import annotations

import argparse
from pathlib import Path

from driftbn_service import running


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
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
        help="forget checkpoints and history of a monitor before starting (repeat as needed)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run until told to stop, or until all is read where the settings say so.

    Raises
    ------
    ConfigError
        If the settings are not allowed.
    """
    return running.run(arguments.config, arguments.reset)
