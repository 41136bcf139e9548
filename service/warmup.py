"""Compiling the kernels before the first real table, and saying so if it takes long."""

from __future__ import annotations

import threading
from typing import TextIO

import pyarrow as pa

from driftbn.learning import learn_structure

PATIENCE_SECONDS = 1.0
"""How long a terminal stays silent before it says that kernels are compiled."""
MESSAGE = "compiling kernels (once after installation)…\n"

_N_ROWS = 20


def warm_up(stream: TextIO) -> None:
    """Learn a tiny table, so that compiling is neither timed nor taken for a hang.

    Parameters
    ----------
    stream
        Where to say so after a second; nothing is written unless it is a terminal.
    """
    timer = threading.Timer(PATIENCE_SECONDS, _say, [stream]) if stream.isatty() else None
    if timer is not None:
        timer.daemon = True
        timer.start()
    try:
        learn_structure(_tiny_table())
    finally:
        if timer is not None:
            timer.cancel()


def _say(stream: TextIO) -> None:
    stream.write(MESSAGE)
    stream.flush()


def _tiny_table() -> pa.Table:
    """Return three columns that differ, of the types that files have."""
    rows = range(_N_ROWS)
    text = pa.array([str(row // 2 % 2) for row in rows]).dictionary_encode()
    return pa.table(
        {"x": [row % 2 for row in rows], "y": text, "z": [row // 4 % 2 == 0 for row in rows]}
    )
