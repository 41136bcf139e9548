"""Servers for the tests of this directory, one of each for the whole run."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.histories import History, make_records, publish_alone
from tests.services.daemon import DaemonService
from tests.services.kafka import KafkaService
from tests.services.postgres import PostgresService
from tests.services.process import Service
from tests.services.redis import RedisService


def _run(service: Service) -> Iterator[Service]:
    service.start()
    yield service
    service.stop()


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A Redis server, shared by all tests: use keys of your own."""
    yield from _run(RedisService(tmp_path_factory.mktemp("redis")))


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A Kafka broker, shared by all tests: use topics and groups of your own."""
    yield from _run(KafkaService(tmp_path_factory.mktemp("kafka")))


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A PostgreSQL server, shared by all tests: use databases of your own."""
    yield from _run(PostgresService(tmp_path_factory.mktemp("postgres")))


@pytest.fixture(scope="session")
def records() -> list[dict[str, Any]]:
    """The records of a stream in which one dependency comes and goes."""
    return make_records()


@pytest.fixture(scope="session")
def expected(records: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> History:
    """What a daemon publishes that reads these records from a file and is left alone."""
    return publish_alone(tmp_path_factory.mktemp("undisturbed"), records)


@pytest.fixture(autouse=True)
def _no_daemon_is_left() -> Iterator[None]:
    """End the daemons that a test which failed has left."""
    yield
    for daemon in list(DaemonService.started):
        daemon.kill()


@pytest.fixture
def unique() -> str:
    """A name that no other test uses, for topics, groups and keys."""
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Show the end of a server's log beside the failure of a test that used it."""
    report = yield
    if call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception):
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, Service):
                report.sections.append((f"{value.name}, {value.log}", value.log_tail()))
    return report
