"""``driftbn state``: list, check and export what a daemon keeps."""

from __future__ import annotations

import json
import os
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from driftbn_service.errors import ExitCode
from driftbn_service.lane import Lane
from driftbn_service.settings import StreamSettings
from driftbn_service.state import FILE, Checkpoint, Store

from driftbn import DriftMonitor, datasets
from tests.commands import Run

WINDOW = 200


@pytest.fixture(name="run")
def run_state(run: Run) -> Run:
    return partial(run, "state")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state with a stream that has windows, and two lanes of one that has none."""
    directory = tmp_path_factory.mktemp("state")
    settings = {"name": "orders", "window": WINDOW, "source": {"kind": "stdin"}}
    with Store(directory / FILE, clock=lambda: 0.0) as store:
        lane = Lane(StreamSettings.model_validate(settings), store.lane("orders", ""))
        rows = datasets.sample(datasets.asia(), 3 * WINDOW, 1)
        lane.take(pa.Table.from_pandas(rows, preserve_index=False))
        lane.advance({"byte": 9})
        lane.commit()
        for name in ("0", "1"):
            other = store.lane("clicks", name)
            other.put("a", b"x" * 100)
            other.put("b", b"y" * 100)
            other.commit(Checkpoint({"files": {"n" * 200: 1}}))
    return directory


@pytest.fixture
def state(made: Path, tmp_path: Path) -> Path:
    (tmp_path / FILE).write_bytes((made / FILE).read_bytes())
    return tmp_path


def test_show_lists_lanes_with_positions_and_sizes(run: Run, state: Path) -> None:
    code, out, _ = run("show", state)
    assert code == ExitCode.OK
    lines = [line.split() for line in out.splitlines()]
    assert lines[0][0] == f"{state / FILE}:"
    assert [line[0] for line in lines if len(line) == 1] == ["clicks", "orders"]
    (orders,) = [line for line in lines if line[0] == "main"]
    assert orders[1:3] == ["1970-01-01T00:00:00Z", "1"]
    assert orders[4:] == ["3", '{"byte":', "9}"]
    assert max(len(line) for line in out.splitlines()[1:]) < 160


def test_show_writes_json_with_whole_positions(run: Run, state: Path) -> None:
    code, out, _ = run("show", state, "--json")
    assert code == ExitCode.OK
    lanes: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    assert [(lane["stream"], lane["lane"]) for lane in lanes] == [
        ("clicks", "0"), ("clicks", "1"), ("orders", ""),
    ]  # fmt: skip
    assert lanes[0]["position"] == {"files": {"n" * 200: 1}}
    assert (lanes[0]["n_keys"], lanes[0]["state_bytes"], lanes[0]["n_windows"]) == (2, 200, 0)


def test_verify_says_that_all_is_good_while_a_daemon_runs_and_changes_nothing(
    run: Run, state: Path
) -> None:
    before = {path.name: path.read_bytes() for path in state.iterdir()}
    assert run("verify", state)[:2] == (
        ExitCode.OK, f"{state / FILE}: everything is as it was written\n",
    )  # fmt: skip
    assert {path.name: path.read_bytes() for path in state.iterdir()} == before
    with Store(state / FILE) as daemon:
        daemon.lane("orders", "")
        assert run("verify", state)[0] == ExitCode.OK
        assert f"(process {os.getpid()} on " in run("show", state)[1]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            "states SET state = x'00' WHERE lane = '1' AND key = 'b'",
            "the state of stream 'clicks'",
        ),
        ("windows SET hamming = 99 WHERE window_index = 1", "window 1 of stream 'orders'"),
        ("documents SET report = x'00' WHERE window_index = 2", "the report of window 2"),
        ("lanes SET position = '{}' WHERE lane = '0'", "lane '0' of stream 'clicks'"),
    ],
)
def test_verify_names_every_damaged_row(run: Run, state: Path, change: str, told: str) -> None:
    with sqlite3.connect(state / FILE) as connection:
        assert connection.execute(f"UPDATE {change}").rowcount == 1
    connection.close()
    code, out, _ = run("verify", state)
    assert code == ExitCode.FAILED
    assert told in out
    assert "1 damaged" in out


def test_verify_sees_damaged_pages(run: Run, state: Path) -> None:
    data = bytearray((state / FILE).read_bytes())
    data[5 * 4096 : 6 * 4096] = b"\xff" * 4096
    (state / FILE).write_bytes(data)
    code, out, err = run("verify", state)
    assert code == ExitCode.FAILED
    assert str(state / FILE) in out + err


def test_export_writes_snapshots_that_go_on_and_the_history(
    run: Run, state: Path, tmp_path: Path
) -> None:
    assert run("export", state, "orders", tmp_path / "out")[0] == ExitCode.OK
    rows = {
        path.name: [json.loads(line) for line in path.read_text().splitlines()]
        for path in (tmp_path / "out").glob("*.ndjson")
    }
    assert rows["snapshots.ndjson"] == [{"lane": "", "key": "", "file": "snapshot-1.driftbn"}]
    assert [row["report"]["index"] for row in rows["windows.ndjson"]] == [0, 1, 2]
    assert (rows["episodes.ndjson"], rows["events.ndjson"]) == ([], [])
    monitor = DriftMonitor.restore((tmp_path / "out" / "snapshot-1.driftbn").read_bytes())
    rows_left = datasets.sample(datasets.asia(), WINDOW, 2).to_dict("records")
    assert [report.index for report in monitor.update(rows_left)] == [3]


def test_what_is_not_there_is_told(run: Run, state: Path, tmp_path: Path) -> None:
    code, _, err = run("show", tmp_path / "none")
    assert code == ExitCode.FAILED
    assert "there is no such file: give the state.sqlite" in err
    code, _, err = run("export", state, "nobody", tmp_path / "out")
    assert code == ExitCode.FAILED
    assert "there is no stream 'nobody'" in err
    assert not (tmp_path / "out").exists()
