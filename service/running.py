"""The daemon as a process: settings, logs, exit code."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from service.daemon import Daemon
from service.logs import configure_logging
from service.settings import load_settings, remarks

SWITCH_SECONDS: Final = 0.0005
"""How long a thread may keep others from running Python: a tenth of the usual, so that reading,
which needs little of it, does not stand in line behind learning."""

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
    sys.setswitchinterval(SWITCH_SECONDS)
    settings = load_settings(path, os.environ)
    configure_logging(settings.log, sys.stderr)
    for remark in remarks(settings):
        logger.warning("%s", remark)
    daemon = Daemon(settings, reload=lambda: load_settings(path, os.environ))
    daemon.reset(resets)
    return daemon.run()
