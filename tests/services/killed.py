"""Runs the command ``driftbn`` and ends the process by SIGKILL at a chosen call of a chosen part.

``python -m tests.services.killed PHASE NTH before|after ARGUMENTS...``
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

PHASES = {
    "read": ("driftbn_service.stream", "StreamPipeline", "_read_once"),
    "decode": ("driftbn_service.records", "Decoder", "decode"),
    "learn": ("driftbn", "DriftMonitor", "update"),
    "snapshot": ("driftbn", "DriftMonitor", "snapshot"),
    "state": ("driftbn_service.state", "LaneState", "put"),
    "accept": ("driftbn_service.lane", "Lane", "_accept"),
    "commit": ("driftbn_service.state", "LaneState", "commit"),
    "publish": ("driftbn_service.state.history", "PublicationWriter", "write"),
    "transaction": ("driftbn_service.state.database", "Database", "write"),
    "release": ("driftbn_service.stream", "StreamPipeline", "_release"),
    "deliver": ("driftbn_service.outlets.file", "FileOutlet", "send"),
    "note": ("driftbn_service.state", "Store", "delivered"),
}


def arm(phase: str, nth: int, when: str) -> None:
    """Have the process killed at the nth call of a part, before or after it."""
    module_name, class_name, name = PHASES[phase]
    module: Any = importlib.import_module(module_name)
    owner = module if class_name is None else getattr(module, class_name)
    original: Callable[..., Any] = getattr(owner, name)
    n_calls = 0

    def counted(*arguments: Any, **named: Any) -> Any:
        nonlocal n_calls
        n_calls += 1
        if n_calls == nth and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*arguments, **named)
        if n_calls == nth:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, counted)


if __name__ == "__main__":
    # The monitor that warms kernels up must not be the one that is killed.
    importlib.import_module("driftbn_service.daemon").warm_up_monitor = tuple
    arm(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    sys.exit(importlib.import_module("driftbn_service.cli").main(sys.argv[4:]))
