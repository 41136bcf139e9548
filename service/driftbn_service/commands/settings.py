"""``driftbn init``: settings to begin with; ``driftbn check``: whether they are fine."""

from __future__ import annotations

import argparse
import json
import os
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from driftbn.config import WindowConfig, WindowMode
from driftbn_service.commands import Line, Style, note, save, write_lines, write_text
from driftbn_service.errors import InputError, UsageError
from driftbn_service.settings import StreamSettings
from driftbn_service.settings.errors import settings_schema
from driftbn_service.settings.loading import (
    LoadedSettings,
    read_settings,
    remarks,
    settings_path,
    settings_toml,
)

SOURCES: Final = {
    "files": "files",
    "http": "example",
    "kafka": "kafka",
    "redis": "redis",
    "stdin": "stdin",
}
"""Kinds of sources, and the settings to begin with."""
SETTINGS: Final = "driftbn.toml"
_OTHER_SOURCES: Final = """ Other sources: files.toml, stdin.toml,
# http.toml, kafka.toml, redis.toml."""
BESIDE: Final = (
    "default.toml",
    "settings.schema.json",
    "prometheus/prometheus.yml",
    "prometheus/alerts.rules.yml",
    "prometheus/recording.rules.yml",
    "alertmanager/alertmanager.yml",
    "alertmanager/driftbn.tmpl",
    "grafana/dashboards/fleet.json",
    "grafana/dashboards/health.json",
    "grafana/dashboards/stream.json",
    "grafana/provisioning/dashboards/driftbn.yml",
    "grafana/provisioning/datasources/driftbn.yml",
    "kubernetes/driftbn.yaml",
    "kubernetes/many.yaml",
    "systemd/driftbn.service",
)


def add_init_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "init",
        description=f"Writes {SETTINGS} for one kind of source, with comments, and beside it every"
        " setting with its default, Prometheus rules, an Alertmanager configuration, Grafana"
        " dashboards, a systemd unit and Kubernetes manifests.",
    )
    parser.add_argument(
        "source",
        nargs="?",
        choices=tuple(SOURCES),
        default="http",
        help="where records come from (%(default)s)",
    )
    parser.add_argument("--directory", type=Path, default=Path(), metavar="DIR", help="where to")
    parser.add_argument("--force", action="store_true", help="replace files that are there")
    parser.set_defaults(run=initialize)


def initialize(arguments: argparse.Namespace) -> int:
    configs = resources.files("driftbn_service") / "configs"
    outputs = {SETTINGS: _settings(configs, arguments.source)}
    outputs |= {name: configs.joinpath(name).read_bytes() for name in BESIDE}
    where = arguments.directory
    for name in outputs if not arguments.force else ():
        if (where / name).exists():
            raise InputError(str(where / name), "is there already; --force replaces it")
    for name in outputs:
        (where / name).parent.mkdir(parents=True, exist_ok=True)
    save([(str(where / name), data) for name, data in outputs.items()])
    write_lines([Line(str(where / name), Style.EDGE) for name in outputs], None)
    note(f"next: edit {where / SETTINGS}, then driftbn run --config {where / SETTINGS}")
    return 0


def _settings(configs: Traversable, source: str) -> bytes:
    """Return the settings for a source, which name themselves in their comments."""
    text = configs.joinpath(f"{SOURCES[source]}.toml").read_text(encoding="utf-8")
    text = text.replace(f"configs/{SOURCES[source]}.toml", SETTINGS).replace("configs/", "")
    return text.replace(_OTHER_SOURCES, "").encode()


def add_check_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "check",
        description=(
            "Check the settings of the service: the file, the variables DRIFTBN__SECTION__KEY of"
            " the environment and the files of secrets. Says all that is wrong at once, or in"
            " short what the settings come to. Nothing is started and no server is asked."
        ),
    )
    parser.add_argument(
        "--config", metavar="FILE", help="the settings file (as DRIFTBN_CONFIG says)"
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument(
        "--print",
        action="store_true",
        dest="print_settings",
        help="write the settings in force as TOML, with where they come from; secrets are hidden",
    )
    output.add_argument(
        "--json-schema", action="store_true", help="write the JSON schema of settings files"
    )
    parser.set_defaults(run=check)


def check(arguments: argparse.Namespace) -> int:
    if arguments.json_schema:
        if arguments.config is not None:
            raise UsageError("--json-schema describes all settings files; leave --config out")
        write_text(json.dumps(settings_schema(), indent=2) + "\n", None)
        return 0
    loaded = read_settings(settings_path(arguments.config, os.environ), os.environ)
    for remark in remarks(loaded.settings):
        note(f"warning: {remark}")
    write_text(settings_toml(loaded) if arguments.print_settings else _summary(loaded), None)
    return 0


def _summary(loaded: LoadedSettings) -> str:
    settings = loaded.settings
    endpoint = settings.endpoint
    at = f"http://{endpoint.host}:{endpoint.port}" if endpoint.enabled else "none"
    token = ", with a token" if endpoint.enabled and endpoint.token is not None else ""
    lines = [f"{loaded.name}: settings are fine"]
    lines += [f"stream    {_stream(stream)}" for stream in settings.streams]
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
