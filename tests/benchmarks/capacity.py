"""What monitors by the thousand cost, alone and in Spark, and what that makes of many keys.

Run ``python -m tests.benchmarks.capacity``; ``--no-spark`` measures the library alone. All figures
are CPU time and bytes. Spark runs on this machine, with all of its processes counted; its start is
left out, as figures are of the triggers after the first ones. In between the plain library takes
the same files: it reads them, parts them by key and updates. The costs of a trigger, of a call and
of a record are the three unknowns of triggers with a whole window of each key, with a quarter of
one, and with few keys.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from driftbn import DriftMonitor, datasets
from driftbn.graphs.network import BayesianNetwork

SUBMIT = Path(__file__).parents[2] / "configs" / "spark" / "submit.sh"
N_WINDOWS = 50
N_FIRST = 3  # triggers that compile, and infer schemas
N_TRIGGERS = 5
N_FEW = 10  # keys, so that what a trigger costs by itself is seen
KEYS = (10_000, 100_000, 1_000_000)
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Case:
    """A stream: the network that its records are drawn from, and the rows of a window."""

    network: BayesianNetwork
    n_rows: int
    n_keys: int  # in Spark

    @property
    def name(self) -> str:
        return f"{len(self.network.nodes)} fields, windows of {self.n_rows}"

    def rows(self, n_rows: int, seed: int) -> pd.DataFrame:
        return datasets.sample(self.network, n_rows, seed).astype(str)


CASES = (
    Case(datasets.asia(), 500, 400),
    Case(datasets.asia(), 5000, 40),
    Case(datasets.alarm(), 5000, 20),
)


@dataclass(frozen=True)
class Alone:
    """Milliseconds of the library, and bytes of state after ``N_WINDOWS`` windows."""

    update: float
    core: float
    tail: float
    restore: float
    core_bytes: int
    tail_bytes: int  # with half a window waiting


@dataclass(frozen=True)
class Triggers:
    """Milliseconds a key of triggers: Spark's processes, and the library on the same records."""

    jvm: float
    python: float
    plain: float

    @property
    def spark(self) -> float:
        return self.jvm + self.python


@dataclass(frozen=True)
class InSpark:
    """Milliseconds of Spark, Python included."""

    whole: Triggers
    trigger: float
    call: float
    record: float


def milliseconds(action: Callable[[], object]) -> float:
    begin = time.process_time()
    action()
    return (time.process_time() - begin) * 1000


