"""The settings of the service: TOML and environment in, frozen values out."""

from driftbn_service.settings.errors import Problem, SettingsError
from driftbn_service.settings.json_schema import settings_schema
from driftbn_service.settings.loading import (
    LoadedSettings,
    load_settings,
    read_settings,
    settings_path,
)
from driftbn_service.settings.model import (
    CheckpointSettings,
    EndpointSettings,
    LogFormat,
    LogLevel,
    LogSettings,
    ServiceSettings,
    Settings,
    StoreSettings,
    is_loopback,
)
from driftbn_service.settings.monitors import StreamSettings
from driftbn_service.settings.outlets import (
    AlertmanagerOutletSettings,
    FileOutletSettings,
    KafkaOutletSettings,
    LogOutletSettings,
    OutletSettings,
    RedisOutletSettings,
    WebhookOutletSettings,
)
from driftbn_service.settings.parts import (
    DecisionSettings,
    KnowledgeSettings,
    LearnerSettings,
    SchemaSettings,
    WindowSettings,
)
from driftbn_service.settings.printing import settings_toml
from driftbn_service.settings.remarks import remarks
from driftbn_service.settings.sources import (
    FilesSourceSettings,
    HttpSourceSettings,
    KafkaSourceSettings,
    Partitions,
    RedisSourceSettings,
    SourceSettings,
    Start,
    StdinSourceSettings,
)

__all__ = [
    "AlertmanagerOutletSettings",
    "CheckpointSettings",
    "DecisionSettings",
    "EndpointSettings",
    "FileOutletSettings",
    "FilesSourceSettings",
    "HttpSourceSettings",
    "KafkaOutletSettings",
    "KafkaSourceSettings",
    "KnowledgeSettings",
    "LearnerSettings",
    "LoadedSettings",
    "LogFormat",
    "LogLevel",
    "LogOutletSettings",
    "LogSettings",
    "OutletSettings",
    "Partitions",
    "Problem",
    "RedisOutletSettings",
    "RedisSourceSettings",
    "SchemaSettings",
    "ServiceSettings",
    "Settings",
    "SettingsError",
    "SourceSettings",
    "Start",
    "StdinSourceSettings",
    "StoreSettings",
    "StreamSettings",
    "WebhookOutletSettings",
    "WindowSettings",
    "is_loopback",
    "load_settings",
    "read_settings",
    "remarks",
    "settings_path",
    "settings_schema",
    "settings_toml",
]
