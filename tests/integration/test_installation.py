"""What an installation puts into a user's site-packages."""

import importlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from driftbn_service.commands.settings import BESIDE, SOURCES

import driftbn

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from the sdist, which is what an index would serve."""
    directory = tmp_path_factory.mktemp("built")
    build = [sys.executable, "-m", "build", "--outdir", str(directory), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (path,) = directory.glob("*.whl")
    return path


def test_a_wheel_holds_two_packages_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"driftbn", "driftbn_service"}


def test_a_wheel_carries_types_and_what_init_writes(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {"driftbn/py.typed", "driftbn_service/py.typed"} <= names
    wanted = {f"driftbn_service/configs/{source}.toml" for source in SOURCES.values()}
    wanted |= {f"driftbn_service/configs/{name}" for name in BESIDE}
    assert wanted <= names


def test_an_installed_wheel_runs_by_both_names(wheel: Path, tmp_path: Path) -> None:
    where = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--quiet", "--target"]
    subprocess.run([*install, str(where), str(wheel)], check=True)
    look = "import driftbn, driftbn_service; print(driftbn.__file__, driftbn_service.__file__)"
    isolated = {"cwd": tmp_path, "env": {"PYTHONPATH": str(where), "HOME": str(tmp_path)}}
    found = subprocess.run(
        [sys.executable, "-c", look], check=True, capture_output=True, text=True, **isolated
    )
    assert all(Path(path).is_relative_to(where) for path in found.stdout.split())
    for command in (
        [sys.executable, "-m", "driftbn_service"],
        [sys.executable, "-m", "driftbn"],
        [sys.executable, where / "bin/driftbn"],
    ):
        done = subprocess.run([*command, "version"], capture_output=True, text=True, **isolated)
        assert done.stdout.startswith("driftbn "), done.stderr
    told = subprocess.run([*command, "--version"], capture_output=True, text=True, **isolated)
    assert told.stdout == f"driftbn {driftbn.__version__}\n"
    subprocess.run([*command, "init", "kafka", "--directory", "new"], check=True, **isolated)
    for name in BESIDE:
        assert (tmp_path / "new" / name).read_bytes() == (ROOT / "configs" / name).read_bytes()


def test_an_editable_installation_has_types_and_runs_by_its_modules(tmp_path: Path) -> None:
    for module in ("driftbn", "driftbn_service"):
        done = subprocess.run(
            [sys.executable, "-m", module, "--version"],
            cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout == f"driftbn {driftbn.__version__}\n"
        (folder,) = importlib.import_module(module).__path__
        assert (Path(folder) / "py.typed").exists()
