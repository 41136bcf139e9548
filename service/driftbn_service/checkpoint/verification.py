"""Whether a manifest and the states it names are what was written."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from driftbn_service.checkpoint.layout import manifest_path
from driftbn_service.checkpoint.manifest import Manifest, Place
from driftbn_service.checkpoint.segments import reader_of, unreadable


def read_manifest(directory: Path, number: int) -> Manifest:
    """Read a manifest and check it, but not the states that it names.

    Raises
    ------
    CheckpointError
        If it is damaged, of a later version or cannot be read.
    """
    path = manifest_path(directory, number)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error
    return Manifest.from_bytes(data, path)


def check_states(directory: Path, manifest: Manifest, *, checksums: bool = True) -> None:
    """Make sure that the states of a manifest are there.

    Parameters
    ----------
    directory
        Where it is.
    manifest
        Names the states.
    checksums
        Whether to read all of them, or only to look whether files are long enough.

    Raises
    ------
    CheckpointError
        If one is not.
    """
    by_segment: defaultdict[int, list[Place]] = defaultdict(list)
    for place in manifest.places.values():
        by_segment[place.segment].append(place)
    for segment, places in sorted(by_segment.items()):
        with reader_of(directory, segment) as reader:
            reader.check_length(places)
            for place in sorted(places) if checksums else ():
                reader.read(place)
