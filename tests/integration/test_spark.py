"""Spark on a cluster that loses a worker and its driver: the reports are the plain library's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from driftbn import DriftMonitor, MonitorConfig, WindowReport
from driftbn.config import WindowConfig
from driftbn.errors import DataError
from tests.services.kafka import KafkaService
from tests.services.spark import (
    SparkDriver,
    SparkMaster,
    SparkWorker,
    connector_jars,
    require_spark,
)

N_KEYS = 1000
N_ROWS, N_HOURS = 100, 4
HOUR = 3600
START = 480_000 * HOUR
MOST_ROWS = 120  # of a window of an hour
FIELDS = "shop string, a string, b int, c boolean, d double"
QUIET, BAD = 17, 23  # a shop that closes after two hours, and one that sends a bad record


class Cluster:
    """A master and two workers of one core."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.master = SparkMaster(directory)
        self.workers = [SparkWorker(directory, self.master, number) for number in (1, 2)]

    def start(self) -> None:
        for part in (self.master, *self.workers):
            part.start()

    def kill(self) -> None:
        for part in (*self.workers, self.master):
            part.kill()

    def submit(self, *arguments: str | Path, jars: tuple[Path, ...] = ()) -> SparkDriver:
        log = self.directory / "driver.log"
        return SparkDriver(self.master.address, arguments, log, jars)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    require_spark()
    found = Cluster(tmp_path_factory.mktemp("spark"))
    try:
        found.start()
        yield found
    finally:
        found.kill()


@pytest.fixture(scope="module")
def hours() -> list[pa.Table]:
    """Records of each hour of all shops; in every third one ``b`` follows ``a`` no longer."""
    return [_hour(number) for number in range(N_HOURS)]


def _hour(number: int) -> pa.Table:
    rng = np.random.default_rng(number)
    n_rows = N_KEYS * N_ROWS
    shop = np.repeat(np.arange(N_KEYS), N_ROWS)
    a = rng.integers(0, 3, n_rows)
    free = (rng.random(n_rows) < 0.1) | ((shop % 3 == 0) & (number >= 2))
    b = np.where(free, rng.integers(0, 3, n_rows), a)
    c = (b == 1) ^ (rng.random(n_rows) < 0.2)
    second = START + number * HOUR + np.tile(np.arange(N_ROWS), N_KEYS) * HOUR // N_ROWS
    bad = (shop == BAD) & (number == 1) & (second % HOUR == (second % HOUR).max())
    table = pa.table(
        {
            "shop": [f"shop {name}" for name in shop],
            "a": np.array(["x", "y", "z"])[a],
            "b": pa.array(b, pa.int32(), mask=rng.random(n_rows) < 0.05),
            "c": pa.array(c, mask=rng.random(n_rows) < 0.05),
            "d": a + rng.normal(0, 1, n_rows),
            "at": pa.array(second * 1_000_000, pa.timestamp("us", "UTC"), mask=bad),
        }
    )
    return table.filter(pa.array((shop != QUIET) | (number < 2)))


def of_shop(table: pa.Table, number: int) -> pa.Table:
    return table.filter(pc.equal(table["shop"], f"shop {number}")).drop_columns(["shop"])


def documents(reports: tuple[WindowReport, ...]) -> list[str]:
    return [orjson.dumps(report.to_dict()).decode() for report in reports]


def read(directory: Path) -> dict[str, list[str]]:
    """Return by key what Spark has reported, in the order of the windows."""
    table = pq.read_table(directory, columns=["key", "index", "report", "error"])
    found: dict[str, list[str]] = {}
    for row in table.sort_by("index").to_pylist():
        found.setdefault(row["key"], []).append(row["report"] or row["error"])
    return found


def shuffled(table: pa.Table) -> pa.Table:
    return table.take(np.random.default_rng(0).permutation(table.num_rows))


def test_event_time_from_files_with_a_worker_and_the_driver_killed(
    cluster: Cluster, hours: list[pa.Table], tmp_path: Path
) -> None:
    records, out = tmp_path / "records", tmp_path / "out"
    records.mkdir()
    for number, hour in enumerate(hours):
        pq.write_table(shuffled(hour), records / f"{number}.parquet")
    arguments = (
        *("--files", records, "--schema", f"{FIELDS}, at timestamp", "--key", "shop"),
        *("--order", "at", "--time", "at", "--window", str(MOST_ROWS), "--seconds", str(HOUR)),
        *("--watermark", "10 minutes"),
        *("--most", "1", "--until-drained", "--out", out, "--checkpoint", tmp_path / "state"),
    )
    driver = cluster.submit(*arguments)
    try:
        driver.wait_for_batch(0)
        cluster.workers[0].kill()
        driver.wait_for_batch(1)
    finally:
        driver.kill()
    cluster.workers[0].start()
    cluster.submit(*arguments).finish()

    found, alarms = read(out), 0
    window = WindowConfig(size=MOST_ROWS, seconds=HOUR)
    config = MonitorConfig(window=window, time_column="at")
    for number in range(N_KEYS):
        monitor, expected = DriftMonitor(config), []
        for hour in hours:
            try:
                reports = monitor.update(of_shop(hour, number))
            except DataError as error:
                expected.append(str(error))
                continue
            alarms += sum(report.drift for report in reports)
            expected += documents(reports)
        if number == QUIET:
            expected += documents(monitor.finish())
        assert sorted(found[f"shop {number}"]) == sorted(expected)
    assert alarms > N_KEYS / 4
    assert len(found[f"shop {QUIET}"]) == 2
    assert any("at" in text and "event time" in text for text in found[f"shop {BAD}"])


