"""Events posted to an address or to a channel, over a real socket."""

from __future__ import annotations

import base64
import logging
import ssl
import subprocess
import threading
from dataclasses import replace
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from driftbn_service.outlets.webhook import SlackOutlet, WebhookOutlet
from driftbn_service.settings import SlackOutletSettings, WebhookOutletSettings

from tests.outlet_parts import (
    HOST,
    NO_LINKS,
    Links,
    OutletError,
    answer,
    break_off,
    hang_up,
    make_event,
    receiver,
)

EVENTS = [make_event(i) for i in range(3)]
IDS = [event.id for event in EVENTS]
NOW = 1_800_000_000.0


def make_outlet(url: str, *, seconds: float = 5.0, **settings: object) -> WebhookOutlet:
    made = WebhookOutletSettings.model_validate({"url": url, **settings})
    return WebhookOutlet(made, clock=lambda: NOW, timeout_seconds=seconds)


def test_event_is_posted_as_a_structured_cloud_event() -> None:
    with receiver() as found:
        outlet = make_outlet(found.url, token="t0ken", headers={"X-Team": "data"})
        outlet.open()
        outlet.send(EVENTS[:1])
        outlet.close()
    (request,) = found.requests
    assert request.path == "/hook/secret-path"
    assert request.headers["Content-Type"] == "application/cloudevents+json; charset=utf-8"
    assert request.headers["Idempotency-Key"] == EVENTS[0].id
    assert request.headers["Authorization"] == "Bearer t0ken"
    assert request.headers["X-Team"] == "data"
    assert request.document == EVENTS[0].document


def test_name_and_password_of_an_address_are_sent_as_such() -> None:
    with receiver() as found:
        outlet = make_outlet(found.url.replace("http://", "http://me:pa%2Fss@"))
        outlet.send(EVENTS[:1])
        outlet.close()
    encoded = base64.b64encode(b"me:pa/ss").decode()
    assert found.requests[0].headers["Authorization"] == f"Basic {encoded}"


@pytest.mark.parametrize("status", [500, 502, 504, 408, 401, 403, 404, 405])
def test_what_can_pass_or_be_mended_is_tried_again(status: int) -> None:
    with receiver([answer(status)]) as found:
        outlet = make_outlet(found.url)
        with pytest.raises(OutletError, match=f"answered {status}") as caught:
            outlet.send(EVENTS)
        assert caught.value.retry_after is None
        outlet.send(EVENTS)
        outlet.close()
    assert found.ids == [IDS[0], *IDS]


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        ("1.5", 1.5),
        ("-3", 0.0),
        ("999999", 3600.0),
        (formatdate(NOW + 30, usegmt=True), 30.0),
        (formatdate(NOW - 30, usegmt=True), 0.0),
        ("soon", None),
        ("nan", None),
        ("", None),
    ],
)
def test_wish_to_be_left_alone_is_passed_on(status: int, text: str, seconds: float | None) -> None:
    with receiver([answer(status, Retry_After=text)]) as found:
        outlet = make_outlet(found.url)
        with pytest.raises(OutletError) as caught:
            outlet.send(EVENTS)
        outlet.close()
    assert caught.value.retry_after == seconds


