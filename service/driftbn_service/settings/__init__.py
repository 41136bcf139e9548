"""All settings of the service, as a settings file has them.

The text below a field is its only description: the JSON schema and the messages take it from here.
What a stream says of its monitors is the library's ``MonitorConfig``, which the library checks.
"""

from __future__ import annotations

import glob
import ipaddress
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    SecretStr,
    StringConstraints,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from driftbn.config import Algorithm, ErrorPolicy, MonitorConfig, Range, field_texts, field_types
from driftbn.errors import (
    CombinedConfigError,
    ConfigError,
    DataError,
    FormatError,
    UnknownSettingError,
)
from driftbn.tables.schema import Schema
from driftbn_service.errors import is_installed
from driftbn_service.events import EventType
from driftbn_service.records.formats import TableFormat

NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
"""Names of streams and outlets: they become parts of addresses, files and labels."""
HTTP_PATTERN: Final = r"^https?://[^/\s]\S*$"
POSTGRES_PATTERN: Final = r"^postgres(ql)?://\S+$"
REDIS_PATTERN: Final = r"^(rediss?|unix)://\S+$"
KIB: Final = 1024
MIB: Final = 1024 * KIB
MAX_SECRET_BYTES: Final = 64 * KIB
"""A larger file is no secret but a mistake."""
SECRETS: Final = frozenset(("token", "password", "database"))
"""Settings whose values are never shown; each has a setting for a file beside it."""


