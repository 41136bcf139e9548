"""Outlets with the real servers that they are for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
from confluent_kafka import Consumer, TopicPartition
from driftbn_service.events import Event, EventType
from driftbn_service.metrics import Metrics
from driftbn_service.outlets import Deliverer
from driftbn_service.outlets import kafka as kafka_module
from driftbn_service.outlets.alertmanager import REFRESH_SECONDS, AlertmanagerOutlet
from driftbn_service.outlets.kafka import KafkaOutlet
from driftbn_service.outlets.redis import RedisOutlet
from driftbn_service.settings import (
    AlertmanagerOutletSettings,
    KafkaOutletSettings,
    RedisOutletSettings,
)
from driftbn_service.state import Store

from tests.outlet_parts import OutletError, Receiver, make_event, receiver
from tests.reports import EpisodeEvent
from tests.services.alertmanager import AlertmanagerService
from tests.services.kafka import PASSWORD, USER, KafkaService
from tests.services.process import wait_for
from tests.services.redis import RedisService
from tests.unit.test_events import DRIFT, STABLE, part, play, windows

EVENTS = [make_event(i, time="2026-01-01T00:00:00Z") for i in range(3)]
IDS = [event.id for event in EVENTS]
ROOT = Path(__file__).parents[2]

KILLED = """
import json, os, signal, sys
from driftbn_service.outlets import make_outlet
from driftbn_service import settings
from tests.outlet_parts import make_event

values = json.loads(sys.argv[1])
kinds = {"redis": settings.RedisOutletSettings, "kafka": settings.KafkaOutletSettings}
outlet = make_outlet(kinds[values["kind"]].model_validate(values))
outlet.open()
outlet.send([make_event(i, time="2026-01-01T00:00:00Z") for i in range(2)])
os.kill(os.getpid(), signal.SIGKILL)  # between sending and the note that it was done
"""


def exit_code_of(script: str, argument: str) -> int:
    return subprocess.run(
        [sys.executable, "-c", script, argument],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    ).returncode  # fmt: skip


def send_and_be_killed(**values: Any) -> None:
    assert exit_code_of(KILLED, json.dumps(values)) == -signal.SIGKILL


# A file, from the history


KILLED_AT_EVERY_POINT = """
import os, signal, stat, sys
from pathlib import Path

import driftbn_service.outlets
from driftbn.learning import Overrun
from driftbn_service.events import EventState, Whose, publication_of
from driftbn_service.metrics import Metrics
from driftbn_service.outlets import Deliverer
from driftbn_service.outlets.file import FileOutlet
from driftbn_service.settings import FileOutletSettings
from driftbn_service.state import Store
from tests.unit.test_events import make_report

folder = Path(sys.argv[1])
driftbn_service.outlets.BATCH_EVENTS = 2


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def publish():
    state = EventState()
    with Store(folder / "state.sqlite") as store:
        for i in range(61):
            report = make_report(i, overrun=Overrun.DEADLINE if i % 2 else None)
            state, publication = publication_of(Whose("orders"), report, state)
            store.publish([publication], [("file", None)])


