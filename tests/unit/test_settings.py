from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from driftbn_service.events import EventType
from driftbn_service.settings import (
    DecisionSettings,
    KafkaSourceSettings,
    KnowledgeSettings,
    LearnerSettings,
    OutletSettings,
    Partitions,
    SchemaSettings,
    Settings,
    SourceSettings,
    StreamSettings,
    WindowSettings,
    load_settings,
    remarks,
)
from driftbn_service.settings import outlets as outlet_tables
from driftbn_service.settings.base import Section
from driftbn_service.settings.printing import toml
from driftbn_service.settings.structure import fields_of
from pydantic import ValidationError

from driftbn.config import Knowledge, LearnerConfig
from driftbn.decision.settings import DecisionConfig
from driftbn.errors import ConfigError
from driftbn.monitor_config import ErrorPolicy, MonitorConfig
from driftbn.schema import SchemaConfig
from driftbn.window_config import WindowConfig, WindowMode
from tests.settings_files import CONFIGS, EXAMPLES, MINIMAL, Write, stream, writer

PARTS: list[tuple[type[Any], type[Section]]] = [
    (MonitorConfig, StreamSettings),
    (WindowConfig, WindowSettings),
    (LearnerConfig, LearnerSettings),
    (DecisionConfig, DecisionSettings),
    (SchemaConfig, SchemaSettings),
    (Knowledge, KnowledgeSettings),
]

FIXED = {
    "on_error", "max_sets", "census_size", "tally_decay", "id_like_min_rows",
    "keep_constant", "keep_duplicates",
}  # fmt: skip
"""Settings of the library that a daemon does not have."""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return writer(tmp_path)


# The settings mirror the library


@pytest.mark.parametrize(("config", "section"), PARTS)
def test_every_setting_of_the_library_is_a_setting_with_the_same_default(
    config: type[Any], section: type[Section]
) -> None:
    known = fields_of(section)
    for field in dataclasses.fields(config):
        if field.name in FIXED:
            assert field.name not in known
            continue
        assert field.name in known, f"{section.__name__} has no {field.name}"
        default = known[field.name].get_default(call_default_factory=True)
        if field.default is not dataclasses.MISSING:
            assert getattr(default, "value", default) == getattr(
                field.default, "value", field.default
            )
        else:
            assert isinstance(default, Section)


def test_defaults_come_to_the_defaults_of_the_library() -> None:
    assert stream().monitor_config() == MonitorConfig(on_error=ErrorPolicy.REJECT_ROWS)


def test_settings_reach_the_monitor() -> None:
    config = stream(
        window={"seconds": 60, "lateness_seconds": 5},
        time_column="at",
        windows_between_false_alarms=500,
        target="status",
        audit_share=0.25,
        learner={"algorithm": "pc", "max_tests": 900},
        decision={"scales": [1, 2]},
        schema={"missing": "reject"},
        knowledge={"required": [["a", "b"]], "tiers": [["b", "a"], ["c"]]},
    ).monitor_config()
    assert config == MonitorConfig(
        window=WindowConfig(seconds=60, lateness_seconds=5),
        time_column="at",
        windows_between_false_alarms=500,
        target="status",
        audit_share=0.25,
        learner=LearnerConfig(algorithm="pc", max_tests=900),  # type: ignore[arg-type]
        decision=DecisionConfig(scales=(1, 2)),
        schema=SchemaConfig(missing="reject"),  # type: ignore[arg-type]
        knowledge=Knowledge(required=[("a", "b")], tiers=[["b", "a"], ["c"]]),
        on_error=ErrorPolicy.REJECT_ROWS,
    )
    assert config.windows.mode is WindowMode.TIME


def bounds() -> list[tuple[type[Any], type[Section], str, str, float]]:
    """Return every limit that the settings state for a field of the library."""
    found = []
    for config, section in PARTS[1:5]:
        for name, schema in section.model_json_schema()["properties"].items():
            for part in (schema, *schema.get("anyOf", ())):
                for limit in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
                    if limit in part:
                        found.append((config, section, name, limit, part[limit]))
    return found


def accepts(kind: type[Any], name: str, value: float) -> bool:
    # A time window is what min_rows and lateness_seconds are for.
    timed = {"seconds": 60.0} if kind in (WindowConfig, WindowSettings) and name != "step" else {}
    try:
        kind(**timed | {name: value})
    except (ConfigError, ValidationError):
        return False
    return True


@pytest.mark.parametrize(("config", "section", "name", "limit", "value"), bounds())
def test_limits_are_those_of_the_library(
    config: type[Any], section: type[Section], name: str, limit: str, value: float
) -> None:
    outwards = -1 if "inimum" in limit else 1
    exclusive = limit.startswith("exclusive")
    inside = value - outwards * 1e-9 if exclusive else value
    beyond = value if exclusive else value + outwards
    assert accepts(config, name, inside)
    assert accepts(section, name, inside)
    assert not accepts(config, name, beyond)
    assert not accepts(section, name, beyond)


