"""Errors that name the input at fault, exit codes, and parts whose packages may be missing."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from driftbn.errors import ConfigError, DriftbnError, MissingExtraError


class ExitCode(IntEnum):
    """What the command tells its caller; ``driftbn --help`` says it in words."""

    OK = 0
    FAILED = 1
    USAGE = 2  # as argparse has it
    DIFFERENT = 3
    CONFIG = 78  # EX_CONFIG of sysexits.h
    INTERRUPTED = 130
    BROKEN_PIPE = 141


def arrow_error() -> type[Exception]:
    """Return what Arrow raises; nothing of it is raised while it is not imported."""
    found: type[Exception] = getattr(sys.modules.get("pyarrow"), "ArrowException", DriftbnError)
    return found


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
    except (DriftbnError, arrow_error()) as error:
        raise InputError(name, str(error)) from error


EXTRAS: Final = {
    "service": (
        "h11",
        "prometheus_client",
        "pydantic",
        "starlette",
        "urllib3",
        "uvicorn",
    ),
    "kafka": ("confluent_kafka",),
    "opentelemetry": ("opentelemetry",),
    "postgres": ("psycopg",),
    "redis": ("redis",),
    "png": ("resvg_py", "ziafont"),
    "river": ("river",),
    "spark": ("google", "pyspark"),
}
"""The packages of each extra, by the names under which they are imported."""


def is_installed(extra: str) -> bool:
    return all(find_spec(package) is not None for package in EXTRAS[extra])


@contextmanager
def naming_the_extra(feature: str) -> Iterator[None]:
    """Say what to install, as ``MissingExtraError``, where a package of an extra is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        for extra, packages in EXTRAS.items():
            if package in packages:
                raise MissingExtraError(feature, extra) from error
        raise


def part_of_kind(package: str, kind: str, name: str) -> Any:
    """Return what has a name in the module that is called after a kind."""
    return getattr(importlib.import_module(f"{package}.{kind}"), name)
