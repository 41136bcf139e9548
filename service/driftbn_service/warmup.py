"""Compiling or loading the kernels before the first real records, so that times are their own."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from driftbn import DriftMonitor
from driftbn.learning import extend_to_dag, learn_structure

_N_ROWS = 20
_WINDOW = 500


def warm_up() -> None:
    """Learn a tiny table and direct its graph; the library says so if it has to compile."""
    rows = range(_N_ROWS)
    text = pa.array([str(row // 2 % 2) for row in rows]).dictionary_encode()
    columns = {"x": [row % 2 for row in rows], "y": text, "z": [row // 4 % 2 == 0 for row in rows]}
    extend_to_dag(learn_structure(pa.table(columns)).graph)


def warm_up_monitor() -> tuple[str, ...]:
    """Run a monitor on a tiny stream with a drift, for every part of a decision to be used."""
    monitor, rng = DriftMonitor(window=_WINDOW), np.random.default_rng(1)
    levels = []
    for copies in (True, True, True, False, False, True):
        x, y, z = rng.integers(0, 2, (3, _WINDOW))
        for report in monitor.update({"x": x, "y": x ^ (y * z) if copies else y, "z": z}):
            levels.append(report.decision.level.value)
    return tuple(levels)
