"""Prometheus and Alertmanager as configs/ sets them up, with shorter times."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.services.process import program

CONFIGS = Path(__file__).parents[2] / "configs"
RULE_FILES = ("recording.rules.yml", "alerts.rules.yml")


def prometheus_config(
    directory: Path, target: str, alertmanager: str | None = None, *others: str
) -> str:
    """Return the shipped configuration for a daemon, or several, scraped every second.

    The rules are copied into ``directory``: the same expressions, and none waits before it fires.
    """
    config: dict[str, Any] = yaml.safe_load((CONFIGS / "prometheus/prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    job = config["scrape_configs"][0]
    del job["authorization"]
    job["static_configs"] = [{"targets": [target, *others]}]
    config["scrape_configs"] = [job]
    managers = [] if alertmanager is None else [alertmanager.removeprefix("http://")]
    config["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": managers}]}]}
    for name in RULE_FILES:
        rules = yaml.safe_load((CONFIGS / "prometheus" / name).read_text())
        for rule in (rule for group in rules["groups"] for rule in group["rules"]):
            rule.pop("for", None)
        (directory / name).write_text(yaml.safe_dump(rules))
    return yaml.safe_dump(config)


def alertmanager_config(webhook: str) -> str:
    """Return the shipped configuration with a receiver, told at once."""
    config: dict[str, Any] = yaml.safe_load((CONFIGS / "alertmanager/alertmanager.yml").read_text())
    times = {"group_wait": "1s", "group_interval": "1s"}
    for route in (config["route"], *config["route"]["routes"]):
        route.update(times)
    config["receivers"][0]["webhook_configs"] = [{"url": webhook, "send_resolved": True}]
    return yaml.safe_dump(config)


def shipped_rules() -> list[dict[str, Any]]:
    """Return the rules as they are shipped."""
    files = [yaml.safe_load((CONFIGS / "prometheus" / name).read_text()) for name in RULE_FILES]
    return [rule for file in files for group in file["groups"] for rule in group["rules"]]


def run_tool(name: str, package: str, *words: str, given: str | None = None) -> str:
    """Run a tool of Prometheus beside the shipped rules, and see that it is content."""
    done = subprocess.run(
        [program(name, package), *words],
        cwd=CONFIGS / "prometheus",
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
