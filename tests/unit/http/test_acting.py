"""Accepting, silencing and commenting over HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from driftbn_service.settings import EndpointSettings

from tests.http_client import Client
from tests.http_service import N_BEFORE, FakeService, drifting_publications, make_app
from tests.unit.http.test_api import assert_documented

ORDERS = "/api/v1/streams/orders"
CLICKS = "/api/v1/streams/clicks"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[FakeService]:
    with FakeService(tmp_path) as found:
        found.publish(drifting_publications()[: N_BEFORE + 1])
        found.publish(drifting_publications("clicks", "a")[:2])
        found.publish(drifting_publications("old")[:1])
        yield found


@pytest.fixture
def client(service: FakeService) -> Client:
    return Client(make_app(service, EndpointSettings()))


def done(answer: httpx.Response, status: int = 201) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


def test_an_accept_waits_for_its_window(client: Client, service: FakeService) -> None:
    body = {"author": "ada", "comment": "a release"}
    found = done(client.post(f"{ORDERS}/accept", json=body), 202)
    assert found["kind"] == "accept"
    assert (found["episode"], found["window"]) == (0, None)
    (wanted,) = service.store.wanted()
    assert (wanted.author, wanted.comment) == ("ada", "a release")
    assert done(client.post(f"{ORDERS}/accept", json={}), 202)["number"] == found["number"]


def test_a_stream_with_a_key_is_accepted_key_by_key(client: Client) -> None:
    assert done(client.post(f"{CLICKS}/accept?key=a", json={}), 202)["key"] == "a"
    refused = client.post(f"{CLICKS}/accept", json={})
    assert refused.status_code == 400
    assert "'tenant'" in refused.json()["detail"]


def test_a_silence_has_an_end_and_may_be_of_all_keys(client: Client, service: FakeService) -> None:
    found = done(client.post(f"{CLICKS}/silence", json={"hours": 2}))
    assert found["until"] == pytest.approx(time.time() + 7200, abs=60)
    assert service.store.silences().cover("clicks", "a")
    done(client.post(f"{CLICKS}/silence", json={"hours": 0}))
    assert not service.store.silences().cover("clicks", "a")


def test_what_was_done_is_shown_with_the_episode(client: Client) -> None:
    done(client.post(f"{ORDERS}/comment", json={"comment": "seen <b>", "author": "ada"}))
    done(client.post(f"{ORDERS}/silence", json={"hours": 1.5}))
    actions = client.get(f"{ORDERS}/episodes/0").json()["actions"]
    assert [(one["kind"], one["comment"]) for one in actions] == [
        ("comment", "seen <b>"),
        ("silence", ""),
    ]


def test_actions_are_listed_the_newest_first(client: Client) -> None:
    for n in range(3):
        done(client.post(f"{ORDERS}/comment", json={"comment": str(n)}))
    page = client.get(f"{ORDERS}/actions?limit=2").json()
    assert [one["comment"] for one in page["items"]] == ["2", "1"]
    rest = client.get(f"{ORDERS}/actions?limit=2&cursor={page['next']}").json()
    assert ([one["comment"] for one in rest["items"]], rest["next"]) == (["0"], None)


@pytest.mark.parametrize(
    ("word", "body"),
    [("accept", {}), ("silence", {"hours": 1}), ("comment", {"comment": "x"}), ("silence", {})],
)
def test_answers_have_the_documented_shape(client: Client, word: str, body: Any) -> None:
    document = client.get("/api/v1/openapi.json").json()
    answer = client.post(f"{ORDERS}/{word}", json=body)
    assert_documented(document, f"/api/v1/streams/{{name}}/{word}", answer)


@pytest.mark.parametrize("word", ["accept", "silence", "comment"])
def test_a_page_of_another_site_cannot_act(client: Client, service: FakeService, word: str) -> None:
    """Forms are sent without asking; so is what is called plain text."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = client.post(f"{ORDERS}/{word}", content=b"{}", headers={"content-type": kind})
        assert answer.status_code == 415
    assert service.store.actions("orders", "") == []


@pytest.mark.parametrize("word", ["accept", "silence", "comment"])
def test_the_token_is_needed_where_there_is_one(service: FakeService, word: str) -> None:
    asked = Client(make_app(service, EndpointSettings.model_validate({"token": "secret"})))
    assert asked.post(f"{ORDERS}/{word}", json={"hours": 1, "comment": "x"}).status_code == 401


@pytest.mark.parametrize(
    ("word", "body", "status", "named"),
    [
        ("silence", {}, 422, "hours"),
        ("silence", {"hours": -1}, 422, "hours"),
        ("silence", {"hours": 1e9}, 422, "hours"),
        ("silence", {"hours": "long"}, 422, "hours"),
        ("comment", {}, 422, "comment"),
        ("comment", {"comment": " "}, 422, "comment"),
        ("comment", {"comment": "x" * 2001}, 422, "comment"),
        ("comment", {"comment": "x", "author": "x" * 101}, 422, "author"),
        ("comment", {"comment": "x", "episode": 7}, 404, "episode"),
        ("accept", {"because": "x"}, 422, "because"),
        ("accept", [], 422, "the body"),
        ("accept", {"comment": "x" * (16 << 10)}, 413, "body"),
    ],
)
def test_what_cannot_be_is_refused_by_name(
    client: Client, service: FakeService, word: str, body: Any, status: int, named: str
) -> None:
    answer = client.post(f"{ORDERS}/{word}", json=body)
    assert answer.status_code == status, answer.text
    assert named in answer.json()["detail"]
    assert service.store.actions("orders", "") == []


def test_nothing_is_done_about_what_is_not_there(client: Client) -> None:
    for path in ("/api/v1/streams/nobody", f"{CLICKS}?key=z"):
        base, _, query = path.partition("?")
        for word in ("accept", "silence", "comment"):
            asked = f"{base}/{word}?{query}" if query else f"{base}/{word}"
            body = {"comment": "x"} | ({"hours": 1} if word == "silence" else {})
            assert client.post(asked, json=body).status_code == 404, asked
    # What is in the history only has nobody who could do it, but may be commented.
    assert client.post("/api/v1/streams/old/accept", json={}).status_code == 404
    done(client.post("/api/v1/streams/old/comment", json={"comment": "x"}))
