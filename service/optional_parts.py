"""Parts that stand on a client library which is installed only by those who use it."""

from __future__ import annotations

import importlib
from typing import Any, Final

from driftbn.errors import MissingExtraError

_CLIENTS: Final = {"kafka": "confluent_kafka", "redis": "redis"}


def part_of_kind(package: str, kind: str, name: str) -> Any:
    """Return what has a name in the module that is called after a kind.

    Raises
    ------
    MissingExtraError
        If the client library that it needs is not installed.
    """
    try:
        module = importlib.import_module(f"{package}.{kind}")
    except ModuleNotFoundError as error:
        if error.name != _CLIENTS.get(kind):
            raise
        raise MissingExtraError(f"kind {kind!r}", kind) from error
    return getattr(module, name)
