"""All settings of the service."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Protocol, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from driftbn.errors import ConfigError
from driftbn_service.optional_parts import is_installed
from driftbn_service.settings.base import (
    MIB,
    Bytes,
    Count,
    Directory,
    Flag,
    Location,
    Number,
    OwnFile,
    Seconds,
    Section,
    Text,
)
from driftbn_service.settings.monitors import StreamSettings
from driftbn_service.settings.outlets import OutletSettings
from driftbn_service.settings.secrets import secret_of


class LogLevel(StrEnum):
    """What is worth a line of the log."""

    DEBUG = "debug"
    """Everything, with tracebacks."""
    INFO = "info"
    """What the service does."""
    WARNING = "warning"
    """What limits the results."""
    ERROR = "error"
    """What failed."""


class LogFormat(StrEnum):
    """How a line of the log is written."""

    TEXT = "text"
    """For people: time, level, logger, message, ``key=value``."""
    JSON = "json"
    """For programs: one JSON object a line."""


class ServiceSettings(Section):
    """The process."""

    state_dir: Directory
    """Where checkpoints, history, journals and quarantined records live; made if it is not
    there."""
    exit_when_drained: Flag = False
    """Whether to end when every source has come to its end."""
    shutdown_seconds: Seconds = 30.0
    """How long a shutdown may take before it is forced."""
    queue_bytes: Bytes = 64 * MIB
    """Bytes per stream that are read and not yet worked through; beyond that reading waits."""


def is_loopback(host: str) -> bool:
    """Whether a host is reached from this machine only.

    Examples
    --------
    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "[::1]", "10.0.0.1")]
    [True, True, True, True, False]
    """
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class EndpointSettings(Section):
    """The HTTP endpoint: metrics, health, history, the page, and records sent in."""

    enabled: Flag = True
    """Whether there is one."""
    host: Text = "127.0.0.1"
    """The address to listen at."""
    port: Annotated[int, Field(strict=True, ge=0, le=65535)] = 9464
    """The port; 0 takes any that is free."""
    max_body_bytes: Bytes = 32 * MIB
    """The largest body of a request, as sent."""
    max_decoded_bytes: Bytes = 64 * MIB
    """The largest body after decompression, and the most that Arrow or Parquet may become."""
    max_page: Annotated[int, Field(strict=True, ge=1, le=100_000)] = 1000
    """The most items of one answer."""
    token_file: Location | None = None
    """The file with the bearer token that callers must show."""
    token: SecretStr | None = Field(default=None, validate_default=True)
    """The bearer token itself; better in a file."""

    _secret = field_validator("token")(secret_of("token"))

    @model_validator(mode="after")
    def _check_exposure(self) -> Self:
        """Refuse an address that others can reach unless there is a token."""
        if self.token is not None and not self.token.get_secret_value().strip():
            raise ConfigError("token", "", "a text that is not empty")
        if self.enabled and self.token is None and not is_loopback(self.host):
            allowed = (
                "127.0.0.1, ::1 or localhost as long as there is no token or token_file: set one"
            )
            raise ConfigError("host", self.host, allowed)
        return self


class CheckpointSettings(Section):
    """How often state is written."""

    interval_seconds: Seconds = 10.0
    """Seconds between checkpoints while records come in."""
    publish_seconds: Seconds = 1.0
    """A window that is done is published within this time, which takes a checkpoint."""
    keep: Annotated[int, Field(strict=True, ge=1, le=1000)] = 3
    """Checkpoints kept of each lane."""


class StoreSettings(Section):
    """The history of windows, episodes and events."""

    path: OwnFile | None = None
    """The SQLite file; ``history.sqlite`` in the state directory unless given."""
    keep_windows: Count = 2000
    """Windows kept of each monitor."""
    keep_events_days: Annotated[Number, Field(gt=0)] = 30.0
    """Days that delivered events are kept."""


class LogSettings(Section):
    """The log, on standard error."""

    level: LogLevel = LogLevel.INFO
    """The least that is logged: ``debug``, ``info``, ``warning`` or ``error``."""
    format: LogFormat = LogFormat.TEXT
    """``text`` or ``json``."""


class SeveralErrors(ValueError):  # noqa: N818 - it carries errors and is none to be shown
    """Settings that contradict each other.

    Attributes
    ----------
    errors
        Each contradiction, with the whole path as its field.
    """

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(map(str, errors)))


class Named(Protocol):
    """A table with a name."""

    @property
    def name(self) -> str:
        """The name."""


def duplicates(section: str, tables: Sequence[Named]) -> list[ConfigError]:
    """Return an error for each table whose name another has; case does not tell names apart."""
    first: dict[str, int] = {}
    found = []
    for place, table in enumerate(tables):
        earlier = first.setdefault(table.name.lower(), place)
        if earlier != place:
            allowed = f"another name than that of {section}[{earlier}]"
            found.append(ConfigError(f"{section}[{place}].name", table.name, allowed))
    return found


_EXTRAS: Final = {
    "kafka": "kafka",
    "redis": "redis",
}
"""The extra that a kind of source or outlet stands on."""


class Settings(Section):
    """All settings of the service.

    Examples
    --------
    >>> stream = {"name": "orders", "source": {"kind": "stdin"}}
    >>> settings = Settings(service={"state_dir": "state"}, monitors=[stream])
    >>> settings.history_path.name, settings.stream("orders").source.format.value
    ('history.sqlite', 'ndjson')
    """

    service: ServiceSettings
    """The process."""
    endpoint: EndpointSettings = EndpointSettings()
    """The HTTP endpoint."""
    checkpoint: CheckpointSettings = CheckpointSettings()
    """How often state is written."""
    store: StoreSettings = StoreSettings()
    """The history."""
    log: LogSettings = LogSettings()
    """The log."""
    monitors: Annotated[tuple[StreamSettings, ...], Field(min_length=1)]
    """The streams that are watched."""
    outlets: tuple[OutletSettings, ...] = ()
    """Where events go, beside the history."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        errors = [*duplicates("monitors", self.monitors), *duplicates("outlets", self.outlets)]
        stdin = [place for place, s in enumerate(self.monitors) if s.source.kind == "stdin"]
        http = [place for place, s in enumerate(self.monitors) if s.source.kind == "http"]
        for place in stdin[1:]:
            allowed = "another: standard input can be read only once"
            errors.append(ConfigError(f"monitors[{place}].source.kind", "stdin", allowed))
        for place in () if self.endpoint.enabled else http:
            allowed = "another where endpoint.enabled is false"
            errors.append(ConfigError(f"monitors[{place}].source.kind", "http", allowed))
        errors += self._missing_extras()
        if errors:
            raise SeveralErrors(errors)
        return self

    def _missing_extras(self) -> list[ConfigError]:
        streams, outlets = enumerate(self.monitors), enumerate(self.outlets)
        chosen: list[tuple[str, str]] = []
        chosen += [(f"monitors[{i}].source.kind", stream.source.kind) for i, stream in streams]
        chosen += [(f"outlets[{i}].kind", outlet.kind) for i, outlet in outlets]
        return [
            ConfigError(field, value, f"installed, pip install 'driftbn[{extra}]', or another")
            for field, value in chosen
            if (extra := _EXTRAS.get(value)) is not None and not is_installed(extra)
        ]

    @property
    def history_path(self) -> Path:
        """The file of the history."""
        return self.store.path or self.service.state_dir / "history.sqlite"

    def stream(self, name: str) -> StreamSettings:
        """Return the stream of that name.

        Raises
        ------
        KeyError
            If there is none.
        """
        for stream in self.monitors:
            if stream.name == name:
                return stream
        raise KeyError(name)
