"""The least that a daemon does with a source: keep what was read and where, together, on disk."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

from driftbn_service.sources.base import Chunk, Position, RecordSource

N_KEPT = 3


class Keeper:
    """Keeps the records of every lane with the position after them, in the newest few files."""

    def __init__(self, directory: Path, source: RecordSource) -> None:
        self.directory = directory
        self.source = source
        self.lanes: dict[str, dict[str, Any]] = {}
        self._unwritten: set[str] = set()

    def opened(self, lane: str) -> Position | None:
        """Go on from the newest file of a lane."""
        files = kept(self.directory, lane)
        empty: dict[str, Any] = {"position": None, "seen": []}
        self.lanes[lane] = json.loads(files[-1].read_text()) if files else empty
        position: Position | None = self.lanes[lane]["position"]
        return position

    def closed(self, lane: str) -> None:
        self.commit(lane)
        del self.lanes[lane]

    def take(self, chunk: Chunk) -> None:
        """Take in the numbers of records; it is a mistake of the source if the lane is not open."""
        state = self.lanes[chunk.lane]
        assert isinstance(chunk.data, bytes)
        lines = (line for line in chunk.data.split(b"\n") if line.strip())
        state["seen"].extend(json.loads(line)["i"] for line in lines)
        state["position"] = chunk.position

    def commit(self, lane: str) -> None:
        """Write a new file, forget the oldest, and release what nobody goes back behind."""
        files = kept(self.directory, lane)
        number = int(files[-1].stem) + 1 if files else 0
        path = self.directory / f"lane-{lane}" / f"{number:08d}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".new")
        with unfinished.open("w") as file:
            json.dump(self.lanes[lane], file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(path)
        self._unwritten.discard(lane)
        for old in [*files, path][:-N_KEPT]:
            old.unlink()
        oldest = json.loads(kept(self.directory, lane)[0].read_text())["position"]
        if oldest is not None:
            self.source.release(lane, oldest)

    def run_once(self, timeout: float, commits: random.Random) -> bool:
        """Poll once, and write a file now and then; say whether a chunk came."""
        chunk = self.source.poll(timeout)
        if chunk is not None:
            self.take(chunk)
            self._unwritten.add(chunk.lane)
        for lane in sorted(self._unwritten):
            # Not after each, so that what a kill takes back is more than one piece.
            if chunk is None or commits.random() < 0.4:
                self.commit(lane)
        return chunk is not None


def kept(directory: Path, lane: str) -> list[Path]:
    """Return the files of a lane, the oldest first."""
    return sorted((directory / f"lane-{lane}").glob("*.json"))


def seen(directory: Path, lane: str) -> list[int]:
    """Return the numbers of the records in the newest file of a lane."""
    files = kept(directory, lane)
    numbers: list[int] = json.loads(files[-1].read_text())["seen"] if files else []
    return numbers
