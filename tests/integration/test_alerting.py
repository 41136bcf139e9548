"""A drift on its way: daemon, Prometheus, Alertmanager, and a webhook that hears of it."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.outlet_parts import Receiver, receiver
from tests.services.alertmanager import AlertmanagerService
from tests.services.daemon import DaemonService
from tests.services.monitoring import CONFIGS, alertmanager_config, prometheus_config, run_tool
from tests.services.process import HOST, wait_for
from tests.services.prometheus import PrometheusService

WINDOW = 400
N_BEFORE, N_AFTER = 9, 8
SECONDS = 120.0
Alert = dict[str, Any]


@dataclass
class Watch:
    """What watches a stream, and what was heard of it."""

    daemon: DaemonService  # of the stream "orders", of which rules tell
    teller: DaemonService  # of the stream "payments", of which its outlet tells
    prometheus: PrometheusService
    hook: Receiver
    rng: np.random.Generator

    def feed(self, *, changed: bool) -> None:
        """Send each daemon one window; if changed, ``c`` follows ``d`` and no longer ``b``."""
        a, d = self.rng.integers(0, 2, WINDOW), self.rng.integers(0, 2, WINDOW)
        b = np.where(self.rng.random(WINDOW) < 0.9, a, 1 - a)
        c = np.where(
            self.rng.random(WINDOW) < 0.9, d if changed else b, self.rng.integers(0, 2, WINDOW)
        )
        rows = zip(a.tolist(), b.tolist(), c.tolist(), d.tolist(), strict=True)
        lines = (json.dumps(dict(zip("abcd", (f"v{x}" for x in row), strict=True))) for row in rows)
        body = "\n".join(lines).encode()
        for daemon, stream in ((self.daemon, "orders"), (self.teller, "payments")):
            url = f"{daemon.address}/api/v1/streams/{stream}/records"
            request = urllib.request.Request(url, body, {"Content-Type": "application/x-ndjson"})
            with urllib.request.urlopen(request, timeout=30.0) as answer:
                assert answer.status == 202

    def wait_for_windows(self, n_windows: int) -> None:
        """Wait until so many windows have been scraped since the daemon started."""
        asked = f"min(sum by (stream) (driftbn_windows_total)) >= {n_windows}"
        wait_for(lambda: self.prometheus.query(asked), f"{n_windows} windows", SECONDS)

    def alerts(self, status: str, name: str) -> list[Alert]:
        """Return all that the webhook was told of an alert, in order."""
        bodies = [request.document for request in list(self.hook.requests)]
        told = [alert for body in bodies for alert in body["alerts"]]
        return [a for a in told if a["status"] == status and a["labels"]["alertname"] == name]


def by_rule(alerts: list[Alert]) -> list[Alert]:
    """Return those that come from a rule of Prometheus, not from the daemon itself."""
    return [alert for alert in alerts if "job" in alert["labels"]]


def by_outlet(alerts: list[Alert]) -> list[Alert]:
    return [alert for alert in alerts if "job" not in alert["labels"]]


DRIFT = "DriftbnStructuralDrift"


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    """Daemon, Prometheus and Alertmanager, after a stream has drifted and settled again."""
    with receiver() as hook:
        directory = tmp_path_factory.mktemp("alertmanager")
        alertmanager = AlertmanagerService(directory, alertmanager_config(hook.url))
        daemon = DaemonService(tmp_path_factory.mktemp("daemon"), _settings("orders"))
        outlet = f'[[outlets]]\nkind = "alertmanager"\nurl = "{alertmanager.url}"\n'
        settings = _settings("payments") + outlet
        teller = DaemonService(tmp_path_factory.mktemp("teller"), settings)
        directory = tmp_path_factory.mktemp("prometheus")
        targets = [f"{HOST}:{one.port}" for one in (daemon, teller)]
        config = prometheus_config(directory, targets[0], alertmanager.url, targets[1])
        prometheus = PrometheusService(directory, config)
        services = (alertmanager, daemon, teller, prometheus)
        try:
            for service in services:
                service.start()
            found = Watch(daemon, teller, prometheus, hook, np.random.default_rng(7))
            wait_for(lambda: prometheus.value("sum(up)") == 2.0, "both are scraped", SECONDS)
            _drift_and_settle(found)
            yield found
        finally:
            for service in services:
                service.stop()


def _settings(stream: str) -> str:
    return f"""
[checkpoint]
publish_seconds = 0.2

[[streams]]
name = "{stream}"
window = {WINDOW}
[streams.source]
kind = "http"

