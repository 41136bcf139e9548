"""The settings of one stream: what is watched, how, and where its records come from."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from driftbn.errors import ConfigError, DataError, FormatError
from driftbn.monitor_config import ErrorPolicy, MonitorConfig
from driftbn.schema import Schema
from driftbn_service.settings.base import (
    MIB,
    Bytes,
    Count,
    Level,
    Location,
    Name,
    Number,
    Section,
    Share,
    Text,
)
from driftbn_service.settings.parts import (
    DecisionSettings,
    KnowledgeSettings,
    LearnerSettings,
    SchemaSettings,
    WindowSettings,
)
from driftbn_service.settings.sources import KafkaSourceSettings, Partitions, SourceSettings


def _window(value: object) -> object:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return {"size": value} if whole else value


class StreamSettings(Section):
    """One ``[[monitors]]`` table: a stream of records and the monitors that watch it.

    Examples
    --------
    >>> stream = StreamSettings(name="orders", window=1000, source={"kind": "stdin"})
    >>> stream.monitor_config().windows.size, stream.source.kind
    (1000, 'stdin')
    """

    name: Name
    """The name of the stream, in addresses, labels and events."""
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
    window: Annotated[
        WindowSettings,
        BeforeValidator(_window, json_schema_input_type=Count | WindowSettings),
    ] = WindowSettings()
    """Rows of a window, or a table."""
    alpha: Level | None = None
    """Short for the setting of that name in ``decision``."""
    windows_between_false_alarms: Annotated[Number, Field(gt=1)] | None = None
    """Short for the setting of that name in ``decision``."""
    target: Text | None = None
    """The field that matters: reports say whether a change touches it."""
    time_column: Text | None = None
    """The field with event times, in seconds since the epoch or as timestamps."""
    audit_share: Share = 0.0
    """Share of windows learned a second time from nothing, to compare with the warm start."""
    variables: Location | None = None
    """A file with a schema as JSON, to use from the first record on; inferred from the first
    window unless given."""
    learner: LearnerSettings = LearnerSettings()
    """How graphs are learned."""
    decision: DecisionSettings = DecisionSettings()
    """How windows are judged."""
    schema_: SchemaSettings = Field(default_factory=SchemaSettings, alias="schema")
    """How fields become variables."""
    knowledge: KnowledgeSettings = KnowledgeSettings()
    """What is known of the edges beforehand."""
    source: SourceSettings
    """Where records come from."""

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
            if self.key is not None and getattr(self, name) == self.key:
                allowed = f"another field than the key, {self.key!r}: a key is no variable"
                raise ConfigError(name, self.key, allowed)
        self.monitor_config()
        return self

    def monitor_config(self) -> MonitorConfig:
        """Return the settings of each of the stream's monitors as the library takes them.

        Records that cannot be read are always left out and counted: a daemon does not die of its
        input. A file of variables is read once, when the settings are made.

        Raises
        ------
        ConfigError
            If settings contradict each other.
        """
        return self._config

    @cached_property
    def _config(self) -> MonitorConfig:
        return MonitorConfig(
            window=self.window.config(),
            alpha=self.alpha,
            windows_between_false_alarms=self.windows_between_false_alarms,
            learner=self.learner.config(),
            decision=self.decision.config(),
            schema=self.schema_.config(),
            knowledge=self.knowledge.config(),
            variables=None if self.variables is None else _read_schema(self.variables),
            target=self.target,
            time_column=self.time_column,
            audit_share=self.audit_share,
            on_error=ErrorPolicy.REJECT_ROWS,
        )


def _read_schema(path: Path) -> Schema:
    try:
        return Schema.from_dict(json.loads(path.read_bytes()))
    except OSError as error:
        allowed = f"a file that can be read ({error.strerror})"
        raise ConfigError("variables", str(path), allowed) from error
    except (UnicodeError, json.JSONDecodeError, FormatError, DataError) as error:
        raise ConfigError("variables", str(path), f"a schema as JSON ({error})") from error
