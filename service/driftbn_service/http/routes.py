"""Routes by their functions: what one takes and answers stands in its signature.

A parameter of a function is a parameter of its route, with the name, the type and the default that
it has there; its description and its limits are an annotation. The type that the function returns
is the shape of the answer, and its docstring says what the route does. Requests are read, answers
written and the OpenAPI document made from that alone, so the three cannot disagree. Errors are
problem documents after RFC 9457.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from types import NoneType
from typing import Any, Final, NamedTuple, get_args
from urllib.parse import unquote

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import driftbn
from driftbn.codec import Codec, Schema
from driftbn.errors import DriftbnError
from driftbn.report import REPORTS
from driftbn_service.http import ServiceView
from driftbn_service.state import ActionRow, EdgeRow, EpisodeRow, Series, WindowRow
from driftbn_service.state.sql import EpisodeEdge

PROBLEM_TYPE = "application/problem+json"
_SHOWN_CHARACTERS = 200  # a value can be as long as an address; the start of it tells which


@dataclass(frozen=True)
class Problem:
    """A problem document; it may have further members."""

    type: str
    title: str
    status: int
    detail: str


class ProblemError(DriftbnError):
    """A request cannot be answered.

    ``kind`` is a short name of what went wrong, which never changes; it makes the ``type`` of the
    document. ``detail`` is what is wrong, with the value, and what is allowed or what to do. The
    document also has ``members``.

    >>> ProblemError(404, "unknown-stream", "there is no stream 'x'").document()["type"]
    'urn:driftbn:problem:unknown-stream'
    """

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        members: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.status = status
        self.kind = kind
        self.detail = detail
        self.members = dict(members or {})
        self.headers = dict(headers or {})
        super().__init__(detail)

    def document(self) -> dict[str, Any]:
        phrase = HTTPStatus(self.status).phrase
        problem = Problem(f"urn:driftbn:problem:{self.kind}", phrase, self.status, self.detail)
        return asdict(problem) | self.members

    def response(self) -> Response:
        return Response(
            orjson.dumps(self.document()), self.status, self.headers, media_type=PROBLEM_TYPE
        )


def bad_value(field: str, value: str, allowed: str) -> ProblemError:
    """Return the problem of a parameter or header whose value is not allowed.

    >>> bad_value("limit", "-1", "a whole number from 1 to 1000").detail
    "limit = '-1' is not allowed: it must be a whole number from 1 to 1000"
    """
    shown = shortened(value)
    return ProblemError(
        HTTPStatus.BAD_REQUEST,
        "bad-value",
        f"{field} = {shown!r} is not allowed: it must be {allowed}",
        members={"field": field, "value": shown, "allowed": allowed},
    )


def not_found(field: str, value: object, detail: str) -> ProblemError:
    shown = shortened(value) if isinstance(value, str) else value
    return ProblemError(
        HTTPStatus.NOT_FOUND,
        f"unknown-{field}",
        detail,
        members={"field": field, "value": shown},
    )


def shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


MIN_RATE: Final = 500
"""Bytes a second that a client must send or read at least, as in Apache's mod_reqtimeout."""
RETRY_SECONDS: Final = 1
"""When to try again if too many send at once, or too much waits."""


@dataclass(frozen=True)
class Limits:
    """What a request may cost."""

    max_body_bytes: int = 32 << 20  # as sent
    max_decoded_bytes: int = 64 << 20  # after decompression
    max_page: int = 1000  # most items of a page
    # Bodies that are there and are taken in at a time; few of them are decoded at a time.
    max_ingests: int = 16
    max_live_clients: int = 64  # clients that follow events at a time
    # A body that has not ended must bring ``body_seconds * min_rate`` bytes in this time, again and
    # again.
    body_seconds: float = 20.0
    min_rate: int = MIN_RATE  # bytes a second
    heartbeat_seconds: float = 15.0  # silence after which a follower of events gets a sign of life

    @property
    def max_held_bytes(self) -> int:
        """Bytes of all bodies that are held at a time, be they on their way or being taken in."""
        return 8 * self.max_body_bytes


JSON_TYPE: Final = "application/json"
_TYPES: Final = {int: "integer", str: "string", bool: "boolean"}
_TRUTH: Final = {"true": True, "false": False}
_WHOLE: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_WITH_WINDOW: Final = (WindowRow, EdgeRow, EpisodeEdge, Series, ActionRow)
_WHOSE: Final = ("stream", "key")  # in the address already

