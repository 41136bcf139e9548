"""The endpoint's server on a real socket, with an application that only shows what it is asked."""

from __future__ import annotations

import inspect
import logging
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
import urllib3
from driftbn_service.http import server as server_module
from driftbn_service.settings import EndpointSettings
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from tests.http_client import connected
from tests.http_service import (
    FREE_CHUNKS,
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    EndpointError,
    EndpointServer,
)

HEAD_SECONDS = 0.5
GATE_SECONDS = 20.0
PLACES = 40
HEALTH = ("/-/healthy", "/-/ready", "/metrics")
LARGE = b"x" * (16 << 20)
"""More than a kernel keeps for a client that does not read."""


class Gate:
    """A route that waits until the test lets it go on."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.arrivals = threading.Semaphore(0)
        self.opened = threading.Event()

    def __call__(self, _: Request) -> Response:
        self.entered.set()
        self.arrivals.release()
        self.opened.wait(GATE_SECONDS)
        return PlainTextResponse("late")


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.some = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
        self.some.set()


async def hello(_: Request) -> Response:
    return PlainTextResponse("hello")


async def fail(_: Request) -> Response:
    raise RuntimeError("on purpose")


async def large(_: Request) -> Response:
    return Response(LARGE)


async def measure(request: Request) -> Response:
    try:
        return PlainTextResponse(str(len(await request.body())))
    except ClientDisconnect:
        return PlainTextResponse("gone")


@pytest.fixture
def logged() -> Iterator[Kept]:
    handler, logger = Kept(), logging.getLogger()  # where all lines of the service come out
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


@pytest.fixture
def gate() -> Gate:
    return Gate()


def app_of(gate: Gate) -> Starlette:
    def wait(request: Request) -> Response:
        return gate(request)

    return Starlette(
        routes=[
            Route("/", hello),
            Route("/wait", wait),
            Route("/fail", fail),
            Route("/large", large),
            Route("/measure", measure, methods=["POST"]),
            *(Route(path, hello) for path in HEALTH),
        ]
    )


@contextmanager
def running(gate: Gate, **more: float) -> Iterator[EndpointServer]:
    server = EndpointServer(app_of(gate), EndpointSettings(port=0), **more)  # type: ignore[arg-type]
    server.start()
    yield server
    gate.opened.set()
    server.stop(5)


@pytest.fixture
def server(gate: Gate) -> Iterator[EndpointServer]:
    with running(gate, head_seconds=HEAD_SECONDS) as server:
        yield server


@pytest.fixture
def small(gate: Gate) -> Iterator[EndpointServer]:
    """A server with few places and much patience."""
    with running(gate, head_seconds=60.0, max_connections=PLACES) as server:
        yield server


def rest_of(connection: socket.socket) -> bytes:
    """Return all that comes until the other side closes."""
    found = b""
    while block := connection.recv(65536):
        found += block
    return found


def up_to(end: bytes, connection: socket.socket) -> bool:
    """Return whether this comes before the other side closes."""
    found = b""
    while not found.endswith(end) and (block := connection.recv(65536)):
        found += block
    return found.endswith(end)


def test_a_port_in_use_is_told_with_what_to_do(server: EndpointServer) -> None:
    port = int(server.address.rpartition(":")[2])
    second = EndpointServer(Starlette(), EndpointSettings(port=port))

    with pytest.raises(EndpointError, match=f"127.0.0.1:{port}: the port is in use: choose") as got:
        second.start()

    assert got.value.address == server.address
    second.stop(1)


@pytest.mark.parametrize(
    ("host", "problem"),
    [("203.0.113.7", "no such address"), ("no-such-host.invalid", "the host is unknown")],
)
def test_an_address_that_is_not_ours_is_told(host: str, problem: str) -> None:
    settings = EndpointSettings(host=host, port=0, token=SecretStr("secret" * 6))
    server = EndpointServer(Starlette(), settings)

    with pytest.raises(EndpointError, match=problem):
        server.start()


def test_ipv6_is_served_and_written_in_brackets() -> None:
    server = EndpointServer(
        Starlette(routes=[Route("/", hello)]), EndpointSettings(host="::1", port=0)
    )
    try:
        server.start()
    except EndpointError as error:
        pytest.skip(str(error))
    try:
        assert server.address.startswith("http://[::1]:")
        assert urllib3.request("GET", server.address).data == b"hello"
    finally:
        server.stop(5)


def test_signal_handlers_are_left_alone(server: EndpointServer) -> None:
    assert urllib3.request("GET", server.address).status == 200
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_stopping_waits_for_a_request_that_runs(server: EndpointServer, gate: Gate) -> None:
    answers: list[bytes] = []
    client = threading.Thread(
        target=lambda: answers.append(urllib3.request("GET", f"{server.address}/wait").data)
    )
    client.start()
    assert gate.entered.wait(10)
    stopper = threading.Thread(target=server.stop, args=(10,))
    stopper.start()
    gate.opened.set()
    stopper.join(15)
    client.join(15)

    assert answers == [b"late"]
    with pytest.raises(OSError, match="refused"):
        connected(server)


def test_stopping_cuts_off_a_request_that_runs_past_the_deadline(
    server: EndpointServer, gate: Gate
) -> None:
    with connected(server) as connection:
        connection.sendall(b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert gate.entered.wait(10)
        began = time.monotonic()
        server.stop(0.2)

    assert time.monotonic() - began < GATE_SECONDS / 2
    gate.opened.set()


def test_headers_that_never_end_are_cut_off(server: EndpointServer) -> None:
    with connected(server) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX-A: ")
        began = time.monotonic()
        assert rest_of(connection) == b""

    assert time.monotonic() - began >= HEAD_SECONDS / 2


def test_a_client_that_drips_headers_is_cut_off(server: EndpointServer) -> None:
    with connected(server) as connection:
        connection.settimeout(0.05)
        deadline = time.monotonic() + 20
        closed = False
        while not closed and time.monotonic() < deadline:
            try:
                connection.sendall(b"X")
                closed = connection.recv(1) == b""
            except TimeoutError:
                continue
            except OSError:
                closed = True

    assert closed


def test_a_head_that_is_too_long_is_refused(server: EndpointServer) -> None:
    with connected(server) as connection:
        connection.sendall(b"GET /" + b"a" * (MAX_HEAD_BYTES + 1) + b" HTTP/1.1\r\n")
        assert rest_of(connection).startswith(b"HTTP/1.1 431")


def head_of(headers: list[bytes]) -> bytes:
    return b"GET / HTTP/1.1\r\n" + b"\r\n".join(headers) + b"\r\n\r\n"


HEADS = {
    "one too many": [b"X-%d: 1" % i for i in range(MAX_HEADERS + 1)],
    "ten thousand": [b"X-%d: 1" % i for i in range(10_000)],
    "long ones": [b"X-%d: %s" % (i, b"a" * 1000) for i in range(50)],
}


@pytest.mark.parametrize("piece", [1 << 20, 1000], ids=["at once", "in pieces"])
@pytest.mark.parametrize("headers", HEADS.values(), ids=HEADS)
def test_too_many_headers_are_refused(
    server: EndpointServer, headers: list[bytes], piece: int
) -> None:
    head = head_of([b"Host: localhost", b"Connection: close", *headers])
    with connected(server) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(head), piece):
            connection.sendall(head[start : start + piece])
        assert rest_of(connection).startswith(b"HTTP/1.1 431")


def test_as_many_headers_as_allowed_are_taken(server: EndpointServer) -> None:
    headers = [b"Host: localhost", b"Connection: close"]
    headers += [b"X-%d: 1" % i for i in range(MAX_HEADERS - len(headers))]
    with connected(server) as connection:
        connection.sendall(head_of(headers))
        assert rest_of(connection).startswith(b"HTTP/1.1 200")


def test_what_is_no_http_is_refused(server: EndpointServer) -> None:
    with connected(server) as connection:
        connection.sendall(b"\x16\x03\x01 this is TLS\r\n\r\n")
        assert rest_of(connection).startswith(b"HTTP/1.1 400")


def test_the_rest_of_an_unwanted_body_does_not_keep_a_connection(server: EndpointServer) -> None:
    with connected(server) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999\r\n\r\nx")
        assert b"405" in rest_of(connection)


def test_a_mistake_is_logged_by_the_service_and_not_shown(
    server: EndpointServer, logged: Kept
) -> None:
    answer = urllib3.request("GET", f"{server.address}/fail")

    assert answer.status == 500
    assert b"on purpose" not in answer.data
    assert logged.some.wait(10)  # the answer goes out first
    assert "on purpose" in logging.Formatter().format(logged.records[0])


def test_answers_do_not_name_the_server(server: EndpointServer) -> None:
    assert "server" not in urllib3.request("GET", server.address).headers


def test_the_port_is_free_again_after_a_stop(server: EndpointServer) -> None:
    urllib3.request("GET", server.address)
    port = int(server.address.rpartition(":")[2])
    server.stop(5)
    again = EndpointServer(Starlette(routes=[Route("/", hello)]), EndpointSettings(port=port))
    again.start()
    try:
        assert urllib3.request("GET", again.address).data == b"hello"
    finally:
        again.stop(5)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may use any port")
def test_a_port_without_permission_is_told() -> None:
    with pytest.raises(EndpointError, match="above 1023"):
        EndpointServer(Starlette(), EndpointSettings(port=1)).start()


# --- Clients that mean no good ---

POST = b"POST /measure HTTP/1.1\r\nHost: localhost\r\n"
ATTACKS = {
    "idle": b"",
    "half a head": b"GET / HTTP/1.1\r\nX-A: ",
    "kept alive": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "half a body": POST + b"Content-Length: 99\r\n\r\nx",
    "half a chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n9\r\nx",
    "no body": POST + b"Expect: 100-continue\r\nContent-Length: 99\r\n\r\n",
    "unread": b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


def answer_of(server: EndpointServer, path: str = "/") -> urllib3.BaseHTTPResponse:
    return urllib3.request("GET", server.address + path, retries=False, timeout=20)


def closed_unread(connection: socket.socket) -> bool:
    """Wait until the other side has closed a connection, without reading from it."""
    watch = select.poll()
    watch.register(connection, 0)  # errors and the end are told in any case
    return bool(watch.poll(20_000))


@contextmanager
def attackers(server: EndpointServer, sent: bytes, n_clients: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        found = []
        for _ in range(n_clients):
            found.append(stack.enter_context(connected(server)))
            found[-1].sendall(sent)
        yield found


@pytest.mark.parametrize("sent", ATTACKS.values(), ids=ATTACKS)
def test_held_connections_do_not_keep_health_from_being_answered(
    small: EndpointServer, sent: bytes
) -> None:
    with attackers(small, sent, 2 * PLACES):
        assert [answer_of(small, path).status for path in (*HEALTH, "/")] == [200] * 4


def test_requests_at_work_do_not_keep_health_from_being_answered(
    small: EndpointServer, gate: Gate
) -> None:
    n_allowed = PLACES // 4
    with attackers(small, b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n", n_allowed):
        for _ in range(n_allowed):
            assert gate.arrivals.acquire(timeout=20)
        refused = answer_of(small)
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert [answer_of(small, path).status for path in HEALTH] == [200] * 3
        gate.opened.set()


def test_a_request_at_work_keeps_its_place(small: EndpointServer, gate: Gate) -> None:
    with connected(small) as worked_on:
        worked_on.sendall(b"GET /wait HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert gate.entered.wait(20)
        with attackers(small, b"", 2 * PLACES):
            assert answer_of(small).status == 200
        gate.opened.set()
        assert rest_of(worked_on).endswith(b"late")


def test_the_connection_that_was_silent_for_longest_makes_room(small: EndpointServer) -> None:
    with connected(small) as silent, connected(small) as talking:
        talking.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert up_to(b"hello", talking)
        with attackers(small, b"", PLACES - 1):
            assert rest_of(silent) == b""
            talking.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert up_to(b"hello", talking)


def test_an_answer_that_is_not_read_is_given_up(server: EndpointServer) -> None:
    with connected(server) as connection:
        connection.sendall(ATTACKS["unread"])
        assert closed_unread(connection)


def test_an_answer_that_is_read_at_leisure_is_sent_to_its_end(server: EndpointServer) -> None:
    with connected(server) as connection:
        connection.sendall(ATTACKS["unread"].replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        n_bytes, pause = 0, threading.Event()
        while block := connection.recv(1 << 20):
            n_bytes += len(block)
            pause.wait(HEAD_SECONDS / 10)
    assert n_bytes > len(LARGE)


def test_answers_that_are_not_read_take_a_bounded_memory(
    small: EndpointServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "MAX_UNREAD_BYTES", len(LARGE) + (1 << 20))
    with attackers(small, ATTACKS["unread"], 1) as (unread,):
        assert select.select([unread], [], [], 20)[0]
        with attackers(small, ATTACKS["unread"], 1):
            assert closed_unread(unread)
            assert answer_of(small, "/large").data == LARGE


def test_a_body_of_tiny_chunks_is_refused(server: EndpointServer) -> None:
    with connected(server) as connection:
        connection.sendall(POST + b"Transfer-Encoding: chunked\r\n\r\n")
        connection.sendall(b"1\r\nx\r\n" * (2 * FREE_CHUNKS) + b"0\r\n\r\n")
        assert rest_of(connection).startswith(b"HTTP/1.1 400")


def test_a_body_in_a_chunk_a_record_is_taken(server: EndpointServer) -> None:
    blocks = (b'{"temperature": %06d, "place": 1}\n' % i for i in range(2 * FREE_CHUNKS))

    answer = urllib3.request("POST", f"{server.address}/measure", body=blocks, timeout=20)

    assert answer.status == 200


@pytest.mark.parametrize("path", [b"/", b"/measure", b"/wait"])
def test_a_broken_body_is_a_mistake_of_the_client(
    server: EndpointServer, gate: Gate, path: bytes
) -> None:
    """Answered already, waited for, or not looked at: nothing is logged as our mistake."""
    foreign, ours = logging.getLogger("asyncio"), logging.getLogger("driftbn.service")
    kept = Kept()
    kept.setLevel(logging.ERROR)
    for logger in (foreign, ours):
        logger.addHandler(kept)
    try:
        with connected(server) as connection:
            head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
            connection.sendall(head % path + b"1\r\nx\r\n")
            connection.sendall(b"this is no chunk\r\n")
            assert rest_of(connection).startswith(b"HTTP/1.1 4")
        gate.opened.set()
        server.stop(5)
    finally:
        for logger in (foreign, ours):
            logger.removeHandler(kept)
    assert [record.getMessage() for record in kept.records] == []


FEW_FILES = """
import resource, sys
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from driftbn_service.http.server import EndpointServer
from driftbn_service.settings import EndpointSettings

