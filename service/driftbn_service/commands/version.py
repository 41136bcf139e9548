"""``driftbn version``: which driftbn this is, and on what it stands."""

from __future__ import annotations

import argparse
import json
import platform
from importlib import metadata

import driftbn
from driftbn_service.commands.output import write_text

_STANDS_ON = ("numpy", "numba", "scipy", "pyarrow", "pandas", "networkx")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("version")
    parser.add_argument("--json", action="store_true", help="write JSON instead of text")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    versions = {"driftbn": driftbn.__version__, "python": platform.python_version()}
    versions |= {name: metadata.version(name) for name in _STANDS_ON}
    text = "".join(f"{name} {version}\n" for name, version in versions.items())
    write_text(json.dumps(versions) + "\n" if arguments.json else text, None)
    return 0
