"""Libraries whose tables are taken in but which are not imported before they are needed."""

from __future__ import annotations

import importlib
import sys
from functools import cache
from typing import Any


def loaded(module: str, name: str) -> Any:
    """Return a class for ``isinstance``; where its module is not imported, nothing is of it."""
    return getattr(sys.modules.get(module), name, ())


@cache
def arrow() -> Any:
    """Return the module ``pyarrow``."""
    return importlib.import_module("pyarrow")
