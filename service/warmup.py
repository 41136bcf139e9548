"""Compiling or loading the kernels before the first real table, so that its times are its own."""

from __future__ import annotations

import pyarrow as pa

from driftbn.learning import extend_to_dag, learn_structure

_N_ROWS = 20


def warm_up() -> None:
    """Learn a tiny table and direct its graph; the library says so if it has to compile."""
    rows = range(_N_ROWS)
    text = pa.array([str(row // 2 % 2) for row in rows]).dictionary_encode()
    columns = {"x": [row % 2 for row in rows], "y": text, "z": [row // 4 % 2 == 0 for row in rows]}
    extend_to_dag(learn_structure(pa.table(columns)).graph)
