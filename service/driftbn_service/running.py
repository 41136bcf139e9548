"""The daemon as a process: settings, logs, exit code."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from driftbn_service.daemon import Daemon
from driftbn_service.logs import configure_logging
from driftbn_service.settings import Settings, load_settings, remarks

SWITCH_SECONDS: Final = 0.0005
"""How long a thread may keep others from running Python where there is one stream: a tenth of the
usual, so that reading, which needs little of it, does not stand in line behind learning."""
MAX_SWITCH_SECONDS: Final = 0.005
"""The same where there are many streams. All threads that wait for their turn wake this often to
ask for it: at 0.0005 s the threads of 500 streams that start do little else for a minute."""

logger = logging.getLogger(f"driftbn.{__name__}")


def run(path: Path, resets: Sequence[str]) -> int:
    """Run the daemon on the settings of a file and return its exit code.

    Parameters
    ----------
    path
        The settings.
    resets
        Monitors to begin anew.
    """
    settings = _load(path)
    configure_logging(settings.log, sys.stderr)
    for remark in remarks(settings):
        logger.warning("%s", remark)
    daemon = Daemon(settings, reload=lambda: _load(path))
    daemon.reset(resets)
    return daemon.run()


def switch_seconds(n_streams: int) -> float:
    """Return how long a thread may keep others from running Python.

    Examples
    --------
    >>> switch_seconds(1), switch_seconds(500)
    (0.0005, 0.005)
    """
    return min(max(1, n_streams) * SWITCH_SECONDS, MAX_SWITCH_SECONDS)


def _load(path: Path) -> Settings:
    """Read the settings, and let threads take turns as suits their number."""
    settings = load_settings(path, os.environ)
    sys.setswitchinterval(switch_seconds(len(settings.monitors)))
    return settings
