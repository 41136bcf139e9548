"""Parts that stand on packages which are installed only by those who use them."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Final

from driftbn.errors import MissingExtraError

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
    "redis": ("redis",),
    "png": ("resvg_py", "ziafont"),
    "river": ("river",),
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
