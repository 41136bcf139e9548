"""``driftbn init``: settings to begin with, and what watches the daemon itself."""

from __future__ import annotations

import argparse
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from driftbn_service.commands import Line, Style, note, save, write_lines
from driftbn_service.errors import InputError

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


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
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
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
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
