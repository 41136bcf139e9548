"""Files of every format, and a source that reads them under a clock moved by hand."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from driftbn_service.records.formats import TableFormat
from driftbn_service.settings import FilesSourceSettings
from driftbn_service.sources.base import Chunk, Position
from driftbn_service.sources.files import FilesSource

from tests.columns import file, parquet, stream
from tests.decoding import Lane

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


def read_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in small pieces, so that there are many positions."""
    monkeypatch.setattr("driftbn_service.records.files.CHUNK_BYTES", 64)
    monkeypatch.setattr("driftbn_service.records.formats._BLOCK_BYTES", 64)
    monkeypatch.setattr("driftbn_service.records.files.ROWS", 7)
