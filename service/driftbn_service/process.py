"""A process among others: signals as flags, messages to systemd, and its log on one stream."""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import FrameType
from typing import Any, Final, TextIO

from driftbn.errors import DriftbnError
from driftbn.explain.sentences import printable
from driftbn_service.settings import LogFormat, LogLevel, LogSettings

_STOPS: Final = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """Notes the signals of the process, while it is entered; for the main thread.

    Handlers only count. A pipe wakes ``wait``, so that a signal is looked at at once.
    """

    def __init__(self) -> None:
        self.n_stops = 0
        self._reload = False
        self._before: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {}
        self._pipe = (-1, -1)
        self._wakeup_before = -1

    def __enter__(self) -> Signals:
        self._pipe = os.pipe()
        for end in self._pipe:
            os.set_blocking(end, False)
        self._wakeup_before = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        for number in (*_STOPS, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        for end in self._pipe:
            os.close(end)

    def wait(self, timeout: float) -> None:
        """Wait for the next signal, ``timeout`` seconds at most."""
        if select.select([self._pipe[0]], [], [], timeout)[0]:
            os.read(self._pipe[0], 4096)

    def take_reload(self) -> bool:
        asked, self._reload = self._reload, False
        return asked

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._reload = True
        else:
            self.n_stops += 1


_logger = logging.getLogger("driftbn.service.process")


class Notifier:
    """Tells systemd how this process is, as sd_notify(3) describes; silent where there is none."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        # "@" stands for the zero byte that begins an abstract address.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        period = environ.get("WATCHDOG_USEC", "")
        own = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self.watchdog_seconds = int(period) / 1e6 if period.isdigit() and own else None

    def ready(self, status: str) -> None:
        self._send(f"READY=1\nSTATUS={status}")

    def extend(self, seconds: float, status: str) -> None:
        """Ask for so much more time to start, from now on."""
        self._send(f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}\nSTATUS={status}")

    def reloading(self, monotonic_seconds: float) -> None:
        """Say that settings are being read again."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={int(monotonic_seconds * 1e6)}")

    def alive(self) -> None:
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.sendto(message.encode(), self._address)
        except OSError as error:
            _logger.debug("the service manager cannot be told: %s", error)


# The log: lines of text or JSON; nothing else configures logging.

OWN: Final = "driftbn"
"""The logger above all of ours; its level is the one that is set."""

_PRIORITIES: Final = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4))
_INFO_PRIORITY, _DEBUG_PRIORITY = 6, 7  # of syslog, as sd-daemon(3) has them
_STANDARD: Final = frozenset(
    (*vars(logging.makeLogRecord({})), "message", "asctime", "color_message")
)
"""What is in every record, or what uvicorn puts in for terminals; the rest is ours to show."""


def configure_logging(
    settings: LogSettings,
    stream: TextIO | None = None,
    *,
    environ: Mapping[str, str] | None = None,
) -> None:
    """Send the log of the process to a stream; called again, it changes what was set before.

    Our own loggers have the level of the settings. Those of other libraries are routed to the same
    stream from warnings on, from information on where ours tell everything; nothing else of them is
    changed. Warnings of Python are logged too. Without ``stream`` it stays as before, and is
    standard error the first time.

    Where the stream goes to the journal of systemd, each line begins with its priority, as
    sd-daemon(3) describes, and text goes without the time, which the journal knows.
    """
    root = logging.getLogger()
    before = [handler for handler in root.handlers if isinstance(handler, ServiceHandler)]
    if stream is None:
        stream = before[0].stream if before else sys.stderr
    handler = ServiceHandler(stream)
    journal = _is_journal(stream, os.environ if environ is None else environ)
    debug = settings.level is LogLevel.DEBUG
    as_json = settings.format is LogFormat.JSON
    lines = JsonLines() if as_json else TextLines(timed=not journal, debug=debug)
    handler.setFormatter(_Prioritised(lines) if journal else lines)
    root.addHandler(handler)
    for old in before:
        root.removeHandler(old)
    root.setLevel(logging.INFO if debug else logging.WARNING)
    logging.getLogger(OWN).setLevel(settings.level.value.upper())
    logging.captureWarnings(True)


