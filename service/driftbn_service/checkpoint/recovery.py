"""Which checkpoint to go on from after whatever has happened."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from driftbn_service.checkpoint.errors import CheckpointError, DamagedError
from driftbn_service.checkpoint.files import TEMPORARY, sync_directory
from driftbn_service.checkpoint.layout import (
    CORRUPT,
    corrupt_numbers,
    manifest_numbers,
    manifest_path,
    segment_numbers,
    segment_path,
)
from driftbn_service.checkpoint.manifest import Manifest
from driftbn_service.checkpoint.verification import check_states, read_manifest

logger = logging.getLogger("driftbn.service.checkpoint")


@dataclass(frozen=True)
class Recovered:
    """What a directory holds that is good.

    Parameters
    ----------
    manifests
        The good ones, the oldest first; of all but the last only the manifest itself was checked.
    n_damaged
        Manifests that were set aside now.
    last_number
        Of any manifest that was ever seen here.
    segments
        Numbers of the segments that are there, all of them named by a manifest.
    """

    manifests: tuple[Manifest, ...] = ()
    n_damaged: int = 0
    last_number: int = 0
    segments: tuple[int, ...] = ()


def recover(directory: Path) -> Recovered:
    """Find the newest good checkpoint, set damaged ones aside and remove leftovers.

    If there are checkpoints and none is good, nothing is touched.

    Raises
    ------
    CheckpointError
        If there are checkpoints and none is good, or a later driftbn wrote one.
    """
    good: list[Manifest] = []
    damage: dict[int, str] = {}
    numbers, set_aside = manifest_numbers(directory), corrupt_numbers(directory)
    for number in reversed(numbers):
        try:
            manifest = read_manifest(directory, number)
            if not good:
                check_states(directory, manifest)
        except DamagedError as error:
            damage[number] = str(error)
        else:
            good.insert(0, manifest)
    if not good and (damage or set_aside):
        raise _hopeless(directory, damage, set_aside)
    _set_aside(directory, damage)
    segments = _without_leftovers(directory, frozenset().union(*(one.segments for one in good)))
    return Recovered(tuple(good), len(damage), max((*numbers, *set_aside), default=0), segments)


def _hopeless(directory: Path, damage: dict[int, str], set_aside: list[int]) -> CheckpointError:
    reasons = [*damage.values(), *(f"manifest {n} was set aside" for n in set_aside)]
    return CheckpointError(
        directory,
        f"no checkpoint can be used ({'; '.join(reasons)}): bring the directory back from a copy,"
        " or move it away to begin anew, with windows counted from 0",
    )


def _set_aside(directory: Path, damage: dict[int, str]) -> None:
    for number, reason in damage.items():
        path = manifest_path(directory, number)
        aside = path.with_name(path.name + CORRUPT)
        logger.error(
            "a checkpoint is damaged and an earlier one is used; it is kept as %s: %s",
            aside.name,
            reason,
        )
        path.rename(aside)
    if damage:
        sync_directory(directory)


def _without_leftovers(directory: Path, named: frozenset[int]) -> tuple[int, ...]:
    """Remove what a crash has left: files half written and segments that nobody names."""
    for path in directory.glob(f"*{TEMPORARY}"):
        path.unlink()
    numbers = segment_numbers(directory)
    for number in numbers:
        if number not in named:
            segment_path(directory, number).unlink()
    return tuple(number for number in numbers if number in named)
