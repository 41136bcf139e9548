"""From a file and the environment to checked settings, and back to TOML.

A variable ``DRIFTBN__STREAMS__orders__WINDOW=1000`` overrides the file. Each setting remembers who
gave it, so that a mistake is blamed on the file or on the variable, and ``check --print`` can say
where a value comes from.
"""

from __future__ import annotations

import copy
import datetime
import json
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass
from enum import Enum
from pathlib import Path, PurePath
from typing import Any, Final, TypeAlias

from pydantic import SecretStr, ValidationError

from driftbn.errors import ConfigError
from driftbn_service.settings import SECRETS, Section, Settings, duplicates, settable
from driftbn_service.settings.errors import (
    HIDDEN,
    Place,
    Problem,
    SettingsError,
    path_text,
    problems_of,
    refused,
    takes_text,
    without_password,
)

CONFIG_VARIABLE: Final = "DRIFTBN_CONFIG"
"""The variable that names the settings file where the command line does not."""
PREFIX: Final = "DRIFTBN__"
"""How the variables begin that are settings; ``__`` also parts their steps."""
TABLES: Final = ("streams", "outlets")
"""Settings that are lists of named tables."""
MAX_FILE_BYTES: Final = 16 * 1024 * 1024
"""A larger file holds data, not settings."""

Tree: TypeAlias = dict[str, Any]
"""Settings as read from TOML."""

_HOW_TO_BEGIN: Final = (
    f"name a file with --config FILE or in {CONFIG_VARIABLE}; 'driftbn init' writes one to begin"
    " with"
)
_SECRET_KEY: Final = re.compile(r"pass|secret|token|auth|cookie|credential|key|pem", re.I)
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class LoadedSettings:
    """Settings, and where they came from."""

    settings: Settings
    name: str  # the settings file, or ``environment`` if there is none
    origins: Mapping[Place, str] = field(default_factory=dict)  # what gave each that is no default


def settings_path(given: str | None, environ: Mapping[str, str]) -> Path | None:
    """Return the settings file: as given, or as the variable says, or none.

    >>> settings_path(None, {"DRIFTBN_CONFIG": "driftbn.toml"}).name
    'driftbn.toml'
    """
    named = given if given is not None else environ.get(CONFIG_VARIABLE)
    return Path(named) if named else None


def load_settings(path: Path | None, environ: Mapping[str, str]) -> Settings:
    """Return the settings of a file, changed by the variables ``DRIFTBN__SECTION__KEY``.

    Relative paths in either are relative to the directory of the file; without a file, to the
    working directory. Raises ``SettingsError``, which says all that is wrong.

    >>> environ = {
    ...     "DRIFTBN__SERVICE__STATE_DIR": "state",
    ...     "DRIFTBN__STREAMS__0__NAME": "orders",
    ...     "DRIFTBN__STREAMS__orders__WINDOW": "1000",
    ...     "DRIFTBN__STREAMS__orders__SOURCE__KIND": "stdin",
    ... }
    >>> load_settings(None, environ).streams[0].monitor.windows.size
    1000
    """
    return read_settings(path, environ).settings


def read_settings(path: Path | None, environ: Mapping[str, str]) -> LoadedSettings:
    """Do the same as ``load_settings`` and tell where each setting came from."""
    variables = {name: text for name, text in environ.items() if name.startswith(PREFIX)}
    if path is None and not variables:
        raise SettingsError(f"settings: there are none: {_HOW_TO_BEGIN}")
    if path is None:
        return _Draft("environment", Path(), {}, variables).loaded()
    return _Draft(str(path), path.absolute().parent, _read(path), variables).loaded()


def _read(path: Path) -> Tree:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise SettingsError(f"{path}: is too large to be a settings file")
        return tomllib.loads(data.decode())
    except FileNotFoundError as error:
        raise SettingsError(f"{path}: no such file; {_HOW_TO_BEGIN}") from error
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: is not UTF-8: byte {error.start} cannot be read") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingsError(f"{path}: is not TOML: {error}") from error


