"""Which files there are: lanes under a state directory, manifests and segments in a lane."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

LANES: Final = "lanes"
MAIN: Final = "main"
"""Directory of the lane of a stream that has only one."""
LOCK: Final = "lock"
CORRUPT: Final = ".corrupt"
"""Ends the name of a manifest that was set aside."""

_MANIFEST: Final = re.compile(r"manifest-(\d{12,})")
_SEGMENT: Final = re.compile(r"segment-(\d{12,})")


def lane_directory(state_dir: Path, stream: str, lane: str) -> Path:
    """Return where a lane has its checkpoints.

    Examples
    --------
    >>> lane_directory(Path("state"), "orders", "").as_posix()
    'state/lanes/orders/main'
    """
    return state_dir / LANES / stream / (lane or MAIN)


def lane_directories(path: Path) -> tuple[Path, ...]:
    """Return the directories of all lanes of a state directory, or the lane's directory itself."""
    lanes = path / LANES
    if lanes.is_dir():
        found = (lane for stream in lanes.iterdir() if stream.is_dir() for lane in stream.iterdir())
        return tuple(sorted(lane for lane in found if lane.is_dir()))
    is_lane = path.is_dir() and ((path / LOCK).exists() or bool(manifest_numbers(path)))
    return (path,) if is_lane else ()


def manifest_path(directory: Path, number: int) -> Path:
    """Return the file of a manifest."""
    return directory / f"manifest-{number:012d}"


def segment_path(directory: Path, number: int) -> Path:
    """Return the file of a segment."""
    return directory / f"segment-{number:012d}"


def manifest_numbers(directory: Path) -> list[int]:
    """Return the numbers of the manifests in a directory, in rising order."""
    return _numbers(directory, _MANIFEST, "")


def corrupt_numbers(directory: Path) -> list[int]:
    """Return the numbers of the manifests that were set aside, in rising order."""
    return _numbers(directory, _MANIFEST, CORRUPT)


def segment_numbers(directory: Path) -> list[int]:
    """Return the numbers of the segments in a directory, in rising order."""
    return _numbers(directory, _SEGMENT, "")


def _numbers(directory: Path, pattern: re.Pattern[str], suffix: str) -> list[int]:
    names = (item.name for item in directory.iterdir() if item.name.endswith(suffix))
    matches = (pattern.fullmatch(name.removesuffix(suffix)) for name in names)
    return sorted(int(match[1]) for match in matches if match)
