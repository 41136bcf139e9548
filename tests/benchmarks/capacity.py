"""What monitors by the thousand cost, alone and in Spark, and what that makes of many keys.

Run ``python -m tests.benchmarks.capacity``; ``--no-spark`` measures the library alone. All figures
are CPU time and bytes. Spark runs on this machine, with all of its processes counted; its start is
left out, as figures are of the triggers after the first ones. The costs of a call and of a record
are the two unknowns of triggers that bring a whole window of each key, and a quarter of one.
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

import pandas as pd

from driftbn import DriftMonitor, datasets
from driftbn.graphs.network import BayesianNetwork

SUBMIT = Path(__file__).parents[2] / "configs" / "spark" / "submit.sh"
N_WINDOWS = 50
N_FIRST = 3  # triggers that compile, and infer schemas
N_TRIGGERS = 10
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
class InSpark:
    """Milliseconds of Spark, Python included, for a window that comes in one trigger."""

    window: float
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
    whole = milliseconds_a_key(case, case.n_rows)
    quarter = milliseconds_a_key(case, case.n_rows // 4)
    decoded = (whole - quarter) - 0.75 * (alone.update + alone.core)
    record = max(0.0, decoded / (0.75 * case.n_rows))
    return InSpark(whole, whole - alone.update - alone.core - record * case.n_rows, record)


def milliseconds_a_key(case: Case, n_rows: int) -> float:
    """Return the CPU of a trigger for each of its keys, each of which has so many rows."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        write_triggers(case, n_rows, directory / "in")
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
        used = []
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
    if len(used) < N_FIRST + N_TRIGGERS:
        raise RuntimeError(f"Spark ended after {len(used)} triggers")
    seconds = used[N_FIRST + N_TRIGGERS - 1] - used[N_FIRST - 1]
    return seconds * 1000 / (N_TRIGGERS * case.n_keys)


def write_triggers(case: Case, n_rows: int, directory: Path) -> None:
    directory.mkdir()
    for trigger in range(N_FIRST + N_TRIGGERS):
        rows = case.rows(n_rows * case.n_keys, trigger)
        rows.insert(0, "k", [f"k{number % case.n_keys}" for number in range(len(rows))])
        rows.insert(1, "n", range(len(rows)))
        path = directory / f"{trigger:03}.parquet"
        rows.to_parquet(path, index=False)
        os.utime(path, (trigger, trigger))  # Spark reads the oldest first


def cpu_seconds(pid: int) -> float:
    """Return the CPU that a process and all below it have used, those that have ended included."""
    below: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for number, fields in process_table():
        below.setdefault(int(fields[1]), []).append(number)
        used[number] = sum(map(int, fields[11:15]))
    total, waiting = 0, [pid]
    while waiting:
        one = waiting.pop()
        total += used.get(one, 0)
        waiting += below.get(one, [])
    return total / _TICKS


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
    every_minute = (window + 60 * spark.call) * n_keys / 3_600_000
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
            sys.stdout.write(
                f"in Spark {spark.window:.1f} ms a window ({spark.window / alone.update:.1f} x"
                f" update): {spark.call:.1f} a call, {spark.record * 1000:.1f} a thousand records\n"
            )
            sys.stdout.writelines(
                told(capacity(alone, spark, case.n_rows, n_keys)) + "\n" for n_keys in KEYS
            )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