def deliver(point):
    store = Store(folder / "state.sqlite")
    outlet = FileOutlet(FileOutletSettings(path=folder / "events.ndjson"))
    write, delivered = os.write, store.delivered
    if point == "half a line":
        os.write = lambda file, data: die(write(file, data[: len(data) // 2]))
    elif point == "before it is on disk":
        os.fsync = lambda file: die() if stat.S_ISREG(os.fstat(file).st_mode) else None
    elif point == "before the note":
        store.delivered = die
    elif point == "after the note":
        store.delivered = lambda *arguments: die(delivered(*arguments))
    deliverer = Deliverer(outlet, store, lambda: {("orders", "")}, Metrics())
    assert deliverer.step() is None, deliverer.error


def in_child(action, *arguments):
    pid = os.fork()
    if not pid:
        try:
            action(*arguments)
        finally:
            os._exit(0 if sys.exc_info()[0] is None else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


assert in_child(publish) == 0
for _ in range(15):
    for point in ("half a line", "before it is on disk", "before the note", "after the note"):
        assert in_child(deliver, point) == -signal.SIGKILL, point
assert in_child(deliver, "") == 0
"""


def test_file_gets_each_event_once_through_sixty_kills(tmp_path: Path) -> None:
    assert exit_code_of(KILLED_AT_EVERY_POINT, str(tmp_path)) == 0
    lines = (tmp_path / "events.ndjson").read_text().splitlines()
    assert [json.loads(line)["data"]["window"] for line in lines] == list(range(1, 61))


# Redis


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisService]:
    """A server of its own, with a password, that is not started yet."""
    service = RedisService(tmp_path, password="right")
    yield service
    service.kill()


def redis_outlet(server: RedisService, stream: str, **values: Any) -> RedisOutlet:
    return RedisOutlet(RedisOutletSettings(url=server.url, stream=stream, **values))


def entries(server: RedisService, stream: str) -> list[dict[str, str]]:
    with server.client() as client:
        found = client.xrange(stream)
    return [{k.decode(): v.decode() for k, v in fields.items()} for _, fields in found]


def test_redis_has_each_event_as_an_entry(redis_server: RedisService, unique: str) -> None:
    outlet = redis_outlet(redis_server, unique)
    outlet.open()
    outlet.send(EVENTS)
    outlet.close()
    found = entries(redis_server, unique)
    assert [entry["id"] for entry in found] == IDS
    assert [json.loads(entry["event"]) for entry in found] == [e.document for e in EVENTS]
    assert found[0]["type"] == EventType.DRIFT_STARTED.value


def test_redis_gets_no_event_twice(redis_server: RedisService, unique: str) -> None:
    outlet = redis_outlet(redis_server, unique)
    outlet.send([EVENTS[0], EVENTS[0]])
    outlet.send(EVENTS)
    again = redis_outlet(redis_server, unique)
    again.send(EVENTS)
    outlet.close()
    again.close()
    assert [entry["id"] for entry in entries(redis_server, unique)] == IDS


def test_redis_gets_no_event_twice_after_a_kill(redis_server: RedisService, unique: str) -> None:
    send_and_be_killed(kind="redis", url=redis_server.url, stream=unique)
    outlet = redis_outlet(redis_server, unique)
    outlet.send(EVENTS)
    outlet.close()
    assert [entry["id"] for entry in entries(redis_server, unique)] == IDS


def test_redis_remembers_events_that_a_consumer_has_deleted(
    redis_server: RedisService, unique: str
) -> None:
    outlet = redis_outlet(redis_server, unique)
    outlet.send(EVENTS)
    with redis_server.client() as client:
        client.xtrim(unique, maxlen=0, approximate=False)
    outlet.send(EVENTS)
    outlet.close()
    assert entries(redis_server, unique) == []


def test_redis_has_an_event_with_the_id_of_an_old_one(
    redis_server: RedisService, unique: str
) -> None:
    outlet = redis_outlet(redis_server, unique)
    outlet.send([make_event(0)])
    outlet.send([make_event(0, rows=7)])
    outlet.close()
    found = [json.loads(entry["event"])["data"]["rows"] for entry in entries(redis_server, unique)]
    assert found == [100, 7]


def test_redis_stream_keeps_about_so_many(redis_server: RedisService, unique: str) -> None:
    outlet = redis_outlet(redis_server, unique, max_length=100)
    for start in range(0, 1000, 100):
        outlet.send([make_event(start + i) for i in range(100)])
    outlet.close()
    n_entries = len(entries(redis_server, unique))
    assert 100 <= n_entries < 400  # whole blocks of 100 are cut


def test_redis_notes_are_bounded(
    redis_server: RedisService, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("driftbn_service.outlets.redis.RecentEvents.LIMIT", 5)
    outlet = redis_outlet(redis_server, unique)
    many = [make_event(i) for i in range(12)]
    for event in many:
        outlet.send([event])
    outlet.send(many[-5:])
    with redis_server.client() as client:
        assert client.zcard(f"{unique}:driftbn:redis") == 5
    outlet.close()
    assert len(entries(redis_server, unique)) == 12


def test_redis_key_of_another_type_loses_nothing(redis_server: RedisService, unique: str) -> None:
    with redis_server.client() as client:
        client.set(unique, "text")
        outlet = redis_outlet(redis_server, unique)
        with pytest.raises(OutletError, match="WRONGTYPE"):
            outlet.send(EVENTS)
        client.delete(unique)
    outlet.send(EVENTS)
    outlet.close()
    assert [entry["id"] for entry in entries(redis_server, unique)] == IDS


def test_redis_that_is_killed_gets_the_rest_when_it_is_back(own_redis: RedisService) -> None:
    outlet = redis_outlet(own_redis, "events", password="right")
    with pytest.raises(OutletError, match="refused"):
        outlet.open()
    own_redis.start()
    outlet.open()
    outlet.send(EVENTS[:1])
    own_redis.kill()
    with pytest.raises(OutletError, match=r"[Cc]onnect"):
        outlet.send(EVENTS)
    own_redis.start()
    outlet.send(EVENTS)
    outlet.close()
    assert [entry["id"] for entry in entries(own_redis, "events")] == IDS


def test_redis_wants_the_right_password(own_redis: RedisService) -> None:
    own_redis.start()
    for password in ("wr0ng", None):
        with pytest.raises(OutletError) as caught:
            redis_outlet(own_redis, "events", password=password).open()
        assert "wr0ng" not in str(caught.value)
    outlet = redis_outlet(own_redis, "events", password="right")
    outlet.open()
    outlet.send(EVENTS)
    outlet.close()
    assert len(entries(own_redis, "events")) == 3


# Kafka


def kafka_outlet(broker: KafkaService, topic: str, **values: Any) -> KafkaOutlet:
    settings = {"brokers": (broker.address,), "topic": topic, **values}
    return KafkaOutlet(KafkaOutletSettings.model_validate(settings))


def open_when_ready(outlet: KafkaOutlet) -> None:
    """Open an outlet, again until the new topic has its leaders, as a deliverer would."""

    def is_open() -> bool:
        try:
            outlet.open()
        except OutletError:
            return False
        return True

    wait_for(is_open, "the outlet opens")


def messages(broker: KafkaService, topic: str, n_partitions: int = 1) -> list[Any]:
    """Return all messages of a topic, partition by partition."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "look"})
    found = []
    for number in range(n_partitions):
        partition = TopicPartition(topic, number, 0)
        _, end = consumer.get_watermark_offsets(partition, timeout=30)
        consumer.assign([partition])
        n_read = 0
        while n_read < end:
            message = consumer.poll(30)
            assert message is not None
            assert message.error() is None
            n_read = message.offset() + 1
            found.append(message)
    consumer.close()
    return found


def ids_of(found: list[Any]) -> list[str]:
    return [json.loads(message.value())["id"] for message in found]


def test_kafka_has_each_event_as_a_message(kafka_broker: KafkaService, unique: str) -> None:
    kafka_broker.create_topic(unique)
    outlet = kafka_outlet(kafka_broker, unique)
    open_when_ready(outlet)
    outlet.send(EVENTS)
    outlet.close()
    found = messages(kafka_broker, unique)
    assert [json.loads(message.value()) for message in found] == [e.document for e in EVENTS]
    headers = dict(found[0].headers())
    assert headers["content-type"].startswith(b"application/cloudevents+json")
    assert headers["ce_id"] == IDS[0].encode()
    assert headers["ce_type"] == b"io.driftbn.drift.started.v1"
    assert headers["ce_time"] == b"2026-01-01T00:00:00Z"
    assert found[0].key() == b"orders"


def test_kafka_gets_no_event_twice(kafka_broker: KafkaService, unique: str) -> None:
    kafka_broker.create_topic(unique, 3)
    outlet = kafka_outlet(kafka_broker, unique)
    open_when_ready(outlet)
    outlet.send([EVENTS[0], EVENTS[0]])
    outlet.send(EVENTS)
    outlet.close()
    again = kafka_outlet(kafka_broker, unique)
    again.send(EVENTS)
    again.close()
    assert ids_of(messages(kafka_broker, unique, 3)) == IDS


def test_kafka_gets_no_event_twice_after_a_kill(kafka_broker: KafkaService, unique: str) -> None:
    kafka_broker.create_topic(unique, 2)
    outlet = kafka_outlet(kafka_broker, unique)
    open_when_ready(outlet)
    outlet.close()
    send_and_be_killed(kind="kafka", brokers=[kafka_broker.address], topic=unique)
    outlet.open()
    outlet.send(EVENTS)
    outlet.close()
    assert ids_of(messages(kafka_broker, unique, 2)) == IDS


def test_kafka_topic_is_searched_only_at_its_end(
    kafka_broker: KafkaService, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("driftbn_service.outlets.kafka.LEAST_LOOK_BACK", 10)
    monkeypatch.setattr("driftbn_service.outlets.kafka.LOOK_BACK_MESSAGES", 10)
    kafka_broker.create_topic(unique)
    many = [make_event(i) for i in range(30)]
    kafka_broker.produce(unique, [event.to_json() for event in many])
    outlet = kafka_outlet(kafka_broker, unique)
    open_when_ready(outlet)
    outlet.send([many[20], many[19]])
    outlet.close()
    assert ids_of(messages(kafka_broker, unique)) == [e.id for e in (*many, many[19])]


def test_kafka_without_the_topic_says_so(kafka_broker: KafkaService, unique: str) -> None:
    outlet = kafka_outlet(kafka_broker, unique, options={"allow.auto.create.topics": "false"})
    with pytest.raises(OutletError, match=f"there is no topic {unique}"):
        outlet.open()
    kafka_broker.create_topic(unique)
    open_when_ready(outlet)
    outlet.send(EVENTS)
    outlet.close()
    assert ids_of(messages(kafka_broker, unique)) == IDS


def test_kafka_event_that_is_too_large_is_done_with(
    kafka_broker: KafkaService, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    kafka_broker.create_topic(unique, **{"max.message.bytes": "5000"})
    large = make_event(7, sentences=[os.urandom(20_000).hex()])
    larger = make_event(8, sentences=[os.urandom(2_000_000).hex()])
    outlet = kafka_outlet(kafka_broker, unique)
    open_when_ready(outlet)
    outlet.send([EVENTS[0], large, larger, EVENTS[1]])
    assert {event.window for event in outlet.refused} == {7, 8}
    outlet.close()
    assert ids_of(messages(kafka_broker, unique)) == IDS[:2]
    assert "refuses an event for good" in caplog.text


def test_kafka_logs_in(kafka_broker: KafkaService, unique: str) -> None:
    kafka_broker.create_topic(unique)
    options = {"security.protocol": "sasl_plaintext"}
    outlet = kafka_outlet(
        kafka_broker, unique, brokers=(kafka_broker.login_address,), options=options,
        username=USER, password=PASSWORD,
    )  # fmt: skip
    open_when_ready(outlet)
    outlet.send(EVENTS)
    outlet.close()
    assert ids_of(messages(kafka_broker, unique)) == IDS


def test_kafka_that_is_away_gets_each_event_once_when_it_is_back(
    kafka_broker: KafkaService, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_module, "TIMEOUT_SECONDS", 1.0)
    kafka_broker.create_topic(unique)
    outlet = kafka_outlet(kafka_broker, unique)
    open_when_ready(outlet)
    outlet.send(EVENTS[:1])
    kafka_broker.kill()
    try:
        for _ in range(2):
            with pytest.raises(OutletError, match="no receipt") as caught:
                outlet.send(EVENTS)
            assert caught.value.n_delivered == 1
    finally:
        kafka_broker.start()
    monkeypatch.setattr(kafka_module, "TIMEOUT_SECONDS", 60.0)
    outlet.send(EVENTS)
    outlet.close()
    assert ids_of(messages(kafka_broker, unique)) == IDS


# Alertmanager


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as found:
        yield found


@pytest.fixture
def alertmanager(tmp_path: Path, hook: Receiver) -> Iterator[AlertmanagerService]:
    config = {
        "route": {
            "receiver": "hook",
            "group_by": ["..."],
            "group_wait": "100ms",
            "group_interval": "200ms",
        },
        "receivers": [{"name": "hook", "webhook_configs": [{"url": hook.url}]}],
    }
    service = AlertmanagerService(tmp_path, json.dumps(config))  # JSON is YAML, too
    service.start()
    yield service
    service.kill()


def active(service: AlertmanagerService) -> list[dict[str, str]]:
    found = urllib3.request("GET", f"{service.url}/api/v2/alerts").json()
    return [alert["labels"] for alert in found]


def notices(hook: Receiver) -> list[tuple[str, str, str]]:
    return [
        (alert["status"], alert["labels"]["alertname"], alert["annotations"]["summary"])
        for request in hook.requests
        for alert in request.document["alerts"]
    ]


def told(event: Event) -> str:
    return str(event.document["data"]["headline"])


def test_alert_goes_all_the_way_and_is_resolved(
    alertmanager: AlertmanagerService, hook: Receiver
) -> None:
    outlet = AlertmanagerOutlet(AlertmanagerOutletSettings(url=alertmanager.url))
    started = make_event(3, key="eu", since_time="2026-01-01T00:00:00Z")
    ended = make_event(9, EventType.DRIFT_ENDED, key="eu", since_time="2026-01-01T00:00:00Z")
    outlet.open()
    outlet.send([started])
    assert [labels["key"] for labels in active(alertmanager)] == ["eu"]
    wait_for(lambda: hook.requests, "Alertmanager tells of the alert")
    outlet.refresh([started])
    assert len(active(alertmanager)) == 1
    outlet.send([ended])
    wait_for(lambda: len(notices(hook)) > 1, "Alertmanager tells of its end")
    assert active(alertmanager) == []
    assert notices(hook) == [
        ("firing", "DriftbnStructuralDrift", f"{told(started)[:-1]}, since 2026-01-01T00:00:00Z."),
        ("resolved", "DriftbnStructuralDrift", told(ended)),
    ]
    outlet.close()


def test_all_types_of_events_are_taken(alertmanager: AlertmanagerService) -> None:
    outlet = AlertmanagerOutlet(AlertmanagerOutletSettings(url=alertmanager.url))
    outlet.send([make_event(3, type_) for type_ in EventType])
    assert outlet.refused == ()
    assert [labels["alertname"] for labels in active(alertmanager)] == ["DriftbnSchemaChange"]
    outlet.close()


def test_open_episode_fires_on_through_restarts_until_it_has_ended(
    alertmanager: AlertmanagerService, tmp_path: Path
) -> None:
    settings = AlertmanagerOutletSettings(url=alertmanager.url)
    reports = windows(part(DRIFT, EpisodeEvent.STARTED), part(STABLE, EpisodeEvent.ENDED))
    started, ended = play(*reports, key="eu")
    now = [1000.0]

    def deliverer() -> Deliverer:
        lanes = {("orders", "3")}
        outlet = AlertmanagerOutlet(settings)
        return Deliverer(outlet, store, lambda: lanes, Metrics(), clock=lambda: now[0])

    with Store(tmp_path / "state.sqlite") as store:
        store.publish([started], [("alertmanager", None)])
        first = deliverer()
        assert first.step() == REFRESH_SECONDS
        assert [labels["key"] for labels in active(alertmanager)] == ["eu"]
        alertmanager.kill()  # it keeps its alerts in memory only
        alertmanager.start()
        assert active(alertmanager) == []
        now[0] += REFRESH_SECONDS
        assert first.step() == REFRESH_SECONDS
        assert [labels["key"] for labels in active(alertmanager)] == ["eu"]
        first.outlet.close()
        alertmanager.kill()
        alertmanager.start()
        second = deliverer()  # as after a restart of the daemon
        second.step()
        assert [labels["key"] for labels in active(alertmanager)] == ["eu"]
        store.publish([ended], [("alertmanager", None)])
        second.step()
        assert active(alertmanager) == []
        now[0] += REFRESH_SECONDS
        second.step()
        assert active(alertmanager) == []
        second.outlet.close()
