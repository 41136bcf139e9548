"""Errors of the command line, each naming the input that is at fault, and its exit codes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path

import pyarrow as pa

from driftbn.errors import ConfigError, DriftbnError


class ExitCode(IntEnum):
    """What the command tells its caller."""

    OK = 0
    FAILED = 1
    """An input cannot be used, a package is missing, a file cannot be read or written, or a stream
    has failed."""
    USAGE = 2
    """Arguments that are not understood, as argparse has it."""
    DIFFERENT = 3
    """``diff --exit-code`` has found a difference, or ``replay --exit-code`` a drift."""
    CONFIG = 78
    """A setting has a value that is not allowed (EX_CONFIG of sysexits.h)."""
    INTERRUPTED = 130
    BROKEN_PIPE = 141
    """The reader of the output has gone; nothing is said."""


class InputError(DriftbnError):
    """An input, a file or ``standard input``, cannot be used."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        self.problem = problem
        super().__init__(f"{name}: {problem}")


class StateError(DriftbnError):
    """The directory in which the daemon keeps its state cannot be used."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(
            f"state directory {path}: {problem}; make it writable for this user, or set "
            "service.state_dir to another one"
        )


class UsageError(DriftbnError):
    """Options that do not go together; argparse cannot see it."""


@contextmanager
def blamed_on(name: str) -> Iterator[None]:
    """Turn errors about data into an ``InputError`` of the file; bad settings pass as they are."""
    try:
        yield
    except (ConfigError, InputError, BrokenPipeError):
        raise
    except OSError as error:
        raise InputError(name, error.strerror or str(error)) from error
    except UnicodeError as error:
        raise InputError(name, f"is not UTF-8: {error}") from error
    except MemoryError as error:
        raise InputError(name, "does not fit into memory") from error
    except (DriftbnError, pa.ArrowException) as error:
        raise InputError(name, str(error)) from error
