"""The whole endpoint on a real socket: records in, history and live events out."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import urllib3
from driftbn_service.events import Publication
from driftbn_service.settings import EndpointSettings

from tests.http_client import connected
from tests.http_service import (
    N_BEFORE,
    SLASH,
    EndpointServer,
    FakeService,
    Limits,
    drifting_publications,
    make_app,
)

RECORDS = "/api/v1/streams/orders/records"
NDJSON = {"content-type": "application/x-ndjson"}
LIMITS = Limits(
    max_body_bytes=1 << 20,
    max_decoded_bytes=4 << 20,
    body_seconds=1.0,
    heartbeat_seconds=0.3,
    max_live_clients=2,
    max_ingests=16,
)
PATIENCE = 20.0


@pytest.fixture
def service(tmp_path: Path) -> Iterator[FakeService]:
    with FakeService(tmp_path, max_pending_bytes=64 << 20) as service:
        yield service


@pytest.fixture
def server(service: FakeService) -> Iterator[EndpointServer]:
    settings = EndpointSettings(port=0)
    server = EndpointServer(make_app(service, settings, limits=LIMITS), settings)
    server.start()
    yield server
    server.stop(5)


def post(server: EndpointServer, body: Any, **headers: str) -> urllib3.BaseHTTPResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return urllib3.request(
        "POST", server.address + RECORDS, body=body, headers={**NDJSON, **named}, timeout=PATIENCE
    )


def first_line(connection: socket.socket) -> bytes:
    found = b""
    while b"\r\n" not in found:
        block = connection.recv(65536)
        if not block:
            break
        found += block
    return found.partition(b"\r\n")[0]


# --- Records ---


def test_a_chunked_body_is_taken(server: EndpointServer, service: FakeService) -> None:
    blocks = (b'{"x": %d}\n' % i for i in range(1000))

    answer = post(server, blocks)

    assert answer.json()["accepted"] == 1000
    assert service.taken()[0].column("x").to_pylist() == list(range(1000))


def test_a_chunked_body_without_end_is_refused_where_it_passes_the_limit(
    server: EndpointServer,
) -> None:
    head = (
        f"POST {RECORDS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    )
    with connected(server) as connection:
        connection.sendall(head.encode())
        for _ in range(3):
            connection.sendall(b"100000\r\n" + b" " * (1 << 20) + b"\r\n")
        assert first_line(connection).startswith(b"HTTP/1.1 413")


def test_a_declared_length_is_refused_before_anything_is_sent(server: EndpointServer) -> None:
    head = (
        f"POST {RECORDS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\n"
        f"Expect: 100-continue\r\nContent-Length: {10 << 30}\r\n\r\n"
    )
    with connected(server) as connection:
        connection.sendall(head.encode())
        assert first_line(connection).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("n_bytes", [(1 << 20) + 1, 32 << 20])
def test_a_client_that_sends_all_before_it_reads_sees_the_refusal(
    server: EndpointServer, n_bytes: int
) -> None:
    assert post(server, b" " * n_bytes).status == 413


def test_a_client_that_sends_too_slowly_is_refused(
    server: EndpointServer, service: FakeService
) -> None:
    head = f"POST {RECORDS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\n"
    began = time.monotonic()
    with connected(server) as connection:
        connection.sendall(f"{head}Content-Length: 99\r\n\r\nx\n1\n".encode())
        assert first_line(connection).startswith(b"HTTP/1.1 408")

    assert LIMITS.body_seconds <= time.monotonic() - began < PATIENCE
    assert service.taken() == []


class Dribblers:
    """Clients that send a byte of a body now and then, and come back when they are cut off."""

    def __init__(self, server: EndpointServer, n_clients: int) -> None:
        self._server = server
        self._stop = threading.Event()
        self._connections = [self._begun() for _ in range(n_clients)]
        self._thread = threading.Thread(target=self._dribble)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)
        for connection in self._connections:
            connection.close()

    def _begun(self) -> socket.socket:
        head = f"POST {RECORDS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\n"
        connection = connected(self._server)
        connection.sendall(f"{head}Content-Length: {1 << 20}\r\n\r\nx".encode())
        return connection

    def _dribble(self) -> None:
        while not self._stop.wait(0.2):
            for place, connection in enumerate(self._connections):
                try:
                    connection.sendall(b"x")
                except OSError:
                    connection.close()
                    self._connections[place] = self._begun()


@pytest.mark.parametrize("n_slow", [LIMITS.max_ingests, 200])
def test_good_posts_are_taken_beside_clients_that_send_a_byte_now_and_then(
    server: EndpointServer, n_slow: int
) -> None:
    with Dribblers(server, n_slow):
        answers = [post(server, b'{"x": 1}\n').status for _ in range(45)]

    assert answers == [202] * 45


def test_a_client_that_goes_away_leaves_nothing(
    server: EndpointServer, service: FakeService
) -> None:
    head = f"POST {RECORDS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\n"
    for _ in range(LIMITS.max_ingests + 4):
        with connected(server) as connection:
            connection.sendall(f"{head}Content-Length: 99\r\n\r\nx\n1\n".encode())

    assert eventually(lambda: post(server, b'{"x": 1}\n').status == 202)
    assert len(service.taken()) == 1


def test_many_senders_at_once_lose_and_repeat_nothing(
    server: EndpointServer, service: FakeService
) -> None:
    """Each body is sent twice under its key, as by a client that has not seen the answer."""

    def send_pair(number: int) -> list[int]:
        body = b"".join(b'{"x": %d}\n' % (number * 100 + i) for i in range(100))
        return [post(server, body, idempotency_key=f"body-{number}").status for _ in range(2)]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(send_pair, range(40)))

    assert answers == [[202, 202]] * 40
    taken = [value for table in service.taken() for value in table.column("x").to_pylist()]
    assert sorted(taken) == list(range(4000))
    assert all(table.num_rows == 100 for table in service.taken())


# --- History ---


def test_the_name_of_an_edge_survives_the_path(
    server: EndpointServer, service: FakeService
) -> None:
    service.publish(drifting_publications())
    path = f"/api/v1/streams/orders/edges/b/{quote(SLASH, safe='')}"

    answer = urllib3.request("GET", server.address + path)

    assert N_BEFORE in [item["window"] for item in answer.json()["items"]]


# --- Live events ---


class Follower:
    """Reads server-sent events in a thread of its own."""

    def __init__(self, server: EndpointServer, query: str = "", **headers: str) -> None:
        self.messages: list[dict[str, str]] = []
        self.comments: list[str] = []
        self.ended = threading.Event()
        self._grown = threading.Condition()
        self._client = httpx.Client(timeout=PATIENCE)
        url = f"{server.address}/api/v1/events{query}"
        request = self._client.build_request("GET", url, headers=headers)
        self.answer = self._client.send(request, stream=True)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def wait_for(self, condition: Callable[[], bool]) -> bool:
        with self._grown:
            return self._grown.wait_for(condition, PATIENCE)

    def types(self) -> list[str]:
        return [found["event"] for found in self.messages]

    def close(self) -> None:
        self.answer.close()
        self._client.close()

    def _read(self) -> None:
        found: dict[str, str] = {}
        try:
            for line in self.answer.iter_lines():
                with self._grown:
                    found = self._take(line, found)
                    self._grown.notify_all()
        except (httpx.HTTPError, httpx.StreamError):
            pass  # closed by the test
        self.ended.set()

    def _take(self, line: str, found: dict[str, str]) -> dict[str, str]:
        if line.startswith(":"):
            self.comments.append(line)
        elif line:
            name, _, value = line.partition(": ")
            return {**found, name: value}
        elif "event" in found:
            self.messages.append(found)
        return {}


@contextmanager
def following(server: EndpointServer, query: str = "", **headers: str) -> Iterator[Follower]:
    follower = Follower(server, query, **headers)
    try:
        yield follower
    finally:
        follower.close()


def eventually(condition: Callable[[], bool]) -> bool:
    """Return whether a condition holds before patience ends; for what nothing announces."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


