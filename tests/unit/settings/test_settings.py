"""Settings in files and variables: what they come to, and what is said of mistakes."""

from __future__ import annotations

import copy
import itertools
import json
import re
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from driftbn_service.settings import Settings
from driftbn_service.state import FILE, place_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from driftbn import Schema
from driftbn.config import ErrorPolicy, Knowledge, LearnerConfig, MonitorConfig, WindowConfig
from driftbn.errors import ConfigError
from tests.encoded import Variable, VariableKind
from tests.settings_files import (
    CONFIGS,
    EXAMPLES,
    MINIMAL,
    SettingsError,
    Write,
    load_settings,
    read_settings,
    remarks,
    settings_schema,
    settings_toml,
    stream,
    toml,
    writer,
)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return writer(tmp_path)


def lines_of(path: Path | None, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return what is wrong with settings, with the directory left out."""
    with pytest.raises(SettingsError) as caught:
        load_settings(path, environ or {})
    directory = "" if path is None else f"{path.parent}/"
    return tuple(line.replace(directory, "") for line in caught.value.lines)


def tree_text(tree: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {toml(value)}\n" for key, value in tree.items())


# What a stream comes to


def test_a_stream_says_all_that_its_monitors_need() -> None:
    given = stream(
        window={"seconds": 60, "min_rows": 5},
        alpha=0.001,
        min_effect=0.1,
        quiet_returns=True,
        target="status",
        time_column="at",
        learner={"algorithm": "pc", "max_tests": 900},
        knowledge={"required": [["a", "b"]]},
    )
    assert given.monitor_config() == MonitorConfig(
        window=WindowConfig(seconds=60, min_rows=5),
        alpha=0.001,
        min_effect=0.1,
        quiet_returns=True,
        target="status",
        time_column="at",
        learner=LearnerConfig(algorithm="pc", max_tests=900),  # type: ignore[arg-type]
        knowledge=Knowledge(required=[("a", "b")]),
        on_error=ErrorPolicy.REJECT_ROWS,
    )
    with pytest.raises(ValidationError, match="frozen"):
        given.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("key", "partitions", "expected"),
    [(None, None, "merged"), ("shop", None, "each"), ("shop", "merged", "merged")],
)
def test_partitions_follow_from_the_key(
    key: str | None, partitions: str | None, expected: str
) -> None:
    source = {"kind": "kafka", "brokers": ["b:1"], "topic": "t", "partitions": partitions}
    assert stream(key=key, source=source).source.partitions == expected  # type: ignore[union-attr]


# What is refused


def test_every_mistake_is_told_at_once_with_its_path(write: Write) -> None:
    path = write("""
        [service]
        state_dri = "x"
        [endpoint]
        port = "9464"
        [log]
        level = "INFO"
        [[streams]]
        name = "a b"
        window = "5000"
        audit_share = "x"
        [streams.learner]
        max_tests = 0
        max_test = 5
        warm = "none"
        [streams.source]
        kind = "files"
        pth = "x"
        [[streams]]
        name = "b"
        alpha = 0.1
        windows_between_false_alarms = 5
        [streams.source]
        kind = "kafak"
        [[streams]]
        name = "B"
        [streams.source]
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
        f"{file}service.state_dir is missing: where the state and quarantined"
        " records live; made if it is not there",
        f"{file}service.state_dri is not known: did you mean 'state_dir'?",
        f"{file}endpoint.port = '9464' {refused} an integer, without quotes",
        f"{file}log.level = 'INFO' {refused} one of 'debug', 'info', 'warning', 'error'; did you"
        " mean 'info'?",
        f"{file}streams[0].name = 'a b' {refused} 1 to 64 letters, digits, '.', '_' or '-', the"
        " first a letter or digit",
        f"{file}streams[0].learner.warm is not known: known are 'algorithm',"
        " 'deadline_seconds', 'max_tests'",
        f"{file}streams[0].window = '5000' {refused} rows such as 5000, without quotes, or a length"
        " such as '30s', '15min', '1h'",
        f"{file}streams[0].audit_share = 'x' {refused} a number from 0 to 1, without quotes",
        f"{file}streams[0].learner.max_test is not known: did you mean 'max_tests'?",
        f"{file}streams[0].learner.max_tests = 0 {refused} an integer from 1",
        f"{file}streams[0].source.path is missing: a file, a directory or a glob",
        f"{file}streams[0].source.pth is not known: did you mean 'path'?",
        f"{file}streams[1].windows_between_false_alarms = 5 {refused} left out where alpha is"
        " given",
        f"{file}streams[1].source.kind = 'kafak' {refused} one of 'stdin', 'files', 'http',"
        " 'kafka', 'redis'; did you mean 'kafka'?",
        f"{file}streams[2].source.kind is missing: it must be one of 'files', 'http', 'kafka',"
        " 'redis', 'stdin'",
        f"{file}outlets[0].types = [] {refused} a list of at least 1",
        f"{file}outlets[0].path = 5 {refused} a path in quotes",
        f"{file}outlets[1].url = 'http://host' {refused} an address redis://HOST, rediss://HOST or"
        " unix://PATH",
        f"{file}streams[2].name = 'B' {refused} another name than that of streams[1]",
    )