class ServiceHandler(logging.StreamHandler[TextIO]):
    """Writes to the stream that ``configure_logging`` was given."""


class TextLines(logging.Formatter):
    r"""A line for people: time, level, logger, message, then ``key=value``.

    An error that a user or the outside world can cause is told in one line; one that can only be a
    mistake of the program comes with its traceback, and so does every error where ``debug`` is
    set.

    >>> fields = {"name": "driftbn.service.daemon", "levelname": "INFO", "msg": "window\nfound"}
    >>> TextLines(timed=False).format(logging.makeLogRecord(fields | {"stream": "a b", "rows": 5}))
    'INFO    driftbn.service.daemon window\\nfound stream="a b" rows=5'
    """

    def __init__(self, *, timed: bool = True, debug: bool = False) -> None:
        super().__init__()
        self._timed = timed
        self._debug = debug

    def format(self, record: logging.LogRecord) -> str:
        time = f"{_time(record)} " if self._timed else ""
        words = [f"{time}{record.levelname:<7} {record.name} {printable(record.getMessage())}"]
        words += [f"{key}={_text(value)}" for key, value in _extra(record).items()]
        error = _error(record)
        if error is None:
            return " ".join(words)
        words.append(f"error={_text(_described(error))}")
        return " ".join(words) + (_traceback(error) if self._debug or _is_bug(error) else "")


class JsonLines(logging.Formatter):
    """A JSON object a line: time, level, logger, message, then what the record has beside them.

    An exception has its type and message as ``error`` and its traceback as a field.

    >>> fields = {"name": "driftbn", "levelname": "INFO", "msg": "started", "created": 0.0}
    >>> JsonLines().format(logging.makeLogRecord(fields | {"port": 9464}))[:62]
    '{"time": "1970-01-01T00:00:00.000Z", "level": "info", "logger"'
    """

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for key, value in _extra(record).items():
            document[f"{key}_" if key in document else key] = value
        error = _error(record)
        if error is not None:
            document["error"] = _described(error)
            document["traceback"] = "".join(traceback.format_exception(error))
        return json.dumps(document, default=str)


class _Prioritised(logging.Formatter):
    """Puts the priority of syslog before every line, which the journal takes off again."""

    def __init__(self, lines: logging.Formatter) -> None:
        super().__init__()
        self._lines = lines

    def format(self, record: logging.LogRecord) -> str:
        usual = _INFO_PRIORITY if record.levelno >= logging.INFO else _DEBUG_PRIORITY
        priority = next((p for level, p in _PRIORITIES if record.levelno >= level), usual)
        return "\n".join(f"<{priority}>{line}" for line in self._lines.format(record).split("\n"))


def _is_journal(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return whether systemd has connected this very stream to its journal."""
    named = environ.get("JOURNAL_STREAM")
    if not named:
        return False
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):  # closed, or text in memory, which has no file behind it
        return False
    return named == f"{status.st_dev}:{status.st_ino}"


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def _error(record: logging.LogRecord) -> BaseException | None:
    return record.exc_info[1] if record.exc_info else None


def _described(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _is_bug(error: BaseException) -> bool:
    return not isinstance(error, DriftbnError | OSError)


def _traceback(error: BaseException) -> str:
    text = "".join(traceback.format_exception(error)).rstrip()
    return "".join(f"\n  {printable(line)}" for line in text.split("\n"))


def _text(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    plain = text.isprintable() and text and not any(mark in text for mark in ' "=')
    bare = plain or not isinstance(value, str)
    return text if bare else json.dumps(value, ensure_ascii=not text.isprintable())
