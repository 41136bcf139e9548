from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from driftbn_service.settings import FilesSourceSettings
from driftbn_service.sources import files
from driftbn_service.sources.files import FilesSource
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.decoding import Chunk, Lane, SourceError
from tests.source_files import (
    FILES,
    LINES,
    TEXT,
    N,
    Reader,
    numbers,
    read_small_pieces,
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    read_small_pieces(monkeypatch)


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", sorted(FILES))
def test_followed_files_are_read_to_their_ends(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    reader = Reader(tmp_path / name, follow=True)
    n_records = N - 1 if name == "a.jsonl" else N  # its last line has no end
    assert reader.numbers() == list(range(n_records))
    assert reader.numbers() == []
    reader.end()


@pytest.mark.parametrize("name", ["a.csv", "a.json", "a.arrows"])
def test_a_file_of_any_kind_may_grow(tmp_path: Path, name: str) -> None:
    (tmp_path / "whole").write_bytes(FILES[name])
    data = (tmp_path / "whole").read_bytes()
    path = tmp_path / name
    reader = Reader(path, follow=True)
    seen: list[int] = []
    step = len(data) // 9
    for start in range(0, len(data), step):
        append(path, data[start : start + step])
        seen += reader.numbers()
    assert seen == list(range(N))
    reader.end()


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.ndjson.gz", "a.ndjson.zst"])
def test_a_file_that_must_be_whole_is_waited_for(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "whole").write_bytes(FILES[name])
    data = (tmp_path / "whole").read_bytes()
    append(tmp_path / name, data[:-20])
    append(tmp_path / "b.ndjson", LINES[5])
    reader = Reader(f"{tmp_path}/[ab].*", follow=True)
    assert reader.numbers() == [5]
    assert "waiting for more of it" in caplog.text
    append(tmp_path / name, data[-20:])
    assert reader.numbers() == list(range(N))
    assert reader.numbers() == []
    reader.end()


def rotate(path: Path) -> None:
    for i in (2, 1):
        if path.with_suffix(f".ndjson.{i}").exists():
            path.with_suffix(f".ndjson.{i}").rename(path.with_suffix(f".ndjson.{i + 1}"))
    path.rename(path.with_suffix(".ndjson.1"))


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("matched", [False, True])
def test_a_file_that_was_rotated_is_read_to_its_end_before_the_new_one(
    tmp_path: Path, *, restart: bool, matched: bool
) -> None:
    path = tmp_path / "a.ndjson"
    given: dict[str, Any] = {"follow": True, "format": "ndjson"}
    pattern = tmp_path / ("a.ndjson*" if matched else "a.ndjson")
    append(path, b"".join(LINES[:10]))
    reader = Reader(pattern, **given)
    seen = reader.numbers()
    for n in range(10, N, 10):
        append(path, b"".join(LINES[n : n + 4]))
        rotate(path)
        append(path.with_suffix(".ndjson.1"), b"".join(LINES[n + 4 : n + 7]))
        append(path, b"".join(LINES[n + 7 : n + 10]))
        if restart:
            reader = Reader(pattern, reader.end(), **given)
        seen += reader.numbers()
    assert seen == list(range(N))
    reader.end()


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("n_new", [1, 30])
def test_a_file_that_was_emptied_is_read_from_its_start(
    tmp_path: Path, n_new: int, caplog: pytest.LogCaptureFixture, *, restart: bool
) -> None:
    path = tmp_path / "a.ndjson"
    append(path, b"".join(LINES[:20]))
    reader = Reader(path, follow=True)
    assert reader.numbers() == list(range(20))
    os.truncate(path, 0)
    append(path, b"".join(LINES[20 : 20 + n_new]))
    if restart:
        reader = Reader(path, reader.end(), follow=True)
    assert reader.numbers() == list(range(20, 20 + n_new))
    assert "reading it from its start" in caplog.text
    append(path, LINES[55])
    assert reader.numbers() == [55]
    reader.end()


def test_an_inode_that_is_used_again_is_another_file(tmp_path: Path) -> None:
    """The same header, longer than what is looked at of the start, is not enough to be the same."""
    header = b"n,t," + b",".join(b"column%d" % i for i in range(100)) + b"\n"
    path = tmp_path / "a.csv"
    path.write_bytes(header + b'1,"a"\n2,"a"\n')
    reader = Reader(tmp_path, follow=True)
    assert len(reader.all()) == 1
    os.truncate(path, 0)
    path.write_bytes(header + b'3,"a"\n4,"a"\n5,"a"\n')
    path.rename(tmp_path / "b.csv")
    (chunk,) = reader.all()
    assert chunk.data == header + b'3,"a"\n4,"a"\n5,"a"\n'
    reader.end()


def test_a_directory_that_cannot_be_listed_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.parquet").write_bytes(FILES["a.parquet"])
    reader = Reader(tmp_path, follow=True)
    assert reader.numbers() == list(range(N))

    def refuse(path: Any) -> Any:
        raise PermissionError(13, "Permission denied", path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refuse)
        reader.now += 2 * files.FORGET_SECONDS
        assert reader.numbers() == reader.numbers() == []
        assert not reader.source.ready
        with pytest.raises(SourceError, match="let this user list the directory"):
            Reader(tmp_path)
    assert caplog.text.count("let this user list the directory; waiting") == 1
    assert reader.numbers() == []
    assert reader.source.ready
    reader.end()


def test_lost_records_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a.ndjson"
    append(path, TEXT)
    reader = Reader(path, follow=True)
    reader.all()
    position = reader.end()
    append(tmp_path / "new", LINES[3])
    os.replace(tmp_path / "new", path)
    reader = Reader(path, position, follow=True)
    assert reader.numbers() == [3]
    assert f"read up to byte {len(TEXT)}: what else was in it is lost" in caplog.text
    reader.end()


def test_a_busy_file_does_not_keep_the_others_waiting(tmp_path: Path) -> None:
    append(tmp_path / "a.ndjson", LINES[0])
    append(tmp_path / "b.ndjson", LINES[1])
    reader = Reader(tmp_path, follow=True)
    seen = []
    for n in range(2, 8):
        chunk = reader.one()
        seen += numbers([chunk] if chunk else [])
        append(tmp_path / "a.ndjson", LINES[n])
    assert seen == [0, 1]
    assert reader.numbers() == list(range(2, 8))
    reader.end()


def test_more_files_are_followed_than_are_kept_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_OPEN", 5)
    n_open = len(os.listdir("/proc/self/fd"))
    reader = Reader(tmp_path, follow=True)
    for turn in range(3):
        for n in range(30):
            append(tmp_path / f"{n:02}.csv", b"" if turn else b"n,t\n")
            append(tmp_path / f"{n:02}.csv", b'%d,""\n' % n)
        assert reader.numbers() == list(range(30))
        assert len(os.listdir("/proc/self/fd")) <= n_open + 5
    reader.end()
    assert len(os.listdir("/proc/self/fd")) == n_open


def test_closing_wakes_a_poll_that_waits(tmp_path: Path) -> None:
    append(tmp_path / "a.ndjson", LINES[0])
    source = FilesSource(
        FilesSourceSettings(path=str(tmp_path / "a.ndjson"), follow=True, poll_seconds=3600.0)
    )
    source.open(Lane())
    assert source.poll(1) is not None
    returned: list[Chunk | None] = []
    thread = threading.Thread(target=lambda: returned.append(source.poll(3600)))
    thread.start()
    source.close()
    thread.join(60)
    assert returned == [None]


@given(st.data())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_to_a_log_no_line_is_lost_or_read_twice(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Appending in any pieces, rotating and restarting in any order."""
    path = tmp_path_factory.mktemp("log") / "a.ndjson"
    path.touch()
    reader = Reader(path, follow=True)
    seen: list[int] = []
    written, held = 0, b""
    for _ in range(data.draw(st.integers(1, 25))):
        act = data.draw(st.sampled_from(["write", "write", "read", "read", "rotate", "restart"]))
        if act == "write" and written < N:
            text = held + LINES[written]
            cut = data.draw(st.integers(1, len(text)))
            append(path, text[:cut][len(text) - len(LINES[written]) - len(held) :])
            append(path, text[cut:])
            written, held = written + 1, b""
        elif act == "read":
            seen += reader.numbers()
        elif act == "rotate" and path.exists() and path.stat().st_size:
            seen += reader.numbers()  # one look between two rotations
            path.rename(path.with_name(f"old{written}.{len(os.listdir(path.parent))}"))
        elif act == "restart":
            reader = Reader(path, reader.end(), follow=True)
    seen += reader.numbers()
    reader.end()
    assert seen == list(range(written))
