"""Settings from outside the file: environment variables and options of the command line."""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from driftbn.errors import ConfigError
from driftbn_service.settings.structure import TABLES, Place

PREFIX: Final = "DRIFTBN__"
"""How the variables begin that are settings; ``__`` also parts their steps."""

Tree: TypeAlias = dict[str, Any]
"""Settings as read from TOML."""


@dataclass(frozen=True)
class Assignment:
    """A value for one setting.

    Parameters
    ----------
    origin
        Who says so: the name of a variable, or ``command line``.
    steps
        Names that lead to the setting.
    value
        What it is set to.
    text
        What was written, if ``value`` was read from text: for a setting that takes text, that
        counts.
    """

    origin: str
    steps: tuple[str, ...]
    value: object
    text: str | None = None


def from_environment(environ: Mapping[str, str]) -> list[Assignment]:
    """Return the settings among the variables, numbered tables first and in their order.

    Examples
    --------
    >>> from_environment({"DRIFTBN__SERVICE__STATE_DIR": "state", "HOME": "/root"})[0].steps
    ('SERVICE', 'STATE_DIR')
    """
    found = []
    for name, text in environ.items():
        if name.startswith(PREFIX):
            steps = tuple(name.removeprefix(PREFIX).split("__"))
            found.append(Assignment(name, steps, toml_value(text), text))
    return sorted(found, key=lambda assignment: [_rank(step) for step in assignment.steps])


def _rank(step: str) -> tuple[int, int, str]:
    number = step.isascii() and step.isdigit()
    return (0, int(step), "") if number else (1, 0, step)


def from_options(overrides: Mapping[str, object]) -> list[Assignment]:
    """Return settings of the command line, given as ``{"service.state_dir": value}``."""
    return [
        Assignment("command line", tuple(path.split(".")), value)
        for path, value in overrides.items()
    ]


def toml_value(text: str) -> object:
    """Return what TOML makes of a value, or the text itself if that is not TOML.

    Examples
    --------
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


def assign(tree: Tree, assignment: Assignment) -> Place:
    """Put a value into the settings and return its place.

    Tables are made where there are none; a list of tables grows by one where the number after the
    last is named. Capitals do not matter.

    Raises
    ------
    ConfigError
        If the steps lead nowhere.
    """
    if not all(assignment.steps):
        raise _lost(assignment, "names parted by two underscores, SECTION__KEY")
    if _not_text(assignment.text):
        raise _lost(assignment, "text in UTF-8 as its value")
    node: Any = tree
    place: Place = ()
    for step in assignment.steps[:-1]:
        key, node = _descend(node, step, place, assignment)
        place = (*place, key)
    if not isinstance(node, dict):
        raise _lost(assignment, "one setting of a table: the name of a key must follow the number")
    key = assignment.steps[-1].lower()
    node[key] = assignment.value
    return (*place, key)


def _descend(
    node: Any, step: str, place: Place, assignment: Assignment
) -> tuple[str | int, dict[str, Any] | list[Any]]:
    key: str | int
    if isinstance(node, list):
        key = _number(node, step, assignment)
        if key == len(node):
            node.append({})
    else:
        key = step.lower()
        node.setdefault(key, [] if not place and key in TABLES else {})
    below = node[key]
    tables = isinstance(below, list) and not place and key in TABLES
    if not isinstance(below, dict) and not tables:
        raise _lost(assignment, f"a setting; {step} is one value and has no parts")
    return key, below


def _number(tables: list[Any], step: str, assignment: Assignment) -> int:
    names = [table_name(table) for table in tables]
    for spelled in (str, _folded):
        matching = [i for i, name in enumerate(names) if spelled(name) == spelled(step)]
        if len(matching) == 1:
            return matching[0]
    if step.isascii() and step.isdigit() and int(step) <= len(tables):
        return int(step)
    known = ", ".join(repr(name) for name in names) or "none"
    raise _lost(assignment, f"a table by its name or number, from 0; there are {known}, not {step}")


def table_name(table: object) -> str:
    """Return the name of a monitor or outlet, which for an outlet is its kind unless given."""
    name = table.get("name", table.get("kind")) if isinstance(table, dict) else None
    return name if isinstance(name, str) else ""


def _folded(name: str) -> str:
    """Return a name as a variable can hold it: shells take no dots and dashes."""
    return name.lower().replace("-", "_").replace(".", "_")


def _lost(assignment: Assignment, allowed: str) -> ConfigError:
    return ConfigError(assignment.origin, None, allowed)  # the value may be a secret


def _not_text(text: str | None) -> bool:
    return text is not None and any("\ud800" <= letter <= "\udfff" for letter in text)


def at(tree: Any, place: Iterable[str | int]) -> Any:
    """Return what stands at a place that is there."""
    for step in place:
        tree = tree[step]
    return tree