KAFKA = {"kind": "kafka", "brokers": ["b"], "topic": "t"}


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"resident": 0}, "resident = 0 is not allowed: it must be 1 or more"),
        ({"resident": True}, "resident = true is not allowed: it must be an integer"),
        ({"key": ""}, "key = '' is not allowed: it must be text that is not empty"),
        ({"alfa": 0.1}, "alfa is not known: did you mean 'alpha'?"),
        (
            {"quiet_returns": "yes"},
            "= 'yes' is not allowed: it must be true or false, without",
        ),
        ({"learner": {"algorithm": "x"}}, "learner.algorithm = 'x' is not allowed: it must be one"),
        ({"learner": {"algorithm": "pc-original"}}, "algorithm = 'pc-original' is not allowed"),
        ({"learner": 5}, "learner = 5 is not allowed: it must be a table"),
        ({"decision": {"alpha": 1}}, "decision is not known: its settings, alpha and the others,"),
        ({"schema": {"keep_constant": True}}, "schema.keep_constant is not known"),
        ({"learner": {"alpha": 0.1}}, "learner.alpha is not known: a daemon always keeps to its"),
        ({"reference_windows": 4}, "reference_windows is not known: a daemon always keeps to its"),
        ({"window": {"seconds": 60}}, "time_column is missing: it must be the field with event"),
        ({"window": {"step": 9000}}, "window.step = 9000 is not allowed"),
        ({"window": 0}, "window.size = 0 is not allowed: it must be an integer from 1"),
        ({"knowledge": {"required": [["a"]]}}, "knowledge.required = ['a'] is not allowed"),
        ({"key": "k", "target": "k"}, "target = 'k' is not allowed: it must be another"),
        ({"on_error": "x"}, "on_error is not known"),
        ({"dependent_rows": True}, "dependent_rows is not known"),
        ({"source": 5}, "source = 5 is not allowed: it must be a table"),
        ({"source": {"kind": "stdin", "format": "arrow"}}, "it must be one of 'ndjson', 'csv'"),
        ({"source": KAFKA | {"brokers": []}}, "source.brokers = [] is not allowed: it must be a"),
        ({"source": KAFKA | {"partitions": "each"}}, "partitions = 'each' is not allowed: it must"),
        ({"name": "x" * 300}, "…"),
    ],
)
def test_a_bad_stream_is_told_with_path_value_and_what_is_allowed(
    write: Write, table: dict[str, Any], expected: str
) -> None:
    one = {"name": "orders", "source": {"kind": "stdin"}} | table
    (line,) = lines_of(write(f"service.state_dir = 'x'\n[[streams]]\n{tree_text(one)}"))
    assert line.startswith("driftbn.toml: streams[0].")
    assert expected in line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[service]\nstate_dir = \n", "driftbn.toml: is not TOML: Invalid value (at line 2, col"),
        ("", "driftbn.toml: service is missing: the process"),
        (MINIMAL + "[sevrice]\nx = 1", "driftbn.toml: sevrice is not known: did you mean"),
        (MINIMAL + "[other]\nx = 1", "driftbn.toml: other is not known: known are 'service', "),
        ('streams = 5\nservice = {state_dir = "x"}', "streams = 5 is not allowed: it must be a"),
        ('streams = []\nservice = {state_dir = "x"}', "it must be a list of at least 1"),
        (
            MINIMAL.replace("streams", "monitors"),
            "driftbn.toml: monitors is not known: the tables of streams are called [[streams]] now",
        ),
        (
            f"{MINIMAL}[[streams]]\nname = 'b'\nsource = {{kind = 'stdin'}}",
            "streams[1].source.kind = 'stdin' is not allowed: it must be another: standard input",
        ),
        (
            MINIMAL.replace("stdin", "http") + "[endpoint]\nenabled = false",
            "streams[0].source.kind = 'http' is not allowed: it must be another where endpoint",
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
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.lists(st.integers() | st.text(max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
)
WORDS = st.sampled_from(["window", "learner", "knowledge", "schema", "alpha", "tiers", "required"])


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(sorted(TREE)), data=st.data())
def test_whatever_a_file_holds_there_is_nothing_but_a_settings_error(
    tmp_path: Path, name: str, data: st.DataObject
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
            node[data.draw(st.just(step) | st.text(max_size=6) | WORDS)] = data.draw(ODD)
        elif known:
            node[step] = data.draw(ODD)
    path = tmp_path / "driftbn.toml"
    path.write_text(tree_text({json.dumps(key): value for key, value in tree.items()}))
    lines: tuple[str, ...] = ()
    try:
        load_settings(path, {})
    except SettingsError as error:
        lines = error.lines
    assert all(line.isprintable() for line in lines)


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
        + '[[outlets]]\nkind = "file"\npath = "e.ndjson"'
    )
    monkeypatch.chdir(tmp_path.parent)
    settings = load_settings(Path(tmp_path.name) / path.name, {})
    assert settings.service.state_dir == tmp_path / "state"
    assert settings.streams[0].source.path == str(tmp_path / "records/*.csv")  # type: ignore[union-attr]
    assert settings.outlets[0].path == tmp_path / "e.ndjson"  # type: ignore[union-attr]


def test_variables_are_read_from_a_file_beside_the_settings(write: Write, tmp_path: Path) -> None:
    schema = Schema([Variable("b", VariableKind.BOOLEAN, ("false", "true"))])
    path = write(MINIMAL.replace('name = "orders"', 'name = "orders"\nvariables = "schema.json"'))
    assert "streams[0].variables = 'schema.json'" in lines_of(path)[0]
    (tmp_path / "schema.json").write_text("[")
    assert "it must be a schema as JSON" in lines_of(path)[0]
    (tmp_path / "schema.json").write_text(json.dumps(schema.to_dict()))
    settings = load_settings(path, {})
    (tmp_path / "schema.json").unlink()
    assert settings.streams[0].monitor_config().variables == schema


def test_a_directory_with_brackets_is_no_glob(tmp_path: Path) -> None:
    directory = tmp_path / "a[1]"
    directory.mkdir()
    path = directory / "driftbn.toml"
    for pattern, expected in (("*.csv", "a[[]1]/*.csv"), ("x.csv", "a[1]/x.csv")):
        path.write_text(MINIMAL.replace('"stdin"', f'"files"\npath = "{pattern}"'))
        source = load_settings(path, {}).streams[0].source
        assert source.path == str(tmp_path / expected)  # type: ignore[union-attr]


# The environment


def test_variables_override_the_file(write: Write) -> None:
    path = write(MINIMAL + "[log]\nlevel = 'error'\n[[outlets]]\nkind = 'log'\n")
    environ = {
        "DRIFTBN__SERVICE__EXIT_WHEN_DRAINED": "true",
        "DRIFTBN__LOG__LEVEL": "debug",
        "DRIFTBN__STREAMS__orders__WINDOW": "1000",
        "DRIFTBN__STREAMS__0__LEARNER__MAX_TESTS": "900",
        "DRIFTBN__OUTLETS__LOG__TYPES": '["io.driftbn.drift.ended.v1"]',
        "DRIFTBN_OTHER": "x",
    }
    settings = load_settings(path, environ)
    assert settings.service.exit_when_drained
    assert settings.log.level == "debug"
    assert settings.streams[0].monitor.windows.size == 1000
    assert settings.streams[0].monitor.learner.max_tests == 900
    assert settings.outlets[0].types == ("io.driftbn.drift.ended.v1",)


def test_the_environment_alone_can_be_enough() -> None:
    environ = {
        "DRIFTBN__STREAMS__10__NAME": "l",
        **{f"DRIFTBN__STREAMS__{i}__NAME": name for i, name in enumerate("abcdefghij")},
        **{f"DRIFTBN__STREAMS__{i}__SOURCE__KIND": "http" for i in range(11)},
        "DRIFTBN__SERVICE__STATE_DIR": "state",
    }
    settings = load_settings(None, dict(sorted(environ.items())))
    assert [one.name for one in settings.streams] == list("abcdefghijl")
    assert settings.service.state_dir == Path("state")


def test_names_are_found_as_a_shell_can_write_them(write: Write) -> None:
    path = write(MINIMAL.replace("orders", "eu.orders-1"))
    environ = {"DRIFTBN__STREAMS__EU_ORDERS_1__WINDOW": "77"}
    assert load_settings(path, environ).streams[0].monitor.windows.size == 77


@pytest.mark.parametrize("text", ["12345", "true", "2026-01-01", "1e5", "0x10", 'a"b', "a\nb=1"])
def test_where_text_is_wanted_a_variable_is_taken_as_written(write: Write, text: str) -> None:
    environ = {
        "DRIFTBN__ENDPOINT__TOKEN": text,
        "DRIFTBN__STREAMS__0__TARGET": text,
        "DRIFTBN__OUTLETS__0__HEADERS__X": text,
    }
    path = write(MINIMAL + "[[outlets]]\nkind = 'webhook'\nurl = 'http://host'")
    settings = load_settings(path, environ)
    assert settings.streams[0].monitor.target == text
    assert settings.outlets[0].headers == {"x": text}  # type: ignore[union-attr]
    assert settings.endpoint.token is not None
    assert settings.endpoint.token.get_secret_value() == text


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("SERVIC__X", "1", "servic is not known: did you mean 'service'?"),
        ("SERVICE__STATEDIR", "x", "service.statedir is not known: did you mean 'state_dir'?"),
        ("STORE__KEEP_WINDOWS", "abc", "store.keep_windows = 'abc' is not allowed"),
        ("STREAMS__0__WINDOW", '"5"', "streams[0].window = '5' is not allowed"),
        ("STREAMS__0__LEARNER__MAX_TEST", "5", "learner.max_test is not known: did you mean"),
        ("STREAMS__sales__WINDOW", "5", "there are 'orders', not sales"),
        ("STREAMS__2__NAME", "x", "there are 'orders', not 2"),
        ("STREAMS__0", "x", "the name of a key must follow"),
        ("STREAMS__0__NAME__X", "x", "NAME is one value and has no parts"),
        ("MONITORS__orders__WINDOW", "5", "the tables of streams are called [[streams]] now"),
        ("SERVICE____X", "x", "names parted by two underscores"),
        ("LOG", "x", "log = 'x' is not allowed: it must be a table"),
        ("LOG__LEVEL", "\udcff", "text in UTF-8"),
    ],
)
def test_a_wrong_variable_is_named(write: Write, name: str, text: str, expected: str) -> None:
    (line,) = lines_of(write(MINIMAL), {f"DRIFTBN__{name}": text})
    assert line.startswith(f"DRIFTBN__{name}: ")
    assert expected in line


