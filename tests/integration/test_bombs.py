"""Small bodies that would become large: what they cost a daemon with default limits."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3

from tests.bombs import BOMBS, MB, NDJSON, Bomb, csv_of_columns, zeros
from tests.columns import file as arrow_file
from tests.integration.histories import count_windows
from tests.services.daemon import DaemonService

MAX_BYTES = 1 << 30
MAX_CPU_SECONDS = 5.0
"""Of the process, not of a clock. One second is promised; a slow machine may take longer."""
PATIENCE = 120.0
GOOD = b'{"a": "x", "b": 1}\n'
REFUSED = [name for name, bomb in BOMBS.items() if bomb.named]
TAKEN = [name for name, bomb in BOMBS.items() if not bomb.named]


def http_stream(name: str) -> str:
    return f'[[streams]]\nname = "{name}"\nsource.kind = "http"\n'


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonService]:
    directory = tmp_path_factory.mktemp("bombs")
    daemon = DaemonService(directory, http_stream("orders"))
    daemon.start()
    yield daemon
    daemon.stop()


@pytest.fixture(autouse=True)
def _no_daemon_is_left() -> None:
    """Let the daemon of this module live from one test to the next."""


def post(daemon: DaemonService, bomb: Bomb, stream: str = "orders") -> urllib3.BaseHTTPResponse:
    return urllib3.request(
        "POST",
        f"{daemon.address}/api/v1/streams/{stream}/records",
        body=bomb.body(),
        headers={"content-type": bomb.content_type, "content-encoding": bomb.encoding},
        timeout=PATIENCE,
        retries=False,
    )


class Cost:
    """What a process takes from now on."""

    def __init__(self, daemon: DaemonService) -> None:
        self._process = Path(f"/proc/{daemon.pid}")
        (self._process / "clear_refs").write_text("5")  # begins the peak of memory anew
        self._seconds = self._cpu_seconds()

    @property
    def seconds(self) -> float:
        return self._cpu_seconds() - self._seconds

    @property
    def peak_bytes(self) -> int:
        lines = (self._process / "status").read_text().splitlines()
        (peak,) = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
        return int(peak) * 1024

    def _cpu_seconds(self) -> float:
        fields = (self._process / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("name", REFUSED)
def test_a_body_that_is_too_much_is_refused_at_little_cost(
    daemon: DaemonService, name: str
) -> None:
    bomb = BOMBS[name]
    cost = Cost(daemon)
    answer = post(daemon, bomb)
    detail = answer.json()["detail"]
    assert 400 <= answer.status < 500
    assert bomb.named in detail
    assert cost.seconds < MAX_CPU_SECONDS
    assert cost.peak_bytes < MAX_BYTES
    assert post(daemon, Bomb(NDJSON, lambda: GOOD, "")).status == 202


def test_a_body_that_fits_is_taken_in_bounded_memory(tmp_path: Path) -> None:
    streams = {f"s{i}": name for i, name in enumerate(TAKEN)}
    daemon = DaemonService(tmp_path, "".join(map(http_stream, streams)))
    daemon.start()
    for stream, name in streams.items():
        cost = Cost(daemon)
        answer = post(daemon, BOMBS[name], stream)
        assert answer.status == 202, (name, answer.json())
        assert cost.peak_bytes < MAX_BYTES, name
    daemon.kill()


def test_files_that_are_too_much_are_set_aside_and_the_next_is_read(tmp_path: Path) -> None:
    records = tmp_path / "records"
    records.mkdir()
    (records / "a.csv").write_bytes(csv_of_columns(10_000))
    (records / "b.ndjson").write_bytes(BOMBS["a long name around 55,000"].body())
    (records / "c.ndjson").write_bytes(BOMBS["80,000 fields"].body())
    (records / "d.arrow").write_bytes(arrow_file(zeros(1, 40 * MB), "zstd"))
    (records / "e.ndjson").write_bytes(GOOD * 1000)
    source = f'source.kind = "files"\nsource.path = "{records}"\n'
    daemon = DaemonService(
        tmp_path, f'[[streams]]\nname = "orders"\nwindow = 1000\n{source}', exit_when_drained=True
    )
    daemon.begin()
    assert daemon.wait() == 0, daemon.log_tail()
    assert count_windows(daemon.history, "orders") == 1
    (rejected,) = (daemon.state_dir / "quarantine").glob("orders*")
    reasons = [json.loads(line)["reason"] for line in rejected.read_text().splitlines()]
    assert reasons == ["too_large"] * 3
    assert "268435456 are allowed" in daemon.log.read_text()
