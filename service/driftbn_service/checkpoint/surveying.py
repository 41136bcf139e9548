"""A look at the checkpoints of a lane, without a lock and without changing anything."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftbn_service.checkpoint.errors import CheckpointError
from driftbn_service.checkpoint.layout import (
    CORRUPT,
    corrupt_numbers,
    manifest_numbers,
    manifest_path,
)
from driftbn_service.checkpoint.verification import check_states, read_manifest


@dataclass(frozen=True)
class ManifestSurvey:
    """What there is to say of one manifest.

    Parameters
    ----------
    path
        Its file.
    number
        Running number.
    n_bytes
        Size of the file.
    problem
        What is wrong with it; ``None`` if it is good.
    set_aside
        Whether a start has found it damaged and gone back to the one before.
    time
        Seconds since the epoch when it was made; ``None`` like the rest if it cannot be read.
    n_keys, state_bytes
        States that it names, and how much room they take.
    meta
        What else it says: the position in the source and more.
    """

    path: Path
    number: int
    n_bytes: int
    problem: str | None = None
    set_aside: bool = False
    time: float | None = None
    n_keys: int | None = None
    state_bytes: int | None = None
    meta: dict[str, Any] | None = None

    @property
    def position(self) -> Any:
        """Where the source goes on."""
        return None if self.meta is None else self.meta.get("position")


def survey(directory: Path, *, checksums: bool) -> tuple[ManifestSurvey, ...]:
    """Look at every manifest of a lane's directory, the oldest first.

    A process may use the directory meanwhile: manifests that it deletes are left out.

    Parameters
    ----------
    directory
        The lane's.
    checksums
        Whether to read every state, or only to look whether it can be there.
    """
    looked_at = (_look(directory, n, checksums) for n in manifest_numbers(directory))
    found = [one for one in looked_at if one is not None]
    for number in corrupt_numbers(directory):
        path = manifest_path(directory, number)
        path = path.with_name(path.name + CORRUPT)
        size = path.stat().st_size
        found.append(ManifestSurvey(path, number, size, "it was set aside", set_aside=True))
    return tuple(sorted(found, key=lambda one: one.number))


def _look(directory: Path, number: int, checksums: bool) -> ManifestSurvey | None:
    path = manifest_path(directory, number)
    manifest = problem = None
    size = 0
    try:
        size = path.stat().st_size
        manifest = read_manifest(directory, number)
        check_states(directory, manifest, checksums=checksums)
    except FileNotFoundError:
        return None
    except CheckpointError as error:
        if not path.exists():
            return None
        problem = error.problem if error.path == path else str(error)
    if manifest is None:
        return ManifestSurvey(path, number, size, problem)
    return ManifestSurvey(
        path=path,
        number=number,
        n_bytes=size,
        problem=problem,
        time=manifest.time,
        n_keys=len(manifest.places),
        state_bytes=sum(place.length for place in manifest.places.values()),
        meta=json.loads(manifest.meta),
    )
