"""``driftbn check``: whether settings are fine, and what they come to."""

from __future__ import annotations

import argparse
import os

from driftbn_service import checking
from driftbn_service.errors import UsageError


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "check",
        description=(
            "Check the settings of the service: the file, the variables DRIFTBN__SECTION__KEY of"
            " the environment and the files of secrets. Says all that is wrong at once, or in"
            " short what the settings come to. Nothing is started and no server is asked."
        ),
    )
    parser.add_argument(
        "--config", metavar="FILE", help="the settings file (as DRIFTBN_CONFIG says)"
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument(
        "--print",
        action="store_true",
        dest="print_settings",
        help="write the settings in force as TOML, with where they come from; secrets are hidden",
    )
    output.add_argument(
        "--json-schema", action="store_true", help="write the JSON schema of settings files"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out and return its exit code.

    Raises
    ------
    UsageError
        If options do not go together.
    """
    if arguments.json_schema:
        if arguments.config is not None:
            raise UsageError("--json-schema describes all settings files; leave --config out")
        return checking.write_schema()
    return checking.check(arguments.config, os.environ, in_full=arguments.print_settings)
