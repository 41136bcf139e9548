"""A monitor that fails: what it takes with it, who is told, and how it comes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import urllib3
from driftbn_service.lane import MAX_TRIES
from driftbn_service.state import Store

from driftbn import datasets
from tests.services.daemon import DaemonService, break_monitors
from tests.services.process import wait_for

WINDOW = 200
STREAMS = ("frail", "sound")
SETTINGS = "\n".join(
    f'[[streams]]\nname = "{name}"\nwindow = {WINDOW}\nsource.kind = "http"\n' for name in STREAMS
)


class Client:
    """Posts records and asks what became of them."""

    def __init__(self, daemon: DaemonService) -> None:
        self._address = daemon.address
        self._pool = urllib3.PoolManager(retries=False)

    def post(self, stream: str, records: list[dict[str, Any]]) -> tuple[int, str]:
        answer = self._pool.request(
            "POST",
            f"{self._address}/api/v1/streams/{stream}/records",
            body="\n".join(map(json.dumps, records)).encode(),
            headers={"Content-Type": "application/x-ndjson"},
        )
        return answer.status, answer.data.decode()

    def metric(self, line: str) -> float:
        text = self._pool.request("GET", f"{self._address}/metrics").data.decode()
        (value,) = [row.split()[-1] for row in text.splitlines() if row.startswith(line)]
        return float(value)

    def n_failed(self) -> float:
        return self.metric('driftbn_records_total{stream="frail",source="http",outcome="failed"}')


@pytest.fixture
def daemon(tmp_path: Path) -> DaemonService:
    made = DaemonService(tmp_path, SETTINGS)
    made.prepare = break_monitors
    made.start()
    return made


def records(n_rows: int, seed: int = 1) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = datasets.sample(datasets.asia(), n_rows, seed).to_dict("records")
    return found


def events(daemon: DaemonService, type_: str) -> list[dict[str, Any]]:
    with Store(daemon.history) as store:
        found = [event for _, event in store.events(0, 1000)]
    return [event.document["data"] for event in found if event.type.endswith(type_)]


def spoil(client: Client) -> None:
    poison = [{**record, "poison": 1} for record in records(50, seed=9)]
    for n_posts in range(1, MAX_TRIES + 1):
        assert client.post("frail", poison)[0] == 202
        n_failed = 50.0 * n_posts
        wait_for(lambda n=n_failed: client.n_failed() >= n, "the monitor has failed over it")
    failed = 'driftbn_monitors_failed{stream="frail"}'
    wait_for(lambda: client.metric(failed) == 1, "that is in a checkpoint")


def test_a_monitor_that_failed_once_goes_on_as_if_the_batch_had_not_been(
    daemon: DaemonService,
) -> None:
    client = Client(daemon)
    good = records(3 * WINDOW)
    assert client.post("frail", good[:300])[0] == 202
    assert client.post("frail", [{**record, "poison": 1} for record in good[:50]])[0] == 202
    wait_for(lambda: client.n_failed() == 50, "the monitor has failed over it")
    assert daemon.readiness()[0] == 200
    for stream, rest in (("frail", good[300:]), ("sound", good)):
        assert client.post(stream, rest)[0] == 202
    assert daemon.end() == 0, daemon.log_tail()
    with Store(daemon.history) as store:
        frail, sound = ([store.window(name, "", index) for index in range(3)] for name in STREAMS)
    assert [window.report for window in frail if window] == [w.report for w in sound if w]
    assert len([window for window in frail if window]) == 3
    lines = (daemon.state_dir / "quarantine" / "frail.ndjson").read_text().splitlines()
    kept = [json.loads(line) for line in lines]
    assert len(kept) == 50
    assert {line["reason"] for line in kept} == {"monitor_failed"}
    assert json.loads(kept[0]["record"])["poison"] == 1


def test_a_monitor_that_has_failed_is_seen_refuses_records_and_harms_no_other(
    daemon: DaemonService,
) -> None:
    client = Client(daemon)
    assert client.post("frail", records(WINDOW))[0] == 202
    spoil(client)
    status, text = daemon.readiness()
    assert (status, text) == (
        503,
        "not ready\nstream frail is failed: the monitor failed: ZeroDivisionError: poison\n",
    )
    status, text = client.post("frail", records(10))
    assert status == 503
    assert "ZeroDivisionError: poison" in text
    assert client.metric('driftbn_state{stream="frail",state="failed"}') == 1
    assert client.metric('driftbn_stream_state{stream="frail",state="failed"}') == 1
    assert client.metric('driftbn_state{stream="sound",state="failed"}') == 0
    assert client.post("sound", records(WINDOW))[0] == 202
    wait_for(lambda: events(daemon, "monitor.failed.v1"), "the event")
    assert daemon.end() == 1, daemon.log_tail()  # not all is well
    daemon.start()
    assert client.post("frail", records(WINDOW, seed=2))[0] == 202
    wait_for(lambda: events(daemon, "monitor.recovered.v1"), "the event")
    assert len(events(daemon, "monitor.failed.v1")) == 1
    assert daemon.end() == 0, daemon.log_tail()


def test_records_of_a_failed_monitor_do_not_pile_up(daemon: DaemonService) -> None:
    client = Client(daemon)
    spoil(client)
    daemon.kill()
    daemon.begin()
    wait_for(lambda: daemon.readiness()[0] == 200, "a restart tries again")
    assert client.n_failed() == 0, "what was set aside is not given again"
    assert daemon.end() == 0, daemon.log_tail()
