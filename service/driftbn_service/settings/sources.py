"""Where the records of a stream come from."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field, SecretStr, field_validator

from driftbn.errors import ConfigError
from driftbn_service.settings.base import (
    MIB,
    Bytes,
    Flag,
    Location,
    Pattern,
    RedisUrl,
    Seconds,
    Section,
    Text,
)
from driftbn_service.settings.secrets import secret_of
from driftbn_service.tables import TableFormat


def _option(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


_OptionText: TypeAlias = Annotated[
    str, BeforeValidator(_option, json_schema_input_type=str | int | float | bool)
]
Options: TypeAlias = dict[str, _OptionText]
"""Settings of librdkafka; numbers and booleans become text, as it wants them."""


_OWN_OPTIONS: Final = {
    "bootstrap.servers": "'brokers' gives it",
    "group.id": "'group' gives it",
    "sasl.username": "'username' gives it",
    "sasl.password": "'password' or 'password_file' gives it",
    "enable.auto.commit": "offsets are committed after checkpoints",
    "enable.auto.offset.store": "offsets are committed after checkpoints",
    "auto.offset.reset": "'start' says where a new stream begins",
}


class Start(StrEnum):
    """Where a stream that was never read before begins."""

    EARLIEST = "earliest"
    """At the oldest record that is still there."""
    LATEST = "latest"
    """At what comes from now on."""


class Partitions(StrEnum):
    """How the partitions of a topic are read."""

    MERGED = "merged"
    """As one stream: in the order of each partition, while the order between partitions may differ
    when they are read again."""
    EACH = "each"
    """Each by itself; needs a stream with a key, whose values must not change partition."""


class StdinSourceSettings(Section):
    """Records from standard input."""

    kind: Literal["stdin"] = "stdin"
    """Standard input."""
    format: Literal[TableFormat.NDJSON, TableFormat.CSV] = TableFormat.NDJSON
    """How records are written: ``ndjson`` or ``csv``."""
    skip_seen: Flag = False
    """Whether the same input is fed again from its start after a restart; what was seen of it is
    then passed over."""


class FilesSourceSettings(Section):
    """Records from files, in the order of their names."""

    kind: Literal["files"] = "files"
    """Files."""
    path: Pattern
    """A file, a directory or a glob."""
    format: TableFormat | None = None
    """How records are written; by the extension unless given."""
    follow: Flag = False
    """Whether to wait for more at the end, as ``tail -F`` does."""
    poll_seconds: Seconds = 1.0
    """How often to look for more."""


class HttpSourceSettings(Section):
    """Records that others send to the endpoint of the service."""

    kind: Literal["http"] = "http"
    """HTTP POST to the endpoint."""
    max_pending_bytes: Bytes = 256 * MIB
    """Bytes accepted and not yet worked through; beyond that the answer is 429."""
    remember_keys: Annotated[int, Field(strict=True, ge=0)] = 100_000
    """Idempotency keys that are remembered, the newest."""


class KafkaSourceSettings(Section):
    """Records from a topic of Kafka."""

    kind: Literal["kafka"] = "kafka"
    """A topic of Kafka."""
    brokers: Annotated[tuple[Text, ...], Field(min_length=1)]
    """Addresses ``host:port`` to begin with."""
    topic: Text
    """The topic."""
    group: Text = "driftbn"
    """The consumer group."""
    format: TableFormat = TableFormat.NDJSON
    """How the value of a message is written; one message may hold many records."""
    start: Start = Start.EARLIEST
    """Where to begin if there is no checkpoint: ``earliest`` or ``latest``."""
    partitions: Partitions | None = None
    """How partitions are read: ``merged`` or ``each``. Unless given, ``each`` where the stream has
    a key, else ``merged``."""
    options: Options = Field(default_factory=dict, repr=False)
    """Settings of librdkafka, such as ``"security.protocol" = "sasl_ssl"``."""
    username: Text | None = None
    """The name to log in with."""
    password_file: Location | None = None
    """The file with the password."""
    password: SecretStr | None = Field(default=None, validate_default=True)
    """The password itself; better in a file."""

    _secret = field_validator("password")(secret_of("password"))

    @field_validator("format")
    @classmethod
    def _check_format(cls, form: TableFormat) -> TableFormat:
        if form is TableFormat.CSV:
            allowed = "ndjson, json, parquet or arrow: a message of CSV has no header"
            raise ConfigError("", form, allowed)
        return form

    @field_validator("options")
    @classmethod
    def _check_options(cls, options: Options) -> Options:
        for name, reason in _OWN_OPTIONS.items():
            if name in options:
                raise ConfigError(name, "...", f"left out: {reason}")
        return options


class RedisSourceSettings(Section):
    """Records from a stream of Redis."""

    kind: Literal["redis"] = "redis"
    """A stream of Redis."""
    url: Annotated[RedisUrl, Field(repr=False)] = "redis://127.0.0.1:6379/0"
    """The server: ``redis://``, ``rediss://`` or ``unix://``."""
    stream: Text
    """The key of the stream."""
    group: Text = "driftbn"
    """The consumer group."""
    consumer: Text = "driftbn"
    """The name of this consumer in the group; each daemon needs its own."""
    payload: Text | None = None
    """The field of an entry that holds a record as JSON; unless given, the fields are the
    record."""
    claim_idle_seconds: Seconds = 60.0
    """Entries that another consumer has left unfinished this long are taken over."""
    start: Start = Start.EARLIEST
    """Where a new group begins: ``earliest`` or ``latest``."""
    password_file: Location | None = None
    """The file with the password."""
    password: SecretStr | None = Field(default=None, validate_default=True)
    """The password itself; better in a file."""

    _secret = field_validator("password")(secret_of("password"))


SourceSettings: TypeAlias = Annotated[
    StdinSourceSettings
    | FilesSourceSettings
    | HttpSourceSettings
    | KafkaSourceSettings
    | RedisSourceSettings,
    Field(discriminator="kind"),
]
"""One of the sources, told apart by ``kind``."""
