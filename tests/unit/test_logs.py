from __future__ import annotations

import importlib
import io
import json
import logging
import os
import pkgutil
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import driftbn_service
import pytest
from driftbn_service.process import configure_logging
from driftbn_service.settings import LogFormat, LogLevel, LogSettings

from driftbn.errors import ConfigError

LOG = logging.getLogger("driftbn.service.test")
JSON = LogSettings(format=LogFormat.JSON)


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root, own = logging.getLogger(), logging.getLogger("driftbn")
    handlers, levels = root.handlers[:], (root.level, own.level)
    yield
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    own.setLevel(levels[1])


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def objects(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def fail(error: Exception) -> None:
    try:
        raise error
    except type(error):
        LOG.exception("it failed", extra={"stream": "orders"})


def test_text_has_time_level_logger_message_and_fields(stream: io.StringIO) -> None:
    configure_logging(LogSettings(), stream)
    LOG.info("%d windows", 3, extra={"stream": "eu orders", "rows": 5000, "share": 0.5})
    pattern = (
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO    driftbn\.service\.test 3 windows"
        r' stream="eu orders" rows=5000 share=0\.5\n'
    )
    assert re.fullmatch(pattern, stream.getvalue())


def test_json_has_one_object_a_line(stream: io.StringIO) -> None:
    configure_logging(JSON, stream)
    LOG.warning("two\nlines", extra={"stream": "ordérs", "path": Path("/x"), "level": "mine"})
    LOG.info("more")
    first, second = objects(stream)
    moment = datetime.fromisoformat(first.pop("time"))
    assert moment.utcoffset() is not None
    assert abs(moment.timestamp() - datetime.now().timestamp()) < 60  # noqa: DTZ005
    assert first == {
        "level": "warning",
        "logger": "driftbn.service.test",
        "message": "two\nlines",
        "stream": "ordérs",
        "path": "/x",
        "level_": "mine",
    }
    assert set(second) == {"time", "level", "logger", "message"}


def test_nothing_can_forge_a_line_or_move_a_cursor(stream: io.StringIO) -> None:
    configure_logging(LogSettings(), stream)
    LOG.info("a\n2026-01-01 forged\x1b[2J", extra={"key": "x\ny\x1b\u202e", "other": 'a="b"'})
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert text.endswith('key="x\\ny\\u001b\\u202e" other="a=\\"b\\""\n')
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("level", "expected"),
    [("debug", "diwe"), ("info", "iwe"), ("warning", "we"), ("error", "e")],
)
def test_the_level_of_the_settings_is_the_least_that_is_logged(
    stream: io.StringIO, level: str, expected: str
) -> None:
    configure_logging(LogSettings(level=LogLevel(level), format=LogFormat.JSON), stream)
    LOG.debug("d")
    LOG.info("i")
    LOG.warning("w")
    LOG.error("e")
    assert "".join(line["message"] for line in objects(stream)) == expected


@pytest.mark.parametrize("error", [ConfigError("a", 1, "2"), OSError(28, "No space left")])
def test_an_expected_error_is_one_line_without_traceback(
    stream: io.StringIO, error: Exception
) -> None:
    configure_logging(LogSettings(), stream)
    fail(error)
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert "it failed stream=orders error=" in text
    assert str(error).split("=")[0] in text
    assert "Traceback" not in text


def test_a_bug_or_the_level_debug_shows_the_traceback(stream: io.StringIO) -> None:
    configure_logging(LogSettings(), stream)
    fail(ZeroDivisionError("x"))
    assert 'error="ZeroDivisionError: x"\n  Traceback (most recent' in stream.getvalue()
    configure_logging(LogSettings(level=LogLevel.DEBUG), stream)
    fail(OSError("disk"))
    assert "\n  OSError: disk\n" in stream.getvalue()


def test_other_libraries_are_routed_from_warnings_on(stream: io.StringIO) -> None:
    other = logging.getLogger("uvicorn.error")
    before = (other.level, other.handlers[:], other.propagate)
    configure_logging(JSON, stream)
    other.info("started", extra={"color_message": "\x1b[1mstarted"})
    other.warning("slow", extra={"color_message": "\x1b[1mslow"})
    (line,) = objects(stream)
    assert (line["logger"], line["message"]) == ("uvicorn.error", "slow")
    assert "color_message" not in line
    assert (other.level, other.handlers, other.propagate) == before


def test_in_the_journal_lines_begin_with_their_priority_and_have_no_time(tmp_path: Path) -> None:
    with (tmp_path / "journal").open("w+") as stream:
        status = os.fstat(stream.fileno())
        environ = {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
        configure_logging(LogSettings(level=LogLevel.DEBUG), stream, environ=environ)
        LOG.debug("d")
        LOG.info("i")
        LOG.warning("w")
        LOG.critical("c")
        fail(ValueError("x"))
        stream.seek(0)
        lines = stream.read().splitlines()
    assert lines[0] == "<7>DEBUG   driftbn.service.test d"
    assert [line[:3] for line in lines[1:4]] == ["<6>", "<4>", "<2>"]
    assert len(lines) > 6
    assert all(line.startswith("<3>") for line in lines[4:])  # the traceback too


@pytest.mark.slow
def test_every_logger_of_the_service_has_the_level_of_the_settings() -> None:
    names = [
        found.name
        for found in pkgutil.walk_packages(driftbn_service.__path__, "driftbn_service.")
        if not found.name.endswith("__main__")
    ]
    modules = [importlib.import_module(name) for name in names]
    loggers = {
        f"{module.__name__}.{name}": value.name
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, logging.Logger)
    }
    assert loggers
    strange = {place: name for place, name in loggers.items() if not name.startswith("driftbn.")}
    assert strange == {}
