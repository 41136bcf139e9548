from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from driftbn_service.http import NotNowError
from driftbn_service.records import Decoder
from driftbn_service.records.rows import Undecoded
from driftbn_service.settings import EndpointSettings
from driftbn_service.state import JournalError
from jsonschema import Draft202012Validator

from driftbn import DriftMonitor, MonitorConfig
from tests.columns import parquet, stream
from tests.decoding import TableFormat, one_table
from tests.http_client import Client
from tests.http_service import FakeService, Limits, make_app

PATH = "/api/v1/streams/orders/records"
NDJSON = "application/x-ndjson"
SMALL = Limits(max_body_bytes=2000, max_decoded_bytes=4000, body_seconds=5, max_ingests=1)
ROWS = [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[FakeService]:
    with FakeService(tmp_path) as service:
        yield service


@pytest.fixture
def client(service: FakeService) -> Client:
    return Client(make_app(service, EndpointSettings(), limits=SMALL))


def posted(
    client: Client, body: bytes, kind: str = NDJSON, *, path: str = PATH, **headers: str
) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.post(path, content=body, headers={"content-type": kind, **named})


def refused(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()
    return found


def lines(*records: object) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


TABLE = pa.table({"x": [1, 2], "y": ["a", "b"]})
BODIES = {
    NDJSON: lines(*ROWS),
    "application/json": json.dumps(ROWS, indent=1).encode(),
    "text/csv": b"x,y\n1,a\n2,b\n",
    "application/vnd.apache.arrow.stream": stream(TABLE),
    "application/vnd.apache.parquet": parquet(TABLE),
}


# --- What is taken ---


@pytest.mark.parametrize("kind", BODIES)
def test_records_of_every_format_are_taken(client: Client, service: FakeService, kind: str) -> None:
    answer = posted(client, BODIES[kind], f"{kind.upper()}; charset=utf-8")

    assert answer.status_code == 202, answer.text
    assert answer.json() == {"accepted": 2, "sequence": 1, "duplicate": False}
    (table,) = service.taken()
    assert table.to_pylist() == ROWS


@pytest.mark.parametrize("text", ['{"x": 1}', '{\n "x": {"z":\r\n 1}\n}\n', '  {"x": "a}\\nb"}'])
def test_a_single_object_is_one_record_on_however_many_lines(
    client: Client, service: FakeService, text: str
) -> None:
    assert posted(client, text.encode(), "application/json").json()["accepted"] == 1
    (table,) = service.taken()
    assert table.num_rows == 1


# --- Idempotency ---


def test_the_same_body_under_the_same_key_is_taken_once(
    client: Client, service: FakeService
) -> None:
    first = posted(client, BODIES[NDJSON], idempotency_key="k1").json()
    again = posted(client, BODIES[NDJSON], idempotency_key="k1").json()

    assert again == {**first, "duplicate": True}
    assert len(service.taken()) == 1


def test_another_body_under_the_same_key_is_refused(client: Client, service: FakeService) -> None:
    posted(client, lines({"x": 1}), idempotency_key="k1")

    problem = refused(posted(client, lines({"x": 2}), idempotency_key="k1"), 409)

    assert "Idempotency-Key = 'k1'" in problem["detail"]
    assert len(service.taken()) == 1


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "t\tb"])
def test_a_key_that_is_not_allowed_is_refused(client: Client, key: str) -> None:
    problem = refused(posted(client, lines({"x": 1}), idempotency_key=key), 400)

    assert problem["field"] == "Idempotency-Key"


# --- What is refused ---


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("body", [b"", b" \n\n"])
def test_an_empty_body_is_refused(client: Client, kind: str, body: bytes) -> None:
    assert "empty" in refused(posted(client, body, kind), 422)["detail"]


def test_one_bad_record_keeps_all_out(client: Client, service: FakeService) -> None:
    body = b'{"x": 1}\n{"x": \n{"x": 3}\n[4]\n'

    problem = refused(posted(client, body), 422)

    assert problem["n_rejected"] == 2
    assert [error["place"] for error in problem["errors"]] == ["record 2", "record 4"]
    assert {error["reason"] for error in problem["errors"]} == {"not_json", "not_an_object"}
    assert "2 of 4 records" in problem["detail"]
    assert service.taken() == []


def test_only_the_first_errors_are_told(client: Client) -> None:
    problem = refused(posted(client, b"{\n" * 150), 422)

    assert len(problem["errors"]) == 100
    assert problem["n_rejected"] == 100
    assert problem["detail"].startswith("100 records or more cannot be read")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (NDJSON, b'{"x": NaN}\n'),
        (NDJSON, b'{"x": "\xff"}\n'),
        (NDJSON, b'{"x": 1, "x": 2}\n'),
        (NDJSON, b"[" * 1900),
        (NDJSON, lines({"x": 1}).rstrip()[:-1]),
        ("application/json", b'{"x": 1}\n{"x": 2}\n'),
        ("application/json", b'[{"x": 1}, 2]'),
        ("application/json", b'[{"x": 1}'),
        ("application/json", b'"text"'),
        ("text/csv", b"x,y\n1\n"),
        ("application/vnd.apache.arrow.stream", b"no arrow"),
        ("application/vnd.apache.arrow.stream", stream(TABLE)[:-40]),
        ("application/vnd.apache.parquet", parquet(TABLE)[:-9]),
        ("application/vnd.apache.parquet", b"PAR1PAR1"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(
    client: Client, service: FakeService, kind: str, body: bytes
) -> None:
    problem = refused(posted(client, body, kind), 422)

    assert problem["errors"][0]["reason"]
    assert service.taken() == []


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "json"])
def test_an_unknown_content_type_is_refused_with_those_that_are_known(
    client: Client, kind: str
) -> None:
    answer = posted(client, lines({"x": 1}), kind)

    assert "text/csv" in refused(answer, 415)["allowed"]
    assert NDJSON in answer.headers["accept-post"]


