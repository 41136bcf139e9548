"""The endpoint: the application, and uvicorn that serves it in a thread of its own.

With a token every route needs it, as ``Authorization: Bearer TOKEN``, but those of health and the
files of the page, in which nothing is secret. Without one the endpoint listens on loopback only:
the settings allow no other address.

A page of another site cannot get in through the user's browser either: requests that name another
host are refused (a name can be made to point here), there are no CORS headers, and records are not
taken in a content type that a browser sends without asking first.

Whoever can connect can open connections and leave it at that, or send and read a byte now and then.
So every connection has to move: it is closed when its client owes the same head of a request, or
has the same bytes of an answer unread, at two looks ``HEAD_SECONDS`` apart; bodies have their own
rule (``Reception``). And a place is never refused to a newcomer, which may be a liveness probe: the
connection that has been silent for longest makes room.

What is used of uvicorn beyond its documentation is three names of ``H11Protocol``: ``conn``,
``transport`` and ``send_400_response``.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import logging
import resource
import socket
import struct
import threading
import time
from collections.abc import Collection, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, cast

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from driftbn.errors import DriftbnError
from driftbn_service.http import ServiceView, acting, api, graph, ingest, live
from driftbn_service.http.routes import (
    MIN_RATE,
    RETRY_SECONDS,
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

# --- The application: routes, who may ask, and how errors are told ---

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
    app.state.answered = view.metrics.answered
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


# --- The application on a socket ---

MAX_HEAD_BYTES = 32 << 10
"""Longest first line and headers; a path can hold two names of fields with percent signs."""
MAX_HEADERS = 100
"""Most headers of a request."""
HEAD_SECONDS = 10.0
"""Seconds between two looks at a connection: so long, or twice that, has a client time for the
headers of a request and for the rest of a body that nobody wants, and it must read ``MIN_RATE``
bytes a second of its answer."""
MAX_CONNECTIONS = 512
"""Connections at a time; fewer if the process may not have four times as many files open."""
MAX_UNREAD_BYTES = 64 << 20
"""What clients may leave unread of their answers, all of them together."""
BACKLOG = 2048
"""Connections that the kernel keeps until they are accepted."""
MAX_ACCEPTS = 128
"""Connections that are accepted in one go."""
MIN_CHUNK_BYTES = 32
"""Least mean size of the chunks of a body after the first ``FREE_CHUNKS``: one of a byte takes 25
microseconds of the event loop, a body of 32 MB a quarter of an hour."""
FREE_CHUNKS = 4096
WARN_SECONDS = 60.0
"""Least time between two warnings that there are too many connections."""
_START_SECONDS = 30.0  # a machine under load; usually it takes milliseconds
_PROBLEMS = {
    errno.EADDRINUSE: "the port is in use: choose another endpoint.port, or 0 for any free one, or"
    " stop what listens there",
    errno.EACCES: "there is no permission for this port: choose an endpoint.port above 1023",
    errno.EADDRNOTAVAIL: "this machine has no such address: choose another endpoint.host",
}


class EndpointError(DriftbnError):
    """The endpoint cannot listen, or does not stop. ``problem`` is what is wrong or what to do."""

    def __init__(self, address: str, problem: str) -> None:
        self.address = address
        self.problem = problem
        super().__init__(f"endpoint {address}: {problem}")


class EndpointServer:
    """Serves an application until it is stopped; signals are left to others.

    Port 0 takes a free one. A client has ``head_seconds`` for sending the headers of a request.
    ``max_connections`` is ``MAX_CONNECTIONS`` unless given, or fewer if the process may have few
    files open. ``address`` is where it listens, as a browser takes it: ``http://127.0.0.1:9464``.
    """

    def __init__(
        self,
        app: Starlette,
        settings: EndpointSettings,
        *,
        head_seconds: float = HEAD_SECONDS,
        max_connections: int | None = None,
    ) -> None:
        self.address = _url(settings.host, settings.port)
        self._place = settings.host, settings.port
        self._app = app
        self._server = _Server(_config(app, head_seconds, max_connections or _places()))
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Bind the address and return when requests are answered.

        Raises ``EndpointError`` if that is not possible.
        """
        listener = _listener(*self._place)
        self.address = _url(self._place[0], listener.getsockname()[1])
        self._thread = threading.Thread(
            target=self._server.serve_on, args=(listener,), name="endpoint", daemon=True
        )
        self._thread.start()
        if not self._server.settled.wait(_START_SECONDS) or not self._server.started:
            raise EndpointError(self.address, "the server did not start; the log says why")
        logger.info("endpoint listens on %s", self.address)

    def stop(self, deadline: float) -> None:
        """Let running requests end and stop; live streams are ended at once.

        Running requests are cut off after ``deadline`` seconds. Raises ``EndpointError`` if the
        thread is still there long after.
        """
        if self._thread is None:
            return
        live = getattr(self._app.state, "live", None)
        if live is not None:
            live.close()
        self._server.config.timeout_graceful_shutdown = max(0, deadline)  # type: ignore[assignment]
        self._server.should_exit = True
        self._thread.join(deadline + _START_SECONDS)
        if self._thread.is_alive():
            raise EndpointError(self.address, "the server does not stop")
        self._thread = None


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.settled = threading.Event()

    def serve_on(self, listener: socket.socket) -> None:
        try:
            self.run(sockets=[listener])
        finally:
            self.settled.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(BACKLOG)  # asyncio has one number for this and for MAX_ACCEPTS
        self.settled.set()


