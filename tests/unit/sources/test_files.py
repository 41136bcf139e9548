from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.decoding import SourceError
from tests.source_files import (
    LINES,
    TEXT,
    N,
    Reader,
    numbers,
    read_all,
)

# --- Which files ---


def test_files_of_a_directory_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    for i, name in enumerate(("b.ndjson", "a.jsonl", "c.csv")):
        text = b'n,t\n%d,""\n' if name.endswith("csv") else b'{"n": %d}\n'
        (tmp_path / name).write_bytes(text % i)
    for name in (".hidden.ndjson", "notes.txt", "old.ndjson.1"):
        (tmp_path / name).write_bytes(b"no\n")
    (tmp_path / "sub.ndjson").mkdir()
    assert numbers(read_all(tmp_path)) == [1, 0, 2]


def test_a_file_whose_name_looks_like_a_pattern_is_meant_itself(tmp_path: Path) -> None:
    (tmp_path / "a[1].ndjson").write_bytes(LINES[1])
    (tmp_path / "a1.ndjson").write_bytes(LINES[2])
    assert numbers(read_all(tmp_path / "a[1].ndjson")) == [1]


def test_a_file_that_was_read_is_not_read_again_under_another_name(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_bytes(TEXT)
    position = read_all(tmp_path)[-1].position
    (tmp_path / "a.ndjson").rename(tmp_path / "z.ndjson")
    (tmp_path / "b.ndjson").write_bytes(LINES[7])
    assert numbers(read_all(tmp_path, position)) == [7]


def test_what_was_appended_to_a_file_is_read_by_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_bytes(LINES[0])
    (tmp_path / "b.ndjson").write_bytes(LINES[1])
    position = read_all(tmp_path)[-1].position
    with path.open("ab") as file:
        file.write(LINES[2])
    assert numbers(read_all(tmp_path, position)) == [2]


def test_a_file_in_the_place_of_one_that_was_read_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_bytes(TEXT)
    position = read_all(path)[-1].position
    inode = path.stat().st_ino
    path.write_bytes(TEXT.replace(b'"n": 5', b'"n": 6') + LINES[3])  # the same inode
    assert path.stat().st_ino == inode
    assert len(numbers(read_all(path, position))) == N + 1


# --- Trouble ---


def problem_of(path: Path | str, **given: Any) -> SourceError:
    with pytest.raises(SourceError) as caught:
        read_all(path, **given)
    assert str(path) in str(caught.value)
    assert caught.value.fatal
    return caught.value


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    assert "no such file; give a file, a directory" in str(problem_of(tmp_path / "a.ndjson"))
    assert "no file matches" in str(problem_of(tmp_path / "*.ndjson"))
    assert ".ndjson" in problem_of(tmp_path).problem


def test_a_missing_file_is_waited_for_where_files_are_followed(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "a.ndjson", follow=True)
    assert not reader.source.ready
    assert reader.numbers() == []
    (tmp_path / "a.ndjson").write_bytes(TEXT)
    assert reader.numbers() == list(range(N))
    assert reader.source.ready
    assert not reader.source.drained
    reader.end()


def test_a_pipe_with_a_name_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.ndjson")
    for follow in (False, True):
        with pytest.raises(SourceError, match=r'no regular file; .*source.kind = "stdin"'):
            Reader(tmp_path / "a.ndjson", follow=follow)


def test_an_unknown_extension_is_an_error_that_names_the_formats(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(TEXT)
    error = problem_of(tmp_path / "a.log")
    assert "'.log' tells no format; set source.format to one of csv, ndjson" in error.problem


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.parquet", "no Parquet file"),
        ("a.arrow", "no Arrow stream"),
        ("a.ndjson.gz", "gzip data are damaged"),
        ("a.parquet.gz", "decompress it"),
        ("a.ndjson.zst", "zstd data are damaged"),
    ],
)
def test_a_file_that_is_something_else_is_an_error(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_bytes(b"\x1f\x8bno such thing" if name.endswith("gz") else TEXT)
    assert text in problem_of(tmp_path / name).problem


def test_a_damaged_file_does_not_stop_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.parquet").write_bytes(b"nothing")
    (tmp_path / "b.ndjson").write_bytes(TEXT)
    assert numbers(read_all(tmp_path)) == list(range(N))
    assert "a.parquet: no Parquet file" in caplog.text
    (tmp_path / "b.ndjson").unlink()
    assert "no file could be read" in str(problem_of(tmp_path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_bytes(TEXT)
    (tmp_path / "a.ndjson").chmod(0)
    assert "Permission denied; let this user read it" in str(problem_of(tmp_path / "a.ndjson"))


@pytest.fixture
def forbidden(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of files that cannot be opened."""
    names: set[str] = set()
    really_open = os.open

    def refuse(path: Any, *more: Any, **named: Any) -> int:
        if os.path.basename(os.fspath(path)) in names:
            raise PermissionError(13, "Permission denied", path)
        return really_open(path, *more, **named)

    monkeypatch.setattr(os, "open", refuse)
    return names


def test_a_file_that_cannot_be_opened_is_an_error(tmp_path: Path, forbidden: set[str]) -> None:
    (tmp_path / "a.ndjson").write_bytes(TEXT)
    forbidden.add("a.ndjson")
    assert "Permission denied; let this user read it" in str(problem_of(tmp_path / "a.ndjson"))
    (tmp_path / "b.ndjson").write_bytes(LINES[0])
    position = read_all(tmp_path)[-1].position
    forbidden.clear()
    assert numbers(read_all(tmp_path, position)) == list(range(N))


def test_a_file_that_cannot_be_opened_is_tried_again_where_files_are_followed(
    tmp_path: Path, forbidden: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.ndjson").write_bytes(TEXT)
    forbidden.add("a.ndjson")
    reader = Reader(tmp_path, follow=True)
    assert reader.numbers() == reader.numbers() == []
    assert caplog.text.count("trying again") == 1
    forbidden.clear()
    assert reader.numbers() == list(range(N))
    reader.end()
