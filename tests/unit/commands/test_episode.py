"""``driftbn episode``: what people say, to a daemon's endpoint on a real socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from driftbn_service.errors import ExitCode
from driftbn_service.settings import EndpointSettings

from tests.commands import Ran, Run, failed
from tests.http_service import (
    N_BEFORE,
    EndpointServer,
    FakeService,
    drifting_publications,
    make_app,
)

SETTINGS = """
[service]
state_dir = "state"
[endpoint]
port = {port}
token = "secret"
[[streams]]
name = "orders"
[streams.source]
kind = "http"
"""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[FakeService]:
    with FakeService(tmp_path) as found:
        found.publish(drifting_publications()[: N_BEFORE + 1])
        found.publish(drifting_publications("clicks", "a b")[:2])
        settings = EndpointSettings.model_validate({"port": 0, "token": "secret"})
        server = EndpointServer(make_app(found, settings), settings)
        server.start()
        port = int(server.address.rpartition(":")[2])
        (tmp_path / "driftbn.toml").write_text(SETTINGS.format(port=port))
        try:
            yield found
        finally:
            server.stop(1.0)


@pytest.fixture(name="run")
def run_episode(run: Run, tmp_path: Path) -> Run:
    def call(*words: object) -> Ran:
        return run("episode", *words, "--config", tmp_path / "driftbn.toml")

    return call


def test_an_accept_says_who_and_why(run: Run, service: FakeService) -> None:
    code, out, _ = run("accept", "a release", "--stream", "orders", "--author", "ada")
    assert (code, out) == (ExitCode.OK, "accept 1 is noted, episode 0\n")
    (row,) = service.store.wanted()
    assert (row.author, row.comment) == ("ada", "a release")
    counted = {"route": "api", "status": "202"}
    name = "driftbn_http_requests_total"
    assert service.metrics.registry.get_sample_value(name, counted) == 1.0


def test_a_silence_is_of_a_key_or_of_all(run: Run, service: FakeService) -> None:
    assert run("silence", "--stream", "clicks", "--key", "a b", "--hours", "2").code == 0
    assert service.store.silences().cover("clicks", "a b")
    assert not service.store.silences().cover("clicks", "c")
    assert run("silence", "--stream", "clicks", "--hours", "2").code == 0
    assert service.store.silences().cover("clicks", "c")


def test_a_comment_is_kept_with_its_episode(run: Run, service: FakeService) -> None:
    words = ("comment", "as planned", "--stream", "orders", "--episode", "0")
    assert run(*words).code == 0
    (row,) = service.store.actions("orders", "")
    assert (row.comment, row.episode) == ("as planned", 0)
    assert row.author


def test_what_the_daemon_says_is_told(run: Run, service: FakeService, tmp_path: Path) -> None:
    failed(run("accept", "--stream", "nobody"), 1, "nobody")
    failed(run("silence", "--stream", "orders", "--hours", "-1"), 1, "hours")
    failed(run("comment", "x", "--stream", "orders", "--episode", "9"), 1, "9")
    assert run("comment", "--stream", "orders").code == ExitCode.USAGE
    failed(run("accept", "--stream", "orders", "--url", "http://127.0.0.1:1"), 1, "127.0.0.1:1")
    path = tmp_path / "driftbn.toml"
    path.write_text(path.read_text().replace('"secret"', '"other"'))
    failed(run("accept", "--stream", "orders"), 1, "token")