class Section(BaseModel):
    """A table of the settings: it cannot be changed, and an unknown key is an error."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
        validate_default=False,
    )


# The types of values


def _path(path: Path, info: ValidationInfo) -> Path:
    """Return a path as seen from the directory of the settings file."""
    return path if info.context is None else Path(info.context["base"]) / path


def _pattern(pattern: str, info: ValidationInfo) -> str:
    base = _path(Path(), info)
    if base == Path():
        return pattern
    # A bracket or star in the name of the directory is not meant as a pattern.
    prefix = glob.escape(str(base)) if glob.has_magic(pattern) else str(base)
    return pattern if Path(pattern).is_absolute() else str(Path(prefix) / pattern)


def _directory(path: Path) -> Path:
    there = next((place for place in (path, *path.parents) if os.path.lexists(place)), path)
    if os.path.lexists(there) and not os.path.isdir(there):
        raise ConfigError("", str(path), f"a directory or one that can be made; {there} is a file")
    return path


def _address(url: str) -> str:
    try:
        _ = urlsplit(url).port
    except ValueError as error:
        raise ConfigError("", url, "an address with a host and a port that is a number") from error
    return url


def _option(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


# A whole number in quotes is text; refusing it here beats guessing.
Flag: TypeAlias = Annotated[bool, Field(strict=True)]
Count: TypeAlias = Annotated[int, Field(strict=True, ge=1)]
Bytes: TypeAlias = Annotated[int, Field(strict=True, ge=KIB)]
Seconds: TypeAlias = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Text: TypeAlias = Annotated[str, StringConstraints(min_length=1)]
Name: TypeAlias = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
Link: TypeAlias = Annotated[str, StringConstraints(pattern=HTTP_PATTERN), AfterValidator(_address)]
HttpUrl: TypeAlias = Annotated[Link, Field(repr=False)]
RedisUrl: TypeAlias = Annotated[
    str, StringConstraints(pattern=REDIS_PATTERN), AfterValidator(_address), Field(repr=False)
]
Location: TypeAlias = Annotated[Path, AfterValidator(_path)]
"""A path; a relative one is relative to the directory of the settings file."""
Directory: TypeAlias = Annotated[Location, AfterValidator(_directory)]
"""A directory, or one that can be made."""
Pattern: TypeAlias = Annotated[str, StringConstraints(min_length=1), AfterValidator(_pattern)]
"""A path or glob, relative to the same."""
Options: TypeAlias = dict[
    str,
    Annotated[str, BeforeValidator(_option, json_schema_input_type=str | int | float | bool)],
]
"""Settings of librdkafka; numbers and booleans become text, as it wants them."""


# Secrets: given as they are, or in a file of their own


class SecretFileError(ConfigError):
    """The file of a secret cannot be used, or is given beside the secret itself."""


def _secret_of(name: str) -> Callable[[SecretStr | None, ValidationInfo], SecretStr | None]:
    """Return the check of a secret: as given, or from the file that ``<name>_file`` names."""
    of_file = f"{name}_file"

    def checked(given: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        path = info.data.get(of_file)
        if path is None:
            return given
        if given is not None:
            raise SecretFileError(of_file, str(path), f"left out where {name} is given")
        return SecretStr(_read_secret(of_file, path))

    return checked


def _read_secret(name: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SECRET_BYTES + 1)
        text = data.decode().rstrip("\r\n")
    except OSError as error:
        problem = f"a file that can be read ({error.strerror})"
        raise SecretFileError(name, str(path), problem) from error
    except UnicodeError as error:
        raise SecretFileError(name, str(path), "a file of text in UTF-8") from error
    if len(data) > MAX_SECRET_BYTES:
        allowed = f"a file of at most {MAX_SECRET_BYTES} bytes"
        raise SecretFileError(name, str(path), allowed)
    if not text:
        raise SecretFileError(name, str(path), "a file with the secret in it; it is empty")
    return text


class _WithToken(Section):
    token_file: Location | None = None
    """The file with the bearer token."""
    token: SecretStr | None = Field(default=None, validate_default=True)
    """The bearer token itself; better in a file."""

    _secret = field_validator("token")(_secret_of("token"))


class _OfKind(Section):
    """A table of which there are several kinds."""

    kind: str


class _WithPassword(_OfKind):
    password_file: Location | None = None
    """The file with the password."""
    password: SecretStr | None = Field(default=None, validate_default=True)
    """The password itself; better in a file."""

    _secret = field_validator("password")(_secret_of("password"))


# What sources and outlets of one server share


_OWN_OPTIONS: Final = {
    "bootstrap.servers": "'brokers' gives it",
    "group.id": "'group' gives it",
    "sasl.username": "'username' gives it",
    "sasl.password": "'password' or 'password_file' gives it",
    "enable.auto.commit": "offsets are committed after checkpoints",
    "enable.auto.offset.store": "offsets are committed after checkpoints",
    "auto.offset.reset": "'start' says where a new stream begins",
}


class _Kafka(_WithPassword):
    brokers: Annotated[tuple[Text, ...], Field(min_length=1)]
    """Addresses ``host:port`` to begin with."""
    topic: Text
    """The topic."""
    options: Options = Field(default_factory=dict, repr=False)
    """Settings of librdkafka, such as {"security.protocol" = "sasl_ssl"}."""
    username: Text | None = None
    """The name to log in with."""

    @property
    def client_options(self) -> Options:
        """What every client of librdkafka is given; ``options`` go before what is usual."""
        brokers = {"bootstrap.servers": ",".join(self.brokers)}
        if self.username is None and self.password is None:
            return brokers | self.options
        # A password must not go over the wire in the clear unless the user says so.
        usual = {"sasl.mechanism": "PLAIN", "security.protocol": "sasl_ssl"}
        if "sasl.mechanisms" in self.options:  # its other name
            del usual["sasl.mechanism"]
        password = "" if self.password is None else self.password.get_secret_value()
        login = {"sasl.username": self.username or "", "sasl.password": password}
        return brokers | usual | self.options | login


class _Redis(_OfKind):
    url: RedisUrl = "redis://127.0.0.1:6379/0"
    """The server: ``redis://``, ``rediss://`` or ``unix://``."""


# Sources


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


class StdinSourceSettings(_OfKind):
    """Records from standard input."""

    kind: Literal["stdin"] = "stdin"
    format: Literal[TableFormat.NDJSON, TableFormat.CSV] = TableFormat.NDJSON
    """How records are written: ``ndjson`` or ``csv``."""
    skip_seen: Flag = False
    """Whether the same input is fed again from its start after a restart; what was seen of it is
    then passed over."""


class FilesSourceSettings(_OfKind):
    """Records from files, in the order of their names."""

    kind: Literal["files"] = "files"
    path: Pattern
    """A file, a directory or a glob."""
    format: TableFormat | None = None
    """How records are written; by the extension unless given."""
    follow: Flag = False
    """Whether to wait for more at the end, as ``tail -F`` does. Compressed files are read when they
    are whole, and not followed."""
    poll_seconds: Seconds = 1.0
    """How often to look for more."""


