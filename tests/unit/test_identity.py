"""No two events have the same id unless they are the same event."""

from __future__ import annotations

import json
import logging
import random
import subprocess
import sys
from pathlib import Path

import pytest
from driftbn_service.daemon import Daemon
from driftbn_service.identity import FILE, Identity, count_reset, has_identity, identity_of
from driftbn_service.settings import load_settings
from driftbn_service.store import Store

from tests.services.daemon import ROOT

WINDOW = 100
N_PROCESSES = 8

SETTINGS = """
[service]
state_dir = "{directory}/state"
exit_when_drained = true
[endpoint]
enabled = false
[[streams]]
name = "orders"
window = {window}
[streams.source]
kind = "files"
path = "{directory}/records.ndjson"
follow = false
"""


def write_records(directory: Path, seed: int, n_windows: int = 4) -> None:
    """Write windows of which each but the first has a column that no other has."""
    chance = random.Random(seed)
    with (directory / "records.ndjson").open("a") as file:
        for window in range(n_windows):
            for _ in range(WINDOW):
                record = {"x": chance.choice("ab"), "y": chance.choice("cd")}
                record |= {f"column {window}": chance.choice("ef")} if window else {}
                file.write(json.dumps(record) + "\n")


def run(directory: Path, *resets: str) -> list[str]:
    """Run a daemon over the records of a directory and return the ids of all events."""
    config = directory / "driftbn.toml"
    config.write_text(SETTINGS.format(directory=directory, window=WINDOW))
    daemon = Daemon(load_settings(config, {}))
    daemon.reset(resets)
    assert daemon.run() == 0
    with Store(directory / "state" / "history.sqlite") as store:
        ids = [event.id for _, event in store.events(limit=1000)]
    assert ids
    assert len(set(ids)) == len(ids)
    return ids


def directory_of(tmp_path: Path, name: str, seed: int) -> Path:
    directory = tmp_path / name
    directory.mkdir()
    write_records(directory, seed)
    return directory


def test_a_reset_stream_makes_no_event_id_of_its_past(tmp_path: Path) -> None:
    directory = directory_of(tmp_path, "one", seed=1)
    before = run(directory)
    (directory / "records.ndjson").unlink()
    write_records(directory, seed=2)
    after = run(directory, "orders")
    again = run(directory, "orders")
    assert len({*before, *after, *again}) == len(before) + len(after) + len(again)


def test_streams_of_one_name_in_two_state_directories_share_no_event_id(tmp_path: Path) -> None:
    ids = [run(directory_of(tmp_path, name, seed=1)) for name in ("one", "other")]
    assert len(ids[0]) == len(ids[1])
    assert not set(ids[0]) & set(ids[1])


def test_a_restart_goes_on_with_the_ids_of_its_state_directory(tmp_path: Path) -> None:
    whole = directory_of(tmp_path, "whole", seed=1)
    parted = tmp_path / "parted"
    (parted / "state").mkdir(parents=True)
    identity = Identity()
    (parted / "state" / FILE).write_bytes(identity.to_json())
    (whole / "state").mkdir()
    (whole / "state" / FILE).write_bytes(identity.to_json())
    lines = (whole / "records.ndjson").read_bytes().splitlines(keepends=True)
    for start in (0, 2 * WINDOW + 50):
        with (parted / "records.ndjson").open("ab") as file:
            file.writelines(lines[start : start + 2 * WINDOW + 50])
        ids = run(parted)
    assert ids == run(whole)


def test_the_ids_of_other_streams_outlive_a_reset(tmp_path: Path) -> None:
    before = identity_of(tmp_path)
    after = count_reset(tmp_path, "orders")
    assert after == identity_of(tmp_path)
    assert after.origin("orders") != before.origin("orders")
    assert after.origin("clicks") == before.origin("clicks")


_MAKER = """
import sys
from pathlib import Path
from driftbn_service.identity import identity_of
sys.stdin.readline()
print(identity_of(Path(sys.argv[1])).instance)
"""


def test_processes_that_begin_a_state_directory_at_once_share_its_identity(tmp_path: Path) -> None:
    makers = [
        subprocess.Popen(
            [sys.executable, "-c", _MAKER, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        for _ in range(N_PROCESSES)
    ]
    for maker in makers:
        assert maker.stdin is not None
        maker.stdin.write(b"\n")
        maker.stdin.flush()
    said = {maker.communicate(timeout=60)[0] for maker in makers}
    assert said == {f"{identity_of(tmp_path).instance}\n".encode()}


def test_every_flipped_bit_of_an_identity_is_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = count_reset(tmp_path, "orders")
    path = tmp_path / FILE
    written = path.read_bytes()
    for bit in range(8 * len(written)):
        damaged = bytearray(written)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        caplog.clear()
        found = identity_of(tmp_path)
        told = [one for one in caplog.records if one.levelno == logging.ERROR]
        assert found == first or (told and found.instance != first.instance)


def test_a_history_that_is_gone_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = directory_of(tmp_path, "one", seed=1)
    run(directory)
    assert has_identity(directory / "state")
    assert "the history is gone" not in caplog.text
    history = directory / "state" / "history.sqlite"
    history.unlink()
    write_records(directory, seed=2)
    run(directory)
    (told,) = [one for one in caplog.records if "the history is gone" in one.getMessage()]
    assert told.levelno == logging.ERROR
    assert str(history) in told.getMessage()


def test_a_damaged_last_window_keeps_no_daemon_from_starting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = directory_of(tmp_path, "one", seed=1)
    run(directory)
    history = directory / "state" / "history.sqlite"
    with Store(history) as store:
        last = store.monitors("orders")[0].last.headline.encode()
    data = history.read_bytes()
    place = data.rindex(last)
    history.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    write_records(directory, seed=2)
    run(directory)
    assert "metrics begin without the last window" in caplog.text
    with Store(history) as store:
        assert store.monitors("orders")[0].n_windows == 8