def measure_alone(case: Case) -> Alone:
    monitor, times = DriftMonitor(window=case.n_rows), []
    for seed in range(N_WINDOWS):
        rows = case.rows(case.n_rows, seed)
        update = milliseconds(lambda rows=rows: monitor.update(rows))
        core = milliseconds(monitor.core)
        tail = milliseconds(monitor.tail)
        state = monitor.core(), monitor.tail()
        restore = milliseconds(lambda state=state: DriftMonitor.restore(*state))
        times.append((update, core, tail, restore))
    size = len(monitor.core())
    monitor.update(case.rows(case.n_rows // 2, N_WINDOWS))
    medians = (statistics.median(part) for part in zip(*times[10:], strict=True))
    return Alone(*medians, size, len(monitor.tail()))


def measure_spark(case: Case, alone: Alone) -> InSpark:
    whole = measure_triggers(case, case.n_rows, case.n_keys)
    quarter = measure_triggers(case, case.n_rows // 4, case.n_keys)
    few = measure_triggers(case, case.n_rows, N_FEW)
    trigger = (few.spark - whole.spark) / (1 / N_FEW - 1 / case.n_keys)
    decoded = (whole.spark - quarter.spark) - 0.75 * (alone.update + alone.core)
    record = max(0.0, decoded / (0.75 * case.n_rows))
    rest = alone.update + alone.core + record * case.n_rows + trigger / case.n_keys
    return InSpark(whole, trigger, whole.spark - rest, record)


def measure_triggers(case: Case, n_rows: int, n_keys: int) -> Triggers:
    """Measure triggers that bring so many rows of each key."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        write_triggers(case, n_rows, n_keys, directory / "in")
        columns = ", ".join(f"`{name}` string" for name in case.network.nodes)
        arguments = (
            *("--files", directory / "in", "--schema", f"k string, n long, {columns}"),
            *("--key", "k", "--order", "n", "--window", case.n_rows, "--most", "1"),
            *("--until-drained", "--out", directory / "out", "--checkpoint", directory / "state"),
        )
        options = ["spark.driver.host", "spark.driver.bindAddress"]
        conf = " ".join(f"--conf {name}=127.0.0.1" for name in options)
        conf += " --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=1"
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        here = {"MASTER": "local[1]", "OPTIONS": conf, "PATH": path}
        here |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        used: list[tuple[float, float]] = []
        plain: list[float] = []
        monitors = {f"k{number}": DriftMonitor(window=case.n_rows) for number in range(n_keys)}
        with subprocess.Popen(
            ["bash", str(SUBMIT), *map(str, arguments)],
            env={**os.environ, **here},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=directory,
            text=True,
        ) as driver:
            assert driver.stdout is not None
            for line in driver.stdout:
                if line.startswith("batch "):
                    used.append(cpu_seconds(driver.pid))
                    path = directory / "in" / f"{len(plain):03}.parquet"
                    plain.append(milliseconds(lambda path=path: update_all(monitors, path)))
    if len(used) < N_FIRST + N_TRIGGERS:
        raise RuntimeError(f"Spark ended after {len(used)} triggers")
    begin, end = used[N_FIRST - 1], used[N_FIRST + N_TRIGGERS - 1]
    n_calls = N_TRIGGERS * n_keys
    jvm, python = ((late - early) * 1000 / n_calls for early, late in zip(begin, end, strict=True))
    return Triggers(jvm, python, sum(plain[N_FIRST:]) / n_calls)


def update_all(monitors: dict[str, DriftMonitor], path: Path) -> None:
    """Let the library take a file as a program of a few lines would."""
    rows = pq.read_table(path)
    keys = rows["k"].combine_chunks().dictionary_encode()
    order = np.argsort(keys.indices.to_numpy(), kind="stable")
    fields = rows.drop_columns(["k", "n"]).combine_chunks().take(pa.array(order))
    start = 0
    n_rows = np.bincount(keys.indices.to_numpy()).tolist()
    for key, n in zip(keys.dictionary.to_pylist(), n_rows, strict=True):
        monitors[key].update(fields.slice(start, n))
        start += n


def write_triggers(case: Case, n_rows: int, n_keys: int, directory: Path) -> None:
    directory.mkdir()
    for trigger in range(N_FIRST + N_TRIGGERS):
        rows = case.rows(n_rows * n_keys, trigger)
        rows.insert(0, "k", [f"k{number % n_keys}" for number in range(len(rows))])
        rows.insert(1, "n", range(len(rows)))
        path = directory / f"{trigger:03}.parquet"
        rows.to_parquet(path, index=False)
        os.utime(path, (trigger, trigger))  # Spark reads the oldest first


def cpu_seconds(pid: int) -> tuple[float, float]:
    """Return the CPU of a process, and of all below it, those that have ended included."""
    below: dict[int, list[int]] = {}
    own: dict[int, int] = {}
    ended: dict[int, int] = {}
    for number, fields in process_table():
        below.setdefault(int(fields[1]), []).append(number)
        own[number], ended[number] = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
    total, waiting = ended[pid], [*below.get(pid, [])]
    while waiting:
        one = waiting.pop()
        total += own[one] + ended[one]
        waiting += below.get(one, [])
    return own[pid] / _TICKS, total / _TICKS


def process_table() -> Iterator[tuple[int, list[str]]]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            continue
        yield int(path.parent.name), text.rpartition(")")[2].split()


def told(cells: list[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def capacity(alone: Alone, spark: InSpark, n_rows: int, n_keys: int) -> list[object]:
    """Return what keys with a window an hour take: all at once, and by a trigger a minute."""
    window = alone.update + alone.core + spark.record * n_rows
    hourly = (window + spark.call) * n_keys / 3_600_000
    every_minute = ((window + 60 * spark.call) * n_keys + 60 * spark.trigger) / 3_600_000
    size = n_keys * (alone.core_bytes + alone.tail_bytes) / 1e9
    return [f"{n_keys:,}", f"{hourly:.2g}", f"{every_minute:.2g}", f"{size:.2g} GB"]


def main() -> None:
    """Measure and print the tables of ``service/README.md``."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.capacity")
    parser.add_argument("--no-spark", action="store_true", help="measure the library alone")
    parser.add_argument("--cases", type=int, nargs="+", default=range(len(CASES)), metavar="N")
    arguments = parser.parse_args()
    for case in (CASES[number] for number in arguments.cases):
        alone = measure_alone(case)
        sys.stdout.write(
            f"{case.name}: update {alone.update:.1f} ms, core {alone.core:.1f}, tail"
            f" {alone.tail:.1f}, restore {alone.restore:.1f} ({alone.restore / alone.update:.1f} x"
            f" update); core {alone.core_bytes:,} bytes, tail {alone.tail_bytes:,}\n"
        )
        if not arguments.no_spark:
            spark = measure_spark(case, alone)
            whole = spark.whole
            sys.stdout.write(
                f"in Spark {whole.spark:.1f} ms a window of {case.n_keys} keys in a trigger, JVM"
                f" {whole.jvm:.1f} of it; the library {whole.plain:.1f}: ratio"
                f" {whole.spark / whole.plain:.2f}\n{spark.trigger:.0f} ms a trigger,"
                f" {spark.call:.1f} a call, {spark.record * 1000:.1f} a thousand records\n"
            )
            sys.stdout.writelines(
                told(capacity(alone, spark, case.n_rows, n_keys)) + "\n" for n_keys in KEYS
            )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
