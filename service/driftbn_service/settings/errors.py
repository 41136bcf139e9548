"""Everything that is wrong with the settings, each mistake with its place and what is allowed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from driftbn.errors import ConfigError
from driftbn.explain.words import printable
from driftbn_service.settings.base import HTTP_PATTERN, NAME_PATTERN, REDIS_PATTERN
from driftbn_service.settings.model import SeveralErrors
from driftbn_service.settings.secrets import SECRETS, SecretFileError, without_password
from driftbn_service.settings.structure import Place, field_at, keys_at, place_of

MAX_VALUE: Final = 200
"""Characters of a value that are shown."""

_Context: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Problem:
    """One mistake.

    Parameters
    ----------
    path
        The setting as in ``monitors[0].source.path``; empty for the file as a whole.
    text
        What is wrong, to be read after the path.
    place
        The same as keys and numbers, to find out where the value came from.
    """

    path: str
    text: str
    place: Place = ()

    def __str__(self) -> str:
        return f"{self.path}{self.text}"


class SettingsError(ConfigError):
    """Settings that cannot be used; says all that is wrong at once.

    Settings of one table that contradict each other are told once each by itself is right.

    Attributes
    ----------
    name
        The settings file, or what stands for it.
    problems
        What is wrong.
    lines
        The same as lines for people, each with the name of the file or variable at fault.
    """

    def __init__(self, name: str, problems: Sequence[Problem], lines: Sequence[str] = ()) -> None:
        self.name = name
        self.problems = tuple(problems)
        self.lines = tuple(lines) or tuple(f"{name}: {problem}" for problem in problems)
        super().__init__(self.problems[0].path, None, self.problems[0].text)
        self.args = ("; ".join(self.lines),)


def path_text(place: Iterable[str | int]) -> str:
    """Return a place as people write it.

    Examples
    --------
    >>> path_text(("monitors", 0, "source", "path"))
    'monitors[0].source.path'
    """
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return printable(text.removeprefix("."))


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return a guess at what was meant, or else what there is.

    Examples
    --------
    >>> suggestion("pth", ["path", "format"])
    "did you mean 'path'?"
    >>> suggestion("x", ["path", "format"])
    "known are 'path', 'format'"
    """
    known = list(known)
    near = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(map(repr, known))}"


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
    return found


def _problems(details: ErrorDetails) -> list[Problem]:
    place, kind = place_of(details["loc"]), details["type"]
    context: _Context = details.get("ctx", {})
    cause = context.get("error")
    if isinstance(cause, SeveralErrors):
        return [refused((), error) for error in cause.errors]
    if isinstance(cause, ConfigError):
        return [refused(place, cause)]
    if kind == "too_short" and len(details["input"]) >= context["min_length"]:
        return []  # there are enough, and what is wrong with each is told already
    if kind == "extra_forbidden":
        guess = suggestion(str(place[-1]), keys_at(details["loc"][:-1]))
        return [Problem(path_text(place), f" is not known: {guess}", place)]
    if kind == "missing":
        return [Problem(path_text(place), f" is missing: {_meaning(details)}", place)]
    if kind == "union_tag_not_found":
        place = (*place, "kind")
        kinds = _one_of(keys_at(details["loc"], kinds=True))
        return [Problem(path_text(place), f" is missing: it must be {kinds}", place)]
    if kind == "union_tag_invalid":
        return [_wrong((*place, "kind"), context["tag"], _choice(context["tag"], context))]
    return [_wrong(place, details["input"], _allowed(details, context))]


def _wrong(place: Place, value: object, allowed: str) -> Problem:
    text = f" = {value_text(place, value)} is not allowed: it must be {allowed}"
    return Problem(path_text(place), text, place)


def refused(place: Place, error: ConfigError) -> Problem:
    """Put the place in the settings before the field that the library names."""
    if isinstance(error, SecretFileError):
        place = place[:-1]  # that of the secret, while the setting at fault is its file
    steps = [int(n) if n else word for n, word in re.findall(r"\[(\d+)\]|([^.\[\]]+)", error.field)]
    place = (*place, *steps)
    # TOML has no null: what the library calls None is a setting that is left out.
    allowed = re.sub(r"\bNone\b", "left out", error.allowed)
    if error.value is None:
        return Problem(path_text(place), f" is missing: it must be {allowed}", place)
    return _wrong(place, getattr(error.value, "value", error.value), allowed)


def _meaning(details: ErrorDetails) -> str:
    """Return what a setting is for, from its own description."""
    field = field_at(details["loc"])
    if field is None or not field.description:
        return "a value must be given"
    words = " ".join(field.description.replace("``", "'").split())
    return words[0].lower() + words[1:].rstrip(".")


def _quoted(text: str) -> list[str]:
    return re.findall(r"'([^']*)'", text)


def _one_of(words: Iterable[str]) -> str:
    return f"one of {', '.join(map(repr, words))}"


def _choice(value: object, context: _Context) -> str:
    words = _quoted(context.get("expected") or context["expected_tags"])
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
    if kind == "model_type" and details["loc"][-1] == "window":
        return "an integer, without quotes, or a table"
    if kind in _WORDS:
        return _WORDS[kind](context)
    return f"something else ({details['msg']})"
