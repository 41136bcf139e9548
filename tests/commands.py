"""Commands as they are called in a shell, and the tables they read."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def edges(self) -> list[str]:
        return [line for line in self.out.splitlines() if " -> " in line or " - " in line]

    @property
    def windows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def levels(self) -> list[str]:
        """The levels in the lines of the windows."""
        words = [line.split() for line in self.out.splitlines()]
        return [word[2] for word in words if len(word) == 6 and word[0].isdigit()]


Run = Callable[..., Ran]


class Terminal(io.TextIOWrapper):
    """A standard stream that is a terminal, or is none."""

    def __init__(self, is_one: bool = True) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)
        self._is_one = is_one

    def isatty(self) -> bool:
        return self._is_one

    @property
    def written(self) -> str:
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode()


def failed(ran: Ran, code: int, *words: str) -> None:
    """See that a command has failed in one line that has these words."""
    assert ran.code == code, ran.err
    assert ran.err.startswith("driftbn: error: ")
    assert ran.err.count("\n") == 1
    for word in words:
        assert word in ran.err


def feed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def written(path: Path, frame: pd.DataFrame) -> Path:
    content = pa.Table.from_pandas(frame, preserve_index=False)
    match path.suffix:
        case ".csv" | ".gz":
            frame.to_csv(path, index=False)
        case ".ndjson" | ".jsonl":
            frame.to_json(path, orient="records", lines=True)
        case ".json":
            frame.to_json(path, orient="records")
        case ".parquet":
            frame.to_parquet(path)
        case ".feather":
            pyarrow.feather.write_feather(content, path)
        case ".arrow" | ".arrows":
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, content.schema) as to:
                to.write_table(content, max_chunksize=700)
    return path
