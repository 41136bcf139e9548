"""Hundreds of streams in one process: what can be seen and done while they are being started."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

import pytest

from tests.services.daemon import DaemonService
from tests.services.process import wait_for

N_STREAMS = 500
ROWS = '{"x": "a", "y": "b"}\n{"x": "b", "y": "a"}\n'


@pytest.fixture
def daemon(tmp_path: Path) -> DaemonService:
    """A daemon that follows a small file for each of many streams."""
    streams = []
    for number in range(N_STREAMS):
        path = tmp_path / f"{number}.ndjson"
        path.write_text(ROWS)
        source = f'source = {{kind = "files", path = "{path}", follow = true}}'
        streams.append(f'[[streams]]\nname = "s{number}"\n{source}\n')
    return DaemonService(tmp_path, "".join(streams))


def is_healthy(daemon: DaemonService) -> bool:
    with urllib.request.urlopen(f"{daemon.address}/-/healthy", timeout=5) as answer:
        return bool(answer.status == 200)


def n_to_start(daemon: DaemonService) -> int | None:
    """Return how many streams are not started yet; ``None`` if the daemon does not say."""
    found = re.search(r"(\d+) streams are not started yet", daemon.readiness()[1])
    return None if found is None else int(found[1])


def test_a_stop_amid_the_start_of_many_streams_ends_in_order(daemon: DaemonService) -> None:
    daemon.begin()
    wait_for(lambda: n_to_start(daemon) is not None, "it answers amid the start", 60)
    assert is_healthy(daemon)
    assert daemon.end() == 0, daemon.log_tail()
    assert daemon.log_tail().splitlines()[-1].endswith("driftbn.service.daemon stopped")


def test_many_streams_become_ready_and_the_daemon_is_healthy_all_the_while(
    daemon: DaemonService,
) -> None:
    daemon.begin()
    wait_for(lambda: daemon.readiness()[0], "it answers", 60)
    wait_for(lambda: is_healthy(daemon) and daemon.probe(), "all streams are ready", 60)
    assert daemon.end() == 0, daemon.log_tail()
