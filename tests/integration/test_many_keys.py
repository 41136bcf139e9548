"""Thousands of monitors in one process."""

from __future__ import annotations

import json
import resource
from pathlib import Path

from driftbn_service.state import Store

from driftbn import datasets
from tests.services.daemon import DaemonService

N_KEYS = 10_000
N_ACTIVE = 500
WINDOW = 50
MAX_BYTES = 2 << 30


def write_blocks(path: Path, n_keys: int, n_rows: int, n_rounds: int) -> None:
    """Write rounds in each of which every key gets some rows in a row."""
    rows = datasets.sample(datasets.asia(), 20_000, 1).to_dict("records")
    with path.open("w") as file:
        for n_round in range(n_rounds):
            for key in range(n_keys):
                start = (key * 7 + n_round * n_rows) % (len(rows) - n_rows)
                for row in rows[start : start + n_rows]:
                    file.write(json.dumps({"tenant": f"t{key}", **row}) + "\n")


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
    daemon.begin()
    assert daemon.wait(900) == 0, daemon.log_tail()
    n_bytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    with Store(daemon.history) as store:
        n_windows = sum(row.n_windows for row in store.monitors("tenants"))
    return n_windows, n_bytes


def test_ten_thousand_monitors_fit_when_most_are_on_disk(tmp_path: Path) -> None:
    write_blocks(tmp_path / "records.ndjson", N_KEYS, WINDOW // 2, 2)
    n_windows, n_bytes = run_keyed(tmp_path, resident=300)
    assert n_windows == N_KEYS
    assert n_bytes < MAX_BYTES


def test_five_hundred_monitors_are_active_at_once(tmp_path: Path) -> None:
    write_blocks(tmp_path / "records.ndjson", N_ACTIVE, 10, 15)
    n_windows, n_bytes = run_keyed(tmp_path, resident=N_ACTIVE)
    assert n_windows == 3 * N_ACTIVE
    assert n_bytes < MAX_BYTES