class _Requests(h11.Connection):
    """Reads requests, but none whose head or chunks are out of proportion.

    h11 bounds only events that are not complete yet: headers without number pass if they come in
    one read.
    """

    def __init__(self) -> None:
        super().__init__(h11.SERVER, MAX_HEAD_BYTES)
        self.n_begun = 0
        self.refusal: h11.RemoteProtocolError | None = None
        self.refused_head = False
        self._n_chunks = self._n_bytes = 0

    @property
    def unanswered(self) -> bool:
        """Whether there is a request whose answer is not complete."""
        return self.our_state in (h11.SEND_RESPONSE, h11.SEND_BODY)

    @property
    def at_work(self) -> bool:
        """Whether there is one of which nothing is to come any more."""
        return self.unanswered and self.their_state is not h11.SEND_BODY

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Return what came next. Raises ``h11.RemoteProtocolError`` if it is not allowed."""
        awaits_head = self.their_state is h11.IDLE
        try:
            event = super().next_event()
            if isinstance(event, h11.Request):
                self._begin(event)
            elif isinstance(event, h11.Data):
                self._count(event)
        except h11.RemoteProtocolError as error:
            self.refusal, self.refused_head = error, awaits_head
            raise
        return event

    def _begin(self, request: h11.Request) -> None:
        if len(request.headers) > MAX_HEADERS or _n_bytes(request) > MAX_HEAD_BYTES:
            raise h11.RemoteProtocolError(
                f"at most {MAX_HEADERS} headers, and {MAX_HEAD_BYTES} bytes with the first line",
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            )
        self.n_begun += 1
        self._n_chunks = self._n_bytes = 0

    def _count(self, data: h11.Data) -> None:
        self._n_chunks += data.chunk_start
        self._n_bytes += len(data.data)
        if self._n_chunks > FREE_CHUNKS + self._n_bytes // MIN_CHUNK_BYTES:
            raise h11.RemoteProtocolError(
                f"chunks of less than {MIN_CHUNK_BYTES} bytes: send several records in one"
            )


def _n_bytes(request: h11.Request) -> int:
    lines = sum(len(name) + len(value) + 4 for name, value in request.headers)
    return len(request.method) + len(request.target) + lines


class _Connections:
    """The open connections, the one that has been silent for longest first.

    A limit at which newcomers are refused would let anybody shut out everybody, the supervisor's
    probe too, by holding connections open. Limits for each address are of no use behind a proxy.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: dict[_Connection, None] = {}
        self._warn_again = 0.0

    def hear(self, connection: _Connection) -> None:
        """Put a connection last; a new one may take the place of the first that is not at work."""
        self.forget(connection)
        self._open[connection] = None
        if len(self._open) > self._limit:
            idle = (item for item in self._open if not item.requests.at_work)
            self._drop(next(idle, next(iter(self._open))))
            self._warn()

    def forget(self, connection: _Connection) -> None:
        self._open.pop(connection, None)

    def bound_unread(self, newest: _Connection) -> None:
        """Drop connections for what their clients have not read, but not the newest."""
        unread = [item for item in self._open if item.n_unread and item is not newest]
        n_unread = newest.n_unread + sum(item.n_unread for item in unread)
        for item in unread:
            if n_unread > MAX_UNREAD_BYTES:
                n_unread -= item.n_unread
                self._drop(item)

    def _drop(self, connection: _Connection) -> None:
        self.forget(connection)
        connection.give_up()

    def _warn(self) -> None:
        now = time.monotonic()
        if now >= self._warn_again:
            self._warn_again = now + WARN_SECONDS
            logger.warning(
                "%d connections are open, and no more at a time: the one that has been silent for"
                " longest is closed for each new one",
                self._limit,
            )


