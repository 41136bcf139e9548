"""States in both databases that there are."""

from __future__ import annotations

import logging
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from driftbn_service.state import FILE

Places = Callable[[], Path | str]
"""Gives a place where no state is yet."""


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if find_spec("psycopg") is None:
        pytest.skip("psycopg is not installed: it comes with the extra postgres")
    postgres = pytest.importorskip("tests.services.postgres")
    if not postgres.is_installed():
        pytest.skip("no PostgreSQL server: it comes with the package postgresql")
    server = postgres.PostgresService(tmp_path_factory.mktemp("postgres"))
    server.start()
    yield server.url
    server.stop()


@pytest.fixture(params=["sqlite", "postgres"])
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Places:
    if request.param == "sqlite":
        return lambda: tmp_path / uuid.uuid4().hex / FILE
    url = request.getfixturevalue("postgres_url")

    def schema() -> str:
        import psycopg  # noqa: PLC0415 - it may be missing

        name = f"s{uuid.uuid4().hex}"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return f"{url}?options=-csearch_path%3D{name}"

    return schema


@pytest.fixture
def place(new_place: Places) -> Path | str:
    return new_place()


def dump(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        found = sorted(connection.iterdump())
    connection.close()
    return found


def errors_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