ANSWERS: Final = Codec(
    base=REPORTS,
    renamed={row: {"window_index": "window"} for row in _WITH_WINDOW},
    omitted={**dict.fromkeys((WindowRow, EdgeRow, EpisodeRow), _WHOSE), ActionRow: ("stream",)},
)
"""How answers are written."""


@dataclass(frozen=True)
class Parameter:
    """What the type of a parameter does not say."""

    description: str
    minimum: int = 0  # of a number
    maximum: int | None = 2**53  # what JSON holds exactly; ``None`` for the longest page
    header: bool = False  # whether it is one


class Reply(NamedTuple):
    """An answer that the signature does not tell of."""

    description: str
    media_type: str = PROBLEM_TYPE
    type_: Any = Problem  # the shape of its body; ``None`` for text


@dataclass(frozen=True)
class Operation:
    path: str  # with parameters in braces
    # What answers: a coroutine, or a function that may block, as it runs in a thread of its own. It
    # may ask for the ``ServiceView`` and the ``Request`` by their types.
    handler: Callable[..., Any] = field(repr=False)
    # Further answers by status, without those that any route can give.
    replies: Mapping[int, Reply] = field(default_factory=dict, repr=False)
    method: str = "GET"
    status: int = HTTPStatus.OK  # of an answer that went well
    # Content types of the body with a description.
    bodies: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Headers that are read elsewhere, with their meaning.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    public: bool = False  # whether it is answered without a token

    @property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.handler, eval_str=True)

    def arguments(self, limits: Limits) -> list[_Argument]:
        taken = [item for item in self.signature.parameters.values() if get_args(item.annotation)]
        return [_Argument.of(item, self.path, limits) for item in taken]


@dataclass(frozen=True)
class _Argument:
    name: str
    key: str
    place: str
    kind: type
    default: Any
    description: str
    minimum: int
    maximum: int

    @classmethod
    def of(cls, item: inspect.Parameter, path: str, limits: Limits) -> _Argument:
        hint, about = get_args(item.annotation)
        kinds = [kind for kind in get_args(hint) or (hint,) if kind is not NoneType]
        maximum = limits.max_page if about.maximum is None else about.maximum
        default = None if item.default is item.empty else item.default
        if kinds == [int] and default is not None:
            default = min(default, maximum)
        place, key = "path" if f"{{{item.name}}}" in path else "query", item.name
        if about.header:
            place, key = "header", item.name.replace("_", "-").title()
        return cls(
            item.name, key, place, kinds[0], default, about.description, about.minimum, maximum
        )

    def parsed(self, text: str) -> Any:
        """Return the value of a text. Raises ``ProblemError`` if it is not allowed."""
        if self.kind is bool:
            if text not in _TRUTH:
                raise bad_value(self.key, text, "true or false")
            return _TRUTH[text]
        if self.kind is int:
            if not _WHOLE.fullmatch(text) or not self.minimum <= int(text) <= self.maximum:
                allowed = f"a whole number from {self.minimum} to {self.maximum}"
                raise bad_value(self.key, text, allowed)
            return int(text)
        return text

    def document(self) -> Schema:
        schema: Schema = {"type": _TYPES[self.kind]}
        if self.kind is int:
            schema |= {"minimum": self.minimum, "maximum": self.maximum}
        if self.default is not None:
            schema["default"] = self.default
        return _parameter(self.key, self.place, self.description, schema)


def route_of(operation: Operation, service: ServiceView, limits: Limits) -> Route:
    """Return a route that reads requests and writes answers as the operation says."""
    handler, signature = operation.handler, operation.signature
    arguments, shape = operation.arguments(limits), signature.return_annotation
    wanted = {item.annotation: item.name for item in signature.parameters.values()}

    def answer(found: Any) -> Response:
        return found if isinstance(found, Response) else _json(found, shape, operation.status)

    def given(request: Request) -> dict[str, Any]:
        there = {ServiceView: service, Request: request}
        values = {wanted[kind]: value for kind, value in there.items() if kind in wanted}
        return values | _read(arguments, request)

    async def awaited(request: Request) -> Response:
        return answer(await handler(**given(request)))

    async def threaded(request: Request) -> Response:
        values = given(request)
        return await run_in_threadpool(lambda: answer(handler(**values)))

    endpoint = awaited if inspect.iscoroutinefunction(handler) else threaded
    return Route(operation.path, endpoint, methods=[operation.method])


