from __future__ import annotations

import base64

import pytest
from driftbn_service.http.server import Guard
from driftbn_service.settings import EndpointSettings, is_loopback
from pydantic import SecretStr, ValidationError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tests.http_client import Client

TOKEN = "s3cret-ü"


def client_with(token: str | None) -> Client:
    async def answer(_: object) -> PlainTextResponse:
        return PlainTextResponse("in")

    app = Starlette(
        routes=[Route("/data", answer), Route("/open", answer)],
        middleware=[Middleware(Guard, token=token, public=["/open"])],
    )
    return Client(app)


def bearer(token: str) -> dict[str, bytes]:
    return {"authorization": b"Bearer " + token.encode()}


def test_the_right_bearer_token_is_let_in() -> None:
    assert client_with(TOKEN).get("/data", headers=bearer(TOKEN)).text == "in"


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"Bearer",
        b"Bearer ",
        b"Bearer wrong",
        b"Bearer s3cret-",
        b"Basic s3cret-\xc3\xbc",
        b"Basic " + base64.b64encode(b"user:" + TOKEN.encode()),
        b"Digest s3cret-\xc3\xbc",
        b"s3cret-\xc3\xbc",
    ],
)
def test_anything_else_is_told_what_to_send(header: bytes) -> None:
    answer = client_with(TOKEN).get("/data", headers={"authorization": header})

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="driftbn"'
    assert answer.headers["content-type"] == "application/problem+json"
    assert "Authorization: Bearer TOKEN" in answer.json()["detail"]
    assert TOKEN not in answer.text


def test_public_paths_need_no_token() -> None:
    assert client_with(TOKEN).get("/open").status_code == 200
    assert client_with(TOKEN).get("/open/").status_code == 401


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9464", "127.0.0.1.evil.example"])
def test_without_a_token_a_foreign_name_is_refused(host: str) -> None:
    answer = client_with(None).get("/data", headers={"host": host})

    assert answer.status_code == 421
    assert host in answer.json()["detail"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "drift.example"])
def test_an_open_address_needs_a_token(host: str) -> None:
    with pytest.raises(ValidationError, match="token_file: set one"):
        EndpointSettings(host=host)
    assert EndpointSettings(host=host, enabled=False).token is None
    assert EndpointSettings(host=host, token=SecretStr(TOKEN)).host == host


def test_all_of_127_is_loopback() -> None:
    assert is_loopback("127.8.8.8")
    assert is_loopback("LOCALHOST.")
    assert not is_loopback("localhost.example")
