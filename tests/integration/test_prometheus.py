"""The demonstration in a real Prometheus: metrics, rules, and every panel of the dashboards."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open

from tests.services.demo import DemoService
from tests.services.monitoring import CONFIGS, prometheus_config, run_tool, shipped_rules
from tests.services.process import wait_for
from tests.services.prometheus import PrometheusService

DASHBOARDS = sorted((CONFIGS / "grafana" / "dashboards").glob("*.json"))
OPEN = {"Accept": "application/openmetrics-text; version=1.0.0"}
RUNBOOKS = CONFIGS.parent / "service" / "README.md"
SECONDS = 240.0
NO_OUTLETS = {"driftbn_notify_total"}
"""What the demonstration has no series of."""


def panels() -> Iterator[tuple[str, str, bool]]:
    """Iterate over name, expression and whether it is asked for one moment, of everything shown."""
    for path in DASHBOARDS:
        document = json.loads(path.read_text())
        for panel in document["panels"]:
            for target in panel.get("targets", ()):
                if "expr" in target:
                    name = f"{path.stem}: {panel['title']} {target['refId']}"
                    yield name, target["expr"], bool(target["instant"])
        for note in document["annotations"].get("list", ()):
            yield f"{path.stem}: {note['name']}", note["expr"], False


PANELS = list(panels())
RULES = shipped_rules()


def get(url: str, headers: dict[str, str] | None = None) -> str:
    request = urllib.request.Request(url, headers=headers or {})
    with urllib.request.urlopen(request, timeout=30.0) as answer:
        return str(answer.read().decode())


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoService]:
    service = DemoService(tmp_path_factory.mktemp("demo"))
    service.start()
    yield service
    service.stop()


@pytest.fixture(scope="module")
def prometheus(
    demo: DemoService, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PrometheusService]:
    """A Prometheus that has seen the demonstration long enough for a drift to begin and end."""
    directory = tmp_path_factory.mktemp("prometheus")
    service = PrometheusService(directory, prometheus_config(directory, demo.target))
    service.start()
    wait_for(lambda: service.value("up") == 1.0, "the demonstration is scraped", SECONDS)
    seen = "count(count_over_time(driftbn_edge_change_score[10m]))"
    wait_for(lambda: service.query(seen), "a changed edge is scraped", SECONDS)
    done = "sum(increase(driftbn_windows_total[10m])) > 3"
    wait_for(lambda: service.query(done), "some windows are scraped", SECONDS)
    yield service
    service.stop()


def filled_in(expression: str, demo: DemoService) -> str:
    for name, value in {
        "$__rate_interval": "30s",
        "$__range": "10m",
        "$stream": "demo",
        "$instance": demo.target,
    }.items():
        expression = expression.replace(name, value)
    assert "$" not in expression
    return expression


# Tools


def test_promtool_has_nothing_to_say_of_the_metrics(demo: DemoService) -> None:
    text = get(f"http://{demo.target}/metrics")
    said = run_tool("promtool", "prometheus", "check", "metrics", given=text)
    assert said == ""


def test_promtool_has_nothing_to_say_of_the_metrics_of_a_drift(
    demo: DemoService, prometheus: PrometheusService
) -> None:
    wait_for(
        lambda: "\ndriftbn_edge_change_score{" in get(f"http://{demo.target}/metrics"),
        "a changed edge is shown",
        SECONDS,
    )
    test_promtool_has_nothing_to_say_of_the_metrics(demo)


def test_promtool_accepts_configuration_and_rules(tmp_path: Path) -> None:
    said = run_tool(
        "promtool", "prometheus", "check", "rules", "recording.rules.yml", "alerts.rules.yml"
    )
    assert said.count("SUCCESS") == 2
    run_tool("promtool", "prometheus", "check", "config", "--syntax-only", "prometheus.yml")
    config = tmp_path / "prometheus.yml"
    config.write_text(prometheus_config(tmp_path, "127.0.0.1:9464"))
    assert "SUCCESS" in run_tool("promtool", "prometheus", "check", "config", str(config))


@pytest.mark.parametrize("name", ["alerts_test.yml", "false_alarms_test.yml"])
def test_rules_pass_their_own_tests(name: str) -> None:
    assert "SUCCESS" in run_tool("promtool", "prometheus", "test", "rules", name)


def test_every_alert_has_a_test_in_which_it_fires_and_one_in_which_it_ends() -> None:
    files = (CONFIGS / "prometheus").glob("*_test.yml")
    tests = [test for path in files for test in yaml.safe_load(path.read_text())["tests"]]
    fires, ends = set(), set()
    for part in tests:
        for case in part.get("promql_expr_test", ()):
            found = re.findall(r'alertname="(\w+)"', case["expr"])
            (fires if case["exp_samples"] else ends).update(found)
        for case in part.get("alert_rule_test", ()):
            (fires if case["exp_alerts"] else ends).add(case["alertname"])
    alerts = {rule["alert"] for rule in RULES if "alert" in rule}
    assert alerts == fires == ends


# Texts


@pytest.mark.parametrize("rule", [r for r in RULES if "alert" in r], ids=lambda r: r["alert"])
def test_an_alert_can_be_understood_without_the_method(rule: dict[str, Any]) -> None:
    texts = rule["annotations"]
    assert {"summary", "description", "advice", "page", "runbook_url"} <= texts.keys()
    assert set(rule["labels"]) == {"severity"}
    what = re.search(r"\$labels\.(stream|instance)", texts["summary"])
    assert what or rule["expr"].startswith("absent(")  # of which nothing is known
    words = " ".join(texts.values()).lower()
    for term in (
        "d-separation",
        "conditional independence",
        "markov",
        "bayesian",
        "hamming",
        "dag",
    ):
        assert not re.search(rf"\b{term}\b", words)


@pytest.mark.parametrize("rule", [r for r in RULES if "alert" in r], ids=lambda r: r["alert"])
def test_every_alert_has_a_runbook_where_its_link_leads(rule: dict[str, Any]) -> None:
    path, _, anchor = rule["annotations"]["runbook_url"].rpartition("#")
    assert "service/README.md" in path
    headings = re.findall(r"^#+ (.+)$", RUNBOOKS.read_text(), re.MULTILINE)
    assert anchor == rule["alert"].lower()
    assert rule["alert"] in headings


# Expressions


@pytest.mark.parametrize(("name", "expression", "instant"), PANELS, ids=[n for n, _, _ in PANELS])
def test_every_panel_has_data_in_the_demonstration(
    name: str, expression: str, instant: bool, demo: DemoService, prometheus: PrometheusService
) -> None:
    asked = filled_in(expression, demo)
    found = prometheus.query(asked) if instant else prometheus.query_range(asked)
    values = [value for series in found for _, value in series.get("values", [series.get("value")])]
    assert any(value != "NaN" for value in values), name


def test_every_rule_is_evaluated_without_error(prometheus: PrometheusService) -> None:
    rules = prometheus.rules()
    assert {rule["name"] for rule in rules} == {r.get("alert", r.get("record")) for r in RULES}
    wait_for(
        lambda: all(rule["health"] != "unknown" for rule in prometheus.rules()),
        "all rules are evaluated",
    )
    assert [rule["lastError"] for rule in prometheus.rules() if rule["health"] != "ok"] == []


@pytest.mark.parametrize("rule", [r for r in RULES if "record" in r], ids=lambda r: r["record"])
def test_every_recorded_series_is_there(
    rule: dict[str, Any], prometheus: PrometheusService
) -> None:
    assert prometheus.query(rule["record"])
    assert prometheus.query(rule["expr"])


@pytest.mark.parametrize("rule", [r for r in RULES if "alert" in r], ids=lambda r: r["alert"])
def test_every_series_that_an_alert_looks_at_is_there(
    rule: dict[str, Any], prometheus: PrometheusService
) -> None:
    prometheus.query(rule["expr"])
    names = set(re.findall(r"\b(?:stream:)?(?:driftbn_\w+(?::\w+)?)|\bup\b", rule["expr"]))
    assert names
    for name in names - NO_OUTLETS:
        # Not one selector of an alert may be misspelt: each has series, whether or not it fires.
        for selector in re.findall(
            rf"(?<![\w:]){re.escape(name)}(?:{{[^}}]*}})?(?![\w:])", rule["expr"]
        ):
            assert prometheus.query(f"count({selector})"), selector


def test_drifts_of_the_demonstration_fire_and_end(prometheus: PrometheusService) -> None:
    fired = (
        'ALERTS{alertname=~"Driftbn(Structural|Mechanism)Drift",alertstate="firing",stream="demo"}'
    )
    assert prometheus.query_range(fired)
    wait_for(lambda: not prometheus.query(fired), "all drifts of the demonstration end", SECONDS)
    # These four wait before they fire, which the rules of this test do not.
    patient = "DriftbnDown|DriftbnAbsent|DriftbnStalled|DriftbnSilent"
    others = f'ALERTS{{alertname!~"Driftbn(Structural|Mechanism)Drift|{patient}"}}'
    assert not prometheus.query_range(others)


# The interfaces that Grafana asks


def test_exemplars_name_windows(demo: DemoService, prometheus: PrometheusService) -> None:
    families = {m.name: m for m in parse_open(get(f"http://{demo.target}/metrics", OPEN))}
    named = [
        sample.exemplar.labels
        for name in ("driftbn_alerts", "driftbn_relearn_duration_seconds")
        for sample in families[name].samples
        if sample.exemplar is not None
    ]
    assert named
    assert all(labels["window"].isdecimal() for labels in named)


def test_the_graph_is_in_the_form_of_the_node_graph_panel(
    demo: DemoService, prometheus: PrometheusService
) -> None:
    base = f"http://{demo.target}/api/v1/streams/demo/graph"
    nodes, edges = json.loads(get(f"{base}/nodes")), json.loads(get(f"{base}/edges"))
    names = [node["id"] for node in nodes]
    assert len(names) == len(set(names)) == 37
    assert all(isinstance(node["title"], str) for node in nodes)
    arcs = [name for name in nodes[0] if name.startswith("arc__")]
    for node in nodes:
        assert sum(node[name] for name in arcs) == pytest.approx(1.0) or not any(
            node[name] for name in arcs
        )
    assert edges
    for edge in edges:
        assert {edge["source"], edge["target"]} <= set(names)
        assert edge["thickness"] > 0
    assert len({edge["id"] for edge in edges}) == len(edges)
