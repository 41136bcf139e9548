from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from driftbn_service.settings import EndpointSettings
from driftbn_service.state import DamagedRowError, StoreError
from jsonschema import Draft202012Validator

from tests.http_client import Client
from tests.http_service import (
    N_AFTER,
    N_BEFORE,
    SLASH,
    FakeService,
    Limits,
    all_operations,
    drifting_publications,
    make_app,
)

BASE = "/api/v1/streams"
ORDERS = f"{BASE}/orders"
N_WINDOWS = N_BEFORE + N_AFTER
EDGE = f"{ORDERS}/edges/b/{quote(SLASH, safe='')}"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeService]:
    with FakeService(tmp_path_factory.mktemp("endpoint")) as service:
        service.publish(drifting_publications())
        for key in ("a", "b", "c/ü"):
            service.publish(drifting_publications("clicks", key)[:2])
        service.publish(drifting_publications("old")[:1])
        yield service


@pytest.fixture(scope="module")
def client(service: FakeService) -> Client:
    return Client(make_app(service, EndpointSettings()))


@pytest.fixture(scope="module")
def document(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/api/v1/openapi.json").json()
    return found


def fetched(client: Client, path: str) -> Any:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client: Client, path: str, status: int) -> dict[str, Any]:
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()
    assert found["status"] == status
    return found


def paged(client: Client, path: str, limit: int) -> list[list[Any]]:
    sign = "&" if "?" in path else "?"
    page = fetched(client, f"{path}{sign}limit={limit}")
    pages = [page["items"]]
    while page["next"] is not None:
        page = fetched(client, f"{path}{sign}limit={limit}&cursor={quote(page['next'])}")
        pages.append(page["items"])
    return pages


# --- Health and metrics ---


def test_health_and_readiness_are_told_in_words(client: Client, service: FakeService) -> None:
    assert client.get("/-/healthy").text == "healthy\n"
    assert client.get("/-/ready").text == "ready\n"
    service.sick = ("the worker of orders is stuck",)
    service.unready = ("orders: no broker", "clicks: no checkpoint")

    unhealthy, unready = client.get("/-/healthy"), client.get("/-/ready")

    service.sick = service.unready = ()
    assert (unhealthy.status_code, unready.status_code) == (503, 503)
    assert unhealthy.text == "not healthy\nthe worker of orders is stuck\n"
    assert unready.text == "not ready\norders: no broker\nclicks: no checkpoint\n"


def test_metrics_come_in_the_form_that_is_accepted(client: Client) -> None:
    plain = client.get("/metrics")
    opened = client.get("/metrics", headers={"accept": "application/openmetrics-text"})

    assert plain.headers["content-type"].startswith("text/plain")
    assert opened.headers["content-type"].startswith("application/openmetrics-text")


# --- Monitors ---


def test_monitors_are_those_of_the_history_and_streams_without_any(client: Client) -> None:
    found = fetched(client, BASE)

    assert found["next"] is None
    assert [(item["name"], item["key"], item["state"]) for item in found["items"]] == [
        ("clicks", "a", "waiting"),
        ("clicks", "b", "waiting"),
        ("clicks", "c/ü", "waiting"),
        ("old", "", "gone"),
        ("orders", "", "running"),
        ("quiet", "", "running"),
    ]


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 6, 7])
def test_pages_of_monitors_leave_nothing_out_and_give_nothing_twice(
    client: Client, limit: int
) -> None:
    pages = paged(client, BASE, limit)

    assert [item["name"] for page in pages for item in page] == [
        "clicks", "clicks", "clicks", "old", "orders", "quiet",
    ]  # fmt: skip
    assert all(len(page) == limit for page in pages[:-1])


def test_a_monitor_tells_its_last_window_and_its_trouble(client: Client) -> None:
    orders = fetched(client, ORDERS)
    keyed = fetched(client, f"{BASE}/clicks?key={quote('c/ü')}")

    assert orders["n_windows"] == N_WINDOWS
    assert orders["last"]["window"] == N_WINDOWS - 1
    assert keyed["key"] == "c/ü"
    assert keyed["key_field"] == "tenant"
    assert keyed["trouble"] == "the broker is away"


