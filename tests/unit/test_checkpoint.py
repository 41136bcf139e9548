from __future__ import annotations

import json
import logging
import math
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from driftbn_service.checkpoint import (
    CheckpointDirectory,
    CheckpointError,
    DamagedError,
    Loaded,
    NewerVersionError,
    directory,
    lane_directories,
    lane_directory,
    manifest,
    segments,
)
from driftbn_service.checkpoint.table import sparse_segments

from driftbn.config import MonitorConfig
from driftbn.datasets import asia, sample
from driftbn.errors import ConfigError
from driftbn.monitor import DriftMonitor


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[CheckpointDirectory]:
    with CheckpointDirectory(tmp_path / "lane", clock=lambda: 1234.5) as one:
        assert one.open() is None
        yield one


def reopened(one: CheckpointDirectory) -> Loaded:
    one.close()
    loaded = one.open()
    assert loaded is not None
    return loaded


def names(path: Path, pattern: str) -> list[str]:
    return sorted(item.name for item in path.glob(pattern))


def n_bytes(path: Path) -> int:
    return sum(item.stat().st_size for item in path.glob("segment-*"))


def noise(seed: int, n: int = 1000) -> bytes:
    return random.Random(seed).randbytes(n)


# What comes back


def test_what_was_committed_comes_back(opened: CheckpointDirectory) -> None:
    opened.put("a", b"first")
    opened.put("b", noise(1, 100_000))
    opened.put("a", b"second")
    opened.commit({"position": {"offset": 5}})
    assert reopened(opened) == Loaded({"position": {"offset": 5}}, 1, 1234.5)
    assert sorted(opened.keys()) == ["a", "b"]
    assert opened.get("a") == b"second"
    assert opened.get("b") == noise(1, 100_000)


def test_what_was_not_committed_is_gone(opened: CheckpointDirectory) -> None:
    opened.put("a", b"kept")
    opened.commit({"n": 1})
    opened.put("a", b"lost")
    opened.put("b", b"lost")
    opened.forget("a")
    assert reopened(opened).meta == {"n": 1}
    assert opened.get("a") == b"kept"
    assert "b" not in opened


def test_a_state_can_be_read_before_it_is_committed(opened: CheckpointDirectory) -> None:
    opened.put("a", b"new")
    assert opened.get("a") == b"new"


def test_a_forgotten_state_is_gone(opened: CheckpointDirectory) -> None:
    opened.put("a", b"x")
    opened.commit({})
    opened.forget("a")
    opened.forget("never there")
    opened.commit({})
    reopened(opened)
    assert list(opened.keys()) == []
    with pytest.raises(KeyError):
        opened.get("a")


@pytest.mark.parametrize("key", ["", "/", "..", "ä\n\0", "\ud800", "x" * 10_000, "__array__"])
def test_any_text_is_a_key(opened: CheckpointDirectory, key: str) -> None:
    opened.put(key, b"")
    opened.commit({key: key})
    assert reopened(opened).meta == {key: key}
    assert opened.get(key) == b""


def test_no_number_changes(opened: CheckpointDirectory) -> None:
    floats = [0.1, 1e-308, 5e-324, 1.7976931348623157e308, -0.0, math.inf, 2**53 + 1, 10**30]
    rng = random.Random(1)
    meta = {"floats": [*floats, *(rng.uniform(-1e9, 1e9) for _ in range(1000))]}
    opened.commit(meta)
    found = reopened(opened).meta["floats"]
    assert [repr(value) for value in found] == [repr(value) for value in meta["floats"]]


@pytest.mark.parametrize("meta", [{}, {"n": 1}])
def test_what_is_json_already_is_read_back_like_the_rest(
    opened: CheckpointDirectory, meta: dict[str, int]
) -> None:
    opened.commit(meta, {"more": '[{"a":"ü"}]'.encode(), "other": b"null"})
    assert reopened(opened).meta == {**meta, "more": [{"a": "ü"}], "other": None}


def test_what_json_has_not_is_refused_and_changes_nothing(opened: CheckpointDirectory) -> None:
    opened.commit({"n": 1})
    opened.put("a", b"x")
    with pytest.raises(TypeError):
        opened.commit({"n": {1, 2}})
    opened.commit({"n": 2})
    assert reopened(opened).number == 2


def test_the_state_of_a_monitor_goes_on_as_if_nothing_had_been(opened: CheckpointDirectory) -> None:
    frame = sample(asia(), 2300, seed=1)
    through, parted = (DriftMonitor(MonitorConfig(window=500)) for _ in range(2))
    whole = through.update(frame)
    reports = parted.update(frame[:1250])
    state = parted.snapshot()
    opened.put("", state)
    opened.commit({})
    stored = n_bytes(opened.path)
    reopened(opened)
    parted = DriftMonitor.restore(opened.get(""))
    reports = (*reports, *parted.update(frame[1250:]))
    assert [report.to_dict() for report in reports] == [report.to_dict() for report in whole]
    assert parted.snapshot() == through.snapshot()
    assert stored < len(state) / 4


# What is kept on disk


def test_only_the_last_manifests_are_kept(opened: CheckpointDirectory) -> None:
    assert opened.oldest is None
    for n in range(1, 8):
        opened.put("a", noise(n))
        opened.commit({"n": n})
        assert opened.oldest == {"n": max(1, n - 2)}
    assert names(opened.path, "manifest-*") == [f"manifest-00000000000{n}" for n in (5, 6, 7)]
    reopened(opened)
    assert opened.oldest == {"n": 5}