@pytest.mark.parametrize("status", [400, 409, 413, 415, 422])
def test_event_that_is_refused_for_what_it_is_does_not_hold_up_the_others(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    with receiver([answer(201), answer(status), answer(202)]) as found:
        outlet = make_outlet(found.url)
        with caplog.at_level(logging.ERROR):
            outlet.send(EVENTS)
        outlet.close()
    assert found.ids == IDS
    assert outlet.refused == (EVENTS[1],)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert str(status) in record.getMessage()
    assert vars(record)["event_id"] == EVENTS[1].id


def test_those_before_a_failure_are_delivered() -> None:
    with receiver([answer(200), answer(500)]) as found:
        outlet = make_outlet(found.url)
        with pytest.raises(OutletError) as caught:
            outlet.send(EVENTS)
        assert caught.value.n_delivered == 1
        outlet.send(EVENTS[1:])
        outlet.close()
    assert found.ids == [IDS[0], IDS[1], IDS[1], IDS[2]]


def test_receiver_that_is_too_slow_is_given_up() -> None:
    done = threading.Event()

    def wait(_: BaseHTTPRequestHandler) -> None:
        done.wait()

    with receiver([wait]) as found:
        outlet = make_outlet(found.url, seconds=0.2)
        with pytest.raises(OutletError, match="no answer in time"):
            outlet.send(EVENTS)
        done.set()
        outlet.send(EVENTS)
        outlet.close()
    assert found.ids[0] == found.ids[1]  # by which the receiver knows that it has it


def test_answer_that_breaks_off_after_its_status_is_a_delivery() -> None:
    with receiver([break_off]) as found:
        outlet = make_outlet(found.url)
        outlet.send(EVENTS)
        outlet.close()
    assert found.ids == IDS


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(status: int) -> None:
    with receiver() as other, receiver([answer(status, Location=other.url)]) as found:
        outlet = make_outlet(found.url, token="t0ken")
        with pytest.raises(OutletError, match="redirects are not followed"):
            outlet.send(EVENTS)
        outlet.close()
    assert other.requests == []


def test_no_message_tells_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    settings = {"token": "t0ken", "headers": {"X-Key": "h3ader"}}
    with receiver([answer(500), hang_up, answer(413)]) as found, caplog.at_level(logging.DEBUG):
        outlet = make_outlet(found.url.replace("http://", "http://me:pa55@"), **settings)
        texts = []
        for _ in range(2):
            with pytest.raises(OutletError) as caught:
                outlet.send(EVENTS)
            texts.append(str(caught.value))
        outlet.send(EVENTS)
        outlet.close()
    own = [r.getMessage() for r in caplog.records if r.name.startswith("driftbn")]
    text = " ".join([*texts, *own, *(str(vars(r)) for r in caplog.records if "driftbn" in r.name)])
    for secret in ("t0ken", "h3ader", "secret-path", "pa55"):
        assert secret not in text


def test_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key),
         "-out", str(certificate), "-days", "1", "-subj", "/CN=localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = HTTPServer((HOST, 0), BaseHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    outlet = make_outlet(f"https://{HOST}:{server.server_address[1]}/")
    with pytest.raises(OutletError, match="certificate"):
        outlet.send(EVENTS)
    outlet.close()
    thread.join()
    server.server_close()


def test_own_headers_cannot_break_the_binding() -> None:
    with receiver() as found:
        outlet = make_outlet(found.url, headers={"content-type": "text/plain"})
        outlet.send(EVENTS[:1])
        outlet.close()
    types = found.requests[0].headers.get_all("Content-Type")
    assert types == ["application/cloudevents+json; charset=utf-8"]


# Slack

WORDS = {"headline": "'a < b' broke", "sentences": ["Since 12:00."], "advice": ["Ask <!here>."]}


def told(links: Links = NO_LINKS, **others: str) -> object:
    event = replace(EVENTS[1], document={**EVENTS[1].document, "data": WORDS}, **others)
    with receiver() as found:
        settings = SlackOutletSettings.model_validate({"url": found.url})
        outlet = SlackOutlet(settings, links)
        outlet.open()
        outlet.send([event])
        outlet.close()
    (request,) = found.requests
    assert request.headers["Content-Type"] == "application/json; charset=utf-8"
    return request.document


def test_message_names_the_stream_and_says_what_happened_and_what_to_do() -> None:
    text = "*orders*: 'a &lt; b' broke\n• Since 12:00.\n• Ask &lt;!here&gt;."
    assert told(stream="orders", key="") == {"text": text}


def test_message_of_a_keyed_stream_names_the_key_and_mentions_nobody() -> None:
    document = told(stream="orders", key="<@U1>")
    assert isinstance(document, dict)
    assert document["text"].startswith("*orders / &lt;@U1&gt;*: ")


def test_message_leads_to_page_and_dashboard_where_the_settings_have_them() -> None:
    links = {"page": "https://drift.example.org", "dashboards": "https://g.example.org"}
    document = told(links, stream="orders", key="<eu|us>")
    assert isinstance(document, dict)
    assert document["text"].splitlines()[-2:] == [
        "<https://drift.example.org/#stream=orders&key=%3Ceu%7Cus%3E|page>",
        "<https://g.example.org/d/driftbn-stream?var-stream=orders|dashboard>",
    ]
