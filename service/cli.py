"""The command ``driftbn``: arguments in, exit code out; no traceback for what a user can cause."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
from collections.abc import Sequence
from enum import IntEnum
from typing import NoReturn

import pyarrow as pa

from driftbn.errors import ConfigError, DriftbnError
from service.commands import (
    calibrate,
    check,
    checkpoint,
    demo,
    diff,
    learn,
    replay,
    report,
    run,
    version,
)
from service.errors import UsageError
from service.output import note


class ExitCode(IntEnum):
    """What the command tells its caller."""

    OK = 0
    """Done."""
    FAILED = 1
    """An input cannot be used, a file cannot be read or written, or a stream has failed."""
    USAGE = 2
    """Arguments that are not understood, as argparse has it."""
    DIFFERENT = diff.DIFFERENT
    """``diff --exit-code`` has found a difference, or ``replay --exit-code`` a drift."""
    CONFIG = 78
    """A setting has a value that is not allowed (EX_CONFIG of sysexits.h)."""
    INTERRUPTED = 130
    """Interrupted by Ctrl-C."""
    BROKEN_PIPE = 141
    """The reader of the output has gone; nothing is said."""


_COMMANDS = (demo, run, check, checkpoint, report, replay, calibrate, learn, diff, version)
_EXIT_CODES = """exit codes:
  0    done (diff, replay: whether or not there is a difference or a drift)
  1    an input cannot be used, a file cannot be read or written, or a stream has failed
  2    arguments are not understood
  3    diff --exit-code: there is a difference; replay --exit-code: there was a drift
  78   a setting has a value that is not allowed
  130  interrupted
  141  the reader of the output has gone
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    arguments
        The words after the command's name; those of the process if not given.

    Raises
    ------
    SystemExit
        From argparse, on ``--help`` and on arguments it does not understand.
    """
    parsed = _parser().parse_args(arguments)
    try:
        return int(parsed.run(parsed))
    except UsageError as error:
        note(f"error: {error}")
        return ExitCode.USAGE
    except ConfigError as error:
        for line in getattr(error, "lines", (str(error),)):
            note(f"error: {line}")
        return ExitCode.CONFIG
    except BrokenPipeError:
        _silence_stdout()
        return ExitCode.BROKEN_PIPE
    except (DriftbnError, OSError, pa.ArrowException) as error:
        note(f"error: {error}")
        return ExitCode.FAILED
    except KeyboardInterrupt:
        note("interrupted")
        return ExitCode.INTERRUPTED


def run_program() -> NoReturn:
    """Run the command of the process and end it.

    The interpreter is not taken down: a thread of Arrow that still lets go of what it has read
    would find it gone, and abort a program that has done all it had to.
    """
    code = main()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = ExitCode.BROKEN_PIPE
    sys.stderr.flush()
    logging.shutdown()
    os._exit(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="driftbn",
        description="Says when the relations between the fields of an event stream change.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add_parser(commands)
    for subparser in commands.choices.values():
        subparser.epilog = _EXIT_CODES
        subparser.formatter_class = argparse.RawDescriptionHelpFormatter
    return parser


def _silence_stdout() -> None:
    """Keep the interpreter from writing to the broken pipe once more when it ends."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
