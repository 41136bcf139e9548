"""Files of every format, read by a source under a clock moved by hand."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from driftbn_service.settings import FilesSourceSettings
from driftbn_service.sources import files
from driftbn_service.sources.files import FilesSource
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.bombs import parquet_text, zeros
from tests.columns import file, parquet, stream
from tests.decoding import Chunk, Lane, Position, SourceError, TableFormat

N = 60
LINES = [b'{"n": %d, "t": "%s"}\n' % (n, b"x" * (n % 7)) for n in range(N)]
TEXT = b"".join(LINES)
CSV = b"n,t\n" + b"".join(b'%d,"a\n""b"\n' % n for n in range(N))
TABLE = pa.table({"n": list(range(N)), "t": pa.array(["a", "b"] * (N // 2)).dictionary_encode()})


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


def zstd(data: bytes) -> bytes:
    return pa.compress(data, codec="zstd", asbytes=True)


ARRAY = json.dumps([json.loads(line) for line in LINES], indent=1).encode()
FILES: dict[str, bytes] = {
    "a.ndjson": TEXT,
    "a.jsonl": TEXT.rstrip(),
    "a.json": ARRAY,
    "lines.json": TEXT,
    "a.csv": CSV,
    "a.parquet": parquet(TABLE, row_group_size=25),
    "a.arrow": file(TABLE, max_rows=25),
    "a.arrows": stream(TABLE, max_rows=25),
    "a.arrows.gz": gzip.compress(stream(TABLE, max_rows=25)),
    "a.ndjson.gz": gzip.compress(TEXT),
    "two.ndjson.gz": gzip.compress(TEXT[:500]) + gzip.compress(TEXT[500:]),
    "a.ndjson.zst": zstd(TEXT),
    "a.csv.zst": zstd(CSV[:300]) + zstd(CSV[300:]),
    "a.json.bz2": bz2.compress(ARRAY),
}
"""The same records in every format."""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in small pieces, so that there are many positions."""
    monkeypatch.setattr("driftbn_service.records.files.CHUNK_BYTES", 64)
    monkeypatch.setattr("driftbn_service.records.formats._BLOCK_BYTES", 64)
    monkeypatch.setattr("driftbn_service.records.files.ROWS", 7)


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


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
    append(path, LINES[2])
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


# --- Formats ---


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", sorted(FILES))
def test_every_format_is_read_and_a_chunk_says_how_much_waits_behind_it(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    (tmp_path / f"b{name}").write_bytes(FILES[name])
    chunks = read_all(tmp_path)
    assert numbers(chunks) == 2 * list(range(N))
    waiting = [chunk.n_behind or 0 for chunk in chunks]
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert waiting == sorted(waiting, reverse=True)
    assert size > waiting[0] >= waiting[-1] >= 0
    assert waiting[-1] < 0.2 * size


def test_a_record_has_a_place(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_bytes(TEXT)
    (tmp_path / "b.parquet").write_bytes(FILES["a.parquet"])
    text, *tables = read_all(tmp_path)
    assert text.place(3, TEXT.index(b'{"n": 3')) == f"{tmp_path}/a.ndjson, line 4"
    assert tables[-1].place(2, 0).startswith(f"{tmp_path}/b.parquet, row ")
    assert text.lane == ""


def test_chunks_have_about_a_mebibyte(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_bytes(TEXT * 5000)
    chunks = read_all(tmp_path / "a.ndjson")
    assert b"".join(bytes(chunk.data) for chunk in chunks) == TEXT * 5000
    assert all(abs(len(chunk.data) - (1 << 20)) < 1000 for chunk in chunks[1:-1])


@pytest.mark.slow
def test_a_gzip_bomb_is_inflated_in_bounded_pieces(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson.gz").write_bytes(gzip.compress(b"\0" * (64 << 20) + b"\n" + LINES[0]))
    long, good = read_all(tmp_path / "a.ndjson.gz")
    assert long.data == b"\0" * 1001
    assert good.data == LINES[0]


@pytest.mark.slow
@given(
    st.lists(st.lists(st.integers(0, 99), max_size=12), min_size=1, max_size=4),
    st.lists(st.integers(1, 6), max_size=8),
    st.sampled_from([".ndjson", ".csv", ".json", ".ndjson.gz", ".ndjson.zst"]),
    st.integers(8, 200),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_record_is_lost_or_given_twice_however_often_it_is_restarted(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    contents: list[list[int]],
    stops: list[int],
    extension: str,
    block: int,
) -> None:
    monkeypatch.setattr("driftbn_service.records.files.CHUNK_BYTES", block)
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


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("a.arrow", stream(zeros(1, 2000), "zstd"), "an Arrow message would take 16000 bytes"),
        ("b.arrow", file(zeros(1, 2000), "zstd"), "an Arrow message would take 16000 bytes"),
        ("c.parquet", parquet(zeros(1, 2000), use_dictionary=False), "the pages of a row group"),
    ],
)
def test_what_would_take_too_much_memory_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes, problem: str
) -> None:
    (tmp_path / name).write_bytes(data)
    assert sum(chunk.data.num_rows for chunk in read_all(tmp_path / name)) == 2000
    monkeypatch.setattr("driftbn_service.records.files.MAX_MEMORY_BYTES", 10_000)
    with pytest.raises(SourceError, match=problem):
        read_all(tmp_path / name)


@pytest.mark.slow
def test_rows_that_share_a_long_value_are_read_few_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(parquet_text(pa.binary(1 << 20), 100, 1 << 20))
    sizes = [chunk.data.num_rows for chunk in read_all(tmp_path / "a.parquet")]
    assert sum(sizes) == 100
    assert max(sizes) <= 16


# --- Following ---


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
    data, path = FILES[name], tmp_path / name
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
    data = FILES[name]
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
        FilesSourceSettings(path=str(tmp_path / "a.ndjson"), follow=True, poll_seconds=3600.0),
        max_record_bytes=1000,
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