@pytest.mark.parametrize(
    "path", ["nobody", "orders?key=x", "clicks?key=x", "nobody/windows", "nobody/graph"]
)
def test_an_unknown_monitor_is_named(client: Client, path: str) -> None:
    problem = refused(client, f"{BASE}/{path}", 404)

    assert problem["type"] == "urn:driftbn:problem:unknown-stream"
    assert repr(path.partition("?")[0].partition("/")[0]) in problem["detail"]


# --- Windows ---


@pytest.mark.parametrize("limit", [1, 4, N_WINDOWS, N_WINDOWS + 1])
def test_pages_of_windows_go_from_the_newest_to_the_oldest(client: Client, limit: int) -> None:
    pages = paged(client, f"{ORDERS}/windows", limit)

    assert [w["window"] for page in pages for w in page] == list(reversed(range(N_WINDOWS)))


def test_windows_without_drift_are_left_out_on_demand(client: Client) -> None:
    found = fetched(client, f"{ORDERS}/windows?drift=true")["items"]

    assert [(w["window"], w["drift"]) for w in found] == [(N_BEFORE, True)]
    assert len(fetched(client, f"{ORDERS}/windows?drift=false")["items"]) == N_WINDOWS


def test_a_window_comes_with_report_and_explanation(client: Client) -> None:
    found = fetched(client, f"{ORDERS}/windows/{N_BEFORE}")

    assert found["report"] == drifting_publications()[N_BEFORE].report
    assert found["explanation"]["headline"].startswith("Drift in window 9")
    assert {edge["origin"] for edge in found["edges"]} == {"confirmed", "raw"}


def test_a_window_is_a_page_to_keep(client: Client) -> None:
    answer = client.get(f"{ORDERS}/windows/{N_BEFORE}/page")

    assert answer.headers["content-disposition"] == "attachment"
    assert answer.text.startswith("<!doctype html>")
    assert f"Drift in window {N_BEFORE}" in answer.text


def test_a_window_that_is_not_there_is_told_with_those_that_are(client: Client) -> None:
    detail = refused(client, f"{ORDERS}/windows/99", 404)["detail"]

    assert "window = 99" in detail
    assert f"up to window {N_WINDOWS - 1}" in detail


def test_the_series_is_as_long_as_asked_for_and_ends_with_the_newest(client: Client) -> None:
    found = fetched(client, f"{ORDERS}/series?limit=3")

    assert found["window"] == [N_WINDOWS - 3, N_WINDOWS - 2, N_WINDOWS - 1]
    assert {len(column) for column in found.values()} == {3}


def test_the_history_of_an_edge_is_found_by_its_encoded_name(client: Client) -> None:
    found = fetched(client, EDGE)["items"]

    assert (N_BEFORE, "confirmed", "removed") in [
        (item["window"], item["origin"], item["change"]) for item in found
    ]
    assert len(fetched(client, f"{EDGE}?limit=1")["items"]) == 1


# --- Episodes ---


def test_an_episode_is_told_with_the_words_of_the_window_that_names_it(client: Client) -> None:
    (listed,) = fetched(client, f"{ORDERS}/episodes")["items"]
    found = fetched(client, f"{ORDERS}/episodes/{listed['episode']}")

    assert found["episode"] == listed
    assert listed["started_window"] == N_BEFORE
    assert found["explained_window"] == max(edge["window"] for edge in listed["edges"])
    assert any("'d'" in sentence for sentence in found["explanation"]["sentences"])


# --- Graph ---


def statuses(graph: dict[str, Any]) -> dict[tuple[str, str], tuple[str, str | None]]:
    found = graph["edges"]
    return {(e["source"], e["target"]): (e["status"], e["confirmed"]) for e in found}


def test_the_graph_of_a_drift_says_what_was_gained_and_lost(client: Client) -> None:
    graph = fetched(client, f"{ORDERS}/graph?window={N_BEFORE}")

    found = {frozenset(ends): status for ends, status in statuses(graph).items()}
    assert found[frozenset(("b", SLASH))] == ("removed", "removed")
    assert found[frozenset(("d", SLASH))] == ("added", "added")
    assert found[frozenset("ab")] == ("kept", None)
    assert graph["confirmed_window"] == N_BEFORE
    assert graph["target"] == "b"


