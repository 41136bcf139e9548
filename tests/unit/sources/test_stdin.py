from __future__ import annotations

import os
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import pytest
from driftbn_service.settings import StdinSourceSettings
from driftbn_service.sources.stdin import StdinSource
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decoding import Chunk, Lane, Position, SourceError, TableFormat

LINES = [b'{"n": %d}\n' % n for n in range(50)]


class Pipe:
    def __init__(self, position: Position | None = None, limit: int = 1000, **given: Any) -> None:
        read, self.write_end = os.pipe()
        self.file: BinaryIO = os.fdopen(read, "rb")
        self.source = StdinSource(StdinSourceSettings(**given), self.file, max_record_bytes=limit)
        self.source.open(Lane(position))

    def write(self, data: bytes) -> None:
        os.write(self.write_end, data)

    def end(self) -> None:
        os.close(self.write_end)
        self.write_end = -1

    def rest(self) -> list[Chunk]:
        found = []
        while not self.source.drained:
            chunk = self.source.poll(5)
            if chunk is not None:
                found.append(chunk)
        return found

    def close(self) -> None:
        self.source.close()
        self.file.close()
        if self.write_end >= 0:
            self.end()


@pytest.fixture
def pipes() -> Iterator[list[Pipe]]:
    made: list[Pipe] = []
    yield made
    for pipe in made:
        pipe.close()


def rest_of(data: bytes, position: Position | None = None, **given: Any) -> list[Chunk]:
    """Feed all at once and read it to the end."""
    pipe = Pipe(position, **given)
    writer = threading.Thread(target=lambda: (_write_all(pipe, data), pipe.end()))
    writer.start()
    try:
        return pipe.rest()
    finally:
        writer.join()
        pipe.close()


def _write_all(pipe: Pipe, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(pipe.write_end, data) :]
    except BrokenPipeError:
        pass


def records(chunks: list[Chunk], header: bytes = b"") -> bytes:
    assert all(bytes(chunk.data).startswith(header) for chunk in chunks)
    return b"".join(bytes(chunk.data)[len(header) :] for chunk in chunks)


def test_what_is_there_is_given_at_once_and_no_part_of_a_line(pipes: list[Pipe]) -> None:
    pipes.append(pipe := Pipe())
    pipe.write(b'{"a": 1}\n{"a"')
    chunk = pipe.source.poll(5)
    assert chunk is not None
    assert chunk.data == b'{"a": 1}\n'
    assert chunk.kind is TableFormat.NDJSON
    assert chunk.position == {"bytes": 9, "lines": 1}
    pipe.write(b": 2}\n")
    second = pipe.source.poll(5)
    assert second is not None
    assert second.data == b'{"a": 2}\n'
    assert second.place(0, 0) == "standard input, line 2"
    assert pipe.source.ready


def test_a_poll_ends_in_time(pipes: list[Pipe]) -> None:
    pipes.append(pipe := Pipe())
    pipe.write(b'{"a"')
    started = time.monotonic()
    assert pipe.source.poll(0.05) is None
    assert pipe.source.poll(0) is None
    assert time.monotonic() - started > 0.04
    assert not pipe.source.drained


def test_a_poll_ends_in_time_while_something_endless_comes(pipes: list[Pipe]) -> None:
    pipes.append(pipe := Pipe(limit=10))
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            _write_all(pipe, b"x" * 65536)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert pipe.source.poll(0.2) is None
    finally:
        stop.set()
        pipe.file.close()
        writer.join()


def test_chunks_have_about_a_mebibyte() -> None:
    data = b"".join(LINES) * 8000
    chunks = rest_of(data)
    assert records(chunks) == data
    assert all(len(chunk.data) <= (1 << 20) + 1000 for chunk in chunks)
    assert len(chunks) < 3 * len(data) / (1 << 16)


@pytest.mark.slow
def test_a_line_of_100_megabytes_is_cut_off_and_passed_over() -> None:
    long = b'{"a": "' + b"x" * 100_000_000 + b'"}\n'
    chunks = rest_of(LINES[0] + long + LINES[1])
    assert [chunk.data for chunk in chunks] == [LINES[0], long[:1001], LINES[1]]
    assert chunks[1].position["bytes"] == len(LINES[0] + long)
    assert chunks[2].place(0, 0) == "standard input, line 3"


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=20),
    st.lists(st.integers(0, 49), max_size=5).map(sorted),
)
@settings(max_examples=30)
def test_no_record_is_lost_or_given_twice_however_often_it_is_restarted(
    sizes: list[int], stops: list[int]
) -> None:
    data, seen, position = b"".join(LINES), b"", None
    for n_chunks in [*stops, 1000]:
        pipe = Pipe(position, skip_seen=True)
        start = turn = 0
        while n_chunks and start < len(data):
            size = sizes[turn % len(sizes)]
            pipe.write(data[start : start + size])
            start, turn = start + size, turn + 1
            while n_chunks and (chunk := pipe.source.poll(0)) is not None:
                seen, position, n_chunks = seen + chunk.data, chunk.position, n_chunks - 1
        pipe.close()
    assert seen == data


def test_another_input_is_refused_where_the_same_was_promised() -> None:
    position = rest_of(b"".join(LINES), skip_seen=True)[-1].position
    changed = b"".join(LINES).replace(b"3", b"4", 1)
    with pytest.raises(SourceError, match=r"differs before byte \d+.*skip_seen = false") as caught:
        rest_of(changed + b"more\n", position, skip_seen=True)
    assert caught.value.fatal
    with pytest.raises(SourceError, match=r"ends 10 bytes before"):
        rest_of(b"".join(LINES)[:-10], position, skip_seen=True)


def test_what_had_no_checksum_is_passed_over_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    data = b"".join(LINES)
    position = rest_of(data[: len(LINES[0])])[-1].position
    chunks = rest_of(data, position, skip_seen=True)
    assert records(chunks) == data[len(LINES[0]) :]
    assert "not checked" in caplog.text
    assert chunks[-1].position["crc"] == zlib.crc32(data)


def test_a_regular_file_may_be_standard_input(tmp_path: Any) -> None:
    path = tmp_path / "in.ndjson"
    path.write_bytes(b"".join(LINES))
    with path.open("rb") as file:
        source = StdinSource(StdinSourceSettings(), file, max_record_bytes=1000)
        source.open(Lane())
        chunk = source.poll(0)
        assert chunk is not None
        assert chunk.data == b"".join(LINES)
        assert source.poll(0) is None
        assert source.drained
        source.release("", chunk.position)


def test_a_missing_standard_input_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SourceError, match="standard input: it is closed; pipe records") as caught:
        StdinSource(StdinSourceSettings(), max_record_bytes=1000).open(Lane())
    assert caught.value.fatal


def test_a_header_that_is_too_long_ends_the_stream() -> None:
    with pytest.raises(SourceError, match="is it CSV"):
        rest_of(b"x" * 5000, format="csv")