STARTED, ENDED = "io.driftbn.drift.started.v1", "io.driftbn.drift.ended.v1"


def told_types() -> list[str]:
    return [event.type for item in drifting_publications() for event in item.events]


def test_an_event_arrives_while_one_waits(server: EndpointServer, service: FakeService) -> None:
    with following(server) as follower:
        assert follower.answer.headers["content-type"].startswith("text/event-stream")
        assert eventually(lambda: service.live.n_followers == 1)
        began = time.monotonic()
        service.publish(drifting_publications())
        assert follower.wait_for(lambda: STARTED in follower.types())
        assert time.monotonic() - began < PATIENCE
        assert follower.wait_for(lambda: "published" in follower.types())

    message = next(found for found in follower.messages if found["event"] == STARTED)
    document = json.loads(message["data"])
    assert document["type"] == STARTED
    assert document["specversion"] == "1.0"
    assert int(message["id"]) > 0


def test_what_was_before_is_not_told_unless_asked_for(
    server: EndpointServer, service: FakeService
) -> None:
    service.publish(drifting_publications())
    with following(server) as fresh, following(server, "?after=0") as all_of_them:
        assert all_of_them.wait_for(lambda: len(all_of_them.messages) >= len(told_types()))
        assert fresh.wait_for(lambda: bool(fresh.comments))

    assert fresh.messages == []
    assert all_of_them.types() == told_types()


