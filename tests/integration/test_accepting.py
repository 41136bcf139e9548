"""An accept holds once, whenever the daemon is killed."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from contextlib import suppress
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

from driftbn_service.state import Store

from driftbn import datasets
from tests.integration.histories import SETTINGS, STREAM, WINDOW, count_windows
from tests.services.daemon import DaemonService, KillPoint
from tests.services.feeders import HttpFeeder
from tests.services.process import wait_for

N_BEFORE = 8


def sampled(n_windows: int, seed: int, *, changed: bool) -> list[dict[str, Any]]:
    network = datasets.asia()
    if changed:
        network = datasets.remove_edge(network, "smoke", "bronc").network
    found: list[dict[str, Any]] = datasets.sample(network, n_windows * WINDOW, seed).to_dict(
        "records"
    )
    return found


def post_accept(daemon: DaemonService) -> None:
    """Ask for it; whoever is killed over it may not answer any more."""
    url = f"{daemon.address}/api/v1/streams/{STREAM}/accept"
    body = json.dumps({"author": "ada"}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with suppress(urllib.error.URLError, HTTPException, ConnectionError):
        urllib.request.urlopen(request, timeout=10).close()


def accepted_at(path: Path) -> list[int | None]:
    with Store(path, read_only=True) as store:
        return [row.window_index for row in store.actions(STREAM, "")]


def test_an_accept_survives_a_kill_and_is_done_once(tmp_path: Path) -> None:
    daemon = DaemonService(tmp_path, SETTINGS.format(directory=tmp_path) + 'kind = "http"\n')
    daemon.prepare = KillPoint("accept", 1, "after").arm  # and before the commit
    with HttpFeeder(daemon.address, STREAM, piece=700) as feeder:
        daemon.start()
        feeder.send(sampled(N_BEFORE, 1, changed=False))
        feeder.send(sampled(1, 2, changed=True))
        n_windows = N_BEFORE + 1
        wait_for(lambda: count_windows(daemon.history) == n_windows, "a drift", 120)
        post_accept(daemon)
        wait_for(lambda: not daemon.running, "it is killed amid the accept", 60)
        daemon.kill()
        with Store(daemon.history, read_only=True) as store:
            assert [row.window_index for row in store.wanted()] == [None]
            assert store.episodes(STREAM, "")[0].is_open
        daemon.prepare = None
        daemon.start()
        wait_for(lambda: accepted_at(daemon.history) == [n_windows - 1], "it is done", 60)
        daemon.kill()  # what is done is not done again
        daemon.start()
        for seed in (3, 4, 5):
            feeder.send(sampled(1, seed, changed=True))
        done = partial(count_windows, daemon.history)
        wait_for(lambda: done() == n_windows + 3, "three more windows", 120)
        assert daemon.end() == 0, daemon.log_tail()
    with Store(daemon.history) as store:
        rows = store.windows(STREAM, "", after=n_windows - 1)[::-1]
        assert [row.level for row in rows] == ["learning", "stable", "stable"]
        (episode,) = store.episodes(STREAM, "")
        assert (episode.state, episode.ended_window) == ("ended", n_windows)
        types = [event.type.rpartition("drift.")[2] for _, event in store.events()]
        assert types == ["started.v1", "ended.v1"]
    lines = (tmp_path / "events.ndjson").read_text().splitlines()
    sent = [json.loads(line)["type"] for line in lines]
    assert [name.rpartition("drift.")[2] for name in sent] == types