class _Connection(H11Protocol):
    """A connection whose client has to move on. It is looked at every ``look_seconds``."""

    def __init__(self, connections: _Connections, look_seconds: float, **uvicorns: Any) -> None:
        super().__init__(**uvicorns)
        self.conn = self.requests = _Requests()
        self._all = connections
        self._look_seconds = look_seconds
        self._owed: tuple[int, int] | None = None
        self._look: asyncio.TimerHandle | None = None

    @property
    def n_unread(self) -> int:
        """Bytes of answers that wait for the client to read on."""
        return self.transport.get_write_buffer_size()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._all.hear(self)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._all.forget(self)
        if self._look is not None:
            self._look.cancel()

    def data_received(self, data: bytes) -> None:
        self._all.hear(self)
        if self.requests.refusal is None:
            super().data_received(data)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._all.bound_unread(self)

    def send_400_response(self, msg: str) -> None:
        """Refuse with the status and the reason that h11 has."""
        refusal = self.requests.refusal
        assert refusal is not None, msg
        if self.requests.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.give_up()  # there is an answer already, or half of one
            return
        status = HTTPStatus(refusal.error_status_hint)
        headers = [("content-type", "text/plain; charset=utf-8"), ("connection", "close")]
        for event in (
            h11.Response(status_code=status, headers=headers, reason=status.phrase),
            h11.Data(data=f"{shortened(str(refusal))}\n".encode()),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        if self.requests.refused_head:
            self.transport.write_eof()  # closed at once, it might be lost to a client still sending
        else:
            super().connection_lost(None)  # for the application, which would answer too

    def give_up(self) -> None:
        """Close the connection without waiting for anything."""
        if self.n_unread:
            # Nor is the kernel to keep what it has.
            connection = self.transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _watch(self) -> None:
        """Look at the connection now and again later, unless nothing has moved since last time."""
        owed = self._owes()
        if owed is not None and owed == self._owed:
            self.give_up()
            return
        self._owed = owed
        self._look = self.loop.call_later(self._look_seconds, self._watch)

    def _owes(self) -> tuple[int, int] | None:
        """Return what the client has to do: send which request, and read how much of answers."""
        n_steps = -(-self.n_unread // int(MIN_RATE * self._look_seconds))
        if self.requests.unanswered and not n_steps:
            return None
        return self.requests.n_begun, n_steps


class _Answers:
    """Runs an application for a bounded number of requests at a time, health apart.

    Those are not counted that wait for their client: for its body, or until it goes away.
    """

    def __init__(self, app: Starlette, limit: int) -> None:
        self._app = app
        self._limit = limit
        self._n_running = 0  # only the event loop counts
        self._answered = getattr(app.state, "answered", None)  # told of each answer, if it is there

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        send = self._counted(scope["path"], send)
        if self._n_running >= self._limit and scope["path"] not in api.ALWAYS_ANSWERED:
            await _busy(self._limit).response()(scope, receive, send)
            return
        self._n_running += 1
        try:
            await self._app(scope, partial(self._received, receive), send)
        finally:
            self._n_running -= 1

    def _counted(self, path: str, send: Send) -> Send:
        """Return what sends an answer and has it counted by its status."""

        async def counting(message: Message) -> None:
            if self._answered and message["type"] == "http.response.start":
                self._answered(kind_of_route(path), message["status"])
            await send(message)

        return counting

    async def _received(self, receive: Receive) -> Message:
        self._n_running -= 1
        try:
            return await receive()
        finally:
            self._n_running += 1


def kind_of_route(path: str) -> str:
    """Return what kind of route a path is, of ``metrics.ROUTES``.

    >>> kind_of_route("/api/v1/streams/orders/records"), kind_of_route("/-/ready")
    ('records', 'health')
    """
    if path.startswith("/api/"):
        return "records" if path.endswith("/records") else "api"
    if path.startswith("/-/"):
        return "health"
    return "metrics" if path == "/metrics" else "page"


def _busy(limit: int) -> ProblemError:
    return ProblemError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "busy",
        f"{limit} requests are being answered, and no more at a time",
        headers={"retry-after": str(RETRY_SECONDS)},
    )


def _places() -> int:
    """Return how many connections there is room for.

    Some are accepted in one go, and twice as many again before the first have cost others their
    places: for a moment there are two and a half times as many. The rest is for files.
    """
    n_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if n_files == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(1, min(MAX_CONNECTIONS, n_files // 4))


def _config(app: Starlette, head_seconds: float, max_connections: int) -> uvicorn.Config:
    connection: Any = partial(_Connection, _Connections(max_connections), head_seconds)
    return uvicorn.Config(
        _Answers(app, max(1, max_connections // 4)),
        http=connection,
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=max(1, min(MAX_ACCEPTS, max_connections // 2)),
    )


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _listener(host: str, port: int) -> socket.socket:
    """Return a socket that is bound; everything that can go wrong goes wrong here."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        problem = f"the host is unknown ({error.strerror}): choose another endpoint.host"
        raise EndpointError(_url(host, port), problem) from error
    family, kind, protocol, _, place = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        # A port that a stopped daemon has just left can be taken again at once.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen()
    except OSError as error:
        listener.close()
        problem = _PROBLEMS.get(error.errno or 0, error.strerror or str(error))
        raise EndpointError(_url(host, port), problem) from error
    return listener
