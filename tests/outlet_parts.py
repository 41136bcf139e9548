"""Events, and a receiver of them over a real socket, for tests of outlets."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from driftbn_service.events import Event, EventType, event_id
from driftbn_service.outlets.base import NO_LINKS, Links, OutletError  # noqa: F401

HOST = "127.0.0.1"


def make_event(
    window: int = 0,
    type_: EventType = EventType.DRIFT_STARTED,
    *,
    key: str = "",
    time: str | None = None,
    **data: Any,
) -> Event:
    """Return an event as the service makes them."""
    id_ = event_id("orders", key, window, type_)
    known: dict[str, Any] = {
        "stream": "orders",
        "key": key,
        "window": window,
        "rows": 100,
        "first_record": 100 * window,
        "last_record": 100 * window + 99,
        "headline": f"Drift in orders: 'x' changed in window {window}.",
        "sentences": ["It changed.", "Über Nacht."],
        "advice": ["Look."],
        "episode": 2,
        "kind": "structural",
        "edges": [{"source": "x", "target": "y", "change": "added", "directed": True}],
        "nodes": [],
        "p_value": 0.001,
        "target_touch": None,
        "since_time": None,
        "since_window": window,
    }
    document: dict[str, Any] = {
        "specversion": "1.0",
        "id": id_,
        "type": type_.value,
        "source": "/streams/orders",
        "subject": "episodes/2",
        "partitionkey": "orders",
    }
    if time is not None:
        document["time"] = time
    document["data"] = known | data
    return Event(id_, type_.value, "orders", key, window, document)


@dataclass(frozen=True)
class Request:
    path: str
    headers: Message
    body: bytes = field(repr=False)

    @property
    def document(self) -> Any:
        return json.loads(self.body)


Answer = Callable[[BaseHTTPRequestHandler], None]
"""What a receiver does when it has read a request."""


def answer(status: int, **headers: str) -> Answer:
    """Answer with a status and headers; ``_`` in a name stands for ``-``."""

    def send(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        body = b"" if status == HTTPStatus.NO_CONTENT else b"ok"
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return send


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True


def break_off(handler: BaseHTTPRequestHandler) -> None:
    """Answer 200, promise a long body, and reset the connection in its middle."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b"only a part")
    handler.wfile.flush()
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True


class Receiver:
    """An HTTP server that answers as told and remembers every request."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.port = int(server.server_address[1])
        self.requests: list[Request] = []
        self.answers: list[Answer] = []
        """For the next requests; when they are used up, 204."""

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/hook/secret-path"

    @property
    def ids(self) -> list[str]:
        return [request.document["id"] for request in self.requests]


@contextmanager
def receiver(answers: Sequence[Answer] = (), port: int = 0) -> Iterator[Receiver]:
    """Run a receiver on a free port, or on a given one."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.requests.append(Request(self.path, self.headers, body))
            respond = found.answers.pop(0) if found.answers else no_content
            respond(self)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer((HOST, port), Handler)
    server.daemon_threads = True
    found = Receiver(server)
    found.answers = list(answers)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def no_content(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(204)
    handler.end_headers()
