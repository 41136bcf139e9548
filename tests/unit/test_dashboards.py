"""Dashboards, provisioning and Compose: what can be told of them without Grafana and Docker."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from driftbn_service.metrics import FAMILIES
from generator.__main__ import FOLDER, built
from generator.parts import API_TYPE, FLEET, HEALTH, STREAM
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.services.process import wait_for
from tests.settings_files import load_settings

CONFIGS = FOLDER.parents[1]
FILES = sorted(FOLDER.glob("*.json"))
SCRAPED = {"up", "scrape_duration_seconds", "scrape_samples_scraped", "ALERTS"}
PROCESS = {"process_resident_memory_bytes", "process_cpu_seconds_total"}


def document(path: Path) -> Any:
    return json.loads(path.read_text())


def panels(path: Path) -> list[dict[str, Any]]:
    return [panel for panel in document(path)["panels"] if panel["type"] != "row"]


def expressions(path: Path) -> Iterator[str]:
    found = document(path)
    for panel in panels(path):
        yield from (target["expr"] for target in panel["targets"] if "expr" in target)
    yield from (note["expr"] for note in found["annotations"].get("list", ()))


def metric_names() -> set[str]:
    names = {family.sample_name for family in FAMILIES}
    for family in FAMILIES:
        if family.kind == "histogram":
            names |= {f"{family.full_name}_{part}" for part in ("bucket", "sum", "count")}
    return names


def yaml_file(*parts: str) -> Any:
    return yaml.safe_load(CONFIGS.joinpath(*parts).read_text())


# Dashboards


def test_what_is_committed_is_what_the_code_builds() -> None:
    assert {path.name: path.read_text() for path in FILES} == built()


def through_the_model(values: Any) -> Any:
    register_default_plugins()
    return json.loads(json.dumps(Dashboard.from_json(values), cls=JSONEncoder))


def has_all_of(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return all(key in found and has_all_of(found[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        pairs = zip(found, wanted, strict=False)
        return len(found) == len(wanted) and all(has_all_of(*pair) for pair in pairs)
    return bool(found == wanted)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_dashboard_loads_into_the_model_and_nothing_gets_lost(path: Path) -> None:
    loaded = through_the_model(document(path))
    assert has_all_of(loaded, document(path))
    assert through_the_model(loaded) == loaded


def test_uids_are_fixed_and_there_is_no_id_of_a_database() -> None:
    found = {path.stem: document(path) for path in FILES}
    assert {name: values["uid"] for name, values in found.items()} == {
        "fleet": FLEET,
        "stream": STREAM,
        "health": HEALTH,
    }
    assert all(values.get("id") is None for values in found.values())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_panel_says_what_it_shows_and_has_its_place(path: Path) -> None:
    places = set()
    for panel in panels(path):
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["targets"]
        place = panel["gridPos"]
        squares = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not squares & places
        assert place["x"] + place["w"] <= 24
        places |= squares
    ids = [panel["id"] for panel in document(path)["panels"]]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_expressions_name_only_metrics_that_exist(path: Path) -> None:
    known = metric_names() | SCRAPED | PROCESS
    for expression in expressions(path):
        bare = re.sub(r'"[^"]*"|\[[^]]*\]', "", expression)
        names = set(re.findall(r"\b(?:driftbn|process|scrape)_\w+|\bup\b|\bALERTS\b", bare))
        assert names, expression
        assert names <= known


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_variables_that_are_used_are_there(path: Path) -> None:
    text = path.read_text()
    there = {variable["name"] for variable in document(path)["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", text))
    assert used <= there
    assert there <= used | {"datasource"}


def test_dashboards_link_to_each_other_and_to_the_page() -> None:
    for path in FILES:
        links = [link["url"] for link in document(path)["links"]]
        others = {FLEET, STREAM, HEALTH} - {document(path)["uid"]}
        assert {f"/d/{uid}" for uid in others} <= set(links)
    (stream,) = [path for path in FILES if path.stem == "stream"]
    urls = [link["url"] for link in document(stream)["links"]]
    assert "http://${instance}/#stream=${stream}" in urls
    assert f"/d/{STREAM}?var-stream=${{__value.text}}" in FOLDER.joinpath("fleet.json").read_text()


def test_the_graph_is_asked_of_the_api() -> None:
    (panel,) = [p for p in panels(FOLDER / "stream.json") if p["type"] == "nodeGraph"]
    asked = {target["format"]: target["url"] for target in panel["targets"]}
    assert asked == {
        "node-graph-nodes": "/api/v1/streams/${stream}/graph/nodes",
        "node-graph-edges": "/api/v1/streams/${stream}/graph/edges",
    }
    assert panel["datasource"]["type"] == API_TYPE


# Provisioning and Compose


def test_data_sources_have_the_uids_that_dashboards_choose() -> None:
    sources = yaml_file("grafana", "provisioning", "datasources", "driftbn.yml")["datasources"]
    types = {source["uid"]: source["type"] for source in sources}
    for path in FILES:
        for variable in document(path)["templating"]["list"]:
            if variable["type"] == "datasource":
                assert types[variable["current"]["value"]] == variable["query"]


def test_containers_find_each_other_and_their_files() -> None:
    compose = yaml_file("compose.yaml")
    services = compose["services"]
    hosts = set(services)
    sources = yaml_file("grafana", "provisioning", "datasources", "driftbn.yml")["datasources"]
    addresses = [source["url"].removeprefix("http://") for source in sources]
    prometheus = yaml_file("prometheus", "prometheus.yml")
    addresses += prometheus["scrape_configs"][0]["static_configs"][0]["targets"]
    addresses += prometheus["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"]
    assert {address.partition(":")[0] for address in addresses} <= hosts
    for service in services.values():
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            if source.startswith("."):
                assert (CONFIGS / source).exists()
            else:
                assert source in compose["volumes"]
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:")


def test_the_container_listens_to_others_only_with_a_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    token.chmod(0o600)
    variables = dict(yaml_file("compose.yaml")["services"]["driftbn"]["environment"])
    assert variables["DRIFTBN__ENDPOINT__TOKEN_FILE"] == "/run/secrets/driftbn_token"
    variables["DRIFTBN__ENDPOINT__TOKEN_FILE"] = str(token)
    settings = load_settings(CONFIGS / "compose.toml", variables)
    assert settings.endpoint.host == "0.0.0.0"
    assert settings.endpoint.token is not None
    assert settings.endpoint.token.get_secret_value() == "secret"


def test_the_image_has_what_the_settings_need() -> None:
    text = (CONFIGS / "Dockerfile").read_text()
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    for name in " ".join(copied).split():
        assert (CONFIGS.parent / name).exists()
    mounted = yaml_file("compose.yaml")["services"]["driftbn"]["volumes"]
    settings = [mount for mount in mounted if mount.endswith("/etc/driftbn/driftbn.toml:ro")]
    assert len(settings) == 1
    assert "/etc/driftbn/driftbn.toml" in text


@pytest.mark.slow
def test_the_made_up_stream_of_the_containers_is_written(tmp_path: Path) -> None:
    demo = yaml_file("compose.yaml")["services"]["demo"]
    assert demo["entrypoint"] == ["python", "-c"]
    (program,) = demo["command"]
    folder = "/var/lib/driftbn-events"
    assert folder in program
    path = tmp_path / "demo.ndjson"
    process = subprocess.Popen(
        [sys.executable, "-c", program.replace(folder, str(tmp_path))], cwd=CONFIGS.parent
    )
    try:
        wait_for(lambda: path.exists() and path.stat().st_size > 1e5, "records are written")
    finally:
        process.terminate()
    assert process.wait(30) == 0
    assert len(json.loads(path.read_text().splitlines()[0])) == 37
    assert path.match(Path(load_settings(CONFIGS / "compose.toml", {}).streams[1].source.path).name)  # type: ignore[union-attr]
