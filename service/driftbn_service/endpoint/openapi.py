"""The OpenAPI 3.1 document, made from the table of routes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
from starlette.responses import Response

import driftbn
from driftbn_service.endpoint.documents import SCHEMAS
from driftbn_service.endpoint.operations import JSON_TYPE, Call, Operation, Reply
from driftbn_service.endpoint.problems import PROBLEM_TYPE
from driftbn_service.endpoint.schemas import COMPONENTS, PROBLEM, ref

_SHARED_REPLIES = {
    400: Reply("A parameter is unknown or not allowed.", ref(PROBLEM), PROBLEM_TYPE),
    401: Reply("The token is missing or wrong.", ref(PROBLEM), PROBLEM_TYPE),
    421: Reply("Without a token, the host must be loopback.", ref(PROBLEM), PROBLEM_TYPE),
}


def openapi_operation(table: tuple[Operation, ...]) -> Operation:
    """Return the route of the document on all routes of a table, and on itself."""

    async def document(_: Call) -> Response:
        return Response(body, media_type=JSON_TYPE)

    operation = Operation(
        "/api/v1/openapi.json",
        "openapi",
        "This document.",
        document,
        {200: Reply("OpenAPI 3.1.", {"type": "object"})},
    )
    body = orjson.dumps(openapi_document((*table, operation)))
    return operation


def openapi_document(table: Iterable[Operation]) -> dict[str, Any]:
    """Return the document on a table of routes."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in table:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
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
            "schemas": {**COMPONENTS, **SCHEMAS},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(operation: Operation) -> dict[str, Any]:
    shared = {} if operation.public else _SHARED_REPLIES
    replies = {**shared, **operation.replies}
    document: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [item.document() for item in operation.parameters]
        + [_header(name, meaning) for name, meaning in operation.headers.items()],
        "responses": {str(status): _reply(replies[status]) for status in sorted(replies)},
    }
    if operation.body:
        content = {kind: {"schema": schema} for kind, schema in operation.body.items()}
        document["requestBody"] = {"required": True, "content": content}
    if operation.public:
        document["security"] = []
    return document


def _reply(reply: Reply) -> dict[str, Any]:
    schema = {"type": "string"} if reply.schema is None else reply.schema
    document: dict[str, Any] = {
        "description": reply.description,
        "content": {reply.media_type: {"schema": schema}},
    }
    if reply.headers:
        document["headers"] = {
            name: {"description": meaning, "schema": {"type": "string"}}
            for name, meaning in reply.headers.items()
        }
    return document


def _header(name: str, meaning: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "header",
        "description": meaning,
        "required": False,
        "schema": {"type": "string"},
    }
