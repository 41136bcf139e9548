"""The endpoint on a socket: uvicorn in a thread of its own."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import threading
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from driftbn.errors import DriftbnError
from service.settings import EndpointSettings

logger = logging.getLogger("driftbn.service.endpoint")

MAX_HEAD_BYTES = 32 << 10
"""Longest first line and headers; a path can hold two names of fields with percent signs."""
HEAD_SECONDS = 10.0
"""Time for sending the headers of a request, and for the rest of a body that nobody wants."""
MAX_CONNECTIONS = 512
"""Connections at a time; further ones get 503."""
_START_SECONDS = 30.0  # a machine under load; usually it takes milliseconds
_PROBLEMS = {
    errno.EADDRINUSE: "the port is in use: choose another endpoint.port, or 0 for any free one, or"
    " stop what listens there",
    errno.EACCES: "there is no permission for this port: choose an endpoint.port above 1023",
    errno.EADDRNOTAVAIL: "this machine has no such address: choose another endpoint.host",
}


class EndpointError(DriftbnError):
    """The endpoint cannot listen, or does not stop.

    Attributes
    ----------
    address, problem
        Where, and what is wrong or what to do.
    """

    def __init__(self, address: str, problem: str) -> None:
        self.address = address
        self.problem = problem
        super().__init__(f"endpoint {address}: {problem}")


class EndpointServer:
    """Serves an application until it is stopped; signals are left to others.

    Parameters
    ----------
    app
        From ``make_app``.
    settings
        Where to listen; port 0 takes a free one.
    head_seconds
        Time for sending the headers of a request.

    Attributes
    ----------
    address
        Where it listens, as a browser takes it: ``http://127.0.0.1:9464``.
    """

    def __init__(
        self, app: Starlette, settings: EndpointSettings, *, head_seconds: float = HEAD_SECONDS
    ) -> None:
        self.address = _url(settings.host, settings.port)
        self._place = settings.host, settings.port
        self._app = app
        self._server = _Server(_config(app, head_seconds))
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Bind the address and return when requests are answered.

        Raises
        ------
        EndpointError
            If that is not possible.
        """
        listener = _listener(*self._place)
        self.address = _url(self._place[0], listener.getsockname()[1])
        self._thread = threading.Thread(
            target=self._server.serve_on, args=(listener,), name="endpoint", daemon=True
        )
        _adopt_loggers()
        self._thread.start()
        if not self._server.settled.wait(_START_SECONDS) or not self._server.started:
            raise EndpointError(self.address, "the server did not start; the log says why")
        logger.info("endpoint listens on %s", self.address)

    def stop(self, deadline: float) -> None:
        """Let running requests end and stop; live streams are ended at once.

        Parameters
        ----------
        deadline
            Seconds after which running requests are cut off.

        Raises
        ------
        EndpointError
            If the thread is still there long after.
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
    """Tells another thread when it has started, or has failed to."""

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
        self.settled.set()


class _GuardedProtocol(H11Protocol):
    """Closes a connection that takes too long between requests or over headers.

    The protocol itself closes only a connection that sends nothing at all after an answer.
    """

    head_seconds = HEAD_SECONDS
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._be_patient()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._patience is not None:
            self._patience.cancel()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._be_patient()

    def _be_patient(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self._patience = self.loop.call_later(self.head_seconds, self._lose_patience)

    def _lose_patience(self) -> None:
        idle = self.cycle is None or self.cycle.response_complete
        if idle and not self.transport.is_closing():
            self.transport.close()


class _Adopted(logging.Handler):
    """Hands records of a foreign logger to ours."""

    def emit(self, record: logging.LogRecord) -> None:
        if logger.isEnabledFor(record.levelno):
            logger.handle(record)


def _adopt_loggers() -> None:
    """Send warnings and errors of uvicorn through our logger, and nothing anywhere else."""
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        foreign = logging.getLogger(name)
        foreign.handlers = [_Adopted()] if name == "uvicorn.error" else []
        foreign.setLevel(logging.WARNING)
        foreign.propagate = False


def _config(app: Starlette, head_seconds: float) -> uvicorn.Config:
    protocol: Any = type("GuardedProtocol", (_GuardedProtocol,), {"head_seconds": head_seconds})
    return uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
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
