from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.bombs import parquet_text, zeros
from tests.columns import file, parquet, stream
from tests.decoding import Position, SourceError
from tests.source_files import (
    FILES,
    LINES,
    TEXT,
    N,
    Reader,
    numbers,
    read_all,
    read_small_pieces,
    zstd,
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    read_small_pieces(monkeypatch)


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_format_is_read_by_its_extension(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    assert numbers(read_all(tmp_path / name)) == list(range(N))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", sorted(FILES))
def test_a_chunk_says_how_much_waits_behind_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    (tmp_path / f"b{name}").write_bytes(FILES[name])
    waiting = [chunk.n_behind or 0 for chunk in read_all(tmp_path)]
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
