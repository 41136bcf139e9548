"""``driftbn state``, ``history`` and ``report`` at an address say what they say of a directory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from driftbn_service.cli import main
from driftbn_service.errors import ExitCode
from driftbn_service.lane import Lane
from driftbn_service.settings import StreamSettings
from driftbn_service.state import Checkpoint, Store
from driftbn_service.state.database import Connection

from driftbn import DriftMonitor, datasets

WINDOW, N_WINDOWS = 500, 7


@pytest.fixture
def made(place: Path | str) -> Path | str:
    """A stream with a drift in window 5, and a lane of another one; where commands find them."""
    before = datasets.asia()
    after = datasets.remove_edge(before, "smoke", "bronc").network
    settings = {"name": "orders", "window": WINDOW, "source": {"kind": "stdin"}}
    with Store(place, clock=lambda: 1e9) as store:
        lane = Lane(StreamSettings.model_validate(settings), store.lane("orders", ""))
        for network, n_windows in ((before, 5), (after, N_WINDOWS - 5)):
            rows = datasets.sample(network, n_windows * WINDOW, 1)
            lane.take(pa.Table.from_pandas(rows, preserve_index=False))
        lane.advance({"byte": 9})
        lane.commit()
        other = store.lane("clicks", "0")
        other.put("a", b"x" * 100)
        other.commit(Checkpoint({"offset": 1}))
    return place if isinstance(place, str) else place.parent


Ask = Callable[..., str]


@pytest.fixture
def ask(capfd: pytest.CaptureFixture[str]) -> Ask:
    def call(*words: object, code: int = ExitCode.OK) -> str:
        found = main([str(word) for word in words])
        out, err = capfd.readouterr()
        assert found == code, err
        return out

    return call


def rows_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_state_is_shown_without_anything_secret(ask: Ask, made: Path | str) -> None:
    lanes = [json.loads(line) for line in ask("state", "show", made, "--json").splitlines()]
    assert [(lane["stream"], lane["lane"]) for lane in lanes] == [("clicks", "0"), ("orders", "")]
    assert [lane["position"] for lane in lanes] == [{"offset": 1}, {"byte": 9}]
    assert (lanes[0]["n_keys"], lanes[0]["state_bytes"]) == (1, 100)
    first, *rest = ask("state", "show", made).splitlines()
    assert "@" not in first
    assert any(line.split()[:1] == ["main"] for line in rest)


def test_every_damaged_row_is_named(ask: Ask, made: Path | str, place: Path | str) -> None:
    assert "everything is as it was written" in ask("state", "verify", made)

    def damage(connection: Connection) -> None:
        connection.execute("UPDATE windows SET hamming = 99 WHERE window_index = 1")

    with Store(place) as store:
        store._database.write(damage)
    told = ask("state", "verify", made, code=ExitCode.FAILED)
    assert "window 1 of stream 'orders'" in told
    assert "1 damaged" in told


def test_what_is_exported_goes_on(ask: Ask, made: Path | str, tmp_path: Path) -> None:
    to = tmp_path / "out"
    ask("state", "export", made, "orders", to)
    assert rows_of(to / "snapshots.ndjson") == [
        {"lane": "", "key": "", "file": "snapshot-1.driftbn"}
    ]
    windows = [row["report"]["index"] for row in rows_of(to / "windows.ndjson")]
    assert windows == list(range(N_WINDOWS))
    assert len(rows_of(to / "episodes.ndjson")) == 1
    monitor = DriftMonitor.restore((to / "snapshot-1.driftbn").read_bytes())
    assert [r.index for r in monitor.update(datasets.sample(datasets.asia(), WINDOW, 2))] == [7]


def test_the_history_is_exported_as_tables(ask: Ask, made: Path | str, tmp_path: Path) -> None:
    ask("history", "export", made, tmp_path / "tables")
    table = pq.read_table(tmp_path / "tables" / "windows.parquet")
    assert sorted(table["window_index"].to_pylist()) == list(range(N_WINDOWS))


def test_a_report_is_made_of_a_history(
    ask: Ask, made: Path | str, place: Path | str, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    words = ("report", "--stream", "orders", "--history", place)
    assert "Drift in orders" in ask(*words)
    ask(*words, "--html", page)
    assert "bronc" in page.read_text()
    assert json.loads(ask(*words, "--window", 2, "--json"))