def test_a_table_of_all_hours(cluster: Cluster, hours: list[pa.Table], tmp_path: Path) -> None:
    records, out = tmp_path / "records", tmp_path / "out"
    records.mkdir()
    for number, hour in enumerate(hours):
        pq.write_table(shuffled(hour), records / f"{number}.parquet")
    cluster.submit(
        *("--table", "--files", records, "--key", "shop", "--order", "at", "--time", "at"),
        *("--window", "100", "--out", out),
    ).finish()

    found, table = read(out), pa.concat_tables(hours)
    config = MonitorConfig(window=N_ROWS, time_column="at")
    assert len(found) == N_KEYS
    assert "event time" in found.pop(f"shop {BAD}")[0]
    for name, reports in found.items():
        monitor = DriftMonitor(config)
        rows = of_shop(table, int(name.removeprefix("shop ")))
        assert reports == documents((*monitor.update(rows), *monitor.finish()))


@pytest.mark.parametrize("backend", ["applyInPandasWithState", "transformWithStateInPandas"])
def test_numbered_records_that_no_window_keeps_are_left_out_by_spark(
    cluster: Cluster, tmp_path: Path, backend: str
) -> None:
    n_keys, n_rows, size, most = 3, 12_000, 5000, 500
    records, out = tmp_path / "records", tmp_path / "out"
    records.mkdir()
    rng = np.random.default_rng(5)
    shop = np.repeat(np.arange(n_keys), n_rows)
    a = rng.integers(0, 3, n_keys * n_rows)
    table = pa.table(
        {
            "shop": [f"shop {name}" for name in shop],
            "n": np.tile(np.arange(n_rows), n_keys),
            "a": np.array(["x", "y", "z"])[a],
            "d": a + rng.normal(0, 1, a.size),
        }
    )
    config = MonitorConfig(window=size, max_rows_per_window=most)
    for number, part in enumerate((table.slice(0, 20_000), table.slice(20_000))):
        pq.write_table(shuffled(part), records / f"{number}.parquet")
    cluster.submit(
        *("--files", records, "--schema", "shop string, n long, a string, d double"),
        *("--key", "shop", "--order", "n", "--window", str(size), "--max-rows", str(most)),
        *("--backend", backend, "--numbered", "--most", "1", "--until-drained", "--out", out),
        *("--checkpoint", tmp_path / "state"),
    ).finish()

    found = read(out)
    for number in range(n_keys):
        rows = of_shop(table, number).drop_columns(["n"])
        expected = documents(DriftMonitor(config).update(rows))
        assert len(expected) == n_rows // size
        assert found[f"shop {number}"] == expected


def test_kafka_with_a_worker_killed(
    cluster: Cluster, hours: list[pa.Table], kafka_broker: KafkaService, unique: str, tmp_path: Path
) -> None:
    jars, n_partitions = tuple(connector_jars()), 4
    kafka_broker.create_topic(unique, n_partitions)
    records = pa.concat_tables(hours[1:3]).drop_columns(["at"])
    partitions: list[list[bytes]] = [[] for _ in range(n_partitions)]
    for record in records.to_pylist():
        number = int(record["shop"].removeprefix("shop "))
        partitions[number % n_partitions].append(orjson.dumps(record))
    for partition, messages in enumerate(partitions):
        kafka_broker.produce(unique, messages, partition)
    out = tmp_path / "out"
    driver = cluster.submit(
        *("--kafka", f"{kafka_broker.address}/{unique}", "--schema", FIELDS, "--key", "shop"),
        *("--window", "100", "--most", "80000", "--until-drained", "--out", out),
        *("--checkpoint", tmp_path / "state"),
        jars=jars,
    )
    try:
        driver.wait_for_batch(0)
        cluster.workers[1].kill()
        driver.finish()
    finally:
        driver.kill()

    found = read(out)
    assert len(found) == N_KEYS
    for name, reports in found.items():
        rows = of_shop(records, int(name.removeprefix("shop ")))
        assert reports == documents(DriftMonitor(window=N_ROWS).update(rows))