class HttpSourceSettings(_OfKind):
    """Records that others send to the endpoint of the service."""

    kind: Literal["http"] = "http"
    max_pending_bytes: Bytes = 256 * MIB
    """Bytes accepted and not yet worked through; beyond that the answer is 429."""


class KafkaSourceSettings(_Kafka):
    """Records from a topic of Kafka."""

    kind: Literal["kafka"] = "kafka"
    group: Text = "driftbn"
    """The consumer group."""
    format: TableFormat = TableFormat.NDJSON
    """How the value of a message is written; one message may hold many records."""
    start: Start = Start.EARLIEST
    """Where to begin if the stream was never read before: ``earliest`` or ``latest``."""
    partitions: Partitions | None = None
    """How partitions are read: ``merged`` or ``each``. Unless given, ``each`` where the stream has
    a key, else ``merged``."""

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


class RedisSourceSettings(_WithPassword, _Redis):
    """Records from a stream of Redis."""

    kind: Literal["redis"] = "redis"
    stream: Text
    """The key of the stream."""
    group: Text = "driftbn"
    """The consumer group."""
    consumer: Text = "driftbn"
    """The name of this consumer in the group; each daemon with a state of its own needs its own."""
    payload: Text | None = None
    """The field of an entry that holds a record as JSON; unless given, the fields are the
    record."""
    start: Start = Start.EARLIEST
    """Where to begin if the stream was never read before: ``earliest`` or ``latest``."""


SourceSettings: TypeAlias = Annotated[
    StdinSourceSettings
    | FilesSourceSettings
    | HttpSourceSettings
    | KafkaSourceSettings
    | RedisSourceSettings,
    Field(discriminator="kind"),
]
"""One of the sources, told apart by ``kind``."""


# Outlets


_ENDS: Final = {
    "io.driftbn.drift.": EventType.DRIFT_ENDED,
    "io.driftbn.monitor.": EventType.MONITOR_RECOVERED,
}


class _Outlet(_OfKind):
    name: Name = Field(default_factory=lambda known: known["kind"])
    """The name of the outlet, by which it is remembered what was delivered; its kind unless
    given."""
    types: Annotated[tuple[EventType, ...], Field(min_length=1)] | None = None
    """Types of events to send; all unless given."""


class LogOutletSettings(_Outlet):
    """Events as lines of the log."""

    kind: Literal["log"] = "log"


class FileOutletSettings(_Outlet):
    """Events appended to a file, one JSON object per line."""

    kind: Literal["file"] = "file"
    path: Location
    """The file; it is made if it is not there."""


class PostOutletSettings(_WithToken, _Outlet):
    """What all outlets have that post to an address."""

    url: HttpUrl
    """Where to post to: ``http://`` or ``https://``."""
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    """More headers of the request."""


class WebhookOutletSettings(PostOutletSettings):
    """Events posted to an address."""

    kind: Literal["webhook"] = "webhook"


class SlackOutletSettings(PostOutletSettings):
    """Messages to an incoming webhook of Slack, or of a chat that takes the same."""

    kind: Literal["slack"] = "slack"


class RedisOutletSettings(_WithPassword, _Redis, _Outlet):
    """Events added to a stream of Redis."""

    kind: Literal["redis"] = "redis"
    stream: Text = "driftbn:events"
    """The key of the stream."""
    max_length: Count | None = None
    """About how many entries the stream keeps; all unless given."""


class KafkaOutletSettings(_Kafka, _Outlet):
    """Events sent to a topic of Kafka."""

    kind: Literal["kafka"] = "kafka"


class AlertmanagerOutletSettings(_Outlet):
    """Drifts as alerts of Prometheus Alertmanager."""

    kind: Literal["alertmanager"] = "alertmanager"
    url: HttpUrl = "http://127.0.0.1:9093"
    """The address of Alertmanager, without ``/api/v2``."""

    @field_validator("types")
    @classmethod
    def _check_types(cls, types: tuple[EventType, ...] | None) -> tuple[EventType, ...] | None:
        for matter, end in _ENDS.items():
            begins = any(name.startswith(matter) for name in types or ())
            if begins and end not in (types or ()):
                given = tuple(map(str, types or ()))
                raise ConfigError("", given, f"such that alerts can end: with {end.value!r} too")
        return types


