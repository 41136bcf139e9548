"""Where events go."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, SecretStr, field_validator

from driftbn.errors import ConfigError
from driftbn_service.settings.base import (
    Count,
    HttpUrl,
    Location,
    Name,
    RedisUrl,
    Seconds,
    Section,
    Text,
)
from driftbn_service.settings.secrets import secret_of
from driftbn_service.settings.sources import Options

EventType: TypeAlias = Literal[
    "io.driftbn.drift.started.v1",
    "io.driftbn.drift.updated.v1",
    "io.driftbn.drift.ended.v1",
    "io.driftbn.schema.changed.v1",
    "io.driftbn.monitor.degraded.v1",
    "io.driftbn.monitor.failed.v1",
    "io.driftbn.monitor.recovered.v1",
]
_ENDS: Final = {
    "io.driftbn.drift.": "io.driftbn.drift.ended.v1",
    "io.driftbn.monitor.": "io.driftbn.monitor.recovered.v1",
}
_Types: TypeAlias = Annotated[tuple[EventType, ...], Field(min_length=1)]


class LogOutletSettings(Section):
    """Events as lines of the log."""

    kind: Literal["log"] = "log"
    """The log."""
    name: Name = "log"
    """The name of the outlet; what was delivered is remembered by it."""
    types: _Types | None = None
    """Types of events to send; all unless given."""


class FileOutletSettings(Section):
    """Events appended to a file, one JSON object a line."""

    kind: Literal["file"] = "file"
    """A file."""
    name: Name = "file"
    """The name of the outlet; what was delivered is remembered by it."""
    types: _Types | None = None
    """Types of events to send; all unless given."""
    path: Location
    """The file; it is made if it is not there."""


class WebhookOutletSettings(Section):
    """Events posted to an address."""

    kind: Literal["webhook"] = "webhook"
    """HTTP POST, one event each."""
    name: Name = "webhook"
    """The name of the outlet; what was delivered is remembered by it."""
    types: _Types | None = None
    """Types of events to send; all unless given."""
    url: Annotated[HttpUrl, Field(repr=False)]
    """Where to post to: ``http://`` or ``https://``."""
    timeout_seconds: Seconds = 10.0
    """How long an answer may take."""
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    """More headers of the request."""
    token_file: Location | None = None
    """The file with the bearer token."""
    token: SecretStr | None = Field(default=None, validate_default=True)
    """The bearer token itself; better in a file."""

    _secret = field_validator("token")(secret_of("token"))


class RedisOutletSettings(Section):
    """Events added to a stream of Redis."""

    kind: Literal["redis"] = "redis"
    """A stream of Redis."""
    name: Name = "redis"
    """The name of the outlet; what was delivered is remembered by it."""
    types: _Types | None = None
    """Types of events to send; all unless given."""
    url: Annotated[RedisUrl, Field(repr=False)] = "redis://127.0.0.1:6379/0"
    """The server: ``redis://``, ``rediss://`` or ``unix://``."""
    stream: Text = "driftbn:events"
    """The key of the stream."""
    max_length: Count | None = None
    """About how many entries the stream keeps; all unless given."""
    password_file: Location | None = None
    """The file with the password."""
    password: SecretStr | None = Field(default=None, validate_default=True)
    """The password itself; better in a file."""

    _secret = field_validator("password")(secret_of("password"))


class KafkaOutletSettings(Section):
    """Events sent to a topic of Kafka."""

    kind: Literal["kafka"] = "kafka"
    """A topic of Kafka."""
    name: Name = "kafka"
    """The name of the outlet; what was delivered is remembered by it."""
    types: _Types | None = None
    """Types of events to send; all unless given."""
    brokers: Annotated[tuple[Text, ...], Field(min_length=1)]
    """Addresses ``host:port`` to begin with."""
    topic: Text
    """The topic."""
    options: Options = Field(default_factory=dict, repr=False)
    """Settings of librdkafka, such as ``"security.protocol" = "sasl_ssl"``."""
    username: Text | None = None
    """The name to log in with."""
    password_file: Location | None = None
    """The file with the password."""
    password: SecretStr | None = Field(default=None, validate_default=True)
    """The password itself; better in a file."""

    _secret = field_validator("password")(secret_of("password"))


class AlertmanagerOutletSettings(Section):
    """Drifts as alerts of Prometheus Alertmanager."""

    kind: Literal["alertmanager"] = "alertmanager"
    """The interface v2 of Alertmanager."""
    name: Name = "alertmanager"
    """The name of the outlet; what was delivered is remembered by it."""
    types: _Types | None = None
    """Types of events to send; all unless given."""
    url: Annotated[HttpUrl, Field(repr=False)] = "http://127.0.0.1:9093"
    """The address of Alertmanager, without ``/api/v2``."""
    timeout_seconds: Seconds = 10.0
    """How long an answer may take."""

    @field_validator("types")
    @classmethod
    def _check_types(cls, types: _Types | None) -> _Types | None:
        for matter, end in _ENDS.items():
            begins = any(name.startswith(matter) for name in types or ())
            if begins and end not in (types or ()):
                raise ConfigError("", types, f"such that alerts can end: with {end!r} too")
        return types


OutletSettings: TypeAlias = Annotated[
    LogOutletSettings
    | FileOutletSettings
    | WebhookOutletSettings
    | RedisOutletSettings
    | KafkaOutletSettings
    | AlertmanagerOutletSettings,
    Field(discriminator="kind"),
]
"""One of the outlets, told apart by ``kind``."""
