from __future__ import annotations

import argparse
import json
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from driftbn_service.checkpoint import CheckpointDirectory, lane_directory, segments, survey
from driftbn_service.commands import checkpoint
from driftbn_service.errors import InputError

Ran = tuple[int, str]
Run = Callable[..., Ran]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    parser = argparse.ArgumentParser()
    checkpoint.add_parser(parser.add_subparsers())

    def call(*words: object) -> Ran:
        arguments = parser.parse_args(["checkpoint", *(str(word) for word in words)])
        code = int(arguments.run(arguments))
        return code, capfd.readouterr().out

    return call


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Two lanes with two checkpoints each, and one without any."""
    for lane in ("", "7"):
        with CheckpointDirectory(
            lane_directory(tmp_path, "orders", lane), clock=lambda: 0.0
        ) as one:
            one.open()
            for n in (1, 2):
                one.put("a", b"x" * 1000 * n)
                one.put("b", b"y" * 1000 * n)
                one.commit({"position": {"offset": n}, "outbox": [1] * 100})
    with CheckpointDirectory(lane_directory(tmp_path, "users", "")) as one:
        one.open()
    return tmp_path


def lane_of(state: Path) -> Path:
    return lane_directory(state, "orders", "7")


def documents(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def spoil(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def test_inspect_lists_the_checkpoints_of_all_lanes(run: Run, state: Path) -> None:
    code, out = run("inspect", state)
    lines = out.splitlines()
    assert code == 0
    assert [line for line in lines if line.startswith("/")] == [
        str(lane_directory(state, *names))
        for names in (("orders", "7"), ("orders", ""), ("users", ""))
    ]
    words = lines[2].split(maxsplit=5)
    assert words[:2] == ["1", "1970-01-01T00:00:00Z"]
    assert (words[3], words[5]) == ("2", '{"offset": 1}')
    assert lines[-1] == "  no checkpoint yet"


def test_inspect_writes_json(run: Run, state: Path) -> None:
    code, out = run("inspect", lane_of(state), "--json")
    first, second = documents(out)
    assert code == 0
    assert (first["number"], first["time"], first["n_keys"]) == (1, 0.0, 2)
    assert second["position"] == {"offset": 2}
    assert (second["good"], second["problem"]) == (True, None)
    assert second["lane"] == str(lane_of(state))
    assert second["n_bytes"] == Path(second["path"]).stat().st_size
    assert "meta" not in second


def test_verify_says_that_all_is_good(run: Run, state: Path) -> None:
    code, out = run("verify", state)
    assert code == 0
    assert "damaged:" not in out


def test_a_damaged_state_is_seen_by_verify_only(run: Run, state: Path) -> None:
    spoil(next(lane_of(state).glob("segment-*")))
    assert run("inspect", state)[0] == 0
    assert "damaged:" not in run("inspect", state)[1]
    code, out = run("verify", state)
    assert code == 1
    (line,) = (line for line in out.splitlines() if "damaged:" in line)
    assert "manifest-000000000002" in line
    assert "checksum at byte" in line
    code, out = run("verify", lane_of(state), "--json")
    assert code == 1
    assert [one["good"] for one in documents(out)] == [True, False]


def test_a_damaged_manifest_is_seen_by_both(run: Run, state: Path) -> None:
    spoil(lane_of(state) / "manifest-000000000001")
    code, out = run("inspect", state)
    assert code == 0
    assert "manifest-000000000001  damaged: its checksum is wrong" in out
    assert run("verify", state)[0] == 1


def test_a_missing_segment_is_seen_by_both(run: Run, state: Path) -> None:
    next(lane_of(state).glob("segment-*")).unlink()
    assert run("inspect", state)[1].count("it is missing") == 2
    assert run("verify", state)[0] == 1


def test_what_was_set_aside_is_listed_and_does_not_count(run: Run, state: Path) -> None:
    spoil(lane_of(state) / "manifest-000000000002")
    with CheckpointDirectory(lane_of(state)) as one:
        one.open()
    code, out = run("verify", lane_of(state))
    assert code == 0
    assert "manifest-000000000002.corrupt  set aside" in out


@pytest.fixture
def running(state: Path) -> Iterator[CheckpointDirectory]:
    with CheckpointDirectory(lane_of(state)) as one:
        one.open()
        yield one


def test_a_daemon_may_run_meanwhile(run: Run, state: Path, running: CheckpointDirectory) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in state.rglob("*"))
    running.put("a", b"not committed")
    assert run("verify", state)[0] == 0
    running.commit({"position": None})
    assert run("verify", state)[0] == 0
    assert len(before) < len(list(state.rglob("*")))


def test_checkpoints_deleted_meanwhile_are_left_out(
    state: Path, running: CheckpointDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 2000)
    stopped = threading.Event()

    def write() -> None:
        n = 0
        while not stopped.is_set():
            n += 1
            running.put("a", random.Random(n).randbytes(1000))
            running.commit({"position": n})

    writer = threading.Thread(target=write)
    writer.start()
    seen: set[int] = set()
    try:
        while len(seen) < 100 and writer.is_alive():
            for one in survey(lane_of(state), checksums=True):
                assert one.problem is None
                seen.add(one.number)
    finally:
        stopped.set()
        writer.join()
    assert len(seen) >= 100


def test_nothing_is_changed(run: Run, state: Path) -> None:
    (lane_of(state) / "manifest-000000000009.tmp").write_bytes(b"leftover")
    spoil(lane_of(state) / "manifest-000000000002")
    before = sorted((path, path.stat().st_mtime_ns) for path in state.rglob("*"))
    run("inspect", state)
    run("verify", state)
    assert sorted((path, path.stat().st_mtime_ns) for path in state.rglob("*")) == before


def test_a_directory_without_checkpoints_is_told(run: Run, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InputError, match="no checkpoints: give a state directory"):
            run("inspect", path)


def test_a_long_position_is_shortened_in_text_only(run: Run, tmp_path: Path) -> None:
    position = {"files": [f"file {n}" for n in range(1000)]}
    with CheckpointDirectory(tmp_path / "lane") as one:
        one.open()
        one.commit({"position": position})
    assert all(len(line) < 200 for line in run("inspect", tmp_path / "lane")[1].splitlines()[1:])
    assert documents(run("inspect", tmp_path / "lane", "--json")[1])[0]["position"] == position