def test_later_windows_of_an_episode_show_its_confirmed_changes(client: Client) -> None:
    graph = fetched(client, f"{ORDERS}/graph?window={N_BEFORE + 2}")

    assert graph["window"]["episode"] == 0
    assert graph["confirmed_window"] == N_BEFORE + 1
    confirmed = {confirmed for _, confirmed in statuses(graph).values()}
    assert {"added", "removed"} <= confirmed


def test_a_window_outside_of_an_episode_has_no_confirmed_changes(client: Client) -> None:
    graph = fetched(client, f"{ORDERS}/graph?window={N_BEFORE - 1}")

    assert graph["window"]["episode"] is None
    assert graph["confirmed_window"] is None
    assert {confirmed for _, confirmed in statuses(graph).values()} == {None}


def test_grafana_gets_rows_of_the_same_graph(client: Client) -> None:
    nodes = fetched(client, f"{ORDERS}/graph/nodes?window={N_BEFORE}")
    edges = fetched(client, f"{ORDERS}/graph/edges?window={N_BEFORE}")

    assert {row["id"] for row in nodes} == {"a", "b", SLASH, "d"}
    assert sorted(row["mainstat"] for row in edges) == ["", "added", "removed"]


# --- What is refused ---


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("limit=0", "limit = '0' is not allowed: it must be a whole number from 1 to 1000"),
        ("limit=1001", "from 1 to 1000"),
        ("limit=ten", "limit = 'ten'"),
        ("limit=%D9%A3", "limit ="),
        ("limit=1&limit=2", "given once"),
        ("drift=yes", "drift = 'yes' is not allowed: it must be true or false"),
        ("cursor=-1", "cursor = '-1'"),
        ("cursor=99999999999999999999", "cursor ="),
        ("stream=x", "must be one of key, drift, cursor, limit"),
        (f"limit={'9' * 5000}", "…"),
    ],
)
def test_a_bad_parameter_is_named_with_what_is_allowed(
    client: Client, query: str, told: str
) -> None:
    problem = refused(client, f"{ORDERS}/windows?{query}", 400)

    assert told in problem["detail"]
    assert len(problem["detail"]) < 500
    assert {"field", "value", "allowed"} <= set(problem)


def test_a_path_that_is_not_utf8_is_refused(client: Client) -> None:
    assert "UTF-8" in refused(client, f"{ORDERS}/edges/%ff/b", 400)["detail"]


@pytest.mark.parametrize(
    "path", ["/api/v1/nothing", f"{BASE}/", "/index.html", "/api/v1/streams//x"]
)
def test_an_unknown_path_is_told_where_to_look(client: Client, path: str) -> None:
    assert "openapi.json" in refused(client, path, 404)["detail"]