# Kinds of sources and outlets


@pytest.mark.parametrize(
    ("key", "given", "expected"),
    [
        (None, None, Partitions.MERGED),
        ("shop", None, Partitions.EACH),
        ("shop", "merged", Partitions.MERGED),
    ],
)
def test_partitions_follow_from_the_key(
    key: str | None, given: str | None, expected: Partitions
) -> None:
    source = {"kind": "kafka", "brokers": ["b:1"], "topic": "t"} | (
        {"partitions": given} if given else {}
    )
    settings = stream(key=key, source=source).source
    assert isinstance(settings, KafkaSourceSettings)
    assert settings.partitions is expected


def test_options_of_librdkafka_become_text() -> None:
    options = {"session.timeout.ms": 6000, "enable.x": True, "acks": "all"}
    source = KafkaSourceSettings(brokers=("b:1",), topic="t", options=options)  # type: ignore[arg-type]
    assert source.options == {"session.timeout.ms": "6000", "enable.x": "true", "acks": "all"}


def test_types_of_events_are_those_that_there_are() -> None:
    assert set(get_args(outlet_tables.EventType)) == {kind.value for kind in EventType}


def test_a_stream_is_found_by_its_name(write: Write) -> None:
    settings = load_settings(write(MINIMAL), {})
    assert settings.stream("orders") is settings.monitors[0]
    with pytest.raises(KeyError, match="sales"):
        settings.stream("sales")


# The files that come with driftbn


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_file_in_configs_is_fine(path: Path) -> None:
    settings = load_settings(path, {})
    assert remarks(settings) == ()
    assert settings.service.state_dir.is_relative_to(CONFIGS)


def test_there_is_an_example_for_each_source() -> None:
    kinds = {source.model_fields["kind"].default for source in members(SourceSettings)}
    for kind in kinds:
        assert load_settings(CONFIGS / f"{kind}.toml", {}).monitors[0].source.kind == kind


def test_default_settings_are_the_defaults() -> None:
    settings = load_settings(CONFIGS / "default.toml", {})
    state_dir = {"state_dir": CONFIGS / "driftbn-state"}
    assert settings == Settings(service=state_dir, monitors=[stream()])  # type: ignore[arg-type]


def members(union: Any) -> tuple[type[Section], ...]:
    return get_args(get_args(union)[0])


def blocks() -> list[tuple[str, str, dict[str, tuple[object, str]]]]:
    """Return header, kind and settings of each table in default.toml, commented or not."""
    text = (CONFIGS / "default.toml").read_text()
    found: list[tuple[str, dict[str, tuple[object, str]]]] = []
    for line in text.splitlines():
        if header := re.fullmatch(r"#?\[+([a-z.]+)\]+", line):
            found.append((header[1], {}))
        elif setting := re.fullmatch(r"#?((\w+) = .*?)(?:  # (needed|not set))?", line):
            found[-1][1][setting[2]] = (tomllib.loads(setting[1])[setting[2]], setting[3] or "")
    return [(name, str(keys.get("kind", ("",))[0]), keys) for name, keys in found]


def test_default_settings_name_every_setting_at_its_default() -> None:
    top = fields_of(Settings)
    tables: dict[tuple[str, str], type[Section]] = {
        (name, ""): top[name].annotation  # type: ignore[misc]
        for name in ("service", "endpoint", "checkpoint", "store", "log")
    }
    for name, field in fields_of(StreamSettings).items():
        if isinstance(field.get_default(call_default_factory=True), Section):
            tables[f"monitors.{name}", ""] = field.annotation  # type: ignore[assignment]
    tables["monitors", ""] = StreamSettings
    for name, union in (("monitors.source", SourceSettings), ("outlets", OutletSettings)):
        tables |= {(name, one.model_fields["kind"].default): one for one in members(union)}
    described = {(name, kind): keys for name, kind, keys in blocks()}
    assert described.keys() == tables.keys()
    for place, section in tables.items():
        check_described(section, described[place])


def check_described(section: type[Section], keys: Mapping[str, tuple[object, str]]) -> None:
    for name, field in fields_of(section).items():
        default = field.get_default(call_default_factory=True)
        if isinstance(default, Section) or name == "source":
            continue
        value, mark = keys[name]
        if field.is_required():
            assert mark == "needed", name
        elif default is None:
            assert mark == "not set", name
        else:
            assert (value, mark) == (tomllib.loads(f"x = {toml(default)}")["x"], ""), name
    known = fields_of(section)
    assert set(keys) <= set(known)
