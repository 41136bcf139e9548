"""The application: routes, who may ask, and how errors are told."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import cast

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from driftbn_service.http import api, graph, ingest, live
from driftbn_service.http.auth import Guard
from driftbn_service.http.limits import Limits
from driftbn_service.http.problems import ProblemError
from driftbn_service.http.routes import Operation, openapi_operation, route_of
from driftbn_service.http.service import ServiceView
from driftbn_service.settings import EndpointSettings
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


def make_app(
    view: ServiceView,
    settings: EndpointSettings,
    *,
    limits: Limits | None = None,
    page_routes: Sequence[Route] = (),
) -> Starlette:
    """Return the application.

    Parameters
    ----------
    view
        The service.
    settings
        Address, token and limits.
    limits
        What requests may cost, if it is not to follow from the settings.
    page_routes
        Routes of the page, one for each of its files; they set their own content security policy.
        They are public, as nothing in them is secret: the page asks the user for the token.
    """
    token = None if settings.token is None else settings.token.get_secret_value()
    limits = limits or limits_of(settings)
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
    return app


def limits_of(settings: EndpointSettings) -> Limits:
    """Return the limits that the settings name, with the usual ones beside them."""
    return Limits(settings.max_body_bytes, settings.max_decoded_bytes)


def all_operations(limits: Limits) -> tuple[Operation, ...]:
    """Return every route but those of the page."""
    table = (
        *api.OPERATIONS,
        *graph.OPERATIONS,
        *live.operations(limits),
        *ingest.operations(limits),
    )
    return (*table, openapi_operation(table, limits))


class SecurityHeaders:
    """Adds the security headers that an answer does not have."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and its answer back with more headers."""

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
