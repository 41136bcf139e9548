"""No two events have the same id unless they are the same event."""

from __future__ import annotations

import json
import logging
import random
import re
import sqlite3
from pathlib import Path
from uuid import UUID

import pytest
from driftbn_service.daemon import Daemon
from driftbn_service.state import FILE, Store

from tests.settings_files import load_settings

WINDOW = 100

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
    with Store(directory / "state" / FILE) as store:
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
    for directory in (whole, parted):
        Store(directory / "state" / FILE, new_id=lambda: UUID(int=1)).close()
    lines = (whole / "records.ndjson").read_bytes().splitlines(keepends=True)
    for start in (0, 2 * WINDOW + 50):
        with (parted / "records.ndjson").open("ab") as file:
            file.writelines(lines[start : start + 2 * WINDOW + 50])
        ids = run(parted)
    assert ids == run(whole)


def test_a_state_that_is_gone_is_told_in_log_and_metrics(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = directory_of(tmp_path, "one", seed=1)
    before = run(directory)
    write_records(directory, seed=2)
    run(directory)
    (directory / "state" / FILE).unlink()
    daemon = Daemon(load_settings(directory / "driftbn.toml", {}))
    assert daemon.run() == 0
    text, _ = daemon.view.metrics.text("text/plain")
    (line,) = re.findall(rb"driftbn_state_restored_timestamp_seconds{.*} (.*)", text)
    assert float(line) > 0
    (told,) = [one for one in caplog.records if "it is gone" in one.getMessage()]
    assert told.levelno == logging.ERROR
    with Store(directory / "state" / FILE) as store:
        assert store.monitors("orders")[0].n_windows == 8
        assert [event.id for _, event in store.events(limit=1000)][: len(before)] == before


def test_a_damaged_last_window_keeps_no_daemon_from_starting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = directory_of(tmp_path, "one", seed=1)
    run(directory)
    history = directory / "state" / FILE
    with sqlite3.connect(history) as connection:
        connection.execute("UPDATE windows SET headline = 'x' WHERE window_index = 3")
    connection.close()
    write_records(directory, seed=2)
    run(directory)
    assert "metrics begin without the last window" in caplog.text
    with Store(history) as store:
        assert store.monitors("orders")[0].n_windows == 8