@pytest.mark.parametrize(
    ("name", "status", "told"),
    [("nobody", 404, "no stream 'nobody'"), ("quiet", 409, "from files")],
)
def test_a_monitor_that_takes_no_records_is_told(
    client: Client, name: str, status: int, told: str
) -> None:
    path = f"/api/v1/streams/{name}/records"

    assert told in refused(posted(client, lines({"x": 1}), path=path), status)["detail"]


def test_a_full_journal_asks_to_wait(tmp_path: Path) -> None:
    with FakeService(tmp_path / "full", max_pending_bytes=1) as service:
        client = Client(make_app(service, EndpointSettings()))
        assert posted(client, lines({"x": 1})).status_code == 202

        answer = posted(client, lines({"x": 2}))

    assert "source.max_pending_bytes" in refused(answer, 429)["detail"]
    assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    "error",
    [
        JournalError(Path("secret/journal.sqlite"), "the disk is full"),
        NotNowError("it is being stopped"),
    ],
)
def test_what_the_service_says_is_told(
    client: Client,
    service: FakeService,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(service, "ingest", fail)
    with caplog.at_level(logging.WARNING, logger="driftbn.service"):
        answer = posted(client, lines({"x": 1}))

    assert "secret" not in refused(answer, 503)["detail"]
    assert "retry-after" in answer.headers
    assert str(error) in caplog.text


def test_too_many_at_once_are_refused(
    client: Client, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, go_on = threading.Event(), threading.Event()
    take = service.ingest

    def wait(*sent: Any) -> object:
        entered.set()
        go_on.wait(20)
        return take(*sent)

    monkeypatch.setattr(service, "ingest", wait)
    answers: list[httpx.Response] = []
    first = threading.Thread(target=lambda: answers.append(posted(client, lines({"x": 1}))))
    first.start()
    assert entered.wait(20)
    second = posted(client, lines({"x": 2}))
    go_on.set()
    first.join(20)

    assert "1 bodies" in refused(second, 503)["detail"]
    assert second.headers["retry-after"] == "1"
    assert [answer.status_code for answer in answers] == [202]
    assert posted(client, lines({"x": 3})).status_code == 202


def test_answers_have_the_documented_shape(client: Client) -> None:
    document = client.get("/api/v1/openapi.json").json()
    replies = document["paths"]["/api/v1/streams/{name}/records"]["post"]["responses"]
    answers = [
        posted(client, lines({"x": 1})),
        posted(client, b"{"),
        posted(client, b""),
        posted(client, b"x", "text/plain"),
        posted(client, b" " * 2001),
        posted(client, b"x", path="/api/v1/streams/quiet/records"),
        posted(client, b"x", path="/api/v1/streams/nobody/records"),
        posted(client, b"x", path=f"{PATH}?x=1"),
    ]

    for answer in answers:
        ((media_type, content),) = replies[str(answer.status_code)]["content"].items()
        assert answer.headers["content-type"] == media_type
        schema = {**content["schema"], "components": document["components"]}
        Draft202012Validator(schema).validate(answer.json())
    assert {answer.status_code for answer in answers} == {202, 400, 404, 409, 413, 415, 422}


# --- One table of all records ---


def test_records_that_share_no_field_do_not_fill_the_memory(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("driftbn_service.records.rows.MAX_CELLS", 6000)
    monkeypatch.setattr("driftbn_service.records.text.MAX_CELLS", 6000)
    body = b"".join(b'{"x%d": 1}\n' % i for i in range(100))  # two tables of 50 records each

    assert "100 records with 100 different fields" in refused(posted(client, body), 422)["detail"]


def test_a_monitor_sees_the_same_in_the_table_as_in_the_records() -> None:
    """Numbers and text are mixed, fields are absent, and a batch has a column of its own."""
    rows: list[dict[str, Any]] = []
    for i in range(600):
        row: dict[str, Any] = {"a": i % 3, "b": i % 3 if i % 7 else str(i % 3), "c": (i % 5) / 2}
        if i % 11 == 0:
            row["c"] = "none"
        if i % 13:
            row["d"] = i % 2 == 0
        rows.append(row)
    decoder = Decoder(max_record_bytes=1000)
    decoded = decoder.decode(Undecoded(lines(*rows), TableFormat.NDJSON, "{} {}".format))
    config = MonitorConfig(window=200)
    stored = pa.ipc.open_stream(stream(one_table(decoded.batches))).read_all()
    chunk = Undecoded(stored, None, "{} {}".format, checked=True)
    (table,) = decoder.decode(chunk).batches

    monitor = DriftMonitor(config)
    by_table = monitor.update(table)
    by_records = DriftMonitor(config).update(rows)

    assert [r.to_dict() for r in by_table] == [r.to_dict() for r in by_records]
    assert len(by_table) == 3
