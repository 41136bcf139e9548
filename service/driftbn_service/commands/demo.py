"""``driftbn demo``: the daemon on a stream with drifts at known places."""

from __future__ import annotations

import argparse
from pathlib import Path

from driftbn_service import demo


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
    """Return 0 if every drift was found."""
    options = demo.Options(
        stay=arguments.stay,
        port=arguments.port,
        state_dir=arguments.state_dir,
        pace=arguments.pace,
    )
    return int(demo.run(options))
