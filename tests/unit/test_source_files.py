from __future__ import annotations

import bz2
import gzip
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.settings.sources import FilesSourceSettings
from service.sources import catalog, files, readers
from service.sources.base import Chunk, Position, SourceError
from service.sources.files import FilesSource
from service.tables import TableFormat

N = 60
LINES = [b'{"n": %d, "t": "%s"}\n' % (n, b"x" * (n % 7)) for n in range(N)]
TEXT = b"".join(LINES)
CSV = b"n,t\n" + b"".join(b'%d,"a\n""b"\n' % n for n in range(N))
TABLE = pa.table({"n": list(range(N)), "t": pa.array(["a", "b"] * (N // 2)).dictionary_encode()})


class Lane:
    """A listener with one position, as it comes from a checkpoint."""

    def __init__(self, position: Position | None = None) -> None:
        self.position = None if position is None else json.loads(json.dumps(position))

    def opened(self, lane: str) -> Position | None:
        assert lane == ""
        return self.position

    def closed(self, lane: str) -> None:
        raise AssertionError("files are not handed over")


class Reader:
    """A source whose time is moved by hand."""

    def __init__(
        self, path: Path | str, position: Position | None = None, limit: int = 1000, **given: Any
    ) -> None:
        self.now = 100.0
        self.position = position
        self.source = FilesSource(
            FilesSourceSettings(path=str(path), **given),
            max_record_bytes=limit,
            clock=lambda: self.now,
        )
        self.source.open(Lane(position))

    def one(self) -> Chunk | None:
        chunk = self.source.poll(0)
        if chunk is not None:
            self.position = chunk.position
        return chunk

    def all(self) -> list[Chunk]:
        """Look at the files and return all that is there."""
        self.now += 1.0
        found = []
        while (chunk := self.one()) is not None:
            found.append(chunk)
        return found

    def numbers(self) -> list[int]:
        return numbers(self.all())

    def end(self) -> Position | None:
        self.source.close()
        return self.position


def numbers(chunks: list[Chunk]) -> list[int]:
    """The numbers of the records, in order; -1 for one that cannot be read."""
    found: list[int] = []
    for chunk in chunks:
        if isinstance(chunk.data, pa.Table):
            found += chunk.data["n"].to_pylist()
        elif chunk.kind is TableFormat.CSV:
            assert chunk.data.startswith(b"n,t\n")
            rows = chunk.data.removeprefix(b"n,t\n").split(b'"\n')
            found += [int(row.partition(b",")[0]) for row in rows if row]
        else:
            found += [number(line) for line in chunk.data.splitlines() if line.strip()]
    return found


def number(line: bytes) -> int:
    try:
        return int(json.loads(line)["n"])
    except ValueError:
        return -1


def read_all(path: Path | str, position: Position | None = None, **given: Any) -> list[Chunk]:
    reader = Reader(path, position, **given)
    chunks = reader.all()
    assert reader.source.drained
    reader.end()
    return chunks


def write_parquet(path: Path) -> None:
    pa.parquet.write_table(TABLE, path, row_group_size=25)


def write_arrow_stream(path: Path) -> None:
    with pa.ipc.new_stream(str(path), TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=25)


def write_arrow_file(path: Path) -> None:
    with pa.ipc.new_file(str(path), TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=25)


def write_zipped_stream(path: Path) -> None:
    write_arrow_stream(path)
    path.write_bytes(gzip.compress(path.read_bytes()))


def zstd(data: bytes) -> bytes:
    return pa.compress(data, codec="zstd", asbytes=True)


ARRAY = json.dumps([json.loads(line) for line in LINES], indent=1).encode()
WRITERS: dict[str, Callable[[Path], object]] = {
    "a.ndjson": lambda path: path.write_bytes(TEXT),
    "a.jsonl": lambda path: path.write_bytes(TEXT.rstrip()),
    "a.json": lambda path: path.write_bytes(ARRAY),
    "lines.json": lambda path: path.write_bytes(TEXT),
    "a.csv": lambda path: path.write_bytes(CSV),
    "a.parquet": write_parquet,
    "a.arrow": write_arrow_file,
    "a.arrows": write_arrow_stream,
    "a.arrows.gz": write_zipped_stream,
    "a.ndjson.gz": lambda path: path.write_bytes(gzip.compress(TEXT)),
    "two.ndjson.gz": lambda p: p.write_bytes(gzip.compress(TEXT[:500]) + gzip.compress(TEXT[500:])),
    "a.ndjson.zst": lambda path: path.write_bytes(zstd(TEXT)),
    "a.csv.zst": lambda path: path.write_bytes(zstd(CSV[:300]) + zstd(CSV[300:])),
    "a.json.bz2": lambda path: path.write_bytes(bz2.compress(ARRAY)),
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in small pieces, so that there are many positions."""
    monkeypatch.setattr("service.sources.inflate.CHUNK_BYTES", 64)
    monkeypatch.setattr("service.sources.inflate._ARROW_BYTES", 64)
    monkeypatch.setattr(readers, "ROWS", 7)


# --- Formats ---


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_every_format_is_read_by_its_extension(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    assert numbers(read_all(tmp_path / name)) == list(range(N))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", sorted(WRITERS))
def test_reading_goes_on_at_every_position(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    chunks = read_all(tmp_path / name)
    assert len(chunks) > 3
    for n, chunk in enumerate(chunks, start=1):
        rest = read_all(tmp_path / name, chunk.position)
        assert numbers(chunks[:n]) + numbers(rest) == list(range(N)), n


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", sorted(WRITERS))
def test_a_chunk_says_how_much_waits_behind_it(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    WRITERS[name](tmp_path / f"b{name}")
    waiting = [chunk.n_behind or 0 for chunk in read_all(tmp_path)]
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert waiting == sorted(waiting, reverse=True)
    assert size > waiting[0] >= waiting[-1] >= 0
    assert waiting[-1] < 0.2 * size


def test_the_format_may_be_given(tmp_path: Path) -> None:
    (tmp_path / "events.log").write_bytes(TEXT)
    assert numbers(read_all(tmp_path / "events.log", format="ndjson")) == list(range(N))


def test_gzip_is_known_without_its_extension(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_bytes(gzip.compress(TEXT))
    assert numbers(read_all(tmp_path / "a.ndjson")) == list(range(N))


def test_a_record_has_a_place(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_bytes(TEXT)
    write_parquet(tmp_path / "b.parquet")
    text, *tables = read_all(tmp_path)
    assert text.place(3, TEXT.index(b'{"n": 3')) == f"{tmp_path}/a.ndjson, line 4"
    assert tables[-1].place(2, 0).startswith(f"{tmp_path}/b.parquet, row ")
    assert text.lane == ""


def test_chunks_have_about_a_mebibyte(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_bytes(TEXT * 5000)
    chunks = read_all(tmp_path / "a.ndjson")
    assert b"".join(bytes(chunk.data) for chunk in chunks) == TEXT * 5000
    assert all(abs(len(chunk.data) - (1 << 20)) < 1000 for chunk in chunks[1:-1])


def test_a_gzip_bomb_is_inflated_in_bounded_pieces(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson.gz").write_bytes(gzip.compress(b"\0" * (64 << 20) + b"\n" + LINES[0]))
    long, good = read_all(tmp_path / "a.ndjson.gz")
    assert long.data == b"\0" * 1001
    assert good.data == LINES[0]


@given(
    st.lists(st.lists(st.integers(0, 99), max_size=12), min_size=1, max_size=4),
    st.lists(st.integers(1, 6), max_size=8),
    st.sampled_from([".ndjson", ".csv", ".json", ".ndjson.gz", ".ndjson.zst"]),
    st.integers(8, 200),
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_record_is_lost_or_given_twice_however_often_it_is_restarted(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    contents: list[list[int]],
    stops: list[int],
    extension: str,
    block: int,
) -> None:
    monkeypatch.setattr("service.sources.inflate.CHUNK_BYTES", block)
    directory = tmp_path_factory.mktemp("files")
    for i, values in enumerate(contents):
        lines = [b'{"n": %d}' % value for value in values]
        data = {
            ".csv": b"n,t\n" + b"".join(b'%d,"a\nb"\n' % value for value in values),
            ".json": b"[" + b",\n".join(lines) + b"]",
        }.get(extension, b"\n".join(lines))
        packed = {".gz": gzip.compress, ".zst": zstd}.get(Path(extension).suffix, bytes)(data)
        (directory / f"{i}{extension}").write_bytes(packed)
    seen: list[int] = []
    position: Position | None = None
    for n_chunks in stops:
        reader = Reader(directory, position)
        for _ in range(n_chunks):
            chunk = reader.one()
            seen += numbers([chunk] if chunk else [])
        position = reader.end()
    seen += numbers(read_all(directory, position))
    assert seen == [value for values in contents for value in values]


# --- Which files ---


def test_files_of_a_directory_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    for i, name in enumerate(("b.ndjson", "a.jsonl", "c.csv")):
        text = b'n,t\n%d,""\n' if name.endswith("csv") else b'{"n": %d}\n'
        (tmp_path / name).write_bytes(text % i)
    for name in (".hidden.ndjson", "notes.txt", "old.ndjson.1"):
        (tmp_path / name).write_bytes(b"no\n")
    (tmp_path / "sub.ndjson").mkdir()
    assert numbers(read_all(tmp_path)) == [1, 0, 2]


def test_a_glob_may_go_through_directories(tmp_path: Path) -> None:
    for i, name in enumerate(("x/a.log", "y/z/a.log", "a.log", "b.txt")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b'{"n": %d}\n' % i)
    assert numbers(read_all(f"{tmp_path}/**/*.log", format="ndjson")) == [2, 0, 1]


def test_a_file_whose_name_looks_like_a_pattern_is_meant_itself(tmp_path: Path) -> None:
    (tmp_path / "a[1].ndjson").write_bytes(LINES[1])
    (tmp_path / "a1.ndjson").write_bytes(LINES[2])
    assert numbers(read_all(tmp_path / "a[1].ndjson")) == [1]


def test_a_file_with_two_names_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_bytes(LINES[1])
    (tmp_path / "b.ndjson").symlink_to(tmp_path / "a.ndjson")
    os.link(tmp_path / "a.ndjson", tmp_path / "c.ndjson")
    assert numbers(read_all(tmp_path)) == [1]


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


def test_a_device_with_another_number_is_still_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_bytes(TEXT)
    position = read_all(tmp_path)[-1].position
    for stored in position["files"]:
        stored["device"] += 1
    assert numbers(read_all(tmp_path, position)) == []


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


@pytest.mark.parametrize("pattern", ["", "*.ndjson"])
def test_a_directory_or_glob_may_be_empty_for_now(tmp_path: Path, pattern: str) -> None:
    reader = Reader(tmp_path / pattern, follow=True)
    assert reader.source.ready
    (tmp_path / "b.ndjson").write_bytes(LINES[0])
    assert reader.numbers() == [0]
    (tmp_path / "a.ndjson").write_bytes(LINES[1])
    assert reader.numbers() == [1]
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
        ("a.ndjson.zst", "break off"),
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


@pytest.mark.parametrize("name", ["a.ndjson.gz", "a.csv.zst", "a.arrows"])
def test_what_is_before_the_damage_counts(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    WRITERS[name](tmp_path / name)
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-30])
    seen = numbers(read_all(tmp_path / name))
    assert seen == list(range(len(seen)))
    assert len(seen) < N
    assert f"{name}: " in caplog.text
    assert "it is left" in caplog.text


def test_all_lines_before_a_cut_in_gzip_are_given(tmp_path: Path) -> None:
    deflated = gzip.compress(os.urandom(50).hex().encode() + b"\n" + TEXT, compresslevel=0)
    (tmp_path / "a.ndjson.gz").write_bytes(deflated[:-500])
    seen = numbers(read_all(tmp_path / "a.ndjson.gz"))
    n_bytes = len(TEXT) - 500 + 8  # gzip ends with 8 bytes of its own
    assert seen == [-1, *range(TEXT[:n_bytes].count(b"\n"))]


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


# --- Following ---


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", sorted(WRITERS))
def test_followed_files_are_read_to_their_ends(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    reader = Reader(tmp_path / name, follow=True)
    n_records = N - 1 if name == "a.jsonl" else N  # its last line has no end
    assert reader.numbers() == list(range(n_records))
    assert reader.numbers() == []
    reader.end()


def test_what_is_appended_is_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    append(path, TEXT[:100])
    reader = Reader(path, follow=True)
    seen = reader.numbers()
    for start in range(100, len(TEXT), 37):
        append(path, TEXT[start : start + 37])
        seen += reader.numbers()
    assert seen == list(range(N))
    append(path, b'{"n": 100}')
    assert reader.numbers() == []
    append(path, b"\n")
    assert reader.numbers() == [100]
    reader.end()


@pytest.mark.parametrize("name", ["a.csv", "a.json", "a.ndjson.gz", "a.ndjson.zst", "a.arrows"])
def test_a_file_of_any_kind_may_grow(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / "whole")
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


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_a_table_that_is_being_written_is_waited_for(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    WRITERS[name](tmp_path / "whole")
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
    """Do as logrotate does."""
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


def test_the_old_file_is_followed_until_the_new_one_has_something(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    append(path, LINES[0])
    reader = Reader(path, follow=True)
    assert reader.numbers() == [0]
    rotate(path)
    assert reader.numbers() == []
    assert reader.source.ready
    path.touch()
    append(path.with_suffix(".ndjson.1"), LINES[1] + b'{"n": 2}')
    assert reader.numbers() == [1]
    append(path, LINES[3])
    assert reader.numbers() == [2, 3]  # a last line needs no line end when all is over
    append(path, LINES[4])
    assert reader.numbers() == [4]
    assert [file["path"] for file in (reader.end() or {})["files"]] == [str(path)]


def test_a_file_that_was_deleted_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    append(path, LINES[0])
    reader = Reader(path, follow=True)
    assert reader.numbers() == [0]
    with path.open("ab") as file:
        path.unlink()
        file.write(LINES[1])
        file.flush()
        assert reader.numbers() == [1]
        file.write(b'{"n": 2}')
    assert reader.numbers() == []
    reader.now += files.GRACE_SECONDS
    assert reader.numbers() == [2]
    reader.all()
    assert not reader.source.ready
    append(path, LINES[3])
    assert reader.numbers() == [3]
    reader.end()


def test_a_file_that_is_replaced_at_once_is_read_to_its_end_first(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    append(path, LINES[0])
    reader = Reader(path, follow=True)
    assert reader.numbers() == [0]
    append(path, LINES[1])
    append(tmp_path / "new", LINES[2])
    os.replace(tmp_path / "new", path)
    assert reader.numbers() == [1, 2]
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


def test_files_that_are_gone_are_forgotten_in_time(tmp_path: Path) -> None:
    reader = Reader(tmp_path, follow=True)
    for n in range(50):
        path = tmp_path / f"{n:03}.ndjson"
        append(path, LINES[n])
        assert reader.numbers() == [n]
        path.unlink()
        reader.now += catalog.FORGET_SECONDS
    assert len((reader.end() or {})["files"]) < 5


def test_a_directory_that_is_away_for_a_while_is_not_read_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    write_parquet(data / "a.parquet")
    append(data / "b.ndjson", LINES[5])
    reader = Reader(data, follow=True)
    assert reader.numbers() == [*range(N), 5]
    data.rename(tmp_path / "away")
    assert reader.numbers() == []
    (tmp_path / "away").rename(data)
    append(data / "b.ndjson", LINES[6])
    assert reader.numbers() == [6]
    reader.end()


def test_a_directory_that_cannot_be_listed_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_parquet(tmp_path / "a.parquet")
    reader = Reader(tmp_path, follow=True)
    assert reader.numbers() == list(range(N))

    def refuse(path: Any) -> Any:
        raise PermissionError(13, "Permission denied", path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refuse)
        reader.now += 2 * catalog.FORGET_SECONDS
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
    monkeypatch.setattr(catalog, "MAX_OPEN", 5)
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
        FilesSourceSettings(path=str(tmp_path / "a.ndjson"), follow=True, poll_seconds=100.0)
    )
    source.open(Lane())
    assert source.poll(1) is not None
    returned: list[Chunk | None] = []
    thread = threading.Thread(target=lambda: returned.append(source.poll(100)))
    thread.start()
    started = time.monotonic()
    source.close()
    thread.join(10)
    assert time.monotonic() - started < 5
    assert returned == [None]


def test_new_lines_come_within_the_poll_time(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    append(path, LINES[0])
    source = FilesSource(FilesSourceSettings(path=str(path), follow=True, poll_seconds=0.05))
    source.open(Lane())
    assert source.poll(1) is not None
    append(path, LINES[1])
    chunk = source.poll(10)
    assert chunk is not None
    assert chunk.data == LINES[1]
    source.release("", chunk.position)
    source.close()


@given(st.data())
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
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
