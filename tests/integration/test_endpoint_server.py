"""The endpoint's server on a real socket, with an application that only shows what it is asked."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator

import pytest
import urllib3
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from service.endpoint.server import MAX_HEAD_BYTES, EndpointError, EndpointServer
from service.settings import EndpointSettings

HEAD_SECONDS = 0.5
GATE_SECONDS = 20.0


class Gate:
    """A route that waits until the test lets it go on."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()

    def __call__(self, _: Request) -> Response:
        self.entered.set()
        self.opened.wait(GATE_SECONDS)
        return PlainTextResponse("late")


class Kept(logging.Handler):
    """Keeps what is logged."""

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


@pytest.fixture
def logged() -> Iterator[Kept]:
    handler, logger = Kept(), logging.getLogger("driftbn.service")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def server(gate: Gate) -> Iterator[EndpointServer]:
    def wait(request: Request) -> Response:
        return gate(request)

    app = Starlette(routes=[Route("/", hello), Route("/wait", wait), Route("/fail", fail)])
    server = EndpointServer(app, EndpointSettings(port=0), head_seconds=HEAD_SECONDS)
    server.start()
    yield server
    gate.opened.set()
    server.stop(5)


def connected(server: EndpointServer) -> socket.socket:
    host, port = server.address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def rest_of(connection: socket.socket) -> bytes:
    """Return all that comes until the other side closes."""
    found = b""
    while block := connection.recv(65536):
        found += block
    return found


def test_port_0_takes_a_free_one(server: EndpointServer) -> None:
    assert not server.address.endswith(":0")
    assert urllib3.request("GET", server.address).data == b"hello"


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
    server = EndpointServer(Starlette(), EndpointSettings(host=host, port=0))

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


def test_stopping_twice_is_allowed(server: EndpointServer) -> None:
    server.stop(1)
    server.stop(1)


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
        assert rest_of(connection).startswith(b"HTTP/1.1 400")


def test_what_is_no_http_is_refused(server: EndpointServer) -> None:
    with connected(server) as connection:
        connection.sendall(b"\x16\x03\x01 this is TLS\r\n\r\n")
        assert rest_of(connection).startswith(b"HTTP/1.1 400")


def test_a_connection_is_used_again(server: EndpointServer) -> None:
    with urllib3.PoolManager() as pool:
        for _ in range(3):
            assert pool.request("GET", server.address).data == b"hello"
        assert pool.connection_from_url(server.address).num_connections == 1


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
