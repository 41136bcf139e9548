from __future__ import annotations

import re
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from driftbn_service.cli import ExitCode, main
from driftbn_service.commands.settings import SOURCES

import driftbn
from tests.commands import Run, failed

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("source", SOURCES)
def test_what_is_written_to_begin_with_holds(run: Run, tmp_path: Path, source: str) -> None:
    ran = run("init", source, "--directory", tmp_path)
    assert ran.code == 0
    for name in ran.out.split("\n")[:-1]:
        assert Path(name).read_bytes()
    settings = tmp_path / "driftbn.toml"
    assert f'kind = "{source}"' in settings.read_text()
    assert "configs/" not in settings.read_text()
    assert "kafka.toml" not in settings.read_text()
    checked = run("check", "--config", settings)
    assert checked.code == 0, checked.err


def test_nothing_is_replaced_unless_asked(run: Run, tmp_path: Path) -> None:
    settings = tmp_path / "driftbn.toml"
    settings.write_text("mine")
    failed(run("init", "--directory", tmp_path), 1, str(settings), "--force")
    assert settings.read_text() == "mine"
    assert run("init", "--directory", tmp_path, "--force").code == 0
    assert settings.read_text() != "mine"


MANIFESTS = ("driftbn.yaml", "many.yaml")


def manifests(name: str) -> list[dict[str, object]]:
    text = (ROOT / "configs/kubernetes" / name).read_text()
    return list(yaml.safe_load_all(text))


ALL = [
    pytest.param(manifest, id=f"{manifest['kind']} of {name}")
    for name in MANIFESTS
    for manifest in manifests(name)
]


@pytest.mark.parametrize("manifest", ALL)
def test_manifests_are_what_kubernetes_takes(manifest: dict[str, object]) -> None:
    kubernetes_validate.validate(manifest, "1.31", strict=True)


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_settings_in_the_manifests_hold(run: Run, tmp_path: Path, name: str) -> None:
    data = manifests(name)[0]["data"]
    assert isinstance(data, dict)
    secrets = {"token": "0123456789abcdef" * 2, "database": "postgresql://driftbn:x@db/driftbn"}
    for secret, text in secrets.items():
        (tmp_path / secret).write_text(text)
        (tmp_path / secret).chmod(0o600)
    path = tmp_path / "driftbn.toml"
    text = data["driftbn.toml"]
    assert "/etc/driftbn-" in text
    path.write_text(re.sub("/etc/driftbn-[a-z]*/", f"{tmp_path}/", text))
    checked = run("check", "--config", path)
    assert checked.code == 0, checked.err


def test_there_is_one_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == ExitCode.OK
    assert capsys.readouterr().out == f"driftbn {driftbn.__version__}\n"
    files = [f"configs/kubernetes/{name}" for name in MANIFESTS]
    for place in (*files, ".github/CITATION.cff", "CHANGELOG.md"):
        assert driftbn.__version__ in (ROOT / place).read_text(), place


def test_every_public_name_is_found() -> None:
    for name in driftbn.__all__:
        assert getattr(driftbn, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        driftbn.nothing  # noqa: B018
