"""The settings of the service: TOML and environment in, frozen values out."""

from service.settings.errors import Problem, SettingsError
from service.settings.json_schema import settings_schema
from service.settings.loading import LoadedSettings, load_settings, read_settings, settings_path
from service.settings.model import (
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
from service.settings.monitors import StreamSettings
from service.settings.outlets import (
    AlertmanagerOutletSettings,
    FileOutletSettings,
    KafkaOutletSettings,
    LogOutletSettings,
    OutletSettings,
    RedisOutletSettings,
    WebhookOutletSettings,
)
from service.settings.parts import (
    DecisionSettings,
    KnowledgeSettings,
    LearnerSettings,
    SchemaSettings,
    WindowSettings,
)
from service.settings.printing import settings_toml
from service.settings.remarks import remarks
from service.settings.sources import (
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
