"""Which keys there are at a place of the settings."""

from __future__ import annotations

from typing import Any, TypeAlias, get_args

from pydantic.fields import FieldInfo

from driftbn_service.settings.base import Section
from driftbn_service.settings.model import Settings

Place: TypeAlias = tuple[str | int, ...]
"""Keys and numbers that lead to a setting, as in the settings file."""

TABLES = ("monitors", "outlets")
"""Settings that are lists of named tables."""


def place_of(location: Place) -> Place:
    """Return a location of pydantic without the kinds of sources and outlets that it puts in.

    Examples
    --------
    >>> place_of(("monitors", 0, "source", "files", "path"))
    ('monitors', 0, 'source', 'path')
    """
    return tuple(step for i, step in enumerate(location) if not _is_kind(location[:i]))


def _is_kind(before: Place) -> bool:
    return (len(before) == 2 and before[0] == "outlets") or (
        len(before) == 3 and before[0] == "monitors" and before[2] == "source"
    )


def keys_at(location: Place, *, kinds: bool = False) -> list[str]:
    """Return the keys of the table at a location, or the kinds that it may be of."""
    sections = _sections_at(location)
    if kinds:
        return [section.model_fields["kind"].default for section in sections]
    return [key for section in sections[:1] for key in fields_of(section)]


def field_at(location: Place) -> FieldInfo | None:
    """Return the field at a location, or ``None`` if it is an item of a list."""
    for section in _sections_at(location[:-1]):
        return fields_of(section).get(str(location[-1]))
    return None


def fields_of(section: type[Section] | Section) -> dict[str, FieldInfo]:
    """Return the fields of a table by the keys that a settings file has."""
    kind = section if isinstance(section, type) else type(section)
    return {field.alias or name: field for name, field in kind.model_fields.items()}


def _sections_at(location: Place) -> list[type[Section]]:
    found: list[type[Section]] = [Settings]
    for i, step in enumerate(location):
        if isinstance(step, int):
            continue
        if _is_kind(location[:i]):
            found = [one for one in found if one.model_fields["kind"].default == step]
        else:
            field = fields_of(found[0]).get(step) if found else None
            found = [] if field is None else _sections_in(field.annotation)
    return found


def _sections_in(annotation: Any) -> list[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [section for part in get_args(annotation) for section in _sections_in(part)]
