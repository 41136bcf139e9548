"""Who may ask: a token, and addresses that are reached from this machine only.

With a token every route needs it, as ``Authorization: Bearer TOKEN``, but those of health and the
files of the page, in which nothing is secret. Without one the endpoint listens on loopback only:
the settings allow no other address.

A page of another site cannot get in through the user's browser either: requests that name another
host are refused (a name can be made to point here), there are no CORS headers, and records are not
taken in a content type that a browser sends without asking first.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from driftbn_service.http.problems import ProblemError, shortened
from driftbn_service.settings import is_loopback

CHALLENGE = 'Bearer realm="driftbn"'
"""What a client without a token is told to send; of a browser's own question there is no need."""


class Guard:
    """Lets only those in that may ask.

    Parameters
    ----------
    app
        What answers them.
    token
        The secret, or ``None`` to let in whoever names a loopback host.
    public
        Paths that anybody may ask for.
    """

    def __init__(self, app: ASGIApp, token: str | None, public: Collection[str]) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._public = frozenset(public)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
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
