"""What is compiled is kept, is found again wherever it is taken to, and is true to its source."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from driftbn.kernels import compiled

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
CALL = """
import numpy as np
from driftbn.kernels.orientation import list_apart

empty = np.zeros((2, 2), np.bool_)
none = np.zeros(0, np.int64)
for _ in range(2):
    list_apart(empty, np.zeros(3, np.int64), none, empty.copy())
print(*(sum(list_apart.stats[which].values()) for which in (1, 2)))
"""
LOADED, COMPILED = "1 0\n", "0 1\n"
COMPILING = "compiling kernels, once after installation"
NOT_KEPT = "set NUMBA_CACHE_DIR to a directory that can be written"


class Ran(NamedTuple):
    out: str
    err: str


def environment_in(directory: Path) -> dict[str, str]:
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "XDG_"))}
    return keep | {"PYTHONPATH": str(directory), "HOME": str(directory)}


def call(directory: Path, *, before: tuple[str, ...] = (), **environment: str) -> Ran:
    """Call a kernel of the library as it is in a directory."""
    ended = subprocess.run(
        [*before, sys.executable, "-B", "-c", CALL],
        env=environment_in(directory) | environment,
        cwd=directory,
        check=True,
        capture_output=True,
        text=True,
    )
    return Ran(ended.stdout, ended.stderr)


def copy(source: Path, target: Path, *ignored: str) -> Path:
    """Copy the library without the times of its files."""
    ignore = shutil.ignore_patterns(*ignored)
    parts = source / "driftbn", target / "driftbn"
    shutil.copytree(*parts, ignore=ignore, copy_function=shutil.copyfile)
    return target


def call_read_only(directory: Path) -> Ran:
    """Call a kernel where nothing can be written."""
    for path in (directory, *directory.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)
    # To root a mode is no barrier unless it gives the privilege away.
    is_root = os.geteuid() == 0
    return call(directory, before=("setpriv", "--bounding-set=-dac_override") * is_root)


@pytest.fixture
def cold(tmp_path: Path) -> Path:
    return copy(ROOT, tmp_path / "cold", "__pycache__")


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    path = copy(ROOT, tmp_path_factory.mktemp("kernels"), "__pycache__")
    return path, call(path)


@pytest.fixture
def warm(compiled_once: tuple[Path, Ran], tmp_path: Path) -> Path:
    return copy(compiled_once[0], tmp_path / "warm")


def test_compiling_is_told_once_and_loading_is_not(compiled_once: tuple[Path, Ran]) -> None:
    path, first = compiled_once
    assert (first.out, first.err.count(COMPILING)) == (COMPILED, 1)
    assert call(path) == (LOADED, "")


def test_a_terminal_shows_which_kernel_is_compiled(cold: Path) -> None:
    ours, terminal = pty.openpty()
    command = [sys.executable, "-B", "-c", CALL]
    subprocess.run(command, env=environment_in(cold), cwd=cold, check=True, stderr=terminal)
    os.close(terminal)
    seen = os.read(ours, 10_000).decode()
    os.close(ours)
    told = "".join(
        rf"\rcompiling kernels, 0 of \d+: {name} +"
        for name in (
            r"orientation\.list_apart",
            "list_apart, optimizing",
            "list_apart, machine code",
        )
    )
    assert re.search(rf"{told}\r +\r$", seen)


def test_a_copy_takes_what_was_compiled_with_it(warm: Path) -> None:
    assert call(warm) == (LOADED, "")


def test_a_chosen_directory_serves_every_copy(cold: Path, tmp_path: Path) -> None:
    other, chosen = copy(cold, tmp_path / "other"), str(tmp_path / "chosen")
    assert call(cold, NUMBA_CACHE_DIR=chosen).out == COMPILED
    assert call(other, NUMBA_CACHE_DIR=chosen) == (LOADED, "")


def test_an_edit_of_another_file_compiles_a_kernel_again(warm: Path) -> None:
    with (warm / "driftbn/kernels/counting.py").open("a") as file:
        file.write("# edited\n")
    assert [call(warm).out, call(warm).out] == [COMPILED, LOADED]


def test_an_edit_of_any_source_of_kernels_changes_the_stamp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("kernels/compiled.py", "kernels/a.py", "elsewhere/c.py")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x = 1")
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "kernels/compiled.py"))
    stamps = {compiled._stamp.__wrapped__(tmp_path / "elsewhere")}
    for name in names:
        (tmp_path / name).write_text("x = 2")
        stamps.add(compiled._stamp.__wrapped__(tmp_path / "elsewhere"))
    assert len(stamps) == 1 + len(names)


def test_a_damaged_file_is_compiled_again(warm: Path) -> None:
    for path in (warm / "driftbn/kernels/__pycache__").glob("orientation.list_apart*"):
        path.write_bytes(path.read_bytes()[:-1])
    assert [call(warm).out, call(warm).out] == [COMPILED, LOADED]


def test_kernels_run_where_nothing_can_be_written(cold: Path) -> None:
    ran = call_read_only(cold)
    assert (ran.out, ran.err.count(NOT_KEPT)) == (COMPILED, 1)


def test_what_was_compiled_before_is_loaded_where_nothing_can_be_written(warm: Path) -> None:
    assert call_read_only(warm) == (LOADED, "")


def test_who_has_no_home_gets_none_in_the_current_directory(cold: Path) -> None:
    (cold / "driftbn/kernels/__pycache__").touch()  # a file where a directory would be
    ran = call(cold, HOME="nowhere")
    assert (ran.out, ran.err.count(NOT_KEPT)) == (COMPILED, 1)
    assert [path.name for path in cold.iterdir()] == ["driftbn"]
