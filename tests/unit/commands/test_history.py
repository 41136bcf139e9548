"""``driftbn history export``: the history for other programs."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from driftbn_service.errors import ExitCode
from driftbn_service.state import FILE, ActionKind, Store, Wish

from tests.commands import Run, failed
from tests.http_service import N_AFTER, N_BEFORE, drifting_publications

TABLES = ("windows", "edges", "episodes", "events", "actions")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    directory = tmp_path / "state"
    directory.mkdir()
    with Store(directory / FILE) as store:
        store.publish(drifting_publications())
        store.publish(drifting_publications("clicks", "eu")[:2])
        store.act(Wish(ActionKind.COMMENT, "orders", author="ada", comment="a release"))
    return directory


def test_all_tables_are_written_with_all_rows(run: Run, state: Path, tmp_path: Path) -> None:
    code, out, _ = run("history", "export", state, tmp_path / "out")
    assert code == ExitCode.OK
    found = {name: pq.read_table(tmp_path / "out" / f"{name}.parquet") for name in TABLES}
    assert out.splitlines() == [
        f"{tmp_path}/out/{name}.parquet: {table.num_rows}" for name, table in found.items()
    ]
    assert found["windows"].num_rows == N_BEFORE + N_AFTER + 2
    with Store(state / FILE, read_only=True) as store:
        rows = store.windows("orders", "")[::-1]
        episodes = store.episodes("orders", "")
    windows = found["windows"].filter(found["windows"]["stream"].to_numpy() == "orders")
    for name in ("window_index", "p_value", "level", "drift", "stored"):
        assert windows[name].to_pylist() == [getattr(row, name) for row in rows], name
    assert found["episodes"]["headline"].to_pylist() == [one.headline for one in episodes]
    assert found["actions"]["comment"].to_pylist() == ["a release"]
    assert "checksum" not in windows.column_names


def test_one_stream_by_itself(run: Run, state: Path, tmp_path: Path) -> None:
    run("history", "export", state, tmp_path / "out", "--stream", "clicks")
    windows = pq.read_table(tmp_path / "out" / "windows.parquet")
    assert set(windows["stream"].to_pylist()) == {"clicks"}
    assert pq.read_table(tmp_path / "out" / "actions.parquet").num_rows == 0


def test_damaged_rows_are_left_out(run: Run, state: Path, tmp_path: Path) -> None:
    with sqlite3.connect(state / FILE) as connection:
        connection.execute("UPDATE actions SET comment = 'another'")
    assert run("history", "export", state, tmp_path / "out").code == ExitCode.OK
    assert pq.read_table(tmp_path / "out" / "actions.parquet").num_rows == 0


def test_nothing_is_written_over(run: Run, state: Path, tmp_path: Path) -> None:
    failed(run("history", "export", state, tmp_path / "out", "--stream", "x"), 1, "'x'")
    (tmp_path / "out").mkdir()
    failed(run("history", "export", state, tmp_path / "out"), 1, "out")