def test_an_unknown_method_is_told_with_those_that_are_known(client: Client) -> None:
    answer = client.request("DELETE", ORDERS)

    assert answer.status_code == 405
    assert "GET" in answer.headers["allow"]
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_history_that_cannot_be_read_is_no_mistake(
    client: Client, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StoreError(Path("history.sqlite"), "the disk is gone")

    monkeypatch.setattr(service.store, "monitor", fail)

    assert refused(client, ORDERS, 503)["type"] == "urn:driftbn:problem:history"


def test_a_damaged_window_is_named(
    client: Client, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise DamagedRowError(Path("history.sqlite"), "window 3 of stream 'orders'")

    monkeypatch.setattr(service.store, "monitor", fail)

    problem = refused(client, ORDERS, 500)
    assert problem["type"] == "urn:driftbn:problem:damaged"
    assert "window 3 of stream 'orders' is damaged" in problem["detail"]


def test_a_mistake_is_told_without_its_details(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> tuple[bytes, str]:
        raise RuntimeError("a secret")

    monkeypatch.setattr(service.metrics, "text", fail)
    answer = Client(make_app(service, EndpointSettings())).get("/metrics")

    assert answer.status_code == 500
    assert "a secret" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"


# --- Who may ask ---


def test_everything_but_health_needs_the_token(service: FakeService) -> None:
    settings = EndpointSettings(token="secret")
    client = Client(make_app(service, settings), "http://drift.example")

    for operation in all_operations(Limits()):
        path = operation.path.format(name="orders", index=1, number=0, source="a", target="b")
        answer = client.request(operation.method, path)
        assert answer.status_code == (200 if operation.public else 401), path
    assert client.get(ORDERS, headers={"authorization": "Bearer secret"}).status_code == 200


@pytest.mark.parametrize("path", ["/-/healthy", BASE, "/metrics", "/nothing"])
def test_answers_carry_security_headers_and_no_cors(client: Client, path: str) -> None:
    headers = client.get(path, headers={"origin": "http://evil.example"}).headers

    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert not [name for name in headers if name.startswith("access-control-")]


# --- The OpenAPI document ---

ANSWERED = [
    ("/-/healthy", "/-/healthy"),
    ("/-/ready", "/-/ready"),
    ("/metrics", "/metrics"),
    (BASE, "/api/v1/streams"),
    (ORDERS, "/api/v1/streams/{name}"),
    (f"{BASE}/quiet", "/api/v1/streams/{name}"),
    (f"{BASE}/nobody", "/api/v1/streams/{name}"),
    (f"{ORDERS}?nonsense=1", "/api/v1/streams/{name}"),
    (f"{ORDERS}/windows", "/api/v1/streams/{name}/windows"),
    (f"{ORDERS}/windows/0", "/api/v1/streams/{name}/windows/{index}"),
    (f"{ORDERS}/windows/9", "/api/v1/streams/{name}/windows/{index}"),
    (f"{ORDERS}/windows/99", "/api/v1/streams/{name}/windows/{index}"),
    (f"{ORDERS}/windows/9/page", "/api/v1/streams/{name}/windows/{index}/page"),
    (f"{ORDERS}/series", "/api/v1/streams/{name}/series"),
    (EDGE, "/api/v1/streams/{name}/edges/{source}/{target}"),
    (f"{ORDERS}/episodes", "/api/v1/streams/{name}/episodes"),
    (f"{ORDERS}/episodes/0", "/api/v1/streams/{name}/episodes/{number}"),
    (f"{ORDERS}/actions", "/api/v1/streams/{name}/actions"),
    (f"{ORDERS}/graph", "/api/v1/streams/{name}/graph"),
    (f"{ORDERS}/graph?window=9", "/api/v1/streams/{name}/graph"),
    (f"{ORDERS}/graph/nodes?window=9", "/api/v1/streams/{name}/graph/nodes"),
    (f"{ORDERS}/graph/edges?window=9", "/api/v1/streams/{name}/graph/edges"),
    ("/api/v1/openapi.json", "/api/v1/openapi.json"),
]
ELSEWHERE = {"/api/v1/events"} | {
    f"/api/v1/streams/{{name}}/{word}" for word in ("records", "accept", "silence", "comment")
}
"""Routes whose answers are held against the document in other tests."""


def assert_documented(document: dict[str, Any], path: str, answer: httpx.Response) -> None:
    """Check an answer against what the document says of its route."""
    operation = document["paths"][path][answer.request.method.lower()]
    response = operation["responses"][str(answer.status_code)]
    ((media_type, content),) = response["content"].items()
    assert answer.headers["content-type"].partition(";")[0] == media_type
    if media_type.endswith("json"):
        schema = {**content["schema"], "components": document["components"]}
        Draft202012Validator(schema).validate(answer.json())


@pytest.mark.parametrize(("path", "route"), ANSWERED)
def test_answers_have_the_documented_shape(
    client: Client, document: dict[str, Any], path: str, route: str
) -> None:
    assert_documented(document, route, client.get(path))


def test_every_route_is_documented_and_tested(document: dict[str, Any]) -> None:
    routes = {operation.path for operation in all_operations(Limits())}

    assert set(document["paths"]) == routes
    assert {route for _, route in ANSWERED} | ELSEWHERE == routes


def test_every_schema_of_the_document_is_one_and_all_references_are_met(
    document: dict[str, Any],
) -> None:
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    for target in re.findall(r"#/components/schemas/(\w+)", str(document)):
        assert target in schemas


def test_reports_of_every_kind_have_the_documented_shape(document: dict[str, Any]) -> None:
    schema = {"$ref": "#/components/schemas/WindowReport", "components": document["components"]}

    for publication in drifting_publications():
        Draft202012Validator(schema).validate(publication.report)