class OpentelemetryOutletSettings(PostOutletSettings):
    """Events and metrics sent to an OpenTelemetry Collector: OTLP over HTTP, without ``/v1``."""

    kind: Literal["opentelemetry"] = "opentelemetry"


OutletSettings: TypeAlias = Annotated[
    LogOutletSettings
    | FileOutletSettings
    | WebhookOutletSettings
    | SlackOutletSettings
    | RedisOutletSettings
    | KafkaOutletSettings
    | AlertmanagerOutletSettings
    | OpentelemetryOutletSettings,
    Field(discriminator="kind"),
]
"""One of the outlets, told apart by ``kind``."""


# Streams: what the library's settings are to a settings file


NOT_SETTABLE: Final = {
    "MonitorConfig": (
        "on_error",
        "variables",
        "reference_windows",
        "dependent_rows",
        "shadow_share",
        "archived_regimes",
    ),
    "LearnerConfig": (
        "alpha",
        "max_conditioning",
        "warm",
        "statistic",
        "collider_rule",
        "repair",
    ),
    "SchemaConfig": ("integer_levels", "id_like_ratio", "keep_constant", "keep_duplicates"),
}
"""Settings of the library that a stream does not have: the daemon knows the one right value."""
_LIMITS: Final = {
    "above": "exclusiveMinimum", "least": "minimum", "most": "maximum", "below": "exclusiveMaximum",
}  # fmt: skip


def settable(config: type) -> tuple[str, ...]:
    """Return the fields of a class of the library that a settings file may have."""
    hidden = NOT_SETTABLE.get(config.__name__, ())
    return tuple(name for name in field_types(config) if name not in hidden)


MONITOR_KEYS: Final = settable(MonitorConfig)


def _table_of(config: Any) -> Any:
    """Return a class of the library as a model, for the JSON schema alone."""
    defaults = {item.name: item for item in fields(config)}
    described: dict[str, Any] = {}
    for name in settable(config):
        wanted, item = field_types(config)[name], defaults[name]
        more: dict[str, Any] = {"alias": name, "description": field_texts(config)[name]}
        if is_dataclass(wanted.kind):
            part = _table_of(wanted.kind)
            hint = Count | str | part if int in wanted.alternatives else part
            described[f"{name}_"] = (hint, Field(default_factory=dict, **more))
        else:
            limits = _limits(wanted.limits)
            field = Field(default=item.default, json_schema_extra=limits, **more)
            described[f"{name}_"] = (wanted.hint, field)
    text = (config.__doc__ or "").partition("\n\n")[0]
    strict = ConfigDict(extra="forbid")
    return create_model(config.__name__, __config__=strict, __doc__=text, **described)


def _limits(limits: Range | None) -> dict[str, Any]:
    values = {} if limits is None else {_LIMITS[n]: getattr(limits, n) for n in _LIMITS}
    return {name: value for name, value in values.items() if abs(value) != float("inf")}


def _monitor(table: Mapping[str, Any]) -> MonitorConfig:
    """Let the library read and check its own settings."""
    errors: list[ConfigError] = [
        UnknownSettingError(f"{part}.{name}", table[part][name], settable(wanted.kind))
        for part, wanted in field_types(MonitorConfig).items()
        for name in NOT_SETTABLE.get(getattr(wanted.kind, "__name__", ""), ())
        if isinstance(table.get(part), Mapping) and name in table[part]
    ]
    try:
        config = MonitorConfig(**{**table, "on_error": ErrorPolicy.REJECT_ROWS})
    except ConfigError as error:
        errors += error.errors
    else:
        if config.learner.algorithm is Algorithm.PC_ORIGINAL:
            allowed = "one of 'ssbn', 'fsbn', 'pc': this one depends on the order of the fields"
            errors.append(ConfigError("learner.algorithm", Algorithm.PC_ORIGINAL.value, allowed))
    if errors:
        raise CombinedConfigError(errors)
    return config