"""


def _drift_and_settle(watch: Watch) -> None:
    for _ in range(N_BEFORE):
        watch.feed(changed=False)
    watch.wait_for_windows(N_BEFORE)
    assert not watch.alerts("firing", DRIFT)
    watch.feed(changed=True)
    wait_for(lambda: by_rule(watch.alerts("firing", DRIFT)), "the rule is heard of", SECONDS)
    wait_for(lambda: by_outlet(watch.alerts("firing", DRIFT)), "the outlet is heard of", SECONDS)
    _lose_the_daemon(watch)
    assert not watch.alerts("resolved", DRIFT)  # it is still open, and the daemon knows it
    for n_fed in range(1, N_AFTER):
        watch.feed(changed=True)
        watch.wait_for_windows(n_fed)  # since its start, by the daemon that was lost
    wait_for(lambda: by_rule(watch.alerts("resolved", DRIFT)), "the rule resolves", SECONDS)
    wait_for(lambda: by_outlet(watch.alerts("resolved", DRIFT)), "the outlet resolves", SECONDS)


def _lose_the_daemon(watch: Watch) -> None:
    watch.daemon.kill()
    wait_for(lambda: watch.alerts("firing", "DriftbnDown"), "the loss is heard of", SECONDS)
    watch.daemon.start()
    wait_for(lambda: watch.alerts("resolved", "DriftbnDown"), "the return is heard of", SECONDS)
    is_open = 'sum(driftbn_episodes_open{stream="orders"}) == 1'
    wait_for(lambda: watch.prometheus.query(is_open), "the drift is shown again", SECONDS)


def test_amtool_accepts_the_configuration() -> None:
    config = CONFIGS / "alertmanager" / "alertmanager.yml"
    said = run_tool("amtool", "prometheus-alertmanager", "check-config", str(config))
    assert "SUCCESS" in said
    assert "3 inhibit rules" in said
    assert "3 receivers" in said
    assert "1 templates" in said


@pytest.mark.parametrize("name", ["slack", "pagerduty"])
def test_slack_and_pagerduty_are_told_in_words(tmp_path: Path, name: str) -> None:
    texts = {
        "summary": "Drift in orders: price - demand removed, since 12:00",
        "description": "They no longer go together.",
        "advice": "Look.",
        "keys": "eu, us",
        "page": "http://page/#stream=orders",
        "runbook_url": "http://runbooks#driftbnstructuraldrift",
    }
    with receiver() as hook:
        config = yaml.safe_load((CONFIGS / "alertmanager" / "alertmanager.yml").read_text())
        config["templates"] = [str(CONFIGS / "alertmanager" / "driftbn.tmpl")]
        config["route"] = {"receiver": name, "group_wait": "1s", "group_by": ["stream"]}
        (tmp_path / "webhook").write_text(hook.url)
        for one in config["receivers"]:
            for slack in one.get("slack_configs", ()):
                slack["api_url_file"] = str(tmp_path / "webhook")
            for pager in one.get("pagerduty_configs", ()):
                pager["url"] = hook.url
        alertmanager = AlertmanagerService(tmp_path, yaml.safe_dump(config))
        alertmanager.start()
        try:
            labels = {**_alert(DRIFT, "h:1", "orders")["labels"], "severity": "alert"}
            _post(alertmanager, {"labels": labels, "annotations": texts})
            wait_for(lambda: hook.requests, "a message")
        finally:
            alertmanager.stop()
    told = json.dumps(hook.requests[0].document)
    for text in texts.values():
        assert text in told
    if name == "pagerduty":
        assert hook.requests[0].document["payload"]["severity"] == "error"


def test_a_drift_goes_from_the_rule_to_the_webhook(watch: Watch) -> None:
    (alert, *_) = by_rule(watch.alerts("firing", DRIFT))
    labels = alert["labels"]
    assert labels["stream"] == "orders"
    assert labels["kind"] in ("structural", "association")
    assert set(labels) == {"alertname", "stream", "kind", "severity", "job", "instance"}
    texts = alert["annotations"]
    assert re.search(r"^Drift in orders: .*(c - d|d - c|b - c|c - b) .*since 20", texts["summary"])
    assert texts["page"] == f"http://{labels['instance']}/#stream=orders"
    assert texts["runbook_url"] == "service/README.md#driftbnstructuraldrift"


def test_a_drift_is_told_once_by_rule_or_by_outlet(watch: Watch) -> None:
    for status in ("firing", "resolved"):
        told = watch.alerts(status, DRIFT)
        assert {alert["labels"]["stream"] for alert in by_rule(told)} == {"orders"}
        assert {alert["labels"]["stream"] for alert in by_outlet(told)} == {"payments"}


def test_the_rule_names_the_edges_that_changed(watch: Watch) -> None:
    told = by_rule(watch.alerts("firing", DRIFT)) + by_rule(watch.alerts("resolved", DRIFT))
    edges = " ".join(alert["annotations"]["edges"] for alert in told)
    assert "c and d" in edges or "d and c" in edges


def test_the_rule_resolves_when_the_episode_has_ended(watch: Watch) -> None:
    fired, ended = (by_rule(watch.alerts(word, DRIFT)) for word in ("firing", "resolved"))
    assert {alert["fingerprint"] for alert in fired} == {alert["fingerprint"] for alert in ended}
    assert watch.prometheus.value("sum(driftbn_episodes_open)") == 0.0
    assert not watch.prometheus.query(f'ALERTS{{alertname="{DRIFT}"}}')


def test_the_daemon_itself_tells_alertmanager_too(watch: Watch) -> None:
    (alert, *_) = by_outlet(watch.alerts("firing", DRIFT))
    assert alert["labels"]["stream"] == "payments"
    assert alert["labels"]["kind"] in ("structural", "association")
    assert re.search(r"payments: .*, since ", alert["annotations"]["summary"])
    assert "p_value" in alert["annotations"]


def test_what_the_daemon_told_resolves_when_the_episode_has_ended(watch: Watch) -> None:
    fired, ended = (by_outlet(watch.alerts(word, DRIFT)) for word in ("firing", "resolved"))
    assert {alert["fingerprint"] for alert in fired} == {alert["fingerprint"] for alert in ended}
    assert all(alert["endsAt"] > alert["startsAt"] for alert in ended)


def test_messages_are_grouped_by_stream(watch: Watch) -> None:
    groups = [request.document["groupLabels"] for request in watch.hook.requests]
    assert groups
    names = [{"stream": "orders"}, {"stream": "payments"}, {}]
    assert all(labels in names for labels in groups)


def test_deliveries_are_counted(watch: Watch) -> None:
    # The daemon may be gone by now, and what it said last be stale.
    counted = 'driftbn_notify_total{{stream="payments",sink="alertmanager",outcome="{}"}}'
    newest = f"last_over_time({counted}[1h])".format
    by_outcome = {one: watch.prometheus.value(newest(one)) for one in ("sent", "failed")}
    assert (by_outcome["sent"] or 0.0) >= 2.0
    assert by_outcome["failed"] == 0.0


def test_a_daemon_that_is_gone_is_told(watch: Watch) -> None:
    (alert, *_) = watch.alerts("firing", "DriftbnDown")
    assert alert["labels"]["severity"] == "critical"
    assert alert["labels"]["instance"] in alert["annotations"]["summary"]


def test_what_follows_from_a_lost_daemon_is_not_told(tmp_path: Path) -> None:
    with receiver() as hook:
        alertmanager = AlertmanagerService(tmp_path, alertmanager_config(hook.url))
        alertmanager.start()
        try:
            _post(alertmanager, _alert("DriftbnDown", "h:1"))
            wait_for(lambda: _told(hook) == {("DriftbnDown", "h:1")}, "the loss is heard of")
            names = [("DriftbnStalled", "h:1"), ("DriftbnStalled", "h:2"), (DRIFT, "h:1")]
            _post(alertmanager, *(_alert(name, instance, "orders") for name, instance in names))
            told = {("DriftbnDown", "h:1"), ("DriftbnStalled", "h:2"), (DRIFT, "h:1")}
            wait_for(lambda: _told(hook) >= told, "the other alerts are heard of")
            assert _told(hook) == told
        finally:
            alertmanager.stop()


def _alert(name: str, instance: str, stream: str | None = None) -> Alert:
    labels = {"alertname": name, "job": "driftbn", "instance": instance, "severity": "critical"}
    return {"labels": labels if stream is None else {**labels, "stream": stream}}


def _post(alertmanager: AlertmanagerService, *alerts: Alert) -> None:
    url, headers = f"{alertmanager.url}/api/v2/alerts", {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(alerts).encode(), headers)
    with urllib.request.urlopen(request, timeout=10.0) as answer:
        assert answer.status == 200


def _told(hook: Receiver) -> set[tuple[str, str]]:
    alerts = [a for request in list(hook.requests) for a in request.document["alerts"]]
    return {(alert["labels"]["alertname"], alert["labels"]["instance"]) for alert in alerts}
