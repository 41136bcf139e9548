"""Everything that is wrong with the settings, each mistake with its place and what is allowed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from driftbn.config import Algorithm
from driftbn.errors import ConfigError, UnknownSettingError
from driftbn.explain.sentences import printable
from driftbn_service.settings import (
    HTTP_PATTERN,
    NAME_PATTERN,
    REDIS_PATTERN,
    SECRETS,
    SecretFileError,
    Settings,
)

MAX_VALUE: Final = 200
"""Characters of a value that are shown."""
HIDDEN: Final = "***"
"""What stands for a secret within a value."""
MOVED: Final = {
    "monitors": "the tables of streams are called [[streams]] now",
    "decision": "its settings, alpha and the others, are the stream's own now",
    **dict.fromkeys(
        (
            "reference_windows",
            "learner.alpha",
            "learner.max_conditioning",
            "schema.integer_levels",
            "schema.id_like_ratio",
        ),
        "a daemon always keeps to its default now",
    ),
}
"""What has become of tables and settings of earlier versions, by their last names."""

Place: TypeAlias = tuple[str | int, ...]
"""Keys and numbers that lead to a setting, as in the settings file."""
_Context: TypeAlias = Mapping[str, Any]

_URL_PASSWORD: Final = re.compile(r"(?<=://)([^/@\s]*):[^/\s]*@")


@dataclass(frozen=True)
class Problem:
    """One mistake: where, and what is wrong, to be read after the path."""

    place: Place
    text: str

    def __str__(self) -> str:
        return f"{path_text(self.place)}{self.text}"


class SettingsError(ConfigError):
    """Settings that cannot be used; says all that is wrong at once.

    Settings of one table that contradict each other are told once each by itself is right.
    """

    def __init__(self, *lines: str) -> None:
        self.lines = lines
        super().__init__("settings", None, lines[0])
        self.args = ("; ".join(lines),)


# What there is


@cache
def settings_schema() -> dict[str, Any]:
    """Return what a settings file may hold as a JSON schema, for editors and other programs.

    >>> sorted(settings_schema()["properties"])[:3]
    ['checkpoint', 'endpoint', 'log']
    """
    schema = Settings.model_json_schema(mode="validation")
    tables = schema["$defs"]
    stream = tables["StreamSettings"]
    for key, value in [*stream.pop("properties").items()]:
        below = value["properties"] if key == "(monitor)" else {key: value}
        stream.setdefault("properties", {}).update(below)
    stream["required"].remove("(monitor)")
    tables["Algorithm"]["enum"].remove(Algorithm.PC_ORIGINAL.value)
    for table in tables.values():
        # In Python a kind goes without saying; in a file it tells tables apart.
        if "kind" in table.get("properties", {}):
            table["required"] = ["kind", *table.get("required", [])]
            table["properties"]["kind"]["description"] = table["description"]
    _tidy(schema)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of driftbn",
    }
    return head | {key: value for key, value in schema.items() if key != "title"}


def _tidy(node: Any) -> None:
    """Put descriptions on one line and drop titles, which only repeat the names."""
    if isinstance(node, list):
        for item in node:
            _tidy(item)
    elif isinstance(node, dict):
        if isinstance(node.get("title"), str):
            del node["title"]
        if isinstance(node.get("description"), str):
            text = " ".join(node["description"].split())
            node["description"] = text.partition(" >>> ")[0]
        for value in node.values():
            _tidy(value)


def schema_at(place: Iterable[str | int]) -> dict[str, Any]:
    """Return what may stand at a place; steps of pydantic into a kind are understood too."""
    node = settings_schema()
    for step in place:
        node = _below(node, step)
    return _resolved(node)


def _below(node: dict[str, Any], step: str | int) -> dict[str, Any]:
    node = _resolved(node)
    kinds = node.get("discriminator", {}).get("mapping", {})
    if isinstance(step, int):
        found = node.get("items", {})
    elif step in kinds:
        found = {"$ref": kinds[step]}
    else:
        tables = [_resolved(part) for part in node.get("anyOf", node.get("oneOf", [node]))]
        known = (table.get("properties", {}).get(step) for table in tables)
        found = next(filter(None, known), node.get("additionalProperties"))
    return found if isinstance(found, dict) else {}


def _resolved(node: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in node:
        return node
    target: dict[str, Any] = settings_schema()["$defs"][node["$ref"].rpartition("/")[2]]
    return target | {key: value for key, value in node.items() if key != "$ref"}


def takes_text(place: Iterable[str | int]) -> bool:
    """Return whether text is all that is allowed at a place."""
    node = schema_at(place)
    parts = [_resolved(part) for part in node.get("anyOf", [node])]
    return {part.get("type") for part in parts} <= {"string", "null"}


def place_of(location: Place) -> Place:
    """Return a location of pydantic without what it puts between: kinds, and the monitor's table.

    >>> place_of(("streams", 0, "source", "files", "path"))
    ('streams', 0, 'source', 'path')
    """
    return tuple(
        step
        for i, step in enumerate(location)
        if step != "(monitor)"
        and not (i == 2 and location[0] == "outlets")
        and not (i == 3 and location[0] == "streams" and location[2] == "source")
    )


# In words


def path_text(place: Iterable[str | int]) -> str:
    """Return a place as people write it.

    >>> path_text(("streams", 0, "source", "path"))
    'streams[0].source.path'
    """
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return printable(text.removeprefix("."))


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return a guess at what was meant, or else what there is.

    >>> suggestion("pth", ["path", "format"])
    "did you mean 'path'?"
    >>> suggestion("x", ["path", "format"])
    "known are 'path', 'format'"
    """
    known = list(known)
    near = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(map(repr, known))}"


