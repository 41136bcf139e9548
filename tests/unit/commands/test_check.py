from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from driftbn_service.errors import ExitCode

from tests.commands import Run
from tests.settings_files import CONFIGS

SETTINGS = """
[service]
state_dir = "state"
[[streams]]
name = "orders"
key = "shop"
window = {size = 100, step = 10}
source = {kind = "kafka", brokers = ["b:1"], topic = "orders"}
[[streams]]
name = "clicks"
window = {seconds = 60}
time_column = "at"
source = {kind = "files", path = "clicks"}
[[streams]]
name = "calls"
window = {size = 500, seconds = 60}
time_column = "at"
source = {kind = "redis", stream = "calls"}
[[outlets]]
kind = "log"
[[outlets]]
kind = "file"
name = "events"
path = "events.ndjson"
"""


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    path = tmp_path / "driftbn.toml"
    path.write_text(SETTINGS)
    return path


def test_fine_settings_are_told_in_short(run: Run, settings: Path, tmp_path: Path) -> None:
    ran = run("check", "--config", settings)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        f"{settings}: settings are fine",
        "stream    orders: kafka topic orders, windows of 100 records every 10, a monitor for each"
        " 'shop'",
        f"stream    clicks: files {tmp_path}/clicks, windows of 60 s",
        "stream    calls: redis stream calls, windows of 500 records or 60 s",
        "outlet    log: log",
        "outlet    events: file",
        "endpoint  http://127.0.0.1:9464",
        f"state     {tmp_path}/state",
    ]