class _Draft:
    """Settings while they are put together, and who gave each."""

    def __init__(self, name: str, base: Path, tree: Tree, variables: Mapping[str, str]) -> None:
        self.name = name
        self._base = base
        self._of_file = copy.deepcopy(tree)
        self._tree = tree
        self._assigned: dict[Place, str] = {}  # the variable that gave what stands there
        self._lines: list[str] = []  # what is wrong
        for variable in sorted(variables, key=_steps_in_order):
            self._assign(variable, variables[variable])

    def _assign(self, variable: str, text: str) -> None:
        try:
            place = assign(self._tree, variable, text)
        except ConfigError as error:
            self._lines.append(f"{variable}: names no setting: it must be {error.allowed}")
        else:
            self._assigned[place] = variable
            self._yield_to(place)

    def _yield_to(self, place: Place) -> None:
        """Drop a secret of the file, or its file, where the other one is set from outside."""
        key = str(place[-1])
        other = key.removesuffix("_file") if key.endswith("_file") else f"{key}_file"
        beside = (*place[:-1], other)
        if {key, other} & SECRETS and beside not in self._assigned and _has(self._tree, beside):
            del _at(self._tree, place[:-1])[other]

    def loaded(self) -> LoadedSettings:
        """Check everything and return it."""
        try:
            settings = Settings.model_validate(self._tree, context={"base": self._base})
        except ValidationError as error:
            problems: dict[Place, Problem] = {}
            for problem in (*problems_of(error), *self._duplicates()):
                problems.setdefault(problem.place, problem)  # what follows from it is not told
            self._lines += [f"{self._origin(place)}: {problems[place]}" for place in problems]
        if self._lines:
            raise SettingsError(*self._lines)
        origins = {place: self._origin(place) for place in _leaves(self._tree, ())}
        return LoadedSettings(settings, self.name, origins)

    def _duplicates(self) -> list[Problem]:
        """Return names given twice, which the model looks for only if all else is right."""
        found = []
        for section in TABLES:
            tables = self._tree.get(section)
            names = [_table_name(table) for table in tables] if isinstance(tables, list) else []
            found += [refused((), error) for error in duplicates(section, names)]
        return found

    def _origin(self, place: Place) -> str:
        """Return what is to be blamed for the value at a place."""
        for end in range(len(place), 0, -1):
            if place[:end] in self._assigned:
                return self._assigned[place[:end]]
        if place and not _has(self._of_file, place):
            for below, variable in self._assigned.items():
                if below[: len(place)] == place:
                    return variable
        return self.name


# The environment


def _steps_in_order(variable: str) -> list[tuple[int, int, str]]:
    """Return what sorts variables such that numbered tables come first and in their order."""
    steps = variable.removeprefix(PREFIX).split("__")
    return [(0, int(step), "") if _is_number(step) else (1, 0, step) for step in steps]


def _is_number(step: str) -> bool:
    return step.isascii() and step.isdigit()


def toml_value(text: str) -> object:
    """Return what TOML makes of a value, or the text itself if that is not TOML.

    >>> toml_value("1000"), toml_value("true"), toml_value("orders"), toml_value('"7"')
    (1000, True, 'orders', '7')
    >>> toml_value('["a:9092", "b:9092"]')
    ['a:9092', 'b:9092']
    """
    try:
        tree = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    value = tree["value"]
    # Text such as 2026-01-01 is a name to the user; no setting is a date.
    dated = isinstance(value, datetime.date | datetime.time)
    return text if len(tree) > 1 or dated else value


def assign(tree: Tree, variable: str, text: str) -> Place:
    """Put the value of a variable into the settings and return its place.

    Tables are made where there are none; a list of tables grows by one where the number after the
    last is named. Capitals do not matter. Where text is wanted, it is taken as written. Raises
    ``ConfigError`` if the name leads nowhere; the value is not told, since it may be a secret.
    """
    steps = variable.removeprefix(PREFIX).split("__")
    if not all(steps):
        raise _lost("names parted by two underscores, SECTION__KEY")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise _lost("text in UTF-8 as its value")
    node: Any = tree
    place: Place = ()
    for step in steps[:-1]:
        key, node = _descend(node, step, place)
        place = (*place, key)
    if not isinstance(node, dict):
        raise _lost("one setting of a table: the name of a key must follow the number")
    place = (*place, steps[-1].lower())
    value = toml_value(text)
    node[place[-1]] = text if takes_text(place) and not isinstance(value, str) else value
    return place


def _descend(node: Any, step: str, place: Place) -> tuple[str | int, dict[str, Any] | list[Any]]:
    key: str | int
    if isinstance(node, list):
        key = _number(node, step)
        if key == len(node):
            node.append({})
    else:
        key = step.lower()
        node.setdefault(key, [] if not place and key in TABLES else {})
    below = node[key]
    tables = isinstance(below, list) and not place and key in TABLES
    if not isinstance(below, dict) and not tables:
        raise _lost(f"a setting; {step} is one value and has no parts")
    return key, below