async def healthy(_):
    return PlainTextResponse("healthy")

resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
app = Starlette(routes=[Route("/-/healthy", healthy)])
server = EndpointServer(app, EndpointSettings(port=0), head_seconds=60.0)
server.start()
print(server.address, flush=True)
sys.stdin.read()
"""


def test_connections_do_not_use_up_the_files_of_the_process() -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 700:
        pytest.skip("too few files for the clients")
    command = [sys.executable, "-c", FEW_FILES]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process, ExitStack() as stack:  # type: ignore[call-overload]
        address = process.stdout.readline().strip()
        place = address.removeprefix("http://").split(":")
        for _ in range(600):
            connection = stack.enter_context(socket.socket())
            connection.setblocking(False)
            connection.connect_ex((place[0], int(place[1])))
        answer = urllib3.request("GET", f"{address}/-/healthy", retries=False, timeout=20)
        process.communicate("")
    assert answer.data == b"healthy"


def test_uvicorn_still_has_what_the_server_uses_beyond_its_documentation() -> None:
    source = inspect.getsource(H11Protocol)

    assert "self.conn = h11.Connection(" in source  # replaced by one that counts
    assert "event = self.conn.next_event()" in source  # and asked for every event
    assert source.count("self.send_400_response(") >= 1
    assert list(inspect.signature(H11Protocol.send_400_response).parameters) == ["self", "msg"]
    assert "self.transport = transport" in source