def test_the_endpoint_is_told_as_it_will_be(
    run: Run, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRIFTBN__ENDPOINT__TOKEN", "geheim")
    assert (
        "endpoint  http://127.0.0.1:9464, with a token\n" in run("check", "--config", settings).out
    )
    monkeypatch.setenv("DRIFTBN__ENDPOINT__ENABLED", "false")
    assert "endpoint  none\n" in run("check", "--config", settings).out


def test_all_mistakes_are_told_on_standard_error(
    run: Run, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.write_text(SETTINGS.replace("topic", "topci").replace("[service]", "[servcie]"))
    monkeypatch.setenv("DRIFTBN__LOG__LEVEL", "loud")
    ran = run("check", "--config", settings)
    assert (ran.code, ran.out) == (78, "")
    lines = ran.err.splitlines()
    assert all(line.startswith("driftbn: error: ") for line in lines)
    for words in (
        f"{settings}: service is missing",
        f"{settings}: servcie is not known: did you mean 'service'?",
        f"{settings}: streams[0].source.topci is not known: did you mean 'topic'?",
        f"{settings}: streams[0].source.topic is missing",
        "DRIFTBN__LOG__LEVEL: log.level = 'loud' is not allowed",
    ):
        assert any(words in line for line in lines), words
    assert len(lines) == 5


def test_no_settings_at_all_say_what_to_do(run: Run, tmp_path: Path) -> None:
    ran = run("check")
    assert (ran.code, ran.out) == (78, "")
    assert "name a file with --config FILE or in DRIFTBN_CONFIG" in ran.err
    ran = run("check", "--config", tmp_path / "none.toml")
    assert (ran.code, ran.out) == (78, "")
    assert "none.toml: no such file" in ran.err


def test_warnings_do_not_fail_the_check(
    run: Run, settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("geheim")
    token.chmod(0o644)
    monkeypatch.setenv("DRIFTBN__ENDPOINT__TOKEN_FILE", str(token))
    ran = run("check", "--config", settings)
    assert ran.code == 0
    assert ran.err.startswith(f"driftbn: warning: endpoint.token_file: anyone can read {token}")


REFUSED = {
    "an address open to others without a token": (
        ("[service]", '[endpoint]\nhost = "0.0.0.0"\n[service]'),
        "endpoint.host = '0.0.0.0'",
    ),
    "an empty token": (("[service]", '[endpoint]\ntoken = " "\n[service]'), "endpoint.token = "),
    "state below a file": (('"state"', '"driftbn.toml/state"'), "service.state_dir = "),
    "an option that is the source's own": (
        ('topic = "orders"', 'topic = "orders", options = {"group.id" = "g"}'),
        "streams[0].source.options.group.id = (hidden)",
    ),
    "CSV from Kafka": (
        ('topic = "orders"', 'topic = "orders", format = "csv"'),
        "streams[0].source.format = 'csv'",
    ),
    "a port of Redis that is none": (
        ('stream = "calls"', 'stream = "calls", url = "redis://host:port"'),
        "streams[2].source.url = 'redis://host:port'",
    ),
    "a port of a webhook that is none": (
        ('kind = "log"', 'kind = "webhook"\nurl = "http://host:port"'),
        "outlets[0].url = 'http://host:port'",
    ),
    "half of an IPv6 address": (
        ('kind = "log"', 'kind = "alertmanager"\nurl = "http://[::1"'),
        "outlets[0].url = 'http://[::1'",
    ),
    "alerts that never end": (
        ('kind = "log"', 'kind = "alertmanager"\ntypes = ["io.driftbn.drift.started.v1"]'),
        "outlets[0].types = ",
    ),
}


@pytest.mark.parametrize(("change", "words"), REFUSED.values(), ids=REFUSED)
def test_what_run_refuses_check_refuses_in_the_same_words(
    run: Run, settings: Path, change: tuple[str, str], words: str
) -> None:
    settings.write_text(SETTINGS.replace(*change, 1))
    checked = run("check", "--config", settings)
    assert checked == run("run", "--config", settings)
    assert (checked.code, checked.out) == (ExitCode.CONFIG, "")
    assert f"{settings}: {words}" in checked.err
    assert list(settings.parent.iterdir()) == [settings]


def test_printed_settings_are_toml_with_their_origins(
    run: Run, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRIFTBN__STREAMS__clicks__RESIDENT", "7")
    monkeypatch.setenv("DRIFTBN__ENDPOINT__TOKEN", "geheim")
    ran = run("check", "--config", settings, "--print")
    assert (ran.code, ran.err) == (0, "")
    tree = tomllib.loads(ran.out)
    assert tree["streams"][1]["resident"] == 7
    assert tree["streams"][0]["source"]["partitions"] == "each"
    assert tree["checkpoint"] == {"interval_seconds": 10.0, "publish_seconds": 1.0}
    lines = ran.out.splitlines()
    assert "resident = 7  # DRIFTBN__STREAMS__clicks__RESIDENT" in lines
    assert f"size = 100  # {settings}" in lines
    assert f'time_column = "at"  # {settings}' in lines
    assert 'format = "text"' in lines
    assert "min_rows = 1" in lines
    assert "geheim" not in ran.out


def test_the_schema_in_configs_is_the_one_that_is_printed(run: Run) -> None:
    ran = run("check", "--json-schema")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (CONFIGS / "settings.schema.json").read_text(encoding="utf-8"), (
        "write it anew: driftbn check --json-schema > configs/settings.schema.json"
    )


def test_the_schema_has_every_kind_with_its_limits(run: Run) -> None:
    schema = json.loads(run("check", "--json-schema").out)
    tables = schema["$defs"]
    assert tables["StreamSettings"]["properties"]["audit_share"]["maximum"] == 1
    assert tables["FilesSourceSettings"]["required"] == ["kind", "path"]
    assert "schema" in tables["StreamSettings"]["properties"]
    assert not any(table.get("additionalProperties", False) for table in tables.values())
    assert all(
        field.get("description")
        for table in tables.values()
        for field in table.get("properties", {}).values()
    )


def test_a_schema_is_of_no_file(run: Run, settings: Path) -> None:
    ran = run("check", "--json-schema", "--config", settings)
    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert "leave --config out" in ran.err