class _OfLibrary:
    """Marks what pydantic leaves to the library."""

    def __get_pydantic_core_schema__(self, *_: object) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(_monitor)

    def __get_pydantic_json_schema__(
        self, _: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return handler(_table_of(MonitorConfig).__pydantic_core_schema__)


class StreamSettings(Section):
    """A stream of records and the monitors that watch it; one such table for each stream.

    >>> table = {"name": "orders", "window": 1000, "source": {"kind": "stdin"}}
    >>> stream = StreamSettings.model_validate(table)
    >>> stream.monitor_config().windows.size, stream.source.kind
    (1000, 'stdin')
    """

    name: Name
    """The name of the stream, in addresses, labels and events."""
    monitor: Annotated[MonitorConfig, _OfLibrary()] = Field(alias="(monitor)")
    """What the table says of its monitors."""
    variables: Location | None = None
    """A file with a schema as JSON, to use from the first record on; inferred from the first
    window unless given."""
    key: Text | None = None
    """A field of the records; each of its values has a monitor of its own."""
    resident: Count = 1000
    """Monitors kept in memory; those not used for longest wait on disk."""
    max_keys: Count = 100_000
    """Values of the key that get a monitor; records of further ones are rejected."""
    max_record_bytes: Bytes = MIB
    """A longer record is rejected."""
    max_fields: Count = 2000
    """A record or table with more fields is rejected; objects within it count by their fields."""
    quarantine_bytes: Annotated[int, Field(strict=True, ge=0)] = 16 * MIB
    """Bytes of rejected records that are kept to be looked at; 0 keeps none."""
    source: SourceSettings
    """Where records come from."""

    @model_validator(mode="before")
    @classmethod
    def _part(cls, table: Any) -> Any:
        """Put what is the library's into a table of its own."""
        if not isinstance(table, Mapping):
            return table
        own = {key: value for key, value in table.items() if key not in MONITOR_KEYS}
        return own | {"(monitor)": {key: table[key] for key in table if key in MONITOR_KEYS}}

    @field_validator("source")
    @classmethod
    def _settle_partitions(cls, source: SourceSettings, info: ValidationInfo) -> SourceSettings:
        if not isinstance(source, KafkaSourceSettings):
            return source
        keyed = info.data.get("key") is not None
        if source.partitions is None:
            usual = Partitions.EACH if keyed else Partitions.MERGED
            return source.model_copy(update={"partitions": usual})
        if source.partitions is Partitions.EACH and not keyed and "key" in info.data:
            allowed = "'merged' where the stream has no key: one monitor reads one order"
            raise ConfigError("partitions", source.partitions.value, allowed)
        return source

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in ("target", "time_column"):
            if self.key is not None and getattr(self.monitor, name) == self.key:
                allowed = f"another field than the key, {self.key!r}: a key is no variable"
                raise ConfigError(name, self.key, allowed)
        self.monitor_config()
        return self

    def monitor_config(self) -> MonitorConfig:
        """Return the settings of each of the stream's monitors as the library takes them.

        Records that cannot be read are always left out and counted: a daemon does not die of its
        input. A file of variables is read once, when the settings are made.
        """
        return self._config

    @cached_property
    def _config(self) -> MonitorConfig:
        if self.variables is None:
            return self.monitor
        return replace(self.monitor, variables=_read_schema(self.variables))


def _read_schema(path: Path) -> Schema:
    try:
        return Schema.from_dict(json.loads(path.read_bytes()))
    except OSError as error:
        allowed = f"a file that can be read ({error.strerror})"
        raise ConfigError("variables", str(path), allowed) from error
    except (UnicodeError, json.JSONDecodeError, FormatError, DataError) as error:
        raise ConfigError("variables", str(path), f"a schema as JSON ({error})") from error


# The service


class ServiceSettings(Section):
    """The process."""

    state_dir: Directory
    """Where the state and quarantined records live; made if it is not there."""
    database_file: Location | None = None
    """The file with the address of the database."""
    database: SecretStr | None = Field(default=None, validate_default=True)
    """The address of a PostgreSQL database for the state, which daemons on many hosts share:
    ``postgresql://user:password@host/name``; better in a file. Unless given, the state is a file of
    the state directory."""
    exit_when_drained: Flag = False
    """Whether to end when every source has come to its end."""

    _secret = field_validator("database")(_secret_of("database"))

    @field_validator("database")
    @classmethod
    def _check_database(cls, given: SecretStr | None) -> SecretStr | None:
        if given is None:
            return None
        if not re.match(POSTGRES_PATTERN, given.get_secret_value()):
            raise ConfigError("", "...", "an address postgresql://user:password@host/name")
        if not is_installed("postgres"):
            allowed = "left out where the package is missing: pip install 'driftbn[postgres]'"
            raise ConfigError("", "...", allowed)
        return given


def is_loopback(host: str) -> bool:
    """Whether a host is reached from this machine only.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "[::1]", "10.0.0.1")]
    [True, True, True, True, False]
    """
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class EndpointSettings(_WithToken):
    """The HTTP endpoint: metrics, health, history, the page, and records sent in."""

    enabled: Flag = True
    """Whether there is one."""
    host: Text = "127.0.0.1"
    """The address to listen at; one that others can reach needs a token."""
    port: Annotated[int, Field(strict=True, ge=0, le=65535)] = 9464
    """The port; 0 takes any that is free."""
    links: dict[Literal["page", "dashboards", "runbooks"], Link] = Field(default_factory=dict)
    """Where links in alerts and messages lead, each without a slash at the end: {"page" = "...",
    "dashboards" = "...", "runbooks" = "..."}."""
    max_body_bytes: Bytes = 32 * MIB
    """The largest body of a request, as sent."""
    max_decoded_bytes: Bytes = 64 * MIB
    """The largest body after decompression, and the most that Arrow or Parquet may become."""

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


class StoreSettings(Section):
    """The history of windows, episodes and events."""

    keep_windows: Count = 2000
    """Windows kept of each monitor."""
    keep_events_days: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] = 30.0
    """Days that delivered events are kept."""


