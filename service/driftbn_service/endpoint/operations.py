"""The table of routes: what each takes and answers, from which the OpenAPI document is made."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from typing import Any, TypeAlias
from urllib.parse import unquote

import orjson
from starlette.requests import Request
from starlette.responses import Response

from driftbn_service.endpoint.limits import Limits
from driftbn_service.endpoint.problems import ProblemError, bad_value
from driftbn_service.endpoint.view import ServiceView

JSON_TYPE = "application/json"
Schema: TypeAlias = dict[str, Any]
"""A JSON schema, as OpenAPI 3.1 has it."""

_TRUTH = {"true": True, "false": False}
_WHOLE = re.compile(r"-?[0-9]{1,18}", re.ASCII)


class Place(StrEnum):
    """Where a parameter stands in a request."""

    PATH = "path"
    """A part of the path; it must be there."""
    QUERY = "query"
    """Behind the question mark; it may be left out."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a route.

    Parameters
    ----------
    name, description
        As in the address, and for people.
    kind
        ``str``, ``int`` or ``bool``.
    place
        Where it stands.
    default
        What holds if it is left out.
    minimum, maximum
        Limits of a number.
    choices
        The texts that are allowed, or none for any.
    """

    name: str
    description: str
    kind: type = str
    place: Place = Place.QUERY
    default: object = None
    minimum: int = 0
    maximum: int = 2**53  # what every reader of JSON holds exactly
    choices: tuple[str, ...] = ()

    def parse(self, text: str) -> object:
        """Return the value of a text.

        Raises
        ------
        ProblemError
            If it is not allowed.

        Examples
        --------
        >>> Parameter("limit", "Items of a page.", int, minimum=1, maximum=9).parse("3")
        3
        """
        if self.kind is bool:
            return self._allowed(text, text in _TRUTH) and _TRUTH[text]
        if self.kind is int:
            whole = _WHOLE.fullmatch(text) is not None
            self._allowed(text, whole and self.minimum <= int(text) <= self.maximum)
            return int(text)
        self._allowed(text, not self.choices or text in self.choices)
        return text

    def _allowed(self, text: str, holds: bool) -> bool:
        if not holds:
            raise bad_value(self.name, text, self._allowed_words())
        return True

    def _allowed_words(self) -> str:
        if self.kind is bool:
            return "true or false"
        if self.kind is int:
            return f"a whole number from {self.minimum} to {self.maximum}"
        return f"one of {', '.join(self.choices)}"

    def document(self) -> dict[str, Any]:
        """Return the parameter as OpenAPI has it."""
        return {
            "name": self.name,
            "in": self.place.value,
            "description": self.description,
            "required": self.place is Place.PATH,
            "schema": self._schema(),
        }

    def _schema(self) -> Schema:
        if self.kind is bool:
            schema: Schema = {"type": "boolean"}
        elif self.kind is int:
            schema = {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}
        else:
            schema = {"type": "string"}
        if self.choices:
            schema["enum"] = list(self.choices)
        return schema if self.default is None else {**schema, "default": self.default}


@dataclass(frozen=True)
class Call:
    """One request, with its parameters parsed.

    Parameters
    ----------
    request
        As it came.
    view, limits
        What is asked, and how much it may cost.
    arguments
        The parameters by name; those left out have their default.
    """

    request: Request
    view: ServiceView
    limits: Limits
    arguments: Mapping[str, Any] = field(repr=False)

    def text(self, name: str) -> str:
        """Return a text that has a default or must be there."""
        return str(self.arguments[name])

    def optional_text(self, name: str) -> str | None:
        """Return a text, or ``None`` if it was left out."""
        value = self.arguments[name]
        return None if value is None else str(value)

    def number(self, name: str) -> int:
        """Return a number that has a default or must be there."""
        return int(self.arguments[name])

    def optional_number(self, name: str) -> int | None:
        """Return a number, or ``None`` if it was left out."""
        value = self.arguments[name]
        return None if value is None else int(value)

    def flag(self, name: str) -> bool | None:
        """Return a truth value, or ``None`` if it was left out."""
        value = self.arguments[name]
        return None if value is None else bool(value)


Handler: TypeAlias = Callable[[Call], Response] | Callable[[Call], Awaitable[Response]]
"""Answers a call; one that is no coroutine may block, as it runs in a thread of its own."""


@dataclass(frozen=True)
class Reply:
    """An answer that a route can give.

    Parameters
    ----------
    description
        For people.
    schema
        The shape of the body, or ``None`` for text.
    media_type
        Its content type.
    headers
        Headers with their meaning.
    """

    description: str
    schema: Schema | None = None
    media_type: str = JSON_TYPE
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """A route of the endpoint.

    Parameters
    ----------
    path
        With parameters in braces.
    name
        Short name, unique.
    summary
        One sentence for people.
    handler
        What answers.
    replies
        The answers by status, without those that any route can give.
    parameters
        What it takes; anything else is refused.
    method
        ``GET`` or ``POST``.
    body
        Content types of the body with their schemas.
    headers
        Headers that the route reads, with their meaning.
    public
        Whether it is answered without a token.
    """

    path: str
    name: str
    summary: str
    handler: Handler = field(repr=False)
    replies: Mapping[int, Reply] = field(repr=False)
    parameters: tuple[Parameter, ...] = field(default=(), repr=False)
    method: str = "GET"
    body: Mapping[str, Schema] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    public: bool = False

    def arguments(self, request: Request) -> dict[str, Any]:
        """Return the values of all parameters of a request.

        Raises
        ------
        ProblemError
            If one is unknown, given twice or not allowed.
        """
        given = request.query_params.multi_items()
        self._check_names([name for name, _ in given])
        found = {parameter.name: parameter.default for parameter in self.parameters}
        known = {parameter.name: parameter for parameter in self.parameters}
        for name, text in given:
            found[name] = known[name].parse(text)
        for name, text in request.path_params.items():
            found[name] = known[name].parse(_decoded(name, text))
        return found

    def _check_names(self, names: list[str]) -> None:
        allowed = [item.name for item in self.parameters if item.place is Place.QUERY]
        for name in names:
            if name not in allowed:
                listed = f"one of {', '.join(allowed)}" if allowed else "left out: there are none"
                raise bad_value("query parameter", name, listed)
            if names.count(name) > 1:
                raise bad_value("query parameter", name, "given once")


def json_response(body: object, status: int = HTTPStatus.OK) -> Response:
    """Return an answer in JSON; numbers that JSON does not have become null."""
    return Response(orjson.dumps(body), status, media_type=JSON_TYPE)


def _decoded(name: str, text: str) -> str:
    """Return a part of the path without percent signs; the router leaves them in."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise ProblemError(
            HTTPStatus.BAD_REQUEST,
            "bad-value",
            f"{name} in the path is not UTF-8: encode it as UTF-8, then with percent signs",
            members={"field": name},
        ) from error