def test_mistakes_of_file_and_variables_are_told_together(write: Write) -> None:
    path = write(MINIMAL + "[log]\nlevel = 'x'")
    lines = lines_of(path, {"DRIFTBN__X__Y": "1", "DRIFTBN__STREAMS__z__X": ""})
    blamed = [line.partition(":")[0] for line in lines]
    assert blamed == ["DRIFTBN__STREAMS__z__X", "driftbn.toml", "DRIFTBN__X__Y"]


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
        (None, "a file that can be read (No such file or directory)"),
        (b"\n", "a file with the secret in it; it is empty"),
        (b"\xff", "a file of text in UTF-8"),
        (b"x" * 70_000, "a file of at most 65536 bytes"),
    ],
)
def test_a_file_without_a_secret_is_told(
    write: Write, tmp_path: Path, content: bytes | None, expected: str
) -> None:
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    (line,) = lines_of(write(with_token_file("token")))
    refused = "driftbn.toml: endpoint.token_file = 'token' is not allowed: it must be"
    assert line == f"{refused} {expected}"


def test_a_secret_is_given_once_and_from_outside_takes_the_place_of_that_of_the_file(
    write: Write, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("of-file")
    path = write(with_token_file("token") + '\ntoken = "other"')
    (line,) = lines_of(path)
    assert "endpoint.token_file = 'token' is not allowed: it must be left out where token" in line
    for name, value, expected in (("TOKEN", "mine", "mine"), ("TOKEN_FILE", "token", "of-file")):
        settings = load_settings(path, {f"DRIFTBN__ENDPOINT__{name}": value})
        assert settings.endpoint.token is not None
        assert settings.endpoint.token.get_secret_value() == expected


def test_the_address_of_the_database_is_a_secret(write: Write, tmp_path: Path) -> None:
    (tmp_path / "database").write_text("postgresql://driftbn:geheim@db/driftbn\n")
    text = MINIMAL.replace("[[streams]]", 'database_file = "database"\n[[streams]]')
    settings = load_settings(write(text), {})
    assert place_of(settings.service) == "postgresql://driftbn:geheim@db/driftbn"
    assert "geheim" not in repr(settings)
    (tmp_path / "database").write_text("mysql://driftbn:geheim@db/driftbn")
    (line,) = lines_of(write(text))
    assert "service.database" in line
    assert "an address postgresql://user:password@host/name" in line
    assert "geheim" not in line
    assert place_of(load_settings(write(MINIMAL), {}).service) == tmp_path / "state" / FILE


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
        [[streams]]
        name = "b"
        window = {seconds = 60, min_rows = 5}
        time_column = "at"
        min_effect = 0.5
        learner = {max_tests = 900, algorithm = "pc"}
        knowledge = {required = [["a", "b c"]], tiers = [["a"], ["b", "c"]]}
        [streams.source]
        kind = "kafka"
        brokers = ["b:1"]
        topic = "t"
        options = {"a.b" = 5}
        [[outlets]]
        kind = "file"
        path = "x"
        """
    )
    for one, printed in zip((path, *EXAMPLES), itertools.repeat(tmp_path / "p.toml"), strict=False):
        loaded = read_settings(one, {"DRIFTBN__LOG__LEVEL": "debug"})
        printed.write_text(settings_toml(loaded))
        assert load_settings(printed, {}) == loaded.settings


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


# The files that come with driftbn


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_file_in_configs_is_fine(path: Path) -> None:
    settings = load_settings(path, {})
    assert remarks(settings) == ()
    assert settings.service.state_dir.is_relative_to(CONFIGS)


def test_default_settings_are_the_defaults() -> None:
    settings = load_settings(CONFIGS / "default.toml", {})
    state_dir = {"state_dir": CONFIGS / "driftbn-state"}
    assert settings == Settings(service=state_dir, streams=[stream()])  # type: ignore[arg-type]


PARTS = {"window": "WindowConfig", "learner": "LearnerConfig", "schema": "SchemaConfig"}


def tables() -> dict[tuple[str, str], dict[str, Any]]:
    """Return the tables that there are by name and kind, as the JSON schema describes them."""
    known = settings_schema()["$defs"]
    single = ("service", "endpoint", "checkpoint", "store", "log")
    found = {(name, ""): known[f"{name.title()}Settings"] for name in single}
    found |= {("streams", ""): known["StreamSettings"]}
    found |= {(f"streams.{name}", ""): known[kind] for name, kind in PARTS.items()}
    found |= {("streams.knowledge", ""): known["Knowledge"]}
    for name, ending in (("streams.source", "SourceSettings"), ("outlets", "OutletSettings")):
        kinds = [table for key, table in known.items() if key.endswith(ending)]
        found |= {(name, table["properties"]["kind"]["const"]): table for table in kinds}
    return found


def described() -> dict[tuple[str, str], dict[str, tuple[str, object, str]]]:
    """Return text, value and mark of each setting in default.toml, commented out or not."""
    found: list[tuple[str, dict[str, tuple[str, object, str]]]] = []
    words: list[str] = []
    for line in (CONFIGS / "default.toml").read_text().splitlines():
        if header := re.fullmatch(r"#?\[+([a-z.]+)\]+", line):
            found.append((header[1], {}))
        elif setting := re.fullmatch(r"#?((\w+) = .*?)(?:  # (needed|not set))?", line):
            value = tomllib.loads(setting[1])[setting[2]]
            found[-1][1][setting[2]] = (" ".join(words), value, setting[3] or "")
        words = [*words, line[2:]] if line.startswith("# ") else []
    return {(name, str(keys.get("kind", ("", ""))[1])): keys for name, keys in found}


def test_default_settings_name_and_describe_every_setting_at_its_default() -> None:
    assert described().keys() == tables().keys()
    for place, table in tables().items():
        settings = dict(described()[place])
        for name, wanted in table["properties"].items():
            if name in ("kind", "source") or ("$ref" in wanted and "default" not in wanted):
                settings.pop(name, None)
                continue
            text, value, mark = settings.pop(name)
            assert text == wanted["description"].replace("``", '"'), name
            if name in table.get("required", ()):
                assert mark == "needed", name
            elif wanted.get("default") is None and "default" in wanted:
                assert mark == "not set", name
            elif "default" in wanted:
                assert (value, mark) == (wanted["default"], ""), name
        assert not settings


def test_there_are_about_eighty_settings() -> None:
    known = {
        (name, wanted["description"])
        for table in tables().values()
        for name, wanted in table["properties"].items()
        if name not in ("kind", "source", "window", "learner", "schema", "knowledge")
    }
    assert len(known) <= 81
