"""Parts of the service that stand on packages which not everybody has installed."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Final

from driftbn.errors import MissingExtraError

_PACKAGES: Final = ("orjson", "prometheus_client", "pydantic", "starlette", "urllib3", "uvicorn")


def service_module(name: str) -> ModuleType:
    """Import a part of the daemon.

    Raises
    ------
    MissingExtraError
        If a package that it needs is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _PACKAGES:
            raise
        raise MissingExtraError("the daemon", "service") from error
