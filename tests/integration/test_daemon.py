"""The life of a daemon: start, signals, reload, end; and what it says when it cannot start."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.integration.histories import (
    SETTINGS,
    STREAM,
    WINDOW,
    count_windows,
    file_daemon,
    read_history,
)
from tests.services.daemon import ROOT, DaemonService
from tests.services.feeders import FileFeeder
from tests.services.process import HOST, wait_for

Records = list[dict[str, Any]]


def get(daemon: DaemonService, path: str) -> Any:
    with urllib.request.urlopen(daemon.address + path, timeout=10) as answer:
        return json.load(answer)


def run(daemon: DaemonService, *options: str) -> tuple[int, str]:
    """Run a daemon that is expected to end at once; return its exit code and what it says."""
    daemon.log.write_text("")
    daemon.begin(*options)
    code, told = daemon.wait(), daemon.log.read_text()
    assert "Traceback" not in told
    return code, told


def test_a_stop_in_order_writes_a_checkpoint_and_the_next_start_goes_on(
    records: Records, tmp_path: Path
) -> None:
    feeder = FileFeeder(tmp_path / "records.ndjson")
    feeder.send(records[: 3 * WINDOW + 100])
    daemon = file_daemon(tmp_path, follow=True)
    daemon.start()
    wait_for(lambda: count_windows(daemon.history) == 3, "three windows")
    assert daemon.end() == 0, daemon.log_tail()
    feeder.send(records[3 * WINDOW + 100 : 5 * WINDOW])
    daemon.start()
    wait_for(lambda: count_windows(daemon.history) == 5, "five windows")
    assert daemon.end() == 0
    windows = read_history(tmp_path).windows
    assert [windows[i]["first_record"] for i in range(5)] == [i * WINDOW for i in range(5)]


def test_a_reload_takes_up_new_monitors_and_keeps_the_others(
    records: Records, tmp_path: Path
) -> None:
    FileFeeder(tmp_path / "records.ndjson").send(records[: 2 * WINDOW])
    daemon = file_daemon(tmp_path, follow=True)
    daemon.start()
    wait_for(lambda: count_windows(daemon.history) == 2, "two windows")
    text = daemon.config.read_text()
    (tmp_path / "more.ndjson").write_bytes((tmp_path / "records.ndjson").read_bytes())
    more = f'[[streams]]\nname = "more"\nwindow = {WINDOW}\n[streams.source]\nkind = "files"\n'
    daemon.config.write_text(text + more + f'path = "{tmp_path}/more.ndjson"\n')
    daemon.signal(signal.SIGHUP)
    wait_for(lambda: count_windows(daemon.history, "more") == 2, "the new monitor")
    daemon.config.write_text(text + "[nonsense]\n")
    daemon.signal(signal.SIGHUP)
    wait_for(lambda: "the old ones stay" in daemon.log_tail(), "the mistake is told")
    assert "nonsense" in daemon.log_tail()
    names = {item["name"] for item in get(daemon, "/api/v1/streams")["items"]}
    assert names == {STREAM, "more"}
    assert daemon.end() == 0


def test_one_stream_that_cannot_be_read_does_not_stop_the_others(
    records: Records, tmp_path: Path
) -> None:
    FileFeeder(tmp_path / "records.ndjson").send(records[:WINDOW])
    other = '[[streams]]\nname = "gone"\n[streams.source]\nkind = "files"\npath = "no.ndjson"\n\n'
    daemon = file_daemon(tmp_path, follow=True, outlets=other)
    daemon.begin()
    wait_for(lambda: count_windows(daemon.history) == 1, "one window")
    wait_for(lambda: "stream gone is failed" in daemon.readiness()[1], "not ready")
    assert daemon.readiness()[0] == 503
    assert daemon.end() == 1  # one stream has failed


def test_a_daemon_whose_only_stream_fails_ends(tmp_path: Path) -> None:
    daemon = file_daemon(tmp_path, follow=False)
    code, told = run(daemon)
    assert code == 1
    assert "records.ndjson" in told


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    (tmp_path / "records.ndjson").touch()
    daemon = file_daemon(tmp_path, follow=True)
    with socket.create_server((HOST, daemon.port)):
        code, told = run(daemon)
    assert code == 1
    assert f"{HOST}:{daemon.port}" in told
    assert "endpoint.port" in told


def test_a_state_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "records.ndjson").touch()
    daemon = file_daemon(tmp_path, follow=False)
    shutil.rmtree(daemon.state_dir)
    daemon.state_dir.touch()
    code, told = run(daemon)
    assert code == 78
    assert str(tmp_path / "state") in told
    assert "service.state_dir" in told


def test_bad_settings_are_all_told_with_exit_code_78(tmp_path: Path) -> None:
    config = tmp_path / "driftbn.toml"
    config.write_text('[service]\nstate_dir = "state"\n[[streams]]\nname = "x"\nwindw = 1\n')
    done = subprocess.run(
        [sys.executable, "-m", "driftbn_service", "run", "--config", str(config)],
        capture_output=True, text=True, timeout=120, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 78
    assert "windw" in done.stderr
    assert "window" in done.stderr
    assert "source" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_second_daemon_on_the_same_state_is_refused(records: Records, tmp_path: Path) -> None:
    FileFeeder(tmp_path / "records.ndjson").send(records[:WINDOW])
    daemon = file_daemon(tmp_path, follow=True)
    daemon.start()
    (tmp_path / "twin").mkdir()
    twin = DaemonService(
        tmp_path / "twin",
        SETTINGS.format(directory=tmp_path)
        + f'kind = "files"\npath = "{tmp_path}/records.ndjson"\nfollow = true\n',
        state_dir=daemon.state_dir,
    )
    code, told = run(twin)
    assert code == 1
    assert f"process {daemon.pid}" in told
    assert daemon.end() == 0


def test_changed_settings_need_a_reset(records: Records, tmp_path: Path) -> None:
    FileFeeder(tmp_path / "records.ndjson").send(records[: 4 * WINDOW])
    daemon = file_daemon(tmp_path, follow=False)
    assert run(daemon)[0] == 0
    daemon.config.write_text(
        daemon.config.read_text().replace(f"window = {WINDOW}", f"window = {2 * WINDOW}")
    )
    code, told = run(daemon)
    assert code == 1
    assert f"window.size was {WINDOW} and is {2 * WINDOW}" in told
    assert f"--reset {STREAM}" in told
    assert run(daemon, "--reset", STREAM)[0] == 0
    assert sorted(read_history(tmp_path).windows) == [0, 1]
    code, told = run(daemon, "--reset", "nobody")
    assert code == 2
    assert STREAM in told


def test_bad_records_are_set_aside_and_the_rest_goes_on(records: Records, tmp_path: Path) -> None:
    lines = [json.dumps(record).encode() for record in records[:WINDOW]]
    bad = [b"{broken", b"\xff\xfe", b"[1]", b'{"x": NaN}', b'{"a": 1, "a": 2}', b"[" * 100_000]
    for place, line in enumerate(bad):
        lines.insert(50 * place + 7, line)
    (tmp_path / "records.ndjson").write_bytes(b"\n".join(lines) + b"\n")
    daemon = file_daemon(tmp_path, follow=False)
    assert run(daemon)[0] == 0
    assert sorted(read_history(tmp_path).windows) == [0]
    kept = (tmp_path / "state" / "quarantine" / f"{STREAM}.ndjson").read_text().splitlines()
    assert len(kept) == len(bad)
    assert all("records.ndjson" in json.loads(line)["place"] for line in kept)


@pytest.mark.parametrize("copy", ["good", "damaged"])
def test_a_damaged_state_is_told_of_and_its_copy_used(
    records: Records, tmp_path: Path, copy: str
) -> None:
    feeder = FileFeeder(tmp_path / "records.ndjson")
    daemon = file_daemon(tmp_path, follow=False)
    for number in range(3):
        feeder.send(records[number * WINDOW : (number + 1) * WINDOW])
        assert run(daemon)[0] == 0
    kept = daemon.history.with_name(f"{daemon.history.name}.copy")
    for path in (daemon.history, kept) if copy == "damaged" else (daemon.history,):
        path.write_bytes(path.read_bytes()[:5000])
    code, told = run(daemon)
    assert "the state " in told
    assert str(daemon.history) in told
    assert code == (0 if copy == "good" else 1)
    if copy == "good":
        assert sorted(read_history(tmp_path).windows) == [0, 1, 2]


def test_standard_input_is_read_to_its_end(records: Records, tmp_path: Path) -> None:
    source = 'kind = "stdin"\n'
    settings = SETTINGS.format(directory=tmp_path) + source
    daemon = DaemonService(tmp_path, settings, exit_when_drained=True)
    lines = b"".join(json.dumps(record).encode() + b"\n" for record in records[: 2 * WINDOW + 3])
    done = subprocess.run(
        [sys.executable, "-m", "driftbn_service", "run", "--config", str(daemon.config)],
        input=lines, capture_output=True, timeout=120, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(read_history(tmp_path).windows) == [0, 1]