def without_password(text: str) -> str:
    """Hide the password in an address.

    >>> without_password("redis://user:secret@host:6379/0")
    'redis://user:***@host:6379/0'
    """
    return _URL_PASSWORD.sub(rf"\1:{HIDDEN}@", text)


def value_text(place: Place, value: object) -> str:
    """Return a value for a message; a secret is hidden, a long one is cut."""
    if not {*place}.isdisjoint({*SECRETS, "options", "headers"}):
        return "(hidden)"
    if isinstance(value, Mapping):
        return "a table"
    text = str(value).lower() if isinstance(value, bool) else without_password(repr(value))
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 1]}…"


def problems_of(error: ValidationError) -> list[Problem]:
    """Return what pydantic and the library found, in the words of the settings."""
    found = []
    for details in error.errors(include_url=False):
        found += _problems(details)
    if any(problem.place == ("monitors",) for problem in found):
        found = [problem for problem in found if problem.place != ("streams",)]
    return found


def _problems(details: ErrorDetails) -> list[Problem]:
    place, kind = place_of(details["loc"]), details["type"]
    context: _Context = details.get("ctx", {})
    cause = context.get("error")
    if isinstance(cause, ConfigError):
        return [refused(place, error) for error in cause.errors]
    if kind == "too_short" and len(details["input"]) >= context["min_length"]:
        return []  # there are enough, and what is wrong with each is told already
    if kind == "extra_forbidden":
        return [_unknown(place, schema_at(details["loc"][:-1]).get("properties", ()))]
    if kind == "missing":
        return [Problem(place, f" is missing: {_meaning(place)}")]
    if kind == "union_tag_not_found":
        kinds = _one_of(schema_at(place)["discriminator"]["mapping"])
        return [Problem((*place, "kind"), f" is missing: it must be {kinds}")]
    if kind == "union_tag_invalid":
        return [_wrong((*place, "kind"), context["tag"], _choice(context["tag"], context))]
    return [_wrong(place, details["input"], _allowed(details, context))]


def _unknown(place: Place, known: Iterable[str]) -> Problem:
    words = MOVED.get(path_text(step for step in place[-2:] if isinstance(step, str)))
    words = words or suggestion(str(place[-1]), known)
    return Problem(place, f" is not known: {words}")


