"""Settings checked, and told in short or in full."""

from __future__ import annotations

import json
from collections.abc import Mapping

from driftbn.window_config import WindowConfig, WindowMode
from driftbn_service.output import note, write_text
from driftbn_service.settings import (
    LoadedSettings,
    StreamSettings,
    read_settings,
    remarks,
    settings_path,
    settings_schema,
    settings_toml,
)


def check(config: str | None, environ: Mapping[str, str], *, in_full: bool) -> int:
    """Say what settings come to, and return the exit code.

    Parameters
    ----------
    config
        The settings file, if one is given.
    environ
        The environment.
    in_full
        Whether to write all settings in force as TOML.

    Raises
    ------
    SettingsError
        If anything is wrong; it says all that is.
    """
    loaded = read_settings(settings_path(config, environ), environ)
    for remark in remarks(loaded.settings):
        note(f"warning: {remark}")
    write_text(settings_toml(loaded) if in_full else _summary(loaded), None)
    return 0


def write_schema() -> int:
    """Write the JSON schema of settings files and return the exit code."""
    write_text(json.dumps(settings_schema(), indent=2) + "\n", None)
    return 0


def _summary(loaded: LoadedSettings) -> str:
    settings = loaded.settings
    endpoint = settings.endpoint
    at = f"http://{endpoint.host}:{endpoint.port}" if endpoint.enabled else "none"
    token = ", with a token" if endpoint.enabled and endpoint.token is not None else ""
    lines = [f"{loaded.name}: settings are fine"]
    lines += [f"stream    {_stream(stream)}" for stream in settings.monitors]
    lines += [f"outlet    {outlet.name}: {outlet.kind}" for outlet in settings.outlets]
    lines += [f"endpoint  {at}{token}", f"state     {settings.service.state_dir}"]
    return "".join(f"{line}\n" for line in lines)


def _stream(stream: StreamSettings) -> str:
    key = "" if stream.key is None else f", a monitor for each {stream.key!r}"
    windows = _windows(stream.monitor_config().windows)
    return f"{stream.name}: {stream.source.kind}{_subject(stream)}, windows of {windows}{key}"


def _subject(stream: StreamSettings) -> str:
    source = stream.source
    match source.kind:
        case "files":
            return f" {source.path}"
        case "kafka":
            return f" topic {source.topic}"
        case "redis":
            return f" stream {source.stream}"
    return ""


def _windows(config: WindowConfig) -> str:
    match config.mode:
        case WindowMode.ROWS:
            return f"{config.size} records"
        case WindowMode.SLIDING:
            return f"{config.size} records every {config.step}"
        case WindowMode.TIME:
            return f"{config.seconds:g} s"
    return f"{config.size} records or {config.seconds:g} s"
