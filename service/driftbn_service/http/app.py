"""The application: routes, who may ask, and how errors are told.

With a token every route needs it, as ``Authorization: Bearer TOKEN``, but those of health and the
files of the page, in which nothing is secret. Without one the endpoint listens on loopback only:
the settings allow no other address.

A page of another site cannot get in through the user's browser either: requests that name another
host are refused (a name can be made to point here), there are no CORS headers, and records are not
taken in a content type that a browser sends without asking first.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Collection, Sequence
from http import HTTPStatus
from typing import cast

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from driftbn_service.http import ServiceView, acting, api, graph, ingest, live
from driftbn_service.http.routes import (
    Limits,
    Operation,
    ProblemError,
    openapi_operation,
    route_of,
    shortened,
)
from driftbn_service.settings import EndpointSettings, is_loopback
from driftbn_service.state import DamagedRowError, StoreError

logger = logging.getLogger("driftbn.service.http")

SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Headers of every answer; a route that sets one of them itself keeps its own."""
CHALLENGE = 'Bearer realm="driftbn"'
"""What a client without a token is told to send; of a browser's own question there is no need."""


class Guard:
    """Lets only those in that may ask.

    Without a token, whoever names a loopback host is let in. Anybody may ask for ``public`` paths.
    """

    def __init__(self, app: ASGIApp, token: str | None, public: Collection[str]) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._public = frozenset(public)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in self._public:
            problem = self._problem(Headers(scope=scope))
            if problem is not None:
                await problem.response()(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _problem(self, headers: Headers) -> ProblemError | None:
        if self._token is None:
            return _foreign_host(headers.get("host", ""))
        given = _given_token(headers.get("authorization", ""))
        # Compared in a time that does not tell how much of it was right.
        if hmac.compare_digest(given, self._token):
            return None
        return ProblemError(
            HTTPStatus.UNAUTHORIZED,
            "unauthorized",
            "the token is missing or wrong: send the header Authorization: Bearer TOKEN, with what"
            " endpoint.token or endpoint.token_file says",
            headers={"www-authenticate": CHALLENGE},
        )


def _foreign_host(host: str) -> ProblemError | None:
    name = host[: host.rindex(":")] if _has_port(host) else host
    if not host or is_loopback(name):
        return None
    return ProblemError(
        HTTPStatus.MISDIRECTED_REQUEST,
        "foreign-host",
        f"the header Host = {shortened(host)!r} is not allowed: it must name 127.0.0.1, [::1] or"
        " localhost as long as there is no endpoint.token",
        members={"field": "Host", "value": shortened(host)},
    )


def _has_port(host: str) -> bool:
    return host.rpartition(":")[2].isdecimal() and ":" in host and not host.endswith("]")


def _given_token(header: str) -> bytes:
    scheme, _, value = header.partition(" ")
    return value.strip().encode("latin-1", "replace") if scheme.lower() == "bearer" else b""


def make_app(
    view: ServiceView,
    settings: EndpointSettings,
    *,
    limits: Limits | None = None,
    page_routes: Sequence[Route] = (),
) -> Starlette:
    """Return the application.

    ``limits`` is what requests may cost, if that is not to follow from the settings.
    ``page_routes`` are those of the page, one for each of its files; they set their own content
    security policy. They are public, as nothing in them is secret: the page asks the user for the
    token.
    """
    token = None if settings.token is None else settings.token.get_secret_value()
    limits = limits or Limits(settings.max_body_bytes, settings.max_decoded_bytes)
    table = all_operations(limits)
    public = [item.path for item in table if item.public] + [item.path for item in page_routes]
    app = Starlette(
        routes=[*(route_of(operation, view, limits) for operation in table), *page_routes],
        middleware=[
            Middleware(SecurityHeaders),
            Middleware(Guard, token=token, public=public),
            Middleware(EncodedPaths),
        ],
        exception_handlers={
            ProblemError: _told,
            HTTPException: _told_by_router,
            DamagedRowError: _damaged,
            StoreError: _history_away,
            Exception: _unexpected,
        },
    )
    app.router.redirect_slashes = False
    app.state.live = view.live
    app.state.answered = view.answered
    return app


def all_operations(limits: Limits) -> tuple[Operation, ...]:
    """Return every route but those of the page."""
    table = (
        *api.OPERATIONS,
        *graph.OPERATIONS,
        *live.operations(limits),
        *ingest.operations(limits),
        *acting.operations(limits),
    )
    return (*table, openapi_operation(table, limits))


class SecurityHeaders:
    """Adds the security headers that an answer does not have."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)


class EncodedPaths:
    """Routes by the path as it was sent.

    The name of a field may hold a slash. Decoded before routing, it would be two parts of the path.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its path as it was sent."""
        if scope["type"] == "http" and scope["path"].startswith("/api/"):
            scope = {**scope, "path": scope["raw_path"].partition(b"?")[0].decode("ascii")}
        await self._app(scope, receive, send)


async def _told(_: Request, error: Exception) -> Response:
    return cast(ProblemError, error).response()


async def _told_by_router(request: Request, error: Exception) -> Response:
    """Tell what the router found: no such path, or no such method."""
    found = cast(HTTPException, error)
    if found.status_code == HTTPStatus.NOT_FOUND:
        detail = f"there is nothing at {request.url.path}; /api/v1/openapi.json lists what there is"
    else:
        detail = f"{request.method} {request.url.path}: {found.detail}"
    kind = HTTPStatus(found.status_code).phrase.lower().replace(" ", "-")
    return ProblemError(found.status_code, kind, detail, headers=found.headers).response()


async def _history_away(_: Request, error: Exception) -> Response:
    logger.warning("the history cannot be read: %s", error)
    problem = ProblemError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "history",
        "the history cannot be read now; the log of the service says more",
        headers={"retry-after": "5"},
    )
    return problem.response()


async def _damaged(_: Request, error: Exception) -> Response:
    logger.error("%s", error)
    row = cast(DamagedRowError, error).row
    problem = ProblemError(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "damaged",
        f"{row} is damaged in the history and cannot be shown; what else is there can",
    )
    return problem.response()


async def _unexpected(_: Request, error: Exception) -> Response:
    """Say that it is a mistake of ours; the server logs it in full."""
    problem = ProblemError(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "internal",
        f"the service has made a mistake ({type(error).__name__}); its log says more",
        headers=SECURITY_HEADERS,
    )
    return problem.response()