def _wrong(place: Place, value: object, allowed: str) -> Problem:
    return Problem(place, f" = {value_text(place, value)} is not allowed: it must be {allowed}")


def refused(place: Place, error: ConfigError) -> Problem:
    """Put the place in the settings before the field that the library names."""
    if isinstance(error, SecretFileError):
        place = place[:-1]  # that of the secret, while the setting at fault is its file
    steps = [int(n) if n else word for n, word in re.findall(r"\[(\d+)\]|([^.\[\]]+)", error.field)]
    place = (*place, *steps)
    if isinstance(error, UnknownSettingError):
        return _unknown(place, error.known)
    allowed = _as_in_toml(error)
    if error.value is None:
        return Problem(place, f" is missing: it must be {allowed}")
    return _wrong(place, getattr(error.value, "value", error.value), allowed)


def _as_in_toml(error: ConfigError) -> str:
    """Return what the library allows without the words of Python, which has None and classes."""
    words = error.allowed.removesuffix(" or None")
    words = re.sub(r"\bNone\b", "left out", words).replace("True or False", "true or false")
    words = re.sub(r"a \w+Config$", "a table", words)
    if not isinstance(error.value, str) or not re.match(r"an? (integer|\w* ?number)|true", words):
        return words
    number = words.removesuffix(" or a table")
    return f"{number}, without quotes" + ("" if number == words else ", or a table")


def _meaning(place: Place) -> str:
    """Return what a setting is for, from its own description."""
    words = schema_at(place).get("description")
    if not words:
        return "a value must be given"
    words = words.replace("``", "'")
    return str(words[0].lower() + words[1:].rstrip("."))


def _one_of(words: Iterable[str]) -> str:
    return f"one of {', '.join(map(repr, words))}"


def _choice(value: object, context: _Context) -> str:
    words = re.findall(r"'([^']*)'", context.get("expected") or context["expected_tags"])
    near = difflib.get_close_matches(str(value).lower(), words, n=1)
    return _one_of(words) + (f"; did you mean {near[0]!r}?" if near else "")


_PATTERNS: Final = {
    HTTP_PATTERN: "an address http://HOST or https://HOST",
    REDIS_PATTERN: "an address redis://HOST, rediss://HOST or unix://PATH",
    NAME_PATTERN: "1 to 64 letters, digits, '.', '_' or '-', the first a letter or digit",
}
_WORDS: Final[Mapping[str, Callable[[_Context], str]]] = {
    "int_type": lambda _: "an integer, without quotes",
    "float_type": lambda _: "a number, without quotes",
    "finite_number": lambda _: "a finite number",
    "bool_type": lambda _: "true or false, without quotes",
    "string_type": lambda _: "text in quotes",
    "path_type": lambda _: "a path in quotes",
    "string_too_short": lambda _: "text that is not empty",
    "string_pattern_mismatch": lambda c: _PATTERNS.get(c["pattern"], f"text like {c['pattern']}"),
    "tuple_type": lambda _: "a list",
    "too_long": lambda c: f"a list of at most {c['max_length']}",
    "too_short": lambda c: f"a list of at least {c['min_length']}",
    "dict_type": lambda _: "a table",
    "model_type": lambda _: "a table",
    "model_attributes_type": lambda _: "a table",
    "greater_than": lambda c: f"more than {c['gt']:g}",
    "greater_than_equal": lambda c: f"{c['ge']:g} or more",
    "less_than": lambda c: f"less than {c['lt']:g}",
    "less_than_equal": lambda c: f"{c['le']:g} or less",
}


def _allowed(details: ErrorDetails, context: _Context) -> str:
    kind = details["type"]
    if kind in ("enum", "literal_error"):
        return _choice(details["input"], context)
    if kind in _WORDS:
        return _WORDS[kind](context)
    return f"something else ({details['msg']})"
