"""Settings as TOML, with secrets hidden and a note where each came from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any, Final

from pydantic import SecretStr

from driftbn_service.settings.base import Section
from driftbn_service.settings.loading import LoadedSettings
from driftbn_service.settings.secrets import HIDDEN, is_secret, without_password
from driftbn_service.settings.structure import TABLES, Place, fields_of

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


def settings_toml(loaded: LoadedSettings) -> str:
    """Return the settings in force, defaults included, as TOML.

    What is not set is left out; a secret is a comment that says so. Without secrets the text is a
    settings file that comes to the same.

    Examples
    --------
    >>> from driftbn_service.settings.loading import read_settings
    >>> environ = {"DRIFTBN__SERVICE__STATE_DIR": "state", "DRIFTBN__MONITORS__0__NAME": "orders"}
    >>> loaded = read_settings(None, environ, {"monitors.0.source.kind": "stdin"})
    >>> print("".join(settings_toml(loaded).splitlines(keepends=True)[2:6]), end="")
    <BLANKLINE>
    [service]
    state_dir = "state"  # DRIFTBN__SERVICE__STATE_DIR
    exit_when_drained = false
    """
    head = (
        f"# Settings in force, from {loaded.name} and what stands at the end of a line.",
        "# A line without a note is a default.",
    )
    return "".join(f"{line}\n" for line in (*head, *_table(loaded, loaded.settings, ())))


def _table(loaded: LoadedSettings, section: Section, place: Place) -> Iterator[str]:
    items = list(zip(fields_of(section), dict(section).values(), strict=True))
    for key, value in items:
        if not _is_table(value) and key not in TABLES:
            yield from _line(loaded, section, (*place, key), value)
    for key, value in items:
        here = (*place, key)
        name = ".".join(str(step) for step in here if isinstance(step, str))
        if isinstance(value, Section):
            yield from ("", f"[{name}]")
            yield from _table(loaded, value, here)
        elif _is_table(value):
            for number, table in enumerate(value):
                yield from ("", f"[[{name}]]")
                yield from _table(loaded, table, (*here, number))


def _is_table(value: Any) -> bool:
    return isinstance(value, Section) or (
        isinstance(value, tuple) and bool(value) and isinstance(value[0], Section)
    )


def _line(loaded: LoadedSettings, section: Section, place: Place, value: Any) -> Iterator[str]:
    key = str(place[-1])
    note = _note(loaded, place)
    if isinstance(value, SecretStr):
        if getattr(section, f"{key}_file") is None:
            yield f"# {key} is set and not shown{note}"
    elif value is not None:
        yield f"{key} = {toml(value)}{note}"


def _note(loaded: LoadedSettings, place: Place) -> str:
    if place[-2:] == ("window", "size") and place[:-1] in loaded.origins:
        place = place[:-1]  # a window given as a number
    origins = (origin for leaf, origin in loaded.origins.items() if leaf[: len(place)] == place)
    first = next(origins, None)
    return "" if first is None else f"  # {first}"


def toml(value: Any) -> str:
    r"""Return a value as TOML, with passwords in it hidden.

    Examples
    --------
    >>> toml(("a", 1, True, 0.5)), toml("redis://user:secret@host")
    ('["a", 1, true, 0.5]', '"redis://user:***@host"')
    >>> toml({"sasl.password": "secret", "acks": "all"})
    '{"sasl.password" = "***", acks = "all"}'
    """
    if isinstance(value, Enum):
        return toml(value.value)
    if isinstance(value, str | PurePath):
        shown = json.dumps(without_password(str(value)), ensure_ascii=False)
        return shown.replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        pairs = (f"{_key(key)} = {_masked(key, item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else toml(key)


def _masked(key: str, value: object) -> str:
    return toml(HIDDEN if is_secret(key) else value)
