from __future__ import annotations

import copy
import itertools
import json
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from driftbn_service.settings import (
    SettingsError,
    WebhookOutletSettings,
    load_settings,
    read_settings,
    remarks,
    settings_path,
    settings_toml,
)
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from driftbn.errors import ConfigError
from driftbn.schema import Schema, Variable, VariableKind
from tests.settings_files import CONFIGS, EXAMPLES, MINIMAL, Write, stream, writer


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return writer(tmp_path)


def lines_of(path: Path | None, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return what is wrong with settings, with the directory left out."""
    with pytest.raises(SettingsError) as caught:
        load_settings(path, environ or {})
    directory = "" if path is None else f"{path.parent}/"
    return tuple(line.replace(directory, "") for line in caught.value.lines)


# What is refused


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        stream().name = "other"  # type: ignore[misc]


def test_every_mistake_is_told_at_once_with_its_path(write: Write) -> None:
    path = write("""
        [service]
        state_dri = "x"
        [endpoint]
        port = "9464"
        [log]
        level = "INFO"
        [[monitors]]
        name = "a b"
        window = "5000"
        [monitors.learner]
        alpha = 2
        [monitors.source]
        kind = "files"
        pth = "x"
        [[monitors]]
        name = "b"
        [monitors.decision]
        alpha = 0.1
        windows_between_false_alarms = 5
        [monitors.source]
        kind = "kafak"
        [[monitors]]
        name = "B"
        [monitors.source]
        format = "csv"
        [[outlets]]
        kind = "file"
        path = 5
        types = []
        [[outlets]]
        kind = "redis"
        url = "http://host"
    """)
    file = "driftbn.toml: "
    refused = "is not allowed: it must be"
    assert lines_of(path) == (
        f"{file}service.state_dir is missing: where checkpoints, history, journals and quarantined"
        " records live; made if it is not there",
        f"{file}service.state_dri is not known: did you mean 'state_dir'?",
        f"{file}endpoint.port = '9464' {refused} an integer, without quotes",
        f"{file}log.level = 'INFO' {refused} one of 'debug', 'info', 'warning', 'error'; did you"
        " mean 'info'?",
        f"{file}monitors[0].name = 'a b' {refused} 1 to 64 letters, digits, '.', '_' or '-', the"
        " first a letter or digit",
        f"{file}monitors[0].window = '5000' {refused} an integer, without quotes, or a table",
        f"{file}monitors[0].learner.alpha = 2 {refused} less than 1",
        f"{file}monitors[0].source.path is missing: a file, a directory or a glob",
        f"{file}monitors[0].source.pth is not known: did you mean 'path'?",
        f"{file}monitors[1].decision.windows_between_false_alarms = 5.0 {refused} left out where"
        " alpha is given",
        f"{file}monitors[1].source.kind = 'kafak' {refused} one of 'stdin', 'files', 'http',"
        " 'kafka', 'redis'; did you mean 'kafka'?",
        f"{file}monitors[2].source.kind is missing: it must be one of 'stdin', 'files', 'http',"
        " 'kafka', 'redis'",
        f"{file}outlets[0].types = [] {refused} a list of at least 1",
        f"{file}outlets[0].path = 5 {refused} a path in quotes",
        f"{file}outlets[1].url = 'http://host' {refused} an address redis://HOST, rediss://HOST or"
        " unix://PATH",
        f"{file}monitors[2].name = 'B' {refused} another name than that of monitors[1]",
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"resident": 0}, "monitors[0].resident = 0 is not allowed: it must be 1 or more"),
        ({"resident": True}, "monitors[0].resident = true is not allowed: it must be an integer"),
        ({"audit_share": "x"}, "audit_share = 'x' is not allowed: it must be a number"),
        ({"key": ""}, "monitors[0].key = '' is not allowed: it must be text that is not empty"),
        ({"learner": {"warm": "x"}}, "learner.warm = 'x' is not allowed: it must be one of"),
        ({"window": {"seconds": 60}}, "monitors[0].time_column is missing: it must be the column"),
        ({"window": {"step": 9000}}, "monitors[0].window.step = 9000 is not allowed"),
        ({"window": 0}, "monitors[0].window.size = 0 is not allowed: it must be 1 or more"),
        ({"window": {"origin": float("inf")}}, "window.origin = inf is not allowed: it must be a"),
        ({"decision": {"scales": [3, 1]}}, "monitors[0].decision.scales = (3, 1) is not allowed"),
        ({"learner": 5}, "monitors[0].learner = 5 is not allowed: it must be a table"),
        ({"knowledge": {"required": [["a"]]}}, "monitors[0].knowledge.required[0][1] is missing"),
        (
            {"key": "k", "target": "k"},
            "monitors[0].target = 'k' is not allowed: it must be another",
        ),
        ({"on_error": "x"}, "monitors[0].on_error is not known"),
        ({"source": 5}, "monitors[0].source = 5 is not allowed: it must be a table"),
        ({"source": {"kind": "stdin", "format": "arrow"}}, "it must be one of 'ndjson', 'csv'"),
        (
            {"source": {"kind": "kafka", "brokers": [], "topic": "t"}},
            "monitors[0].source.brokers = [] is not allowed: it must be a list of at least 1",
        ),
        (
            {"source": {"kind": "kafka", "brokers": ["b"], "topic": "t", "partitions": "each"}},
            "monitors[0].source.partitions = 'each' is not allowed: it must be 'merged' where",
        ),
        ({"name": "x" * 300}, "…"),
    ],
)
def test_a_bad_monitor_is_told_with_path_value_and_what_is_allowed(
    settings: dict[str, Any], expected: str
) -> None:
    table = {"name": "orders", "source": {"kind": "stdin"}} | settings
    with pytest.raises(SettingsError) as caught:
        load_settings(None, {}, {"service.state_dir": "x", "monitors": [table]})
    assert len(caught.value.lines) == 1
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[service]\nstate_dir = \n", "driftbn.toml: is not TOML: Invalid value (at line 2, col"),
        ("", "driftbn.toml: service is missing: the process"),
        (
            MINIMAL + "[sevrice]\nx = 1",
            "driftbn.toml: sevrice is not known: did you mean",
        ),
        (MINIMAL + "[other]\nx = 1", "driftbn.toml: other is not known: known are 'service', "),
        ('monitors = 5\nservice = {state_dir = "x"}', "monitors = 5 is not allowed: it must be a"),
        ('monitors = []\nservice = {state_dir = "x"}', "it must be a list of at least 1"),
        (
            f"{MINIMAL}[[monitors]]\nname = 'b'\nsource = {{kind = 'stdin'}}",
            "monitors[1].source.kind = 'stdin' is not allowed: it must be another: standard input",
        ),
        (
            MINIMAL.replace("stdin", "http") + "[endpoint]\nenabled = false",
            "monitors[0].source.kind = 'http' is not allowed: it must be another where endpoint",
        ),
        (
            MINIMAL + "[[outlets]]\nkind='log'\n[[outlets]]\nkind='file'\nname='log'\npath='x'",
            "outlets[1].name = 'log' is not allowed: it must be another name than that of",
        ),
    ],
)
def test_a_bad_file_is_told(write: Write, text: str, expected: str) -> None:
    assert expected in lines_of(write(text))[0]


def test_a_file_that_cannot_be_read_says_what_to_do(tmp_path: Path) -> None:
    assert "no such file; name a file with --config FILE" in lines_of(tmp_path / "none.toml")[0]
    assert "there are none: name a file with --config FILE" in lines_of(None)[0]
    assert "cannot be read: Is a directory" in lines_of(tmp_path)[0]
    binary = tmp_path / "driftbn.toml"
    binary.write_bytes(b"a = 1\n\xff")
    assert "is not UTF-8: byte 6" in lines_of(binary)[0]


TREE: dict[str, Any] = {
    name: tomllib.loads((CONFIGS / f"{name}.toml").read_text())
    for name in ("example", "kafka", "redis")
}
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.datetimes(),
    st.lists(st.integers() | st.text(max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
)


def told(tree: dict[str, Any]) -> tuple[str, ...]:
    try:
        load_settings(None, {}, tree)
    except SettingsError as error:
        return error.lines
    return ()


@given(st.sampled_from(sorted(TREE)), st.data())
def test_whatever_a_file_holds_there_is_nothing_but_a_settings_error(
    name: str, data: st.DataObject
) -> None:
    tree = copy.deepcopy(TREE[name])
    for _ in range(data.draw(st.integers(1, 3))):
        node: Any = tree
        while True:
            known = list(node) if isinstance(node, dict) else list(range(len(node)))
            step = data.draw(st.sampled_from(known) if known else st.text(max_size=3))
            below = node[step] if known else None
            if not isinstance(below, dict | list) or data.draw(st.booleans()):
                break
            node = below
        if isinstance(node, dict):
            key = data.draw(st.just(step) | st.text(max_size=6))
            node[key] = data.draw(ODD)
        elif known:
            node[step] = data.draw(ODD)
    assert all(line.isprintable() for line in told(tree))


def test_errors_are_configuration_errors_on_one_line(write: Write) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(write(MINIMAL + "[log]\nlevel = 'x'\nformat = 'y'"), {})
    assert str(caught.value).count("is not allowed") == 2
    assert "\n" not in str(caught.value)


# Paths


def test_relative_paths_are_relative_to_the_file(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(
        MINIMAL.replace('kind = "stdin"', 'kind = "files"\npath = "records/*.csv"')
        + '[store]\npath = "/var/h.sqlite"\n[[outlets]]\nkind = "file"\npath = "e.ndjson"'
    )
    monkeypatch.chdir(tmp_path.parent)
    settings = load_settings(Path(tmp_path.name) / path.name, {})
    assert settings.service.state_dir == tmp_path / "state"
    assert settings.history_path == Path("/var/h.sqlite")
    assert settings.monitors[0].source.path == str(tmp_path / "records/*.csv")  # type: ignore[union-attr]
    assert settings.outlets[0].path == tmp_path / "e.ndjson"  # type: ignore[union-attr]


def test_variables_are_read_from_a_file_beside_the_settings(write: Write, tmp_path: Path) -> None:
    schema = Schema([Variable("b", VariableKind.BOOLEAN, ("false", "true"))])
    path = write(MINIMAL.replace('name = "orders"', 'name = "orders"\nvariables = "schema.json"'))
    assert "monitors[0].variables = 'schema.json'" in lines_of(path)[0]
    (tmp_path / "schema.json").write_text("[")
    assert "it must be a schema as JSON" in lines_of(path)[0]
    (tmp_path / "schema.json").write_text(json.dumps(schema.to_dict()))
    settings = load_settings(path, {})
    (tmp_path / "schema.json").unlink()
    assert settings.monitors[0].monitor_config().variables == schema


def test_a_directory_with_brackets_is_no_glob(tmp_path: Path) -> None:
    directory = tmp_path / "a[1]"
    directory.mkdir()
    path = directory / "driftbn.toml"
    for pattern, expected in (("*.csv", "a[[]1]/*.csv"), ("x.csv", "a[1]/x.csv")):
        path.write_text(MINIMAL.replace('"stdin"', f'"files"\npath = "{pattern}"'))
        source = load_settings(path, {}).monitors[0].source
        assert source.path == str(tmp_path / expected)  # type: ignore[union-attr]


def test_without_a_file_paths_are_left_as_they_are() -> None:
    settings = load_settings(
        None, {"DRIFTBN__SERVICE__STATE_DIR": "state"}, {"monitors": [stream()]}
    )
    assert settings.service.state_dir == Path("state")
    assert settings.history_path == Path("state/history.sqlite")


def test_the_settings_file_is_the_one_given_or_the_one_of_the_environment() -> None:
    environ = {"DRIFTBN_CONFIG": "b.toml"}
    assert settings_path("a.toml", environ) == Path("a.toml")
    assert settings_path(None, environ) == Path("b.toml")
    assert settings_path(None, {}) is None


# The environment


def test_variables_override_the_file_and_options_override_both(write: Write) -> None:
    path = write(MINIMAL + "[log]\nlevel = 'error'\n[[outlets]]\nkind = 'log'\n")
    environ = {
        "DRIFTBN__SERVICE__EXIT_WHEN_DRAINED": "true",
        "DRIFTBN__LOG__LEVEL": "debug",
        "DRIFTBN__CHECKPOINT__KEEP": "7",
        "DRIFTBN__MONITORS__orders__WINDOW": "1000",
        "DRIFTBN__MONITORS__0__LEARNER__ALPHA": "0.001",
        "DRIFTBN__OUTLETS__LOG__TYPES": '["io.driftbn.drift.ended.v1"]',
        "DRIFTBN_OTHER": "x",
    }
    settings = load_settings(path, environ, {"checkpoint.keep": 9})
    assert settings.service.exit_when_drained
    assert settings.log.level == "debug"
    assert settings.checkpoint.keep == 9
    assert settings.monitors[0].window.size == 1000
    assert settings.monitors[0].learner.alpha == 0.001
    assert settings.outlets[0].types == ("io.driftbn.drift.ended.v1",)


def test_the_environment_alone_can_be_enough() -> None:
    environ = {
        "DRIFTBN__MONITORS__10__NAME": "l",
        **{f"DRIFTBN__MONITORS__{i}__NAME": name for i, name in enumerate("abcdefghij")},
        **{f"DRIFTBN__MONITORS__{i}__SOURCE__KIND": "http" for i in range(11)},
        "DRIFTBN__SERVICE__STATE_DIR": "state",
    }
    settings = load_settings(None, dict(sorted(environ.items())))
    assert [one.name for one in settings.monitors] == list("abcdefghijl")


def test_names_are_found_as_a_shell_can_write_them(write: Write) -> None:
    path = write(MINIMAL.replace("orders", "eu.orders-1"))
    environ = {"DRIFTBN__MONITORS__EU_ORDERS_1__WINDOW": "77"}
    assert load_settings(path, environ).monitors[0].window.size == 77


@pytest.mark.parametrize("text", ["12345", "true", "2026-01-01", "1e5", "0x10", 'a"b', "a\nb=1"])
def test_where_text_is_wanted_a_variable_is_taken_as_written(write: Write, text: str) -> None:
    environ = {"DRIFTBN__ENDPOINT__TOKEN": text, "DRIFTBN__MONITORS__0__TARGET": text}
    settings = load_settings(write(MINIMAL), environ)
    assert settings.monitors[0].target == text
    assert settings.endpoint.token is not None
    assert settings.endpoint.token.get_secret_value() == text


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("SERVIC__X", "1", "servic is not known: did you mean 'service'?"),
        ("SERVICE__STATEDIR", "x", "service.statedir is not known: did you mean 'state_dir'?"),
        ("STORE__KEEP_WINDOWS", "abc", "store.keep_windows = 'abc' is not allowed"),
        ("MONITORS__0__WINDOW", '"5"', "monitors[0].window = '5' is not allowed"),
        ("MONITORS__sales__WINDOW", "5", "there are 'orders', not sales"),
        ("MONITORS__2__NAME", "x", "there are 'orders', not 2"),
        ("MONITORS__0", "x", "the name of a key must follow"),
        ("MONITORS__0__NAME__X", "x", "NAME is one value and has no parts"),
        ("SERVICE____X", "x", "names parted by two underscores"),
        ("LOG", "x", "log = 'x' is not allowed: it must be a table"),
        ("LOG__LEVEL", "\udcff", "text in UTF-8"),
    ],
)
def test_a_wrong_variable_is_named(write: Write, name: str, text: str, expected: str) -> None:
    path = write(MINIMAL)
    (line,) = lines_of(path, {f"DRIFTBN__{name}": text})
    assert line.startswith(f"DRIFTBN__{name}: ")
    assert expected in line


def test_mistakes_of_file_and_variables_are_told_together(write: Write) -> None:
    lines = lines_of(
        write(MINIMAL + "[log]\nlevel = 'x'"), {"DRIFTBN__X__Y": "1", "DRIFTBN__MONITORS__z__X": ""}
    )
    assert [line.partition(":")[0] for line in lines] == [
        "DRIFTBN__MONITORS__z__X",
        "driftbn.toml",
        "DRIFTBN__X__Y",
    ]


# Secrets


def with_token_file(name: str) -> str:
    return MINIMAL + f'[endpoint]\ntoken_file = "{name}"'


def test_a_secret_is_read_from_its_file_without_the_last_newline(
    write: Write, tmp_path: Path
) -> None:
    (tmp_path / "token").write_bytes(b" geheim \r\n")
    settings = load_settings(write(with_token_file("token")), {})
    assert settings.endpoint.token is not None
    assert settings.endpoint.token.get_secret_value() == " geheim "
    assert "geheim" not in repr(settings) + str(settings.model_dump())


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "it must be a file that can be read (No such file or directory)"),
        (b"\n", "it must be a file with the secret in it; it is empty"),
        (b"\xff", "it must be a file of text in UTF-8"),
        (b"x" * 70_000, "it must be a file of at most 65536 bytes"),
    ],
)
def test_a_file_without_a_secret_is_told(
    write: Write, tmp_path: Path, content: bytes | None, expected: str
) -> None:
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    (line,) = lines_of(write(with_token_file("token")))
    assert line == f"driftbn.toml: endpoint.token_file = 'token' is not allowed: {expected}"


def test_a_secret_file_that_is_a_directory_is_told(write: Write, tmp_path: Path) -> None:
    (line,) = lines_of(write(with_token_file(".")))
    assert "endpoint.token_file" in line
    assert "(Is a directory)" in line


def test_a_secret_is_given_once(write: Write, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of-file")
    path = write(with_token_file("token") + '\ntoken = "other"')
    (line,) = lines_of(path)
    assert "endpoint.token_file = 'token' is not allowed: it must be left out where token" in line


@pytest.mark.parametrize(
    ("name", "value", "expected"), [("TOKEN", "mine", "mine"), ("TOKEN_FILE", "token", "of-file")]
)
def test_a_secret_from_outside_takes_the_place_of_that_of_the_file(
    write: Write, tmp_path: Path, name: str, value: str, expected: str
) -> None:
    (tmp_path / "token").write_text("of-file")
    path = write(with_token_file("token") + '\ntoken = "other"')
    settings = load_settings(path, {f"DRIFTBN__ENDPOINT__{name}": value})
    assert settings.endpoint.token is not None
    assert settings.endpoint.token.get_secret_value() == expected


def test_errors_show_no_secrets(write: Write) -> None:
    path = write(
        MINIMAL
        + """
        [endpoint]
        token = 71077345
        [[outlets]]
        kind = "webhook"
        url = "redis://me:71077345@host"
        headers = {Authorization = 71077345}
        """
    )
    lines = lines_of(path, {"DRIFTBN__ENDPOINT__HOST__TOKEN": "71077345"})
    assert len(lines) == 4
    assert "71077345" not in " ".join(lines)


def test_secrets_that_anyone_can_read_are_remarked(write: Write, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("geheim")
    token.chmod(stat.S_IRUSR | stat.S_IWUSR)
    settings = load_settings(write(with_token_file("token")), {})
    assert remarks(settings) == ()
    token.chmod(0o644)
    assert remarks(settings) == (f"endpoint.token_file: anyone can read {token}; chmod o-r it",)
    token.unlink()
    assert remarks(settings) == ()


# Printing


def test_printed_settings_come_to_the_same(write: Write, tmp_path: Path) -> None:
    path = write(
        MINIMAL.replace('name = "orders"', 'name = "orders"\nkey = "sh\\u007fop\\"\\n"')
        + """
        [[monitors]]
        name = "b"
        window = {seconds = 60, min_rows = 5}
        time_column = "at"
        learner = {max_tests = 900, warm = "none"}
        knowledge = {required = [["a", "b c"]], tiers = [["a"], ["b", "c"]]}
        decision = {scales = [1, 2]}
        [monitors.source]
        kind = "kafka"
        brokers = ["b:1"]
        topic = "t"
        options = {"a.b" = 5}
        [[outlets]]
        kind = "file"
        path = "x"
        """
    )
    loaded = read_settings(path, {"DRIFTBN__LOG__LEVEL": "debug"})
    printed = tmp_path / "printed.toml"
    printed.write_text(settings_toml(loaded))
    assert load_settings(printed, {}) == loaded.settings


def test_every_example_prints_to_the_same(tmp_path: Path) -> None:
    for path, printed in zip(EXAMPLES, itertools.repeat(tmp_path / "printed.toml"), strict=False):
        loaded = read_settings(path, {})
        printed.write_text(settings_toml(loaded))
        assert load_settings(printed, {}) == loaded.settings


def test_printed_settings_say_where_they_come_from(write: Write) -> None:
    path = write(MINIMAL.replace('name = "orders"', 'name = "orders"\nwindow = 100'))
    text = settings_toml(read_settings(path, {"DRIFTBN__LOG__LEVEL": "debug"}, {"store.path": "h"}))
    lines = text.splitlines()
    assert 'level = "debug"  # DRIFTBN__LOG__LEVEL' in lines
    assert f"size = 100  # {path}" in lines
    assert f'path = "{path.parent}/h"  # command line' in lines
    assert 'format = "text"' in lines
    assert "min_rows = 1" in lines


def test_printed_settings_hide_secrets(write: Write, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("geheim")
    path = write(
        with_token_file("token")
        + """
        [[outlets]]
        kind = "webhook"
        url = "http://me:geheim@host/x"
        token = "geheim"
        headers = {X-Api-Key = "geheim", Accept = "text/plain"}
        [[outlets]]
        kind = "kafka"
        brokers = ["b:1"]
        topic = "t"
        options = {"sasl.password" = "geheim"}
        """
    )
    text = settings_toml(read_settings(path, {}))
    assert "geheim" not in text
    assert f'token_file = "{tmp_path}/token"' in text
    assert "# token is set and not shown" in text
    assert 'url = "http://me:***@host/x"' in text
    assert 'Accept = "text/plain"' in text


def test_a_webhook_built_by_hand_reads_its_token_too(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("geheim")
    outlet = WebhookOutletSettings(url="http://host", token_file=tmp_path / "token")
    assert outlet.token is not None
    assert outlet.token.get_secret_value() == "geheim"