class LogLevel(StrEnum):
    """What is worth a line of the log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a line of the log is written: for people, or as one JSON object per line."""

    TEXT = "text"
    JSON = "json"


class LogSettings(Section):
    """The log, on standard error."""

    level: LogLevel = LogLevel.INFO
    """The least that is logged: ``debug`` with tracebacks, ``info``, ``warning`` or ``error``."""
    format: LogFormat = LogFormat.TEXT
    """``text`` for people, or ``json``: one object per line."""


def duplicates(section: str, names: Sequence[str]) -> list[ConfigError]:
    """Return an error for each table whose name another has; case does not tell names apart."""
    first: dict[str, int] = {}
    found = []
    for place, name in enumerate(names):
        earlier = first.setdefault(name.lower(), place) if name else place
        if earlier != place:
            allowed = f"another name than that of {section}[{earlier}]"
            found.append(ConfigError(f"{section}[{place}].name", name, allowed))
    return found


class Settings(Section):
    """All settings of the service."""

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
    streams: Annotated[tuple[StreamSettings, ...], Field(min_length=1)]
    """The streams that are watched."""
    outlets: tuple[OutletSettings, ...] = ()
    """Where events go, beside the history."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        errors = duplicates("streams", [stream.name for stream in self.streams])
        errors += duplicates("outlets", [outlet.name for outlet in self.outlets])
        stdin = [place for place, s in enumerate(self.streams) if s.source.kind == "stdin"]
        http = [place for place, s in enumerate(self.streams) if s.source.kind == "http"]
        for place in stdin[1:]:
            allowed = "another: standard input can be read only once"
            errors.append(ConfigError(f"streams[{place}].source.kind", "stdin", allowed))
        for place in () if self.endpoint.enabled else http:
            allowed = "another where endpoint.enabled is false"
            errors.append(ConfigError(f"streams[{place}].source.kind", "http", allowed))
        errors += self._missing_extras()
        if errors:
            raise CombinedConfigError(errors)
        return self

    def _missing_extras(self) -> list[ConfigError]:
        streams, outlets = enumerate(self.streams), enumerate(self.outlets)
        chosen: dict[str, str] = {f"streams[{i}].source.kind": s.source.kind for i, s in streams}
        chosen |= {f"outlets[{i}].kind": outlet.kind for i, outlet in outlets}
        return [
            ConfigError(field, kind, f"installed, pip install 'driftbn[{kind}]', or another")
            for field, kind in chosen.items()
            if kind in ("kafka", "redis", "opentelemetry") and not is_installed(kind)
        ]
