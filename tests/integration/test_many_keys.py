"""Thousands of monitors in one process."""

from __future__ import annotations

import json
import resource
import subprocess
from collections.abc import Iterable
from pathlib import Path

from driftbn_service.state import Store

from driftbn import datasets
from tests.services.daemon import DaemonService

N_KEYS = 10_000
N_AGAIN = 1000  # keys whose records come once more, when their monitors are on disk
N_ACTIVE = 500
WINDOW = 20
MAX_BYTES = 2 << 30


def write_blocks(path: Path, blocks: Iterable[tuple[int, int]], n_rows: int) -> None:
    """Write blocks of rows; each is of one key and begins at a row of its own."""
    rows = datasets.sample(datasets.asia(), 5000, 1).to_dict("records")
    ends = [json.dumps(row)[1:] + "\n" for row in rows]
    with path.open("w") as file:
        for key, start in blocks:
            picked = ends[start % 4900 : start % 4900 + n_rows]
            file.writelines(f'{{"tenant": "t{key}", {end}' for end in picked)


def run_keyed(directory: Path, resident: int) -> tuple[int, int]:
    """Run a daemon on what was written; return its windows and a bound of its memory.

    The bound is the most that any process held that was started here and has ended.
    """
    settings = f"""
[[streams]]
name = "tenants"
key = "tenant"
resident = {resident}
window = {WINDOW}
[streams.source]
kind = "files"
path = "{directory}/records.ndjson"
"""
    daemon = DaemonService(directory, settings, exit_when_drained=True)
    subprocess.run(daemon.command(), check=True, timeout=900)
    n_bytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    with Store(daemon.history) as store:
        n_windows = sum(row.n_windows for row in store.monitors("tenants"))
    return n_windows, n_bytes


def test_ten_thousand_monitors_fit_when_most_are_on_disk(tmp_path: Path) -> None:
    first = [(key, 7 * key) for key in range(N_KEYS)]
    again = [(key, 7 * key + WINDOW) for key in range(0, N_KEYS, N_KEYS // N_AGAIN)]
    write_blocks(tmp_path / "records.ndjson", [*first, *again], WINDOW)
    n_windows, n_bytes = run_keyed(tmp_path, resident=300)
    assert n_windows == N_KEYS + N_AGAIN
    assert n_bytes < MAX_BYTES


def test_five_hundred_monitors_are_active_at_once(tmp_path: Path) -> None:
    blocks = [(key, 7 * key + 8 * turn) for turn in range(5) for key in range(N_ACTIVE)]
    write_blocks(tmp_path / "records.ndjson", blocks, 8)
    n_windows, n_bytes = run_keyed(tmp_path, resident=N_ACTIVE)
    assert n_windows == 2 * N_ACTIVE
    assert n_bytes < MAX_BYTES