def test_a_client_goes_on_where_it_left_off(server: EndpointServer, service: FakeService) -> None:
    service.publish(drifting_publications())
    with following(server, "?after=0") as first:
        assert first.wait_for(lambda: bool(first.messages))
    last = first.messages[0]["id"]
    service.publish(drifting_publications("clicks", "a"))

    with following(server, **{"Last-Event-ID": last}) as second:
        expected = [*told_types()[1:], *told_types()]
        assert second.wait_for(lambda: len(second.messages) >= len(expected))

    assert second.types() == expected
    assert all(int(found["id"]) > int(last) for found in second.messages)


def test_a_place_in_a_lost_history_is_forgotten(
    server: EndpointServer, service: FakeService
) -> None:
    with following(server, **{"Last-Event-ID": "999999"}) as follower:
        assert eventually(lambda: service.live.n_followers == 1)
        service.publish(drifting_publications())
        assert follower.wait_for(lambda: STARTED in follower.types())


def test_a_monitor_is_followed_alone_and_by_its_windows(
    server: EndpointServer, service: FakeService
) -> None:
    with following(server, "?stream=orders&key=") as follower:
        assert eventually(lambda: service.live.n_followers == 1)
        service.publish(drifting_publications("clicks", "a"))
        service.publish(drifting_publications()[:3])
        assert follower.wait_for(lambda: "window" in follower.types())

    assert set(follower.types()) == {"window"}
    found = json.loads(follower.messages[-1]["data"])
    assert (found["stream"], found["key"], found["window"]) == ("orders", "", 2)


def test_silence_is_broken_by_signs_of_life(server: EndpointServer) -> None:
    with following(server) as follower:
        assert follower.wait_for(lambda: len(follower.comments) >= 2)


def test_followers_are_bounded_and_leave_their_place(
    server: EndpointServer, service: FakeService
) -> None:
    url = f"{server.address}/api/v1/events"
    with following(server), following(server):
        answer = urllib3.request("GET", url, retries=False)
        assert answer.status == 503
        assert "of 2 allowed" in answer.json()["detail"]
    assert eventually(lambda: service.live.n_followers == 0)
    with following(server) as follower:
        assert follower.answer.status_code == 200


@pytest.mark.parametrize("place", ["x", "-1"])
def test_a_place_that_is_none_is_refused(server: EndpointServer, place: str) -> None:
    url = f"{server.address}/api/v1/events"

    assert urllib3.request("GET", url, headers={"Last-Event-ID": place}).status == 400


def test_asking_for_the_head_of_the_events_is_answered_at_once(
    server: EndpointServer, service: FakeService
) -> None:
    answer = urllib3.request("HEAD", f"{server.address}/api/v1/events", timeout=PATIENCE)

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert service.live.n_followers == 0


def test_followers_do_not_keep_health_from_being_answered(service: FakeService) -> None:
    """There are fewer places than may follow events: as few as there are with few files."""
    settings = EndpointSettings(port=0)
    server = EndpointServer(make_app(service, settings), settings, max_connections=20)
    server.start()
    connections = []
    try:
        for _ in range(60):
            connections.append(connected(server))
            connections[-1].sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for path in ("/-/healthy", "/-/ready", "/metrics"):
            url = server.address + path
            assert urllib3.request("GET", url, retries=False, timeout=PATIENCE).status == 200
    finally:
        for connection in connections:
            connection.close()
        server.stop(5)


def test_followers_end_when_the_endpoint_stops(
    server: EndpointServer, service: FakeService
) -> None:
    with following(server) as follower:
        assert eventually(lambda: service.live.n_followers == 1)
        began = time.monotonic()
        server.stop(10)
        assert follower.ended.wait(PATIENCE)

    assert time.monotonic() - began < 8


def test_a_follower_that_does_not_read_is_let_go(service: FakeService) -> None:
    settings = EndpointSettings(port=0)
    limits = Limits(heartbeat_seconds=0.3)
    app = make_app(service, settings, limits=limits)
    server = EndpointServer(app, settings, head_seconds=0.3)
    (item,) = drifting_publications()[N_BEFORE : N_BEFORE + 1]
    # More than all buffers between the two sides hold.
    service.publish([of_window(item, number) for number in range(400)])
    server.start()
    try:
        with connected(server) as connection:
            connection.sendall(b"GET /api/v1/events?after=0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert eventually(lambda: service.live.n_followers == 1)
            assert eventually(lambda: service.live.n_followers == 0)
    finally:
        server.stop(1)


def of_window(item: Publication, number: int) -> Publication:
    """Return a window and its events as those of another number."""
    events = tuple(
        replace(event, id=f"{event.id}-{number}", window=number, document={"text": "x" * 50_000})
        for event in item.events
    )
    return replace(item, window=number, events=events)
