"""What tests use of settings: how they are read and printed, and files to read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from driftbn_service.settings import StreamSettings
from driftbn_service.settings.errors import SettingsError, settings_schema  # noqa: F401
from driftbn_service.settings.loading import (  # noqa: F401
    load_settings,
    read_settings,
    remarks,
    settings_toml,
    toml,
)

CONFIGS = Path(__file__).parents[1] / "configs"
EXAMPLES = sorted(CONFIGS.glob("*.toml"))
MINIMAL = """
[service]
state_dir = "state"
[[streams]]
name = "orders"
[streams.source]
kind = "stdin"
"""

Write = Callable[[str], Path]


def writer(directory: Path) -> Write:
    """Return what writes a text as the settings of a directory."""

    def write(text: str) -> Path:
        path = directory / "driftbn.toml"
        path.write_text(text)
        return path

    return write


def stream(**settings: Any) -> StreamSettings:
    """Return a stream whose settings are the usual ones but for some."""
    return StreamSettings.model_validate({"name": "orders", "source": {"kind": "stdin"}} | settings)