def _number(tables: list[Any], step: str) -> int:
    names = [_table_name(table) for table in tables]
    for spelled in (str, _folded):
        matching = [i for i, name in enumerate(names) if spelled(name) == spelled(step)]
        if len(matching) == 1:
            return matching[0]
    if _is_number(step) and int(step) <= len(tables):
        return int(step)
    known = ", ".join(repr(name) for name in names) or "none"
    raise _lost(f"a table by its name or number, from 0; there are {known}, not {step}")


def _table_name(table: object) -> str:
    """Return the name of a stream or outlet, which for an outlet is its kind unless given."""
    name = table.get("name", table.get("kind")) if isinstance(table, dict) else None
    return name if isinstance(name, str) else ""


def _folded(name: str) -> str:
    """Return a name as a variable can hold it: shells take no dots and dashes."""
    return name.lower().replace("-", "_").replace(".", "_")


def _lost(allowed: str) -> ConfigError:
    return ConfigError("", None, allowed)


def _at(tree: Any, place: Iterable[str | int]) -> Any:
    for step in place:
        tree = tree[step]
    return tree


def _has(tree: Any, place: Place) -> bool:
    for step in place:
        inside = isinstance(tree, dict) and step in tree
        if not inside and not (isinstance(tree, list) and step in range(len(tree))):
            return False
        tree = tree[step]
    return True


def _leaves(node: Any, place: Place) -> list[Place]:
    if isinstance(node, dict):
        return [leaf for key, below in node.items() for leaf in _leaves(below, (*place, key))]
    if isinstance(node, list) and node and all(isinstance(item, dict) for item in node):
        return [leaf for i, below in enumerate(node) for leaf in _leaves(below, (*place, i))]
    return [place]


# Settings as TOML, and what is worth a warning


def settings_toml(loaded: LoadedSettings) -> str:
    """Return the settings in force, defaults included, as TOML.

    What is not set is left out; a secret is a comment that says so. Without secrets the text is a
    settings file that comes to the same.
    """
    head = (
        f"# Settings in force, from {loaded.name} and what stands at the end of a line.",
        "# A line without a note is a default.",
    )
    return "".join(f"{line}\n" for line in (*head, *_table(loaded, loaded.settings, ())))


def remarks(settings: Settings) -> tuple[str, ...]:
    """Return warnings of secrets that anyone can read."""
    return tuple(
        f"{path_text(place)}: anyone can read {value}; chmod o-r it"
        for place, value in _walk(settings, ())
        if str(place[-1]).endswith("_file") and isinstance(value, Path) and _open_to_all(value)
    )


def _open_to_all(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & stat.S_IROTH)
    except OSError:  # gone since it was read: nobody can read it any more
        return False


def _items(table: Any) -> list[tuple[str, Any]]:
    """Return keys and values of a table, those of a stream's monitors among its own."""
    if isinstance(table, Section):
        parts = ([*_items(v)] if k == "monitor" else [(k, v)] for k, v in dict(table).items())
        return [item for part in parts for item in part]
    return [(name, getattr(table, name)) for name in settable(type(table))]


def _tables(value: Any) -> list[tuple[Place, Any]]:
    """Return the tables that a value is, each with its number if it is one of a list."""
    if isinstance(value, Section) or is_dataclass(value):
        return [((), value)]
    several = isinstance(value, tuple) and value and isinstance(value[0], Section)
    return [((number,), table) for number, table in enumerate(value)] if several else []


def _walk(table: Any, place: Place) -> Iterator[tuple[Place, Any]]:
    for key, value in _items(table):
        below = _tables(value)
        for number, part in below:
            yield from _walk(part, (*place, key, *number))
        if not below:
            yield (*place, key), value


def _table(loaded: LoadedSettings, table: Any, place: Place) -> Iterator[str]:
    items = _items(table)
    for key, value in items:
        if not _tables(value) and key not in TABLES:
            yield from _line(loaded, table, (*place, key), value)
    for key, value in items:
        name = ".".join(str(step) for step in (*place, key) if isinstance(step, str))
        for number, part in _tables(value):
            yield from ("", f"[[{name}]]" if number else f"[{name}]")
            yield from _table(loaded, part, (*place, key, *number))


def _line(loaded: LoadedSettings, table: Any, place: Place, value: Any) -> Iterator[str]:
    key = str(place[-1])
    note = _note(loaded, place)
    if isinstance(value, SecretStr):
        if getattr(table, f"{key}_file") is None:
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
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else toml(key)


def _masked(key: str, value: object) -> str:
    return toml(HIDDEN if _SECRET_KEY.search(key) else value)
