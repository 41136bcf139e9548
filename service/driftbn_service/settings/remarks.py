"""What is allowed in settings and still worth a warning."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from driftbn_service.settings.base import Section
from driftbn_service.settings.errors import path_text
from driftbn_service.settings.model import Settings
from driftbn_service.settings.structure import Place, fields_of


def remarks(settings: Settings) -> tuple[str, ...]:
    """Return warnings of secrets that anyone can read."""
    found = []
    for place, value in walk(settings, ()):
        if str(place[-1]).endswith("_file") and isinstance(value, Path) and _open_to_all(value):
            found.append(f"{path_text(place)}: anyone can read {value}; chmod o-r it")
    return tuple(found)


def walk(section: Section, place: Place) -> Iterator[tuple[Place, object]]:
    """Return each value of the settings with its place; tables after what stands before them."""
    for key, value in zip(fields_of(section), dict(section).values(), strict=True):
        here = (*place, key)
        if isinstance(value, Section):
            yield from walk(value, here)
        elif isinstance(value, tuple) and value and isinstance(value[0], Section):
            for number, table in enumerate(value):
                yield from walk(table, (*here, number))
        else:
            yield here, value


def _open_to_all(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & stat.S_IROTH)
    except OSError:  # gone since it was read: nobody can read it any more
        return False
