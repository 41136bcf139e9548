"""Every command works without the packages it does not need, and names what it lacks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import NamedTuple

import pytest
from driftbn_service.cli import ExitCode
from driftbn_service.errors import EXTRAS

from driftbn.datasets import asia, sample

ROOT = Path(__file__).parents[2]
COMMANDS = """
import contextlib, io, json, sys

missing, commands = json.load(sys.stdin)
sys.modules.update(dict.fromkeys(missing))  # as if they were not installed
from driftbn_service.cli import main

outcomes = []
for words in commands:
    with contextlib.redirect_stderr(io.StringIO()) as told:
        try:
            code = main(words)
        except SystemExit as ended:
            code = ended.code
    outcomes.append((code, told.getvalue()))
sys.stdout.write("\\n" + json.dumps(outcomes))
"""
STREAM = """
service.state_dir = "state"
[[streams]]
name = "orders"
source = {kind = "kafka", brokers = ["b:1"], topic = "orders"}
[[outlets]]
kind = "redis"
[[outlets]]
kind = "opentelemetry"
url = "http://127.0.0.1:4318"
"""
CHECK, RUN = "check --config s.toml", "run --config s.toml"
REPORT = "report --stream orders"
WORK = (
    "--help",
    "version",
    "learn t.csv",
    "diff t.csv t.csv",
    "replay t.csv --window 1000",
    "calibrate t.csv --window 1000",
)


class Outcome(NamedTuple):
    code: int
    err: str


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("extras")
    sample(asia(), 3000, seed=1).astype(str).to_csv(path / "t.csv", index=False)
    (path / "s.toml").write_text(STREAM)
    return path


def outcomes(directory: Path, missing: tuple[str, ...], commands: tuple[str, ...]) -> list[Outcome]:
    """Run commands in a process that has none of the packages; a traceback fails."""
    ended = subprocess.run(
        [sys.executable, "-c", COMMANDS],
        input=json.dumps([missing, [words.split() for words in commands]]),
        cwd=directory,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return [Outcome(*one) for one in json.loads(ended.stdout.splitlines()[-1])]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extra", "commands"),
    [
        ("service", ("demo", RUN, CHECK, "check --json-schema", REPORT)),
        ("png", ("learn t.csv --format png", "diff t.csv t.csv --png p", f"{REPORT} --png p")),
    ],
)
def test_a_command_says_in_one_line_what_to_install(
    directory: Path, extra: str, commands: tuple[str, ...]
) -> None:
    for words, ran in zip(commands, outcomes(directory, EXTRAS[extra], commands), strict=True):
        assert ran.code == ExitCode.FAILED, words
        *notes, line = ran.err.splitlines()
        assert line.startswith("driftbn: error: "), words
        assert line.endswith(f" needs the extra {extra!r}: pip install 'driftbn[{extra}]'"), words
        assert not notes, words


@pytest.mark.slow
def test_without_any_extra_whatever_needs_none_works(directory: Path) -> None:
    missing = tuple(package for packages in EXTRAS.values() for package in packages)
    for words, ran in zip(WORK, outcomes(directory, missing, WORK), strict=True):
        assert ran.code == ExitCode.OK, (words, ran.err)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extra", "field"),
    [
        ("kafka", "streams[0].source.kind"),
        ("redis", "outlets[0].kind"),
        ("opentelemetry", "outlets[1].kind"),
    ],
)
def test_settings_that_need_an_extra_are_refused_without_it(
    directory: Path, extra: str, field: str
) -> None:
    checked, ran = outcomes(
        directory, EXTRAS[extra], ["check --config s.toml", "run --config s.toml"]
    )
    assert checked == ran
    assert ran.code == ExitCode.CONFIG
    (line,) = ran.err.splitlines()
    assert line.startswith(f"driftbn: error: s.toml: {field} = ")
    assert f"pip install 'driftbn[{extra}]'" in line


def test_every_package_of_an_extra_is_known() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    modules = packages_distributions()
    for extra, packages in EXTRAS.items():
        needed = {
            re.split(r"[\[<>=!~ ]", requirement)[0]
            for requirement in project["optional-dependencies"][extra]
        } - {"driftbn"}
        found = {name.replace("_", "-") for package in packages for name in modules[package]}
        assert needed <= found
        assert found == needed or extra in ("opentelemetry", "spark")  # a name that many share


@pytest.mark.slow
def test_nothing_is_imported_that_only_some_need() -> None:
    code = """
import sys, driftbn
assert "pandas" not in sys.modules
import driftbn.monitor, driftbn.report, driftbn_service.cli
sys.exit(bool({"river", "pyspark", "networkx"} & {*sys.modules}))
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