def _json(value: object, shape: Any, status: int) -> Response:
    document = ANSWERS.encode(value, as_type=shape)
    return Response(orjson.dumps(document), status, media_type=JSON_TYPE)


def _read(arguments: Iterable[_Argument], request: Request) -> dict[str, Any]:
    """Return the values of all parameters; none in the query may be unknown or given twice."""
    found = {item.name: item.default for item in arguments}
    known = {item.key: item for item in arguments if item.place == "query"}
    names = [name for name, _ in request.query_params.multi_items()]
    for name, text in request.query_params.multi_items():
        if name not in known:
            listed = f"one of {', '.join(known)}" if known else "left out: there are none"
            raise bad_value("query parameter", name, listed)
        if names.count(name) > 1:
            raise bad_value("query parameter", name, "given once")
        found[name] = known[name].parsed(text)
    for item in arguments:
        if item.place == "path":
            found[item.name] = item.parsed(_decoded(item.name, request.path_params[item.name]))
        elif item.place == "header" and item.key in request.headers:
            text = request.headers[item.key]
            if text or item.kind is str:  # a number is left out by an empty text too
                found[item.name] = item.parsed(text)
    return found


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


# --- The OpenAPI document ---

_SHARED_REPLIES: Final = {
    400: Reply("A parameter is unknown or not allowed."),
    401: Reply("The token is missing or wrong."),
    421: Reply("Without a token, the host must be loopback."),
}


def openapi_operation(operations: tuple[Operation, ...], limits: Limits) -> Operation:
    """Return the route of the OpenAPI 3.1 document on all routes, and on itself."""

    async def openapi() -> Response:
        """Tell of all routes: this document."""
        return Response(body, media_type=JSON_TYPE)

    reply = Reply("OpenAPI 3.1.", JSON_TYPE, dict)
    operation = Operation("/api/v1/openapi.json", openapi, {200: reply})
    body = orjson.dumps(_openapi((*operations, operation), limits))
    return operation


def _openapi(operations: Iterable[Operation], limits: Limits) -> Schema:
    components: dict[str, Schema] = {}
    paths: dict[str, Schema] = {}
    for operation in operations:
        document = _operation(operation, limits, components)
        paths.setdefault(operation.path, {})[operation.method.lower()] = document
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "driftbn",
            "version": driftbn.__version__,
            "summary": "What changed in the relations between the fields of event streams.",
        },
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(operation: Operation, limits: Limits, components: dict[str, Schema]) -> Schema:
    replies = ({} if operation.public else _SHARED_REPLIES) | dict(operation.replies)
    shape = operation.signature.return_annotation
    if shape is not Response:
        described = get_args(shape)[0] if get_args(shape) else shape
        replies[operation.status] = Reply(_paragraphs(described)[0], JSON_TYPE, shape)
    parameters = [item.document() for item in operation.arguments(limits)]
    for name, meaning in operation.headers.items():
        parameters.append(_parameter(name, "header", meaning, {"type": "string"}))
    document: Schema = {
        "operationId": operation.handler.__name__,
        "summary": _paragraphs(operation.handler)[0],
        "description": " ".join(_paragraphs(operation.handler)[1:]),
        "parameters": parameters,
        "responses": {
            str(int(status)): _reply(replies[status], components) for status in sorted(replies)
        },
    }
    if operation.bodies:
        content = {kind: {"schema": {"description": d}} for kind, d in operation.bodies.items()}
        document["requestBody"] = {"required": True, "content": content}
    if operation.public:
        document["security"] = []
    return document


def _reply(reply: Reply, components: dict[str, Schema]) -> Schema:
    schema = {"type": "string"}
    if reply.type_ is not None:
        schema = ANSWERS.schema(reply.type_, components)
    if reply.media_type == PROBLEM_TYPE:
        components[reply.type_.__name__]["additionalProperties"] = True
    return {"description": reply.description, "content": {reply.media_type: {"schema": schema}}}


def _parameter(name: str, place: str, description: str, schema: Schema) -> Schema:
    return {
        "name": name,
        "in": place,
        "description": description,
        "required": place == "path",
        "schema": schema,
    }


def _paragraphs(described: Any) -> list[str]:
    return [" ".join(text.split()) for text in (inspect.getdoc(described) or "").split("\n\n")]