def test_keep_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="keep"):
        CheckpointDirectory(tmp_path, keep=0)


def test_a_state_that_did_not_change_is_not_written_again(opened: CheckpointDirectory) -> None:
    opened.put("a", noise(1))
    before = n_bytes(opened.path)
    opened.put("a", noise(1))
    assert n_bytes(opened.path) == before


def test_leftovers_are_removed(opened: CheckpointDirectory) -> None:
    opened.put("a", b"x")
    opened.commit({})
    kept = names(opened.path, "*")
    for name in ("manifest-000000000009.tmp", "segment-000000000009"):
        (opened.path / name).write_bytes(b"half")
    (opened.path / "notes.txt").write_text("of somebody")
    reopened(opened)
    assert names(opened.path, "*") == sorted([*kept, "notes.txt"])


def test_room_of_old_states_comes_back(
    opened: CheckpointDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 20_000)
    monkeypatch.setattr(directory, "COMPACTION_BYTES", 5_000)
    rng = random.Random(1)
    expected = {f"key {n}": noise(n) for n in range(100)}
    for key, state in expected.items():
        opened.put(key, state)
    opened.commit({})
    most = 0
    for n in range(300):
        for key in rng.sample(sorted(expected), 3):
            expected[key] = noise(1000 * n + int(key[4:]))
            opened.put(key, expected[key])
        opened.commit({"n": n})
        most = max(most, n_bytes(opened.path))
    assert most < 3 * 100 * 1000  # of 1 MB put in all
    reopened(opened)
    assert {key: opened.get(key) for key in opened.keys()} == expected  # noqa: SIM118


def test_a_commit_moves_a_bounded_number_of_bytes(
    opened: CheckpointDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 1 << 20)
    monkeypatch.setattr(directory, "COMPACTION_BYTES", 10_000)
    for n in range(1200):
        opened.put(str(n), noise(n))
    opened.commit({})
    for n in range(700):
        opened.forget(str(n))
    before = n_bytes(opened.path)
    opened.commit({})
    assert 0 < n_bytes(opened.path) - before < 12_000


def test_segments_are_emptied_only_when_most_of_all_is_not_needed() -> None:
    assert sparse_segments({1: 100, 2: 100}, {1: 10, 2: 90}) == ()
    assert sparse_segments({1: 100, 2: 100, 3: 50}, {1: 10, 2: 80, 3: 5}) == (1, 3)
    assert sparse_segments({1: 100}, {}) == ()


# Versions


def test_a_checkpoint_of_a_later_version_is_an_error_and_stays(
    opened: CheckpointDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened.commit({"n": 1})
    monkeypatch.setattr(manifest, "VERSION", 2)
    opened.commit({"n": 2})
    opened.close()
    monkeypatch.setattr(manifest, "VERSION", 1)
    with pytest.raises(NewerVersionError, match=r"version 2 .* reads version 1: run the driftbn"):
        opened.open()
    assert len(names(opened.path, "manifest-*")) == 2
    monkeypatch.setattr(manifest, "VERSION", 2)
    with pytest.raises(NewerVersionError, match=r"version 1 .* reads version 2"):
        opened.open()


# Where it cannot be


def test_a_file_in_place_of_the_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "file" / "lane"):
        with pytest.raises(CheckpointError, match="checkpoints cannot be written here"):
            CheckpointDirectory(path).open()


def test_a_damaged_state_is_told_when_it_is_read(opened: CheckpointDirectory) -> None:
    opened.put("a", b"x" * 100)
    path = next(opened.path.glob("segment-*"))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedError, match="checksum at byte 16 is wrong"):
        opened.get("a")
    path.unlink()
    with pytest.raises(DamagedError, match="it is missing"):
        opened.get("a")


def test_a_damaged_state_stops_no_commit(
    opened: CheckpointDirectory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 3_000)
    for n in range(4):
        opened.put(str(n), noise(n))
    opened.commit({})
    path = min(opened.path.glob("segment-*"))
    path.write_bytes(b"\0" * path.stat().st_size)
    for n in range(1, 4):
        opened.forget(str(n))
    for n in range(3):
        opened.put("new", noise(10 + n))
        opened.commit({})
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert ["damaged on disk" in record.getMessage() for record in errors] == [True]


# Layout


def test_lanes_are_found_from_the_state_directory_and_from_the_lane(tmp_path: Path) -> None:
    lanes = [lane_directory(tmp_path, *names) for names in (("a", ""), ("b", "0"), ("b", "1"))]
    for path in lanes:
        with CheckpointDirectory(path) as one:
            one.open()
    assert lane_directories(tmp_path) == tuple(lanes)
    assert lane_directories(lanes[1]) == (lanes[1],)
    assert lane_directories(tmp_path / "lanes" / "b") == ()
    assert lane_directories(tmp_path / "nowhere") == ()


def test_a_manifest_can_be_read_by_people(opened: CheckpointDirectory) -> None:
    opened.put("tenant", b"x")
    opened.commit({"position": 3})
    data = (opened.path / "manifest-000000000001").read_bytes()
    values = json.loads(data[data.index(b'{"number"') :])
    assert values["meta"] == {"position": 3}
    assert values["states"][0][:3] == ["tenant", 1, 16]
