"""``driftbn warm-up``: the kernels compiled beforehand, as when an image is built."""

from __future__ import annotations

import argparse

from driftbn_service.commands import moving_note, note
from driftbn_service.daemon import watched_warm_up


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "warm-up",
        description="Compiles what would otherwise be compiled when it is first used, and keeps it "
        "beside the package, or in NUMBA_CACHE_DIR. It is found again wherever the package is "
        "copied to, on processors of the same kind.",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    watched_warm_up(moving_note, lambda: False)
    moving_note("")
    note("kernels are ready")
    return 0
